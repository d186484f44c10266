//! One batch of a producer, from its first record to its fate. Pure: knows nothing of queues.

use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use wire::Compression;
use wire::compression::Unfolding;
use wire::records::{BatchBuilder, Records, RecordsError};

use super::completion::Completion;
use super::record::RecordView;
use crate::Error;

/// An idempotent producer: id and epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) id: i64,
    pub(super) epoch: i16,
}

/// What makes a batch recognisable to the broker (KIP-98).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) identity: Identity,
    /// Of the first record.
    pub(super) sequence: i32,
}

/// The bytes of a batch.
#[derive(Debug)]
pub(super) enum Content {
    /// Records may be added.
    Open(BatchBuilder),
    /// As they were last sent, with the stamp they carried.
    Closed(Bytes, Option<Stamp>),
    /// With the request that carries them.
    OnItsWay,
}

impl Content {
    /// The bytes to be sent, with this stamp. Not done under any lock: this is where it is compressed.
    pub(super) fn close(self, stamp: Option<Stamp>) -> Result<Bytes, RecordsError> {
        match (self, stamp) {
            (Self::Open(builder), None) => builder.finish(),
            (Self::Open(builder), Some(stamp)) => {
                let Identity { id, epoch } = stamp.identity;
                builder.producer(id, epoch, stamp.sequence).finish()
            }
            (Self::Closed(bytes, carried), wanted) if carried == wanted => Ok(bytes),
            (Self::Closed(bytes, _), wanted) => Ok(restamped(bytes, wanted)),
            (Self::OnItsWay, _) => Err(RecordsError::NotABatch),
        }
    }
}

fn restamped(bytes: Bytes, stamp: Option<Stamp>) -> Bytes {
    let none = Identity { id: -1, epoch: -1 };
    let identity = stamp.map_or(none, |stamp| stamp.identity);
    let sequence = stamp.map_or(-1, |stamp| stamp.sequence);
    let mut bytes = bytes
        .try_into_mut()
        .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    wire::batch::set_producer(&mut bytes, identity.id, identity.epoch, sequence);
    bytes.freeze()
}

/// A batch.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) id: u64,
    pub(super) content: Content,
    pub(super) records: u32,
    /// Uncompressed.
    pub(super) bytes: usize,
    /// Whether another record like the last one would not fit: it need not linger.
    pub(super) full: bool,
    /// What it takes of `buffer.memory`.
    pub(super) memory: usize,
    /// When its first record came.
    pub(super) created: Instant,
    /// How often it was sent.
    pub(super) attempts: u32,
    pub(super) in_flight: bool,
    /// When it may be sent again.
    pub(super) not_before: Option<Instant>,
    /// Given at its first sending; `None` without idempotence.
    pub(super) stamp: Option<Stamp>,
    /// It was sent, and no answer says that the broker misses it: under other numbers it could be written
    /// a second time.
    pub(super) may_be_written: bool,
    /// Why it was not written the last time.
    pub(super) last: Option<Error>,
    pub(super) completion: Arc<Completion>,
    /// Timestamps of its records, kept only where interceptors are told of each record.
    pub(super) timestamps: Option<Vec<i64>>,
}

impl Batch {
    pub(super) fn new(
        id: u64,
        builder: BatchBuilder,
        memory: usize,
        created: Instant,
        completion: Arc<Completion>,
    ) -> Self {
        Self {
            id,
            content: Content::Open(builder),
            records: 0,
            bytes: wire::batch::HEADER_BYTES,
            full: false,
            memory,
            created,
            attempts: 0,
            in_flight: false,
            not_before: None,
            stamp: None,
            may_be_written: false,
            last: None,
            completion,
            timestamps: None,
        }
    }

    /// Adds a record if it is open and stays within `bytes_max`; an empty one takes any record.
    pub(super) fn push(
        &mut self,
        record: &RecordView<'_>,
        most: usize,
        bytes_max: usize,
    ) -> Option<u32> {
        let Content::Open(builder) = &mut self.content else {
            return None;
        };
        // What was sent, or is a part of what was sent, keeps its records: they have their numbers.
        let sent = self.attempts > 0 || self.in_flight || self.not_before.is_some();
        if sent || self.records > 0 && self.bytes + most > bytes_max {
            return None;
        }
        builder.push(record.timestamp, record.key, record.value, record.headers);
        self.bytes = builder.uncompressed_bytes();
        self.full = self.bytes + most > bytes_max;
        let index = self.records;
        self.records += 1;
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.push(record.timestamp);
        }
        Some(index)
    }

    /// The sequence behind its last record's; sequences wrap to 0.
    pub(super) fn next_sequence(&self, first: i32) -> i32 {
        (first.wrapping_add_unsigned(self.records)) & i32::MAX
    }
}

/// The records of a batch that is too large, in batches of at most `bytes_max` each (a record always
/// fits), with the number of records in each.
pub(super) fn split(
    bytes: &Bytes,
    compression: Compression,
    bytes_max: usize,
) -> Result<Vec<(BatchBuilder, u32)>, RecordsError> {
    let mut parts: Vec<(BatchBuilder, u32)> = Vec::new();
    // These are our own records: nobody unfolds them against our will.
    let unfolding = Unfolding {
        output_bytes_max: usize::MAX - 1,
        ratio_max: usize::MAX,
        ratio_free_bytes: usize::MAX,
    };
    for record in Records::open(bytes, &unfolding)? {
        let record = record?;
        let headers: Vec<(&[u8], Option<&[u8]>)> = record
            .headers
            .iter()
            .map(|header| (&header.key[..], header.value.as_deref()))
            .collect();
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        let most = BatchBuilder::record_bytes_max(key, value, &headers);
        let fits =
            |(builder, _): &(BatchBuilder, u32)| builder.uncompressed_bytes() + most <= bytes_max;
        if !parts.last().is_some_and(fits) {
            parts.push((BatchBuilder::new(compression), 0));
        }
        if let Some((builder, records)) = parts.last_mut() {
            builder.push(record.timestamp, key, value, &headers);
            *records += 1;
        }
    }
    Ok(parts)
}
