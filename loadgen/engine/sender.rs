//! Sends the records of one producer through the client library's, and tells each record's fate in runs that
//! were decided together. Knows nothing of schedules and measurements.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use client::producer::{Delivery, Producer, RecordMetadata, RecordView, partition_for_key};
use client::{Error, ProducerConfig};
use tokio::sync::Notify;
use wire::ErrorCode;

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
    /// When it is handed over, and the same by the wall clock, in milliseconds since 1970.
    pub now: (Instant, i64),
}

/// What became of records that followed each other in a partition.
#[derive(Debug)]
pub struct Delivered<T> {
    /// What was given with each record, in their order.
    pub tags: Vec<T>,
    /// The offset of the first, -1 when the broker did not say; or why they failed.
    pub outcome: Result<i64, Failure>,
}

/// Why records failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The error.
    pub error: Error,
    /// Whether it is certain that the broker does not have the records.
    pub refused: bool,
}

/// The records of one producer on their way. Lives on one thread.
pub struct Sender<T> {
    producer: Producer,
    topics: Vec<Topic>,
    /// Bytes after which records without key and partition go elsewhere.
    sticky_bytes: usize,
    /// For such records, by topic: where the next go, and how many bytes went there.
    sticky: Vec<(i32, usize)>,
    rng: fastrand::Rng,
    waiting: BTreeMap<(usize, i32), Rc<Waiting<T>>>,
    delivered: Rc<dyn Fn(Delivered<T>)>,
}

/// Records of one partition whose fate is not told yet, in order: fates come in this order, so that
/// waiting for the first delays no other. (Across partitions they come in any order.)
struct Waiting<T> {
    records: RefCell<VecDeque<(Delivery, T)>>,
    added: Notify,
    closed: Cell<bool>,
}

impl<T: 'static> Sender<T> {
    /// A sender on the current thread's `LocalSet`, connected. `delivered` is told of each fate.
    ///
    /// # Errors
    /// When the settings do not fit each other, or a topic is not known in time.
    pub async fn new(
        config: ProducerConfig,
        topics: Vec<Topic>,
        seed: u64,
        delivered: Box<dyn Fn(Delivered<T>)>,
    ) -> Result<Self, Error> {
        let sticky_bytes = config.batch_size;
        let producer = Producer::new(config)?;
        for topic in &topics {
            producer.partitions_for(&topic.name).await?;
        }
        let mut rng = fastrand::Rng::with_seed(seed);
        let sticky = topics.iter().map(|topic| (rng.i32(0..topic.partitions), 0));
        Ok(Self {
            sticky: sticky.collect(),
            producer,
            topics,
            sticky_bytes,
            rng,
            waiting: BTreeMap::new(),
            delivered: delivered.into(),
        })
    }

    /// Hands a record over; waits while there is no room. Says whether it had to wait.
    pub async fn send(&mut self, record: Record<'_>, tag: T) -> bool {
        let partition = self.partition(&record);
        let name = self.topics[record.topic].name.clone();
        let (now, timestamp) = record.now;
        let view = RecordView {
            topic: &name,
            partition: Some(partition),
            timestamp,
            key: record.key,
            value: Some(record.value),
            headers: &[],
        };
        let (sent, waited) = match self.producer.try_send_at(now, &view) {
            Ok(delivery) => (Ok(delivery), false),
            Err(error) if error.is_retriable() => (self.producer.send_view(view).await, true),
            Err(error) => (Err(error), false),
        };
        match sent {
            Ok(delivery) => self.waiting(record.topic, partition).add(delivery, tag),
            Err(error) => (self.delivered)(Delivered {
                tags: vec![tag],
                outcome: Err(Failure {
                    error,
                    refused: true,
                }),
            }),
        }
        waited
    }

    /// Sends what waits for more, and waits until every fate is decided.
    pub async fn flush(&self) {
        self.producer.flush().await;
    }

    fn partition(&mut self, record: &Record<'_>) -> i32 {
        let partitions = self.topics[record.topic].partitions;
        match (record.partition, record.key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partition_for_key(key, partitions),
            (None, None) => {
                let (partition, bytes) = &mut self.sticky[record.topic];
                if *bytes >= self.sticky_bytes {
                    (*partition, *bytes) = (self.rng.i32(0..partitions), 0);
                }
                *bytes += record.value.len();
                *partition
            }
        }
    }

    fn waiting(&mut self, topic: usize, partition: i32) -> &Waiting<T> {
        let delivered = &self.delivered;
        self.waiting.entry((topic, partition)).or_insert_with(|| {
            let waiting = Rc::new(Waiting {
                records: RefCell::default(),
                added: Notify::new(),
                closed: Cell::new(false),
            });
            tokio::task::spawn_local(waiting.clone().tell(delivered.clone()));
            waiting
        })
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        for waiting in self.waiting.values() {
            waiting.closed.set(true);
            waiting.added.notify_one();
        }
    }
}

impl<T> Waiting<T> {
    fn add(&self, delivery: Delivery, tag: T) {
        let mut records = self.records.borrow_mut();
        if records.is_empty() {
            self.added.notify_one();
        }
        records.push_back((delivery, tag));
    }

    /// Tells fates as they are decided, until the sender is gone.
    async fn tell(self: Rc<Self>, delivered: Rc<dyn Fn(Delivered<T>)>) {
        loop {
            let first = self.records.borrow_mut().pop_front();
            let Some((delivery, tag)) = first else {
                if self.closed.get() {
                    return;
                }
                self.added.notified().await;
                continue;
            };
            let fate = delivery.await;
            let mut run = Run::new(fate, tag);
            while let Some((fate, tag)) = self.next_decided() {
                if let Some((fate, tag)) = run.add(fate, tag) {
                    delivered(run.end());
                    run = Run::new(fate, tag);
                }
            }
            delivered(run.end());
        }
    }

    /// The next record, if its fate is decided.
    fn next_decided(&self) -> Option<(Fate, T)> {
        let mut records = self.records.borrow_mut();
        let (delivery, _) = records.front_mut()?;
        // Nobody needs to be woken: who finds it undecided waits for it.
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(fate) = Pin::new(delivery).poll(&mut context) else {
            return None;
        };
        let (_, tag) = records.pop_front()?;
        Some((fate, tag))
    }
}

type Fate = Result<RecordMetadata, Error>;

/// Records with consecutive offsets, or of the same failure.
struct Run<T> {
    outcome: Result<i64, Error>,
    tags: Vec<T>,
}

impl<T> Run<T> {
    fn new(fate: Fate, tag: T) -> Self {
        Self {
            outcome: fate.map(|metadata| metadata.offset.unwrap_or(-1)),
            tags: vec![tag],
        }
    }

    /// Adds a record, or gives it back when it begins another run.
    fn add(&mut self, fate: Fate, tag: T) -> Option<(Fate, T)> {
        let fits = match (&self.outcome, &fate) {
            (Ok(base), Ok(metadata)) => match metadata.offset {
                Some(offset) => *base + self.tags.len() as i64 == offset,
                None => *base < 0,
            },
            (Err(one), Err(other)) => one.name() == other.name(),
            _ => false,
        };
        if !fits {
            return Some((fate, tag));
        }
        self.tags.push(tag);
        None
    }

    fn end(self) -> Delivered<T> {
        Delivered {
            tags: self.tags,
            outcome: self.outcome.map_err(|error| Failure {
                refused: is_refusal(&error),
                error,
            }),
        }
    }
}

/// Whether it is certain that the broker does not have the records: it looked at them and refused, as it
/// would have in any earlier attempt. Whatever else went wrong, an attempt may have been carried out.
fn is_refusal(error: &Error) -> bool {
    match error {
        Error::RecordTooLarge { .. } | Error::BufferExhausted { .. } => true,
        _ => matches!(
            error.code(),
            Some(
                ErrorCode::MessageTooLarge
                    | ErrorCode::RecordListTooLarge
                    | ErrorCode::InvalidRecord
                    | ErrorCode::InvalidTimestamp
                    | ErrorCode::InvalidTopicException
                    | ErrorCode::TopicAuthorizationFailed
            )
        ),
    }
}
