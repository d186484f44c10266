//! What the metadata records add up to. One mutator, [`Image::replay`]. Knows nothing of requests.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::record::Record;
use crate::ids::{LeaderEpoch, TopicId};

/// One topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its id.
    pub id: TopicId,
    /// Its name.
    pub name: String,
    /// Its partitions by index.
    pub partitions: Vec<Partition>,
    /// The configs set on it.
    pub configs: BTreeMap<String, String>,
}

/// One partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The brokers that hold it, the preferred leader first.
    pub replicas: Vec<i32>,
    /// Who leads it, or [`NO_LEADER`].
    pub leader: i32,
    /// Which leadership this is.
    pub leader_epoch: LeaderEpoch,
    /// The replicas that hold all that is committed.
    pub in_sync: Vec<i32>,
}

/// Nobody leads the partition.
pub const NO_LEADER: i32 = -1;

/// All metadata at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    topics: BTreeMap<TopicId, Topic>,
    /// Each topic's id by its name; the same topics as above.
    names: BTreeMap<String, TopicId>,
    /// Configs set on one broker.
    brokers: BTreeMap<i32, BTreeMap<String, String>>,
    /// Configs set for all brokers.
    broker_defaults: BTreeMap<String, String>,
    /// Configs set on groups, which need not be there; none is empty.
    groups: BTreeMap<String, BTreeMap<String, String>>,
    next_producer_id: i64,
    partitions: usize,
}

impl Image {
    /// Applies one record. One that does not fit, as about a topic that is gone or a name that is
    /// taken, changes nothing: the records come from disk, and every replica must do the same.
    pub fn replay(&mut self, record: &Record) {
        match record {
            Record::TopicCreated {
                id,
                name,
                assignments,
            } => {
                if self.topics.contains_key(id) || self.names.contains_key(name) {
                    return;
                }
                let partitions: Vec<_> = assignments.iter().map(|it| Partition::new(it)).collect();
                self.partitions += partitions.len();
                self.names.insert(name.clone(), *id);
                let topic = Topic {
                    id: *id,
                    name: name.clone(),
                    partitions,
                    configs: BTreeMap::new(),
                };
                self.topics.insert(*id, topic);
            }
            Record::TopicDeleted { id } => {
                if let Some(topic) = self.topics.remove(id) {
                    self.partitions -= topic.partitions.len();
                    self.names.remove(&topic.name);
                }
            }
            Record::PartitionsAdded { id, assignments } => {
                if let Some(topic) = self.topics.get_mut(id) {
                    self.partitions += assignments.len();
                    topic
                        .partitions
                        .extend(assignments.iter().map(|it| Partition::new(it)));
                }
            }
            Record::TopicConfigSet { id, key, value } => {
                if let Some(topic) = self.topics.get_mut(id) {
                    set(&mut topic.configs, key, value.as_ref());
                }
            }
            Record::BrokerConfigSet {
                broker: None,
                key,
                value,
            } => {
                set(&mut self.broker_defaults, key, value.as_ref());
            }
            Record::BrokerConfigSet {
                broker: Some(broker),
                key,
                value,
            } => {
                let configs = self.brokers.entry(*broker).or_default();
                set(configs, key, value.as_ref());
                if configs.is_empty() {
                    self.brokers.remove(broker);
                }
            }
            Record::GroupConfigSet { group, key, value } => {
                self.set_group_config(group, key, value.as_ref());
            }
            Record::ProducerIdsAllocated { next } => {
                self.next_producer_id = self.next_producer_id.max(*next);
            }
        }
        assert_eq!(self.topics.len(), self.names.len(), "a topic has one name");
    }

    fn set_group_config(&mut self, group: &str, key: &str, value: Option<&String>) {
        let configs = self.groups.entry(group.into()).or_default();
        set(configs, key, value);
        if configs.is_empty() {
            self.groups.remove(group);
        }
    }

    /// The topic of this name.
    pub fn topic_by_name(&self, name: &str) -> Option<&Topic> {
        self.names.get(name).and_then(|id| self.topics.get(id))
    }

    /// The topic of this id.
    pub fn topic(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(&id)
    }

    /// All topics in the order of their names.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.names.values().filter_map(|id| self.topics.get(id))
    }

    /// All topics whose names come at or after this one, in order.
    pub fn topics_from<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Topic> + use<'a> {
        let bounds = (
            core::ops::Bound::Included(name),
            core::ops::Bound::Unbounded,
        );
        self.names
            .range::<str, _>(bounds)
            .filter_map(|(_, id)| self.topics.get(id))
    }

    /// Partitions over all topics.
    pub fn partition_count(&self) -> usize {
        self.partitions
    }

    /// How many topics.
    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// The configs set on one broker.
    pub fn broker_configs(&self, broker: i32) -> Option<&BTreeMap<String, String>> {
        self.brokers.get(&broker)
    }

    /// The configs set for all brokers.
    pub fn broker_defaults(&self) -> &BTreeMap<String, String> {
        &self.broker_defaults
    }

    /// The configs set on a group.
    pub fn group_configs(&self, group: &str) -> Option<&BTreeMap<String, String>> {
        self.groups.get(group)
    }

    /// The groups that have configs of their own, by name.
    pub fn configured_groups(&self) -> impl ExactSizeIterator<Item = &String> {
        self.groups.keys()
    }

    /// The first producer id that is not handed out.
    pub fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }

    /// A number that equal images share and different ones do not, but for chance (FNV-1a over their
    /// records' bytes): replicas compare it at equal applied index (invariant 33).
    pub fn state_hash(&self) -> u64 {
        let mut bytes = Vec::new();
        self.records()
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, record| {
                bytes.clear();
                record.encode(&mut bytes);
                let step =
                    |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
                bytes.iter().fold(hash, step)
            })
    }

    /// The records that make this image from nothing.
    pub fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for topic in self.topics() {
            let id = topic.id;
            let assignments = topic
                .partitions
                .iter()
                .map(|it| it.replicas.clone())
                .collect();
            records.push(Record::TopicCreated {
                id,
                name: topic.name.clone(),
                assignments,
            });
            records.extend(
                topic
                    .configs
                    .iter()
                    .map(|(key, value)| Record::TopicConfigSet {
                        id,
                        key: key.clone(),
                        value: Some(value.clone()),
                    }),
            );
        }
        let broker_config = |broker, (key, value): (&String, &String)| Record::BrokerConfigSet {
            broker,
            key: key.clone(),
            value: Some(value.clone()),
        };
        records.extend(
            self.broker_defaults
                .iter()
                .map(|entry| broker_config(None, entry)),
        );
        for (broker, configs) in &self.brokers {
            records.extend(
                configs
                    .iter()
                    .map(|entry| broker_config(Some(*broker), entry)),
            );
        }
        for (group, configs) in &self.groups {
            let own = configs.iter().map(|(key, value)| Record::GroupConfigSet {
                group: group.clone(),
                key: key.clone(),
                value: Some(value.clone()),
            });
            records.extend(own);
        }
        records.push(Record::ProducerIdsAllocated {
            next: self.next_producer_id,
        });
        records
    }
}

impl Partition {
    fn new(replicas: &[i32]) -> Self {
        let leader = replicas.first().copied().unwrap_or(NO_LEADER);
        Self {
            replicas: replicas.to_vec(),
            leader,
            leader_epoch: LeaderEpoch(0),
            in_sync: replicas.to_vec(),
        }
    }
}

fn set(configs: &mut BTreeMap<String, String>, key: &str, value: Option<&String>) {
    match value {
        Some(value) => configs.insert(key.into(), value.clone()),
        None => configs.remove(key),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn created(id: u8, name: &str) -> Record {
        let assignments = vec![vec![1], vec![1]];
        Record::TopicCreated {
            id: TopicId([id; 16]),
            name: name.into(),
            assignments,
        }
    }

    #[test]
    fn a_record_that_does_not_fit_changes_nothing() {
        let mut image = Image::default();
        image.replay(&created(1, "a"));
        let before = image.clone();
        image.replay(&created(1, "b"));
        image.replay(&created(2, "a"));
        let gone = TopicId([9; 16]);
        image.replay(&Record::PartitionsAdded {
            id: gone,
            assignments: vec![vec![1]],
        });
        image.replay(&Record::TopicDeleted { id: gone });
        image.replay(&Record::TopicConfigSet {
            id: gone,
            key: "k".into(),
            value: Some("v".into()),
        });
        image.replay(&Record::BrokerConfigSet {
            broker: Some(3),
            key: "k".into(),
            value: None,
        });
        image.replay(&Record::ProducerIdsAllocated { next: -5 });
        assert_eq!(image, before);
    }

    #[test]
    fn topics_come_in_the_order_of_their_names_from_any_name_on() {
        let mut image = Image::default();
        for (id, name) in [(1, "c"), (2, "a"), (3, "b")] {
            image.replay(&created(id, name));
        }
        let names = |topics: &mut dyn Iterator<Item = &Topic>| {
            topics.map(|topic| topic.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&mut image.topics()), ["a", "b", "c"]);
        assert_eq!(names(&mut image.topics_from("aa")), ["b", "c"]);
        assert_eq!(image.topic_by_name("b"), image.topic(TopicId([3; 16])));
    }

    #[test]
    fn a_name_may_come_back_under_another_id() {
        let mut image = Image::default();
        image.replay(&created(1, "a"));
        image.replay(&Record::TopicDeleted {
            id: TopicId([1; 16]),
        });
        image.replay(&created(2, "a"));
        assert_eq!(
            image.topic_by_name("a").map(|topic| topic.id),
            Some(TopicId([2; 16]))
        );
        assert_eq!(image.topic(TopicId([1; 16])), None);
    }

    #[test]
    fn the_state_hash_tells_states_apart_and_not_histories() {
        let (mut image, mut other) = (Image::default(), Image::default());
        assert_eq!(image.state_hash(), other.state_hash());
        image.replay(&created(1, "a"));
        image.replay(&created(2, "b"));
        assert_ne!(image.state_hash(), other.state_hash());
        other.replay(&created(2, "b"));
        other.replay(&created(1, "a"));
        assert_eq!(image.state_hash(), other.state_hash());
        let key = |value: Option<&str>| Record::BrokerConfigSet {
            broker: Some(1),
            key: "k".into(),
            value: value.map(String::from),
        };
        image.replay(&key(Some("v")));
        assert_ne!(image.state_hash(), other.state_hash());
        image.replay(&key(None));
        assert_eq!(image.state_hash(), other.state_hash());
    }

    #[test]
    fn the_records_of_an_image_make_the_same_image() {
        let id = TopicId([1; 16]);
        let mut image = Image::default();
        let set = |value: Option<&str>| Record::TopicConfigSet {
            id,
            key: "retention.ms".into(),
            value: value.map(String::from),
        };
        for record in [
            Record::TopicCreated {
                id,
                name: "t".into(),
                assignments: vec![vec![1]],
            },
            Record::PartitionsAdded {
                id,
                assignments: vec![vec![1], vec![1]],
            },
            set(Some("1")),
            set(Some("2")),
            Record::ProducerIdsAllocated { next: 2000 },
            Record::BrokerConfigSet {
                broker: None,
                key: "k".into(),
                value: Some("v".into()),
            },
            Record::GroupConfigSet {
                group: "g".into(),
                key: "k".into(),
                value: Some("v".into()),
            },
        ] {
            image.replay(&record);
        }
        assert_eq!(image.partition_count(), 3);
        let mut again = Image::default();
        image
            .records()
            .iter()
            .for_each(|record| again.replay(record));
        assert_eq!(image, again);
        again.replay(&Record::TopicDeleted { id });
        assert_eq!((again.topic_count(), again.partition_count()), (0, 0));
        again.replay(&set(None));
    }
}
