//! The 61 bytes at the head of a record batch v2 (KIP-98), as far as a log needs them: where the
//! batch lies, how long it is, who wrote it and when. Knows neither records nor checksums.

use crate::ids::{LeaderEpoch, Offset, Timestamp};

/// Bytes of a batch header, the record count included.
pub const HEADER_BYTES: usize = 61;
/// Bytes before the batch's length field counts: base offset and the length itself.
pub const LENGTH_PREFIX_BYTES: usize = 12;
/// Where Kafka's checksum begins to count: at the attributes.
pub const CHECKSUM_START: usize = 21;

/// One batch's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset of the first record.
    pub base_offset: Offset,
    /// The whole batch's length in bytes, this header included; at least [`HEADER_BYTES`].
    pub len: u32,
    /// The leader epoch that was stamped.
    pub leader_epoch: LeaderEpoch,
    /// crc32c over everything from [`CHECKSUM_START`].
    pub checksum: u32,
    /// Codec, timestamp type, transactional and control bits.
    pub attributes: i16,
    /// The last record's offset less the base offset; not negative.
    pub last_offset_delta: i32,
    /// The first record's timestamp (or the delete horizon of a compacted batch).
    pub base_timestamp: Timestamp,
    /// The largest timestamp in the batch, or -1.
    pub max_timestamp: Timestamp,
    /// The producer's id, or -1.
    pub producer_id: i64,
    /// The producer's epoch, or -1.
    pub producer_epoch: i16,
    /// The first record's sequence, or -1.
    pub base_sequence: i32,
    /// How many records follow.
    pub record_count: i32,
}

/// Why bytes are not a batch header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHeader {
    /// Fewer than [`HEADER_BYTES`] bytes.
    Short,
    /// All of the length field and the base offset are zero: a preallocated tail, the log's end.
    Zeros,
    /// A length, magic, delta or offset that no batch has.
    Invalid,
}

impl BatchHeader {
    /// Reads the header at the start of `bytes`.
    pub fn read(bytes: &[u8]) -> Result<Self, NoHeader> {
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else { return Err(NoHeader::Short) };
        let length = i32_at(head, 8);
        let base_offset = i64_at(head, 0);
        if length == 0 && base_offset == 0 {
            return Err(NoHeader::Zeros);
        }
        let last_offset_delta = i32_at(head, 23);
        let shortest = (HEADER_BYTES - LENGTH_PREFIX_BYTES) as i32;
        if length < shortest
            || length > i32::MAX - LENGTH_PREFIX_BYTES as i32
            || head[16] != 2
            || last_offset_delta < 0
            || base_offset < 0
            || base_offset.checked_add(i64::from(last_offset_delta) + 1).is_none()
        {
            return Err(NoHeader::Invalid);
        }
        Ok(Self {
            base_offset: Offset(base_offset),
            len: length as u32 + LENGTH_PREFIX_BYTES as u32,
            leader_epoch: LeaderEpoch(i32_at(head, 12)),
            checksum: i32_at(head, 17) as u32,
            attributes: i16_at(head, 21),
            last_offset_delta,
            base_timestamp: Timestamp(i64_at(head, 27)),
            max_timestamp: Timestamp(i64_at(head, 35)),
            producer_id: i64_at(head, 43),
            producer_epoch: i16_at(head, 51),
            base_sequence: i32_at(head, 53),
            record_count: i32_at(head, 57),
        })
    }

    /// The offset of the last record.
    pub fn last_offset(&self) -> Offset {
        Offset(self.base_offset.0 + i64::from(self.last_offset_delta))
    }

    /// One past the offset of the last record.
    pub fn end_offset(&self) -> Offset {
        Offset(self.last_offset().0 + 1)
    }
}

fn i64_at(head: &[u8; HEADER_BYTES], at: usize) -> i64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&head[at..at + 8]);
    i64::from_be_bytes(bytes)
}

fn i32_at(head: &[u8; HEADER_BYTES], at: usize) -> i32 {
    i32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

fn i16_at(head: &[u8; HEADER_BYTES], at: usize) -> i16 {
    i16::from_be_bytes([head[at], head[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::samples::batch;

    #[test]
    fn a_header_reads_back_what_was_written() {
        let bytes = batch(17, 3, 5, 1_000, 100);
        let header = BatchHeader::read(&bytes).expect("a header");
        assert_eq!(header.base_offset, Offset(17));
        assert_eq!(header.last_offset(), Offset(19));
        assert_eq!(header.leader_epoch, LeaderEpoch(5));
        assert_eq!(header.max_timestamp, Timestamp(1_000));
        assert_eq!(header.len as usize, bytes.len());
    }

    #[test]
    fn a_preallocated_tail_is_an_end_and_garbage_is_not() {
        assert_eq!(BatchHeader::read(&[0; 64]), Err(NoHeader::Zeros));
        assert_eq!(BatchHeader::read(&[0; 60]), Err(NoHeader::Short));
        let mut bytes = batch(1, 1, 0, 0, 10);
        bytes[16] = 1;
        assert_eq!(BatchHeader::read(&bytes), Err(NoHeader::Invalid));
        let mut bytes = batch(1, 1, 0, 0, 10);
        bytes[8..12].copy_from_slice(&48_i32.to_be_bytes());
        assert_eq!(BatchHeader::read(&bytes), Err(NoHeader::Invalid));
        let mut bytes = batch(i64::MAX, 1, 0, 0, 10);
        bytes[23..27].copy_from_slice(&7_i32.to_be_bytes());
        assert_eq!(BatchHeader::read(&bytes), Err(NoHeader::Invalid));
    }
}
