//! What is read from segment files: checked before it is served, and refused when it is wrong.

use std::fs;
use std::path::{Path, PathBuf};

use logic::ids::{Offset, Timestamp};
use reactor::Reactor;

use super::harness::*;
use crate::storage::{Log, LogConfig, Read, ReadError, StorageError, place};

const BATCHES: usize = 40;
const RECORDS: usize = 5;
const SEGMENT_BYTES: u32 = 20_000;
const STEP: usize = 3_000;

/// A partition with sealed segments after a clean stop, and its bytes.
fn sealed_segments() -> (TempDir, Vec<u8>) {
    let dir = TempDir::new();
    let path = dir.0.clone();
    let all = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let made = storage
            .create(id(0), "topic", config(SEGMENT_BYTES), 0)
            .await;
        let logs = [made.expect("created")];
        let mut all = Vec::new();
        for at in 0..BATCHES {
            all.extend(append(&logs[0], RECORDS, at as i64, &[at as u8; 400], true));
        }
        durable(&storage, &logs).await;
        storage.close().await;
        all
    });
    (dir, all)
}

fn first_segment(dir: &Path, ending: &str) -> PathBuf {
    let partition = dir.join("logs").join(place::log_name("topic", id(0)));
    partition.join(format!("{}.{ending}", place::segment_name(Offset(0))))
}

/// Does something with the log, opened again.
fn reopened<T, F>(dir: &TempDir, work: impl FnOnce(Reactor, Log) -> F + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let path = dir.0.clone();
    let recovery = recovered(&path);
    assert!(recovery.damaged.is_empty(), "{:?}", recovery.damaged);
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let mut logs = attach_all(&storage, recovery.logs, config(SEGMENT_BYTES)).await;
        work(reactor, logs.remove(0)).await
    })
}

async fn read(log: &Log, offset: i64) -> Result<Read, ReadError> {
    log.read_slow(Offset(offset), log.log_end(), STEP, true)
        .await
}

fn is_damage<T>(read: &Result<T, ReadError>) -> bool {
    matches!(read, Err(ReadError::Storage(StorageError::Damaged { .. })))
}

#[test]
fn what_is_wrong_in_a_file_is_refused_and_what_is_right_beside_it_served() {
    // In a record, in the base offset, and in the leader epoch, which no checksum covers.
    for wrong_at in [200, 7, 15] {
        let (dir, all) = sealed_segments();
        let path = first_segment(&dir.0, "log");
        let mut bytes = fs::read(&path).expect("a segment");
        let batch = all.len() / BATCHES;
        bytes[2 * batch + wrong_at] ^= 0x40;
        fs::write(&path, bytes).expect("written");
        reopened(&dir, move |_, log| async move {
            let records = RECORDS as i64;
            for _ in 0..2 {
                assert!(is_damage(&read(&log, 2 * records).await), "byte {wrong_at}");
            }
            for sound in [0, 1, 4, 20] {
                let read = read(&log, sound * records).await;
                let sound_is_served = matches!(read, Ok(Read::File { .. }));
                assert!(sound_is_served, "byte {wrong_at}, batch {sound}: {read:?}");
            }
        });
    }
}

#[test]
fn a_look_up_answers_up_to_what_is_wrong_unless_offsets_are_missing_before_it() {
    // In a record of the third batch; in the second one's base offset, which leaves a gap before it.
    for (batch, wrong_at, refused) in [(2, 200, false), (1, 7, true)] {
        let (dir, all) = sealed_segments();
        let path = first_segment(&dir.0, "log");
        let mut bytes = fs::read(&path).expect("a segment");
        bytes[batch * all.len() / BATCHES + wrong_at] ^= 2;
        fs::write(&path, bytes).expect("written");
        reopened(&dir, move |_, log| async move {
            for (time, offset) in [(2, 2), (5, 9)] {
                let found = log
                    .offset_for_timestamp(Timestamp(time), log.log_end())
                    .await;
                match found {
                    Err(StorageError::Damaged { .. }) if refused => {}
                    Ok(Some((_, found, _))) if !refused => assert_eq!(found, Offset(offset)),
                    other => panic!("batch {batch}, time {time}: {other:?}"),
                }
            }
        });
    }
}

#[test]
fn a_header_that_goes_wrong_in_a_range_that_was_sound_is_refused_and_nothing_served_by_it() {
    // A length that is shorter, a base offset beyond the log's end, one that is lower.
    for (wrong_at, wrong) in [(11, 1), (5, 1), (7, 4)] {
        let (dir, all) = sealed_segments();
        let path = first_segment(&dir.0, "log");
        reopened(&dir, move |_, log| async move {
            let (third, batch) = (2 * RECORDS as i64, all.len() / BATCHES);
            for offset in [0, third] {
                assert!(matches!(read(&log, offset).await, Ok(Read::File { .. })));
            }
            let mut bytes = fs::read(&path).expect("a segment");
            bytes[2 * batch + wrong_at] ^= wrong;
            fs::write(&path, bytes).expect("written");
            let again = read(&log, third).await;
            assert!(is_damage(&again), "byte {wrong_at}: {again:?}");
        });
    }
}

#[test]
fn an_index_file_that_leads_astray_costs_a_walk_and_nothing_else() {
    for wrong_at in [3, 7] {
        let (dir, all) = sealed_segments();
        let path = first_segment(&dir.0, "index");
        let mut bytes = fs::read(&path).expect("an index");
        assert!(bytes.len() > 8, "an entry before the last");
        bytes[wrong_at] ^= 1;
        fs::write(&path, bytes).expect("written");
        reopened(&dir, move |reactor, log| async move {
            for from in 0..(BATCHES * RECORDS) as i64 {
                let read = read_step(&reactor, &log, Offset(from), STEP).await;
                let batch = all.len() / BATCHES;
                let start = from as usize / RECORDS * batch;
                assert!(all[start..].starts_with(&read), "from {from}");
            }
        });
    }
}

#[test]
fn an_index_file_is_not_believed_of_what_is_in_memory() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    let batches = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let config = LogConfig {
            index_interval_bytes: 200,
            ..config(SEGMENT_BYTES)
        };
        let created = storage.create(id(0), "topic", config, 0).await;
        let log = created.expect("created");
        let each = (0..40).map(|at| append(&log, 1, at, &[at as u8; 100], true));
        let batches: Vec<_> = each.collect();
        storage.close().await;
        batches
    });
    let path = first_segment(&dir.0, "index");
    let mut index = fs::read(&path).expect("an index");
    let (entries, _) = index.as_chunks_mut::<8>();
    let is_in_memory = |entry: &&mut [u8; 8]| entry[4..] >= 4_096_u32.to_be_bytes()[..];
    let mut wrong = entries.iter_mut().filter(is_in_memory);
    let (first, others) = (wrong.next(), wrong.count());
    first.expect("an entry")[7] ^= 1;
    assert!(others > 0, "the last entry is right");
    fs::write(&path, index).expect("written");
    reopened(&dir, move |reactor, log| async move {
        for (from, batch) in (0..).zip(batches) {
            let read = read_step(&reactor, &log, Offset(from), STEP).await;
            assert!(read.starts_with(&batch), "from {from}");
        }
    });
}

#[test]
fn a_time_index_that_leads_astray_costs_a_walk_and_nothing_else() {
    for (wrong_at, wrong) in [(7, 2), (11, 1)] {
        let (dir, _) = sealed_segments();
        let path = first_segment(&dir.0, "timeindex");
        let mut bytes = fs::read(&path).expect("an index");
        assert!(bytes.len() > 24, "an entry before the last");
        // The first entry's time is less than it was, or its offset more.
        bytes[wrong_at] ^= wrong;
        fs::write(&path, bytes).expect("written");
        reopened(&dir, move |_, log| async move {
            for time in 0..BATCHES as i64 {
                let found = log.offset_for_timestamp(Timestamp(time), log.log_end());
                let (at, offset, _) = found.await.expect("found").expect("a record");
                // Each batch's records begin at its number and are one apart.
                let first = (time - (RECORDS as i64 - 1)).max(0);
                let within = time - first;
                let wanted = Offset(first * RECORDS as i64 + within);
                assert_eq!((at.0, offset), (time, wanted), "byte {wrong_at}");
            }
        });
    }
}

#[test]
fn a_log_that_is_being_deleted_is_not_read() {
    let (dir, _) = sealed_segments();
    reopened(&dir, |_, log| async move {
        let before = read(&log, 0).await;
        assert!(matches!(before, Ok(Read::File { .. })));
        log.delete().await.expect("deleted");
        let closed = |read| matches!(read, Err(ReadError::Storage(StorageError::Closed)));
        assert!(closed(log.read(Offset(0), log.log_end(), STEP, true)));
        assert!(closed(read(&log, 0).await));
    });
}

#[test]
fn a_deleted_log_lets_go_of_its_files() {
    let (dir, _) = sealed_segments();
    reopened(&dir, move |_, log| async move {
        append(&log, RECORDS, 0, &[1; 400], true);
        drop(read(&log, 0).await);
        log.delete().await.expect("deleted");
        assert!(log.state.pages.borrow().is_empty());
        let held = |at: &crate::storage::append::Unsealed| at.file.is_some();
        assert!(!log.state.unsealed.borrow().iter().any(held));
        let order = log.shared.tail_order.borrow();
        let ours = |other: &&std::rc::Rc<_>| std::rc::Rc::ptr_eq(other, &log.state);
        assert_eq!(order.iter().filter(ours).count(), 0);
    });
}
