//! Segments written behind the write-ahead log: whole blocks from the tail's buffers, no block twice;
//! the last partial one when its segment is sealed or the broker stops. Knows not when the
//! write-ahead log is trimmed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use logic::ids::Offset;
use reactor::buffer::AlignedBuf;
use reactor::file::{self, DirectFile, Mode};

use super::StorageError;
use super::append::{Log, LogState, segment_path};
use super::frame::BLOCK;
use super::place;
use super::signal::Signal;
use super::state::{Shared, block_floor, concat};

/// A partition's unwritten blocks are written once there are this many bytes of them.
const BEHIND_BYTES: u32 = 1 << 20;
/// One write.
const WRITE_BYTES: u32 = 4 << 20;
/// Segment files are extended ahead by this much.
const ALLOCATE_BYTES: u64 = 16 << 20;
/// An active segment's indexes are written again after so many entries.
const SAVE_ENTRIES: usize = 8_192;
/// Partitions written at the same time.
const WORKERS: usize = 4;

/// Partitions that have something to write.
#[derive(Default)]
pub(super) struct Queue {
    /// A partition is no longer busy, or the storage failed.
    pub signal: Signal,
    pending: RefCell<VecDeque<Rc<LogState>>>,
    workers: Cell<usize>,
}

/// Has a log written behind, if it has enough to write.
pub(super) fn consider(shared: &Rc<Shared>, log: &Rc<LogState>) {
    let due = {
        let unsealed = log.unsealed.borrow();
        let size = log.log.borrow().active().size;
        let written = unsealed.back().map_or(0, |active| active.written);
        unsealed.len() > 1 || block_floor(size).saturating_sub(written) >= BEHIND_BYTES
    };
    if due {
        soon(shared, log);
    }
}

/// Has a log written behind.
pub(super) fn soon(shared: &Rc<Shared>, log: &Rc<LogState>) {
    if log.behind_queued.replace(true) {
        return;
    }
    let queue = &shared.behind;
    queue.pending.borrow_mut().push_back(log.clone());
    if queue.workers.get() < WORKERS {
        queue.workers.set(queue.workers.get() + 1);
        shared.reactor.spawn_background(work(shared.clone()));
    }
}

async fn work(shared: Rc<Shared>) {
    loop {
        let next = shared.behind.pending.borrow_mut().pop_front();
        let Some(log) = next.filter(|_| !shared.has_failed()) else {
            break;
        };
        log.behind_queued.set(false);
        // Who fails has said so to all.
        drop(alone(&shared, &log, write_blocks(&shared, &log, None)).await);
    }
    shared.behind.workers.set(shared.behind.workers.get() - 1);
}

/// Waits until no task works on the log's files, then claims them. `false` when the log is deleted
/// or the storage failed.
pub(super) async fn lock(shared: &Shared, log: &LogState) -> bool {
    let gone = || log.deleted.get() || shared.has_failed();
    shared
        .behind
        .signal
        .until(|| !log.busy.get() || gone())
        .await;
    if gone() {
        return false;
    }
    log.busy.set(true);
    true
}

/// Gives up the claim.
pub(super) fn unlock(shared: &Shared, log: &LogState) {
    log.busy.set(false);
    shared.behind.signal.notify();
}

/// Waits until no task works on the files of a log that is being deleted.
pub(super) async fn idle(shared: &Shared, log: &LogState) {
    shared.behind.signal.until(|| !log.busy.get()).await;
}

/// Works on a log's files alone, unless the log is deleted. A failure ends the storage before anybody else can
/// work on them: a later flush would find nothing left to do, and prove nothing.
async fn alone(
    shared: &Shared,
    log: &LogState,
    work: impl Future<Output = Result<(), StorageError>>,
) -> Result<(), StorageError> {
    if !lock(shared, log).await {
        return shared.check();
    }
    let result = work.await;
    if let Err(error @ StorageError::Io { .. }) = &result {
        shared.fail(error);
    }
    unlock(shared, log);
    result
}

/// Writes all whole blocks that there are now and seals what is to be sealed; then flushes the active
/// segment. Does not run after what is appended meanwhile.
pub(super) async fn flush(shared: &Rc<Shared>, log: &Rc<LogState>) -> Result<(), StorageError> {
    let work = async {
        let upto = {
            let log = log.log.borrow();
            (log.active().base, block_floor(log.active().size))
        };
        write_blocks(shared, log, Some(upto)).await?;
        flush_active(log).await
    };
    alone(shared, log, work).await
}

async fn flush_active(log: &LogState) -> Result<(), StorageError> {
    let found = {
        let unsealed = log.unsealed.borrow();
        let active = unsealed.back().filter(|at| at.flushed < at.written);
        active.and_then(|at| Some((at.base, at.written, at.file.clone()?)))
    };
    let Some((base, written, file)) = found else {
        return Ok(());
    };
    file.fdatasync()
        .await
        .map_err(|source| StorageError::io("flush", &log.segment_path(base, "log"), source))?;
    if let Some(at) = log
        .unsealed
        .borrow_mut()
        .iter_mut()
        .find(|at| at.base == base)
    {
        at.flushed = written;
    }
    Ok(())
}

enum Step {
    /// Write the segment's bytes `from..to`; `to` may exceed the segment's size by padding.
    Write {
        base: Offset,
        from: u32,
        to: u32,
        size: u32,
    },
    /// Cut the file to its size, flush it, write its indexes.
    Seal { base: Offset, size: u32 },
    /// Retention took the segment.
    Forget,
}

fn next_step(log: &LogState) -> Option<Step> {
    let unsealed = log.unsealed.borrow();
    let oldest = unsealed.front()?;
    let base = oldest.base;
    let Some(size) = log.log.borrow().segment(base).map(|segment| segment.size) else {
        return oldest.sealed.then_some(Step::Forget);
    };
    let limit = if oldest.sealed {
        size.next_multiple_of(BLOCK as u32)
    } else {
        block_floor(size)
    };
    let from = oldest.written;
    if from < limit && !oldest.complete {
        return Some(Step::Write {
            base,
            from,
            to: limit.min(from.saturating_add(WRITE_BYTES)),
            size,
        });
    }
    oldest.sealed.then_some(Step::Seal { base, size })
}

/// Whether what was there up to a position of a segment is written, and sealed if it is sealed now.
fn has_reached(log: &LogState, (base, position): (Offset, u32)) -> bool {
    let unsealed = log.unsealed.borrow();
    unsealed.front().is_none_or(|oldest| {
        oldest.base > base || (oldest.base == base && !oldest.sealed && oldest.written >= position)
    })
}

/// Writes whole blocks and seals, up to a position of a segment, or all there is.
async fn write_blocks(
    shared: &Rc<Shared>,
    log: &Rc<LogState>,
    upto: Option<(Offset, u32)>,
) -> Result<(), StorageError> {
    shared.durable(log.gate.get()).await?;
    while let Some(step) = next_step(log) {
        if upto.is_some_and(|upto| has_reached(log, upto)) {
            break;
        }
        match step {
            Step::Write {
                base,
                from,
                to,
                size,
            } => {
                write_range(shared, log, base, from, to, size).await?;
            }
            Step::Seal { base, size } => {
                let file = open(shared, log, base).await?;
                let path = log.segment_path(base, "log");
                let cut = async {
                    file.truncate(u64::from(size)).await?;
                    file.fdatasync().await
                };
                cut.await
                    .map_err(|source| StorageError::io("seal", &path, source))?;
                complete_index(shared, log, base).await;
                write_indexes(shared, log, base).await?;
                log.index_saved.set(0);
                log.unsealed.borrow_mut().pop_front();
                forget_older_indexes(log, base);
            }
            Step::Forget => drop(log.unsealed.borrow_mut().pop_front()),
        }
    }
    Ok(())
}

async fn write_range(
    shared: &Shared,
    log: &LogState,
    base: Offset,
    from: u32,
    to: u32,
    size: u32,
) -> Result<(), StorageError> {
    let file = open(shared, log, base).await?;
    extend(log, &file, base, to).await;
    let mut buffers = Vec::new();
    {
        let tail = log.tail.borrow();
        let whole = block_floor(to.min(size));
        if from < whole {
            buffers = tail.slices(base, from, whole);
        }
        if whole < to {
            buffers.push(padded(&concat(&tail.slices(base, whole, size))));
        }
    }
    let path = log.segment_path(base, "log");
    file.write_all_at(buffers, u64::from(from))
        .await
        .map_err(|source| StorageError::io("write to", &path, source))?;
    if let Some(at) = log
        .unsealed
        .borrow_mut()
        .iter_mut()
        .find(|at| at.base == base)
    {
        at.written = to;
    }
    Ok(())
}

/// A last partial block, filled up with zeros.
fn padded(bytes: &Bytes) -> Bytes {
    let mut block = AlignedBuf::new(bytes.len().next_multiple_of(BLOCK));
    block[..bytes.len()].copy_from_slice(bytes);
    block.freeze()
}

/// The segment's file, made durably if it is not there.
async fn open(shared: &Shared, log: &LogState, base: Offset) -> Result<DirectFile, StorageError> {
    let known = log
        .unsealed
        .borrow()
        .iter()
        .find(|at| at.base == base)
        .and_then(|at| at.file.clone());
    if let Some(file) = known {
        return Ok(file);
    }
    let path = log.segment_path(base, "log");
    let opened = async {
        let file = DirectFile::open(&shared.reactor, &path, Mode::Create).await?;
        file::sync_dir(&shared.reactor, &log.directory).await?;
        let len = file.len()?;
        std::io::Result::Ok((file, len))
    };
    let (file, len) = opened
        .await
        .map_err(|source| StorageError::io("open", &path, source))?;
    if let Some(at) = log
        .unsealed
        .borrow_mut()
        .iter_mut()
        .find(|at| at.base == base)
    {
        at.file = Some(file.clone());
        at.allocated = len;
    }
    Ok(file)
}

/// Extends the file ahead of what is written. Only for speed: without it the write itself extends,
/// so a refusal means nothing.
async fn extend(log: &LogState, file: &DirectFile, base: Offset, to: u32) {
    let allocated = log
        .unsealed
        .borrow()
        .iter()
        .find(|at| at.base == base)
        .map_or(0, |at| at.allocated);
    if u64::from(to) <= allocated {
        return;
    }
    let full = u64::from(log.log.borrow().config().segment_bytes).next_multiple_of(BLOCK as u64);
    let target = (allocated + ALLOCATE_BYTES).min(full).max(u64::from(to));
    if file.allocate(allocated, target - allocated).await.is_ok()
        && let Some(at) = log
            .unsealed
            .borrow_mut()
            .iter_mut()
            .find(|at| at.base == base)
    {
        at.allocated = target;
    }
}

/// Makes the index complete of a segment that was active at the start: its files, if there are any, end there, and
/// whoever reads them beside the segment would take their last entry for its newest record. What cannot be read now
/// is left to whoever looks for something in it.
async fn complete_index(shared: &Rc<Shared>, log: &Rc<LogState>, base: Offset) {
    let log = Log {
        state: log.clone(),
        shared: shared.clone(),
    };
    drop(log.load_index(base).await);
}

/// Writes a segment's indexes, if they are complete. They are caches: what is missing is rebuilt.
pub(super) async fn write_indexes(
    shared: &Shared,
    log: &LogState,
    base: Offset,
) -> Result<(), StorageError> {
    let Some(mut segment) = log
        .sealed_segment(base)
        .filter(|segment| segment.indexed_from == 0)
    else {
        return Ok(());
    };
    // Kafka takes a segment's largest timestamp from the last time entry, of an active one, too.
    segment.seal();
    let files = [
        ("index", segment.offsets.encode()),
        ("timeindex", segment.times.encode()),
    ];
    for (ending, content) in files {
        let path = segment_path(&log.directory, base, ending);
        place::write_whole(&shared.reactor, &path, &content)
            .await
            .map_err(|source| StorageError::io("write", &path, source))?;
    }
    Ok(())
}

/// Writes the active segment's indexes when they have grown a lot, so that after a crash less of the
/// segment must be walked to rebuild them.
pub(super) async fn save_index(shared: &Shared, log: &LogState) -> Result<(), StorageError> {
    let (base, entries) = {
        let log = log.log.borrow();
        (log.active().base, log.active().offsets.entries().len())
    };
    if entries < log.index_saved.get() + SAVE_ENTRIES {
        return Ok(());
    }
    log.index_saved.set(entries);
    alone(shared, log, write_indexes(shared, log, base)).await
}

/// Keeps the memory of sealed segments' indexes bounded: only the newest of them stays.
fn forget_older_indexes(log: &LogState, newest: Offset) {
    let mut state = log.log.borrow_mut();
    let older: Vec<Offset> = state
        .segments()
        .map(|at| at.base)
        .filter(|at| *at < newest)
        .collect();
    for base in older {
        if let Some(segment) = state
            .segment_mut(base)
            .filter(|segment| segment.indexed_from == 0)
        {
            segment.forget_index();
        }
    }
}

/// Writes everything to the files, the last partial block too, and cuts the active one to its size.
pub(super) async fn finish(shared: &Rc<Shared>, log: &Rc<LogState>) -> Result<(), StorageError> {
    alone(shared, log, finish_alone(shared, log)).await
}

async fn finish_alone(shared: &Rc<Shared>, log: &Rc<LogState>) -> Result<(), StorageError> {
    write_blocks(shared, log, None).await?;
    let (base, size) = {
        let log = log.log.borrow();
        (log.active().base, log.active().size)
    };
    if size > 0 {
        let path = log.segment_path(base, "log");
        let file = open(shared, log, base).await?;
        let whole = block_floor(size);
        let last = (whole < size).then(|| concat(&log.tail.borrow().slices(base, whole, size)));
        let cut = async {
            if let Some(last) = last {
                file.write_at(padded(&last), u64::from(whole)).await?;
            }
            file.truncate(u64::from(size)).await?;
            file.fdatasync().await
        };
        cut.await
            .map_err(|source| StorageError::io("close", &path, source))?;
    }
    complete_index(shared, log, base).await;
    write_indexes(shared, log, base).await?;
    let path = log.directory.join(place::CHECKPOINT);
    // Recovery goes on with the last partial block, and could not tell by a part of a batch whether it is sound.
    let checkpoint = log.checkpoint(block_floor(size)).encode();
    place::write_small(&shared.reactor, &path, &checkpoint)
        .await
        .map_err(|source| StorageError::io("write", &path, source))
}
