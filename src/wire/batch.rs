//! Record batches of magic 2: header, checks, stamping, walking a run of them. Knows nothing of
//! offsets beyond writing what it is told, and nothing of topics' settings.

use std::fmt;

use bytes::Bytes;
use zerocopy::byteorder::big_endian::{I16, I32, I64, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::ErrorCode;
use crate::compression::{Compression, Content, Unfolding};
use crate::records::{NO_TIMESTAMP, RecordsError, Walk};

/// Bytes of a batch before its records.
pub const HEADER_BYTES: usize = 61;
/// Where the length field ends: it counts the bytes from here on.
pub const LENGTH_END: usize = 12;
/// Position of the base offset (8 bytes).
pub const BASE_OFFSET_AT: usize = 0;
/// Position of the length (4 bytes).
pub const LENGTH_AT: usize = 8;
/// Position of the partition leader epoch (4 bytes).
pub const LEADER_EPOCH_AT: usize = 12;
/// Position of the magic byte, in every version of the format.
pub const MAGIC_AT: usize = 16;
/// Position of the checksum (4 bytes).
pub const CRC_AT: usize = 17;
/// Where the checksum starts to count: leader epoch and base offset are outside of it.
pub const CRC_FROM: usize = 21;
/// Position of the attributes (2 bytes).
pub const ATTRIBUTES_AT: usize = 21;
/// Position of the largest timestamp (8 bytes).
pub const MAX_TIMESTAMP_AT: usize = 35;
/// Position of the producer id (8 bytes).
pub const PRODUCER_ID_AT: usize = 43;
/// Position of the producer epoch (2 bytes).
pub const PRODUCER_EPOCH_AT: usize = 51;
/// Position of the sequence of the first record (4 bytes).
pub const BASE_SEQUENCE_AT: usize = 53;
/// The only magic written and read.
pub const MAGIC: i8 = 2;

/// The bits of the attributes that name the codec.
pub const CODEC_BITS: i16 = 0b111;
/// Attribute: timestamps are the broker's, in the largest timestamp.
pub const LOG_APPEND_TIME: i16 = 1 << 3;
/// Attribute: part of a transaction.
pub const TRANSACTIONAL: i16 = 1 << 4;
/// Attribute: a transaction marker or other control record.
pub const CONTROL: i16 = 1 << 5;
/// Attribute: the base timestamp holds the delete horizon (KIP-534); only cleaners set it.
pub const DELETE_HORIZON: i16 = 1 << 6;

/// The first 61 bytes of a batch, as a view.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned, Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct BatchHeader {
    base_offset: I64,
    length: I32,
    leader_epoch: I32,
    magic: i8,
    crc: U32,
    attributes: I16,
    last_offset_delta: I32,
    base_timestamp: I64,
    max_timestamp: I64,
    producer_id: I64,
    producer_epoch: I16,
    base_sequence: I32,
    record_count: I32,
}

const _: () = assert!(size_of::<BatchHeader>() == HEADER_BYTES);

impl BatchHeader {
    /// Views the start of `bytes`; `None` when shorter than a header. Nothing is checked.
    pub fn parse(bytes: &[u8]) -> Option<&Self> {
        Self::ref_from_prefix(bytes).ok().map(|(header, _)| header)
    }

    /// Offset of the first record.
    pub fn base_offset(&self) -> i64 {
        self.base_offset.get()
    }

    /// The length field: bytes after it.
    pub fn length(&self) -> i32 {
        self.length.get()
    }

    /// Bytes of the whole batch, or `None` when the length is shorter than a header.
    pub fn total_bytes(&self) -> Option<usize> {
        let total = usize::try_from(self.length())
            .ok()?
            .checked_add(LENGTH_END)?;
        (total >= HEADER_BYTES).then_some(total)
    }

    /// Epoch of the leader that appended it.
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch.get()
    }

    /// Version of the format.
    pub fn magic(&self) -> i8 {
        self.magic
    }

    /// The checksum that the batch carries.
    pub fn crc(&self) -> u32 {
        self.crc.get()
    }

    /// Codec and flags.
    pub fn attributes(&self) -> i16 {
        self.attributes.get()
    }

    /// The codec, or `None` for an unknown one.
    pub fn compression(&self) -> Option<Compression> {
        Compression::from_attributes(self.attributes())
    }

    /// Whether record timestamps are the broker's.
    pub fn is_log_append_time(&self) -> bool {
        self.attributes() & LOG_APPEND_TIME != 0
    }

    /// Whether the batch belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes() & TRANSACTIONAL != 0
    }

    /// Whether it holds control records.
    pub fn is_control(&self) -> bool {
        self.attributes() & CONTROL != 0
    }

    /// Offset of the last record minus the base offset.
    pub fn last_offset_delta(&self) -> i32 {
        self.last_offset_delta.get()
    }

    /// Offset of the last record; saturates on garbage.
    pub fn last_offset(&self) -> i64 {
        self.base_offset()
            .saturating_add(i64::from(self.last_offset_delta()))
    }

    /// What record timestamps are relative to.
    pub fn base_timestamp(&self) -> i64 {
        self.base_timestamp.get()
    }

    /// Largest record timestamp, or the broker's time.
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp.get()
    }

    /// Producer id, or -1.
    pub fn producer_id(&self) -> i64 {
        self.producer_id.get()
    }

    /// Producer epoch, or -1.
    pub fn producer_epoch(&self) -> i16 {
        self.producer_epoch.get()
    }

    /// Sequence of the first record, or -1.
    pub fn base_sequence(&self) -> i32 {
        self.base_sequence.get()
    }

    /// Number of records.
    pub fn record_count(&self) -> i32 {
        self.record_count.get()
    }
}

/// What [`check`] allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How far compressed records may unfold.
    pub unfolding: Unfolding,
    /// Whether Zstandard is allowed (Produce from version 7 on, KIP-110).
    pub zstd: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unfolding: Unfolding::default(),
            zstd: true,
        }
    }
}

/// A batch from a client that passed [`check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedBatch {
    /// The batch as sent (its largest timestamp corrected where the client's was wrong).
    pub bytes: Bytes,
    /// Number of records, at least 1.
    pub record_count: u32,
    /// Always `record_count - 1`.
    pub last_offset_delta: u32,
    /// What record timestamps are relative to.
    pub base_timestamp: i64,
    /// Smallest timestamp of the records that have one, or -1.
    pub min_timestamp: i64,
    /// Largest record timestamp.
    pub max_timestamp: i64,
    /// Offset delta of the first record with the largest timestamp.
    pub max_timestamp_delta: u32,
    /// Producer id, or -1.
    pub producer_id: i64,
    /// Producer epoch, or -1.
    pub producer_epoch: i16,
    /// Sequence of the first record, or -1.
    pub base_sequence: i32,
    /// Codec and flags.
    pub attributes: i16,
    /// The codec.
    pub compression: Compression,
    /// Bytes of the records, unfolded.
    pub unfolded_bytes: usize,
    /// Whether the batch belongs to a transaction.
    pub is_transactional: bool,
    /// Index of the first record without a key, which a compacted topic refuses.
    pub keyless: Option<u32>,
}

/// Why a client's records are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchError {
    /// There is no batch at all.
    Empty,
    /// The bytes end within a batch, or its length is shorter than a header.
    Torn,
    /// Another format than magic 2.
    Magic(i8),
    /// The checksum does not match.
    Crc,
    /// The base offset is not 0: offsets are the broker's to give.
    BaseOffset(i64),
    /// Record count and offset delta do not fit each other, or are not positive.
    Count,
    /// Clients may not write control batches.
    Control,
    /// Clients may not set the delete horizon.
    DeleteHorizon,
    /// Clients may not set log append time.
    LogAppendTime,
    /// A producer id without a sequence.
    Sequence(i32),
    /// A codec that does not exist, or not in this version of Produce.
    Codec,
    /// A record is wrong.
    Record {
        /// Its index in the batch.
        index: u32,
        /// What is wrong.
        error: RecordsError,
    },
}

impl BatchError {
    /// Kafka's error for it. Errors that a retry cannot heal are errors that clients do not retry:
    /// CORRUPT_MESSAGE, which they do, only says that bytes were damaged on the way.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Torn | Self::Crc => ErrorCode::CorruptMessage,
            Self::LogAppendTime => ErrorCode::InvalidTimestamp,
            Self::Codec => ErrorCode::UnsupportedCompressionType,
            Self::Record {
                error: RecordsError::TooLarge,
                ..
            } => ErrorCode::MessageTooLarge,
            Self::Record {
                error: RecordsError::Timestamp,
                ..
            } => ErrorCode::InvalidTimestamp,
            _ => ErrorCode::InvalidRecord,
        }
    }

    /// The record at fault, for `record_errors` (KIP-467).
    pub fn record_index(&self) -> Option<u32> {
        match self {
            Self::Record { index, .. } => Some(*index),
            _ => None,
        }
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the request holds no record batch"),
            Self::Torn => write!(f, "the record batch is not whole"),
            Self::Magic(magic) => {
                write!(f, "record batches must have magic 2, this one has {magic}")
            }
            Self::Crc => write!(f, "the checksum of the record batch does not match"),
            Self::BaseOffset(offset) => {
                write!(
                    f,
                    "the base offset of the record batch must be 0, it is {offset}"
                )
            }
            Self::Count => write!(f, "record count and last offset delta do not match"),
            Self::Control => write!(f, "clients may not write control records"),
            Self::DeleteHorizon => write!(f, "clients may not set a delete horizon"),
            Self::LogAppendTime => {
                write!(f, "clients may not set the timestamp type LogAppendTime")
            }
            Self::Sequence(sequence) => {
                write!(
                    f,
                    "invalid sequence {sequence} in a batch with a producer id"
                )
            }
            Self::Codec => write!(f, "the compression type is not supported"),
            Self::Record { index, error } => write!(f, "record {index}: {error}"),
        }
    }
}

impl std::error::Error for BatchError {}

/// Checks the records of a partition in a Produce request and splits them into batches.
///
/// The records of uncompressed batches are walked in place. Produce from version 3 on allows one
/// batch only; that is for the caller to say.
pub fn check(records: &Bytes, limits: &Limits) -> Result<Vec<CheckedBatch>, BatchError> {
    if records.is_empty() {
        return Err(BatchError::Empty);
    }
    let mut batches = Vec::with_capacity(1);
    let mut rest = records.clone();
    while !rest.is_empty() {
        let magic = *rest.get(MAGIC_AT).ok_or(BatchError::Torn)?;
        if magic.cast_signed() != MAGIC {
            return Err(BatchError::Magic(magic.cast_signed()));
        }
        let header = *BatchHeader::parse(&rest).ok_or(BatchError::Torn)?;
        let total = header.total_bytes().ok_or(BatchError::Torn)?;
        if total > rest.len() {
            return Err(BatchError::Torn);
        }
        batches.push(check_one(&header, rest.split_to(total), limits)?);
    }
    Ok(batches)
}

fn check_one(
    header: &BatchHeader,
    bytes: Bytes,
    limits: &Limits,
) -> Result<CheckedBatch, BatchError> {
    if !crc_matches(&bytes) {
        return Err(BatchError::Crc);
    }
    let (record_count, compression) = check_header(header, limits)?;
    let mut walk = Walk::new(header.base_timestamp());
    let content = bytes.slice(HEADER_BYTES..);
    let walked = match Content::open(compression, content, &limits.unfolding) {
        Ok(None) => walk.plain(&bytes[HEADER_BYTES..], record_count),
        Ok(Some(content)) => walk.compressed(content, record_count),
        Err(unfold) => Err(unfold.into()),
    };
    walked.map_err(|error| BatchError::Record {
        index: walk.count,
        error,
    })?;
    let bytes = if header.max_timestamp() == walk.max_timestamp {
        bytes
    } else {
        with_max_timestamp(&bytes, walk.max_timestamp)
    };
    Ok(CheckedBatch {
        bytes,
        record_count,
        last_offset_delta: record_count - 1,
        base_timestamp: header.base_timestamp(),
        min_timestamp: match walk.min_timestamp {
            i64::MAX => NO_TIMESTAMP,
            smallest => smallest,
        },
        max_timestamp: walk.max_timestamp,
        max_timestamp_delta: walk.max_timestamp_at,
        producer_id: header.producer_id(),
        producer_epoch: header.producer_epoch(),
        base_sequence: header.base_sequence(),
        attributes: header.attributes(),
        compression,
        unfolded_bytes: walk.bytes,
        is_transactional: header.is_transactional(),
        keyless: walk.keyless,
    })
}

/// What the header alone can say: the record count (at least 1) and the codec.
fn check_header(header: &BatchHeader, limits: &Limits) -> Result<(u32, Compression), BatchError> {
    if header.base_offset() != 0 {
        return Err(BatchError::BaseOffset(header.base_offset()));
    }
    if header.is_control() {
        return Err(BatchError::Control);
    }
    if header.attributes() & DELETE_HORIZON != 0 {
        return Err(BatchError::DeleteHorizon);
    }
    if header.is_log_append_time() {
        return Err(BatchError::LogAppendTime);
    }
    if header.producer_id() >= 0 && header.base_sequence() < 0 {
        return Err(BatchError::Sequence(header.base_sequence()));
    }
    let count = u32::try_from(header.record_count()).map_err(|_| BatchError::Count)?;
    let last = u32::try_from(header.last_offset_delta()).map_err(|_| BatchError::Count)?;
    if count != last.wrapping_add(1) {
        return Err(BatchError::Count);
    }
    match header.compression() {
        Some(Compression::Zstd) if !limits.zstd => Err(BatchError::Codec),
        Some(compression) => Ok((count, compression)),
        None => Err(BatchError::Codec),
    }
}

/// Kafka writes the true value over a producer's wrong one, rather than refuse it.
fn with_max_timestamp(bytes: &[u8], timestamp: i64) -> Bytes {
    let mut corrected = bytes.to_vec();
    put(&mut corrected, MAX_TIMESTAMP_AT, timestamp.to_be_bytes());
    set_crc(&mut corrected);
    corrected.into()
}

/// Whether the checksum of a whole batch matches; false when it is shorter than a header.
pub fn crc_matches(batch: &[u8]) -> bool {
    BatchHeader::parse(batch)
        .is_some_and(|header| header.crc() == crc32c::crc32c(&batch[CRC_FROM..]))
}

/// Writes base offset and leader epoch. The checksum covers neither.
///
/// # Panics
/// When `batch` is shorter than a header: only checked batches are stamped.
pub fn stamp(batch: &mut [u8], base_offset: i64, leader_epoch: i32) {
    put(batch, BASE_OFFSET_AT, base_offset.to_be_bytes());
    put(batch, LEADER_EPOCH_AT, leader_epoch.to_be_bytes());
}

/// Makes `timestamp` the time of all records (`message.timestamp.type=LogAppendTime`), and the
/// checksum right again.
///
/// # Panics
/// When `batch` is shorter than a header.
pub fn set_log_append_time(batch: &mut [u8], timestamp: i64) {
    let header = BatchHeader::parse(batch);
    assert!(header.is_some(), "a batch has a header");
    let attributes = header.map_or(0, BatchHeader::attributes) | LOG_APPEND_TIME;
    put(batch, ATTRIBUTES_AT, attributes.to_be_bytes());
    put(batch, MAX_TIMESTAMP_AT, timestamp.to_be_bytes());
    set_crc(batch);
}

/// Writes the checksum of a whole batch.
///
/// # Panics
/// When `batch` is shorter than a header.
pub fn set_crc(batch: &mut [u8]) {
    assert!(batch.len() >= HEADER_BYTES, "a batch has a header");
    let crc = crc32c::crc32c(&batch[CRC_FROM..]);
    put(batch, CRC_AT, crc.to_be_bytes());
}

/// Rewrites producer id, epoch and base sequence of a whole batch, and its checksum: a producer that
/// gets a new epoch numbers anew what it has not sent yet.
///
/// # Panics
/// When `batch` is shorter than a header.
pub fn set_producer(batch: &mut [u8], id: i64, epoch: i16, base_sequence: i32) {
    put(batch, PRODUCER_ID_AT, id.to_be_bytes());
    put(batch, PRODUCER_EPOCH_AT, epoch.to_be_bytes());
    put(batch, BASE_SEQUENCE_AT, base_sequence.to_be_bytes());
    set_crc(batch);
}

pub(crate) fn put<const N: usize>(batch: &mut [u8], at: usize, value: [u8; N]) {
    assert!(batch.len() >= HEADER_BYTES, "a batch has a header");
    batch[at..at + N].copy_from_slice(&value);
}

/// One batch of a run, by its header. Its checksum was not looked at.
#[derive(Debug, Clone, Copy)]
pub struct BatchView<'a> {
    /// Where it starts in the run.
    pub position: usize,
    /// Its header.
    pub header: &'a BatchHeader,
    /// The whole batch.
    pub bytes: &'a [u8],
}

/// Walks a run of batches by their headers, for recovery and lookups. Ends before whatever is not
/// a whole batch of magic 2 (zeros of a preallocated file, a torn write), never panics.
#[derive(Debug, Clone)]
pub struct BatchIter<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// Walks the batches of `bytes`, which starts with one.
pub fn split(bytes: &[u8]) -> BatchIter<'_> {
    BatchIter { bytes, position: 0 }
}

impl BatchIter<'_> {
    /// Where the next batch starts, or where the batches end.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = BatchView<'a>;

    fn next(&mut self) -> Option<BatchView<'a>> {
        let rest = self.bytes.get(self.position..)?;
        let header = BatchHeader::parse(rest)?;
        if header.magic() != MAGIC {
            return None;
        }
        let view = BatchView {
            position: self.position,
            header,
            bytes: rest.get(..header.total_bytes()?)?,
        };
        self.position += view.bytes.len();
        Some(view)
    }
}
