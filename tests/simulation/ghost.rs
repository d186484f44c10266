//! What the disk must hold, known from outside: what was appended, what was said to be durable, what retention
//! and cleaning may have taken. Knows nothing of how storage does it: no segments, no files.

use std::collections::BTreeMap;

use bytes::Bytes;
use logic::ids::{Instant, Offset, PartitionId};
use logic::partition::producers::{BatchSummary, Producers};

use crate::policy::Policy;

/// All that was asked for and promised so far.
#[derive(Debug, Default)]
pub struct Ghost {
    pub logs: BTreeMap<PartitionId, GhostLog>,
    /// Caches have been deleted or misread.
    pub caches_lost: bool,
}

/// Whether a log must be there after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It was asked for: it may be there, empty.
    Asked,
    There,
    /// Its deletion was asked for: it may be gone, but not in part.
    Going,
    Gone,
}

/// One log.
#[derive(Debug)]
pub struct GhostLog {
    pub presence: Presence,
    pub policy: Policy,
    /// All batches ever appended and not lost, in order.
    pub batches: Vec<GhostBatch>,
    /// What was reported as durable.
    pub durable: Offset,
    /// The log's start as it was confirmed, and the highest that was asked for.
    pub start: Offset,
    pub start_asked: Offset,
    /// Retention that was asked for and may have been cut off.
    pub retaining: Vec<Retaining>,
    pub cleanings: Vec<Cleaning>,
    /// Of producers whose last batch lies below, nothing need be known any more.
    pub forgotten_below: Offset,
    /// The last stable offset, while a transaction is open.
    pub stable: Option<Offset>,
}

/// A look at what retention may take.
#[derive(Clone, Copy, Debug)]
pub struct Retaining {
    /// The wall clock, if it was to be believed.
    pub wall_ms: Option<i64>,
    pub high_watermark: Offset,
}

/// A cleaning that was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Cleaning {
    /// Nothing from here on was to be cleaned.
    pub bound: Offset,
    pub wall_ms: i64,
    /// Below it no key is left twice, once it is said to be done.
    pub clean_below: Option<Offset>,
}

/// A batch as it must be read back.
#[derive(Clone, Debug)]
pub struct GhostBatch {
    pub base: Offset,
    pub end: Offset,
    pub bytes: Bytes,
    /// Its producer's id and its first sequence number, if its producer is idempotent.
    pub producer: Option<(i64, i32)>,
    pub records: Vec<GhostRecord>,
    pub max_timestamp: i64,
    /// The wall clock at its append.
    pub appended_ms: i64,
}

/// A record of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GhostRecord {
    pub offset: Offset,
    pub timestamp: i64,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
}

impl GhostLog {
    /// A log that was asked for.
    pub fn asked(policy: Policy) -> Self {
        Self {
            presence: Presence::Asked,
            policy,
            batches: Vec::new(),
            durable: Offset(0),
            start: Offset(0),
            start_asked: Offset(0),
            retaining: Vec::new(),
            cleanings: Vec::new(),
            forgotten_below: Offset(0),
            stable: None,
        }
    }

    /// One past the last record.
    pub fn end(&self) -> Offset {
        self.batches.last().map_or(Offset(0), |batch| batch.end)
    }

    /// The next sequence number of a producer.
    pub fn next_sequence(&self, id: i64) -> i32 {
        let last = self.batches.iter().rev().find_map(|batch| {
            let (producer, sequence) = batch.producer?;
            (producer == id).then(|| sequence + (batch.end.0 - batch.base.0) as i32)
        });
        last.unwrap_or(0)
    }

    /// What is known of producers: a fold over the log (invariant 19).
    pub fn producers(&self) -> Producers {
        self.producers_below(self.end())
    }

    /// The same of a part of the log.
    pub fn producers_below(&self, end: Offset) -> Producers {
        let mut producers = Producers::new();
        for batch in self.batches.iter().filter(|batch| batch.end <= end) {
            if let Some((producer_id, base_sequence)) = batch.producer {
                let summary = BatchSummary {
                    producer_id,
                    epoch: 0,
                    base_sequence,
                    record_count: (batch.end.0 - batch.base.0) as u32,
                    timestamp: batch.max_timestamp,
                };
                producers.replay(Instant(0), &summary, batch.base);
            }
        }
        producers
    }

    /// Notes what is said to be durable.
    pub fn durable_is(&mut self, durable: Offset) {
        assert!(durable >= self.durable, "durable offsets never fall");
        assert!(durable <= self.end(), "what is durable was appended");
        self.durable = durable;
    }

    /// Where cleaning must stop: at what is durable, and at the last stable offset.
    pub fn cleaning_bound(&self) -> Offset {
        let stable = self.stable.unwrap_or(self.durable);
        stable.min(self.durable)
    }

    /// Compares with what was found after a power cut, and goes on from there.
    pub fn found(&mut self, start: Offset, end: Offset) {
        assert!(
            end >= self.durable,
            "{:?} was said to be durable, and only {end:?} is there",
            self.durable
        );
        let boundary = end == Offset(0) || self.batches.iter().any(|batch| batch.end == end);
        assert!(boundary, "the log ends at {end:?}, within a batch");
        let highest = self.retaining.iter().map(|asked| self.may_go(asked)).max();
        let highest = highest.map_or(self.start_asked, |it| it.max(self.start_asked));
        assert!(
            (self.start..=highest).contains(&start),
            "the log's start is {start:?}: {:?} was confirmed and no more than {highest:?} asked for",
            self.start,
        );
        self.batches.retain(|batch| batch.end <= end);
        self.presence = Presence::There;
        self.durable = end;
        self.start = start;
        self.start_asked = start;
        self.retaining.clear();
        // Who had opened a transaction does so again.
        self.stable = self.stable.map(|stable| stable.min(end));
    }
}
