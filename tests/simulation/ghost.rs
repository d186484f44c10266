//! What the disk must hold, known from outside: what was appended, what was said to be durable. Knows
//! nothing of how storage does it.

use std::collections::BTreeMap;

use logic::ids::{Offset, PartitionId};

/// All that was asked for and promised so far.
#[derive(Debug, Default)]
pub struct Ghost {
    pub logs: BTreeMap<PartitionId, GhostLog>,
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
    /// All batches ever appended and not lost, in order.
    pub batches: Vec<GhostBatch>,
    /// What was reported as durable.
    pub durable: Offset,
    /// The log's start as it was confirmed, and the highest that was asked for.
    pub start: Offset,
    pub start_asked: Offset,
    /// The next sequence number of its one producer.
    pub next_sequence: i32,
}

/// A batch as it must be read back.
#[derive(Clone, Debug)]
pub struct GhostBatch {
    pub base: Offset,
    pub end: Offset,
    pub bytes: Vec<u8>,
    /// Its first sequence number, if its producer is idempotent.
    pub sequence: Option<i32>,
}

impl GhostLog {
    /// A log that was asked for.
    pub fn asked() -> Self {
        Self {
            presence: Presence::Asked,
            batches: Vec::new(),
            durable: Offset(0),
            start: Offset(0),
            start_asked: Offset(0),
            next_sequence: 0,
        }
    }

    /// One past the last record.
    pub fn end(&self) -> Offset {
        self.batches.last().map_or(Offset(0), |batch| batch.end)
    }

    /// The bytes from the batch on that holds `from`, up to `end`.
    pub fn bytes(&self, from: Offset, end: Offset) -> Vec<u8> {
        let wanted = self.batches.iter();
        let wanted = wanted.filter(|batch| batch.end > from && batch.base < end);
        wanted.flat_map(|batch| batch.bytes.clone()).collect()
    }

    /// Notes what is said to be durable.
    pub fn durable_is(&mut self, durable: Offset) {
        assert!(durable >= self.durable, "durable offsets never fall");
        assert!(durable <= self.end(), "what is durable was appended");
        self.durable = durable;
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
        assert!(
            (self.start..=self.start_asked).contains(&start),
            "the log's start is {start:?}: {:?} was confirmed and {:?} asked for",
            self.start,
            self.start_asked
        );
        self.batches.retain(|batch| batch.end <= end);
        self.presence = Presence::There;
        self.durable = end;
        self.start = start;
        self.start_asked = start;
        let idempotent = self.batches.iter().rev();
        let last = idempotent.filter_map(|batch| {
            let records = (batch.end.0 - batch.base.0) as i32;
            batch.sequence.map(|sequence| sequence + records)
        });
        self.next_sequence = last.into_iter().next().unwrap_or(0);
    }
}
