//! How soon a broker answers: on an empty directory, and after kill -9 with much data, of which it
//! reads the write-ahead log only. Knows the broker as a process and a client.
//!
//! `CORELOG_START_GIB` sets how much data there is (0.25); `CORELOG_START_STRICT=1` asserts the
//! promised times, for a release build on a machine that does nothing else:
//! `CORELOG_START_GIB=5 CORELOG_START_STRICT=1 cargo test --release --test start_time -- --nocapture`

mod broker;

use std::path::Path;
use std::time::{Duration, Instant};

use broker::filling::{self, files_below, forget_cached};
use broker::{Broker, DataDir, START_MAX, number};
use bytes::Bytes;
use client::direct::Connection;
use tokio::sync::{Mutex, MutexGuard};
use wire::Compression;
use wire::records::BatchBuilder;

const TOPIC: &str = "much";
const PARTITIONS: i32 = 20;
const SHARDS: usize = 2;
/// Records of 8 KiB in a batch: just below the largest batch that a topic takes by default.
const RECORDS: i64 = 120;
/// Batches of one partition that may be unanswered.
const IN_FLIGHT: i32 = 2;
const MIB: u64 = 1 << 20;
/// From this much data on the write-ahead log has its default size, which would hold all of less.
const DEFAULT_WAL_BYTES_MIN: u64 = 2 << 30;

/// Only one of these tests is measured at a time.
async fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

fn strict(promised: Duration) -> Duration {
    match number("CORELOG_START_STRICT", 0) {
        0 => START_MAX,
        _ => promised,
    }
}

fn batch() -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    for _ in 0..RECORDS {
        builder.push(1_000, None, Some(&[b'x'; 8 << 10]), &[]);
    }
    builder.finish().expect("a batch")
}

/// Produces so many batches to each partition, all acknowledged.
async fn fill(broker: &Broker, batches: usize) {
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    let created = connection.create_topic(TOPIC, PARTITIONS, &[]).await;
    created.expect("the topic is created");
    let batch = batch();
    let all = (batches as u64, IN_FLIGHT);
    filling::fill(&mut connection, (TOPIC, PARTITIONS), all, |_| batch.clone()).await;
}

fn bytes_below(directory: &Path) -> u64 {
    let mut bytes = 0;
    files_below(directory, &mut |path| {
        bytes += path.metadata().expect("a file").len()
    });
    bytes
}

/// Each partition has all that was acknowledged, and its last batch can be read.
async fn verify(broker: &Broker, batches: usize) {
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    let end = i64::try_from(batches).expect("few") * RECORDS;
    for partition in 0..PARTITIONS {
        let fetched = connection.fetch(TOPIC, partition, end - RECORDS).await;
        let (high_watermark, read) = fetched.expect("a fetch succeeds");
        assert_eq!(high_watermark, end, "partition {partition}");
        assert_eq!(read.len(), 1, "partition {partition}");
        assert_eq!(read[0].bytes.len(), batch().len());
    }
}

#[tokio::test]
async fn on_an_empty_directory_a_broker_answers_at_once() {
    let _alone = alone().await;
    let data = DataDir::new("start-empty");
    let broker = Broker::start(&data, SHARDS).await;
    let took = broker.answered_after;
    println!("empty directory: answers {took:?} after its start");
    assert!(took < strict(Duration::from_millis(100)), "{took:?}");
}

#[tokio::test]
async fn after_kill_9_a_start_reads_the_write_ahead_log_and_not_the_data() {
    let _alone = alone().await;
    let gib: f64 = number("CORELOG_START_GIB", 0.25);
    let batches = (gib * (1 << 30) as f64 / f64::from(PARTITIONS) / batch().len() as f64).ceil();
    let batches = batches as usize;
    let produced = batches as u64 * batch().len() as u64 * PARTITIONS.unsigned_abs() as u64;
    let small_wal = [
        ("CORELOG_WAL__EXTENT_BYTES", "4194304"),
        ("CORELOG_WAL__BYTES_MAX", "16777216"),
    ];
    let settings = match produced < DEFAULT_WAL_BYTES_MIN {
        true => &small_wal[..],
        false => &[],
    };
    let data = DataDir::new("start-kill");
    let broker = Broker::start_with(&data, SHARDS, settings).await;
    let begun = Instant::now();
    fill(&broker, batches).await;
    let filled = begun.elapsed();
    broker.kill();
    let (wal, logs) = (data.join("wal"), data.join("logs"));
    forget_cached(&data);
    let (wal, logs) = (bytes_below(&wal), bytes_below(&logs));
    println!(
        "{} MiB produced in {filled:?}; on disk: {} MiB write-ahead log, {} MiB segments",
        produced / MIB,
        wal / MIB,
        logs / MIB
    );

    let broker = Broker::start_with(&data, SHARDS, settings).await;
    let took = broker.answered_after;
    let (by_calls, from_disk) = broker.bytes_read();
    println!(
        "after kill -9: answers {took:?} after its start; it has read {} MiB by calls, {} MiB from the disk",
        by_calls / MIB,
        from_disk / MIB
    );
    verify(&broker, batches).await;
    let read = by_calls.max(from_disk);
    // The newest extent is read twice; the rest is the program itself.
    assert!(
        read < 2 * wal + 16 * MIB,
        "{read} bytes read, {wal} in the log"
    );
    assert!(read < produced / 2, "{read} bytes read of {produced}");
    assert!(took < strict(Duration::from_secs(1)), "{took:?}");
}
