//! One life of a shard: it takes over what recovery found, and then appends, reads, deletes and moves starts
//! in an order that the seed decides. What runs beside it is in `background`. Knows nothing of how the life is
//! ended.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use logic::ids::{Instant, LeaderEpoch, Offset, PartitionId, TopicId};
use logic::partition::producers::Producers;
use reactor::Reactor;
use reactor::world::World;
use simulated::storage::{
    AppendBatch, Damaged, Log, RecoveredLog, Recovery, Settings, Storage, StorageError,
};

use crate::background;
use crate::ghost::{Ghost, GhostLog, Presence};
use crate::policy::Policy;
use crate::producing;
use crate::reading::{check_read, check_time};
use crate::story::{DATA, End, Outcome};

const PARTITIONS: u64 = 5;
const ACTIONS_MAX: u64 = 400;
const YEAR_MS: i64 = 365 * 24 * 3_600_000;

/// How a life ended that no power cut has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lived {
    Well,
    /// The storage has failed, as it must after a failed write or flush.
    Failed,
}

/// What this life is.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    pub end: End,
    /// Each life has its own, as each start elects a leader.
    pub epoch: LeaderEpoch,
    /// Somebody has deleted indexes and checkpoints, or a start has misread them, some time before.
    pub caches_lost: bool,
    /// One batch in so many waits for a flush; the others are flushed when storage finds it time.
    pub flushes_one_in: u64,
}

/// What all tasks of a life share.
pub struct Shard {
    pub world: World,
    pub storage: Storage,
    pub ghost: Rc<RefCell<Ghost>>,
    pub logs: RefCell<Vec<Log>>,
    pub life: Life,
    pub stopping: Cell<bool>,
    /// Nothing new is begun in the background, and so many of its tasks have not come to rest yet.
    pub resting: Cell<bool>,
    pub tasks: Cell<u32>,
    pub outcome: Rc<RefCell<Outcome>>,
    /// When somebody has set the wall clock, on the machine's own.
    pub clock_set_at: Cell<Option<u64>>,
}

pub fn settings() -> Settings {
    Settings {
        wal_extent_bytes: 64 << 10,
        wal_bytes_max: 256 << 10,
        commit_bytes_max: 8 << 10,
        bypass_bytes_min: 4 << 10,
        unflushed_bytes_max: 24 << 10,
        backlog_bytes_max: 1 << 20,
        tail_cache_bytes: 2 << 20,
        disk_reserve_bytes: 1 << 20,
    }
}

fn id(index: u64) -> PartitionId {
    PartitionId {
        topic: TopicId([7; 16]),
        index: index as i32,
    }
}

/// From the storage's opening to its end.
pub async fn live_once(
    world: World,
    ghost: Rc<RefCell<Ghost>>,
    outcome: Rc<RefCell<Outcome>>,
    recovery: Recovery,
    life: Life,
) -> Lived {
    let failed = |error: StorageError| {
        assert_eq!(life.end, End::Failure, "storage fails by itself: {error}");
        Lived::Failed
    };
    let storage = match Storage::open(&Reactor, Path::new(DATA), 0, settings()).await {
        Ok(storage) => storage,
        Err(error) => return failed(error),
    };
    let logs = match attach(&world, &storage, &ghost, recovery, life).await {
        Ok(logs) => logs,
        Err(error) => return failed(error),
    };
    let shard = Rc::new(Shard {
        world,
        storage,
        ghost,
        logs: RefCell::new(logs),
        life,
        stopping: Cell::new(false),
        resting: Cell::new(false),
        tasks: Cell::new(0),
        outcome,
        clock_set_at: Cell::new(None),
    });
    background::start(&shard);
    for _ in 0..shard.world.below(ACTIONS_MAX) {
        if let Err(error) = shard.act().await {
            return failed(error);
        }
    }
    if life.end == End::Misread {
        background::clean_misreading(&shard).await;
        background::read_misreading(&shard).await;
    }
    shard.stop().await;
    match shard.storage.failed() {
        Some(error) => failed(error),
        None => Lived::Well,
    }
}

/// Takes over what recovery found, and compares every byte of it with what must be there.
pub async fn attach(
    world: &World,
    storage: &Storage,
    ghost: &Rc<RefCell<Ghost>>,
    recovery: Recovery,
    life: Life,
) -> Result<Vec<Log>, StorageError> {
    // A partition that could not be read for now is not served, and is whole at the next start.
    let unreadable: Vec<String> = recovery.damaged.iter().map(name).collect();
    assert!(
        unreadable.is_empty() || matches!(life.end, End::Failure | End::Misread),
        "damage is reported where none is: {:?}",
        recovery.damaged
    );
    let found: Vec<PartitionId> = recovery.logs.iter().map(RecoveredLog::id).collect();
    for (id, log) in &mut ghost.borrow_mut().logs {
        let prefix = format!("topic-{}.", id.index);
        if unreadable.iter().any(|name| name.starts_with(&prefix)) {
            continue;
        }
        match (log.presence, found.contains(id)) {
            (Presence::There, false) => panic!("{id:?} is gone"),
            (Presence::Gone, true) => panic!("{id:?} was deleted and is back"),
            (Presence::Asked | Presence::Going, false) => log.presence = Presence::Gone,
            _ => {}
        }
    }
    let mut logs = Vec::new();
    for recovered in recovery.logs {
        let id = recovered.id();
        let config = {
            let mut ghost = ghost.borrow_mut();
            let known = ghost.logs.get_mut(&id);
            let known = known.unwrap_or_else(|| panic!("{id:?} was never asked for"));
            known.found(recovered.log_start(), recovered.log_end());
            check_producers(known, &recovered, life);
            known.policy.again(world);
            known.policy.config
        };
        let log = storage.attach(recovered, config).await?;
        know_producers(ghost, &log, world);
        check_read(ghost, &log, log.log_start()).await?;
        logs.push(log);
    }
    Ok(logs)
}

fn name(damaged: &Damaged) -> String {
    let name = damaged.directory.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// What is known of producers is a fold over the whole log (invariant 19). Once its caches were deleted or
/// misread, only those are known for sure of whom the log held something then.
fn check_producers(known: &mut GhostLog, recovered: &RecoveredLog, life: Life) {
    let snapshot = &recovered.producer_snapshot;
    let mut found = if snapshot.is_empty() {
        Producers::new()
    } else {
        Producers::decode_snapshot(Instant(0), snapshot, crc32c::crc32c).expect("a snapshot")
    };
    for (batch, base) in recovered.batches_after_snapshot() {
        found.replay(Instant(0), &batch, base);
    }
    if life.caches_lost {
        known.forgotten_below = known.start;
    }
    let last = |producers: &Producers| -> Vec<_> {
        let each = producers.iter();
        let each = each.map(|it| (it.producer_id, it.last_sequence, it.last_offset));
        each.filter(|(.., last)| *last >= known.forgotten_below)
            .collect()
    };
    assert_eq!(
        last(&found),
        last(&known.producers()),
        "what is known of producers"
    );
}

/// Half of the logs have somebody who keeps the producers' state, as a leader does.
fn know_producers(ghost: &Rc<RefCell<Ghost>>, log: &Log, world: &World) {
    if world.one_in(2) {
        let (ghost, id) = (ghost.clone(), log.id());
        log.set_producer_snapshot_source(Rc::new(move || {
            let producers = ghost.borrow().logs[&id].producers();
            Bytes::from(producers.encode_snapshot(crc32c::crc32c))
        }));
    }
}

impl Shard {
    async fn act(&self) -> Result<(), StorageError> {
        match self.world.below(45) {
            0 => self.create().await,
            1 if self.world.one_in(4) => self.delete().await,
            2 => self.move_start().await,
            3..=5 => self.read().await,
            6..=9 => {
                self.pause().await;
                Ok(())
            }
            10..=12 => {
                reactor::yield_now().await;
                Ok(())
            }
            13..=15 => self.wait_until_durable().await,
            16 => self.look_up_time().await,
            17 => {
                self.open_or_end_transaction();
                Ok(())
            }
            18 if self.world.one_in(8) => {
                self.set_clock();
                Ok(())
            }
            19 if self.world.one_in(6) => {
                background::run_short_of_space(self).await;
                Ok(())
            }
            _ => self.append(),
        }
    }

    async fn stop(&self) {
        if self.life.end != End::CleanStop && !self.world.one_in(3) {
            return;
        }
        self.stopping.set(true);
        self.storage.close().await;
        self.note_durable();
        if self.life.end == End::CleanStop {
            let ghost = self.ghost.borrow();
            for (id, log) in &ghost.logs {
                let all = log.presence != Presence::There || log.durable == log.end();
                assert!(all, "a clean stop leaves nothing of {id:?} behind");
            }
        }
    }

    /// Takes note of what is said to be durable.
    pub fn note_durable(&self) {
        for log in &*self.logs.borrow() {
            self.with(log, |known| {
                if known.presence == Presence::There {
                    assert!(log.durable() <= log.written() && log.written() <= log.log_end());
                    known.durable_is(log.durable());
                }
            });
        }
    }

    /// What is known of a log.
    pub fn with<T>(&self, log: &Log, work: impl FnOnce(&mut GhostLog) -> T) -> T {
        let mut ghost = self.ghost.borrow_mut();
        work(ghost.logs.get_mut(&log.id()).expect("known"))
    }

    /// Whether a log is still served.
    pub fn serves(&self, log: &Log) -> bool {
        let logs = self.logs.borrow();
        !self.stopping.get() && logs.iter().any(|it| it.id() == log.id())
    }

    fn any(&self) -> Option<Log> {
        let logs = self.logs.borrow();
        let count = logs.len() as u64;
        (count > 0).then(|| logs[self.world.below(count) as usize].clone())
    }

    /// Mostly for moments, sometimes for longer than logs keep anything.
    async fn pause(&self) {
        let micros = if self.world.one_in(8) {
            3_000_000
        } else {
            200_000
        };
        reactor::timer::sleep(Duration::from_micros(self.world.below(micros))).await;
    }

    async fn create(&self) -> Result<(), StorageError> {
        let id = id(self.world.below(PARTITIONS));
        // A log that was deleted comes back as another one, under another id, so never again here.
        if self.ghost.borrow().logs.contains_key(&id) {
            return Ok(());
        }
        let policy = Policy::choose(&self.world);
        let asked = GhostLog::asked(policy);
        self.ghost.borrow_mut().logs.insert(id, asked);
        let now_ms = self.world.wall_ms();
        let created = self.storage.create(id, "topic", policy.config, now_ms);
        let log = created.await?;
        self.with(&log, |known| known.presence = Presence::There);
        know_producers(&self.ghost, &log, &self.world);
        self.logs.borrow_mut().push(log);
        Ok(())
    }

    async fn delete(&self) -> Result<(), StorageError> {
        let Some(log) = self.any() else {
            return Ok(());
        };
        self.with(&log, |known| known.presence = Presence::Going);
        self.logs.borrow_mut().retain(|it| it.id() != log.id());
        log.delete().await?;
        self.with(&log, |known| known.presence = Presence::Gone);
        self.outcome.borrow_mut().deleted += 1;
        Ok(())
    }

    async fn move_start(&self) -> Result<(), StorageError> {
        let Some(log) = self.any() else {
            return Ok(());
        };
        // As DeleteRecords does it: never past what is durable.
        let room = (log.durable().0 - log.log_start().0).max(0) as u64;
        let start = Offset(log.log_start().0 + self.world.below(room + 1) as i64);
        self.with(&log, |known| {
            known.durable_is(log.durable());
            known.start_asked = known.start_asked.max(start);
        });
        log.set_log_start(start).await?;
        self.with(&log, |known| known.start = known.start.max(start));
        Ok(())
    }

    async fn read(&self) -> Result<(), StorageError> {
        let Some(log) = self.any() else {
            return Ok(());
        };
        let (start, end) = (log.log_start(), log.log_end());
        let room = (end.0 - start.0).max(0) as u64;
        let from = Offset(start.0 + self.world.below(room + 1) as i64);
        check_read(&self.ghost, &log, from).await
    }

    async fn look_up_time(&self) -> Result<(), StorageError> {
        let Some(log) = self.any() else {
            return Ok(());
        };
        let ago = self.world.below(4_000) as i64;
        check_time(&self.ghost, &log, self.world.wall_ms() - ago).await
    }

    fn open_or_end_transaction(&self) {
        if let Some(log) = self.any() {
            self.with(&log, |known| {
                known.stable = match known.stable {
                    None => Some(known.durable),
                    Some(_) => None,
                }
            });
        }
    }

    fn set_clock(&self) {
        self.world.set_wall_clock_forward(YEAR_MS);
        self.clock_set_at.set(Some(self.world.now()));
    }

    async fn wait_until_durable(&self) -> Result<(), StorageError> {
        let Some(log) = self.any() else {
            return Ok(());
        };
        let end = log.log_end();
        while log.durable() < end {
            if let Some(error) = self.storage.failed() {
                return Err(error);
            }
            reactor::timer::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    fn append(&self) -> Result<(), StorageError> {
        let Some(log) = self.any() else {
            return Ok(());
        };
        if self.storage.is_short_of_space() {
            return Ok(());
        }
        let epoch = self.life.epoch;
        let (sent, batch) = self.with(&log, |known| {
            assert_eq!(log.log_end(), known.end(), "offsets have no holes");
            let (sent, batch) = producing::batch(&self.world, known, epoch);
            // Whoever keeps the producers' state has this batch in it when storage asks.
            known.batches.push(batch.clone());
            (sent, batch)
        });
        let append = AppendBatch {
            bytes: &sent,
            base_offset: batch.base,
            leader_epoch: epoch,
            append_time: None,
            flush: self.world.one_in(self.life.flushes_one_in),
        };
        let appended = log.append(self.world.wall_ms(), &append);
        if appended.is_err() {
            self.with(&log, |known| known.batches.pop());
        }
        appended
    }
}
