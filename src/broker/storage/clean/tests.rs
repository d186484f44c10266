//! A cleaned log holds what it must, for readers at any moment and after a crash at any step.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use logic::ids::{Instant, LeaderEpoch, Offset};
use logic::log::cleaning::filter::Pass;
use logic::log::cleaning::swap::{Step, steps};
use logic::log::header::BatchHeader;
use logic::log::segment::Segment;
use wire::compression::{Compression, Unfolding};
use wire::records::{BatchBuilder, Records};

use super::super::tests::harness::*;
use super::swap::carry_out;
use super::{Budget, Cleaner, now};
use crate::storage::{
    AppendBatch, CleanReport, CleaningRules, Log, LogConfig, Storage, StorageError, place,
};

const BATCHES: usize = 60;
const KEYS: usize = 7;

fn compacts() -> LogConfig {
    LogConfig {
        cleaning: CleaningRules {
            compacts: true,
            ..CleaningRules::default()
        },
        ..config(20_000)
    }
}

fn cleaner() -> Cleaner {
    Cleaner {
        dedupe_bytes: 1 << 20,
        budget: Budget::new(u64::MAX),
    }
}

/// Appends batches of two records whose keys come round and round.
async fn filled(storage: &Storage, codec: Compression) -> Log {
    let log = storage
        .create(id(0), "t", compacts(), 0)
        .await
        .expect("created");
    for at in 0..BATCHES {
        let mut builder = BatchBuilder::new(codec);
        for within in 0..2 {
            let key = format!("key-{}", (at + within) % KEYS);
            // Bytes that no codec makes much smaller, so that there are several segments.
            let mut state = at as u32 + 1;
            let value: Vec<u8> = std::iter::repeat_with(|| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .take(2_000)
            .collect();
            builder.push(1_000, Some(key.as_bytes()), Some(&value), &[]);
        }
        let bytes = builder.finish().expect("a batch");
        let append = AppendBatch {
            bytes: &bytes,
            base_offset: log.log_end(),
            leader_epoch: LeaderEpoch(0),
            append_time: None,
            flush: true,
        };
        log.append(1_000, &append).expect("appended");
    }
    durable(storage, std::slice::from_ref(&log)).await;
    log
}

/// Offsets and values of records, by key the newest.
type Newest = BTreeMap<Bytes, (i64, Bytes)>;

fn newest(bytes: &[u8]) -> (usize, Newest) {
    let (mut at, mut count, mut newest) = (0, 0, Newest::new());
    while at < bytes.len() {
        let header = BatchHeader::read(&bytes[at..]).expect("a batch");
        let batch = Bytes::copy_from_slice(&bytes[at..at + header.len as usize]);
        for record in Records::open(&batch, &Unfolding::default()).expect("opened") {
            let record = record.expect("sound");
            let offset = header.base_offset.0 + i64::from(record.offset_delta);
            let (key, value) = (record.key.expect("a key"), record.value.expect("a value"));
            newest.insert(key, (offset, value));
            count += 1;
        }
        at += header.len as usize;
    }
    (count, newest)
}

/// Recovers and reads all there is.
fn after_a_crash(dir: &Path) -> (i64, Vec<u8>) {
    let recovery = recovered(dir);
    assert!(recovery.damaged.is_empty(), "{:?}", recovery.damaged);
    let dir = dir.to_owned();
    run(move |reactor| async move {
        let storage = opened(&reactor, &dir).await;
        let logs = attach_all(&storage, recovery.logs, compacts()).await;
        let bytes = read_all(&reactor, &logs[0]).await;
        (logs[0].log_end().0, bytes)
    })
}

#[test]
fn of_each_key_the_newest_record_stays_in_every_codec_and_every_offset_can_be_asked_for() {
    for codec in Compression::ALL {
        let dir = TempDir::new();
        let path = dir.0.clone();
        let (before, after, crashed) = run(move |reactor| async move {
            let storage = opened(&reactor, &path).await;
            let log = filled(&storage, codec).await;
            let before = newest(&read_all(&reactor, &log).await);
            let part = log.cleanable(2_000, log.log_end()).await.expect("looked");
            let part = part.expect("something is dirty");
            assert!(log.is_due(&part));
            let none = BTreeMap::new();
            let report = log
                .clean(&part, 2_000, &none, &cleaner())
                .await
                .expect("cleaned");
            let report = report.expect("not disturbed");
            assert_eq!(report.clean_below, part.end);
            assert!(report.bytes_after < report.bytes_before, "{report:?}");
            let after = newest(&read_all(&reactor, &log).await);
            for offset in 0..log.log_end().0 {
                let step = read_step(&reactor, &log, Offset(offset), 1).await;
                assert!(end_of(&step) > Offset(offset), "{codec:?}: {offset}");
            }
            let again = log.cleanable(2_000, log.log_end()).await.expect("looked");
            assert_eq!(again, None, "all but the active segment is clean");
            (before, after, dir.snapshot())
        });
        assert_eq!(after.1, before.1, "{codec:?}");
        assert!(
            after.0 < before.0 / 2,
            "{codec:?}: {} of {}",
            after.0,
            before.0
        );
        let (end, bytes) = after_a_crash(&crashed.0);
        assert_eq!(end, 2 * BATCHES as i64);
        assert_eq!(newest(&bytes), after, "{codec:?} after a crash");
    }
}

/// A clean copy of the log's first segments, before it takes their place.
async fn copied(log: &Log, segments: usize) -> (Vec<Offset>, Segment) {
    let part = log.cleanable(2_000, log.log_end()).await.expect("looked");
    let part = part.expect("something is dirty");
    log.settle().await.expect("settled");
    let (newest, end) = log.note_keys(&part, &cleaner()).await.expect("noted");
    let pass = Pass {
        newest: &newest,
        end,
        now_ms: 2_000,
        delete_retention_ms: 0,
        folding: None,
        last_of_producer: &BTreeMap::new(),
    };
    let mut replaced = log.bases_within(Offset(0), end);
    replaced.truncate(segments);
    let copy = log.copy(&replaced, &pass, &cleaner()).await;
    (replaced, copy.expect("copied").expect("not the same"))
}

#[test]
fn a_crash_at_any_step_leaves_all_of_the_old_or_the_new() {
    let count = steps(&[Offset(0), Offset(1)]).len() + 8;
    let mut outcomes = Vec::new();
    for stop in 0..count {
        let dir = TempDir::new();
        let path = dir.0.clone();
        let (before, took, crashed) = run(move |reactor| async move {
            let storage = opened(&reactor, &path).await;
            let log = filled(&storage, Compression::None).await;
            let before = newest(&read_all(&reactor, &log).await);
            let (replaced, segment) = copied(&log, 4).await;
            let all = steps(&replaced);
            let took: Vec<Step> = all.iter().copied().take(stop).collect();
            let done = carry_out(&log.shared, &log.state, &replaced, segment, &took).await;
            assert!(done.expect("carried out"));
            (before, took, dir.snapshot())
        });
        let decided = took.contains(&Step::Decide);
        // A crash during recovery, too: what it did is done again.
        let again = crashed.snapshot();
        recovered(&again.0);
        for dir in [crashed, again] {
            let (end, bytes) = after_a_crash(&dir.0);
            let got = newest(&bytes);
            assert_eq!(end, 2 * BATCHES as i64, "after {took:?}");
            assert_eq!(got.1, before.1, "after {took:?}");
            assert_eq!(got.0 < before.0, decided, "after {took:?}");
        }
        outcomes.push(decided);
    }
    assert!(outcomes.contains(&true) && outcomes.contains(&false));
}

/// Cleans all that is dirty.
async fn clean(log: &Log) -> Result<Option<CleanReport>, StorageError> {
    let part = log.cleanable(2_000, log.log_end()).await.expect("looked");
    let part = part.expect("something is dirty");
    log.clean(&part, 2_000, &BTreeMap::new(), &cleaner()).await
}

#[test]
fn a_log_with_damage_is_left_alone_for_a_while_as_it_is_and_cleaned_once_the_damage_is_gone() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        filled(&storage, Compression::None).await;
        storage.close().await;
    });
    let partition = dir.0.join("logs").join(place::log_name("t", id(0)));
    let segment = partition.join(format!("{}.log", place::segment_name(Offset(0))));
    let sound = fs::read(&segment).expect("a segment");
    let mut wrong = sound.clone();
    wrong[3_000] ^= 1;
    fs::write(&segment, &wrong).expect("written");
    let recovery = recovered(&dir.0);
    run(move |reactor| async move {
        let storage = opened(&reactor, &dir.0).await;
        let log = attach_all(&storage, recovery.logs, compacts())
            .await
            .remove(0);
        let cleaned = clean(&log).await;
        let refused = matches!(cleaned, Err(StorageError::Damaged { .. }));
        assert!(refused, "{cleaned:?}");
        assert_eq!(fs::read(&segment).expect("a segment"), wrong);
        let again = log.cleanable(2_000, log.log_end()).await.expect("looked");
        assert_eq!(again, None, "not at once");
        assert!((1..=60_000).contains(&log.cleaning_pause_ms()));
        fs::write(&segment, &sound).expect("mended");
        // The pause is over.
        let retry = log.state.cleaning_retry.take();
        assert!(retry.is_due(Instant(now().0 + 60_000_000_000)));
        let before = newest(&read_all(&reactor, &log).await);
        let report = clean(&log).await.expect("cleaned").expect("undisturbed");
        assert!(report.bytes_after < report.bytes_before, "{report:?}");
        assert_eq!(newest(&read_all(&reactor, &log).await).1, before.1);
        assert_eq!(log.cleaning_pause_ms(), 0);
    });
}

#[test]
fn a_copy_that_fails_leaves_nothing_behind() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        filled(&storage, Compression::None).await;
        storage.close().await;
    });
    let partition = dir.0.join("logs").join(place::log_name("t", id(0)));
    let recovery = recovered(&dir.0);
    run(move |reactor| async move {
        let storage = opened(&reactor, &dir.0).await;
        let log = attach_all(&storage, recovery.logs, compacts())
            .await
            .remove(0);
        let part = log.cleanable(2_000, log.log_end()).await.expect("looked");
        let part = part.expect("something is dirty");
        let (newest, end) = log.note_keys(&part, &cleaner()).await.expect("noted");
        let segment = partition.join(format!("{}.log", place::segment_name(Offset(0))));
        let mut wrong = fs::read(&segment).expect("a segment");
        let last = wrong.len() - 1;
        wrong[last] ^= 1;
        fs::write(&segment, &wrong).expect("written");
        let pass = Pass {
            newest: &newest,
            end,
            now_ms: 2_000,
            delete_retention_ms: 0,
            folding: None,
            last_of_producer: &BTreeMap::new(),
        };
        let copied = log.copy(&[Offset(0)], &pass, &cleaner()).await;
        assert!(matches!(copied, Err(StorageError::Damaged { .. })));
        let files = fs::read_dir(&partition).expect("a directory").flatten();
        let mut left = files.filter(|file| file.path().extension() == Some("cleaned".as_ref()));
        assert!(left.next().is_none());
    });
}

#[test]
fn a_group_that_loses_a_segment_meanwhile_is_left_alone() {
    let dir = TempDir::new();
    run(move |reactor| async move {
        let storage = opened(&reactor, &dir.0).await;
        let log = filled(&storage, Compression::None).await;
        let (replaced, segment) = copied(&log, 3).await;
        log.set_log_start(replaced[1]).await.expect("moved");
        let all = steps(&replaced);
        let done = carry_out(&log.shared, &log.state, &replaced, segment, &all).await;
        assert!(!done.expect("undone"));
        assert!(storage.failed().is_none());
        let bytes = read_all(&reactor, &log).await;
        assert_eq!(newest(&bytes).0 as i64, log.log_end().0 - log.log_start().0);
    });
}
