//! Logs of many segments: a start does not read them, and what is deleted gives its space back. Knows the
//! broker as a process and a client. Minutes and gigabytes, so run it by hand, on a release build:
//!
//! `cargo test --release --test many_segments -- --ignored --nocapture`
//!
//! `CORELOG_SEGMENTS` sets how many there are (20,000; of some thousands most are still in the write-ahead log), `CORELOG_DELETED_GIB` how much is written and
//! deleted (10).

mod broker;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use broker::filling::{files_below, fill, forget_cached};
use broker::{Broker, DataDir, number};
use bytes::Bytes;
use client::AdminConfig;
use client::admin::Admin;
use client::direct::Connection;
use wire::Compression;
use wire::records::BatchBuilder;

const TOPIC: &str = "many";
const PARTITIONS: i32 = 20;
const SHARDS: usize = 2;
const MIB: u64 = 1 << 20;
/// Bytes of a segment in the log of many.
const SEGMENT_BYTES: u64 = 16 << 10;
/// Batches of one partition that may be unanswered.
const IN_FLIGHT: i32 = 4;
/// How much is written between two deletions.
const STEP_BYTES: u64 = 512 * MIB;
const BATCH_BYTES: u64 = 960 << 10;
/// What may be left of all that was deleted: each partition's active segment, and the index of each.
const LEFT_BYTES_MAX: u64 = PARTITIONS as u64 * 20 * MIB;
/// Small, so that most of the data is in segments.
const SMALL_WAL: [(&str, &str); 2] = [
    ("CORELOG_WAL__EXTENT_BYTES", "4194304"),
    ("CORELOG_WAL__BYTES_MAX", "16777216"),
];
const WAL: [(&str, &str); 2] = [
    ("CORELOG_WAL__EXTENT_BYTES", "4194304"),
    ("CORELOG_WAL__BYTES_MAX", "67108864"),
];
const WAL_BYTES_MAX: u64 = 64 * MIB;
/// How long deleted files may stay.
const GONE_MAX: Duration = Duration::from_secs(30);

fn batch(timestamp: i64, bytes: u64) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    let bytes = usize::try_from(bytes).expect("small");
    builder.push(timestamp, None, Some(&vec![b'x'; bytes]), &[]);
    builder.finish().expect("a batch")
}

fn segments_below(directory: &Path) -> u64 {
    let mut segments = 0;
    files_below(directory, &mut |path| {
        segments += u64::from(path.extension().is_some_and(|it| it == "log"));
    });
    segments
}

/// Bytes that the file system has given to all files below.
fn space_below(directory: &Path) -> u64 {
    let mut space = 0;
    files_below(directory, &mut |path| {
        // A file that is going may be gone.
        space += path.metadata().map_or(0, |it| it.blocks() * 512);
    });
    space
}

#[tokio::test]
#[ignore = "minutes"]
async fn a_start_with_many_segments_does_not_read_them() {
    let wanted: u64 = number("CORELOG_SEGMENTS", 20_000);
    let each = wanted.div_ceil(PARTITIONS.unsigned_abs().into());
    let data = DataDir::new("many-segments");
    let broker = Broker::start_with(&data, SHARDS, &SMALL_WAL).await;
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    let configs = [("segment.ms", "1"), ("retention.ms", "-1")];
    let created = connection.create_topic(TOPIC, PARTITIONS, &configs).await;
    created.expect("the topic is created");
    let begun = Instant::now();
    // Each is a second younger than the one before: every batch begins a segment.
    let second = |number: u64| i64::try_from(number * 1_000).expect("small");
    fill(
        &mut connection,
        (TOPIC, PARTITIONS),
        (each, IN_FLIGHT),
        |number| batch(second(number), SEGMENT_BYTES),
    )
    .await;
    println!(
        "{} batches in {:?}",
        each * PARTITIONS as u64,
        begun.elapsed()
    );
    broker.kill();
    let segments = segments_below(&data.join("logs"));
    // The newest may not be in a file of their own yet.
    assert!(segments > wanted / 2, "{segments} segments");
    let wal = space_below(&data.join("wal"));
    forget_cached(&data);

    let broker = Broker::start_with(&data, SHARDS, &SMALL_WAL).await;
    let took = broker.answered_after;
    let (by_calls, from_disk) = broker.bytes_read();
    println!(
        "{segments} segments of {} MiB, {} MiB write-ahead log: answers {took:?} after its start; it has read {} KiB by calls, \
         {} KiB from the disk",
        segments * SEGMENT_BYTES / MIB,
        wal / MIB,
        by_calls >> 10,
        from_disk >> 10
    );
    let read = by_calls.max(from_disk);
    // The newest extent is read twice; the rest is the program itself.
    assert!(
        read < 2 * wal + 16 * MIB,
        "{read} bytes read, {wal} in the write-ahead log"
    );
    broker.kill();
}

#[tokio::test]
#[ignore = "gigabytes"]
async fn what_is_deleted_gives_its_space_back_and_the_write_ahead_log_stays_bounded() {
    let gib: u64 = number("CORELOG_DELETED_GIB", 10);
    let data = DataDir::new("deleted");
    let broker = Broker::start_with(&data, SHARDS, &WAL).await;
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    let configs = [
        ("segment.bytes", "8388608"),
        ("file.delete.delay.ms", "0"),
        ("retention.ms", "-1"),
    ];
    let created = connection.create_topic(TOPIC, PARTITIONS, &configs).await;
    created.expect("the topic is created");
    let admin = Admin::new(AdminConfig::to(&broker.address.to_string()));
    let all: Vec<(i32, i64)> = (0..PARTITIONS).map(|partition| (partition, -1)).collect();
    let batches = STEP_BYTES / BATCH_BYTES / PARTITIONS as u64;
    for step in 1..=gib * 1024 * MIB / STEP_BYTES {
        fill(
            &mut connection,
            (TOPIC, PARTITIONS),
            (batches, IN_FLIGHT),
            |_| batch(1_000, BATCH_BYTES),
        )
        .await;
        let full = space_below(&data.join("logs"));
        for about in admin.delete_records(TOPIC, &all).await.expect("answered") {
            about.result.expect("deleted");
        }
        let begun = Instant::now();
        let left = loop {
            let left = space_below(&data.join("logs"));
            if left < LEFT_BYTES_MAX.min(full) {
                break left;
            }
            assert!(begun.elapsed() < GONE_MAX, "{left} bytes are left");
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let wal = space_below(&data.join("wal"));
        println!(
            "step {step}: {} MiB, after the deletion {} MiB; write-ahead log {} MiB",
            full / MIB,
            left / MIB,
            wal / MIB
        );
        assert!(wal <= SHARDS as u64 * 2 * WAL_BYTES_MAX, "{wal} bytes");
    }
    broker.terminate();
}
