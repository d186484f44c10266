//! The name of a partition, and partitions grouped as requests want them. Knows nothing of brokers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A topic and the number of one of its partitions. Cloning it copies no text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Names a partition.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Groups what belongs to partitions by topic, topics and partitions in order.
pub(super) fn by_topic<T>(
    items: impl IntoIterator<Item = (TopicPartition, T)>,
) -> BTreeMap<Arc<str>, BTreeMap<i32, T>> {
    let mut grouped: BTreeMap<Arc<str>, BTreeMap<i32, T>> = BTreeMap::new();
    for (at, item) in items {
        let topic = grouped.entry(at.topic).or_default();
        topic.insert(at.partition, item);
    }
    grouped
}
