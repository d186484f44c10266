//! The append path: the leader's decision, the storage's part in memory, and the whole way to the
//! disk. Knows neither requests nor connections.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use corelog::storage::{AppendBatch, Log, LogConfig, Settings, Storage};
use criterion::{BenchmarkId, Criterion, Throughput};
use logic::ids::{self, LeaderEpoch, Offset, PartitionId, Timestamp, TopicId};
use logic::partition::leader::{Acks, Batch, Durability, Effect, Event, Leader, Rules, Token};
use logic::partition::producers::{BatchSummary, Producers};
use reactor::Reactor;
use wire::compression::Compression;

use crate::lane::Lane;
use crate::samples::{self, WALL_MS};

/// Small segments, so that what was measured can be deleted soon.
const SEGMENT_BYTES: u32 = 64 << 20;
/// Appends of one sample that only fill memory: what they fill goes to the disk in between, untimed.
const IN_MEMORY_MAX: u64 = 2_000;
const SIZES: [(&str, usize); 2] = [("1 KiB", 1 << 10), ("16 KiB", 16 << 10)];

/// One idempotent batch of ten records: the leader accepts it, then hears that it is durable, then
/// answers.
pub fn leader(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("leader");
    group.throughput(Throughput::Elements(1));
    group.bench_function("produce and progress", |bencher| {
        let mut leader = new_leader();
        let mut effects = Vec::new();
        let mut token = 0;
        bencher.iter(|| {
            token += 1;
            produce(&mut leader, Token(token), &mut effects);
        });
    });
    group.finish();
}

fn new_leader() -> Leader {
    let rules = Rules {
        message_bytes_max: 1 << 20,
        compacted: false,
        append_time: false,
        timestamp_before_ms_max: i64::MAX,
        timestamp_after_ms_max: 3_600_000,
        in_sync_min: 1,
        durability: Durability::Flush,
        flush_records_max: i64::MAX,
        flush_ms_max: i64::MAX,
    };
    let start = Offset(0);
    Leader::new(LeaderEpoch(0), rules, start, start, Producers::new())
}

fn produce(leader: &mut Leader, token: Token, effects: &mut Vec<Effect>) {
    const RECORDS: i64 = 10;
    let now = ids::Instant(token.0);
    let base_sequence = (leader.log_end().0 % (1 << 31)) as i32;
    let batch = Batch {
        bytes: 1 << 10,
        summary: BatchSummary {
            producer_id: 1,
            epoch: 0,
            base_sequence,
            record_count: RECORDS as u32,
            timestamp: WALL_MS,
        },
        timestamp_min: Timestamp(WALL_MS),
        timestamp_max: Timestamp(WALL_MS),
        keyless: None,
    };
    let produce = Event::Produce {
        token,
        acks: Acks::All,
        wall: Timestamp(WALL_MS),
        batch,
    };
    leader.step(now, produce, effects);
    let end = leader.log_end();
    let progress = Event::Progress {
        written: end,
        durable: end,
    };
    leader.step(now, progress, effects);
    assert!(
        matches!(effects[..], [Effect::Append { .. }, Effect::Reply { .. }]),
        "accepted and answered"
    );
    effects.clear();
}

/// What an append costs its caller: copied into the tail, indexed, queued for the next commit.
pub fn memory(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append in memory");
    for (size, bytes) in SIZES {
        let lane = appends(bytes, async |log, batch, count| {
            let done = count.min(IN_MEMORY_MAX);
            let begun = Instant::now();
            for _ in 0..done {
                append(log, batch);
            }
            begun.elapsed().mul_f64(count as f64 / done as f64)
        });
        group.throughput(Throughput::Bytes(bytes as u64));
        group
            .sample_size(20)
            .measurement_time(Duration::from_millis(500));
        group.bench_function(size, |bencher| {
            bencher.iter_custom(|count| lane.0.time(count));
        });
    }
    group.finish();
}

/// Appends until they are flushed: one at a time, and 64 that share commits.
pub fn durable(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append until flushed");
    for (size, bytes) in SIZES {
        for together in [1_u64, 64] {
            let lane = appends(bytes, async move |log, batch, count| {
                let begun = Instant::now();
                for _ in 0..count {
                    for _ in 0..together {
                        append(log, batch);
                    }
                    flushed(log).await;
                }
                begun.elapsed()
            });
            group.throughput(Throughput::Bytes(bytes as u64 * together));
            group
                .sample_size(20)
                .measurement_time(Duration::from_secs(2));
            let name = BenchmarkId::new(size, format!("{together} at a time"));
            group.bench_function(name, |bencher| {
                bencher.iter_custom(|count| lane.0.time(count));
            });
        }
    }
    group.finish();
}

/// A log on the disk, in a storage of its own.
struct Opened {
    storage: Storage,
    log: Log,
}

/// An executor with a log, and its directory, which goes last.
struct Appends(
    Lane,
    #[expect(dead_code, reason = "dropped, not read")] Directory,
);

/// Times `operate` on a fresh log; after each time everything is flushed and deleted.
fn appends<O>(bytes: usize, mut operate: O) -> Appends
where
    O: AsyncFnMut(&Opened, &Bytes, u64) -> Duration + Send + 'static,
{
    let directory = Directory::new();
    let path = directory.0.clone();
    let lane = Lane::start(None, async move |reactor| {
        let opened = open(&reactor, &path).await;
        let batch = samples::batch(Compression::None, bytes);
        async move |count| {
            let time = operate(&opened, &batch, count).await;
            flushed(&opened).await;
            let end = opened.log.durable();
            opened.log.set_log_start(end).await.expect("deletes");
            time
        }
    });
    Appends(lane, directory)
}

async fn open(reactor: &Reactor, directory: &Path) -> Opened {
    let settings = Settings::default();
    let storage = Storage::open(reactor, directory, 0, settings)
        .await
        .expect("a storage");
    let id = PartitionId {
        topic: TopicId([7; 16]),
        index: 0,
    };
    let config = LogConfig {
        segment_bytes: SEGMENT_BYTES,
        ..LogConfig::default()
    };
    let log = storage.create(id, "bench", config, WALL_MS).await;
    Opened {
        storage,
        log: log.expect("a log"),
    }
}

fn append(opened: &Opened, bytes: &Bytes) {
    let batch = AppendBatch {
        bytes,
        base_offset: opened.log.log_end(),
        leader_epoch: LeaderEpoch(0),
        append_time: None,
        flush: true,
    };
    opened.log.append(WALL_MS, &batch).expect("an append");
}

async fn flushed(opened: &Opened) {
    while opened.log.durable() < opened.log.log_end() {
        opened.storage.progressed().await;
        let failed = opened.storage.failed();
        assert!(failed.is_none(), "the storage failed: {failed:?}");
    }
}

/// A directory beside the build's output, on a disk and not in memory; removed when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let name = format!("append-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
