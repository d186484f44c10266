//! The cluster's topics as far as sharing out needs them. Knows nothing of who reads them.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use wire::group_records::{Assignment, TopicUuid};

use crate::group::request::TopicPartitions;

/// All topics by name.
#[derive(Clone, Debug, Default)]
pub(in crate::group) struct Topics {
    by_name: BTreeMap<String, Topic>,
    /// The same topics' names.
    names: BTreeMap<TopicUuid, String>,
}

/// One topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::group) struct Topic {
    pub(in crate::group) id: TopicUuid,
    pub(in crate::group) partitions: i32,
}

impl Topics {
    pub(in crate::group) fn set(&mut self, name: String, topic: Topic) {
        self.remove(&name);
        self.names.insert(topic.id, name.clone());
        self.by_name.insert(name, topic);
    }

    pub(in crate::group) fn remove(&mut self, name: &str) {
        if let Some(topic) = self.by_name.remove(name) {
            self.names.remove(&topic.id);
        }
    }

    /// Partitions by the names of their topics; those of topics that are gone are left out.
    pub(in crate::group) fn by_name(&self, partitions: &Assignment) -> Vec<TopicPartitions> {
        let named = partitions.iter().filter_map(|(id, partitions)| {
            let name = self.names.get(id)?.clone();
            Some((name, partitions.iter().copied().collect()))
        });
        named.collect()
    }

    /// The same the other way. Partitions that are not there are left out: a client may have made them up.
    pub(in crate::group) fn by_id(&self, partitions: &[TopicPartitions]) -> Assignment {
        let mut found = Assignment::new();
        for (name, partitions) in partitions {
            let Some(topic) = self.get(name) else {
                continue;
            };
            let real = partitions.iter().copied();
            let real = real.filter(|index| (0..topic.partitions).contains(index));
            found.entry(topic.id).or_default().extend(real);
        }
        found.retain(|_, it| !it.is_empty());
        found
    }

    pub(super) fn get(&self, name: &str) -> Option<Topic> {
        self.by_name.get(name).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.by_name.keys()
    }

    /// A number that tells one state of some topics, which are named in order, from another; 0 when
    /// there is none of them (FNV-1a).
    pub(super) fn hash<'a>(&self, names: impl Iterator<Item = &'a String>) -> i64 {
        const START: u64 = 0xcbf2_9ce4_8422_2325;
        let mut hash = START;
        let mut mix = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for name in names {
            if let Some(topic) = self.get(name) {
                mix(&topic.id);
                mix(&topic.partitions.to_be_bytes());
            }
        }
        (if hash == START { 0 } else { hash }).cast_signed()
    }
}
