//! What cleaning makes of one batch: which of its records stay and how it is written again. Decides
//! by the newest offset of each key; knows no segments.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;
use wire::batch::{BatchHeader, DELETE_HORIZON};
use wire::compression::{Compression, Unfolding};
use wire::folding::Folding;
use wire::records::RecordsError;
use wire::records::rewrite::{RawRecord, RawRecords, rewrite};

use super::key_map::KeyMap;
use crate::ids::Offset;

/// What becomes of a batch.
#[derive(Clone, Debug)]
pub enum Cleaned {
    /// It stays as it is.
    Kept,
    /// It is written again so.
    Rewrite(Rewrite),
    /// Nothing of it stays.
    Dropped,
}

/// What is left of a batch, before it is written: that can take long.
#[derive(Clone, Debug)]
pub struct Rewrite {
    batch: Bytes,
    kept: Vec<RawRecord>,
    folding: Folding,
    delete_horizon: Option<i64>,
}

impl Rewrite {
    /// How long writing takes, about, in nanoseconds.
    pub fn nanos(&self) -> u64 {
        let bytes = self.kept.iter().map(RawRecord::bytes_max).sum();
        self.folding.nanos(bytes)
    }

    /// Writes it.
    pub fn write(self) -> Result<Bytes, RecordsError> {
        let Self {
            batch,
            kept,
            folding,
            delete_horizon,
        } = self;
        rewrite(&batch, &kept, folding, delete_horizon)
    }
}

/// One pass over a log.
pub struct Pass<'a> {
    /// The newest offset of each key that occurs in the dirty part below `end`.
    pub newest: &'a KeyMap,
    /// The map knows what lies below; batches from here on stay as they are.
    pub end: Offset,
    /// The wall clock, for delete horizons.
    pub now_ms: i64,
    /// `delete.retention.ms`.
    pub delete_retention_ms: i64,
    /// The codec to write in, and its level; none for the codec that each batch has.
    pub folding: Option<Folding>,
    /// The last offset of each producer: that batch stays, empty if need be, since it is what a
    /// producer's state is rebuilt from.
    pub last_of_producer: &'a BTreeMap<i64, Offset>,
}

impl Pass<'_> {
    /// Judges a batch whose checksum is right.
    ///
    /// Control batches and those of transactions stay whole: which transactions were aborted is not
    /// known here.
    pub fn clean(&self, batch: &Bytes) -> Result<Cleaned, RecordsError> {
        let header = *BatchHeader::parse(batch).ok_or(RecordsError::NotABatch)?;
        if header.base_offset() >= self.end.0 || header.is_control() || header.is_transactional() {
            return Ok(Cleaned::Kept);
        }
        let horizon = horizon_of(&header);
        let rewrite = |kept, folding, delete_horizon| {
            Cleaned::Rewrite(Rewrite {
                batch: batch.clone(),
                kept,
                folding,
                delete_horizon,
            })
        };
        let mut kept = Vec::new();
        let mut tombstones = false;
        for record in RawRecords::open(batch, &Unfolding::default())? {
            let record = record?;
            if self.stays(&header, horizon, &record) {
                tombstones |= record.is_tombstone;
                kept.push(record);
            }
        }
        let whole = i32::try_from(kept.len()) == Ok(header.record_count());
        if kept.is_empty() {
            return if !self.is_last_of_producer(&header) {
                Ok(Cleaned::Dropped)
            } else if whole {
                Ok(Cleaned::Kept)
            } else {
                Ok(rewrite(kept, Compression::None.into(), None))
            };
        }
        let codec = header.compression().ok_or(RecordsError::UnknownCodec)?;
        let wanted = self.folding.unwrap_or(codec.into());
        let new_horizon = (tombstones && horizon.is_none())
            .then(|| self.now_ms.saturating_add(self.delete_retention_ms));
        if whole && new_horizon.is_none() && wanted.compression == codec {
            return Ok(Cleaned::Kept);
        }
        Ok(rewrite(kept, wanted, new_horizon))
    }

    fn stays(&self, header: &BatchHeader, horizon: Option<i64>, record: &RawRecord) -> bool {
        // From before the topic was compacted. Nothing could ever replace it.
        let Some(key) = &record.key else { return false };
        let offset = Offset(header.base_offset() + i64::from(record.offset_delta));
        let newest = self.newest.get(key).is_none_or(|newest| offset >= newest);
        let deleted = record.is_tombstone && horizon.is_some_and(|horizon| self.now_ms >= horizon);
        newest && !deleted
    }

    fn is_last_of_producer(&self, header: &BatchHeader) -> bool {
        let last = self.last_of_producer.get(&header.producer_id());
        header.producer_id() >= 0 && last == Some(&Offset(header.last_offset()))
    }
}

/// When the tombstones of a batch may go, if it has been cleaned before (KIP-534).
fn horizon_of(header: &BatchHeader) -> Option<i64> {
    (header.attributes() & DELETE_HORIZON != 0).then(|| header.base_timestamp())
}

/// Notes a batch's keys; `false`, and none is noted, when the map has no room for them.
pub fn note_keys(newest: &mut KeyMap, batch: &Bytes) -> Result<bool, RecordsError> {
    let header = *BatchHeader::parse(batch).ok_or(RecordsError::NotABatch)?;
    if header.is_control() || header.is_transactional() {
        return Ok(true);
    }
    let mut keys = Vec::new();
    for record in RawRecords::open(batch, &Unfolding::default())? {
        let record = record?;
        let offset = Offset(header.base_offset() + i64::from(record.offset_delta));
        keys.extend(record.key.map(|key| (key, offset)));
    }
    let is_new = |(key, _): &&(Bytes, Offset)| newest.get(key).is_none();
    if keys.iter().filter(is_new).count() > newest.room() {
        return Ok(false);
    }
    for (key, offset) in keys {
        newest.insert(&key, offset);
    }
    Ok(true)
}
