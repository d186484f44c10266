//! A log that moves to another directory and back is what it was, in one place at a time, and so it is found.

use logic::ids::{LeaderEpoch, Offset};
use reactor::Reactor;

use super::harness::*;
use crate::storage::{AppendBatch, Log, Storage};

const SEGMENT_BYTES: u32 = 20_000;

/// Appends batches with gaps between their offsets, as compaction leaves them, each few by another epoch.
async fn append_sparsely(storage: &Storage, log: &Log, batches: i64) {
    for number in 0..batches {
        let epoch = LeaderEpoch(i32::try_from(log.log_end().0 / 50).expect("small"));
        log.start_epoch(epoch);
        let append = AppendBatch {
            bytes: &batch(3, 1_000, &[b'v'; 900]),
            base_offset: Offset(log.log_end().0 + number % 4),
            leader_epoch: epoch,
            append_time: None,
            flush: true,
        };
        log.append(1_000, &append).expect("appended");
    }
    durable(storage, std::slice::from_ref(log)).await;
}

async fn moved(to: &Storage, log: &Log) -> Log {
    let mut copy = to.begin_copy(log).await.expect("begun");
    copy.catch_up(|_| true).await.expect("copied");
    assert_eq!((copy.left_bytes(), copy.copied().end), (0, log.log_end()));
    copy.take_place().await.expect("in its place")
}

fn ends(log: &Log) -> Vec<(LeaderEpoch, Offset)> {
    let epochs = 0..20;
    epochs
        .map(|it| log.epoch_end_offset(LeaderEpoch(it)))
        .collect()
}

async fn same(
    reactor: &Reactor,
    log: &Log,
    before: &(Offset, Vec<u8>, Vec<(LeaderEpoch, Offset)>),
) {
    assert_eq!(log.log_start(), before.0);
    assert!(read_all(reactor, log).await == before.1, "other bytes");
    assert_eq!(ends(log), before.2, "the leader epochs");
}

#[test]
fn a_log_that_moves_to_and_fro_is_what_it_was_and_is_found_where_it_is() {
    let (one, other) = (TempDir::new(), TempDir::new());
    let paths = (one.0.clone(), other.0.clone());
    let before = run(move |reactor| async move {
        let one = opened(&reactor, &paths.0).await;
        let other = opened(&reactor, &paths.1).await;
        let created = one.create(id(0), "t", config(SEGMENT_BYTES), 0).await;
        let log = created.expect("created");
        append_sparsely(&one, &log, 40).await;
        log.set_log_start(Offset(34)).await.expect("moved");
        let mut before = (log.log_start(), read_all(&reactor, &log).await, ends(&log));
        let log = moved(&other, &log).await;
        same(&reactor, &log, &before).await;
        append_sparsely(&other, &log, 20).await;
        before.1 = read_all(&reactor, &log).await;
        before.2 = ends(&log);
        // In the first directory's write-ahead log are the frames of its earlier stay.
        let log = moved(&one, &log).await;
        same(&reactor, &log, &before).await;
        before
    });
    assert!(
        recovered(&other.0).logs.is_empty(),
        "it has left nothing behind"
    );
    let recovery = recovered(&one.0);
    assert!(recovery.damaged.is_empty(), "{:?}", recovery.damaged);
    let path = one.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let logs = attach_all(&storage, recovery.logs, config(SEGMENT_BYTES)).await;
        same(&reactor, &logs[0], &before).await;
        append_sparsely(&storage, &logs[0], 5).await;
    });
}

#[test]
fn a_copy_that_is_given_up_leaves_the_log_as_it_was() {
    let (one, other) = (TempDir::new(), TempDir::new());
    let paths = (one.0.clone(), other.0.clone());
    let before = run(move |reactor| async move {
        let one = opened(&reactor, &paths.0).await;
        let other = opened(&reactor, &paths.1).await;
        let created = one.create(id(0), "t", config(SEGMENT_BYTES), 0).await;
        let log = created.expect("created");
        append_sparsely(&one, &log, 20).await;
        let mut copy = other.begin_copy(&log).await.expect("begun");
        copy.catch_up(|_| false).await.expect("told to stop");
        assert!(copy.left_bytes() > 0, "after the first piece");
        copy.discard().await;
        // Another one is not in its way, nor is what is appended during it.
        let mut copy = other.begin_copy(&log).await.expect("begun");
        copy.catch_up(|_| false).await.expect("told to stop");
        append_sparsely(&one, &log, 20).await;
        let bytes = read_all(&reactor, &log).await;
        let moved = copy.take_place().await.expect("in its place");
        assert!(
            read_all(&reactor, &moved).await == bytes,
            "all of it came along"
        );
        bytes
    });
    assert!(recovered(&one.0).logs.is_empty(), "it has left");
    check_recovers(&other.0, vec![before]);
}
