//! The committer: gathers queued frames into one padded write, one commit in flight while the next
//! gathers, and flushes when a frame asks for it or time or bytes are up. Knows not what is trimmed or
//! written behind.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use logic::ids::{LeaderEpoch, Offset, PartitionId, TopicId};
use logic::partition::leader::FLUSH_WITHIN_MS;
use reactor::buffer::AlignedBuf;

use super::StorageError;
use super::append::LogState;
use super::bypass::{self, Bypass};
use super::frame::{self, BLOCK, CommitHead, FrameHead, Kind, Place};
use super::state::Shared;
use super::trim;

/// How long written bytes may wait for a flush.
const FLUSH_WAIT: Duration = Duration::from_millis(FLUSH_WITHIN_MS as u64);
/// How many written bytes may wait for a flush.
const FLUSH_BYTES: usize = 4 << 20;

/// A frame that waits for its commit.
pub(super) struct Queued {
    /// Whose offsets move with it.
    pub log: Option<Rc<LogState>>,
    /// Its header.
    pub head: FrameHead,
    /// Its payload, in pieces.
    pub payload: Vec<Bytes>,
    /// Its commit is flushed.
    pub flush: bool,
    /// Its number among all frames, from 1; 0 for one that is not queued.
    pub ticket: u64,
}

impl Queued {
    /// One that is not queued yet.
    pub fn new(
        log: Option<Rc<LogState>>,
        head: FrameHead,
        payload: Vec<Bytes>,
        flush: bool,
    ) -> Self {
        Self {
            log,
            head,
            payload,
            flush,
            ticket: 0,
        }
    }

    /// A flushed frame that carries nothing.
    pub fn note() -> Self {
        let head = FrameHead {
            kind: Kind::Note,
            partition: PartitionId {
                topic: TopicId::ZERO,
                index: 0,
            },
            segment: Offset(0),
            position: 0,
            base_offset: Offset(0),
            end_offset: Offset(0),
            leader_epoch: LeaderEpoch(-1),
            len: 0,
        };
        Self::new(None, head, Vec::new(), true)
    }
}

/// Commits until the storage fails or stops.
pub(super) async fn run(shared: Rc<Shared>) {
    loop {
        let idle = || shared.queue.borrow().is_empty() && !shared.flush_wanted.get();
        shared
            .work
            .until(|| !idle() || shared.closing.get() || shared.has_failed())
            .await;
        if shared.has_failed() {
            return;
        }
        if idle() && !is_unflushed(&shared) {
            if shared.stopped.get() {
                return;
            }
            // Closing with nothing to do: background tasks may still queue checkpoints.
            shared.work.until_notified().await;
            continue;
        }
        if let Err(error) = commit(&shared).await {
            shared.fail(&error);
            return;
        }
        arm_flush(&shared);
        trim::consider(&shared);
    }
}

async fn commit(shared: &Rc<Shared>) -> Result<(), StorageError> {
    let io = |doing| move |source| StorageError::io(doing, &shared.wal_dir, source);
    let Taken {
        mut frames,
        past,
        upto,
    } = take(shared);
    if frames.is_empty() && past.is_empty() {
        shared
            .extents
            .current_file()
            .fdatasync()
            .await
            .map_err(io("flush"))?;
        flushed(shared);
        return Ok(());
    }
    let past = bypass::write(shared, past, &mut frames).await?;
    let (covered, checkpoints): (Vec<_>, Vec<_>) = past
        .into_iter()
        .map(|it| it.carried(shared.next_sequence.get()))
        .unzip();
    frames.extend(checkpoints);
    let sequence = shared.next_sequence.get();
    shared.next_sequence.set(sequence + 1);
    let bytes: usize = frames
        .iter()
        .map(|at| frame::frame_bytes(at.head.len as usize))
        .sum();
    let padded = bytes.next_multiple_of(BLOCK);
    let (file, position, generation) = shared
        .extents
        .place(padded as u64, sequence)
        .await
        .map_err(io("extend"))?;
    let head = CommitHead {
        generation,
        sequence,
        durable: shared.durable_sequence.get(),
        needed: shared.needed_sequence.get(),
    };
    let flush = frames.iter().any(|frame| frame.flush)
        || shared.flush_wanted.get()
        || shared.unflushed_bytes.get() + padded > FLUSH_BYTES;
    let content = encode(shared, &head, &frames, padded);
    if flush {
        file.write_at_flushed(content, position)
            .await
            .map_err(io("write to"))?;
    } else {
        file.write_at(content, position)
            .await
            .map_err(io("write to"))?;
    }
    frames.extend(covered.into_iter().flatten());
    written(shared, sequence, upto, frames, padded);
    if flush {
        flushed(shared);
    }
    shared.committed.notify();
    Ok(())
}

/// What the next commit is about.
struct Taken {
    /// Its frames, in order.
    frames: Vec<Queued>,
    /// Partitions whose frames go past it.
    past: Vec<Bypass>,
    /// Every frame up to this ticket is in it or in an earlier one.
    upto: u64,
}

/// Takes at least one frame out of the queue, if there is any.
fn take(shared: &Shared) -> Taken {
    let mut queue = shared.queue.borrow_mut();
    let (mut count, mut bytes) = (0, 0);
    while bytes < shared.settings.commit_bytes_max && count < queue.len() {
        bytes += frame::frame_bytes(queue[count].head.len as usize);
        count += 1;
    }
    let mut frames = queue.drain(..count).collect();
    let past = bypass::choose(shared, &mut frames, &mut queue);
    let next = queue.front().map(|frame| frame.ticket - 1);
    let taken = past.iter().flat_map(|it| &it.covered).chain(&frames);
    for (log, frame) in taken.filter_map(|frame| Some((frame.log.as_ref()?, frame))) {
        log.queued_bytes
            .set(log.queued_bytes.get() - frame.head.len as usize);
    }
    Taken {
        upto: next.unwrap_or(shared.frames_queued.get()),
        frames,
        past,
    }
}

fn encode(shared: &Shared, head: &CommitHead, frames: &[Queued], padded: usize) -> Bytes {
    let mut buffer = AlignedBuf::new(padded);
    let mut at = 0;
    for (number, queued) in frames.iter().enumerate() {
        let place = Place {
            number: number as u32,
            last: number + 1 == frames.len(),
        };
        at = frame::write(
            &mut buffer,
            at,
            shared.wal,
            head,
            place,
            &queued.head,
            &queued.payload,
        );
    }
    buffer.freeze()
}

/// A commit's write has completed.
fn written(shared: &Shared, sequence: u64, upto: u64, frames: Vec<Queued>, padded: usize) {
    shared.written_sequence.set(sequence);
    shared.frames_written.set(upto);
    shared
        .unflushed_bytes
        .set(shared.unflushed_bytes.get() + padded);
    let queued = frames.iter().filter(|frame| frame.ticket > 0);
    let payload: usize = queued.map(|frame| frame.head.len as usize).sum();
    shared.queued_bytes.set(shared.queued_bytes.get() - payload);
    let mut unflushed = shared.unflushed.borrow_mut();
    for queued in frames {
        if let Some(log) = queued.log {
            log.written
                .set(log.written.get().max(queued.head.end_offset));
            shared.mark_moved(&log);
            unflushed.push((log, queued.head.end_offset));
        }
    }
}

/// A flush has completed that covers every write completed before it began.
fn flushed(shared: &Shared) {
    shared.durable_sequence.set(shared.written_sequence.get());
    shared.frames_durable.set(shared.frames_written.get());
    shared.unflushed_bytes.set(0);
    shared.flush_wanted.set(false);
    for (log, end) in shared.unflushed.take() {
        log.durable.set(log.durable.get().max(end));
        shared.mark_moved(&log);
    }
    shared.committed.notify();
}

/// Whether something was written that no flush has covered.
fn is_unflushed(shared: &Shared) -> bool {
    shared.frames_written.get() > shared.frames_durable.get()
}

/// Makes sure that what was written without a flush is flushed in time.
fn arm_flush(shared: &Rc<Shared>) {
    if !is_unflushed(shared) || shared.flush_armed.replace(true) {
        return;
    }
    let shared = shared.clone();
    reactor::spawn(async move {
        reactor::timer::sleep(FLUSH_WAIT).await;
        shared.flush_armed.set(false);
        if is_unflushed(&shared) {
            shared.flush_wanted.set(true);
            shared.work.notify();
        }
    });
}
