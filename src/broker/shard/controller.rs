//! The one place where metadata changes: one request at a time, checked against the image, made
//! durable, applied on every shard, then answered. Knows nothing of Kafka's frames.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use logic::cluster::change::{self, Edit, NewTopic, Refused, Resource, TopicName};
use logic::cluster::{Image, Record};
use logic::ids::{PartitionId, TopicId};

use super::Shard;
use super::directories::DirId;
use super::mail::{Answer, Applied, Ask, ShardId};
use crate::consensus::MetadataLog;

/// A metadata change that somebody asks for.
pub enum Change {
    /// CreateTopics.
    CreateTopics(Vec<NewTopic>, Mode),
    /// DeleteTopics.
    DeleteTopics(Vec<TopicName>),
    /// CreatePartitions: name, count in all, replicas of each new one.
    CreatePartitions(Vec<NewPartitions>, Mode),
    /// IncrementalAlterConfigs.
    EditConfigs(Vec<Edits>, Mode),
    /// AlterConfigs.
    ReplaceConfigs(Vec<Replacement>, Mode),
    /// A block of producer ids.
    AllocateProducerIds,
}

/// One resource of IncrementalAlterConfigs and its edits by config.
pub type Edits = (Resource, Vec<(String, Edit)>);

/// One resource of AlterConfigs and all its configs; `None` means the default.
pub type Replacement = (Resource, Vec<(String, Option<String>)>);

/// One topic of CreatePartitions.
pub struct NewPartitions {
    /// The topic's name.
    pub name: String,
    /// How many partitions in all.
    pub count: i32,
    /// The replicas of each new one, or the controller's choice.
    pub assignments: Option<Vec<Vec<i32>>>,
}

/// Whether a change is made or only checked (`validate_only`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Made.
    Commit,
    /// Checked: the answer is what it would have been.
    Validate,
}

/// What a change came to, item by item.
pub enum Changed {
    /// Each item done, with the topic that it is about, or refused.
    Items(Vec<Result<Option<TopicId>, Failed>>),
    /// The first of [`change::PRODUCER_ID_BLOCK`] ids.
    ProducerIds(Result<i64, Failed>),
}

/// Why a change was not made.
#[derive(Clone, Debug)]
pub enum Failed {
    /// It is not allowed.
    Refused(Refused),
    /// The disk failed.
    Storage(String),
}

impl From<Refused> for Failed {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// The controller's own state, on shard 0.
pub struct Controller {
    log: MetadataLog,
    /// Partitions on each shard.
    loads: RefCell<Vec<usize>>,
    turn: Turn,
}

impl Controller {
    /// A controller over what the shards hold already.
    pub fn new(log: MetadataLog, loads: Vec<usize>) -> Self {
        Self {
            log,
            loads: RefCell::new(loads),
            turn: Turn::default(),
        }
    }

    /// Makes one change; others wait for their turn.
    pub async fn change(&self, shard: &Rc<Shard>, change: Change) -> Changed {
        let _turn = self.turn.take().await;
        let limits = &shard.metadata.identity.limits;
        let statics = &shard.metadata.identity.statics;
        let mut plan = Plan {
            image: shard.metadata.image().clone(),
            records: Vec::new(),
        };
        let (items, mode) = match change {
            Change::CreateTopics(topics, mode) => {
                let create = |topic: &NewTopic| {
                    let id = random_topic_id()?;
                    plan.add(|image| change::create_topic(image, limits, topic, id))?;
                    Ok(Some(id))
                };
                (topics.iter().map(create).collect(), mode)
            }
            Change::DeleteTopics(topics) => {
                let delete = |topic: &TopicName| {
                    let id = change::find(&plan.image, topic).map(|topic| topic.id);
                    plan.add(|image| change::delete_topic(image, limits, topic))?;
                    Ok(id.ok())
                };
                (topics.iter().map(delete).collect(), Mode::Commit)
            }
            Change::CreatePartitions(topics, mode) => {
                let grow = |topic: &NewPartitions| {
                    let NewPartitions {
                        name,
                        count,
                        assignments,
                    } = topic;
                    plan.add(|image| {
                        let given = assignments.as_deref();
                        change::create_partitions(image, limits, name, *count, given)
                    })
                };
                (topics.iter().map(grow).collect(), mode)
            }
            Change::EditConfigs(resources, mode) => {
                let edit = |(resource, edits): &Edits| {
                    plan.add(|it| change::edit_configs(it, limits, statics, resource, edits))
                };
                (resources.iter().map(edit).collect(), mode)
            }
            Change::ReplaceConfigs(resources, mode) => {
                let replace = |(resource, configs): &Replacement| {
                    plan.add(|it| change::replace_configs(it, limits, statics, resource, configs))
                };
                (resources.iter().map(replace).collect(), mode)
            }
            Change::AllocateProducerIds => return self.producer_ids(shard, plan).await,
        };
        let items: Vec<Result<Option<TopicId>, Failed>> = items;
        if mode == Mode::Validate || plan.records.is_empty() {
            return Changed::Items(items);
        }
        match self.commit(shard, plan.records).await {
            Ok(()) => Changed::Items(items),
            Err(failed) => Changed::Items(
                items
                    .into_iter()
                    .map(|item| item.and(Err(failed.clone())))
                    .collect(),
            ),
        }
    }

    async fn producer_ids(&self, shard: &Rc<Shard>, plan: Plan) -> Changed {
        let (first, record) = change::allocate_producer_ids(&plan.image);
        Changed::ProducerIds(self.commit(shard, vec![record]).await.map(|()| first))
    }

    /// Makes records durable and applies them on every shard.
    async fn commit(&self, shard: &Rc<Shard>, records: Vec<Record>) -> Result<(), Failed> {
        let directories = &shard.directories;
        if !directories.is_online(DirId::METADATA) {
            // What a disk says after it has failed proves nothing.
            let path = directories.path(DirId::METADATA).display();
            return Err(Failed::Storage(format!("{path} is offline")));
        }
        if let Err(error) = self.log.append(&records).await {
            eprintln!("error: metadata cannot be written: {error}; restart the broker");
            return Err(Failed::Storage(error.to_string()));
        }
        let placement = self.place(shard, &records);
        let applied = Arc::new(Applied { records, placement });
        let ask = |to| shard.ask(ShardId(to), Ask::Apply(applied.clone()));
        let calls: Vec<_> = (0..shard.shards()).map(ask).collect();
        let mut outcome = Ok(());
        for call in calls {
            let Answer::Applied(done) = call.await else {
                unreachable!("an application is answered by its outcome");
            };
            outcome = outcome.and(done.map_err(Failed::Storage));
        }
        outcome
    }

    /// Gives each new partition to the shard with the fewest, and to the data directory with the fewest.
    fn place(&self, shard: &Shard, records: &[Record]) -> Vec<(PartitionId, ShardId, DirId)> {
        let mut spread = shard.directories.spread();
        let mut loads = self.loads.borrow_mut();
        let image = shard.metadata.image();
        let mut placement = Vec::new();
        for record in records {
            let (topic, indexes) = match record {
                Record::TopicCreated {
                    id, assignments, ..
                } => (*id, 0..assignments.len()),
                Record::PartitionsAdded { id, assignments } => {
                    let from = image.topic(*id).map_or(0, |topic| topic.partitions.len());
                    (*id, from..from + assignments.len())
                }
                Record::TopicDeleted { id } => {
                    let partitions = image.topic(*id).map_or(0, |topic| topic.partitions.len());
                    for index in 0..partitions {
                        let partition = partition_id(*id, index);
                        if let Some(owner) = shard.metadata.owner(partition) {
                            loads[owner.0] -= 1;
                        }
                    }
                    continue;
                }
                _ => continue,
            };
            for index in indexes {
                let least = (0..loads.len()).min_by_key(|shard| loads[*shard]);
                let least = least.expect("a broker has a shard");
                loads[least] += 1;
                // If none is online any more, nothing can be opened in the one of the metadata either.
                let dir = spread.place().unwrap_or(DirId::METADATA);
                placement.push((partition_id(topic, index), ShardId(least), dir));
            }
        }
        placement
    }
}

/// A partition's id from its place in its topic.
pub fn partition_id(topic: TopicId, index: usize) -> PartitionId {
    let index = i32::try_from(index).expect("partitions are numbered by 32 bits");
    PartitionId { topic, index }
}

/// The image as it will be, and the records that take it there.
struct Plan {
    image: Image,
    records: Vec<Record>,
}

impl Plan {
    fn add(
        &mut self,
        make: impl FnOnce(&Image) -> Result<Vec<Record>, Refused>,
    ) -> Result<Option<TopicId>, Failed> {
        let records = make(&self.image)?;
        records.iter().for_each(|record| self.image.replay(record));
        self.records.extend(records);
        Ok(None)
    }
}

fn random_topic_id() -> Result<TopicId, Failed> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| Failed::Storage(error.to_string()))?;
    // The shape of a version 4 UUID, as Kafka's: never all zeros.
    id[6] = (id[6] & 0x0f) | 0x40;
    id[8] = (id[8] & 0x3f) | 0x80;
    Ok(TopicId(id))
}

/// Lets one task at a time pass, in the order of their coming.
#[derive(Default)]
struct Turn {
    taken: Cell<bool>,
    waiting: RefCell<VecDeque<Waker>>,
}

struct Taken<'a>(&'a Turn);

impl Turn {
    async fn take(&self) -> Taken<'_> {
        poll_fn(|context| {
            if !self.taken.replace(true) {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push_back(context.waker().clone());
            Poll::Pending
        })
        .await;
        Taken(self)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.taken.set(false);
        if let Some(waker) = self.0.waiting.borrow_mut().pop_front() {
            waker.wake();
        }
    }
}
