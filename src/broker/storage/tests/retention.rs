//! What retention lets go is gone for good, whenever the process dies, and nothing else is.

use std::path::{Path, PathBuf};

use logic::ids::{LeaderEpoch, Offset};

use super::harness::*;
use crate::storage::{AppendBatch, Log, LogConfig, RetentionRules, Storage, behind, trim};

const DAY_MS: i64 = 86_400_000;
/// The wall clock of these tests.
const NOW_MS: i64 = 1_700_000_000_000;

fn keeps(retention_ms: i64, retention_bytes: i64) -> LogConfig {
    LogConfig {
        file_delete_delay_ms: DAY_MS.unsigned_abs(),
        retention: RetentionRules {
            retention_ms,
            retention_bytes,
            ..RetentionRules::default()
        },
        ..config(20_000)
    }
}

/// A log of 20 batches in segments of about two, the last five of them of today.
async fn filled(storage: &Storage, config: LogConfig) -> (Log, Vec<Vec<u8>>) {
    let log = storage.create(id(0), "t", config, NOW_MS).await;
    let log = log.expect("created");
    let mut batches = Vec::new();
    for at in 0..20 {
        let age = if at < 15 { 10 * DAY_MS } else { 0 };
        batches.push(append(&log, 1, NOW_MS - age, &[at; 8_000], true));
    }
    durable(storage, std::slice::from_ref(&log)).await;
    (log, batches)
}

/// Files of the one partition in a data directory, by their names' end.
fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let logs = std::fs::read_dir(dir.join("logs")).expect("a directory");
    let log = logs.map(|entry| entry.expect("an entry").path()).next();
    let entries = std::fs::read_dir(log.expect("a partition")).expect("a directory");
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    found.sort();
    found
}

/// Recovers what a crash would leave and says where the log begins and ends and what it holds.
fn after_a_crash(dir: &TempDir) -> (i64, i64, Vec<u8>) {
    let recovery = recovered(&dir.0);
    assert!(recovery.damaged.is_empty(), "{:?}", recovery.damaged);
    let dir = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &dir).await;
        let logs = attach_all(&storage, recovery.logs, keeps(-1, -1)).await;
        let bytes = read_all(&reactor, &logs[0]).await;
        (logs[0].log_start().0, logs[0].log_end().0, bytes)
    })
}

#[test]
fn old_segments_go_and_stay_gone_after_a_crash() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    let (batches, crashed) = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let (log, batches) = filled(&storage, keeps(7 * DAY_MS, -1)).await;
        let none = log.retain(None, log.log_end()).await.expect("retained");
        assert_eq!(none, None, "without a clock nothing goes by age");
        let gone = log.retain(Some(NOW_MS), log.log_end()).await;
        let gone = gone.expect("retained").expect("something went");
        assert_eq!((gone.log_start, gone.segments), (Offset(15), 8));
        assert_eq!(log.log_start(), Offset(15));
        assert_eq!(read_all(&reactor, &log).await, batches[15..].concat());
        let again = log.retain(Some(NOW_MS), log.log_end()).await;
        assert_eq!(again.expect("retained"), None);
        (batches, dir.snapshot())
    });
    let (start, end, bytes) = after_a_crash(&crashed);
    assert_eq!((start, end), (15, 20));
    assert_eq!(bytes, batches[15..].concat());
    assert!(
        files(&crashed.0, ".deleted").is_empty(),
        "leftovers are removed"
    );
}

#[test]
fn a_file_that_comes_back_after_a_power_cut_is_not_served() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    let crashed = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let (log, _) = filled(&storage, keeps(7 * DAY_MS, -1)).await;
        log.retain(Some(NOW_MS), log.log_end())
            .await
            .expect("retained");
        dir.snapshot()
    });
    for gone in files(&crashed.0, ".deleted") {
        let back = gone.to_string_lossy().replace(".deleted", "");
        std::fs::rename(&gone, back).expect("renamed");
    }
    let (start, end, _) = after_a_crash(&crashed);
    assert_eq!((start, end), (15, 20));
    let left = files(&crashed.0, ".log");
    let first = left[0].file_stem().expect("a name").to_string_lossy();
    assert!(first.parse::<i64>().expect("an offset") >= 15, "{left:?}");
}

#[test]
fn a_file_that_comes_back_torn_damages_nothing_even_where_the_caches_are_lost() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    let stopped = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let (log, _) = filled(&storage, keeps(7 * DAY_MS, -1)).await;
        let gone = log.retain(Some(NOW_MS), log.log_end()).await;
        assert!(gone.expect("retained").is_some());
        storage.close().await;
        dir.snapshot()
    });
    let last = files(&stopped.0, ".log.deleted").pop().expect("one went");
    let back = last.to_string_lossy().replace(".deleted", "");
    let mut bytes = std::fs::read(&last).expect("a segment");
    bytes[150] ^= 1;
    std::fs::write(&back, bytes).expect("written");
    let checkpoint = files(&stopped.0, "checkpoint").pop().expect("one");
    std::fs::remove_file(checkpoint).expect("removed");
    let (start, end, _) = after_a_crash(&stopped);
    assert_eq!((start, end), (15, 20));
    assert!(!Path::new(&back).exists(), "it went at last");
}

#[test]
fn a_log_of_which_everything_went_goes_on_where_it_ended() {
    for clean_stop in [false, true] {
        let dir = TempDir::new();
        let path = dir.0.clone();
        let crashed = run(move |reactor| async move {
            let storage = opened(&reactor, &path).await;
            let (log, _) = filled(&storage, keeps(7 * DAY_MS, -1)).await;
            let later = Some(NOW_MS + 30 * DAY_MS);
            let gone = log.retain(later, log.log_end()).await;
            assert_eq!(
                gone.expect("retained").map(|gone| gone.log_start.0),
                Some(20)
            );
            assert_eq!(log.size_bytes(), 0);
            if clean_stop {
                storage.close().await;
            }
            dir.snapshot()
        });
        let (start, end, bytes) = after_a_crash(&crashed);
        assert_eq!(
            (start, end, bytes.len()),
            (20, 20, 0),
            "clean: {clean_stop}"
        );
    }
}

#[test]
fn what_went_right_after_a_clean_start_is_gone_and_the_end_stays() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        filled(&storage, keeps(-1, -1)).await;
        storage.close().await;
    });
    let recovery = recovered(&dir.0);
    let path = dir.0.clone();
    let crashed = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let logs = attach_all(&storage, recovery.logs, keeps(7 * DAY_MS, -1)).await;
        let later = Some(NOW_MS + 30 * DAY_MS);
        let gone = logs[0].retain(later, logs[0].log_end()).await;
        assert!(gone.expect("retained").is_some());
        dir.snapshot()
    });
    let (start, end, _) = after_a_crash(&crashed);
    assert_eq!((start, end), (20, 20));
}

#[test]
fn a_log_emptied_by_its_start_loses_its_last_segment_too() {
    let dir = TempDir::new();
    run(move |reactor| async move {
        let storage = opened(&reactor, &dir.0).await;
        let (log, _) = filled(&storage, keeps(7 * DAY_MS, -1)).await;
        log.set_log_start(log.log_end()).await.expect("moved");
        assert!(log.size_bytes() > 0, "the active segment is there");
        let later = Some(NOW_MS + 30 * DAY_MS);
        let gone = log.retain(later, log.log_end()).await.expect("retained");
        assert_eq!(gone.map(|gone| gone.segments), Some(1));
        assert_eq!(log.size_bytes(), 0);
    });
}

#[test]
fn a_record_without_a_timestamp_is_as_old_after_a_crash_as_its_append() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    // What was appended last is in no segment file yet, so no file can say when that was.
    let crashed = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let created = storage.create(id(0), "t", keeps(-1, -1), NOW_MS);
        let log = created.await.expect("created");
        for at in 0..2 {
            let append = AppendBatch {
                bytes: &batch(1, -1, b"x"),
                base_offset: Offset(at),
                leader_epoch: LeaderEpoch(0),
                append_time: None,
                flush: true,
            };
            let now_ms = NOW_MS + at * 6 * DAY_MS;
            log.append(now_ms, &append).expect("appended");
        }
        let carried = trim::checkpoint(&storage.shared, &log.state).await;
        carried.expect("carried forward");
        dir.snapshot()
    });
    let recovery = recovered(&crashed.0);
    let path = crashed.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let logs = attach_all(&storage, recovery.logs, keeps(7 * DAY_MS, -1)).await;
        for (days, starts_at) in [(12, 0), (14, 2)] {
            let wall_ms = Some(NOW_MS + days * DAY_MS);
            let retained = logs[0].retain(wall_ms, logs[0].log_end()).await;
            retained.expect("retained");
            assert_eq!(logs[0].log_start(), Offset(starts_at), "{days} days later");
        }
    });
}

#[test]
fn by_size_the_newest_bytes_stay_and_never_less_than_the_high_watermark_allows() {
    let dir = TempDir::new();
    run(move |reactor| async move {
        let storage = opened(&reactor, &dir.0).await;
        let (log, _) = filled(&storage, keeps(-1, 50_000)).await;
        let held = log.retain(Some(NOW_MS), Offset(3)).await.expect("retained");
        assert_eq!(held.map(|gone| gone.log_start.0), Some(2));
        log.retain(Some(NOW_MS), log.log_end())
            .await
            .expect("retained");
        assert!(
            (50_000..70_000).contains(&log.size_bytes()),
            "{}",
            log.size_bytes()
        );
    });
}

#[test]
fn a_deleted_file_stays_for_its_delay_and_no_longer() {
    let dir = TempDir::new();
    run(move |reactor| async move {
        let storage = opened(&reactor, &dir.0).await;
        let (log, _) = filled(&storage, keeps(7 * DAY_MS, -1)).await;
        let flushed = behind::flush(&storage.shared, &log.state).await;
        flushed.expect("in its files");
        let before = files(&dir.0, ".log").len();
        log.set_log_start(Offset(4)).await.expect("moved");
        assert_eq!(files(&dir.0, ".log.deleted").len(), 2);
        log.configure(LogConfig {
            file_delete_delay_ms: 0,
            ..keeps(7 * DAY_MS, -1)
        });
        log.set_log_start(Offset(8)).await.expect("moved");
        assert_eq!(files(&dir.0, ".log").len(), before - 4);
        // Those with a delay of a day stay; the others go as soon as the remover has had its turn.
        while files(&dir.0, ".log.deleted").len() > 2 {
            reactor::timer::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
}
