//! Verification: whether a broker kept what it acknowledged. Each record carries who sent it, as which
//! one, and a checksum; the checker is told of everything that was sent, answered and read, and says what
//! does not fit. Pure: it never asks anybody, so that a history file can be checked again.

pub mod checker;
pub mod finding;
pub mod history;

#[cfg(test)]
mod checker_tests;

use serde::{Deserialize, Serialize};

use crate::envelope::Envelope;

/// A record by its producer and its place among that producer's records, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordId {
    /// Which producer.
    pub producer: u32,
    /// Which of its records.
    pub sequence: u64,
}

/// Which of the two readings a record was read in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// While records were being produced.
    Live,
    /// From the beginning to the end, when all was over.
    Final,
}

/// Something that happened, in the order in which it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A record was handed to the client.
    Sent {
        /// Which record.
        record: RecordId,
        /// Where to.
        partition: i32,
    },
    /// The broker acknowledged it.
    Acked {
        /// Which record.
        record: RecordId,
        /// The offset that it was given; -1 when the broker did not say.
        offset: i64,
    },
    /// It was refused and is certainly not stored.
    Refused {
        /// Which record.
        record: RecordId,
    },
    /// Whether it is stored is not known: no answer came in time.
    Ambiguous {
        /// Which record.
        record: RecordId,
    },
    /// A record was read.
    Read {
        /// In which reading.
        reading: Reading,
        /// Where.
        partition: i32,
        /// At which offset.
        offset: i64,
        /// Which record it says it is; `None` when it is damaged.
        record: Option<RecordId>,
    },
    /// The broker said where a partition's log begins and ends (its high watermark).
    Watermark {
        /// Of which partition.
        partition: i32,
        /// The first offset, if it said so.
        start: Option<i64>,
        /// The offset behind the last.
        end: i64,
    },
}

impl Event {
    /// A record that was read, of the run `run`. What is not of this run is damaged: the topic is the
    /// run's alone.
    pub fn read(run: u64, reading: Reading, partition: i32, offset: i64, value: &[u8]) -> Self {
        let envelope = Envelope::open(value).ok();
        let envelope = envelope.filter(|envelope| envelope.run == run);
        Self::Read {
            reading,
            partition,
            offset,
            record: envelope.map(|envelope| RecordId {
                producer: envelope.producer,
                sequence: envelope.sequence,
            }),
        }
    }
}
