//! The requests whose cost is measured, each a load of one kind. Knows nothing of how it is measured.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use client::direct::{Acks, Connection};
use rustix::fs::{Advice, fadvise};
use tokio::task::JoinSet;
use wire::KafkaString;
use wire::compression::Compression;
use wire::messages::fetch_request::{FetchPartition, FetchRequestData, FetchTopic};
use wire::records::BatchBuilder;
use wire::request::Request;
use wire::response::Response;

use crate::broker::Broker;

const TOPIC: &str = "cost";
/// The last version that names topics instead of giving their ids.
const FETCH: i16 = 12;
const POLL_WAIT_MS: i32 = 5_000;
const PRODUCERS: usize = 16;
const BATCH_BYTES: usize = 16 << 10;
const FETCH_BYTES: i32 = 1 << 20;
/// What a fetch of [`FETCH_BYTES`] must return at least, since batches are not split.
const FETCHED_MIN: usize = (FETCH_BYTES as usize) - 2 * BATCH_BYTES;
/// Batches in the log that is fetched from: four segments of 16 MiB, or a part of one.
const STORED_BATCHES: i64 = 4_096;
/// Batches from one fetch's start to the next one's.
const FETCH_STEP: i64 = 64;
/// Fetches begin in so many places, all of them in the first segment.
const FETCH_PLACES: i64 = 14;

/// A load and the broker that it wants.
pub struct Plan {
    pub name: &'static str,
    pub kind: Kind,
    pub shards: usize,
    pub environment: &'static [(&'static str, &'static str)],
    /// How many requests are measured.
    pub requests: u64,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One batch of 1 KiB at a time, to this partition.
    Produce(i32),
    /// One batch of 16 KiB at a time from each of 16 connections, each to a partition of its own.
    ProduceMany,
    /// One produce of 1 KiB and the fetch that waits for it.
    Poll,
    /// 1 MiB of batches that are there.
    Fetch,
    /// The same after the page cache was emptied of them.
    FetchCold,
}

const DEFAULTS: &[(&str, &str)] = &[];
const SEGMENTS: (&str, &str) = ("CORELOG_KAFKA__LOG_SEGMENT_BYTES", "16777216");
/// The first segment is sealed.
const SEALED: &[(&str, &str)] = &[SEGMENTS];
/// And no longer in the tail cache.
const EVICTED: &[(&str, &str)] = &[SEGMENTS, ("CORELOG_STORAGE__TAIL_CACHE_BYTES", "4194304")];

/// All loads, in the order of the table.
pub const LOADS: [Plan; 8] = [
    plan("produce 1 KiB", Kind::Produce(0), DEFAULTS, 4_000),
    plan("produce, other core", Kind::Produce(1), DEFAULTS, 4_000),
    plan("produce 16 KiB x 16", Kind::ProduceMany, DEFAULTS, 16_000),
    plan("produce and long poll", Kind::Poll, DEFAULTS, 4_000),
    plan("fetch tail", Kind::Fetch, DEFAULTS, 2_000),
    plan("fetch tail, sealed", Kind::Fetch, SEALED, 2_000),
    plan("fetch resident", Kind::Fetch, EVICTED, 2_000),
    plan("fetch cold", Kind::FetchCold, EVICTED, 400),
];

const fn plan(
    name: &'static str,
    kind: Kind,
    environment: &'static [(&'static str, &'static str)],
    requests: u64,
) -> Plan {
    // The other core is that of another shard.
    let shards = if matches!(kind, Kind::Produce(1)) {
        2
    } else {
        1
    };
    Plan {
        name,
        kind,
        shards,
        environment,
        requests,
    }
}

/// A load that is ready to be driven.
pub struct Load {
    kind: Kind,
    connections: Vec<Connection>,
    batch: Bytes,
    /// Where the next fetch begins, in batches.
    next: i64,
    segment: PathBuf,
}

impl Load {
    /// Makes the topic and what it must hold.
    pub async fn prepare(plan: &Plan, broker: &mut Broker) -> Self {
        let (partitions, connections, bytes) = match plan.kind {
            // Partitions and connections go to shards in turn: the first connection is on the first
            // partition's shard.
            Kind::Produce(_) => (2, 1, 1 << 10),
            Kind::ProduceMany => (PRODUCERS, PRODUCERS, BATCH_BYTES),
            Kind::Poll => (1, 2, 1 << 10),
            Kind::Fetch | Kind::FetchCold => (1, 1, BATCH_BYTES),
        };
        let mut opened = Vec::with_capacity(connections);
        for _ in 0..connections {
            opened.push(broker.connect().await);
        }
        let count = i32::try_from(partitions).expect("a few");
        let created = opened[0].create_topic(TOPIC, count, &[]).await;
        created.expect("a topic");
        let mut load = Self {
            kind: plan.kind,
            connections: opened,
            batch: batch(bytes),
            next: 0,
            segment: broker.first_segment(),
        };
        if matches!(plan.kind, Kind::Fetch | Kind::FetchCold) {
            for _ in 0..STORED_BATCHES {
                produce(&mut load.connections[0], 0, Acks::Leader, &load.batch).await;
            }
        }
        load
    }

    /// Sends so many requests; returns how long each took.
    pub async fn drive(&mut self, requests: u64) -> Vec<Duration> {
        if self.kind == Kind::ProduceMany {
            return self.drive_many(requests).await;
        }
        let mut times = Vec::new();
        for _ in 0..requests {
            if self.kind == Kind::FetchCold {
                let segment = File::open(&self.segment).expect("the first segment");
                fadvise(segment, 0, None, Advice::DontNeed).expect("advice");
            }
            let begun = Instant::now();
            match self.kind {
                Kind::Produce(partition) => {
                    produce(&mut self.connections[0], partition, Acks::All, &self.batch).await;
                }
                Kind::Poll => self.poll().await,
                Kind::Fetch | Kind::FetchCold => self.fetch().await,
                Kind::ProduceMany => unreachable!("driven by many tasks"),
            }
            times.push(begun.elapsed());
        }
        times
    }

    async fn drive_many(&mut self, requests: u64) -> Vec<Duration> {
        let mut producers = JoinSet::new();
        let each = requests / self.connections.len() as u64;
        for (partition, mut connection) in (0..).zip(std::mem::take(&mut self.connections)) {
            let batch = self.batch.clone();
            producers.spawn(async move {
                let mut times = Vec::new();
                for _ in 0..each {
                    let begun = Instant::now();
                    produce(&mut connection, partition, Acks::All, &batch).await;
                    times.push(begun.elapsed());
                }
                (partition, connection, times)
            });
        }
        let mut ended = producers.join_all().await;
        ended.sort_by_key(|(partition, ..)| *partition);
        let mut all = Vec::new();
        for (_, connection, times) in ended {
            self.connections.push(connection);
            all.extend(times);
        }
        all
    }

    /// A consumer waits at the log's end while a producer appends to it.
    async fn poll(&mut self) {
        let [producer, consumer] = &mut self.connections[..] else {
            unreachable!("prepared with two connections");
        };
        let request = fetch_request(self.next, POLL_WAIT_MS);
        consumer.ask(FETCH, &request).await.expect("sent");
        self.next = 1 + produce(producer, 0, Acks::All, &self.batch).await;
        let bytes = fetched(consumer.answer().await.expect("an answer"));
        assert_eq!(bytes, self.batch.len(), "exactly the batch waited for");
    }

    async fn fetch(&mut self) {
        let from = self.next * FETCH_STEP;
        self.next = (self.next + 1) % FETCH_PLACES;
        // In the tail every place is as good as another; the first segment leaves a small one.
        let offset = from * records(&self.batch);
        let request = fetch_request(offset, 0);
        let answer = self.connections[0].call(FETCH, &request).await;
        let bytes = fetched(answer.expect("an answer"));
        assert!(bytes >= FETCHED_MIN, "a whole fetch, not {bytes} bytes");
    }
}

/// Records of 1 KiB with `bytes` bytes of values.
fn batch(bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now_ms.map_or(0, |now| now.as_millis() as i64);
    for _ in 0..bytes >> 10 {
        builder.push(now_ms, None, Some(&[b'v'; 1 << 10]), &[]);
    }
    builder.finish().expect("a small batch")
}

fn records(batch: &Bytes) -> i64 {
    let view = wire::batch::split(batch).next().expect("a batch");
    i64::from(view.header.record_count())
}

async fn produce(connection: &mut Connection, partition: i32, acks: Acks, batch: &Bytes) -> i64 {
    let produced = connection.produce(TOPIC, partition, acks, batch.clone());
    produced.await.expect("produced")
}

fn fetch_request(offset: i64, wait_ms: i32) -> Request {
    let partition = FetchPartition::default()
        .with_partition(0)
        .with_current_leader_epoch(-1)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(FETCH_BYTES);
    let topic = FetchTopic::default()
        .with_topic(KafkaString::from_static(TOPIC))
        .with_partitions(vec![partition]);
    FetchRequestData::default()
        .with_replica_id(-1)
        .with_max_wait_ms(wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(8 * FETCH_BYTES)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
        .into()
}

/// How many record bytes a response carries.
fn fetched(response: Response) -> usize {
    let Response::Fetch(answer) = response else {
        unreachable!("a fetch is answered by a fetch");
    };
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(partition.error_code, 0, "a fetch failed");
    partition.records.as_ref().map_or(0, Bytes::len)
}
