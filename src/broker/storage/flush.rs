//! The flusher: makes durable what was written without a flush, in time, beside the commits that
//! follow, which do not wait for it. Knows not what was written.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use logic::ids::Offset;
use logic::partition::leader::FLUSH_WITHIN_MS;

use super::StorageError;
use super::append::LogState;
use super::signal::Signal;
use super::state::Shared;

/// How long written bytes may wait until a flush begins.
const WAIT_MAX: Duration = Duration::from_millis(FLUSH_WITHIN_MS as u64);

/// What was written and not flushed.
#[derive(Default)]
pub(super) struct Flusher {
    /// Bytes of all commits that are written, and that are durable: `durable <= written`.
    pub bytes_written: Cell<u64>,
    pub bytes_durable: Cell<u64>,
    /// What no flush has covered: in which commit, whose, and up to where. Oldest first.
    pub unflushed: RefCell<VecDeque<(u64, Rc<LogState>, Offset)>>,
    /// A flush has been asked for.
    pub wanted: Cell<bool>,
    /// It will be when time is up.
    pub armed: Cell<bool>,
    /// A flush has been asked for, or the storage failed or stopped.
    pub changed: Signal,
    /// Flushes that have begun, and the numbers of those that have not ended, from 1.
    begun: Cell<u64>,
    under_way: RefCell<Vec<u64>>,
    /// A flush has ended.
    ended: Signal,
}

/// How far the write-ahead log was written at some moment: a flush that begins then, or a later one,
/// makes all of it durable.
#[derive(Clone, Copy)]
pub(super) struct Reach {
    sequence: u64,
    frames: u64,
    bytes: u64,
}

impl Reach {
    /// All that is written now.
    pub fn of(shared: &Shared) -> Self {
        Self {
            sequence: shared.written_sequence.get(),
            frames: shared.frames_written.get(),
            bytes: shared.flusher.bytes_written.get(),
        }
    }
}

/// Flushes when asked, until the storage fails or stops.
pub(super) async fn run(shared: Rc<Shared>) {
    loop {
        let ends = || shared.stopped.get() || shared.has_failed();
        shared
            .flusher
            .changed
            .until(|| shared.flusher.wanted.get() || ends())
            .await;
        if ends() {
            return;
        }
        // Before it begins: what is written from now on asks for the next one.
        shared.flusher.wanted.set(false);
        // Who fails has said so to all.
        drop(flush(&shared).await);
    }
}

async fn flush(shared: &Shared) -> Result<(), StorageError> {
    let reach = Reach::of(shared);
    if reach.sequence <= shared.durable_sequence.get() {
        return Ok(());
    }
    // Every extent before the current one was flushed before that was used.
    let file = shared.extents.current_file();
    confirmed(shared, "flush", file.fdatasync()).await?;
    covers(shared, reach);
    Ok(())
}

/// A flush of the write-ahead log. That it ended well counts once all that were under way with it have ended
/// well too: one that fails may have lost what this one then found no longer to be done.
pub(super) async fn confirmed(
    shared: &Shared,
    doing: &'static str,
    flush: impl Future<Output = io::Result<()>>,
) -> Result<(), StorageError> {
    let flusher = &shared.flusher;
    let number = flusher.begun.get() + 1;
    flusher.begun.set(number);
    flusher.under_way.borrow_mut().push(number);
    let flushed = flush.await;
    flusher.under_way.borrow_mut().retain(|it| *it != number);
    let failed = flushed.map_err(|source| StorageError::io(doing, &shared.wal_dir, source));
    if let Err(error) = &failed {
        shared.fail(error);
    }
    let with_it = flusher.begun.get();
    flusher.ended.notify();
    let under_way = || flusher.under_way.borrow().iter().any(|it| *it <= with_it);
    let settled = || shared.has_failed() || !under_way();
    flusher.ended.until(settled).await;
    failed?;
    shared.check_failed()
}

/// A flush has completed that began when the log was written so far.
pub(super) fn covers(shared: &Shared, reach: Reach) {
    let raise = |to: &Cell<u64>, reached: u64| to.set(to.get().max(reached));
    raise(&shared.durable_sequence, reach.sequence);
    raise(&shared.frames_durable, reach.frames);
    raise(&shared.flusher.bytes_durable, reach.bytes);
    let mut unflushed = shared.flusher.unflushed.borrow_mut();
    while unflushed
        .front()
        .is_some_and(|(sequence, ..)| *sequence <= reach.sequence)
    {
        let Some((_, log, end)) = unflushed.pop_front() else {
            break;
        };
        log.durable.set(log.durable.get().max(end));
        shared.mark_moved(&log);
    }
    drop(unflushed);
    shared.committed.notify();
}

/// Whether a commit of so many bytes has to be flushed with its write, since too much would be
/// without a flush.
pub(super) fn is_due(shared: &Shared, bytes: usize) -> bool {
    unflushed_bytes(shared) + bytes as u64 > shared.settings.unflushed_bytes_max as u64
}

/// Asks for a flush.
pub(super) fn ask(shared: &Shared) {
    if unflushed_bytes(shared) > 0 && !shared.flusher.wanted.replace(true) {
        shared.flusher.changed.notify();
    }
}

/// After a commit: sees to it that what it wrote is flushed in time. With half of the bound a flush
/// begins; what is written while it runs has the other half.
pub(super) fn consider(shared: &Rc<Shared>) {
    if unflushed_bytes(shared) * 2 >= shared.settings.unflushed_bytes_max as u64 {
        ask(shared);
    }
    if unflushed_bytes(shared) == 0 || shared.flusher.armed.replace(true) {
        return;
    }
    let shared = shared.clone();
    reactor::spawn(async move {
        reactor::timer::sleep(WAIT_MAX).await;
        shared.flusher.armed.set(false);
        ask(&shared);
    });
}

/// Bytes that were written and that no flush has covered.
fn unflushed_bytes(shared: &Shared) -> u64 {
    shared.flusher.bytes_written.get() - shared.flusher.bytes_durable.get()
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::{TempDir, opened, run};
    use super::*;

    /// All that can go on has.
    async fn settled() {
        for _ in 0..10 {
            reactor::yield_now().await;
        }
    }

    /// Begins two flushes; the second ends well first, then the first as it is told. What became of the second.
    fn beside_one_that(ends: io::Result<()>) -> Result<(), String> {
        let dir = TempDir::new();
        let path = dir.0.clone();
        run(move |reactor| async move {
            let storage = opened(&reactor, &path).await;
            let shared = storage.shared.clone();
            let goes_on = Rc::new(Signal::default());
            let (beside, until) = (shared.clone(), goes_on.clone());
            reactor::spawn(async move {
                let flush = async {
                    until.until_notified().await;
                    ends
                };
                drop(confirmed(&beside, "flush", flush).await);
            });
            settled().await;
            let answered = Rc::new(RefCell::new(None));
            let (beside, answer) = (shared.clone(), answered.clone());
            reactor::spawn(async move {
                let flushed = confirmed(&beside, "flush", async { Ok(()) }).await;
                *answer.borrow_mut() = Some(flushed.map_err(|error| error.to_string()));
            });
            settled().await;
            assert!(answered.borrow().is_none(), "the first may yet fail");
            goes_on.notify();
            settled().await;
            answered.take().expect("an answer")
        })
    }

    #[test]
    fn a_flush_that_ends_well_beside_one_that_fails_proves_nothing() {
        assert_eq!(beside_one_that(Ok(())), Ok(()));
        let failed = beside_one_that(Err(io::Error::other("the disk is gone")));
        let error = failed.expect_err("what the first lost, the second did not write");
        assert!(error.contains("the disk is gone"), "{error}");
    }
}
