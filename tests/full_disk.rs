//! A small disk that producers fill, that is freed, and filled again, while they go on: nothing acknowledged
//! is lost, nothing refused is kept, nobody restarts anything. Knows the broker as a process and a client.
//!
//! The disk is a loop device, which needs root and mkfs.ext4; without them the test says that it was skipped.

#[path = "block/mod.rs"]
mod block;
mod broker;

use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use block::{FileSystem, LoopDevice, Mount};
use broker::{Broker, DataDir};
use bytes::Bytes;
use client::AdminConfig;
use client::admin::Admin;
use client::direct::{Acks, Connection, Error};
use wire::compression::Unfolding;
use wire::records::{BatchBuilder, Records};
use wire::{Compression, ErrorCode};

/// A topic that is kept, and one that is given up for its space.
const KEPT: &str = "kept";
const SPENT: &str = "spent";
const PARTITIONS: i32 = 2;
const CONFIGS: &[(&str, &str)] = &[
    ("segment.bytes", "2097152"),
    ("file.delete.delay.ms", "0"),
    // The records' timestamps are their numbers: by age they would all be old.
    ("retention.ms", "-1"),
];
const DISK_BYTES: u64 = 160 << 20;
/// The reserve has room for all that the write-ahead logs of two shards may hold.
const SETTINGS: &[(&str, &str)] = &[
    ("CORELOG_WAL__EXTENT_BYTES", "2097152"),
    ("CORELOG_WAL__BYTES_MAX", "8388608"),
    ("CORELOG_STORAGE__TAIL_CACHE_BYTES", "16777216"),
    ("CORELOG_STORAGE__DISK_RESERVE_BYTES", "33554432"),
    ("CORELOG_RETENTION__CHECK_INTERVAL_MS", "500"),
];
const RECORDS_OF_A_BATCH: u64 = 8;
const RECORD_BYTES: usize = 16 << 10;
/// Who is refused asks again after so long.
const AGAIN: Duration = Duration::from_millis(20);
/// How long filling or freeing the disk may take, on any machine and under any load.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// One producer's partition, which nobody else writes to: a record's number is its offset.
struct Writer {
    topic: &'static str,
    partition: i32,
    acknowledged: AtomicU64,
    refused: AtomicU64,
}

impl Writer {
    /// Produces until told to stop or until the topic is gone.
    async fn run(&self, address: SocketAddr, stop: &AtomicBool) {
        let mut connection = Connection::connect(address).await.expect("connects");
        while !stop.load(Ordering::Relaxed) {
            let first = self.acknowledged.load(Ordering::Relaxed);
            let asked = connection.produce(self.topic, self.partition, Acks::All, batch(first));
            match asked.await {
                Ok(offset) => {
                    assert_eq!(
                        offset,
                        i64::try_from(first).expect("small"),
                        "what was refused is not kept"
                    );
                    let next = first + RECORDS_OF_A_BATCH;
                    self.acknowledged.store(next, Ordering::Relaxed);
                }
                Err(Error::Broker(code)) if is(code, ErrorCode::KafkaStorageError) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(AGAIN).await;
                }
                Err(Error::Broker(code)) if is(code, ErrorCode::UnknownTopicOrPartition) => return,
                Err(error) => panic!("{} {}: {error}", self.topic, self.partition),
            }
        }
    }

    /// Reads all of it back.
    async fn verify(&self, connection: &mut Connection) {
        let acknowledged = self.acknowledged.load(Ordering::Relaxed);
        let mut next = 0;
        while next < acknowledged {
            let offset = i64::try_from(next).expect("small");
            let fetched = connection.fetch(self.topic, self.partition, offset).await;
            let (high_watermark, batches) = fetched.expect("reads go on");
            assert_eq!(high_watermark, i64::try_from(acknowledged).expect("small"));
            assert!(
                !batches.is_empty(),
                "{next} of {acknowledged} records are there"
            );
            for batch in batches {
                let read = Records::open(&batch.bytes, &Unfolding::default());
                for record in read.expect("a batch") {
                    let record = record.expect("a record");
                    assert!(
                        record.value.as_deref() == Some(&content(next)[..]),
                        "record {next} differs"
                    );
                    next += 1;
                }
            }
        }
    }
}

fn is(code: i16, expected: ErrorCode) -> bool {
    ErrorCode::from(code) == expected
}

fn batch(first: u64) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    for number in first..first + RECORDS_OF_A_BATCH {
        let timestamp = i64::try_from(number).expect("small");
        builder.push(timestamp, None, Some(&content(number)), &[]);
    }
    builder.finish().expect("a batch")
}

fn content(number: u64) -> Vec<u8> {
    let mut value = format!("{number}:").into_bytes();
    value.resize(RECORD_BYTES, b'.');
    value
}

/// Waits until each of the writers has counted on by so much.
async fn each_counts(writers: &[Arc<Writer>], count: fn(&Writer) -> &AtomicU64, by: u64) {
    let begun = Instant::now();
    let goal = |writer: &Arc<Writer>| count(writer).load(Ordering::Relaxed) + by;
    let goals: Vec<u64> = writers.iter().map(goal).collect();
    for (writer, goal) in writers.iter().zip(goals) {
        while count(writer).load(Ordering::Relaxed) < goal {
            assert!(
                begun.elapsed() < WAIT_MAX,
                "{} {}: {} acknowledged, {} refused",
                writer.topic,
                writer.partition,
                writer.acknowledged.load(Ordering::Relaxed),
                writer.refused.load(Ordering::Relaxed)
            );
            tokio::time::sleep(AGAIN).await;
        }
    }
}

fn small_disk(directory: &DataDir) -> Mount {
    let at = directory.join("mounted");
    std::fs::create_dir_all(&at).expect("a directory of one's own");
    let image = directory.join("image");
    let file = File::create(&image).expect("a file");
    file.set_len(DISK_BYTES).expect("a sparse file");
    let device = LoopDevice::attach(&image).expect("a loop device");
    device.format(FileSystem::Ext4).expect("a file system");
    Mount::new(device, FileSystem::Ext4, &at).expect("mounted")
}

/// Creates the topics and lets a writer at each partition: those of the kept topic come first.
async fn writers(connection: &mut Connection) -> Vec<Arc<Writer>> {
    let mut all = Vec::new();
    for topic in [KEPT, SPENT] {
        let created = connection.create_topic(topic, PARTITIONS, CONFIGS).await;
        created.expect("the topic is created");
        all.extend((0..PARTITIONS).map(|partition| {
            Arc::new(Writer {
                topic,
                partition,
                acknowledged: AtomicU64::new(0),
                refused: AtomicU64::new(0),
            })
        }));
    }
    all
}

async fn read_back(broker: &Broker, writers: &[Arc<Writer>]) {
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    for writer in writers {
        writer.verify(&mut connection).await;
        println!(
            "{} {}: {} records right, {} batches were refused meanwhile",
            writer.topic,
            writer.partition,
            writer.acknowledged.load(Ordering::Relaxed),
            writer.refused.load(Ordering::Relaxed)
        );
    }
}

fn acknowledged(writer: &Writer) -> &AtomicU64 {
    &writer.acknowledged
}

fn refused(writer: &Writer) -> &AtomicU64 {
    &writer.refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_was_full_loses_nothing_and_goes_on_when_it_is_freed() {
    if let Some(reason) = block::missing(&[FileSystem::Ext4]) {
        println!("SKIPPED, no disk was filled: {reason}");
        return;
    }
    let directory = DataDir::new("full-disk");
    let _mount = small_disk(&directory);
    let data = directory.join("mounted/data");
    let broker = Broker::start_with(&data, 2, SETTINGS).await;
    let address = broker.address;
    let mut connection = Connection::connect(address).await.expect("connects");
    let all = writers(&mut connection).await;
    let kept = &all[..PARTITIONS as usize];
    let stop = Arc::new(AtomicBool::new(false));
    let running = all.iter().map(|writer| {
        let (writer, stop) = (writer.clone(), stop.clone());
        tokio::spawn(async move { writer.run(address, &stop).await })
    });
    let running: Vec<_> = running.collect();

    let admin = Admin::new(AdminConfig::to(&address.to_string()));
    each_counts(&all, refused, 3).await;
    let freed = admin.delete_records(SPENT, &[(0, -1), (1, -1)]).await;
    for about in freed.expect("the broker answers") {
        about.result.expect("records are deleted on a full disk");
    }
    each_counts(&all, acknowledged, 4 * RECORDS_OF_A_BATCH).await;

    each_counts(&all, refused, 3).await;
    let freed = admin.delete_topics(&[SPENT]).await;
    for about in freed.expect("the broker answers") {
        about.result.expect("topics are deleted on a full disk");
    }
    each_counts(kept, acknowledged, 4 * RECORDS_OF_A_BATCH).await;

    stop.store(true, Ordering::Relaxed);
    for writer in running {
        writer.await.expect("no writer has met a wrong answer");
    }
    read_back(&broker, kept).await;
    broker.kill();
    let broker = Broker::start_with(&data, 2, SETTINGS).await;
    read_back(&broker, kept).await;
    broker.kill();
}
