//! What of a group is in the log: its members with what they have, and what it has committed. One mutator,
//! [`Durable::replay`], on loading and after each append alike. Knows nothing of who is connected.

use alloc::collections::BTreeMap;
use alloc::string::String;

use wire::group_records::{GroupRecord, GroupValue, OffsetValue};

use super::consumer::state::State;

/// Memory that an entry takes beside its texts, about.
const OFFSET_BYTES: usize = 128;

/// The part of a group that outlives the broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Durable {
    /// The group by the classic protocol as of its last assignment; none of a group that only commits.
    pub(super) value: Option<GroupValue>,
    /// The group of consumers by the new protocol.
    pub(super) consumers: State,
    /// What is committed, by topic and partition. No topic is without partitions.
    offsets: BTreeMap<String, BTreeMap<i32, OffsetValue>>,
    /// Memory of the offsets, about.
    bytes: usize,
}

impl Durable {
    /// Applies one record of this group.
    pub(super) fn replay(&mut self, record: &GroupRecord) {
        match record {
            GroupRecord::Group { value, .. } => self.value.clone_from(value),
            GroupRecord::Offset {
                topic,
                partition,
                value: Some(value),
                ..
            } => {
                self.remove(topic, *partition);
                self.bytes += cost(topic, value);
                let partitions = self.offsets.entry(topic.clone()).or_default();
                partitions.insert(*partition, value.clone());
            }
            GroupRecord::Offset {
                topic,
                partition,
                value: None,
                ..
            } => self.remove(topic, *partition),
            GroupRecord::Consumer { record, .. } => self.consumers.replay(record),
        }
    }

    fn remove(&mut self, topic: &str, partition: i32) {
        let Some(partitions) = self.offsets.get_mut(topic) else {
            return;
        };
        if let Some(value) = partitions.remove(&partition) {
            self.bytes -= cost(topic, &value);
        }
        if partitions.is_empty() {
            self.offsets.remove(topic);
        }
    }

    /// What is committed for a partition.
    pub(super) fn offset(&self, topic: &str, partition: i32) -> Option<&OffsetValue> {
        self.offsets.get(topic)?.get(&partition)
    }

    /// All that is committed, by topic.
    pub(super) fn offsets(&self) -> &BTreeMap<String, BTreeMap<i32, OffsetValue>> {
        &self.offsets
    }

    /// Whether the log says nothing of the group.
    pub(super) fn is_empty(&self) -> bool {
        self.value.is_none() && !self.consumers.exists() && self.offsets.is_empty()
    }

    /// Memory of what is in the log, about, but for the classic protocol's members, who are counted as
    /// they are now.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.consumers.bytes()
    }
}

fn cost(topic: &str, value: &OffsetValue) -> usize {
    OFFSET_BYTES + topic.len() + value.metadata.len()
}
