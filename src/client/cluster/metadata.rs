//! What is known of the cluster: brokers, topics by name and id, who leads. Pure: answers in, picture
//! out.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use wire::messages::MetadataResponseData;
use wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use wire::{ErrorCode, KafkaUuid};

/// One picture of the cluster. Never changed: a newer one takes its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// The cluster's id.
    pub cluster_id: Option<String>,
    /// The broker that takes requests for the controller.
    pub controller: Option<i32>,
    /// Address of each broker, by node id.
    pub brokers: BTreeMap<i32, Broker>,
    /// Topics by name. Those that the broker answered with an error are among them.
    pub topics: HashMap<Arc<str>, Arc<Topic>>,
    ids: HashMap<KafkaUuid, Arc<Topic>>,
}

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Its node id.
    pub id: i32,
    /// `host:port`.
    pub address: Arc<str>,
    /// Where it stands, if it says so.
    pub rack: Option<String>,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: Arc<str>,
    /// Its id; `None` when the broker is too old to have one.
    pub id: Option<KafkaUuid>,
    /// Whether it is one of the brokers' own.
    pub is_internal: bool,
    /// By index: entry `i` is partition `i`.
    pub partitions: Vec<Partition>,
    /// Why there is nothing to say about it.
    pub error: Option<ErrorCode>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number.
    pub index: i32,
    /// Node id of the leader; `None` while there is none.
    pub leader: Option<i32>,
    /// Epoch of that leader; -1 when the broker is too old to say.
    pub leader_epoch: i32,
    /// All replicas.
    pub replicas: Vec<i32>,
    /// Those in sync.
    pub in_sync: Vec<i32>,
    /// Those on brokers or disks that are down.
    pub offline: Vec<i32>,
}

/// Which topics an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// All: those it does not name are gone.
    All,
    /// Those it names: the others stay as they are known.
    Named,
}

impl Metadata {
    /// The topic with this id.
    pub fn topic_by_id(&self, id: KafkaUuid) -> Option<&Arc<Topic>> {
        self.ids.get(&id)
    }

    /// A partition of a topic.
    pub fn partition(&self, topic: &str, partition: i32) -> Option<&Partition> {
        let index = usize::try_from(partition).ok()?;
        self.topics.get(topic)?.partitions.get(index)
    }

    /// The picture after an answer. Of a partition (of the same incarnation of its topic) the leader
    /// with the highest epoch stays: a broker that lags must not undo a newer election (KIP-320).
    #[must_use]
    pub fn updated(&self, answer: &MetadataResponseData, coverage: Coverage) -> Self {
        let brokers = answer.brokers.iter().map(|broker| {
            let address = match broker.host.as_str() {
                host if host.contains(':') => format!("[{host}]:{}", broker.port),
                host => format!("{host}:{}", broker.port),
            };
            let known = Broker {
                id: broker.node_id,
                address: address.into(),
                rack: broker.rack.as_ref().map(ToString::to_string),
            };
            (broker.node_id, known)
        });
        let mut topics = match coverage {
            Coverage::All => HashMap::new(),
            Coverage::Named => self.topics.clone(),
        };
        for topic in &answer.topics {
            if let Some(topic) = self.topic(topic) {
                topics.insert(topic.name.clone(), Arc::new(topic));
            }
        }
        Self {
            cluster_id: answer.cluster_id.as_ref().map(ToString::to_string),
            controller: (answer.controller_id >= 0).then_some(answer.controller_id),
            brokers: brokers.collect(),
            ids: ids(&topics),
            topics,
        }
    }

    /// The picture with only those topics that `keep` wants.
    #[must_use]
    pub fn retained(&self, keep: impl Fn(&str) -> bool) -> Self {
        let mut kept = self.clone();
        kept.topics.retain(|name, _| keep(name));
        kept.ids = ids(&kept.topics);
        kept
    }

    fn topic(&self, answer: &MetadataResponseTopic) -> Option<Topic> {
        let name: Arc<str> = answer.name.as_ref()?.as_str().into();
        let error = ErrorCode::from(answer.error_code);
        let id = (!answer.topic_id.is_nil()).then_some(answer.topic_id);
        let known = self.topics.get(&name).filter(|known| known.id == id);
        let mut partitions: Vec<Partition> = answer.partitions.iter().map(partition).collect();
        partitions.sort_by_key(|partition| partition.index);
        // A hole would shift every partition behind it; brokers do not leave holes.
        let whole = (0..)
            .zip(&partitions)
            .take_while(|(index, it)| *index == it.index);
        partitions.truncate(whole.count());
        for partition in &mut partitions {
            let index = usize::try_from(partition.index).unwrap_or(usize::MAX);
            let known = known.and_then(|known| known.partitions.get(index));
            if let Some(newer) = known.filter(|it| it.leader_epoch > partition.leader_epoch) {
                *partition = newer.clone();
            }
        }
        Some(Topic {
            name,
            id,
            is_internal: answer.is_internal,
            partitions,
            error: error.is_error().then_some(error),
        })
    }
}

fn partition(answer: &MetadataResponsePartition) -> Partition {
    Partition {
        index: answer.partition_index,
        leader: (answer.leader_id >= 0).then_some(answer.leader_id),
        leader_epoch: answer.leader_epoch,
        replicas: answer.replica_nodes.clone(),
        in_sync: answer.isr_nodes.clone(),
        offline: answer.offline_replicas.clone(),
    }
}

fn ids(topics: &HashMap<Arc<str>, Arc<Topic>>) -> HashMap<KafkaUuid, Arc<Topic>> {
    let with_id = topics
        .values()
        .filter_map(|topic| topic.id.map(|id| (id, topic.clone())));
    with_id.collect()
}
