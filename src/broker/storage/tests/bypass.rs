//! Large appends that go straight to their segments while commits queue up: written once, and there after
//! a crash like all others.

use logic::ids::Offset;

use super::harness::*;
use crate::storage::{Log, Storage};

static VALUE: [u8; 30_000] = [5; 30_000];

/// Two logs that a commit has carried already, and what they hold.
async fn begun(storage: &Storage) -> (Vec<Log>, Vec<Vec<u8>>) {
    let (mut logs, mut all) = (Vec::new(), Vec::new());
    for index in 0..2 {
        let log = storage.create(id(index), "topic", config(2 << 20), 0);
        let log = log.await.expect("created");
        all.push(append(&log, 1, 0, b"first", true));
        logs.push(log);
    }
    durable(storage, &logs).await;
    (logs, all)
}

/// Much for the first log, which rolls its segment now and then, and little for the second.
fn burst(logs: &[Log], all: &mut [Vec<u8>]) {
    for at in 0..20 {
        all[0].extend(append(&logs[0], 1, at, &VALUE, true));
        all[1].extend(append(&logs[1], 1, at, b"little", at % 2 == 0));
    }
}

#[test]
fn a_queue_of_one_partition_is_written_once_and_a_crash_finds_all_of_it() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    let (crashed, all) = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let (logs, mut all) = begun(&storage).await;
        let mut smallest = u64::MAX;
        for _ in 0..5 {
            let before = storage.shared.extents.live_bytes();
            burst(&logs, &mut all);
            durable(&storage, &logs).await;
            smallest = smallest.min(storage.shared.extents.live_bytes().abs_diff(before));
        }
        // 20 x 30,000 bytes were appended; where the segment has rolled, the usual way was taken.
        assert!(smallest < 50_000, "{smallest} bytes went through the log");
        all[0].extend(append(&logs[0], 1, 0, b"not flushed", false));
        all[0].extend(append(&logs[0], 1, 0, b"flushed", true));
        durable(&storage, &logs).await;
        assert!(read_all(&reactor, &logs[0]).await == all[0]);
        let crashed = TempDir::new();
        copy_dir(&path, &crashed.0);
        (crashed, all)
    });
    check_recovers(&crashed.0, all);
    drop(dir);
}

#[test]
fn a_log_that_is_deleted_meanwhile_stops_nobody() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let (logs, mut all) = begun(&storage).await;
        burst(&logs, &mut all);
        // The committer takes what is queued.
        reactor::yield_now().await;
        logs[0].delete().await.expect("deleted");
        durable(&storage, &logs[1..]).await;
        assert!(read_all(&reactor, &logs[1]).await == all[1]);
        assert_eq!(logs[1].log_end(), Offset(21));
    });
}
