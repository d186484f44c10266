//! What a poll returns. Knows nothing of where it comes from.

use bytes::Bytes;
use wire::records::Header;

use super::partition::TopicPartition;

/// One record. Key, value and headers are slices of what the broker sent (or of its decompressed
/// content): they keep that memory alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRecord {
    /// Its offset in the partition.
    pub offset: i64,
    /// Milliseconds since 1970, or -1: the producer's time or the broker's, as the topic's
    /// `message.timestamp.type` says.
    pub timestamp: i64,
    /// Epoch of the leader that appended it.
    pub leader_epoch: Option<i32>,
    /// Null and empty differ.
    pub key: Option<Bytes>,
    /// `None` is a tombstone.
    pub value: Option<Bytes>,
    /// In the producer's order; keys may repeat.
    pub headers: Vec<Header>,
}

/// The records of one partition, in the order of their offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRecords {
    /// Which partition.
    pub partition: TopicPartition,
    /// Not empty.
    pub records: Vec<ConsumerRecord>,
}

/// What a poll returns: records of some partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerRecords {
    /// Each partition at most once.
    pub partitions: Vec<PartitionRecords>,
}

impl ConsumerRecords {
    /// How many records there are.
    pub fn len(&self) -> usize {
        let partitions = self.partitions.iter();
        partitions.map(|partition| partition.records.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// All records with their partitions.
    pub fn iter(&self) -> impl Iterator<Item = (&TopicPartition, &ConsumerRecord)> {
        self.partitions.iter().flat_map(|partition| {
            let records = partition.records.iter();
            records.map(move |record| (&partition.partition, record))
        })
    }
}
