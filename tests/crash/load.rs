//! Producers that know what was acknowledged to them, and the reading back of all of it. Knows a broker as
//! an address, and not how it ends.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use client::direct::{Acks, Connection, Producer};
use wire::Compression;
use wire::compression::Unfolding;
use wire::records::{BatchBuilder, Records};

use crate::broker::Broker;
use crate::choices::Choices;

const TOPIC: &str = "crash";
const PARTITIONS: usize = 20;
const PRODUCERS: usize = 5;
/// Batches of one partition that may be unanswered: as many as Kafka's idempotent producers allow.
const IN_FLIGHT: usize = 5;

/// What one producer knows of one partition, which nobody else writes to: so a record's sequence,
/// its number and its offset are all the same.
#[derive(Clone, Default)]
struct Written {
    /// Records below are acknowledged.
    acknowledged: u32,
    /// Records in each batch whose answer has not come: sent again, with the same sequences.
    pending: VecDeque<u32>,
}

/// What is written, and how.
pub struct Rules<'a> {
    /// The topic's configs.
    pub configs: &'a [(&'a str, &'a str)],
    /// By partition.
    pub acks: fn(i32) -> Acks,
    /// Error codes that only end a load.
    pub refusals: &'static [i16],
}

/// One producer and what it has produced.
pub struct Load {
    producer: Producer,
    acks: fn(i32) -> Acks,
    refusals: &'static [i16],
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
                    .ask_produce(TOPIC, *partition, (self.acks)(*partition), batch)
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
                    Err(client::direct::Error::Broker(code)) if !self.refusals.contains(&code) => {
                        panic!("partition {partition}: a produce was refused with code {code}")
                    }
                    Err(_) => return false,
                }
            }
        }
        true
    }
}

/// Creates the topic and makes its producers, which write nothing yet.
pub async fn loads(address: SocketAddr, seed: u64, rules: &Rules<'_>) -> Vec<Load> {
    let mut connection = Connection::connect(address).await.expect("connects");
    // The records' timestamps are their numbers: by age they would all be old.
    let configs = [&[("retention.ms", "-1")], rules.configs].concat();
    connection
        .create_topic(TOPIC, i32::try_from(PARTITIONS).expect("few"), &configs)
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
            acks: rules.acks,
            refusals: rules.refusals,
        });
    }
    loads
}

/// Runs all loads for a while, then ends the broker by `end`.
pub async fn under_load<T>(
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

/// Reads everything back: dense offsets, each record once and as sent, nothing acknowledged missing. Returns
/// how many records there are, or what is wrong.
pub async fn verify(address: SocketAddr, loads: &[Load]) -> Result<u64, String> {
    let mut connection = Connection::connect(address).await.expect("connects");
    let mut records = 0;
    for load in loads {
        for (partition, written) in &load.partitions {
            let read = read_back(&mut connection, load.producer, *partition).await;
            let next = read.map_err(|fault| format!("partition {partition}: {fault}"))?;
            let acknowledged = i64::from(written.acknowledged);
            let most = acknowledged + i64::from(written.pending.iter().sum::<u32>());
            if !(acknowledged..=most).contains(&next) {
                return Err(format!(
                    "partition {partition}: {next} records, but {acknowledged} were acknowledged and \
                     {most} sent"
                ));
            }
            records += u64::try_from(next).expect("not negative");
        }
    }
    Ok(records)
}

/// Reads one partition to its end; returns the end.
async fn read_back(
    connection: &mut Connection,
    producer: Producer,
    partition: i32,
) -> Result<i64, String> {
    let mut next = 0;
    loop {
        let fetched = connection.fetch(TOPIC, partition, next).await;
        let (high_watermark, batches) =
            fetched.map_err(|error| format!("offset {next} cannot be fetched: {error}"))?;
        if batches.is_empty() && next != high_watermark {
            return Err(format!("{next} is the end, not {high_watermark}"));
        }
        if batches.is_empty() {
            return Ok(next);
        }
        for batch in batches {
            if batch.base_offset != next {
                return Err(format!("{} follows {next}: a hole", batch.base_offset));
            }
            let read = Records::open(&batch.bytes, &Unfolding::default());
            for record in read.map_err(|error| format!("offset {next}: {error:?}"))? {
                let record = record.map_err(|error| format!("offset {next}: {error:?}"))?;
                let number = u32::try_from(next).expect("a short run");
                if record.value.as_deref() != Some(&content(producer, number)[..]) {
                    return Err(format!("offset {next} differs"));
                }
                next += 1;
            }
        }
    }
}
