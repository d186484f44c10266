//! What one partition knows of its idempotent producers (KIP-98): whether a batch is new, a retry or
//! out of order. Knows no bytes, no transactions, and no clock but the one passed in.

mod snapshot;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::ids::{Instant, Offset};

pub use snapshot::SnapshotError;

/// Batches remembered for each producer: as many as a client may have in flight.
pub const WINDOW: usize = 5;

/// Producers remembered for each partition. One more forgets the one that has been idle longest.
pub const PRODUCERS_MAX: usize = 10_000;

/// What deduplication needs to know of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSummary {
    /// The producer's id; negative without idempotence.
    pub producer_id: i64,
    /// The producer's epoch.
    pub epoch: i16,
    /// The sequence of the first record.
    pub base_sequence: i32,
    /// Offsets that the batch takes, at least 1.
    pub record_count: u32,
    /// The largest record timestamp in milliseconds, or -1. Only shown, never used for expiry.
    pub timestamp: i64,
}

impl BatchSummary {
    fn offset_delta(&self) -> i32 {
        i32::try_from(self.record_count.saturating_sub(1)).unwrap_or(i32::MAX)
    }

    fn last_sequence(&self) -> i32 {
        sequence_plus(self.base_sequence, self.offset_delta())
    }
}

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is new: append it, then [`Producers::replay`] it.
    Append,
    /// It was appended before: answer with where.
    Duplicate {
        /// The offset of its first record.
        base_offset: Offset,
        /// The offset of its last record.
        last_offset: Offset,
        /// Its largest timestamp in milliseconds, or -1; under LogAppendTime that of its append.
        timestamp: i64,
    },
    /// Append nothing.
    Refuse(Refusal),
}

/// Why a producer's batch is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// OUT_OF_ORDER_SEQUENCE_NUMBER: it does not follow the last batch, and is no retry in the window.
    OutOfOrderSequence,
    /// INVALID_PRODUCER_EPOCH: a newer epoch of this producer has written.
    InvalidProducerEpoch,
}

/// One remembered batch. The first sequence and offset follow from the last ones and the delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Batch {
    last_sequence: i32,
    last_offset: Offset,
    /// >= 0.
    offset_delta: i32,
    timestamp: i64,
}

impl Batch {
    fn base_sequence(&self) -> i32 {
        sequence_minus(self.last_sequence, self.offset_delta)
    }

    fn base_offset(&self) -> Offset {
        Offset(self.last_offset.0 - i64::from(self.offset_delta))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// Never falls while the producer is remembered (invariant 20).
    epoch: i16,
    /// Oldest first, all of `epoch`, at most [`WINDOW`], never empty, offsets increasing.
    window: VecDeque<Batch>,
    last_active: Instant,
}

/// One producer, as DescribeProducers shows it (KIP-664).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// The producer's id.
    pub producer_id: i64,
    /// Its latest epoch.
    pub epoch: i16,
    /// The last sequence that it appended.
    pub last_sequence: i32,
    /// The offset of its last record.
    pub last_offset: Offset,
    /// The largest timestamp of its last batch in milliseconds, or -1.
    pub last_timestamp: i64,
}

/// The producers of one partition. Batches count from their append, before they are durable: a retry
/// may overtake the disk.
#[derive(Clone, Debug, Default)]
pub struct Producers {
    entries: BTreeMap<i64, Entry>,
    /// Holds (last_active, id) of each entry, no more and no less.
    by_activity: BTreeSet<(Instant, i64)>,
}

impl Producers {
    /// No producer has written yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Judges a batch as Kafka does. A producer whose state is gone (expired, or its records deleted)
    /// may go on at any sequence (KIP-360); a new epoch of a known one starts at 0.
    pub fn check(&self, batch: &BatchSummary) -> Verdict {
        if batch.producer_id < 0 {
            return Verdict::Append;
        }
        if batch.epoch < 0 {
            return Verdict::Refuse(Refusal::InvalidProducerEpoch);
        }
        if batch.base_sequence < 0 {
            return Verdict::Refuse(Refusal::OutOfOrderSequence);
        }
        let Some(entry) = self.entries.get(&batch.producer_id) else {
            return Verdict::Append;
        };
        if batch.epoch < entry.epoch {
            return Verdict::Refuse(Refusal::InvalidProducerEpoch);
        }
        if batch.epoch > entry.epoch {
            return in_sequence(batch.base_sequence == 0);
        }
        let original = entry.window.iter().find(|known| {
            known.base_sequence() == batch.base_sequence
                && known.last_sequence == batch.last_sequence()
        });
        match (original, entry.window.back()) {
            (Some(original), _) => Verdict::Duplicate {
                base_offset: original.base_offset(),
                last_offset: original.last_offset,
                timestamp: original.timestamp,
            },
            (None, Some(last)) => {
                in_sequence(batch.base_sequence == sequence_plus(last.last_sequence, 1))
            }
            (None, None) => Verdict::Append,
        }
    }

    /// The single mutator, for appends and for recovery: the log holds this batch at `base_offset`.
    /// Replaying what is already remembered changes nothing, so a snapshot may overlap the log.
    pub fn replay(&mut self, now: Instant, batch: &BatchSummary, base_offset: Offset) {
        if batch.producer_id < 0 || batch.epoch < 0 || batch.base_sequence < 0 {
            return;
        }
        let offset_delta = batch.offset_delta();
        let appended = Batch {
            last_sequence: batch.last_sequence(),
            last_offset: Offset(base_offset.0.saturating_add(i64::from(offset_delta))),
            offset_delta,
            timestamp: batch.timestamp,
        };
        self.remember(now, batch.producer_id, batch.epoch, appended);
    }

    fn remember(&mut self, now: Instant, producer_id: i64, epoch: i16, appended: Batch) {
        let fresh = || Entry {
            epoch,
            window: VecDeque::with_capacity(1),
            last_active: now,
        };
        let entry = self.entries.entry(producer_id).or_insert_with(fresh);
        self.by_activity.remove(&(entry.last_active, producer_id));
        entry.last_active = entry.last_active.max(now);
        self.by_activity.insert((entry.last_active, producer_id));
        if epoch > entry.epoch {
            entry.epoch = epoch;
            entry.window.clear();
        }
        let known = entry
            .window
            .back()
            .is_some_and(|last| last.last_offset >= appended.last_offset);
        if epoch == entry.epoch && !known {
            if entry.window.len() == WINDOW {
                entry.window.pop_front();
            }
            entry.window.push_back(appended);
        }
        while self.entries.len() > PRODUCERS_MAX {
            let idle = self
                .by_activity
                .iter()
                .find(|(_, id)| *id != producer_id)
                .copied();
            let Some((_, id)) = idle else { break };
            self.forget(id);
        }
        assert_eq!(
            self.entries.len(),
            self.by_activity.len(),
            "a producer without its activity"
        );
    }

    /// Forgets producers that have appended nothing for `expiration_ms` (`producer.id.expiration.ms`)
    /// by the clock passed in, and says how many. Record timestamps play no part.
    pub fn expire(&mut self, now: Instant, expiration_ms: u64) -> usize {
        let mut expired = 0;
        while let Some((last_active, id)) = self.by_activity.first().copied() {
            if last_active.plus_ms(expiration_ms) > now {
                break;
            }
            self.forget(id);
            expired += 1;
        }
        expired
    }

    /// When [`Self::expire`] will next find something to do.
    pub fn deadline(&self, expiration_ms: u64) -> Option<Instant> {
        self.by_activity
            .first()
            .map(|(last_active, _)| last_active.plus_ms(expiration_ms))
    }

    fn forget(&mut self, producer_id: i64) {
        if let Some(entry) = self.entries.remove(&producer_id) {
            self.by_activity.remove(&(entry.last_active, producer_id));
        }
    }

    /// How many producers are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no producer is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Every producer, by id.
    pub fn iter(&self) -> impl Iterator<Item = Described> {
        self.entries.iter().filter_map(|(&producer_id, entry)| {
            entry.window.back().map(|last| Described {
                producer_id,
                epoch: entry.epoch,
                last_sequence: last.last_sequence,
                last_offset: last.last_offset,
                last_timestamp: last.timestamp,
            })
        })
    }

    /// The state as a file in the format of Kafka's `.snapshot` files, version 1. `crc32c` computes
    /// the checksum. A producer has one entry for each batch in its window, oldest first: a reader
    /// that keeps one entry for each producer keeps the last, which is all that Kafka stores.
    pub fn encode_snapshot(&self, crc32c: fn(&[u8]) -> u32) -> Vec<u8> {
        snapshot::encode(&self.entries, crc32c)
    }

    /// Reads such a file. Each producer counts as active at `now`: the file says nothing of clocks.
    pub fn decode_snapshot(
        now: Instant,
        file: &[u8],
        crc32c: fn(&[u8]) -> u32,
    ) -> Result<Self, SnapshotError> {
        let mut producers = Self::new();
        for entry in snapshot::decode(file, crc32c)? {
            producers.remember(now, entry.producer_id, entry.epoch, entry.batch);
        }
        Ok(producers)
    }
}

fn in_sequence(fits: bool) -> Verdict {
    if fits {
        Verdict::Append
    } else {
        Verdict::Refuse(Refusal::OutOfOrderSequence)
    }
}

/// Sequences count 0 ..= 2^31-1 and begin again at 0 (invariant 19).
fn sequence_plus(sequence: i32, by: i32) -> i32 {
    sequence.wrapping_add(by) & i32::MAX
}

fn sequence_minus(sequence: i32, by: i32) -> i32 {
    sequence.wrapping_sub(by) & i32::MAX
}
