//! The records inside one batch: read one by one, or built into a batch. Knows nothing of offsets
//! in a log beyond the batch's own base offset.

pub mod refold;
pub mod rewrite;

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::batch::{self, BatchHeader, HEADER_BYTES};
use crate::compression::{Compression, Content, Unfold, Unfolding};
use crate::folding;

/// What a record says that has no timestamp.
pub const NO_TIMESTAMP: i64 = -1;

/// One record, its fields slices of the batch (or of its decompressed content).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Offset minus the batch's base offset.
    pub offset_delta: i32,
    /// Milliseconds since 1970, or -1. With log append time, the batch's.
    pub timestamp: i64,
    /// Null and empty differ.
    pub key: Option<Bytes>,
    /// Null is a tombstone.
    pub value: Option<Bytes>,
    /// In the order of the producer; keys may repeat.
    pub headers: Vec<Header>,
}

/// One header of a record (KIP-82).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// UTF-8 by convention; not checked.
    pub key: Bytes,
    /// Null and empty differ.
    pub value: Option<Bytes>,
}

/// What is wrong with the records of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordsError {
    /// The batch is not a whole v2 batch.
    NotABatch,
    /// The attributes name no codec.
    UnknownCodec,
    /// The content is not what its codec writes.
    Corrupt,
    /// The content unfolds to more than allowed.
    TooLarge,
    /// The records end before the batch's count is reached.
    TooFew,
    /// Bytes follow the last record.
    TooMany,
    /// A length, a varint or a count is out of its bounds.
    Malformed,
    /// The offset deltas are not 0, 1, 2 ...
    OffsetDelta,
    /// Base timestamp and delta overflow.
    Timestamp,
}

impl fmt::Display for RecordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotABatch => "not a whole record batch of magic 2",
            Self::UnknownCodec => "unknown compression type",
            Self::Corrupt => "the compressed records cannot be decompressed",
            Self::TooLarge => "the compressed records unfold to more than is allowed",
            Self::TooFew => "the batch holds fewer records than its count says",
            Self::TooMany => "bytes follow the last record of the batch",
            Self::Malformed => "a record does not follow the format",
            Self::OffsetDelta => "the offset deltas of the records are not consecutive",
            Self::Timestamp => "a record timestamp is out of range",
        })
    }
}

impl std::error::Error for RecordsError {}

impl From<Unfold> for RecordsError {
    fn from(unfold: Unfold) -> Self {
        match unfold {
            Unfold::TooLarge => Self::TooLarge,
            Unfold::Corrupt => Self::Corrupt,
        }
    }
}

/// Iterates over the records of one batch, decompressing as it goes.
pub struct Records {
    base_timestamp: i64,
    append_time: Option<i64>,
    remaining: u32,
    body: Body,
}

enum Body {
    Plain(Bytes),
    Compressed(Box<Content>),
    Failed,
}

impl Records {
    /// Opens the first batch of `batch`. The checksum is not looked at (see [`batch::crc_matches`]).
    pub fn open(batch: &Bytes, unfolding: &Unfolding) -> Result<Self, RecordsError> {
        let header = BatchHeader::parse(batch).ok_or(RecordsError::NotABatch)?;
        let total = header.total_bytes().ok_or(RecordsError::NotABatch)?;
        if header.magic() != batch::MAGIC || total > batch.len() {
            return Err(RecordsError::NotABatch);
        }
        let compression = header.compression().ok_or(RecordsError::UnknownCodec)?;
        let content = batch.slice(HEADER_BYTES..total);
        Ok(Self {
            base_timestamp: header.base_timestamp(),
            append_time: header.is_log_append_time().then(|| header.max_timestamp()),
            remaining: u32::try_from(header.record_count()).map_err(|_| RecordsError::Malformed)?,
            body: match Content::open(compression, content.clone(), unfolding)? {
                Some(content) => Body::Compressed(Box::new(content)),
                None => Body::Plain(content),
            },
        })
    }

    fn read(&mut self) -> Result<Record, RecordsError> {
        let body = self.body.take_record()?;
        let fields = Fields::parse(&body)?;
        let timestamp = match self.append_time {
            Some(time) => time,
            None => self
                .base_timestamp
                .checked_add(fields.timestamp_delta)
                .ok_or(RecordsError::Timestamp)?,
        };
        let mut headers = Vec::new();
        let mut rest = Cursor::at(&body, fields.headers_at);
        for _ in 0..fields.header_count {
            let key = rest.nullable()?.ok_or(RecordsError::Malformed)?;
            let value = rest.nullable()?;
            headers.push(Header {
                key: body.slice(key),
                value: value.map(|value| body.slice(value)),
            });
        }
        Ok(Record {
            offset_delta: fields.offset_delta,
            timestamp,
            key: fields.key.map(|key| body.slice(key)),
            value: fields.value.map(|value| body.slice(value)),
            headers,
        })
    }
}

impl Iterator for Records {
    type Item = Result<Record, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.remaining == 0 {
            return None;
        }
        self.remaining -= 1;
        let record = self.read();
        if record.is_err() {
            self.remaining = 0;
            self.body = Body::Failed;
        }
        Some(record)
    }
}

impl Body {
    /// Cuts off the next record, without its length.
    fn take_record(&mut self) -> Result<Bytes, RecordsError> {
        match self {
            Self::Plain(bytes) => match record_bounds(bytes)? {
                Some((at, end)) => Ok(bytes.split_to(end).slice(at..)),
                None => Err(RecordsError::TooFew),
            },
            Self::Compressed(content) => loop {
                if let Some((at, end)) = record_bounds(&content.window)? {
                    return Ok(content.window.split_to(end).freeze().slice(at..));
                }
                if !content.fill()? {
                    return Err(RecordsError::TooFew);
                }
            },
            Self::Failed => Err(RecordsError::TooFew),
        }
    }
}

/// Where the first record's body starts and ends; `None` when `bytes` ends before it does.
fn record_bounds(bytes: &[u8]) -> Result<Option<(usize, usize)>, RecordsError> {
    let mut cursor = Cursor { bytes, at: 0 };
    let length = match cursor.varint() {
        Ok(length) => length,
        Err(_) if bytes.len() < VARINT_BYTES_MAX => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = usize::try_from(length).map_err(|_| RecordsError::Malformed)?;
    let end = cursor
        .at
        .checked_add(length)
        .ok_or(RecordsError::Malformed)?;
    Ok((end <= bytes.len()).then_some((cursor.at, end)))
}

type Range = std::ops::Range<usize>;

const VARINT_BYTES_MAX: usize = 5;
const VARLONG_BYTES_MAX: usize = 10;

/// The fields of a record's body, as positions in it.
struct Fields {
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<Range>,
    value: Option<Range>,
    headers_at: usize,
    header_count: i32,
}

impl Fields {
    /// Walks the whole body, headers included; it must end where the last header ends.
    fn parse(body: &[u8]) -> Result<Self, RecordsError> {
        let mut cursor = Cursor { bytes: body, at: 0 };
        cursor.byte()?;
        let timestamp_delta = cursor.varlong()?;
        let offset_delta = cursor.varint()?;
        let key = cursor.nullable()?;
        let value = cursor.nullable()?;
        let header_count = cursor.varint()?;
        let headers_at = cursor.at;
        if header_count < 0 {
            return Err(RecordsError::Malformed);
        }
        for _ in 0..header_count {
            cursor.nullable()?.ok_or(RecordsError::Malformed)?;
            cursor.nullable()?;
        }
        if cursor.at != body.len() {
            return Err(RecordsError::Malformed);
        }
        Ok(Self {
            timestamp_delta,
            offset_delta,
            key,
            value,
            headers_at,
            header_count,
        })
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn at(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    fn byte(&mut self) -> Result<u8, RecordsError> {
        let byte = *self.bytes.get(self.at).ok_or(RecordsError::Malformed)?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<i32, RecordsError> {
        let raw = self.unsigned(VARINT_BYTES_MAX)?;
        let raw = u32::try_from(raw).map_err(|_| RecordsError::Malformed)?;
        Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    fn varlong(&mut self) -> Result<i64, RecordsError> {
        let raw = self.unsigned(10)?;
        Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    fn unsigned(&mut self, bytes_max: usize) -> Result<u64, RecordsError> {
        let mut value = 0;
        for i in 0..bytes_max {
            let byte = self.byte()?;
            let low = u64::from(byte & 0x7f);
            if i == 9 && low > 1 {
                return Err(RecordsError::Malformed);
            }
            value |= low << (7 * i);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(RecordsError::Malformed)
    }

    /// A length and as many bytes; a negative length is null.
    fn nullable(&mut self) -> Result<Option<Range>, RecordsError> {
        let length = self.varint()?;
        let Ok(length) = usize::try_from(length) else {
            return Ok(None);
        };
        let end = self.at.checked_add(length).ok_or(RecordsError::Malformed)?;
        if end > self.bytes.len() {
            return Err(RecordsError::Malformed);
        }
        let range = self.at..end;
        self.at = end;
        Ok(Some(range))
    }
}

/// What a walk over all records of a batch found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Walk {
    base_timestamp: i64,
    pub(crate) count: u32,
    /// Of the records, unfolded, with their lengths.
    pub(crate) bytes: usize,
    /// Of those that have one; `i64::MAX` until there is one.
    pub(crate) min_timestamp: i64,
    pub(crate) max_timestamp: i64,
    /// Index of the first record that carries the largest timestamp.
    pub(crate) max_timestamp_at: u32,
    /// Index of the first record without a key.
    pub(crate) keyless: Option<u32>,
}

impl Walk {
    pub(crate) fn new(base_timestamp: i64) -> Self {
        Self {
            base_timestamp,
            count: 0,
            bytes: 0,
            min_timestamp: i64::MAX,
            max_timestamp: i64::MIN,
            max_timestamp_at: 0,
            keyless: None,
        }
    }

    /// Walks uncompressed records in place: no allocation.
    pub(crate) fn plain(&mut self, records: &[u8], expected: u32) -> Result<(), RecordsError> {
        let used = self.feed(records, expected)?;
        self.finish(expected, used < records.len())
    }

    /// Walks compressed records through a bounded window.
    pub(crate) fn compressed(
        &mut self,
        mut content: Content,
        expected: u32,
    ) -> Result<(), RecordsError> {
        while content.fill()? {
            let used = self.feed(&content.window, expected)?;
            content.window.advance(used);
            if self.count == expected && !content.window.is_empty() {
                break;
            }
        }
        self.finish(expected, !content.window.is_empty())
    }

    fn finish(&self, expected: u32, bytes_left: bool) -> Result<(), RecordsError> {
        if self.count < expected {
            return Err(RecordsError::TooFew);
        }
        if bytes_left {
            return Err(RecordsError::TooMany);
        }
        Ok(())
    }

    /// Walks the whole records at the front of `bytes` and says how many bytes they are.
    fn feed(&mut self, bytes: &[u8], expected: u32) -> Result<usize, RecordsError> {
        let mut used = 0;
        while self.count < expected {
            let rest = &bytes[used..];
            let Some((at, end)) = record_bounds(rest)? else {
                break;
            };
            self.record(&rest[at..end])?;
            used += end;
        }
        self.bytes += used;
        Ok(used)
    }

    fn record(&mut self, body: &[u8]) -> Result<(), RecordsError> {
        let fields = Fields::parse(body)?;
        if u32::try_from(fields.offset_delta) != Ok(self.count) {
            return Err(RecordsError::OffsetDelta);
        }
        let timestamp = self
            .base_timestamp
            .checked_add(fields.timestamp_delta)
            .ok_or(RecordsError::Timestamp)?;
        if timestamp != NO_TIMESTAMP {
            self.min_timestamp = self.min_timestamp.min(timestamp);
        }
        if timestamp > self.max_timestamp {
            self.max_timestamp = timestamp;
            self.max_timestamp_at = self.count;
        }
        if fields.key.is_none() && self.keyless.is_none() {
            self.keyless = Some(self.count);
        }
        self.count += 1;
        Ok(())
    }
}

/// Builds one batch of magic 2, with base offset 0, as a producer does: in the buffer that is sent.
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    compression: Compression,
    attributes: i16,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    count: i32,
    /// Room for the header, then the records.
    out: BytesMut,
}

impl BatchBuilder {
    /// An empty batch without producer id.
    pub fn new(compression: Compression) -> Self {
        Self::with_capacity(compression, HEADER_BYTES)
    }

    /// An empty batch with room for so many bytes, header included, before it has to grow.
    pub fn with_capacity(compression: Compression, bytes: usize) -> Self {
        Self::in_buffer(
            compression,
            BytesMut::with_capacity(bytes.max(HEADER_BYTES)),
        )
    }

    /// An empty batch in a buffer that was used before; what is in it goes. Without compression the finished
    /// batch is that buffer.
    pub fn in_buffer(compression: Compression, mut out: BytesMut) -> Self {
        out.clear();
        out.put_bytes(0, HEADER_BYTES);
        Self {
            compression,
            attributes: compression.attributes(),
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            base_timestamp: -1,
            max_timestamp: -1,
            count: 0,
            out,
        }
    }

    /// Sets producer id, epoch and the sequence of the first record (KIP-98).
    #[must_use]
    pub fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> Self {
        (self.producer_id, self.producer_epoch, self.base_sequence) = (id, epoch, base_sequence);
        self
    }

    /// Marks the batch as part of a transaction.
    #[must_use]
    pub fn transactional(mut self) -> Self {
        self.attributes |= batch::TRANSACTIONAL;
        self
    }

    /// Marks the batch as a control batch (only brokers write them).
    #[must_use]
    pub fn control(mut self) -> Self {
        self.attributes |= batch::CONTROL;
        self
    }

    /// Appends a record; `timestamp` in milliseconds since 1970. Headers are (key, value).
    pub fn push(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) {
        if self.count == 0 {
            self.base_timestamp = timestamp;
            self.max_timestamp = timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        let delta = timestamp.wrapping_sub(self.base_timestamp);
        let length = 1
            + varlong_len(delta)
            + varlong_len(i64::from(self.count))
            + nullable_len(key)
            + nullable_len(value)
            + headers_len(headers);
        let out = &mut self.out;
        out.reserve(length + VARINT_BYTES_MAX);
        put_varint(out, length_of(length));
        out.put_u8(0);
        put_varlong(out, delta);
        put_varint(out, self.count);
        put_nullable(out, key);
        put_nullable(out, value);
        put_varint(out, length_of(headers.len()));
        for (key, value) in headers {
            put_nullable(out, Some(key));
            put_nullable(out, *value);
        }
        self.count += 1;
    }

    /// Number of records so far.
    pub fn len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    /// Whether no record was appended.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the batch so far, were it not compressed.
    pub fn uncompressed_bytes(&self) -> usize {
        self.out.len()
    }

    /// Bytes that a record adds at most, were it not compressed.
    pub fn record_bytes_max(
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> usize {
        let fields = nullable_len(key) + nullable_len(value) + headers_len(headers);
        1 + VARINT_BYTES_MAX + VARLONG_BYTES_MAX + VARINT_BYTES_MAX + fields
    }

    /// Compresses the records and writes header and checksum.
    pub fn finish(mut self) -> Result<Bytes, RecordsError> {
        if self.compression == Compression::None {
            let mut out = std::mem::take(&mut self.out);
            self.write_header(&mut out)?;
            return Ok(out.freeze());
        }
        let records = &self.out[HEADER_BYTES..];
        let mut out = Vec::with_capacity(HEADER_BYTES + records.len() / 2);
        out.resize(HEADER_BYTES, 0);
        let mut out = folding::fold(self.compression.into(), records, out)
            .map_err(|_| RecordsError::Corrupt)?;
        self.write_header(&mut out)?;
        Ok(out.into())
    }

    fn write_header(&self, batch: &mut [u8]) -> Result<(), RecordsError> {
        let length =
            i32::try_from(batch.len() - batch::LENGTH_END).map_err(|_| RecordsError::TooLarge)?;
        let mut out = &mut batch[..HEADER_BYTES];
        out.put_i64(0);
        out.put_i32(length);
        out.put_i32(-1);
        out.put_i8(batch::MAGIC);
        out.put_u32(0);
        out.put_i16(self.attributes);
        out.put_i32(self.count - 1);
        out.put_i64(self.base_timestamp);
        out.put_i64(self.max_timestamp);
        out.put_i64(self.producer_id);
        out.put_i16(self.producer_epoch);
        out.put_i32(self.base_sequence);
        out.put_i32(self.count);
        batch::set_crc(batch);
        Ok(())
    }
}

fn varlong_len(value: i64) -> usize {
    let raw = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let bits = 64 - (raw | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

fn nullable_len(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| {
        varlong_len(i64::from(length_of(bytes.len()))) + bytes.len()
    })
}

fn headers_len(headers: &[(&[u8], Option<&[u8]>)]) -> usize {
    let each = headers
        .iter()
        .map(|(key, value)| nullable_len(Some(key)) + nullable_len(*value));
    varlong_len(i64::from(length_of(headers.len()))) + each.sum::<usize>()
}

fn put_varint(out: &mut BytesMut, value: i32) {
    put_varlong(out, i64::from(value));
}

fn put_varlong(out: &mut BytesMut, value: i64) {
    let mut raw = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while raw >= 0x80 {
        out.put_u8(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.put_u8(raw as u8);
}

fn put_nullable(out: &mut BytesMut, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_varint(out, length_of(bytes.len()));
            out.put_slice(bytes);
        }
    }
}

/// Lengths are 31-bit on the wire; the caller builds batches far below that.
fn length_of(length: usize) -> i32 {
    let length = i32::try_from(length);
    assert!(length.is_ok(), "a record field is below 2 GiB");
    length.unwrap_or(i32::MAX)
}
