//! Moves a log's start up, durably, before any file goes: for DeleteRecords and for retention. What
//! may go is decided by `logic::log::retention`; how files go is in `removal.rs`.

use std::rc::Rc;

use logic::ids::Offset;
use logic::log::retention::{self, Verdict};
use logic::log::segment::Segment;

use super::append::{Backing, Log, LogState};
use super::place::{self, METADATA};
use super::state::Shared;
use super::{StorageError, behind, removal};

/// What retention took from a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retained {
    /// Where the log starts now.
    pub log_start: Offset,
    /// Segments that went.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl Log {
    /// Moves the log's start up, durably, and removes the segments wholly below it. A lower start
    /// changes nothing.
    pub async fn set_log_start(&self, offset: Offset) -> Result<(), StorageError> {
        self.move_log_start(offset).await.map(drop)
    }

    /// Lets go of what `retention.ms` and `retention.bytes` no longer keep; `None` when that is
    /// nothing. `wall_ms` is the wall clock, if it may be believed. Returns when the new start is
    /// durable and the files are on their way out.
    pub async fn retain(
        &self,
        wall_ms: Option<i64>,
        high_watermark: Offset,
    ) -> Result<Option<Retained>, StorageError> {
        let mut looked = None;
        let mut retained: Option<Retained> = None;
        // After a start little is known of old segments: then they go as they are looked up.
        loop {
            match self.verdict(wall_ms, high_watermark) {
                Verdict::Keep => return Ok(retained),
                // Looked up and still not known: its file cannot be read to the end just now.
                Verdict::Look(base) if looked == Some(base) => return Ok(retained),
                Verdict::Look(base) => {
                    looked = Some(base);
                    self.load_index(base).await?;
                }
                Verdict::DeleteBelow(below) => {
                    if below == self.log_end() {
                        self.seal_active().await?;
                    }
                    let gone = self.move_log_start(below).await?;
                    if gone.is_empty() {
                        return Ok(retained);
                    }
                    let bytes: u64 = gone.iter().map(|segment| u64::from(segment.size)).sum();
                    let before = retained.map_or((0, 0), |before| (before.segments, before.bytes));
                    retained = Some(Retained {
                        log_start: below,
                        segments: before.0 + gone.len(),
                        bytes: before.1 + bytes,
                    });
                }
            }
        }
    }

    /// Bytes that retention would take now: the more, the earlier it is worth doing.
    pub fn reclaimable_bytes(&self, wall_ms: Option<i64>, high_watermark: Offset) -> u64 {
        let below = match self.verdict(wall_ms, high_watermark) {
            Verdict::DeleteBelow(below) => below,
            Verdict::Keep | Verdict::Look(_) => return 0,
        };
        let log = self.state.log.borrow();
        let gone = log.segments().take_while(|segment| segment.base < below);
        gone.map(|segment| u64::from(segment.size)).sum()
    }

    fn verdict(&self, wall_ms: Option<i64>, high_watermark: Offset) -> Verdict {
        let log = self.state.log.borrow();
        retention::decide(&log, &log.config().retention, wall_ms, high_watermark)
    }

    /// Seals the active segment, so that it can go like the others.
    async fn seal_active(&self) -> Result<(), StorageError> {
        let (state, shared) = (&self.state, &self.shared);
        shared.check()?;
        let now_ms = reactor::timer::wall_clock_ms();
        let sealed = state.log.borrow_mut().seal_active(now_ms).is_some();
        if !sealed {
            return Ok(());
        }
        let active = state.log.borrow().active().base;
        state.rolled(active, true);
        // Where the log ends, its epochs and its producers are only in the files that are about to go.
        if matches!(*state.backing.borrow(), Backing::Files) {
            let ticket = state.enqueue_checkpoint(shared, true);
            state.gate.set(ticket);
            shared.durable(ticket).await?;
        }
        Ok(())
    }

    async fn move_log_start(&self, offset: Offset) -> Result<Vec<Segment>, StorageError> {
        let (state, shared) = (&self.state, &self.shared);
        shared.check()?;
        if offset > self.log_start() {
            self.write_log_start(offset).await?;
        }
        let gone = state.log.borrow_mut().set_log_start(offset);
        state
            .generation
            .set(state.generation.get() + u64::from(!gone.is_empty()));
        for segment in &gone {
            state.pages.borrow_mut().remove(&segment.base);
        }
        for segment in &gone {
            remove_segment(shared, state, segment.base).await?;
        }
        Ok(gone)
    }

    /// Makes a higher start durable.
    async fn write_log_start(&self, offset: Offset) -> Result<(), StorageError> {
        let (state, shared) = (&self.state, &self.shared);
        // A start above the durable end would, after a power cut, hide what is appended next.
        let durable = || state.durable.get() >= offset || state.deleted.get();
        let committed = &shared.committed;
        committed.until(|| durable() || shared.has_failed()).await;
        if !behind::lock(shared, state).await {
            return shared.check().and(Err(StorageError::Closed));
        }
        let metadata = {
            let mut metadata = state.metadata.borrow_mut();
            metadata.log_start = metadata.log_start.max(offset);
            metadata.clone()
        };
        let path = state.directory.join(METADATA);
        let written = place::write_small(&shared.reactor, &path, &metadata.encode()).await;
        behind::unlock(shared, state);
        written.map_err(|source| StorageError::io("write", &path, source))
    }
}

/// Removes a segment that the log no longer has.
async fn remove_segment(
    shared: &Rc<Shared>,
    log: &LogState,
    base: Offset,
) -> Result<(), StorageError> {
    if !behind::lock(shared, log).await {
        return shared.check();
    }
    log.unsealed
        .borrow_mut()
        .retain(|at| at.base != base || !at.sealed);
    let freed = {
        let mut tail = log.tail.borrow_mut();
        let before = tail.capacity();
        tail.drop_below(Offset(base.0 + 1));
        before - tail.capacity()
    };
    shared.tail_dropped(freed);
    let removed = removal::segment(shared, log, base).await;
    behind::unlock(shared, log);
    removed
}
