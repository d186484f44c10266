//! The two sparse indexes of a segment in Kafka's file format: offset to position, and timestamp to
//! offset. Caches of what the segment says, never the truth. Knows no files.

use alloc::vec::Vec;

use crate::ids::{Offset, Timestamp};

/// Bytes of one `.index` entry: relative offset and position, big-endian `i32` both.
pub const OFFSET_ENTRY_BYTES: usize = 8;
/// Bytes of one `.timeindex` entry: timestamp `i64` and relative offset `i32`, big-endian.
pub const TIME_ENTRY_BYTES: usize = 12;

/// A batch's last offset, relative to the segment's base, and where the batch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetEntry {
    /// Last offset of the batch less the segment's base offset.
    pub relative: u32,
    /// Byte position of the batch in the segment.
    pub position: u32,
}

/// The largest timestamp so far and the offset of its record, relative to the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeEntry {
    /// The timestamp.
    pub timestamp: Timestamp,
    /// The offset less the segment's base offset.
    pub relative: u32,
}

/// The sparse offset index of one segment: both fields strictly increase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetIndex {
    entries: Vec<OffsetEntry>,
}

impl OffsetIndex {
    /// Adds the batch that starts at `position`. An entry that does not increase is left out.
    pub fn push(&mut self, relative: u32, position: u32) {
        let grows = |last: &OffsetEntry| relative > last.relative && position > last.position;
        if self.entries.last().is_none_or(grows) {
            self.entries.push(OffsetEntry { relative, position });
        }
    }

    /// Where to start walking for the batch that holds `relative`: the last entry whose batch does
    /// not lie beyond it, or the segment's start.
    pub fn floor(&self, relative: u32) -> u32 {
        let after = self
            .entries
            .partition_point(|entry| entry.relative <= relative);
        after
            .checked_sub(1)
            .map_or(0, |at| self.entries[at].position)
    }

    /// The entry of the batch that starts at `position`, if it has one.
    pub fn at(&self, position: u32) -> Option<OffsetEntry> {
        let at = self
            .entries
            .binary_search_by_key(&position, |entry| entry.position);
        at.ok().map(|at| self.entries[at])
    }

    /// The last batch start known in `from < position <= to`.
    pub fn boundary(&self, from: u32, to: u32) -> Option<u32> {
        let after = self.entries.partition_point(|entry| entry.position <= to);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        (entry.position > from).then_some(entry.position)
    }

    /// Bytes of the index file.
    pub fn len_bytes(&self) -> usize {
        self.entries.len() * OFFSET_ENTRY_BYTES
    }

    /// The entries in order.
    pub fn entries(&self) -> &[OffsetEntry] {
        &self.entries
    }

    /// The index file's content.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len_bytes());
        for entry in &self.entries {
            bytes.extend_from_slice(&entry.relative.to_be_bytes());
            bytes.extend_from_slice(&entry.position.to_be_bytes());
        }
        bytes
    }

    /// Reads an index file as far as it is about positions below `limit`. `None` when it cannot be an
    /// index: not whole entries or not increasing.
    pub fn decode(bytes: &[u8], limit: u32) -> Option<Self> {
        let (chunks, rest) = bytes.as_chunks::<OFFSET_ENTRY_BYTES>();
        if !rest.is_empty() {
            return None;
        }
        let mut index = Self {
            entries: Vec::with_capacity(chunks.len()),
        };
        for (number, [a, b, c, d, e, f, g, h]) in chunks.iter().enumerate() {
            let relative = u32::from_be_bytes([*a, *b, *c, *d]);
            let position = u32::from_be_bytes([*e, *f, *g, *h]);
            if position >= limit {
                break;
            }
            index.push(relative, position);
            if index.entries.len() <= number || i32::try_from(relative).is_err() {
                return None;
            }
        }
        Some(index)
    }
}

/// The sparse time index of one segment: timestamps strictly increase, offsets do not fall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeIndex {
    entries: Vec<TimeEntry>,
}

impl TimeIndex {
    /// Adds the largest timestamp so far. An entry that does not increase is left out.
    pub fn push(&mut self, timestamp: Timestamp, relative: u32) {
        let grows = |last: &TimeEntry| timestamp > last.timestamp && relative >= last.relative;
        if timestamp.0 >= 0 && self.entries.last().is_none_or(grows) {
            self.entries.push(TimeEntry {
                timestamp,
                relative,
            });
        }
    }

    /// The offset from which to look for the first record at or after `timestamp`: every record
    /// before it is older. Zero when the whole segment may hold it.
    pub fn floor(&self, timestamp: Timestamp) -> u32 {
        self.before(timestamp).map_or(0, |entry| entry.relative)
    }

    /// The entry that says so, if there is one.
    pub fn before(&self, timestamp: Timestamp) -> Option<TimeEntry> {
        let after = self
            .entries
            .partition_point(|entry| entry.timestamp < timestamp);
        after.checked_sub(1).map(|at| self.entries[at])
    }

    /// The entries in order.
    pub fn entries(&self) -> &[TimeEntry] {
        &self.entries
    }

    /// The largest timestamp recorded.
    pub fn last(&self) -> Option<TimeEntry> {
        self.entries.last().copied()
    }

    /// Bytes of the index file.
    pub fn len_bytes(&self) -> usize {
        self.entries.len() * TIME_ENTRY_BYTES
    }

    /// The index file's content.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len_bytes());
        for entry in &self.entries {
            bytes.extend_from_slice(&entry.timestamp.0.to_be_bytes());
            bytes.extend_from_slice(&entry.relative.to_be_bytes());
        }
        bytes
    }

    /// Reads a time index file as far as it is about offsets less than `span` beyond the base. `None`
    /// when it cannot be an index.
    pub fn decode(bytes: &[u8], span: i64) -> Option<Self> {
        let (chunks, rest) = bytes.as_chunks::<TIME_ENTRY_BYTES>();
        if !rest.is_empty() {
            return None;
        }
        let mut index = Self {
            entries: Vec::with_capacity(chunks.len()),
        };
        for (number, [a, b, c, d, e, f, g, h, i, j, k, l]) in chunks.iter().enumerate() {
            let timestamp = i64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
            let relative = u32::from_be_bytes([*i, *j, *k, *l]);
            if i64::from(relative) >= span {
                break;
            }
            index.push(Timestamp(timestamp), relative);
            if index.entries.len() <= number || i32::try_from(relative).is_err() {
                return None;
            }
        }
        Some(index)
    }
}

/// An offset relative to its segment's base, if it fits the index format.
pub fn relative(base: Offset, offset: Offset) -> Option<u32> {
    offset
        .0
        .checked_sub(base.0)
        .and_then(|delta| i32::try_from(delta).ok()?.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets() -> OffsetIndex {
        let mut index = OffsetIndex::default();
        index.push(9, 0);
        index.push(19, 4_200);
        index.push(39, 9_000);
        index
    }

    #[test]
    fn a_look_up_never_lands_beyond_the_batch() {
        let index = offsets();
        assert_eq!(
            [0, 9, 10, 18, 19, 20, 38, 39, 400].map(|at| index.floor(at)),
            [0, 0, 0, 0, 4_200, 4_200, 4_200, 9_000, 9_000]
        );
    }

    #[test]
    fn a_boundary_is_the_last_batch_start_within_the_range() {
        let index = offsets();
        assert_eq!(index.boundary(0, 100_000), Some(9_000));
        assert_eq!(index.boundary(0, 9_000), Some(9_000));
        assert_eq!(index.boundary(0, 8_999), Some(4_200));
        assert_eq!(index.boundary(4_200, 8_999), None);
    }

    #[test]
    fn files_read_back_and_wrong_ones_are_refused() {
        let index = offsets();
        assert_eq!(index.encode()[8..16], [0, 0, 0, 19, 0, 0, 0x10, 0x68]);
        assert_eq!(
            OffsetIndex::decode(&index.encode(), 9_001),
            Some(index.clone())
        );
        assert_eq!(
            OffsetIndex::decode(&index.encode(), 9_000).map(|at| at.entries.len()),
            Some(2)
        );
        assert_eq!(OffsetIndex::decode(&index.encode()[1..], 9_001), None);
        assert_eq!(OffsetIndex::decode(&[0; 16], 9_001), None);
        let mut times = TimeIndex::default();
        times.push(Timestamp(100), 4);
        times.push(Timestamp(100), 9);
        times.push(Timestamp(300), 12);
        assert_eq!(times.len_bytes(), 24);
        assert_eq!(TimeIndex::decode(&times.encode(), 13), Some(times.clone()));
        assert_eq!(
            TimeIndex::decode(&times.encode(), 12).map(|at| at.entries.len()),
            Some(1)
        );
        assert_eq!(
            [99, 100, 101, 300, 301].map(|at| times.floor(Timestamp(at))),
            [0, 0, 4, 4, 12]
        );
    }
}
