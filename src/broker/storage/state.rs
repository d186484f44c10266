//! What the tasks of one shard's storage share, and its public face. Knows not how a commit is
//! written, a segment filled or the log trimmed: those tasks have files of their own.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use logic::ids::{Offset, PartitionId};
use logic::log::segment::Segment;
use reactor::Reactor;
use reactor::file;

use super::append::{Backing, Dropped, Log, LogState, Producers, Unsealed};
use super::commit::Queued;
use super::extent::Extents;
use super::frame::{BLOCK, WalId};
use super::place::{self, METADATA, Metadata};
use super::recover::RecoveredLog;
use super::removal::Removals;
use super::reserve::{self, Reserve};
use super::signal::Signal;
use super::{LogConfig, Settings, StorageError, behind, commit, flush, trim};

/// One shard's storage. Clones are the same storage.
#[derive(Clone)]
pub struct Storage {
    pub(super) shared: Rc<Shared>,
}

/// Everything that its tasks share.
pub(super) struct Shared {
    pub reactor: Reactor,
    pub data_dir: PathBuf,
    pub settings: Settings,
    pub wal: WalId,
    pub boot: u64,
    pub wal_dir: PathBuf,
    pub extents: Extents,
    /// Frames that no commit has taken yet, in order.
    pub queue: RefCell<VecDeque<Queued>>,
    pub queued_bytes: Cell<usize>,
    /// The newest frame's ticket, and up to which ticket all are written, and durable. Frames are
    /// counted; a commit may take some out of their turn.
    pub frames_queued: Cell<u64>,
    pub frames_written: Cell<u64>,
    pub frames_durable: Cell<u64>,
    /// The number of the next commit to be formed.
    pub next_sequence: Cell<u64>,
    /// `durable <= written < next_sequence`.
    pub written_sequence: Cell<u64>,
    pub durable_sequence: Cell<u64>,
    /// The first commit that recovery needs.
    pub needed_sequence: Cell<u64>,
    /// What was written and not flushed.
    pub flusher: flush::Flusher,
    /// There is something to commit.
    pub work: Signal,
    /// A commit has completed, or the storage failed or stopped.
    pub committed: Signal,
    /// Partitions whose offsets moved since last asked.
    pub moved: RefCell<Vec<PartitionId>>,
    pub failed: RefCell<Option<Rc<str>>>,
    pub closing: Cell<bool>,
    pub stopped: Cell<bool>,
    pub logs: RefCell<BTreeMap<PartitionId, Rc<LogState>>>,
    pub behind: behind::Queue,
    pub trimming: Cell<bool>,
    /// Recovered logs that have not settled in this write-ahead log.
    pub settling: RefCell<VecDeque<Rc<LogState>>>,
    pub settlers: Cell<usize>,
    /// Memory of all tails, and whose buffers are the oldest.
    pub tail_bytes: Cell<usize>,
    pub tail_order: RefCell<VecDeque<Rc<LogState>>>,
    /// Files that are removed later.
    pub removals: Removals,
    /// Whether the disk is short of space.
    pub reserve: Reserve,
}

impl Storage {
    /// Begins a write-ahead log for this shard. Ready within milliseconds: more room is prepared when
    /// the first of it is used.
    pub async fn open(
        reactor: &Reactor,
        data_dir: &Path,
        shard: usize,
        settings: Settings,
    ) -> Result<Self, StorageError> {
        let root = place::wal_root(data_dir);
        let io = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| StorageError::io(doing, &path, source)
        };
        let wal = place::random_wal_id().map_err(io("read", Path::new("/dev/urandom")))?;
        let boot = super::recover::read_boot(data_dir);
        let boot = boot.map_err(io("read", data_dir))?.unwrap_or(1);
        for directory in [data_dir, &root, &place::logs_root(data_dir)] {
            file::create_dir(reactor, directory)
                .await
                .map_err(io("create", directory))?;
        }
        file::sync_dir(reactor, data_dir)
            .await
            .map_err(io("flush", data_dir))?;
        let wal_dir = root.join(place::wal_name(boot, shard, wal));
        let extent_bytes = settings.wal_extent_bytes;
        let spares_max = (settings.wal_bytes_max / extent_bytes).max(2) as usize;
        let extents = Extents::create(reactor, &wal_dir, extent_bytes, spares_max)
            .await
            .map_err(io("create", &wal_dir))?;
        let shared = Rc::new(Shared {
            reactor: reactor.clone(),
            data_dir: data_dir.to_owned(),
            settings,
            wal,
            boot,
            wal_dir,
            extents,
            queue: RefCell::default(),
            queued_bytes: Cell::new(0),
            frames_queued: Cell::new(0),
            frames_written: Cell::new(0),
            frames_durable: Cell::new(0),
            next_sequence: Cell::new(1),
            written_sequence: Cell::new(0),
            durable_sequence: Cell::new(0),
            needed_sequence: Cell::new(1),
            flusher: flush::Flusher::default(),
            work: Signal::default(),
            committed: Signal::default(),
            moved: RefCell::default(),
            failed: RefCell::default(),
            closing: Cell::new(false),
            stopped: Cell::new(false),
            logs: RefCell::default(),
            behind: behind::Queue::default(),
            trimming: Cell::new(false),
            settling: RefCell::default(),
            settlers: Cell::new(0),
            tail_bytes: Cell::new(0),
            tail_order: RefCell::default(),
            removals: Removals::default(),
            reserve: Reserve::default(),
        });
        reactor::spawn(commit::run(shared.clone()));
        reactor::spawn(flush::run(shared.clone()));
        reactor::spawn(reserve::watch(shared.clone()));
        Ok(Self { shared })
    }

    /// Makes an empty log, durably. `now_ms` is the wall clock.
    pub async fn create(
        &self,
        id: PartitionId,
        topic_name: &str,
        config: LogConfig,
        now_ms: i64,
    ) -> Result<Log, StorageError> {
        let shared = &self.shared;
        shared.check()?;
        let root = place::logs_root(&shared.data_dir);
        let directory = root.join(place::log_name(topic_name, id));
        let metadata = Metadata {
            id,
            topic_name: topic_name.to_owned(),
            log_start: Offset(0),
        };
        let path = directory.join(METADATA);
        let is_there = file::exists(&shared.reactor, &path).await.unwrap_or(true);
        if is_there || shared.logs.borrow().contains_key(&id) {
            return Err(StorageError::Exists(directory));
        }
        let made = async {
            file::create_dir(&shared.reactor, &directory).await?;
            place::write_small(&shared.reactor, &path, &metadata.encode()).await?;
            file::sync_dir(&shared.reactor, &root).await
        };
        made.await
            .map_err(|source| StorageError::io("create", &directory, source))?;
        let log = logic::log::Log::new(id, config, now_ms);
        let unsealed = [Unsealed::new(Offset(0))].into();
        let state = LogState::new(metadata, directory, log, unsealed, Producers::default());
        Ok(self.host(state))
    }

    /// Takes over a log that recovery has found.
    pub async fn attach(
        &self,
        recovered: RecoveredLog,
        config: LogConfig,
    ) -> Result<Log, StorageError> {
        self.shared.check()?;
        let mut log = recovered.log;
        log.configure(config);
        let mut unsealed: VecDeque<Unsealed> = VecDeque::new();
        let first = recovered
            .tail
            .first()
            .map_or(log.active().base, |piece| piece.segment);
        let begins = recovered.tail.first().map_or(0, |piece| piece.position);
        for Segment { base, .. } in log.segments().filter(|segment| segment.base >= first) {
            if let Some(last) = unsealed.back_mut() {
                last.sealed = true;
            }
            unsealed.push_back(Unsealed::new(*base));
        }
        if let Some(oldest) = unsealed.front_mut() {
            oldest.written = begins;
            oldest.flushed = begins;
        }
        let backing = if recovered.from.is_empty() {
            Backing::Files
        } else {
            Backing::Recovered(recovered.from)
        };
        let end = log.log_end();
        let producers = Producers {
            source: None,
            snapshot: recovered.producer_snapshot,
            after: recovered.raw_after,
        };
        let metadata = recovered.metadata;
        let state = LogState::new(metadata, recovered.directory, log, unsealed, producers);
        state.backing.replace(backing);
        state.written.set(end);
        state.durable.set(end);
        state.clean_below.set(recovered.clean_below);
        let log = self.host(state);
        for piece in &recovered.tail {
            log.state
                .fill(&self.shared, piece.segment, piece.position, &piece.bytes);
        }
        behind::consider(&self.shared, &log.state);
        if matches!(*log.state.backing.borrow(), Backing::Recovered(_)) {
            trim::settle_soon(&self.shared, &log.state);
        }
        Ok(log)
    }

    /// Waits until written or durable offsets have moved, or everything failed; says for which
    /// partitions.
    pub async fn progressed(&self) -> Vec<PartitionId> {
        let shared = &self.shared;
        shared
            .committed
            .until(|| !shared.moved.borrow().is_empty())
            .await;
        let moved = shared.moved.take();
        let logs = shared.logs.borrow();
        for id in &moved {
            if let Some(log) = logs.get(id) {
                log.in_moved.set(false);
            }
        }
        moved
    }

    /// Bytes that wait for the disk: queued frames, and commits beyond `wal_bytes_max`.
    pub fn backlog(&self) -> usize {
        let shared = &self.shared;
        let wal = shared
            .extents
            .live_bytes()
            .saturating_sub(shared.settings.wal_bytes_max);
        shared.queued_bytes.get() + wal as usize
    }

    /// Whether so much waits for the disk that more should not be appended yet.
    pub fn is_behind(&self) -> bool {
        self.backlog() > self.shared.settings.backlog_bytes_max && self.shared.check().is_ok()
    }

    /// Waits until that is over; also when it never will be, because the storage failed or closes.
    pub async fn until_caught_up(&self) {
        let caught_up = || {
            let is_behind = self.is_behind();
            if is_behind {
                // Commits see to it otherwise, and there may be none.
                trim::consider(&self.shared);
            }
            !is_behind
        };
        self.shared.committed.until(caught_up).await;
    }

    /// Whether the disk has less free space than the reserve: then nothing new should be appended.
    pub fn is_short_of_space(&self) -> bool {
        self.shared.reserve.is_low()
    }

    /// Stops for good, as after a failed write: somebody else has found the disk to fail.
    pub fn stop(&self, why: &str) {
        self.shared.stop(why);
    }

    /// Waits until nothing is acknowledged any more; says why.
    pub async fn until_failed(&self) -> Rc<str> {
        let shared = &self.shared;
        shared.committed.until(|| shared.has_failed()).await;
        shared.failed.borrow().clone().unwrap_or_default()
    }

    /// Waits until the disk is short of space.
    pub async fn until_short_of_space(&self) {
        self.shared.reserve.until_low().await;
    }

    /// Why nothing is acknowledged any more, if so (invariant 29).
    pub fn failed(&self) -> Option<StorageError> {
        self.shared
            .failed
            .borrow()
            .clone()
            .map(StorageError::Failed)
    }

    /// Commits what is queued, writes every tail to its segment and, when all of that succeeded,
    /// removes the write-ahead log. Whatever is not done by the deadline stays in the write-ahead log
    /// and is recovered at the next start.
    pub async fn close(&self) {
        trim::close(&self.shared).await;
    }

    /// Takes a log in.
    pub(super) fn host(&self, state: LogState) -> Log {
        let state = Rc::new(state);
        let id = state.id();
        let before = self.shared.logs.borrow_mut().insert(id, state.clone());
        assert!(before.is_none(), "a partition's log opened twice");
        Log {
            state,
            shared: self.shared.clone(),
        }
    }
}

impl Shared {
    /// Fails once the storage has failed or is closing.
    pub fn check(&self) -> Result<(), StorageError> {
        self.check_failed()?;
        if self.closing.get() {
            Err(StorageError::Closed)
        } else {
            Ok(())
        }
    }

    /// Fails once an earlier write or flush has failed.
    pub fn check_failed(&self) -> Result<(), StorageError> {
        let reason = self.failed.borrow().clone();
        reason.map_or(Ok(()), |reason| Err(StorageError::Failed(reason)))
    }

    /// Whether an earlier write or flush has failed.
    pub fn has_failed(&self) -> bool {
        self.failed.borrow().is_some()
    }

    /// Stops everything for good: after a failed write or flush a later success proves nothing.
    pub fn fail(&self, error: &StorageError) {
        self.stop(&error.to_string());
    }

    /// The same, by its reason.
    fn stop(&self, why: &str) {
        if self.has_failed() {
            return;
        }
        self.failed.replace(Some(why.into()));
        let logs: Vec<_> = self.logs.borrow().values().cloned().collect();
        logs.iter().for_each(|log| self.mark_moved(log));
        self.work.notify();
        self.flusher.changed.notify();
        self.committed.notify();
        self.behind.signal.notify();
    }

    /// Has [`Storage::progressed`] name this log.
    pub fn mark_moved(&self, log: &LogState) {
        if !log.in_moved.replace(true) {
            self.moved.borrow_mut().push(log.id());
        }
    }

    /// Queues a frame; returns its ticket, which is durable once `frames_durable` reaches it.
    pub fn enqueue(&self, mut queued: Queued) -> u64 {
        let ticket = self.frames_queued.get() + 1;
        self.frames_queued.set(ticket);
        queued.ticket = ticket;
        let bytes = queued.head.len as usize;
        self.queued_bytes.set(self.queued_bytes.get() + bytes);
        if let Some(log) = &queued.log {
            log.queued_bytes.set(log.queued_bytes.get() + bytes);
        }
        self.queue.borrow_mut().push_back(queued);
        self.work.notify();
        ticket
    }

    /// Waits until the frame with this ticket is durable.
    pub async fn durable(&self, ticket: u64) -> Result<(), StorageError> {
        self.committed
            .until(|| {
                self.frames_durable.get() >= ticket || self.has_failed() || self.stopped.get()
            })
            .await;
        if self.frames_durable.get() >= ticket {
            return Ok(());
        }
        self.check().and(Err(StorageError::Closed))
    }

    /// Notes that a tail has grown by so many buffers, and lets go of the oldest ones beyond the bound.
    pub fn tail_grew(self: &Rc<Self>, log: &Rc<LogState>, buffers: usize, bytes: usize) {
        if buffers == 0 {
            return;
        }
        let mut order = self.tail_order.borrow_mut();
        (0..buffers).for_each(|_| order.push_back(log.clone()));
        self.tail_bytes.set(self.tail_bytes.get() + bytes);
        let mut left = order.len();
        while self.tail_bytes.get() > self.settings.tail_cache_bytes && left > 0 {
            left -= 1;
            let Some(oldest) = order.pop_front() else {
                return;
            };
            match oldest.drop_oldest() {
                Dropped::Freed(freed) => self.tail_bytes.set(self.tail_bytes.get() - freed),
                Dropped::Empty => {}
                Dropped::InUse => order.push_back(oldest),
                Dropped::Unwritten => {
                    behind::soon(self, &oldest);
                    order.push_back(oldest);
                }
            }
        }
    }

    /// Notes that so much of a log's tail is gone.
    pub fn tail_dropped(&self, bytes: usize) {
        self.tail_bytes.set(self.tail_bytes.get() - bytes);
    }

    /// Notes that a log's whole tail is gone for good.
    pub fn tail_ended(&self, log: &Rc<LogState>, bytes: usize) {
        self.tail_dropped(bytes);
        self.tail_order
            .borrow_mut()
            .retain(|other| !Rc::ptr_eq(other, log));
    }
}

/// The largest multiple of 4 KiB that is not above `position`.
pub(super) fn block_floor(position: u32) -> u32 {
    position - position % BLOCK as u32
}

/// The bytes of several views as one.
pub(super) fn concat(parts: &[Bytes]) -> Bytes {
    match parts {
        [one] => one.clone(),
        parts => Bytes::from(parts.concat()),
    }
}
