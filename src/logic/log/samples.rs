//! Batches for this room's tests. Knows no records: a sample's payload is filler.

use alloc::vec;
use alloc::vec::Vec;

use super::header::{BatchHeader, HEADER_BYTES};

/// A batch's bytes with a wrong checksum and filler for records.
pub fn batch(base: i64, records: i32, epoch: i32, timestamp: i64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len.max(HEADER_BYTES)];
    let length = (bytes.len() - 12) as i32;
    bytes[0..8].copy_from_slice(&base.to_be_bytes());
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[12..16].copy_from_slice(&epoch.to_be_bytes());
    bytes[16] = 2;
    bytes[23..27].copy_from_slice(&(records - 1).to_be_bytes());
    bytes[27..35].copy_from_slice(&timestamp.to_be_bytes());
    bytes[35..43].copy_from_slice(&timestamp.to_be_bytes());
    bytes[43..51].copy_from_slice(&(-1_i64).to_be_bytes());
    bytes[57..61].copy_from_slice(&records.to_be_bytes());
    bytes
}

/// A batch's header of epoch 0 with a length of `len` bytes.
pub fn header(base: i64, records: i32, timestamp: i64, len: usize) -> BatchHeader {
    match BatchHeader::read(&batch(base, records, 0, timestamp, len)) {
        Ok(header) => header,
        Err(reason) => unreachable!("samples are batches: {reason:?}"),
    }
}

/// A hash for maps of keys: good enough where nobody aims at it.
pub fn hash() -> super::cleaning::key_map::Hash {
    let fnv = |key: &[u8], start: u64| {
        key.iter().fold(start, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    alloc::boxed::Box::new(move |key| [fnv(key, 0xcbf2_9ce4_8422_2325), fnv(key, 7)])
}
