//! Kills and stops real brokers under load and checks what they acknowledged. Knows the broker as a
//! process and a client only.
//!
//! `CORELOG_CRASH_ROUNDS` sets how often it is killed (4; 50 for the whole proof), `CORELOG_CRASH_SEED`
//! repeats a run's choices.

mod broker;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use broker::{Broker, DataDir, number};
use bytes::Bytes;
use client::direct::{Acks, Connection, Producer};
use wire::Compression;
use wire::compression::Unfolding;
use wire::records::{BatchBuilder, Records};

const TOPIC: &str = "crash";
const PARTITIONS: usize = 20;
const PRODUCERS: usize = 5;
/// Batches of one partition that may be unanswered: as many as Kafka's idempotent producers allow.
const IN_FLIGHT: usize = 5;
const STOP_MAX: Duration = Duration::from_secs(5);

/// A linear congruential generator: the same choices from the same seed.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What one producer knows of one partition, which nobody else writes to: so a record's sequence,
/// its number and its offset are all the same.
#[derive(Clone, Default)]
struct Written {
    /// Records below are acknowledged.
    acknowledged: u32,
    /// Records in each batch whose answer has not come: sent again, with the same sequences.
    pending: VecDeque<u32>,
}

struct Load {
    producer: Producer,
    /// Its partitions and what it knows of each.
    partitions: Vec<(i32, Written)>,
    choices: Choices,
}

fn batch(producer: Producer, first: u32, count: u32) -> Bytes {
    let sequence = i32::try_from(first).expect("a short run");
    let builder = BatchBuilder::new(Compression::None);
    let mut builder = builder.producer(producer.id, producer.epoch, sequence);
    for number in first..first + count {
        let value = content(producer, number);
        builder.push(i64::from(number), Some(b"key"), Some(&value), &[]);
    }
    builder.finish().expect("a batch")
}

fn content(producer: Producer, number: u32) -> Vec<u8> {
    let mut value = format!("{}:{number}:", producer.id).into_bytes();
    value.resize(100 + number as usize % 900, b'.');
    value
}

/// Half of the partitions are written with acks=all, the others with acks=1.
fn acks(partition: i32) -> Acks {
    if partition % 2 == 0 {
        Acks::All
    } else {
        Acks::Leader
    }
}

impl Load {
    /// Produces until told to stop or until the broker is gone.
    async fn run(&mut self, address: SocketAddr, stop: &AtomicBool) {
        let Ok(mut connection) = Connection::connect(address).await else {
            return;
        };
        while !stop.load(Ordering::Relaxed) {
            if self.send(&mut connection).await.is_err() || !self.receive(&mut connection).await {
                return;
            }
        }
    }

    /// Sends all that is pending, and new batches up to the bound on what may be in flight.
    async fn send(&mut self, connection: &mut Connection) -> Result<(), client::direct::Error> {
        for (partition, written) in &mut self.partitions {
            while written.pending.len() < IN_FLIGHT {
                let count = 1 + u32::try_from(self.choices.below(20)).expect("small");
                written.pending.push_back(count);
            }
            let mut first = written.acknowledged;
            for count in &written.pending {
                let batch = batch(self.producer, first, *count);
                connection
                    .ask_produce(TOPIC, *partition, acks(*partition), batch)
                    .await?;
                first += count;
            }
        }
        Ok(())
    }

    /// Takes the answers to all that was sent; false once the broker is gone or stopping.
    async fn receive(&mut self, connection: &mut Connection) -> bool {
        for (partition, written) in &mut self.partitions {
            while let Some(count) = written.pending.front() {
                match connection.answer_produce().await {
                    Ok(offset) => {
                        let first = i64::from(written.acknowledged);
                        assert_eq!(offset, first, "partition {partition}");
                        written.acknowledged += count;
                        written.pending.pop_front();
                    }
                    Err(client::direct::Error::Broker(code)) if code != NOT_LEADER => {
                        panic!("partition {partition}: a produce was refused with code {code}")
                    }
                    Err(_) => return false,
                }
            }
        }
        true
    }
}

/// NOT_LEADER_OR_FOLLOWER: a stopping broker may say so.
const NOT_LEADER: i16 = 6;

async fn loads(address: SocketAddr, seed: u64) -> Vec<Load> {
    let mut connection = Connection::connect(address).await.expect("connects");
    connection
        .create_topic(
            TOPIC,
            i32::try_from(PARTITIONS).expect("few"),
            // The records' timestamps are their numbers: by age they would all be old.
            &[("retention.ms", "-1")],
        )
        .await
        .expect("the topic is created");
    let mut loads = Vec::new();
    for index in 0..PRODUCERS {
        let own = (0..PARTITIONS).filter(|partition| partition % PRODUCERS == index);
        let own = own.map(|partition| i32::try_from(partition).expect("few"));
        loads.push(Load {
            producer: connection.init_producer().await.expect("an id"),
            partitions: own
                .map(|partition| (partition, Written::default()))
                .collect(),
            choices: Choices(seed + index as u64),
        });
    }
    loads
}

/// Runs all loads for a while, then ends the broker by `end`.
async fn under_load<T>(
    broker: Broker,
    loads: Vec<Load>,
    for_ms: u64,
    end: impl FnOnce(Broker) -> T,
) -> (T, Vec<Load>) {
    let stop = Arc::new(AtomicBool::new(false));
    let address = broker.address;
    let running: Vec<_> = loads
        .into_iter()
        .map(|mut load| {
            let stop = stop.clone();
            tokio::spawn(async move {
                load.run(address, &stop).await;
                load
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(for_ms)).await;
    let ended = tokio::task::block_in_place(|| end(broker));
    stop.store(true, Ordering::Relaxed);
    let mut loads = Vec::new();
    for load in running {
        loads.push(load.await.expect("no load has met a wrong answer"));
    }
    (ended, loads)
}

/// Reads everything back: dense offsets, each record once and as sent, nothing acknowledged missing.
async fn verify(address: SocketAddr, loads: &[Load]) -> u64 {
    let mut connection = Connection::connect(address).await.expect("connects");
    let mut records = 0;
    for load in loads {
        for (partition, written) in &load.partitions {
            let mut next = 0;
            loop {
                let fetched = connection.fetch(TOPIC, *partition, next).await;
                let (high_watermark, batches) = fetched.expect("a fetch succeeds");
                if batches.is_empty() {
                    assert_eq!(
                        next, high_watermark,
                        "partition {partition}: an unreadable end"
                    );
                    break;
                }
                for batch in batches {
                    assert_eq!(batch.base_offset, next, "partition {partition}: a hole");
                    let read = Records::open(&batch.bytes, &Unfolding::default());
                    for record in read.expect("a batch") {
                        let value = record.expect("a record").value.expect("a value");
                        let number = u32::try_from(next).expect("a short run");
                        let sent = content(load.producer, number);
                        assert!(
                            value == sent,
                            "partition {partition}: offset {next} differs"
                        );
                        next += 1;
                    }
                }
            }
            let acknowledged = i64::from(written.acknowledged);
            let most = acknowledged + i64::from(written.pending.iter().sum::<u32>());
            assert!(
                (acknowledged..=most).contains(&next),
                "partition {partition}: {next} records, but {acknowledged} were acknowledged and \
                 {most} sent"
            );
            records += u64::try_from(next).expect("not negative");
        }
    }
    records
}

fn seed() -> u64 {
    let seed = number("CORELOG_CRASH_SEED", u64::from(std::process::id()));
    println!("CORELOG_CRASH_SEED={seed}");
    seed
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

#[test]
fn kill_9_loses_nothing_acknowledged_and_duplicates_nothing() {
    let rounds: usize = number("CORELOG_CRASH_ROUNDS", 4);
    let seed = seed();
    runtime().block_on(async move {
        let mut choices = Choices(seed);
        let data = DataDir::new("crash-kill");
        let mut broker = Broker::start(&data, 2).await;
        let mut all = loads(broker.address, seed).await;
        for round in 1..=rounds {
            let for_ms = 50 + choices.below(500);
            ((), all) = under_load(broker, all, for_ms, Broker::kill).await;
            broker = Broker::start(&data, 1 + round % 2).await;
            let took = broker.answered_after;
            let records = verify(broker.address, &all).await;
            println!("round {round}: killed after {for_ms} ms, answers {took:?} after its start, {records} records right");
        }
    });
}

#[test]
fn sigterm_under_load_stops_in_time_and_loses_nothing() {
    let seed = seed();
    runtime().block_on(async move {
        let data = DataDir::new("crash-term");
        let broker = Broker::start(&data, 2).await;
        let took = broker.answered_after;
        println!("answers {took:?} after its start on an empty directory");
        let all = loads(broker.address, seed).await;
        let (took, all) = under_load(broker, all, 400, Broker::terminate).await;
        println!("stopped in {took:?}");
        assert!(took < STOP_MAX, "a stop takes {took:?}");
        let broker = Broker::start(&data, 2).await;
        let took = broker.answered_after;
        let records = verify(broker.address, &all).await;
        println!("answers {took:?} after a clean stop, {records} records right");
    });
}
