//! A partition's state at one moment, as a write-ahead-log frame or the `checkpoint` file carries it.
//! Knows neither; what the producer snapshot means is the partition's business.

use bytes::Bytes;
use logic::ids::{LeaderEpoch, Offset, Timestamp};
use logic::log::epochs::Epochs;
use logic::log::header::{BatchHeader, HEADER_BYTES};
use logic::log::segment::MaxTimestamp;

/// Version 1 does not say when the newest record was appended.
const VERSION: u32 = 2;

/// A raw batch header, kept for the producer state's sake.
pub type RawHeader = [u8; HEADER_BYTES];

/// One partition's state. Everything below `tail_start` of the active segment, and every older
/// segment, is durable in its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The active segment's base offset.
    pub segment: Offset,
    /// Bytes in the active segment.
    pub position: u32,
    /// One past the last record.
    pub log_end: Offset,
    /// When the active segment was begun, wall clock in ms.
    pub created_ms: i64,
    /// When the active segment was last appended to, wall clock in ms: its newest bytes may be in `tail`
    /// alone, and then its file is older than they are. Not known of a checkpoint of version 1.
    pub appended_ms: Option<i64>,
    /// Its first timestamp, for rolling by time.
    pub first_timestamp: Option<Timestamp>,
    /// Its largest timestamp, if known.
    pub max_timestamp: Option<MaxTimestamp>,
    /// Leader epochs.
    pub epochs: Epochs,
    /// The partition's producer state, opaque here.
    pub producers: Bytes,
    /// Batches of idempotent producers that were appended after `producers` was made.
    pub after: Vec<RawHeader>,
    /// Where `tail` begins in the active segment: a multiple of 4 KiB.
    pub tail_start: u32,
    /// The active segment's bytes from `tail_start` to `position`.
    pub tail: Bytes,
}

impl Checkpoint {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128 + self.producers.len() + self.tail.len());
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&self.segment.0.to_le_bytes());
        out.extend_from_slice(&self.log_end.0.to_le_bytes());
        out.extend_from_slice(&self.created_ms.to_le_bytes());
        let appended = self.appended_ms.unwrap_or(i64::MIN);
        out.extend_from_slice(&appended.to_le_bytes());
        let first = self.first_timestamp.map_or(i64::MIN, |at| at.0);
        out.extend_from_slice(&first.to_le_bytes());
        let max = self
            .max_timestamp
            .map_or((i64::MIN, 0), |at| (at.timestamp.0, at.batch_end.0));
        out.extend_from_slice(&max.0.to_le_bytes());
        out.extend_from_slice(&max.1.to_le_bytes());
        put_len(&mut out, self.epochs.starts().len());
        for (epoch, start) in self.epochs.starts() {
            out.extend_from_slice(&epoch.0.to_le_bytes());
            out.extend_from_slice(&start.0.to_le_bytes());
        }
        put_len(&mut out, self.after.len());
        self.after
            .iter()
            .for_each(|header| out.extend_from_slice(header));
        put_len(&mut out, self.producers.len());
        out.extend_from_slice(&self.producers);
        out.extend_from_slice(&self.tail_start.to_le_bytes());
        put_len(&mut out, self.tail.len());
        out.extend_from_slice(&self.tail);
        out
    }

    /// Reads it back; `None` when the bytes are not a checkpoint.
    pub fn decode(bytes: &Bytes) -> Option<Self> {
        let mut cursor = Cursor { bytes, at: 0 };
        let version = cursor.u32()?;
        if !(1..=VERSION).contains(&version) {
            return None;
        }
        let position = cursor.u32()?;
        let (segment, log_end) = (Offset(cursor.i64()?), Offset(cursor.i64()?));
        let created_ms = cursor.i64()?;
        let appended = match version {
            1 => i64::MIN,
            _ => cursor.i64()?,
        };
        let first = cursor.i64()?;
        let (max, batch_end) = (cursor.i64()?, Offset(cursor.i64()?));
        let mut epochs = Epochs::default();
        for _ in 0..cursor.u32()? {
            epochs.begin(
                LeaderEpoch(cursor.u32()?.cast_signed()),
                Offset(cursor.i64()?),
            );
        }
        let mut after = Vec::new();
        for _ in 0..cursor.u32()? {
            let raw: RawHeader = *cursor.take(HEADER_BYTES)?.first_chunk()?;
            BatchHeader::read(&raw).ok()?;
            after.push(raw);
        }
        let len = cursor.u32()? as usize;
        let producers = cursor.take(len)?;
        let tail_start = cursor.u32()?;
        let len = cursor.u32()? as usize;
        let tail = cursor.take(len)?;
        let whole = cursor.at == bytes.len() && segment <= log_end && segment.0 >= 0;
        whole.then_some(Self {
            segment,
            position,
            log_end,
            created_ms,
            appended_ms: (appended != i64::MIN).then_some(appended),
            first_timestamp: (first != i64::MIN).then_some(Timestamp(first)),
            max_timestamp: (max != i64::MIN).then_some(MaxTimestamp {
                timestamp: Timestamp(max),
                batch_end,
            }),
            epochs,
            producers,
            after,
            tail_start,
            tail,
        })
    }
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("a checkpoint's parts are shorter than 4 GiB");
    out.extend_from_slice(&len.to_le_bytes());
}

/// Reads little-endian fields; `None` past the end.
pub struct Cursor<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of `bytes`.
    pub fn new(bytes: &'a Bytes) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Option<Bytes> {
        let end = self.at.checked_add(len)?;
        (end <= self.bytes.len()).then(|| {
            let taken = self.bytes.slice(self.at..end);
            self.at = end;
            taken
        })
    }

    /// A `u32`.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.take(4)?.first_chunk()?))
    }

    /// An `i64`.
    pub fn i64(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }

    /// Whether everything was read.
    pub fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }
}
