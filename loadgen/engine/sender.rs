//! Sends the records of one producer through the client library's, and tells each record's fate in runs that
//! were decided together. Knows nothing of schedules and measurements.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use client::producer::{Deliveries, Delivery, Producer, RecordView, partition_for_key};
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
    /// By topic and partition.
    waiting: Vec<Vec<Option<Rc<Waiting<T>>>>>,
    delivered: Rc<dyn Fn(Delivered<T>)>,
}

/// A record for which there was no room.
#[derive(Debug)]
pub struct NoRoom<T> {
    /// Where it would have gone.
    pub partition: i32,
    /// What was given with it.
    pub tag: T,
}

/// Records of one partition whose fate is not told yet, in order: fates come in this order, so that
/// waiting for the first delays no other. (Across partitions they come in any order.)
struct Waiting<T> {
    open: RefCell<Open<T>>,
    added: Notify,
    closed: Cell<bool>,
}

/// The records by batch, and what was given with each.
struct Open<T> {
    batches: VecDeque<Deliveries>,
    tags: VecDeque<T>,
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
            waiting: topics.iter().map(|_| Vec::new()).collect(),
            producer,
            topics,
            sticky_bytes,
            rng,
            delivered: delivered.into(),
        })
    }

    /// Hands a record over; waits while there is no room. Says whether it had to wait.
    pub async fn send(&mut self, record: Record<'_>, tag: T) -> bool {
        match self.offer(&record, tag) {
            Ok(()) => false,
            Err(held) => {
                self.send_held(&record, held).await;
                true
            }
        }
    }

    /// Hands a record over if there is room for it.
    ///
    /// # Errors
    /// Where it was to go, if there is none: [`Sender::send_held`] waits.
    pub fn offer(&mut self, record: &Record<'_>, tag: T) -> Result<(), NoRoom<T>> {
        let partition = self.partition(record);
        let view = view(&self.topics, record, partition);
        match self.producer.try_send_at(record.now.0, &view) {
            Ok(delivery) => self.waiting(record.topic, partition).add(delivery, tag),
            Err(error) if error.is_retriable() => return Err(NoRoom { partition, tag }),
            Err(error) => self.refused(error, tag),
        }
        Ok(())
    }

    /// Hands over a record for which there was no room, when there is.
    pub async fn send_held(&mut self, record: &Record<'_>, held: NoRoom<T>) {
        let NoRoom { partition, tag } = held;
        let view = view(&self.topics, record, partition);
        match self.producer.send_view(view).await {
            Ok(delivery) => self.waiting(record.topic, partition).add(delivery, tag),
            Err(error) => self.refused(error, tag),
        }
    }

    /// Sends what waits for more, and waits until every fate is decided.
    pub async fn flush(&self) {
        self.producer.flush().await;
    }

    fn refused(&self, error: Error, tag: T) {
        (self.delivered)(Delivered {
            tags: vec![tag],
            outcome: Err(Failure {
                error,
                refused: true,
            }),
        });
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
        let partition = partition.unsigned_abs() as usize;
        let partitions = &mut self.waiting[topic];
        if partitions.len() <= partition {
            partitions.resize_with(partition + 1, || None);
        }
        let delivered = &self.delivered;
        partitions[partition].get_or_insert_with(|| {
            let waiting = Rc::new(Waiting {
                open: RefCell::new(Open {
                    batches: VecDeque::new(),
                    tags: VecDeque::new(),
                }),
                added: Notify::new(),
                closed: Cell::new(false),
            });
            tokio::task::spawn_local(waiting.clone().tell(delivered.clone()));
            waiting
        })
    }
}

fn view<'a>(topics: &'a [Topic], record: &Record<'a>, partition: i32) -> RecordView<'a> {
    RecordView {
        topic: &topics[record.topic].name,
        partition: Some(partition),
        timestamp: record.now.1,
        key: record.key,
        value: Some(record.value),
        headers: &[],
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        for waiting in self.waiting.iter().flatten().flatten() {
            waiting.closed.set(true);
            waiting.added.notify_one();
        }
    }
}

impl<T> Waiting<T> {
    fn add(&self, delivery: Delivery, tag: T) {
        let mut open = self.open.borrow_mut();
        open.tags.push_back(tag);
        let mine = match open.batches.back_mut() {
            Some(batch) => match batch.add(delivery) {
                Ok(()) => return,
                Err(delivery) => delivery,
            },
            None => {
                self.added.notify_one();
                delivery
            }
        };
        open.batches.push_back(mine.into());
    }

    /// Tells fates as they are decided, until the sender is gone.
    async fn tell(self: Rc<Self>, delivered: Rc<dyn Fn(Delivered<T>)>) {
        loop {
            // The batch stays where it is meanwhile, for records may still come into it.
            let first = self.open.borrow().batches.front().map(Deliveries::decided);
            let Some(decided) = first else {
                if self.closed.get() {
                    return;
                }
                self.added.notified().await;
                continue;
            };
            decided.await;
            let batch = self.open.borrow_mut().batches.pop_front();
            let Some(batch) = batch else {
                continue;
            };
            for told in batch.told().await {
                let tags = self.open.borrow_mut().tags.drain(..told.records).collect();
                delivered(Delivered {
                    tags,
                    outcome: match told.outcome {
                        Ok(base) => Ok(base.unwrap_or(-1)),
                        Err(error) => Err(Failure {
                            refused: is_refusal(&error),
                            error,
                        }),
                    },
                });
            }
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
