//! What is left after the process dies: real ones, killed while they write.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use logic::ids::{LeaderEpoch, Offset, PartitionId};
use logic::log::header::BatchHeader;

use super::harness::*;
use crate::storage::{Log, Storage};

const PARTITIONS: i32 = 6;
const DIR: &str = "CORELOG_STORAGE_CRASH_DIR";
const SEED: &str = "CORELOG_STORAGE_CRASH_SEED";

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What partition `id` must hold at `offset`: one record a batch, its content said by both.
fn value(id: PartitionId, offset: Offset) -> Vec<u8> {
    let mut random =
        Random((offset.0 as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ id.index as u64);
    let len = match random.below(20) {
        0 => random.below(60_000),
        1..5 => random.below(5_000),
        _ => random.below(300),
    };
    let byte = random.below(256) as u8;
    vec![byte; len as usize + 1]
}

/// Not a test of its own: the process that [`a_killed_writer_loses_nothing_acknowledged`] kills.
#[test]
fn writer() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let seed: u64 = std::env::var(SEED)
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    let dir = PathBuf::from(dir);
    let recovery = recovered(&dir);
    run(move |reactor| async move {
        let storage = opened(&reactor, &dir).await;
        let mut logs = attach_all(&storage, recovery.logs, config(200_000)).await;
        for index in logs.len() as i32..PARTITIONS {
            let made = storage.create(id(index), "crash", config(200_000), 0).await;
            logs.push(made.expect("created"));
        }
        let acks = dir.join("acks");
        let mut acks = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(acks)
            .expect("a file");
        let mut random = Random(seed);
        loop {
            for _ in 0..random.below(30) + 1 {
                let log = &logs[random.below(logs.len() as u64) as usize];
                let flush = random.below(3) > 0;
                append(log, 1, 5, &value(log.id(), log.log_end()), flush);
            }
            while storage.backlog() > 1 << 20 {
                storage.progressed().await;
            }
            storage.progressed().await;
            assert!(storage.failed().is_none(), "{:?}", storage.failed());
            let mut line = String::new();
            for log in &logs {
                line += &format!("{} {}\n", log.id().index, log.written().0);
            }
            acks.write_all(line.as_bytes()).expect("written");
        }
    });
}

fn spawn_writer(dir: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "storage::tests::crash::writer", "--nocapture"])
        .env(DIR, dir)
        .env(SEED, seed.to_string())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("a child")
}

fn acknowledged(dir: &Path) -> BTreeMap<i32, i64> {
    let mut acks = BTreeMap::new();
    let text = fs::read_to_string(dir.join("acks")).unwrap_or_default();
    // The last line may be torn by the kill.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in whole.lines() {
        let mut words = line
            .split(' ')
            .map(|word| word.parse::<i64>().expect("a number"));
        let (partition, offset) = (words.next().expect("two"), words.next().expect("two"));
        acks.insert(partition as i32, offset);
    }
    acks
}

fn check_content(log: &Log, bytes: &[u8]) {
    let (mut at, mut next) = (0, Offset(0));
    while at < bytes.len() {
        let header = BatchHeader::read(&bytes[at..]).expect("a batch");
        assert_eq!(header.base_offset, next, "a hole in {:?}", log.id());
        let mut expected = batch(1, 5, &value(log.id(), next));
        wire::batch::stamp(&mut expected, next.0, 0);
        let got = &bytes[at..at + header.len as usize];
        assert!(got == expected, "other bytes in {:?} at {next:?}", log.id());
        next = header.end_offset();
        at += header.len as usize;
    }
    assert_eq!(next, log.log_end());
}

fn verify(dir: &Path, seed: u64) {
    let acks = acknowledged(dir);
    let recovery = recovered(dir);
    assert!(
        recovery.damaged.is_empty(),
        "seed {seed}: {:?}",
        recovery.damaged
    );
    println!(
        "seed {seed}: {} KiB in {} ms",
        recovery.bytes >> 10,
        recovery.took_ms
    );
    let dir = dir.to_owned();
    run(move |reactor| async move {
        let storage = opened(&reactor, &dir).await;
        let logs = attach_all(&storage, recovery.logs, config(200_000)).await;
        for log in &logs {
            let acked = acks.get(&log.id().index).copied().unwrap_or(0);
            assert!(
                log.log_end().0 >= acked,
                "seed {seed}: {:?} lost {acked}",
                log.id()
            );
            check_content(log, &read_all(&reactor, log).await);
        }
    });
}

#[test]
fn a_killed_writer_loses_nothing_acknowledged() {
    let dir = TempDir::new();
    for seed in 1..=8 {
        let before = acknowledged(&dir.0);
        let mut child = spawn_writer(&dir.0, seed);
        wait_for_acknowledgements(&dir.0, &before);
        std::thread::sleep(Duration::from_millis(50 + seed * 67 % 400));
        child.kill().expect("killed");
        child.wait().expect("gone");
        // Sometimes twice: a crash right after recovery changes nothing.
        for _ in 0..1 + seed % 2 {
            verify(&dir.0, seed);
        }
    }
}

/// A writer that is killed before it has written anything proves nothing, and on a busy machine it may
/// need a while.
fn wait_for_acknowledgements(dir: &Path, before: &BTreeMap<i32, i64>) {
    for _ in 0..3_000 {
        if acknowledged(dir) != *before {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the writer wrote nothing in 30 s");
}

#[test]
fn logs_of_several_shards_are_found_by_one() {
    let dir = TempDir::new();
    let mut threads = Vec::new();
    for shard in 0..3_usize {
        let dir = dir.0.clone();
        threads.push(std::thread::spawn(move || {
            run(move |reactor| async move {
                let storage = Storage::open(&reactor, &dir, shard, small())
                    .await
                    .expect("opened");
                let made = storage
                    .create(id(shard as i32), "many", config(100_000), 0)
                    .await;
                let log = made.expect("created");
                let mut all = Vec::new();
                for at in 0..300 {
                    all.extend(append(&log, 1, at, &[shard as u8; 1_000], true));
                }
                durable(&storage, &[log]).await;
                all
            })
        }));
    }
    let expected: Vec<Vec<u8>> = threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .collect();
    for _ in 0..3 {
        check_recovers(&dir.0, expected.clone());
    }
}

#[test]
fn producer_state_comes_back_with_the_batches_after_it() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let log = storage
            .create(id(0), "topic", config(1 << 20), 0)
            .await
            .expect("created");
        log.set_producer_snapshot_source(std::rc::Rc::new(|| bytes::Bytes::from_static(b"state")));
        for sequence in 0..3 {
            let mut builder =
                wire::records::BatchBuilder::new(wire::compression::Compression::None)
                    .producer(77, 1, sequence);
            builder.push(5, None, Some(b"v"), &[]);
            let bytes = builder.finish().expect("a batch");
            let batch = crate::storage::AppendBatch {
                bytes: &bytes,
                base_offset: log.log_end(),
                leader_epoch: LeaderEpoch(4),
                append_time: None,
                flush: true,
            };
            log.append(5, &batch).expect("appended");
        }
        durable(&storage, &[log]).await;
    });
    let crashed = dir.snapshot();
    let recovery = recovered(&crashed.0);
    let log = &recovery.logs[0];
    assert_eq!(log.producer_snapshot, b"state"[..]);
    let after = log.batches_after_snapshot();
    // The first append carries the checkpoint, which covers it.
    let got: Vec<_> = after
        .iter()
        .map(|(batch, at)| (batch.base_sequence, at.0))
        .collect();
    assert_eq!(got, [(1, 1), (2, 2)]);
    assert_eq!(log.epochs().latest(), Some(LeaderEpoch(4)));
}

#[test]
fn a_deleted_log_stays_deleted() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let gone = storage
            .create(id(0), "gone", config(1 << 20), 0)
            .await
            .expect("created");
        let kept = storage
            .create(id(1), "kept", config(1 << 20), 0)
            .await
            .expect("created");
        append(&gone, 1, 0, b"x", true);
        append(&kept, 1, 0, b"y", true);
        durable(&storage, &[gone.clone(), kept]).await;
        gone.delete().await.expect("deleted");
        let late = gone.append(
            0,
            &crate::storage::AppendBatch {
                bytes: &batch(1, 0, b"z"),
                base_offset: gone.log_end(),
                leader_epoch: LeaderEpoch(0),
                append_time: None,
                flush: true,
            },
        );
        assert!(late.is_err());
    });
    let crashed = dir.snapshot();
    let recovery = recovered(&crashed.0);
    assert!(recovery.damaged.is_empty());
    let ids: Vec<_> = recovery.logs.iter().map(|log| log.id().index).collect();
    assert_eq!(ids, [1]);
}

#[test]
fn after_a_failed_write_nothing_is_acknowledged_again() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let log = storage
            .create(id(0), "topic", config(1 << 20), 0)
            .await
            .expect("created");
        append(&log, 1, 0, b"x", true);
        durable(&storage, std::slice::from_ref(&log)).await;
        // No room ahead and no directory to make it in.
        fs::remove_dir_all(path.join("wal")).expect("removed");
        let mut appended = 0;
        while storage.failed().is_none() {
            append(&log, 1, 0, &[1; 50_000], true);
            appended += 1;
            assert!(appended < 200, "it never fails");
            storage.progressed().await;
        }
        let (written, durable, end) = (log.written(), log.durable(), log.log_end());
        assert!(durable < end);
        let late = log.append(
            0,
            &crate::storage::AppendBatch {
                bytes: &batch(1, 0, b"z"),
                base_offset: end,
                leader_epoch: LeaderEpoch(0),
                append_time: None,
                flush: true,
            },
        );
        assert!(late.is_err());
        reactor::timer::sleep(Duration::from_millis(300)).await;
        assert_eq!((log.written(), log.durable()), (written, durable));
        storage.close().await;
        assert_eq!((log.written(), log.durable()), (written, durable));
    });
}

#[test]
fn after_a_clean_stop_no_block_is_touched_before_the_log_holds_it() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    let first = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let log = storage
            .create(id(0), "topic", config(8 << 20), 0)
            .await
            .expect("created");
        let first = append(&log, 1, 0, &[1; 1_000], true);
        storage.close().await;
        first
    });
    let partition = dir
        .0
        .join("logs")
        .join(crate::storage::place::log_name("topic", id(0)));
    let segment = crate::storage::append::segment_path(&partition, Offset(0), "log");
    assert!(fs::read(&segment).expect("a segment") == first);
    let recovery = recovered(&dir.0);
    let path = dir.0.clone();
    let all = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let log = attach_all(&storage, recovery.logs, config(8 << 20))
            .await
            .remove(0);
        // Enough to be written behind at once, but not flushed at once.
        let second = append(&log, 1, 0, &[2; 1_500_000], false);
        while log.durable() < log.log_end() {
            assert_eq!(fs::read(&segment).expect("a segment").len(), first.len());
            storage.progressed().await;
        }
        [first, second].concat()
    });
    check_recovers(&dir.0, vec![all]);
}

#[test]
fn after_a_crash_old_offsets_are_found_though_no_index_was_written() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    let batches = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let log = storage
            .create(id(0), "topic", config(64 << 20), 0)
            .await
            .expect("created");
        let mut batches = Vec::new();
        for at in 0..6_000 {
            batches.push(append(&log, 1, at, &[at as u8; 2_000], at % 50 == 0));
            if at % 50 == 0 {
                durable(&storage, std::slice::from_ref(&log)).await;
            }
        }
        durable(&storage, &[log]).await;
        batches
    });
    let recovery = recovered(&dir.0);
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let log = attach_all(&storage, recovery.logs, config(64 << 20))
            .await
            .remove(0);
        let mut batches = batches;
        batches.push(append(&log, 1, 6_000, &[9; 2_000], true));
        let newest = log
            .read(Offset(6_000), Offset(6_001), 1, true)
            .expect("in range");
        let in_memory = matches!(newest, crate::storage::Read::Memory(_));
        assert!(in_memory, "what is new needs no look-up");
        for at in [0_usize, 1, 17, 2_500, 4_444, 5_998] {
            let got = read_step(&reactor, &log, Offset(at as i64), 1).await;
            assert!(got == batches[at], "offset {at}");
        }
        let got = read_from(&reactor, &log, Offset(0), 1 << 20).await;
        assert!(got == batches.concat());
        let end = log.log_end();
        let found = log
            .offset_for_timestamp(logic::ids::Timestamp(3_333), end)
            .await;
        assert_eq!(found.expect("ok").map(|found| found.1), Some(Offset(3_333)));
    });
}

#[test]
fn a_segment_written_for_appends_that_never_committed_is_not_there() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    let all = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let made = storage.create(id(0), "topic", config(1 << 20), 0).await;
        let log = made.expect("created");
        let all = append(&log, 1, 0, &[1; 1_000], true);
        durable(&storage, &[log]).await;
        all
    });
    let partition = dir
        .0
        .join("logs")
        .join(crate::storage::place::log_name("topic", id(0)));
    let stray = crate::storage::append::segment_path(&partition, Offset(7), "log");
    fs::write(&stray, batch(1, 0, b"never acknowledged")).expect("written");
    check_recovers(&dir.0, vec![all]);
    assert!(!stray.exists());
}
