//! The thin path: append, commit, read back, roll, stop cleanly, start again.

use std::path::Path;
use std::time::{Duration, Instant};

use logic::ids::{LeaderEpoch, Offset, Timestamp};

use super::harness::*;
use crate::storage::{Log, Read, ReadError};

#[test]
fn what_is_appended_is_read_back_byte_by_byte_and_becomes_durable() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let begun = Instant::now();
        let storage = opened(&reactor, &path).await;
        println!("open took {:?}", begun.elapsed());
        let log = storage
            .create(id(0), "topic", config(1 << 20), 0)
            .await
            .expect("created");
        let mut all = Vec::new();
        for at in 0..200 {
            all.extend(append(&log, 3, 1_000 + at, &[at as u8; 300], at % 2 == 0));
        }
        assert_eq!(log.log_end(), Offset(600));
        assert!(
            read_all(&reactor, &log).await == all,
            "before anything is durable"
        );
        durable(&storage, std::slice::from_ref(&log)).await;
        assert_eq!(log.written(), Offset(600));
        assert!(read_all(&reactor, &log).await == all);
    });
}

#[test]
fn without_a_flush_a_batch_is_written_at_once_and_durable_soon() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let log = storage
            .create(id(0), "topic", config(1 << 20), 0)
            .await
            .expect("created");
        append(&log, 1, 0, b"x", false);
        storage.progressed().await;
        assert_eq!((log.written(), log.durable()), (Offset(1), Offset(0)));
        let begun = Instant::now();
        storage.progressed().await;
        assert_eq!(log.durable(), Offset(1));
        assert!(begun.elapsed().as_millis() < 1_000);
    });
}

#[test]
fn a_read_starts_at_the_batch_that_holds_its_offset_and_keeps_its_bounds() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let log = storage
            .create(id(0), "topic", config(1 << 20), 0)
            .await
            .expect("created");
        let batches: Vec<_> = (0..50)
            .map(|at| append(&log, 4, at, &[7; 500], true))
            .collect();
        let len = batches[0].len();
        let read = |from, to, bytes, whole| {
            let read = log
                .read(Offset(from), Offset(to), bytes, whole)
                .expect("in range");
            match read {
                crate::storage::Read::Memory(parts) => parts.concat(),
                crate::storage::Read::Empty => Vec::new(),
                other => panic!("unexpected {other:?}"),
            }
        };
        assert_eq!(read(5, 200, len, false), batches[1]);
        assert_eq!(read(5, 200, len - 1, false), Vec::<u8>::new());
        assert_eq!(read(5, 200, 1, true), batches[1]);
        assert_eq!(read(4, 12, 1 << 20, true), batches[1..3].concat());
        assert_eq!(
            read(4, 11, 1 << 20, true),
            batches[1],
            "half of a batch is not below 11"
        );
        assert_eq!(read(0, 200, 1 << 20, true), batches.concat());
        assert_eq!(read(200, 200, 1 << 20, true), Vec::<u8>::new());
        let beyond = log.read(Offset(201), Offset(500), 1, true);
        assert!(matches!(beyond, Err(ReadError::OffsetOutOfRange)));
    });
}

#[test]
fn segments_roll_and_are_read_from_their_files_after_a_clean_stop() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    let all = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let log = storage
            .create(id(0), "topic", config(100_000), 0)
            .await
            .expect("created");
        let mut all = Vec::new();
        for at in 0..1_000 {
            all.extend(append(&log, 2, at, &[at as u8; 700], true));
        }
        durable(&storage, std::slice::from_ref(&log)).await;
        assert!(read_all(&reactor, &log).await == all);
        storage.close().await;
        all
    });
    let wal: Vec<_> = std::fs::read_dir(dir.0.join("wal")).expect("wal").collect();
    assert!(
        wal.is_empty() || wal.len() == 1,
        "a clean stop leaves no log: {wal:?}"
    );
    let logs = std::fs::read_dir(dir.0.join("logs"))
        .expect("logs")
        .next()
        .expect("one");
    let partition = logs.expect("an entry").path();
    let mut on_disk = Vec::new();
    let mut names: Vec<_> = std::fs::read_dir(&partition)
        .expect("partition")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "log"))
        .collect();
    names.sort();
    assert!(names.len() > 10);
    names
        .iter()
        .for_each(|name| on_disk.extend(std::fs::read(name).expect("a segment")));
    assert!(on_disk == all, "segments hold exactly the batches");
    check_recovers(&dir.0, vec![all.clone()]);
    // Without the caches all is as before.
    for entry in std::fs::read_dir(&partition).expect("partition") {
        let path = entry.expect("entry").path();
        let ending = path
            .extension()
            .and_then(|ending| ending.to_str())
            .unwrap_or("checkpoint");
        if ["index", "timeindex", "checkpoint"].contains(&ending) {
            std::fs::remove_file(path).expect("removed");
        }
    }
    check_recovers(&dir.0, vec![all]);
}

#[test]
fn offsets_are_found_by_time_inside_batches() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let log = storage
            .create(id(0), "topic", config(30_000), 0)
            .await
            .expect("created");
        for at in 0..200 {
            append(&log, 5, 1_000 + at * 10, &[1; 200], true);
        }
        durable(&storage, std::slice::from_ref(&log)).await;
        let end = log.log_end();
        for (time, offset) in [(0, 0), (1_000, 0), (1_003, 3), (1_005, 5), (2_994, 999)] {
            let found = log
                .offset_for_timestamp(Timestamp(time), end)
                .await
                .expect("looked up");
            assert_eq!(
                found.map(|found| found.1),
                Some(Offset(offset)),
                "time {time}"
            );
        }
        assert_eq!(
            log.offset_for_timestamp(Timestamp(2_995), end)
                .await
                .expect("ok"),
            None
        );
        let bounded = log
            .offset_for_timestamp(Timestamp(2_000), Offset(500))
            .await
            .expect("ok");
        assert_eq!(bounded, None, "beyond what the reader may see");
        let max = log.max_timestamp(end).await.expect("ok");
        assert_eq!(max, Some((Timestamp(2_994), Offset(999), LeaderEpoch(0))));
        let max = log.max_timestamp(Offset(500)).await.expect("ok");
        assert_eq!(max.map(|found| found.1), Some(Offset(499)));
    });
}

#[test]
fn where_nothing_has_a_timestamp_the_first_record_is_the_newest() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let log = storage
            .create(id(0), "topic", config(30_000), 0)
            .await
            .expect("created");
        for _ in 0..50 {
            append(&log, 1, -1, &[1; 1_000], true);
        }
        durable(&storage, std::slice::from_ref(&log)).await;
        let max = log.max_timestamp(log.log_end()).await.expect("ok");
        assert_eq!(max, Some((Timestamp(-1), Offset(0), LeaderEpoch(0))));
        append(&log, 1, 7, &[1; 1_000], true);
        durable(&storage, std::slice::from_ref(&log)).await;
        let max = log.max_timestamp(log.log_end()).await.expect("ok");
        assert_eq!(max, Some((Timestamp(7), Offset(50), LeaderEpoch(0))));
    });
}

#[test]
fn a_sealed_segment_in_memory_is_looked_up_by_its_index_and_not_walked() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let log = storage
            .create(id(0), "topic", config(50_000), 0)
            .await
            .expect("created");
        let all: Vec<_> = (0..150)
            .map(|at| append(&log, 1, at, &[at as u8; 900], true))
            .collect();
        durable(&storage, std::slice::from_ref(&log)).await;
        // Once two segments are sealed, the older one's index is forgotten.
        let from = Offset(40);
        let read = || log.read(from, log.log_end(), 1, true).expect("in range");
        while !matches!(read(), Read::Lookup) {
            reactor::timer::sleep(Duration::from_millis(5)).await;
        }
        let slow = log.read_slow(from, log.log_end(), 1, true).await;
        for found in [slow.expect("readable"), read()] {
            let Read::Memory(parts) = found else {
                panic!("it is in memory: {found:?}");
            };
            assert_eq!(parts.concat(), all[40]);
        }
    });
}

/// The index files of each segment reach to its end: the last time entry is its largest timestamp, and few bytes lie
/// behind the last offset entry.
fn check_index_files(dir: &Path) {
    use logic::log::header::BatchHeader;
    let partition = std::fs::read_dir(dir.join("logs")).expect("logs").next();
    let partition = partition.expect("one").expect("an entry").path();
    let files = std::fs::read_dir(partition).expect("a partition");
    let paths = files.map(|file| file.expect("an entry").path());
    let segments: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "log"))
        .collect();
    assert!(segments.len() > 1, "{segments:?}");
    for path in segments {
        let log = std::fs::read(&path).expect("a segment");
        let (mut at, mut newest) = (0, -1);
        while at < log.len() {
            let header = BatchHeader::read(&log[at..]).expect("a batch");
            newest = newest.max(header.max_timestamp.0);
            at += header.len as usize;
        }
        let ending = |ending| std::fs::read(path.with_extension(ending)).expect("an index");
        let (times, offsets) = (ending("timeindex"), ending("index"));
        let entry = times.last_chunk::<12>().expect("a time entry");
        let entry = entry.first_chunk().expect("a timestamp");
        assert_eq!(i64::from_be_bytes(*entry), newest, "{path:?}");
        let entry = offsets.last_chunk::<4>();
        let rest = log.len() - entry.map_or(0, |at| u32::from_be_bytes(*at) as usize);
        assert!(rest <= 3 * 4_096, "{path:?}: {rest} bytes");
    }
}

#[test]
fn index_files_reach_to_the_end_of_their_segments_whenever_the_broker_was_started() {
    let dir = TempDir::new();
    let append_some = |log: &Log, first: i64, batches: i64| {
        for at in 0..batches {
            append(log, 1, first + at % 7 * 10, &[1; 2_000], true);
        }
    };
    let path = dir.0.clone();
    let crashed = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let log = storage
            .create(id(0), "topic", config(50_000), 0)
            .await
            .expect("created");
        append_some(&log, 1_000, 40);
        durable(&storage, std::slice::from_ref(&log)).await;
        let crashed = TempDir::new();
        copy_dir(&path, &crashed.0);
        storage.close().await;
        crashed
    });
    check_index_files(&dir.0);
    // The segment that was active fills up, and then the next one is stopped in its middle.
    for dir in [&crashed, &dir] {
        for first in [2_000, 3_000, 4_000] {
            let (path, recovery) = (dir.0.clone(), recovered(&dir.0));
            run(move |reactor| async move {
                let storage = opened(&reactor, &path).await;
                let logs = attach_all(&storage, recovery.logs, config(50_000)).await;
                append_some(&logs[0], first, 10);
                durable(&storage, &logs).await;
                storage.close().await;
            });
            check_index_files(&dir.0);
        }
    }
}

#[test]
fn a_moved_log_start_survives_and_takes_files_along() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let log = storage
            .create(id(0), "topic", config(10_000), 0)
            .await
            .expect("created");
        for at in 0..100 {
            append(&log, 1, at, &[1; 900], true);
        }
        durable(&storage, std::slice::from_ref(&log)).await;
        log.set_log_start(Offset(55)).await.expect("moved");
        assert_eq!(log.log_start(), Offset(55));
        assert!(log.size_bytes() < 60_000);
        let below = log.read(Offset(54), log.log_end(), 1, true);
        assert!(matches!(below, Err(ReadError::OffsetOutOfRange)));
    });
    let crashed = dir.snapshot();
    for dir in [&crashed, &dir] {
        let recovery = recovered(&dir.0);
        assert!(recovery.damaged.is_empty(), "{:?}", recovery.damaged);
        assert_eq!(recovery.logs[0].log_start(), Offset(55));
        assert_eq!(recovery.logs[0].log_end(), Offset(100));
    }
}

#[test]
fn who_appends_faster_than_the_disk_can_tell_and_wait() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let made = storage.create(id(0), "topic", config(8 << 20), 0).await;
        let log = made.expect("created");
        assert!(!storage.is_behind());
        for at in 0..8 {
            append(&log, 1, at, &[at as u8; 200 << 10], false);
        }
        assert!(storage.is_behind(), "{} bytes wait", storage.backlog());
        storage.until_caught_up().await;
        assert!(!storage.is_behind());
        assert!(log.written() > Offset(0));
    });
}
