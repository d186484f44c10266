//! Sends the records of one producer: batches per partition, one request per broker and turn, a bounded
//! number of requests on their way. Nothing is sent twice: what was not answered is told as such. Knows
//! nothing of schedules and measurements.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use client::{Cluster, Error, Route};
use tokio::sync::{Notify, Semaphore};
use wire::messages::produce_request::{PartitionProduceData, ProduceRequestData, TopicProduceData};
use wire::messages::produce_response::ProduceResponseData;
use wire::records::BatchBuilder;
use wire::{Compression, KafkaString, KafkaUuid};

use super::settings::SenderSettings;

/// From this version on Produce names topics by id.
const PRODUCE_WITH_TOPIC_IDS: i16 = 13;
/// What a record takes in a batch beyond its key and value, at most.
const RECORD_OVERHEAD_BYTES: usize = 40;
/// How long a partition without a leader is waited for before it is looked at again.
const LEADERLESS_WAIT: Duration = Duration::from_millis(100);

/// A topic that is written to.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Its name.
    pub name: Arc<str>,
    /// How many partitions it has.
    pub partitions: i32,
}

/// One record to send.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The topic's place among those that the sender was made with.
    pub topic: usize,
    /// The partition; `None` lets the key decide, or spreads batches when there is none.
    pub partition: Option<i32>,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: &'a [u8],
}

/// What became of a batch.
#[derive(Debug)]
pub struct Delivered<T> {
    /// What was given with each record, in their order.
    pub tags: Vec<T>,
    /// The offset of the first, -1 when the broker did not say; or why it failed.
    pub outcome: Result<i64, Failure>,
}

/// Why a batch failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The error.
    pub error: Error,
    /// Whether it is certain that the broker does not have the records.
    pub refused: bool,
}

/// The records of one producer on their way. Lives on one thread.
pub struct Sender<T> {
    shared: Rc<Shared<T>>,
    /// For records without key and partition: where the next ones go, by topic.
    sticky: Vec<i32>,
    rng: fastrand::Rng,
}

struct Shared<T> {
    cluster: Cluster,
    settings: SenderSettings,
    topics: Vec<Topic>,
    open: RefCell<BTreeMap<(usize, i32), Batch<T>>>,
    ready: RefCell<VecDeque<Batch<T>>>,
    room: Semaphore,
    in_flight: Cell<usize>,
    wake: Notify,
    closed: Cell<bool>,
    delivered: Box<dyn Fn(Delivered<T>)>,
}

struct Batch<T> {
    topic: usize,
    partition: i32,
    builder: BatchBuilder,
    tags: Vec<T>,
    /// Bytes taken of the room.
    bytes: usize,
    born: Instant,
}

impl<T: 'static> Sender<T> {
    /// A sender on the current thread's `LocalSet`. `delivered` is told of each batch.
    pub fn new(
        cluster: Cluster,
        settings: SenderSettings,
        topics: Vec<Topic>,
        seed: u64,
        delivered: Box<dyn Fn(Delivered<T>)>,
    ) -> Self {
        cluster.track(topics.iter().map(|topic| &*topic.name));
        let shared = Rc::new(Shared {
            room: Semaphore::new(settings.buffer_bytes),
            cluster,
            settings,
            open: RefCell::default(),
            ready: RefCell::default(),
            in_flight: Cell::new(0),
            wake: Notify::new(),
            closed: Cell::new(false),
            delivered,
            topics,
        });
        tokio::task::spawn_local(shared.clone().drive());
        let mut rng = fastrand::Rng::with_seed(seed);
        let sticky = shared
            .topics
            .iter()
            .map(|topic| rng.i32(0..topic.partitions));
        let sticky = sticky.collect();
        Self {
            shared,
            sticky,
            rng,
        }
    }

    /// Hands a record over; waits while there is no room. Says whether it had to wait.
    pub async fn send(&mut self, record: Record<'_>, tag: T) -> bool {
        let shared = &self.shared;
        let bytes = record.value.len() + record.key.map_or(0, <[u8]>::len) + RECORD_OVERHEAD_BYTES;
        let bytes = bytes.min(shared.settings.buffer_bytes);
        let wanted = u32::try_from(bytes).unwrap_or(u32::MAX);
        let (permit, waited) = match shared.room.try_acquire_many(wanted) {
            Ok(permit) => (permit, false),
            Err(_) => {
                let permit = shared.room.acquire_many(wanted).await;
                (permit.expect("the room is never closed"), true)
            }
        };
        permit.forget();
        let partitions = shared.topics[record.topic].partitions;
        let partition = match (record.partition, record.key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partition_of(key, partitions),
            (None, None) => self.sticky[record.topic],
        };
        let full = shared.append(record, partition, bytes, tag);
        if full && record.key.is_none() && record.partition.is_none() {
            self.sticky[record.topic] = self.rng.i32(0..partitions);
        }
        waited
    }

    /// Sends what waits for more, now.
    pub fn flush(&self) {
        self.shared.expire(Duration::ZERO);
        self.shared.wake.notify_one();
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.closed.set(true);
        self.shared.wake.notify_one();
    }
}

/// A key's partition.
fn partition_of(key: &[u8], partitions: i32) -> i32 {
    let hash = u64::from(crc32c::crc32c(key));
    let partition = (hash * u64::from(partitions.unsigned_abs())) >> 32;
    i32::try_from(partition).expect("below the number of partitions")
}

impl<T: 'static> Shared<T> {
    /// Adds a record to its partition's batch; whether that is full now.
    fn append(&self, record: Record<'_>, partition: i32, bytes: usize, tag: T) -> bool {
        let place = (record.topic, partition);
        let mut open = self.open.borrow_mut();
        let batch = open.entry(place).or_insert_with(|| Batch {
            topic: record.topic,
            partition,
            builder: BatchBuilder::new(self.settings.compression),
            tags: Vec::new(),
            bytes: 0,
            born: Instant::now(),
        });
        let first = batch.tags.is_empty();
        batch
            .builder
            .push(wall_ms(), record.key, Some(record.value), &[]);
        batch.tags.push(tag);
        batch.bytes += bytes;
        let full = batch.bytes + record.value.len() > self.settings.batch_bytes;
        if full {
            let batch = open.remove(&place).expect("it was just there");
            self.ready.borrow_mut().push_back(batch);
        }
        if full || first {
            self.wake.notify_one();
        }
        full
    }

    /// Makes batches ready that have waited long enough; returns how long the next has to wait.
    fn expire(&self, linger: Duration) -> Option<Duration> {
        let mut open = self.open.borrow_mut();
        let old: Vec<_> = open
            .iter()
            .filter(|(_, batch)| batch.born.elapsed() >= linger)
            .map(|(place, _)| *place)
            .collect();
        for place in old {
            self.ready.borrow_mut().extend(open.remove(&place));
        }
        let left = |batch: &Batch<T>| linger.saturating_sub(batch.born.elapsed());
        open.values().map(left).min()
    }

    async fn drive(self: Rc<Self>) {
        let alarm = super::clock::Alarm::new().expect("a thread for alarms");
        loop {
            let next = self.expire(self.settings.linger);
            let sent = self.send_ready().await;
            let idle = self.ready.borrow().is_empty() && self.open.borrow().is_empty();
            if self.closed.get() && idle {
                return;
            }
            if sent {
                continue;
            }
            match next {
                Some(next) => tokio::select! {
                    () = self.wake.notified() => {}
                    () = alarm.wait_until(Instant::now() + next) => {}
                },
                None => self.wake.notified().await,
            }
        }
    }

    /// Sends one request, if a batch is ready and there may be one more on its way.
    async fn send_ready(self: &Rc<Self>) -> bool {
        if self.in_flight.get() >= self.settings.in_flight_max {
            return false;
        }
        let Some(first) = self.ready.borrow_mut().pop_front() else {
            return false;
        };
        let Some(leader) = self.leader(&first) else {
            self.leaderless(first).await;
            return true;
        };
        let batches = self.batches_with(first, leader);
        let connection = match self.cluster.connection(Route::Node(leader)).await {
            Ok(connection) => connection,
            Err(error) => {
                self.fail_all(batches, &error, true);
                return true;
            }
        };
        let (batches, request) = self.request(batches);
        let answer = connection
            .version::<ProduceRequestData>()
            .and_then(|version| {
                let request = self.named_for(request, version);
                connection.enqueue(version, &request, self.settings.request_timeout)
            });
        match answer {
            Err(error) => self.fail_all(batches, &error, true),
            Ok(answer) => {
                self.in_flight.set(self.in_flight.get() + 1);
                let shared = self.clone();
                tokio::task::spawn_local(async move {
                    let answer = answer.await;
                    shared.in_flight.set(shared.in_flight.get() - 1);
                    shared.settle(batches, answer);
                    shared.wake.notify_one();
                });
            }
        }
        true
    }

    fn leader(&self, batch: &Batch<T>) -> Option<i32> {
        let name = &self.topics[batch.topic].name;
        self.cluster
            .metadata()
            .partition(name, batch.partition)?
            .leader
    }

    /// A batch whose partition has no leader waits, until it is too old.
    async fn leaderless(&self, batch: Batch<T>) {
        if batch.born.elapsed() > self.settings.delivery_timeout {
            let error = Error::DeliveryTimeout {
                waited: batch.born.elapsed(),
                last: None,
            };
            return self.fail_all(vec![batch], &error, true);
        }
        self.ready.borrow_mut().push_front(batch);
        self.cluster.request_refresh();
        tokio::time::sleep(LEADERLESS_WAIT).await;
    }

    /// The first batch and, of each other partition with this leader, its first that is ready.
    fn batches_with(&self, first: Batch<T>, leader: i32) -> Vec<Batch<T>> {
        let mut bytes = first.bytes;
        let mut taken = vec![first];
        let mut skipped = VecDeque::new();
        let mut ready = self.ready.borrow_mut();
        while let Some(batch) = ready.pop_front() {
            let same = |it: &Batch<T>| (it.topic, it.partition) == (batch.topic, batch.partition);
            let fits = bytes + batch.bytes <= self.settings.request_bytes_max;
            let waits = taken.iter().any(same) || skipped.iter().any(same);
            if waits || !fits || self.leader(&batch) != Some(leader) {
                skipped.push_back(batch);
            } else {
                bytes += batch.bytes;
                taken.push(batch);
            }
        }
        *ready = skipped;
        taken
    }

    /// The request of these batches, which are then without their content.
    fn request(&self, mut batches: Vec<Batch<T>>) -> (Vec<Batch<T>>, ProduceRequestData) {
        let mut by_topic: BTreeMap<usize, Vec<PartitionProduceData>> = BTreeMap::new();
        for batch in &mut batches {
            let empty = BatchBuilder::new(Compression::None);
            let builder = std::mem::replace(&mut batch.builder, empty);
            let records: Bytes = builder.finish().expect("a batch is far below 2 GiB");
            let partition = PartitionProduceData::default()
                .with_index(batch.partition)
                .with_records(Some(records));
            by_topic.entry(batch.topic).or_default().push(partition);
        }
        let topics = by_topic.into_iter().map(|(topic, partitions)| {
            let name = self.topics[topic].name.to_string();
            TopicProduceData::default()
                .with_name(KafkaString::from(name))
                .with_partition_data(partitions)
        });
        let timeout_ms = i32::try_from(self.settings.request_timeout.as_millis());
        let request = ProduceRequestData::default()
            .with_acks(self.settings.acks)
            .with_timeout_ms(timeout_ms.unwrap_or(i32::MAX))
            .with_topic_data(topics.collect());
        (batches, request)
    }

    fn named_for(&self, mut request: ProduceRequestData, version: i16) -> ProduceRequestData {
        if version >= PRODUCE_WITH_TOPIC_IDS {
            let metadata = self.cluster.metadata();
            for topic in &mut request.topic_data {
                let known = metadata.topics.get(topic.name.as_str());
                topic.topic_id = known.and_then(|known| known.id).unwrap_or(KafkaUuid::ZERO);
                topic.name = KafkaString::default();
            }
        }
        request
    }

    /// Tells each batch of a request what became of it.
    fn settle(&self, batches: Vec<Batch<T>>, answer: Result<ProduceResponseData, Error>) {
        let answer = match answer {
            Ok(answer) => answer,
            // It was on its way: whether it arrived is unknown.
            Err(error) => return self.fail_all(batches, &error, false),
        };
        for batch in batches {
            if self.settings.acks == 0 {
                self.deliver(batch, Ok(-1));
                continue;
            }
            let name = &self.topics[batch.topic].name;
            let id = self
                .cluster
                .metadata()
                .topics
                .get(name)
                .and_then(|topic| topic.id);
            let topic = answer.responses.iter().find(|topic| {
                topic.name.as_str() == &**name || id.is_some_and(|id| id == topic.topic_id)
            });
            let partition = topic.and_then(|topic| {
                let mut partitions = topic.partition_responses.iter();
                partitions.find(|partition| partition.index == batch.partition)
            });
            let about = format!("{name}-{}", batch.partition);
            let outcome = match partition {
                None => Err(Failure {
                    error: Error::Protocol {
                        reason: format!("the answer does not speak of {about}"),
                    },
                    refused: false,
                }),
                Some(partition) => match Error::from_code(partition.error_code, about) {
                    None => Ok(partition.base_offset),
                    Some(error) => Err(Failure {
                        refused: is_refusal(&error),
                        error,
                    }),
                },
            };
            if outcome
                .as_ref()
                .is_err_and(|failure| failure.error.is_stale_metadata())
            {
                self.cluster.request_refresh();
            }
            self.deliver(batch, outcome);
        }
    }

    fn fail_all(&self, batches: Vec<Batch<T>>, error: &Error, refused: bool) {
        for batch in batches {
            let error = error.clone();
            self.deliver(batch, Err(Failure { error, refused }));
        }
    }

    fn deliver(&self, batch: Batch<T>, outcome: Result<i64, Failure>) {
        self.room.add_permits(batch.bytes);
        (self.delivered)(Delivered {
            tags: batch.tags,
            outcome,
        });
    }
}

/// Whether the code says that the records were not appended. Codes that may come after the append leave
/// it open.
fn is_refusal(error: &Error) -> bool {
    use wire::ErrorCode::{
        KafkaStorageError, NetworkException, NotEnoughReplicasAfterAppend, RequestTimedOut,
        UnknownServerError,
    };
    !matches!(
        error.code(),
        Some(
            KafkaStorageError
                | NetworkException
                | NotEnoughReplicasAfterAppend
                | RequestTimedOut
                | UnknownServerError
        )
    )
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
