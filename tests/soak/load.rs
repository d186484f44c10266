//! What the clients of a soak do: produce, tail, catch up, delete what is old, come and go. Knows the
//! broker by its address only.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::direct::{Acks, Connection};
use tokio::task::JoinHandle;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::delete_topics_request::DeleteTopicState;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::{DeleteRecordsRequestData, DeleteTopicsRequestData, FetchRequestData};
use wire::records::BatchBuilder;
use wire::request::Request;
use wire::response::Response;
use wire::{Compression, KafkaString};

const TOPIC: &str = "soak";
const PARTITIONS: usize = 20;
const PRODUCERS: usize = 4;
/// Unanswered batches of one producer.
const IN_FLIGHT: usize = 5;
const RECORD_BYTES: usize = 1024;
const BATCH_RECORDS: i64 = 64;
/// Records kept of each partition: more than the tail cache holds of it.
const KEPT_RECORDS: i64 = 64 << 10;
/// Versions that name topics.
const FETCH: i16 = 12;
const DELETE_RECORDS: i16 = 2;
const DELETE_TOPICS: i16 = 6;

/// How fast producers go.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// Each as fast as it is answered.
    Unbounded,
    /// All together.
    BytesPerSecond(f64),
}

/// The clients, and what they have seen.
pub struct Load {
    address: SocketAddr,
    pace: Mutex<Pace>,
    stopping: AtomicBool,
    produced: AtomicU64,
    /// Bytes of records that consumers have read.
    pub read: AtomicU64,
    connections: AtomicU64,
    topics: AtomicU64,
    deletions: AtomicU64,
    slowest_nanos: AtomicU64,
    log_starts: Vec<AtomicI64>,
    log_ends: Vec<AtomicI64>,
}

impl Load {
    /// Clients of the broker at `address` that have not begun.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            pace: Mutex::new(Pace::Unbounded),
            stopping: AtomicBool::new(false),
            produced: AtomicU64::new(0),
            read: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            topics: AtomicU64::new(0),
            deletions: AtomicU64::new(0),
            slowest_nanos: AtomicU64::new(0),
            log_starts: (0..PARTITIONS).map(|_| AtomicI64::new(0)).collect(),
            log_ends: (0..PARTITIONS).map(|_| AtomicI64::new(0)).collect(),
        }
    }

    /// Creates the topic.
    pub async fn prepare(&self) {
        let partitions = i32::try_from(PARTITIONS).expect("a small number");
        // The records' timestamps are their numbers: by age they would all be old.
        let configs = [("segment.bytes", "33554432"), ("retention.ms", "-1")];
        let mut connection = self.connect().await;
        let created = connection.create_topic(TOPIC, partitions, &configs).await;
        created.expect("a topic");
    }

    /// Starts all clients.
    pub fn start(self: Arc<Self>) -> Vec<JoinHandle<()>> {
        let mut tasks: Vec<_> = (0..PRODUCERS)
            .map(|index| tokio::spawn(self.clone().produce(index)))
            .collect();
        tasks.push(tokio::spawn(self.clone().tail()));
        tasks.push(tokio::spawn(self.clone().catch_up()));
        tasks.push(tokio::spawn(self.clone().delete_old()));
        tasks.push(tokio::spawn(self.clone().come_and_go()));
        tasks.push(tokio::spawn(self.create_and_delete()));
        tasks
    }

    /// Changes how fast producers go.
    pub fn pace(&self, pace: Pace) {
        *self.pace.lock().expect("no holder panics") = pace;
    }

    /// Tells all clients to end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Bytes acknowledged to producers.
    pub fn bytes_produced(&self) -> u64 {
        self.produced.load(Ordering::Relaxed)
    }

    /// The longest that a producer has waited since this was last asked.
    pub fn take_slowest(&self) -> Duration {
        Duration::from_nanos(self.slowest_nanos.swap(0, Ordering::Relaxed))
    }

    /// What was done, for people.
    pub fn summary(&self) -> String {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        format!(
            "{} MiB produced, {} MiB read, {} connections, {} topics, {} deletions of records",
            count(&self.produced) >> 20,
            count(&self.read) >> 20,
            count(&self.connections),
            count(&self.topics),
            count(&self.deletions),
        )
    }

    async fn connect(&self) -> Connection {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connection::connect(self.address).await.expect("connects")
    }

    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Produces to every `PRODUCERS`-th partition in turn.
    async fn produce(self: Arc<Self>, index: usize) {
        let mut connection = self.connect().await;
        let (batch, mut sent) = (batch(), std::collections::VecDeque::new());
        let mut partition = index;
        let mut due = Instant::now();
        while !self.stopping() {
            let number = i32::try_from(partition).expect("a small number");
            let asked = connection
                .ask_produce(TOPIC, number, Acks::All, batch.clone())
                .await;
            asked.expect("the broker reads");
            sent.push_back((partition, Instant::now()));
            partition = (partition + PRODUCERS) % PARTITIONS;
            let pace = *self.pace.lock().expect("no holder panics");
            let keep = match pace {
                Pace::Unbounded => IN_FLIGHT - 1,
                Pace::BytesPerSecond(rate) => {
                    due += Duration::from_secs_f64(batch.len() as f64 * PRODUCERS as f64 / rate);
                    // What was missed is not caught up with.
                    due = due.max(Instant::now() - Duration::from_millis(100));
                    tokio::time::sleep_until(due.into()).await;
                    0
                }
            };
            while sent.len() > keep {
                self.acknowledged(&mut connection, sent.pop_front(), batch.len())
                    .await;
            }
        }
    }

    async fn acknowledged(
        &self,
        connection: &mut Connection,
        sent: Option<(usize, Instant)>,
        bytes: usize,
    ) {
        let (partition, at) = sent.expect("one was sent");
        let offset = connection
            .answer_produce()
            .await
            .expect("an acknowledgement");
        let nanos = u64::try_from(at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.slowest_nanos.fetch_max(nanos, Ordering::Relaxed);
        self.produced.fetch_add(bytes as u64, Ordering::Relaxed);
        self.log_ends[partition].store(offset + BATCH_RECORDS, Ordering::Relaxed);
    }

    /// Reads all partitions' newest records by long polls.
    async fn tail(self: Arc<Self>) {
        let mut connection = self.connect().await;
        let mut offsets = [0_i64; PARTITIONS];
        while !self.stopping() {
            let wanted: Vec<_> = offsets.iter().copied().enumerate().collect();
            self.fetch(&mut connection, &wanted, &mut offsets).await;
        }
    }

    /// Reads one partition after the other from its start to where its end was.
    async fn catch_up(self: Arc<Self>) {
        let mut connection = self.connect().await;
        let mut offsets = [0_i64; PARTITIONS];
        for partition in (0..PARTITIONS).cycle() {
            offsets[partition] = self.log_starts[partition].load(Ordering::Relaxed);
            let end = self.log_ends[partition].load(Ordering::Relaxed);
            while offsets[partition] < end && !self.stopping() {
                let wanted = [(partition, offsets[partition])];
                self.fetch(&mut connection, &wanted, &mut offsets).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            if self.stopping() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Fetches once and moves `offsets` on; a reader that was overtaken by a deletion goes to the
    /// log's start.
    async fn fetch(
        &self,
        connection: &mut Connection,
        wanted: &[(usize, i64)],
        offsets: &mut [i64; PARTITIONS],
    ) {
        const OUT_OF_RANGE: i16 = 1;
        let answer = connection.call(FETCH, &fetch_request(wanted)).await;
        let Response::Fetch(answer) = answer.expect("an answer") else {
            panic!("not an answer to a fetch");
        };
        assert_eq!(answer.error_code, 0);
        for partition in answer.responses.iter().flat_map(|topic| &topic.partitions) {
            let index = usize::try_from(partition.partition_index).expect("one of ours");
            match partition.error_code {
                0 => {}
                OUT_OF_RANGE => {
                    offsets[index] = self.log_starts[index].load(Ordering::Relaxed);
                    continue;
                }
                code => panic!("partition {index} answers error {code}"),
            }
            let records = partition.records.clone().unwrap_or_default();
            self.read.fetch_add(records.len() as u64, Ordering::Relaxed);
            for view in wire::batch::split(&records) {
                offsets[index] = view.header.base_offset() + BATCH_RECORDS;
            }
        }
    }

    /// Stands in for retention: keeps the disk from filling.
    async fn delete_old(self: Arc<Self>) {
        let mut connection = self.connect().await;
        while !self.stopping() {
            for partition in 0..PARTITIONS {
                let end = self.log_ends[partition].load(Ordering::Relaxed);
                let start = end - KEPT_RECORDS;
                if start <= self.log_starts[partition].load(Ordering::Relaxed) {
                    continue;
                }
                let answer = connection
                    .call(DELETE_RECORDS, &delete_request(partition, start))
                    .await;
                let Response::DeleteRecords(answer) = answer.expect("an answer") else {
                    panic!("not an answer to a deletion");
                };
                assert_eq!(answer.topics[0].partitions[0].error_code, 0);
                self.log_starts[partition].store(start, Ordering::Relaxed);
                self.deletions.fetch_add(1, Ordering::Relaxed);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn come_and_go(self: Arc<Self>) {
        while !self.stopping() {
            let mut connection = self.connect().await;
            connection.api_versions().await.expect("an answer");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn create_and_delete(self: Arc<Self>) {
        let mut connection = self.connect().await;
        while !self.stopping() {
            let name = format!("passing-{}", self.topics.fetch_add(1, Ordering::Relaxed));
            let created = connection.create_topic(&name, 2, &[]).await;
            created.expect("a topic");
            let produced = connection.produce(&name, 1, Acks::All, batch()).await;
            assert_eq!(produced.expect("an acknowledgement"), 0);
            let topic = DeleteTopicState::default().with_name(Some(KafkaString::from(name)));
            let request = DeleteTopicsRequestData::default()
                .with_topics(vec![topic])
                .with_timeout_ms(10_000);
            let answer = connection.call(DELETE_TOPICS, &request.into()).await;
            let Response::DeleteTopics(answer) = answer.expect("an answer") else {
                panic!("not an answer to a deletion");
            };
            assert_eq!(answer.responses[0].error_code, 0);
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }
}

fn batch() -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    for number in 0..BATCH_RECORDS {
        builder.push(number, None, Some(&[7; RECORD_BYTES]), &[]);
    }
    builder.finish().expect("a batch")
}

fn fetch_request(wanted: &[(usize, i64)]) -> Request {
    let partitions = wanted.iter().map(|(partition, offset)| {
        FetchPartition::default()
            .with_partition(i32::try_from(*partition).expect("a small number"))
            .with_current_leader_epoch(-1)
            .with_fetch_offset(*offset)
            .with_partition_max_bytes(1 << 20)
    });
    let topic = FetchTopic::default()
        .with_topic(KafkaString::from_static(TOPIC))
        .with_partitions(partitions.collect());
    let request = FetchRequestData::default()
        .with_replica_id(-1)
        .with_max_wait_ms(500)
        .with_min_bytes(1)
        .with_max_bytes(16 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic]);
    Request::Fetch(request)
}

fn delete_request(partition: usize, start: i64) -> Request {
    let partition = DeleteRecordsPartition::default()
        .with_partition_index(i32::try_from(partition).expect("a small number"))
        .with_offset(start);
    let topic = DeleteRecordsTopic::default()
        .with_name(KafkaString::from_static(TOPIC))
        .with_partitions(vec![partition]);
    let request = DeleteRecordsRequestData::default()
        .with_topics(vec![topic])
        .with_timeout_ms(10_000);
    request.into()
}
