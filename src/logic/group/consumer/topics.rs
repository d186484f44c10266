//! The cluster's topics as far as sharing out needs them. Knows nothing of who reads them.

use alloc::collections::BTreeMap;
use alloc::string::String;

use wire::group_records::TopicUuid;

/// All topics by name.
#[derive(Clone, Debug, Default)]
pub(in crate::group) struct Topics {
    by_name: BTreeMap<String, Topic>,
}

/// One topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::group) struct Topic {
    pub(in crate::group) id: TopicUuid,
    pub(in crate::group) partitions: i32,
}

impl Topics {
    pub(in crate::group) fn set(&mut self, name: String, topic: Topic) {
        self.by_name.insert(name, topic);
    }

    pub(in crate::group) fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
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
