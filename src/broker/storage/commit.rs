//! The committer: gathers queued frames into one padded write, one commit in flight while the next
//! gathers, and flushes with it when a frame asks for that. Knows not what is trimmed or written behind,
//! nor when that is flushed for which no frame has asked.

use std::rc::Rc;

use bytes::Bytes;
use logic::ids::{LeaderEpoch, Offset, PartitionId, TopicId};
use reactor::buffer::AlignedBuf;

use super::StorageError;
use super::append::LogState;
use super::bypass::{self, Bypass};
use super::flush::{self, Reach};
use super::frame::{self, BLOCK, CommitHead, FrameHead, Kind, Place};
use super::state::Shared;
use super::trim;

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
        let idle = || shared.queue.borrow().is_empty();
        shared
            .work
            .until(|| !idle() || shared.closing.get() || shared.has_failed())
            .await;
        if shared.has_failed() {
            return;
        }
        if idle() {
            if shared.stopped.get() {
                return;
            }
            // Closing with nothing to do: background tasks may still queue checkpoints.
            flush::ask(&shared);
            shared.work.until_notified().await;
            continue;
        }
        if let Err(error) = commit(&shared).await {
            shared.fail(&error);
            return;
        }
        flush::consider(&shared);
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
    if !shared.extents.fits(padded as u64) {
        // So that a flush of the extent in use makes all commits durable.
        let full = shared.extents.current_file();
        flush::confirmed(shared, "flush", full.fdatasync()).await?;
        let next = shared.extents.go_on(padded as u64, sequence).await;
        next.map_err(io("extend"))?;
    }
    let (file, position, generation) = shared.extents.place(padded as u64, sequence);
    let head = CommitHead {
        generation,
        sequence,
        durable: shared.durable_sequence.get(),
        needed: shared.needed_sequence.get(),
    };
    let flush = frames.iter().any(|frame| frame.flush) || flush::is_due(shared, padded);
    let content = encode(shared, &head, &frames, padded);
    if flush {
        let written = file.write_at_flushed(content, position);
        flush::confirmed(shared, "write to", written).await?;
    } else {
        file.write_at(content, position)
            .await
            .map_err(io("write to"))?;
    }
    frames.extend(covered.into_iter().flatten());
    // A flush beside this one has failed, perhaps: then nothing that ends later proves anything.
    shared.check_failed()?;
    written(shared, sequence, upto, frames, padded);
    if flush {
        flush::covers(shared, Reach::of(shared));
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
    let flusher = &shared.flusher;
    flusher
        .bytes_written
        .set(flusher.bytes_written.get() + padded as u64);
    let queued = frames.iter().filter(|frame| frame.ticket > 0);
    let payload: usize = queued.map(|frame| frame.head.len as usize).sum();
    shared.queued_bytes.set(shared.queued_bytes.get() - payload);
    let mut unflushed = flusher.unflushed.borrow_mut();
    for queued in frames {
        if let Some(log) = queued.log {
            log.written
                .set(log.written.get().max(queued.head.end_offset));
            shared.mark_moved(&log);
            unflushed.push_back((sequence, log, queued.head.end_offset));
        }
    }
}
