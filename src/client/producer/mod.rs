//! The producer: records in, batches to the leaders of their partitions, each record's fate back. Start
//! reading at [`Producer::send`], then `accumulator` (what waits), `queue` (in which order), `answers`
//! (what an answer means), `sender` (the task around them).

mod accumulator;
mod answers;
mod batch;
mod buffers;
mod completion;
mod interceptor;
mod metrics;
mod partitioner;
mod queue;
mod record;
mod sender;
mod serializer;
mod typed;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub use completion::{Deliveries, Delivery, Told};
pub use interceptor::Interceptor;
pub use metrics::Metrics;
pub use partitioner::{Partitioner, murmur2, partition_for_key};
pub use record::{Header, ProducerRecord, RecordMetadata, RecordView};
pub use serializer::{
    BytesSerializer, JsonSerializer, NullableSerializer, NumberSerializer, Serializer,
    StringSerializer,
};
pub use typed::TypedProducer;

use crate::cluster::{Cluster, Topic};
use crate::{Error, ProducerConfig};
use accumulator::{Accumulator, Refused, Settings};
use sender::Sender;

/// A producer of bytes. Cheap to clone, usable from many tasks and threads. [`TypedProducer`] puts
/// serializers before it.
#[derive(Clone)]
pub struct Producer {
    shared: Arc<Shared>,
    sender: Arc<SenderTask>,
}

struct Shared {
    config: ProducerConfig,
    cluster: Cluster,
    accumulator: Mutex<Accumulator>,
    interceptors: Vec<Arc<dyn Interceptor>>,
    /// Rung when there may be something to send.
    bell: Notify,
    memory_freed: Notify,
    counts: Counts,
}

/// What the sender counts outside of the accumulator's lock.
#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    in_flight: AtomicU64,
}

/// The task; it ends with the last clone of the producer, and what was not sent is lost: see
/// [`Producer::close`].
struct SenderTask {
    task: JoinHandle<()>,
    shared: Arc<Shared>,
}

impl SenderTask {
    /// Stops it; who still waits for a record is told that nobody sends it any more.
    fn stop(&self) {
        self.task.abort();
        let mut accumulator = self.shared.accumulator();
        accumulator.close();
        let fates = accumulator.abort(&Error::Closed);
        drop(accumulator);
        self.shared.tell(fates);
        // Who waits for memory learns that there is nobody left to free it.
        self.shared.memory_freed.notify_waiters();
    }
}

impl Drop for SenderTask {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A producer's parts that are code, not settings.
#[derive(Clone, Default)]
pub struct ProducerParts {
    /// Chooses partitions in place of the default rule.
    pub partitioner: Option<Arc<dyn Partitioner>>,
    /// In the order in which they see a record.
    pub interceptors: Vec<Arc<dyn Interceptor>>,
}

impl Producer {
    /// A producer with the default partitioner and no interceptors. Nothing is connected before it
    /// is needed.
    ///
    /// # Errors
    /// When settings do not fit each other.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(config: ProducerConfig) -> Result<Self, Error> {
        Self::with_parts(config, ProducerParts::default())
    }

    /// A producer with code of others in it.
    ///
    /// # Errors
    /// As [`Producer::new`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn with_parts(config: ProducerConfig, parts: ProducerParts) -> Result<Self, Error> {
        let faults = config.faults();
        if !faults.is_empty() {
            return Err(Error::Config(faults));
        }
        let mut settings = Settings::new(&config);
        settings.partitioner = parts.partitioner;
        settings.keep_timestamps = !parts.interceptors.is_empty();
        let shared = Arc::new(Shared {
            cluster: Cluster::new(config.cluster.clone()),
            config,
            accumulator: Mutex::new(Accumulator::new(settings)),
            interceptors: parts.interceptors,
            bell: Notify::new(),
            memory_freed: Notify::new(),
            counts: Counts::default(),
        });
        let task = tokio::spawn(Sender::new(shared.clone()).run());
        let sender = Arc::new(SenderTask {
            task,
            shared: shared.clone(),
        });
        Ok(Self { shared, sender })
    }

    /// Takes a record; waits for metadata and memory, up to `max.block.ms`, and for nothing else. The
    /// record's fate is what [`Delivery`] resolves to: await it (synchronous), await it later
    /// (asynchronous), or drop it (fire and forget).
    ///
    /// # Errors
    /// When the record cannot be taken.
    pub async fn send(&self, record: ProducerRecord) -> Result<Delivery, Error> {
        let interceptors = self.shared.interceptors.iter();
        let record = interceptors.fold(record, |record, interceptor| interceptor.on_send(record));
        let headers: Vec<(&[u8], Option<&[u8]>)> = record
            .headers
            .iter()
            .map(|header| (header.key.as_bytes(), header.value.as_deref()))
            .collect();
        let view = RecordView {
            topic: &record.topic,
            partition: record.partition,
            timestamp: record.timestamp.unwrap_or_else(timestamp_now),
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
        };
        self.send_view(view).await
    }

    /// Takes a record and waits for its fate.
    ///
    /// # Errors
    /// When the record cannot be taken, or is not acknowledged.
    pub async fn send_and_wait(&self, record: ProducerRecord) -> Result<RecordMetadata, Error> {
        self.send(record).await?.await
    }

    /// As [`Producer::send`], for borrowed bytes; interceptors do not see them before they are sent.
    ///
    /// # Errors
    /// As [`Producer::send`].
    pub async fn send_view(&self, record: RecordView<'_>) -> Result<Delivery, Error> {
        let began = Instant::now();
        let max_block = self.shared.config.max_block;
        loop {
            let freed = self.shared.memory_freed.notified();
            tokio::pin!(freed);
            // Before the attempt, or what is freed in between is missed.
            freed.as_mut().enable();
            let refused = match self.append(Instant::now(), &record) {
                Ok(delivery) => return Ok(delivery),
                Err(refused) => refused,
            };
            let left = max_block.saturating_sub(began.elapsed());
            match refused {
                Refused::Never(error) => return Err(error),
                Refused::UnknownTopic => self.learn(record.topic, left).await?,
                Refused::NoMemory => {
                    self.shared.bell.notify_one();
                    let waited = tokio::time::timeout(left, freed).await;
                    waited.map_err(|_| Error::BufferExhausted { waited: max_block })?;
                }
            }
        }
    }

    /// Takes a record now or not at all: the way of those who have other things to do than to wait.
    /// The topic's metadata must be there ([`Producer::partitions_for`] fetches it).
    ///
    /// # Errors
    /// [`Error::BufferExhausted`] and [`Error::Timeout`] when it would have to wait for memory or
    /// metadata; others when it can never be taken.
    pub fn try_send(&self, record: &RecordView<'_>) -> Result<Delivery, Error> {
        self.try_send_at(Instant::now(), record)
    }

    /// [`Producer::try_send`] by those who have just looked at the clock.
    ///
    /// # Errors
    /// As [`Producer::try_send`].
    pub fn try_send_at(&self, now: Instant, record: &RecordView<'_>) -> Result<Delivery, Error> {
        self.append(now, record).map_err(|refused| match refused {
            Refused::Never(error) => error,
            Refused::UnknownTopic => Error::Timeout {
                what: format!("metadata of topic {}", record.topic).into(),
                waited: Duration::ZERO,
                setting: "max.block.ms",
            },
            Refused::NoMemory => {
                self.shared.bell.notify_one();
                Error::BufferExhausted {
                    waited: Duration::ZERO,
                }
            }
        })
    }

    /// Waits until a batch's memory came back: after [`Error::BufferExhausted`] of
    /// [`Producer::try_send`].
    pub async fn memory_freed(&self) {
        // What came back before this call is not told again: look once in a while.
        let freed = self.shared.memory_freed.notified();
        let _ = tokio::time::timeout(Duration::from_millis(5), freed).await;
    }

    /// The topic with its partitions.
    ///
    /// # Errors
    /// When it is not known within `max.block.ms`.
    pub async fn partitions_for(&self, topic: &str) -> Result<Arc<Topic>, Error> {
        self.learn(topic, self.shared.config.max_block).await?;
        let known = self.shared.cluster.metadata().topics.get(topic).cloned();
        known.ok_or(Error::Closed)
    }

    /// Sends all that was taken without lingering, and waits for its fate. What is taken meanwhile is
    /// not waited for.
    pub async fn flush(&self) {
        let open = self.shared.accumulator().flush();
        let flushing = Flushing(&self.shared);
        self.shared.bell.notify_one();
        for completion in open {
            completion::settled(completion).await;
        }
        drop(flushing);
    }

    /// Takes no more records and flushes; what is not decided within `timeout` is given up.
    ///
    /// # Errors
    /// [`Error::Timeout`] when something was given up.
    pub async fn close(&self, timeout: Duration) -> Result<(), Error> {
        self.shared.accumulator().close();
        let flushed = tokio::time::timeout(timeout, self.flush()).await;
        self.sender.stop();
        flushed.map_err(|_| Error::Timeout {
            what: "records that were not acknowledged are given up".into(),
            waited: timeout,
            setting: "the deadline of close",
        })
    }

    /// What was counted so far.
    pub fn metrics(&self) -> Metrics {
        let accumulator = self.shared.accumulator();
        let counts = &self.shared.counts;
        Metrics {
            requests: counts.requests.load(Ordering::Relaxed),
            requests_in_flight: counts.in_flight.load(Ordering::Relaxed),
            buffer_bytes: accumulator.memory_used as u64,
            ..accumulator.metrics
        }
    }

    /// The cluster that it sends to.
    pub fn cluster(&self) -> &Cluster {
        &self.shared.cluster
    }

    fn append(&self, now: Instant, record: &RecordView<'_>) -> Result<Delivery, Refused> {
        let mut accumulator = self.shared.accumulator();
        let appended = accumulator.append(now, record)?;
        drop(accumulator);
        if appended.wake {
            self.shared.bell.notify_one();
        }
        Ok(Delivery::new(
            appended.completion,
            appended.index,
            record.timestamp,
        ))
    }

    async fn learn(&self, topic: &str, within: Duration) -> Result<(), Error> {
        let topic = self
            .shared
            .cluster
            .topic(topic, within, "max.block.ms")
            .await?;
        let seed = crate::cluster::backoff::random().to_bits();
        self.shared.accumulator().learn(&topic, seed);
        Ok(())
    }
}

/// A flush that waits; nothing lingers until it is dropped.
struct Flushing<'a>(&'a Shared);

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        self.0.accumulator().flushed();
    }
}

impl Shared {
    fn accumulator(&self) -> MutexGuard<'_, Accumulator> {
        self.accumulator
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds since 1970.
pub fn timestamp_now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
