//! The way past the write-ahead log: when commits queue up, a partition that has much of the queue has its
//! whole blocks written straight to the segment and flushed there, and the commit carries a
//! checkpoint instead of them: where the segment ends, and its last partial block. So large appends
//! are written once, not twice. Recovery knows checkpoints and nothing of this. Knows not what else a commit holds.

use std::collections::VecDeque;
use std::rc::Rc;

use super::StorageError;
use super::append::{Backing, LogState};
use super::behind;
use super::commit::Queued;
use super::each::{self, Share};
use super::state::{Shared, block_floor};

/// The queue waits for this many commits at least. A shorter one is served sooner the usual way: one
/// flush of blocks that are written already, not two of which one waits for the file system's journal.
const COMMITS_WAITING_MIN: usize = 2;
/// Partitions whose segments are written at the same time.
const AT_ONCE: usize = 16;

/// One partition's way past the log.
pub(super) struct Bypass {
    log: Rc<LogState>,
    /// All of its frames that were queued.
    pub covered: Vec<Queued>,
    /// What stands for them in the commit, once the segment is flushed.
    checkpoint: Queued,
}

/// Takes out of the next commit's `frames`, and out of the `queue` behind them, all frames of each
/// partition that goes past the log.
pub(super) fn choose(
    shared: &Shared,
    frames: &mut Vec<Queued>,
    queue: &mut VecDeque<Queued>,
) -> Vec<Bypass> {
    if shared.queued_bytes.get() < COMMITS_WAITING_MIN * shared.settings.commit_bytes_max {
        return Vec::new();
    }
    let mut chosen: Vec<Bypass> = Vec::new();
    let mut looked_at: Vec<&Rc<LogState>> = Vec::new();
    for frame in frames.iter().filter(|frame| frame.flush) {
        let Some(log) = &frame.log else { continue };
        if looked_at.iter().any(|known| Rc::ptr_eq(known, log)) {
            continue;
        }
        looked_at.push(log);
        if !may_bypass(shared, log) {
            continue;
        }
        let from = block_floor(log.log.borrow().active().size);
        let checkpoint = log.checkpoint_frame(log.checkpoint(from), true);
        // One that is large for many producers' sake is no gain.
        if checkpoint.head.len as usize * 4 <= log.queued_bytes.get() {
            chosen.push(Bypass {
                log: log.clone(),
                covered: Vec::new(),
                checkpoint,
            });
        }
    }
    if !chosen.is_empty() {
        let mut sort = |frame: Queued| cover(&mut chosen, frame);
        *frames = std::mem::take(frames)
            .into_iter()
            .filter_map(&mut sort)
            .collect();
        *queue = std::mem::take(queue).into_iter().filter_map(sort).collect();
    }
    chosen
}

/// Whether the write-ahead log has the partition up to what is queued, and the queue the rest.
fn may_bypass(shared: &Shared, log: &LogState) -> bool {
    let unsealed = log.unsealed.borrow();
    log.queued_bytes.get() >= shared.settings.bypass_bytes_min
        && !log.deleted.get()
        && unsealed.len() == 1
        && matches!(*log.backing.borrow(), Backing::Wal(_))
        // Writing the segment waits for it, and it would wait for this commit.
        && log.gate.get() <= shared.frames_durable.get()
}

/// Gives the frame to its partition's bypass; returns it if there is none.
fn cover(chosen: &mut [Bypass], frame: Queued) -> Option<Queued> {
    let log = frame.log.as_ref();
    let bypass = log.and_then(|log| chosen.iter_mut().find(|it| Rc::ptr_eq(&it.log, log)));
    match bypass {
        Some(bypass) => {
            bypass.covered.push(frame);
            None
        }
        None => Some(frame),
    }
}

/// Writes and flushes the segments. Returns those whose checkpoints are true now; the frames of the
/// others, whose logs are being deleted, go the usual way after all, behind `frames`.
pub(super) async fn write(
    shared: &Rc<Shared>,
    chosen: Vec<Bypass>,
    frames: &mut Vec<Queued>,
) -> Result<Vec<Bypass>, StorageError> {
    let logs = chosen.iter().map(|it| it.log.clone()).collect();
    let flush = |shared: Rc<Shared>, log: Rc<LogState>| async move {
        match behind::flush(&shared, &log).await {
            // Deleted meanwhile.
            Err(StorageError::Closed) => Ok(()),
            flushed => flushed,
        }
    };
    each::of(shared, Share::Full, AT_ONCE, logs, flush).await?;
    let (past, back): (Vec<_>, Vec<_>) = chosen.into_iter().partition(Bypass::is_true);
    frames.extend(back.into_iter().flat_map(|it| it.covered));
    Ok(past)
}

impl Bypass {
    /// Whether the segment has, durably, what the checkpoint says it has.
    fn is_true(&self) -> bool {
        let unsealed = self.log.unsealed.borrow();
        let head = &self.checkpoint.head;
        let behind = unsealed.iter().find(|at| at.base == head.segment);
        // A segment that is no longer in the list was sealed, and flushed before that.
        behind.is_none_or(|at| at.flushed >= block_floor(head.position))
    }

    /// The commit with this number carries the checkpoint: gives it, and what it stands for.
    pub fn carried(self, sequence: u64) -> (Vec<Queued>, Queued) {
        let mut backing = self.log.backing.borrow_mut();
        if matches!(*backing, Backing::Wal(_)) {
            *backing = Backing::Wal(sequence);
        }
        drop(backing);
        (self.covered, self.checkpoint)
    }
}
