//! The RecordAccumulator: records in, batches per broker out, answers in, fates out. Pure: the moment,
//! the metadata and randomness are passed in.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use wire::records::BatchBuilder;
use wire::{Compression, KafkaUuid};

use super::batch::{Batch, Content, Identity, Stamp};
use super::buffers::Buffers;
use super::completion::{Completion, Outcome};
use super::metrics::Metrics;
use super::partitioner::{Partitioner, Sticky, partition_for_key};
use super::queue::{PartitionQueue, Ready, Rules};
use super::record::RecordView;
use crate::cluster::{Backoff, Metadata, Topic};
use crate::{Error, ProducerConfig};

/// What of a producer's settings the accumulator needs.
pub(super) struct Settings {
    pub(super) rules: Rules,
    pub(super) batch_size: usize,
    pub(super) buffer_memory: usize,
    pub(super) max_request_size: usize,
    pub(super) retries: u32,
    pub(super) retry_backoff: Backoff,
    pub(super) compression: Compression,
    pub(super) acks_none: bool,
    pub(super) ignore_keys: bool,
    pub(super) partitioner: Option<Arc<dyn Partitioner>>,
    pub(super) keep_timestamps: bool,
}

impl Settings {
    pub(super) fn new(config: &ProducerConfig) -> Self {
        Self {
            rules: Rules {
                linger: config.linger,
                delivery_timeout: config.delivery_timeout,
                idempotent: config.enable_idempotence,
                in_order: !config.enable_idempotence && config.max_in_flight == 1,
            },
            batch_size: config.batch_size,
            buffer_memory: config.buffer_memory,
            max_request_size: config.max_request_size,
            retries: config.retries,
            retry_backoff: config.cluster.retry_backoff,
            compression: config.compression,
            acks_none: config.acks == crate::properties::Acks::None,
            ignore_keys: config.partitioner_ignore_keys,
            partitioner: None,
            keep_timestamps: false,
        }
    }
}

/// Why a record was not taken.
#[derive(Debug)]
pub(super) enum Refused {
    /// The topic's partitions are not known.
    UnknownTopic,
    /// `buffer.memory` is used up.
    NoMemory,
    /// It can never be taken.
    Never(Error),
}

/// A record that was taken.
#[derive(Debug)]
pub(super) struct Appended {
    pub(super) completion: Arc<Completion>,
    pub(super) index: u32,
    /// Whether there may be something to send earlier than the last plan said.
    pub(super) wake: bool,
}

/// Who an idempotent producer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// Batches carry no numbers.
    Nobody,
    /// To be asked for.
    Unknown,
    /// Asked for.
    Asked,
    Known(Identity),
}

/// What a broker can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Free,
    /// A request waits for its answer, or the broker asked for a pause; nothing to be done until then.
    Busy,
    /// There is no connection.
    Closed,
}

/// What is to be done now.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// One request per broker.
    pub(super) requests: BTreeMap<i32, Vec<Outgoing>>,
    /// Brokers that something waits for and that are not connected.
    pub(super) connect: Vec<i32>,
    pub(super) ask_producer_id: bool,
    /// Partitions without a leader have batches.
    pub(super) refresh_metadata: bool,
    /// When to plan again at the latest.
    pub(super) wake: Option<Instant>,
    pub(super) fates: Vec<Fate>,
}

/// A batch on its way.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) place: Place,
    pub(super) batch: u64,
    pub(super) content: Content,
    pub(super) stamp: Option<Stamp>,
}

/// A partition, as the accumulator and as the broker name it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) topic_index: usize,
    pub(super) topic: Arc<str>,
    pub(super) topic_id: Option<KafkaUuid>,
    pub(super) partition: i32,
}

/// A batch whose fate is decided.
#[derive(Debug)]
pub(super) struct Fate {
    pub(super) completion: Arc<Completion>,
    pub(super) outcome: Outcome,
    pub(super) timestamps: Option<Vec<i64>>,
}

pub(super) struct TopicQueues {
    pub(super) topic: Arc<Topic>,
    pub(super) partitions: Vec<PartitionQueue>,
    sticky: Sticky,
}

pub(super) struct Accumulator {
    pub(super) settings: Settings,
    index: HashMap<Arc<str>, usize>,
    /// Where the last record went: the next one often follows it.
    last_topic: usize,
    pub(super) topics: Vec<TopicQueues>,
    /// Partitions with batches, each once, in the order of their turns.
    active: VecDeque<(usize, i32)>,
    pub(super) memory_used: usize,
    pub(super) buffers: Buffers,
    next_batch: u64,
    who: Who,
    /// Flushes that wait: nothing lingers.
    flushes: usize,
    closing: bool,
    /// Somebody waits for memory: nothing lingers.
    pub(super) starved: bool,
    planned_wake: Option<Instant>,
    pub(super) metrics: Metrics,
}

impl Accumulator {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            who: if settings.rules.idempotent {
                Who::Unknown
            } else {
                Who::Nobody
            },
            buffers: Buffers::of(settings.batch_size),
            settings,
            index: HashMap::new(),
            last_topic: 0,
            topics: Vec::new(),
            active: VecDeque::new(),
            memory_used: 0,
            next_batch: 0,
            flushes: 0,
            closing: false,
            starved: false,
            planned_wake: None,
            metrics: Metrics::default(),
        }
    }

    /// Takes over what metadata says of a topic. Partitions never become fewer.
    pub(super) fn learn(&mut self, topic: &Arc<Topic>, seed: u64) {
        if topic.error.is_some() {
            return;
        }
        let index = *self.index.entry(topic.name.clone()).or_insert_with(|| {
            self.topics.push(TopicQueues {
                topic: topic.clone(),
                partitions: Vec::new(),
                sticky: Sticky::new(seed),
            });
            self.topics.len() - 1
        });
        let queues = &mut self.topics[index];
        queues.topic = topic.clone();
        let count = queues.partitions.len().max(topic.partitions.len());
        queues
            .partitions
            .resize_with(count, PartitionQueue::default);
    }

    /// Takes over new metadata for the topics that are known already.
    pub(super) fn learn_all(&mut self, metadata: &Metadata) {
        let known = self
            .index
            .keys()
            .filter_map(|name| metadata.topics.get(name));
        let known: Vec<Arc<Topic>> = known.cloned().collect();
        known.iter().for_each(|topic| self.learn(topic, 1));
    }

    /// Puts a record into the open batch of its partition, or into a new one.
    pub(super) fn append(
        &mut self,
        now: Instant,
        record: &RecordView<'_>,
    ) -> Result<Appended, Refused> {
        if self.closing {
            return Err(Refused::Never(Error::Closed));
        }
        let most = BatchBuilder::record_bytes_max(record.key, record.value, record.headers);
        self.check_size(most)?;
        let index = self.topic(record.topic).ok_or(Refused::UnknownTopic)?;
        let (partition, sticky) = self.partition(index, record)?;
        let batch_size = self.settings.batch_size;
        let queue = &mut self.topics[index].partitions[partition as usize];
        if let Some(batch) = queue.batches.back_mut()
            && let Some(at) = batch.push(record, most, batch_size)
        {
            let full = batch.full;
            let completion = batch.completion.clone();
            let lone = queue.batches.len() == 1;
            self.count(index, most, sticky, false);
            let wake = full && lone && self.planned_wake.is_none_or(|at| at > now);
            return Ok(Appended {
                completion,
                index: at,
                wake,
            });
        }
        let memory = batch_size.max(wire::batch::HEADER_BYTES + most);
        if self.memory_used + memory > self.settings.buffer_memory {
            self.starved = true;
            return Err(Refused::NoMemory);
        }
        let ended = !self.topics[index].partitions[partition as usize]
            .batches
            .is_empty();
        let appended = self.open(now, index, partition, record, most, memory);
        self.count(index, most, sticky, ended);
        Ok(appended)
    }

    fn topic(&mut self, name: &str) -> Option<usize> {
        let is_last = |queues: &TopicQueues| &*queues.topic.name == name;
        if !self.topics.get(self.last_topic).is_some_and(is_last) {
            self.last_topic = *self.index.get(name)?;
        }
        Some(self.last_topic)
    }

    fn check_size(&self, most: usize) -> Result<(), Refused> {
        let bytes = most + wire::batch::HEADER_BYTES;
        let limits = [
            ("max.request.size", self.settings.max_request_size),
            ("buffer.memory", self.settings.buffer_memory),
        ];
        match limits.into_iter().find(|(_, bytes_max)| bytes > *bytes_max) {
            None => Ok(()),
            Some((setting, bytes_max)) => Err(Refused::Never(Error::RecordTooLarge {
                bytes,
                bytes_max,
                setting,
            })),
        }
    }

    /// The record's partition, and whether it is the sticky one.
    fn partition(&mut self, index: usize, record: &RecordView<'_>) -> Result<(i32, bool), Refused> {
        let queues = &mut self.topics[index];
        let count = queues.partitions.len() as i32;
        let own = |it: &Arc<dyn Partitioner>| it.partition(&queues.topic, record.key, record.value);
        let chosen = record
            .partition
            .or_else(|| self.settings.partitioner.as_ref().and_then(own));
        let chosen = chosen.or_else(|| {
            let key = record.key.filter(|_| !self.settings.ignore_keys)?;
            Some(partition_for_key(key, count))
        });
        match chosen {
            None => Ok((queues.sticky.partition(&queues.topic), true)),
            Some(partition) if (0..count).contains(&partition) => Ok((partition, false)),
            Some(partition) => Err(Refused::Never(Error::Invalid {
                reason: format!(
                    "topic {} has partitions 0 to {}, not {partition}",
                    record.topic,
                    count - 1
                ),
            })),
        }
    }

    fn open(
        &mut self,
        now: Instant,
        index: usize,
        partition: i32,
        record: &RecordView<'_>,
        most: usize,
        memory: usize,
    ) -> Appended {
        let queues = &mut self.topics[index];
        let completion = Completion::new(queues.topic.name.clone(), partition);
        let compression = self.settings.compression;
        let id = self.next_batch;
        let builder = BatchBuilder::in_buffer(compression, self.buffers.take(memory));
        let mut batch = Batch::new(id, builder, memory, now, completion.clone());
        batch.timestamps = self.settings.keep_timestamps.then(Vec::new);
        let pushed = batch.push(record, most, self.settings.batch_size);
        assert_eq!(pushed, Some(0), "an empty batch takes any record");
        let queue = &mut queues.partitions[partition as usize];
        if queue.batches.is_empty() {
            self.active.push_back((index, partition));
        }
        queue.batches.push_back(batch);
        self.next_batch += 1;
        self.memory_used += memory;
        let rules = &self.settings.rules;
        let due = match queue.ready(now, rules, self.flushes > 0) {
            Ready::Now => Some(now),
            Ready::At(at) => Some(at),
            Ready::No => None,
        };
        let earlier = |due: Instant| self.planned_wake.is_none_or(|at| due < at);
        let wake = due.is_some_and(earlier);
        if wake {
            self.planned_wake = due;
        }
        Appended {
            completion,
            index: 0,
            wake,
        }
    }

    fn count(&mut self, index: usize, bytes: usize, sticky: bool, ended: bool) {
        self.metrics.records += 1;
        self.metrics.record_bytes += bytes as u64;
        if sticky {
            let batch_size = self.settings.batch_size;
            self.topics[index].sticky.wrote(bytes, batch_size, ended);
        }
    }

    /// What to send to which broker. Looks at each partition that has batches once; who had the last
    /// turn first has it last the next time.
    pub(super) fn plan(
        &mut self,
        now: Instant,
        metadata: &Metadata,
        mut lane: impl FnMut(i32) -> Lane,
    ) -> Plan {
        let mut plan = Plan::default();
        let mut room: BTreeMap<i32, usize> = BTreeMap::new();
        for _ in 0..self.active.len() {
            let Some((index, partition)) = self.active.pop_front() else {
                break;
            };
            self.expire(now, index, partition, &mut plan);
            let queue = &self.topics[index].partitions[partition as usize];
            if queue.batches.is_empty() {
                continue;
            }
            self.active.push_back((index, partition));
            plan.wake_at(queue.expires(&self.settings.rules));
            match queue.ready(now, &self.settings.rules, self.hurry()) {
                Ready::No => {}
                Ready::At(at) => plan.wake_at(Some(at)),
                Ready::Now => {
                    self.send(index, partition, metadata, &mut lane, &mut room, &mut plan)
                }
            }
        }
        self.active.rotate_left(usize::from(self.active.len() > 1));
        self.planned_wake = plan.wake;
        plan
    }

    fn hurry(&self) -> bool {
        self.flushes > 0 || self.closing || self.starved
    }

    fn expire(&mut self, now: Instant, index: usize, partition: i32, plan: &mut Plan) {
        let queue = &mut self.topics[index].partitions[partition as usize];
        for (batch, error) in queue.expire(now, &self.settings.rules) {
            self.finish(batch, Outcome::Failed(error), &mut plan.fates);
        }
    }

    fn send(
        &mut self,
        index: usize,
        partition: i32,
        metadata: &Metadata,
        lane: &mut impl FnMut(i32) -> Lane,
        room: &mut BTreeMap<i32, usize>,
        plan: &mut Plan,
    ) {
        let topic = &self.topics[index].topic;
        let known = metadata.partition(&topic.name, partition);
        let Some(leader) = known.and_then(|known| known.leader) else {
            plan.refresh_metadata = true;
            return;
        };
        match lane(leader) {
            Lane::Busy => return,
            Lane::Closed => {
                if !plan.connect.contains(&leader) {
                    plan.connect.push(leader);
                }
                return;
            }
            Lane::Free => {}
        }
        let Some(identity) = self.identity(index, partition, plan) else {
            return;
        };
        let place = Place {
            topic_index: index,
            topic: self.topics[index].topic.name.clone(),
            topic_id: self.topics[index].topic.id,
            partition,
        };
        let left = room.entry(leader).or_insert(self.settings.max_request_size);
        let queue = &mut self.topics[index].partitions[partition as usize];
        let next = queue.batches.iter().find(|batch| !batch.in_flight);
        let bytes = next.map_or(0, |batch| batch.bytes);
        let request = plan.requests.entry(leader).or_default();
        // A batch that alone is too large goes alone: only the broker can say that it is.
        if bytes > *left && !request.is_empty() {
            return;
        }
        *left = left.saturating_sub(bytes);
        if let Some((batch, content, stamp)) = queue.take(identity) {
            self.metrics.batches += 1;
            request.push(Outgoing {
                place,
                batch,
                content,
                stamp,
            });
        }
    }

    /// The identity under which the partition's next batch goes; `None` while it is not known.
    fn identity(
        &mut self,
        index: usize,
        partition: i32,
        plan: &mut Plan,
    ) -> Option<Option<Identity>> {
        let queue = &mut self.topics[index].partitions[partition as usize];
        if queue.wants_new_epoch()
            && let Who::Known(identity) = self.who
        {
            // Epochs end with 32767: then a new id is asked for (KIP-360).
            match identity.epoch.checked_add(1) {
                Some(epoch) => {
                    let identity = Identity { epoch, ..identity };
                    self.who = Who::Known(identity);
                    self.metrics.epoch_bumps += 1;
                    queue.count_anew(identity);
                }
                None => self.who = Who::Unknown,
            }
        }
        match self.who {
            Who::Nobody => Some(None),
            Who::Known(identity) => Some(Some(identity)),
            Who::Unknown => {
                plan.ask_producer_id = true;
                self.who = Who::Asked;
                None
            }
            Who::Asked => None,
        }
    }

    /// The answer to what [`Plan::ask_producer_id`] asked; `None` when it is to be asked again.
    pub(super) fn producer_id(&mut self, identity: Option<Identity>) {
        self.who = identity.map_or(Who::Unknown, Who::Known);
    }

    /// Takes note of a batch whose fate is known.
    pub(super) fn finish(&mut self, batch: Batch, outcome: Outcome, fates: &mut Vec<Fate>) {
        self.memory_used -= batch.memory;
        self.starved = false;
        match &outcome {
            Outcome::Failed(_) => self.metrics.record_errors += u64::from(batch.records),
            Outcome::Written { .. } => {
                self.metrics.records_acknowledged += u64::from(batch.records)
            }
            Outcome::Split(_) => self.metrics.splits += 1,
        }
        fates.push(Fate {
            completion: batch.completion,
            outcome,
            timestamps: batch.timestamps,
        });
    }

    pub(super) fn next_batch_id(&mut self) -> u64 {
        self.next_batch += 1;
        self.next_batch - 1
    }

    /// All that is not decided yet; until [`Accumulator::flushed`] nothing lingers.
    pub(super) fn flush(&mut self) -> Vec<Arc<Completion>> {
        self.flushes += 1;
        let queues = self.topics.iter().flat_map(|topic| &topic.partitions);
        let batches = queues.flat_map(|queue| &queue.batches);
        batches.map(|batch| batch.completion.clone()).collect()
    }

    pub(super) fn flushed(&mut self) {
        self.flushes -= 1;
    }

    /// Takes no more records.
    pub(super) fn close(&mut self) {
        self.closing = true;
    }

    /// Gives up all that is left, for this reason.
    pub(super) fn abort(&mut self, error: &Error) -> Vec<Fate> {
        let mut fates = Vec::new();
        for (index, partition) in std::mem::take(&mut self.active) {
            let queue = &mut self.topics[index].partitions[partition as usize];
            for batch in std::mem::take(&mut queue.batches) {
                self.finish(batch, Outcome::Failed(error.clone()), &mut fates);
            }
        }
        fates
    }
}

impl Plan {
    fn wake_at(&mut self, at: Option<Instant>) {
        self.wake = match (self.wake, at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}
