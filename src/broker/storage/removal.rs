//! Files on their way out: renamed to `.deleted` at once, removed `file.delete.delay.ms` later, so
//! that whoever has just looked one up can still read it. What a crash leaves is removed at the next
//! start. Knows not why a file goes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use logic::ids::Offset;
use reactor::file;

use super::StorageError;
use super::append::{LogState, segment_path};
use super::place::DELETED;
use super::state::Shared;

/// The endings of a segment's files.
pub(super) const ENDINGS: [&str; 4] = ["index", "timeindex", "txnindex", "log"];
/// How long the remover sleeps at most before it looks again: the disk may have run full meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Files that wait for their removal.
#[derive(Default)]
pub(super) struct Removals {
    /// By when they go, in nanoseconds of the monotonic clock, and by their number.
    waiting: RefCell<BTreeMap<(u64, u64), Vec<PathBuf>>>,
    next: Cell<u64>,
    running: Cell<bool>,
}

/// Renames a segment's files and has them removed later. The caller has claimed the log's files.
pub(super) async fn segment(
    shared: &Rc<Shared>,
    log: &LogState,
    base: Offset,
) -> Result<(), StorageError> {
    let mut renamed = Vec::with_capacity(ENDINGS.len());
    for ending in ENDINGS {
        let path = segment_path(&log.directory, base, ending);
        let mut gone = path.clone().into_os_string();
        gone.push(DELETED);
        let gone = PathBuf::from(gone);
        match file::rename(&shared.reactor, &path, &gone).await {
            Ok(()) => renamed.push(gone),
            // Not every segment has every file, and one that was never written has none.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(StorageError::io("rename", &path, source)),
        }
    }
    let delay_ms = log.log.borrow().config().file_delete_delay_ms;
    later(shared, delay_ms, renamed);
    Ok(())
}

fn later(shared: &Rc<Shared>, delay_ms: u64, files: Vec<PathBuf>) {
    let removals = &shared.removals;
    let due = reactor::timer::monotonic_nanos().saturating_add(delay_ms.saturating_mul(1_000_000));
    let number = removals.next.get();
    removals.next.set(number + 1);
    removals.waiting.borrow_mut().insert((due, number), files);
    if !removals.running.replace(true) {
        shared.reactor.spawn_background(run(shared.clone()));
    }
}

/// Removes what is due until nothing waits. While the disk is short of space everything is due.
async fn run(shared: Rc<Shared>) {
    let removals = &shared.removals;
    loop {
        let first = removals
            .waiting
            .borrow()
            .first_key_value()
            .map(|(at, _)| *at);
        let Some((due, number)) = first.filter(|_| !shared.closing.get()) else {
            break;
        };
        let left = due.saturating_sub(reactor::timer::monotonic_nanos());
        if left > 0 && !shared.reserve.is_low() {
            reactor::timer::sleep(Duration::from_nanos(left).min(SLEEP_MAX)).await;
            continue;
        }
        let files = removals.waiting.borrow_mut().remove(&(due, number));
        for path in files.unwrap_or_default() {
            if let Err(error) = file::remove(&shared.reactor, &path).await {
                eprintln!(
                    "warning: {} is not removed before the next start: {error}",
                    path.display()
                );
            }
        }
    }
    removals.running.set(false);
}
