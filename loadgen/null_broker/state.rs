//! Topics and their last records, in memory. Knows nothing of requests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use wire::KafkaUuid;
use wire::batch::{self, BatchHeader};

/// All topics.
pub struct State {
    /// Where clients are told to connect.
    pub host: String,
    /// At which port.
    pub port: u16,
    topics: Mutex<Topics>,
    appended: Condvar,
    retain_bytes: usize,
}

/// Topics by name.
#[derive(Default)]
pub struct Topics {
    by_name: BTreeMap<String, Topic>,
    made: u64,
}

/// A topic.
pub struct Topic {
    /// Its id.
    pub id: KafkaUuid,
    /// Its partitions.
    pub partitions: Vec<Log>,
}

/// A partition's records.
#[derive(Default)]
pub struct Log {
    /// Batches with the offset behind each.
    batches: VecDeque<(i64, Bytes)>,
    bytes: usize,
    /// The first offset that is there.
    pub start: i64,
    /// The offset behind the last.
    pub end: i64,
}

impl State {
    /// Without topics.
    pub fn new(host: String, port: u16, retain_bytes: usize) -> Self {
        Self {
            host,
            port,
            topics: Mutex::default(),
            appended: Condvar::new(),
            retain_bytes,
        }
    }

    /// The topics, locked.
    pub fn topics(&self) -> MutexGuard<'_, Topics> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a batch; returns the offset of its first record, `None` when there is no such partition
    /// or no batch.
    pub fn append(
        &self,
        topic: &str,
        id: KafkaUuid,
        partition: i32,
        records: &Bytes,
    ) -> Option<i64> {
        let count = BatchHeader::parse(records)?.record_count();
        let mut copy = BytesMut::from(&records[..]);
        let mut topics = self.topics();
        let log = topics.log(topic, id, partition)?;
        let base = log.end;
        batch::stamp(&mut copy, base, 0);
        log.end += i64::from(count);
        log.bytes += copy.len();
        log.batches.push_back((log.end, copy.freeze()));
        while log.bytes > self.retain_bytes && log.batches.len() > 1 {
            if let Some((end, old)) = log.batches.pop_front() {
                log.bytes -= old.len();
                log.start = end;
            }
        }
        self.appended.notify_all();
        Some(base)
    }

    /// Waits until something is appended, or the deadline.
    pub fn wait<'a>(
        &self,
        topics: MutexGuard<'a, Topics>,
        deadline: Instant,
    ) -> MutexGuard<'a, Topics> {
        let wait = deadline.saturating_duration_since(Instant::now());
        let woken = self.appended.wait_timeout(topics, wait);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Topics {
    /// Makes a topic; `None` when it exists.
    pub fn create(&mut self, name: &str, partitions: i32) -> Option<KafkaUuid> {
        if self.by_name.contains_key(name) {
            return None;
        }
        self.made += 1;
        let id = KafkaUuid::from_parts(1, self.made);
        let logs = (0..partitions.max(1)).map(|_| Log::default());
        let topic = Topic {
            id,
            partitions: logs.collect(),
        };
        self.by_name.insert(name.to_owned(), topic);
        Some(id)
    }

    /// Deletes a topic; whether it was there.
    pub fn delete(&mut self, name: &str) -> bool {
        self.by_name.remove(name).is_some()
    }

    /// Every topic.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Topic)> {
        self.by_name
            .iter()
            .map(|(name, topic)| (name.as_str(), topic))
    }

    /// A partition of a topic that is named, or given by its id.
    pub fn log(&mut self, name: &str, id: KafkaUuid, partition: i32) -> Option<&mut Log> {
        let index = usize::try_from(partition).ok()?;
        let topic = match self.by_name.contains_key(name) {
            true => self.by_name.get_mut(name),
            false => self.by_name.values_mut().find(|topic| topic.id == id),
        };
        topic?.partitions.get_mut(index)
    }
}

impl Log {
    /// Whole batches from an offset on, about as many bytes as asked for. What is no longer there is
    /// skipped.
    pub fn read(&self, offset: i64, bytes_max: usize) -> Bytes {
        let first = self.batches.partition_point(|(end, _)| *end <= offset);
        let mut found = BytesMut::new();
        for (_, batch) in self.batches.iter().skip(first) {
            if !found.is_empty() && found.len() + batch.len() > bytes_max {
                break;
            }
            if found.is_empty() && batch.len() >= bytes_max {
                return batch.clone();
            }
            found.extend_from_slice(batch);
        }
        found.freeze()
    }
}
