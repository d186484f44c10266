//! One partition's log in its shard: the append path and what readers and background tasks know of
//! it. Knows not how a read is served or a segment written.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use logic::ids::{LeaderEpoch, Offset, PartitionId, Timestamp};
use logic::log::cleaning::retry::Retry;
use logic::log::header::{BatchHeader, CHECKSUM_START, HEADER_BYTES};
use logic::log::segment::Segment;
use reactor::blocking;
use reactor::file::{self, DirectFile};

use super::checkpoint::{Checkpoint, RawHeader};
use super::commit::Queued;
use super::frame::{FrameHead, Kind};
use super::place::{self, Metadata};
use super::recover::OldWal;
use super::serve::Page;
use super::state::{Shared, concat};
use super::tail::Tail;
use super::{LogConfig, StorageError, behind};

/// The bit of a batch's attributes that says LogAppendTime.
const APPEND_TIME: i16 = 1 << 3;
/// Idempotent batches remembered for a log whose producer state nobody provides.
const AFTER_MAX: usize = 1 << 20;

/// One batch to append.
#[derive(Clone, Copy, Debug)]
pub struct AppendBatch<'a> {
    /// One whole record batch v2 as received, checked by the caller.
    pub bytes: &'a [u8],
    /// The offset of its first record, stamped into the log's copy.
    pub base_offset: Offset,
    /// The leader's epoch, stamped.
    pub leader_epoch: LeaderEpoch,
    /// Under LogAppendTime, the timestamp that replaces all of the batch's.
    pub append_time: Option<Timestamp>,
    /// The commit that carries it is flushed at once. Otherwise a flush follows within 100 ms.
    pub flush: bool,
}

/// One partition's log. Clones are the same log.
#[derive(Clone)]
pub struct Log {
    pub(super) state: Rc<LogState>,
    pub(super) shared: Rc<Shared>,
}

/// How the newest state of a log can be found after a crash.
pub(super) enum Backing {
    /// In its files alone: the next append must carry a checkpoint.
    Files,
    /// In write-ahead logs of earlier starts, perhaps continued in this one's.
    Recovered(Vec<Arc<OldWal>>),
    /// In this write-ahead log, from the checkpoint in this commit or a later one.
    Wal(u64),
}

/// The partition's producer state, as far as storage carries it.
#[derive(Default)]
pub(super) struct Producers {
    pub source: Option<Rc<dyn Fn() -> Bytes>>,
    /// Without a source: what recovery found, and the idempotent batches since.
    pub snapshot: Bytes,
    pub after: Vec<RawHeader>,
}

/// A segment that its file does not hold completely.
pub(super) struct Unsealed {
    pub base: Offset,
    pub file: Option<DirectFile>,
    /// The file's length on disk ahead of what is written.
    pub allocated: u64,
    /// Whole blocks below are in the file; below `flushed` durably. `flushed <= written`.
    pub written: u32,
    pub flushed: u32,
    /// No more batches follow.
    pub sealed: bool,
    /// The file was complete, its last partial block included, when appends went elsewhere.
    pub complete: bool,
}

impl Unsealed {
    pub fn new(base: Offset) -> Self {
        Self {
            base,
            file: None,
            allocated: 0,
            written: 0,
            flushed: 0,
            sealed: false,
            complete: false,
        }
    }
}

/// What became of a request to free memory.
pub(super) enum Dropped {
    /// So many bytes were freed.
    Freed(usize),
    /// There was nothing.
    Empty,
    /// The only buffer is still appended to.
    InUse,
    /// The oldest buffer is not in its segment yet.
    Unwritten,
}

/// What [`Log`] and the background tasks share.
pub(super) struct LogState {
    pub metadata: RefCell<Metadata>,
    pub directory: PathBuf,
    pub log: RefCell<logic::log::Log>,
    pub tail: RefCell<Tail>,
    /// `durable <= written <= log end`.
    pub written: Cell<Offset>,
    pub durable: Cell<Offset>,
    pub backing: RefCell<Backing>,
    pub producers: RefCell<Producers>,
    /// Oldest first; the last is the active segment.
    pub unsealed: RefCell<VecDeque<Unsealed>>,
    /// A background task works on the files.
    pub busy: Cell<bool>,
    pub behind_queued: Cell<bool>,
    /// The frame that must be durable before a segment's block may be written again: after a clean stop the
    /// last one holds acknowledged data that only the checkpoint carries besides.
    pub gate: Cell<u64>,
    /// Index entries of the active segment that are in its file.
    pub index_saved: Cell<usize>,
    pub pages: RefCell<BTreeMap<Offset, Rc<Page>>>,
    /// Segments whose index files are not believed, since something seemed damaged where one had led, and how
    /// often that was.
    pub distrusted: RefCell<BTreeMap<Offset, u32>>,
    /// The segment that is being swapped in, whose file has not its own name yet.
    pub swapping: RefCell<Option<(Offset, Rc<Page>)>>,
    /// How often positions in segments, or segments, have changed under readers.
    pub generation: Cell<u64>,
    /// Below it an earlier cleaning has left no key twice.
    pub clean_below: Cell<Offset>,
    /// When cleaning is tried again that has failed.
    pub cleaning_retry: Cell<Retry>,
    /// Bytes of its frames that no commit has taken yet.
    pub queued_bytes: Cell<usize>,
    pub in_moved: Cell<bool>,
    pub deleted: Cell<bool>,
}

impl Log {
    /// Whose log it is.
    pub fn id(&self) -> PartitionId {
        self.state.id()
    }

    /// The first offset that may be read.
    pub fn log_start(&self) -> Offset {
        self.state.log.borrow().log_start()
    }

    /// One past the last appended record.
    pub fn log_end(&self) -> Offset {
        self.state.log.borrow().log_end()
    }

    /// Direct writes have completed below this offset.
    pub fn written(&self) -> Offset {
        self.state.written.get()
    }

    /// Flushes have completed below this offset.
    pub fn durable(&self) -> Offset {
        self.state.durable.get()
    }

    /// Waits until flushes have completed for all that is appended; `false` when they never will.
    pub async fn flushed(&self) -> bool {
        let is_flushed = || self.durable() >= self.log_end();
        let committed = &self.shared.committed;
        committed
            .until(|| is_flushed() || self.shared.check().is_err())
            .await;
        is_flushed()
    }

    /// Whether both are the same log in the same place.
    pub fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.state, &other.state)
    }

    /// Bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        self.state.log.borrow().size_bytes()
    }

    /// Whether its disk has less free space than the reserve: then nothing new should be appended.
    pub fn is_short_of_space(&self) -> bool {
        self.shared.reserve.is_low()
    }

    /// New topic configs, for what is appended from now on.
    pub fn configure(&self, config: LogConfig) {
        self.state.log.borrow_mut().configure(config);
    }

    /// Who knows the partition's producer state. Called between appends, when it covers exactly what
    /// was appended.
    pub fn set_producer_snapshot_source(&self, source: Rc<dyn Fn() -> Bytes>) {
        let mut producers = self.state.producers.borrow_mut();
        *producers = Producers {
            source: Some(source),
            ..Producers::default()
        };
    }

    /// Notes that an epoch leads from the log's end on (KIP-101).
    pub fn start_epoch(&self, epoch: LeaderEpoch) {
        self.state.log.borrow_mut().start_epoch(epoch);
    }

    /// The largest epoch not above `epoch` and one past its last offset; (-1, -1) when unknown.
    pub fn epoch_end_offset(&self, epoch: LeaderEpoch) -> (LeaderEpoch, Offset) {
        let log = self.state.log.borrow();
        log.epochs().end_offset(epoch, log.log_end())
    }

    /// Appends a batch at the log's end. It is readable at once and on its way to the disk; see
    /// [`super::Storage::progressed`]. Order is kept. `now_ms` is the wall clock.
    pub fn append(&self, now_ms: i64, batch: &AppendBatch<'_>) -> Result<(), StorageError> {
        let (state, shared) = (&self.state, &self.shared);
        shared.check()?;
        if state.deleted.get() {
            return Err(StorageError::Closed);
        }
        let (head, header) = stamp(batch).ok_or(StorageError::NotABatch)?;
        let placed = state.log.borrow_mut().append(now_ms, &header);
        state.rolled(placed.segment, placed.sealed.is_some());
        state.fill(shared, placed.segment, placed.position, &head);
        let body = placed.position + HEADER_BYTES as u32;
        state.fill(shared, placed.segment, body, &batch.bytes[HEADER_BYTES..]);
        state.producers.borrow_mut().note(&header, &head);
        if matches!(*state.backing.borrow(), Backing::Files) {
            state
                .gate
                .set(state.enqueue_checkpoint(shared, batch.flush));
        } else {
            let tail = state.tail.borrow();
            let payload = tail.slices(
                placed.segment,
                placed.position,
                placed.position + header.len,
            );
            let head = FrameHead {
                kind: Kind::Data,
                partition: self.id(),
                segment: placed.segment,
                position: placed.position,
                base_offset: header.base_offset,
                end_offset: header.end_offset(),
                leader_epoch: header.leader_epoch,
                len: header.len,
            };
            shared.enqueue(Queued::new(Some(state.clone()), head, payload, batch.flush));
        }
        behind::consider(shared, state);
        Ok(())
    }

    /// Deletes the log: it is gone after a crash too once this returns.
    pub async fn delete(&self) -> Result<(), StorageError> {
        let (state, shared) = (&self.state, &self.shared);
        if state.deleted.replace(true) {
            return Ok(());
        }
        behind::idle(shared, state).await;
        let mut gone = state.directory.clone().into_os_string();
        gone.push(place::DELETED);
        self.give_up_name(gone.into()).await
    }

    /// Gives the log's directory another name, durably, and removes it: the log is gone after a crash too once
    /// this returns. The caller sees to it that nobody works on its files.
    pub(super) async fn give_up_name(&self, gone: PathBuf) -> Result<(), StorageError> {
        let (state, shared) = (&self.state, &self.shared);
        state.deleted.set(true);
        let root = place::logs_root(&shared.data_dir);
        let renamed = async {
            file::rename(&shared.reactor, &state.directory, &gone).await?;
            file::sync_dir(&shared.reactor, &root).await
        };
        if let Err(source) = renamed.await {
            let error = StorageError::io("delete", &state.directory, source);
            // Nobody knows whether the next start finds it.
            shared.fail(&error);
            return Err(error);
        }
        shared.logs.borrow_mut().remove(&self.id());
        shared.committed.notify();
        let freed = std::mem::take(&mut *state.tail.borrow_mut()).capacity();
        shared.tail_ended(state, freed);
        // An open file would keep its blocks.
        state.pages.borrow_mut().clear();
        let mut unsealed = state.unsealed.borrow_mut();
        unsealed.iter_mut().for_each(|segment| segment.file = None);
        drop(unsealed);
        state.settled();
        // Unlinking gigabytes takes a while: not on the reactor. What fails is removed at start-up.
        blocking::detached(move || drop(blocking::fs::remove_dir_all(gone)));
        Ok(())
    }
}

impl Producers {
    fn note(&mut self, header: &BatchHeader, raw: &RawHeader) {
        if self.source.is_none() && header.producer_id >= 0 && self.after.len() < AFTER_MAX {
            self.after.push(*raw);
        }
    }
}

/// The stamped header of a batch, and what it says.
fn stamp(batch: &AppendBatch<'_>) -> Option<(RawHeader, BatchHeader)> {
    let mut head: RawHeader = *batch.bytes.first_chunk()?;
    head[0..8].copy_from_slice(&batch.base_offset.0.to_be_bytes());
    head[12..16].copy_from_slice(&batch.leader_epoch.0.to_be_bytes());
    if let Some(time) = batch.append_time {
        let attributes = i16::from_be_bytes([head[21], head[22]]) | APPEND_TIME;
        head[21..23].copy_from_slice(&attributes.to_be_bytes());
        head[35..43].copy_from_slice(&time.0.to_be_bytes());
        let checksum = crc32c::crc32c(&head[CHECKSUM_START..]);
        let checksum = crc32c::crc32c_append(checksum, &batch.bytes[HEADER_BYTES..]);
        head[17..21].copy_from_slice(&checksum.to_be_bytes());
    }
    let header = BatchHeader::read(&head).ok()?;
    (header.len as usize == batch.bytes.len()).then_some((head, header))
}

impl LogState {
    /// A log with nothing in memory.
    pub fn new(
        metadata: Metadata,
        directory: PathBuf,
        log: logic::log::Log,
        unsealed: VecDeque<Unsealed>,
        producers: Producers,
    ) -> Self {
        Self {
            metadata: RefCell::new(metadata),
            directory,
            log: RefCell::new(log),
            tail: RefCell::default(),
            written: Cell::default(),
            durable: Cell::default(),
            backing: RefCell::new(Backing::Files),
            producers: RefCell::new(producers),
            unsealed: RefCell::new(unsealed),
            busy: Cell::new(false),
            behind_queued: Cell::new(false),
            gate: Cell::new(0),
            index_saved: Cell::new(0),
            pages: RefCell::default(),
            distrusted: RefCell::default(),
            swapping: RefCell::default(),
            generation: Cell::new(0),
            clean_below: Cell::default(),
            cleaning_retry: Cell::default(),
            queued_bytes: Cell::new(0),
            in_moved: Cell::new(false),
            deleted: Cell::new(false),
        }
    }

    /// Whose log it is.
    pub fn id(&self) -> PartitionId {
        self.metadata.borrow().id
    }

    /// The file of a segment with this ending.
    pub fn segment_path(&self, base: Offset, ending: &str) -> PathBuf {
        segment_path(&self.directory, base, ending)
    }

    /// Keeps the list of unsealed segments in step with a roll.
    pub fn rolled(&self, active: Offset, sealed: bool) {
        let mut unsealed = self.unsealed.borrow_mut();
        let files_hold_all = matches!(*self.backing.borrow(), Backing::Files);
        match unsealed.back_mut() {
            Some(last) if last.base == active => {}
            Some(last) if sealed => {
                last.sealed = true;
                last.complete = files_hold_all;
                unsealed.push_back(Unsealed::new(active));
            }
            // An empty segment only moved up.
            _ => {
                unsealed.pop_back();
                unsealed.push_back(Unsealed::new(active));
            }
        }
    }

    /// Puts bytes into the tail.
    pub fn fill(
        self: &Rc<Self>,
        shared: &Rc<Shared>,
        segment: Offset,
        position: u32,
        bytes: &[u8],
    ) {
        let mut tail = self.tail.borrow_mut();
        let (buffers, capacity) = (tail.buffers(), tail.capacity());
        tail.append(segment, position, bytes);
        let grown = (tail.buffers() - buffers, tail.capacity() - capacity);
        drop(tail);
        shared.tail_grew(self, grown.0, grown.1);
    }

    /// Frees the oldest buffer, if its content is in the segment.
    pub fn drop_oldest(&self) -> Dropped {
        let mut tail = self.tail.borrow_mut();
        let Some((segment, end)) = tail.oldest() else {
            return if tail.buffers() == 0 {
                Dropped::Empty
            } else {
                Dropped::InUse
            };
        };
        let unsealed = self.unsealed.borrow();
        let behind = unsealed.iter().find(|at| at.base == segment);
        if behind.is_some_and(|at| at.written < end && !at.complete) {
            return Dropped::Unwritten;
        }
        let before = tail.capacity();
        tail.drop_oldest();
        Dropped::Freed(before - tail.capacity())
    }

    /// Whether a checkpoint of now would be true: all but the active segment are durable in files.
    pub fn can_checkpoint(&self) -> bool {
        self.unsealed
            .borrow()
            .iter()
            .rev()
            .skip(1)
            .all(|older| older.complete)
    }

    /// The state of this moment, with the active segment's bytes from `tail_start` on, a multiple of 4 KiB:
    /// what is before it must be durable in files.
    pub fn checkpoint(&self, tail_start: u32) -> Checkpoint {
        let log = self.log.borrow();
        let active = log.active();
        let tail = self.tail.borrow();
        let tail = concat(&tail.slices(active.base, tail_start, active.size));
        let producers = self.producers.borrow();
        let (snapshot, after) = match &producers.source {
            Some(source) => (source(), Vec::new()),
            None => (producers.snapshot.clone(), producers.after.clone()),
        };
        Checkpoint {
            segment: active.base,
            position: active.size,
            log_end: log.log_end(),
            created_ms: active.created_ms,
            appended_ms: Some(active.appended_ms),
            first_timestamp: active.first_timestamp,
            max_timestamp: active.max_timestamp,
            epochs: log.epochs().clone(),
            producers: snapshot,
            after,
            tail_start,
            tail,
        }
    }

    /// Queues a checkpoint of this moment; returns its ticket.
    pub fn enqueue_checkpoint(self: &Rc<Self>, shared: &Shared, flush: bool) -> u64 {
        assert!(
            self.can_checkpoint(),
            "a checkpoint while an older segment is not in its file"
        );
        let flushed = self.unsealed.borrow().back().map_or(0, |at| at.flushed);
        let frame = self.checkpoint_frame(self.checkpoint(flushed), flush);
        if !matches!(*self.backing.borrow(), Backing::Recovered(_)) {
            self.backing
                .replace(Backing::Wal(shared.next_sequence.get()));
        }
        shared.enqueue(frame)
    }

    /// The frame of a checkpoint.
    pub fn checkpoint_frame(self: &Rc<Self>, checkpoint: Checkpoint, flush: bool) -> Queued {
        let payload = Bytes::from(checkpoint.encode());
        let head = FrameHead {
            kind: Kind::Checkpoint,
            partition: self.id(),
            segment: checkpoint.segment,
            position: checkpoint.position,
            base_offset: checkpoint.log_end,
            end_offset: checkpoint.log_end,
            leader_epoch: checkpoint.epochs.latest().unwrap_or(LeaderEpoch(-1)),
            len: u32::try_from(payload.len()).expect("a checkpoint is shorter than 4 GiB"),
        };
        Queued::new(Some(self.clone()), head, vec![payload], flush)
    }

    /// The write-ahead logs of earlier starts are no longer needed for this log.
    pub fn settled(&self) {
        let from = match &mut *self.backing.borrow_mut() {
            Backing::Recovered(from) => std::mem::take(from),
            _ => return,
        };
        from.into_iter().for_each(OldWal::settle);
    }

    /// The segments' state, for whoever seals one.
    pub fn sealed_segment(&self, base: Offset) -> Option<Segment> {
        self.log.borrow().segment(base).cloned()
    }
}

/// The file of a segment with this ending.
pub(super) fn segment_path(directory: &Path, base: Offset, ending: &str) -> PathBuf {
    directory.join(format!("{}.{ending}", place::segment_name(base)))
}
