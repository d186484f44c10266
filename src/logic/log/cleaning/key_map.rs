//! The newest offset of each key, in memory of a fixed size: keys are kept as 128-bit hashes. Knows
//! nothing of batches.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::ids::Offset;

/// Bytes of memory for one key.
pub const SLOT_BYTES: usize = size_of::<Slot>();
/// Of a hundred slots so many are used at most, so that a key is found in a few steps.
const LOAD_PERCENT: usize = 90;

/// Hashes a key. Two keys with one hash would be taken for one and the older record dropped, so the
/// hash must be one that no client can aim at: keyed, with a key of its own for each map.
pub type Hash = Box<dyn Fn(&[u8]) -> [u64; 2]>;

/// A key's hash, and one past its newest offset; 0 there in a free slot, so that a map that is made
/// large and stays nearly empty costs no memory.
type Slot = [u64; 3];

/// Keys and their newest offsets.
pub struct KeyMap {
    slots: Vec<Slot>,
    used: usize,
    hash: Hash,
}

impl KeyMap {
    /// A map in at most `bytes`, and with no more slots than `keys_max` keys need. At least one key
    /// fits.
    pub fn new(bytes: usize, keys_max: u64, hash: Hash) -> Self {
        let wanted = keys_max.saturating_mul(100) / LOAD_PERCENT as u64 + 2;
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let count = (bytes / SLOT_BYTES).min(wanted).max(2);
        Self {
            slots: vec![[0; 3]; count],
            used: 0,
            hash,
        }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// How many more keys there is room for.
    pub fn room(&self) -> usize {
        (self.slots.len() * LOAD_PERCENT / 100).max(1) - self.used
    }

    /// Notes that a key has a record at this offset, which is above all noted before. `false` when
    /// the key is new and there is no room for it.
    pub fn insert(&mut self, key: &[u8], offset: Offset) -> bool {
        let [first, second] = (self.hash)(key);
        let at = self.find([first, second]);
        if self.slots[at][2] == 0 {
            if self.room() == 0 {
                return false;
            }
            self.used += 1;
        }
        self.slots[at] = [first, second, offset.0.cast_unsigned() + 1];
        true
    }

    /// The newest offset noted for a key.
    pub fn get(&self, key: &[u8]) -> Option<Offset> {
        let [.., end] = self.slots[self.find((self.hash)(key))];
        Some(Offset(end.checked_sub(1)?.cast_signed()))
    }

    /// The slot that has this hash, or the free one where it belongs.
    fn find(&self, hash: [u64; 2]) -> usize {
        let count = self.slots.len();
        let mut at = (hash[0] % count as u64) as usize;
        loop {
            let [first, second, end] = self.slots[at];
            if end == 0 || [first, second] == hash {
                return at;
            }
            at = (at + 1) % count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::samples::hash;

    #[test]
    fn the_newest_offset_of_each_key_is_known() {
        let mut map = KeyMap::new(1 << 20, 1_000, hash());
        for round in 0..3_i64 {
            for key in 0..1_000_i64 {
                assert!(map.insert(&key.to_be_bytes(), Offset(round * 1_000 + key)));
            }
        }
        assert_eq!(map.len(), 1_000);
        for key in 0..1_000_i64 {
            assert_eq!(map.get(&key.to_be_bytes()), Some(Offset(2_000 + key)));
        }
        assert_eq!(map.get(b"other"), None);
    }

    #[test]
    fn a_full_map_takes_known_keys_only_and_keeps_to_its_memory() {
        let mut map = KeyMap::new(10 * SLOT_BYTES, u64::MAX, hash());
        let taken = (0..20_u8).filter(|key| map.insert(&[*key], Offset(1)));
        assert_eq!(taken.count(), 9);
        assert_eq!(map.slots.len(), 10);
        assert!(map.insert(&[0], Offset(7)));
        assert_eq!(map.get(&[0]), Some(Offset(7)));
        assert!(!map.insert(&[19], Offset(8)));
    }
}
