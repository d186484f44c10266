//! Keeps the write-ahead log short: flushes segments, carries each partition's state forward, and
//! gives up the extents below. Also the clean stop, which makes the whole log superfluous. Knows not
//! how commits or segments are written.

use std::rc::Rc;
use std::time::Duration;

use super::append::{Backing, LogState};
use super::commit::Queued;
use super::each::{self, Share};
use super::state::Shared;
use super::{StorageError, behind, place};

/// Partitions flushed at the same time.
const WORKERS: usize = 8;
/// How often, and how long each time, a clean stop waits for older logs to be removed.
const OLDER_TRIES: usize = 50;
const OLDER_WAIT: Duration = Duration::from_millis(10);
/// A clean stop gives up after this; the write-ahead log has the rest.
const CLOSE_WAIT: Duration = Duration::from_secs(3);

/// After a commit: prepares room ahead, and trims when half of the bound is used.
pub(super) fn consider(shared: &Rc<Shared>) {
    if shared.extents.needs_spare() {
        let shared = shared.clone();
        let reactor = shared.reactor.clone();
        reactor.spawn_background(async move {
            if let Err(source) = shared.extents.prepare_spare().await {
                // Not fatal: without a spare the committer allocates when it must, and fails then.
                eprintln!(
                    "warning: could not prepare room in {}: {source}",
                    shared.wal_dir.display()
                );
            }
        });
    }
    let due = shared.extents.live_bytes() * 2 >= shared.settings.wal_bytes_max;
    if due && shared.extents.has_full() && !shared.trimming.replace(true) {
        let shared = shared.clone();
        let reactor = shared.reactor.clone();
        reactor.spawn_background(async move {
            let result = trim(&shared).await;
            shared.trimming.set(false);
            shared.committed.notify();
            if let Err(error @ StorageError::Io { .. }) = result {
                shared.fail(&error);
            }
        });
    }
}

/// Gives up every extent but the current one.
async fn trim(shared: &Rc<Shared>) -> Result<(), StorageError> {
    let needed = shared.extents.current_first();
    let old = |log: &LogState| match *log.backing.borrow() {
        Backing::Files => false,
        Backing::Recovered(_) => true,
        Backing::Wal(checkpoint) => checkpoint < needed,
    };
    let logs: Vec<_> = shared
        .logs
        .borrow()
        .values()
        .filter(|log| old(log))
        .cloned()
        .collect();
    let carry =
        |shared: Rc<Shared>, log: Rc<LogState>| async move { checkpoint(&shared, &log).await };
    each::of(shared, Share::Background, WORKERS, logs, carry).await?;
    shared.needed_sequence.set(needed);
    let ticket = shared.enqueue(Queued::note());
    shared.durable(ticket).await?;
    let path = shared.wal_dir.clone();
    let io = |source| StorageError::io("recycle", &path, source);
    shared.extents.recycle(needed).await.map_err(io)
}

/// Flushes a log's segments, then carries its state into this write-ahead log, durably.
pub(super) async fn checkpoint(
    shared: &Rc<Shared>,
    log: &Rc<LogState>,
) -> Result<(), StorageError> {
    loop {
        behind::flush(shared, log).await?;
        if log.deleted.get() {
            return gone(shared, log).await;
        }
        if log.can_checkpoint() {
            break;
        }
    }
    let sequence = shared.next_sequence.get();
    let ticket = log.enqueue_checkpoint(shared, true);
    shared.durable(ticket).await?;
    if matches!(*log.backing.borrow(), Backing::Recovered(_)) {
        log.settled();
        log.backing.replace(Backing::Wal(sequence));
    }
    behind::save_index(shared, log).await
}

/// Waits until a log's deletion is durable: before that a crash brings it back, and recovery needs what was
/// about to be given up.
async fn gone(shared: &Rc<Shared>, log: &Rc<LogState>) -> Result<(), StorageError> {
    let is_there = || {
        let logs = shared.logs.borrow();
        logs.get(&log.id()).is_some_and(|it| Rc::ptr_eq(it, log))
    };
    shared
        .committed
        .until(|| !is_there() || shared.has_failed())
        .await;
    if is_there() { shared.check() } else { Ok(()) }
}

/// Has a recovered log settle in this write-ahead log, so that the older ones can go.
pub(super) fn settle_soon(shared: &Rc<Shared>, log: &Rc<LogState>) {
    shared.settling.borrow_mut().push_back(log.clone());
    if shared.settlers.get() >= WORKERS {
        return;
    }
    shared.settlers.set(shared.settlers.get() + 1);
    let shared = shared.clone();
    let reactor = shared.reactor.clone();
    reactor.spawn_background(async move {
        loop {
            let next = shared.settling.borrow_mut().pop_front();
            let Some(log) = next.filter(|_| !shared.has_failed()) else {
                break;
            };
            if let Err(error @ StorageError::Io { .. }) = checkpoint(&shared, &log).await {
                shared.fail(&error);
            }
        }
        shared.settlers.set(shared.settlers.get() - 1);
        shared.committed.notify();
    });
}

/// The clean stop.
pub(super) async fn close(shared: &Rc<Shared>) {
    if shared.closing.replace(true) {
        return shared.committed.until(|| shared.stopped.get()).await;
    }
    let started = reactor::timer::monotonic_nanos();
    shared.work.notify();
    let idle = || shared.settlers.get() == 0 && !shared.trimming.get();
    shared
        .committed
        .until(|| idle() || shared.has_failed())
        .await;
    // What was appended is durable before anything else is attempted. A failure is known to all.
    let everything = shared.frames_queued.get();
    let mut clean = shared.durable(everything).await.is_ok();
    let logs: Vec<_> = shared.logs.borrow().values().cloned().collect();
    for log in logs {
        let elapsed = reactor::timer::monotonic_nanos() - started;
        if !clean || elapsed > CLOSE_WAIT.as_nanos() as u64 {
            clean = false;
            break;
        }
        if matches!(*log.backing.borrow(), Backing::Files) {
            continue;
        }
        if let Err(error) = behind::finish(shared, &log).await {
            eprintln!("warning: {error}; the next start recovers it");
            clean = false;
        }
    }
    shared.stopped.set(true);
    shared.work.notify();
    shared.flusher.changed.notify();
    shared.committed.notify();
    // An older log that is kept, for damage perhaps, would outrank the files: then this one stays
    // too. One that has just been given up is on its way out.
    let older = || super::recover::has_older_wal(&shared.data_dir, shared.boot);
    for _ in 0..OLDER_TRIES {
        if !clean || !older() {
            break;
        }
        reactor::timer::sleep(OLDER_WAIT).await;
    }
    if clean && !older() {
        place::remove_wal(&shared.wal_dir);
    }
}
