//! One seed's story: lives of a shard's storage, each ended by a power cut, a failed operation or a clean
//! stop, and a look at all that is there when the next one begins.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use logic::ids::{LeaderEpoch, Offset, PartitionId, TopicId};
use reactor::Reactor;
use reactor::disk::Survival;
use reactor::world::{Bug, Faults, PowerCut, World};
use simulated::storage::{
    AppendBatch, Damaged, Log, LogConfig, Read, ReadError, RecoveredLog, Recovery, Settings,
    Storage, StorageError, recover,
};

use crate::ghost::{Ghost, GhostBatch, GhostLog, Presence};

const DATA: &str = "/data";
const PARTITIONS: u64 = 5;
const ACTIONS_MAX: u64 = 400;
const RECORD_BYTES_MAX: u64 = 1_500;
const SEGMENT_BYTES: [u32; 3] = [8 << 10, 40 << 10, 200 << 10];
/// More than any life takes.
const OPERATIONS_MAX: u64 = 500;

/// What is to happen.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub lives: u64,
    pub bug: Option<Bug>,
    /// This operation of the first life fails, and nothing else goes wrong in it.
    pub fail_at: Option<u64>,
    pub tell: bool,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub trace: u64,
    pub operations: u64,
    pub appended: u64,
    pub power_cuts: u64,
    pub failures: u64,
    /// Operations until the end of the first life.
    pub first_life: u64,
}

/// How a life was to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    PowerCut,
    Failure,
    CleanStop,
}

struct Teller {
    world: World,
    ghost: Rc<RefCell<Ghost>>,
    outcome: Outcome,
}

/// Lives through it; panics when something is not as it must be.
pub fn live(plan: Plan) -> Outcome {
    let world = World::new(plan.seed);
    if plan.tell {
        world.tell();
    }
    let mut teller = Teller {
        world: world.clone(),
        ghost: Rc::default(),
        outcome: Outcome {
            trace: 0,
            operations: 0,
            appended: 0,
            power_cuts: 0,
            failures: 0,
            first_life: 0,
        },
    };
    // Whoever starts a broker has made its directory durable.
    world
        .run_blocking(|| {
            reactor::blocking::fs::create_dir_all(DATA).expect("an empty disk");
            let root = reactor::blocking::fs::File::open("/").expect("the root");
            root.sync_all().expect("no faults yet");
        })
        .expect("no power cut yet");
    let begun = world.operations();
    for life in 0..plan.lives {
        teller.life(plan, life);
        if life == 0 {
            teller.outcome.first_life = world.operations() - begun;
        }
    }
    teller.last_look(plan);
    teller.outcome.trace = world.trace();
    teller.outcome.operations = world.operations();
    teller.outcome.appended = {
        let ghost = teller.ghost.borrow();
        ghost
            .logs
            .values()
            .map(|log| log.batches.len() as u64)
            .sum()
    };
    teller.outcome
}

impl Teller {
    fn life(&mut self, plan: Plan, life: u64) {
        let world = self.world.clone();
        let end = match world.below(4) {
            _ if life == 0 && plan.fail_at.is_some() => End::Failure,
            0 => End::CleanStop,
            1 => End::Failure,
            _ => End::PowerCut,
        };
        let at = world.operations() + 1 + world.below(OPERATIONS_MAX);
        let sweep = plan.fail_at.filter(|_| life == 0);
        world.set_faults(Faults {
            power_cut_at: (end == End::PowerCut).then_some(at),
            fail_at: (end == End::Failure)
                .then(|| sweep.map_or(at, |number| world.operations() + number)),
            full: world.one_in(2),
            bug: plan.bug,
        });
        let ended = self.start(end);
        self.outcome.power_cuts += u64::from(ended == Err(PowerCut));
        let survival = match world.below(4) {
            0 => Survival::Nothing,
            1 => Survival::All,
            _ => Survival::Some,
        };
        world.power_cut(survival);
    }

    /// From start-up to the end of a life.
    fn start(&mut self, end: End) -> Result<(), PowerCut> {
        let world = self.world.clone();
        let settings = settings();
        let recovery = world.run_blocking(|| recover(Path::new(DATA), &settings))?;
        let Ok(recovery) = recovery else {
            assert_eq!(end, End::Failure, "recovery fails by itself");
            self.outcome.failures += 1;
            return Ok(());
        };
        let ghost = self.ghost.clone();
        let life = world.run(live_once(world.clone(), ghost, recovery, end))?;
        self.outcome.failures += u64::from(life == Lived::Failed);
        Ok(())
    }

    /// Without faults all is there, twice the same.
    fn last_look(&mut self, plan: Plan) {
        let world = self.world.clone();
        world.set_faults(Faults {
            bug: plan.bug,
            ..Faults::default()
        });
        for _ in 0..2 {
            let found = world.run_blocking(|| recover(Path::new(DATA), &settings()));
            let recovery = found.expect("no power cut").expect("no fault");
            let ghost = self.ghost.clone();
            let reactor_world = world.clone();
            world
                .run(async move {
                    let reactor = Reactor;
                    let opened = Storage::open(&reactor, Path::new(DATA), 0, settings()).await;
                    let storage = opened.expect("no fault");
                    attach(&reactor_world, &storage, &ghost, recovery, End::CleanStop)
                        .await
                        .expect("no fault");
                })
                .expect("no power cut");
            world.power_cut(Survival::All);
        }
    }
}

fn settings() -> Settings {
    Settings {
        wal_extent_bytes: 64 << 10,
        wal_bytes_max: 256 << 10,
        commit_bytes_max: 32 << 10,
        tail_cache_bytes: 2 << 20,
        ..Settings::default()
    }
}

fn id(index: u64) -> PartitionId {
    PartitionId {
        topic: TopicId([7; 16]),
        index: index as i32,
    }
}

/// How a life ended that no power cut has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lived {
    Well,
    /// The storage has failed, as it must after a failed write or flush.
    Failed,
}

async fn live_once(world: World, ghost: Rc<RefCell<Ghost>>, recovery: Recovery, end: End) -> Lived {
    let failed = |error: StorageError| {
        assert_eq!(end, End::Failure, "storage fails by itself: {error}");
        Lived::Failed
    };
    let reactor = Reactor;
    let storage = match Storage::open(&reactor, Path::new(DATA), 0, settings()).await {
        Ok(storage) => storage,
        Err(error) => return failed(error),
    };
    let logs = match attach(&world, &storage, &ghost, recovery, end).await {
        Ok(logs) => logs,
        Err(error) => return failed(error),
    };
    let mut shard = Shard {
        world: world.clone(),
        reactor,
        storage,
        ghost,
        logs: Rc::new(RefCell::new(logs)),
    };
    reactor::spawn(observe(
        shard.storage.clone(),
        shard.ghost.clone(),
        shard.logs.clone(),
    ));
    for _ in 0..world.below(ACTIONS_MAX) {
        if let Err(error) = shard.act().await {
            return failed(error);
        }
    }
    if end == End::CleanStop || world.one_in(3) {
        shard.storage.close().await;
        note_durable(&shard.ghost, &shard.logs);
        if end == End::CleanStop {
            for (id, log) in &mut shard.ghost.borrow_mut().logs {
                let all = log.presence != Presence::There || log.durable == log.end();
                assert!(all, "a clean stop leaves nothing of {id:?} behind");
            }
        }
    }
    match shard.storage.failed() {
        Some(error) => failed(error),
        None => Lived::Well,
    }
}

/// Takes over what recovery found, and compares every byte of it with what must be there.
async fn attach(
    world: &World,
    storage: &Storage,
    ghost: &Rc<RefCell<Ghost>>,
    recovery: Recovery,
    end: End,
) -> Result<Vec<Log>, StorageError> {
    // A partition that could not be read for now is not served, and is whole at the next start.
    let unreadable: Vec<String> = recovery.damaged.iter().map(name).collect();
    assert!(
        unreadable.is_empty() || end == End::Failure,
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
        {
            let mut ghost = ghost.borrow_mut();
            let known = ghost.logs.get_mut(&id);
            let known = known.unwrap_or_else(|| panic!("{id:?} was never asked for"));
            known.found(recovered.log_start(), recovered.log_end());
            check_producers(known, &recovered);
        }
        let log = storage.attach(recovered, config(world)).await?;
        let start = log.log_start();
        check_read(&Reactor, ghost, &log, start).await?;
        logs.push(log);
    }
    Ok(logs)
}

fn name(damaged: &Damaged) -> String {
    let name = damaged.directory.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The producer's state is that of a fold over the whole log (invariant 19).
fn check_producers(known: &GhostLog, recovered: &RecoveredLog) {
    let idempotent = known.batches.iter();
    let wanted: Vec<_> = idempotent
        .filter_map(|batch| Some((batch.base, batch.sequence?)))
        .collect();
    let found = recovered.batches_after_snapshot();
    let found: Vec<_> = found
        .iter()
        .map(|(summary, base)| (*base, summary.base_sequence))
        .collect();
    assert!(recovered.producer_snapshot.is_empty());
    assert_eq!(found, wanted, "what is known of producers");
}

fn config(world: &World) -> LogConfig {
    let segment_bytes = SEGMENT_BYTES[world.below(3) as usize];
    LogConfig {
        segment_bytes,
        ..LogConfig::default()
    }
}

/// Reads from `from` to the end and compares.
async fn check_read(
    reactor: &Reactor,
    ghost: &Rc<RefCell<Ghost>>,
    log: &Log,
    from: Offset,
) -> Result<(), StorageError> {
    let mut offset = from;
    loop {
        let end = log.log_end();
        if offset >= end {
            return Ok(());
        }
        let read = match log.read(offset, end, 20_000, true) {
            Ok(Read::Lookup) => log.read_slow(offset, end, 20_000, true).await,
            read => read,
        };
        let bytes = match read {
            Ok(Read::Memory(parts)) => parts.concat(),
            Ok(Read::File {
                file,
                position,
                len,
                ..
            }) => {
                let read = file.read_at(reactor, position, len).await;
                let path = Path::new("a segment");
                let bytes = read.map_err(|error| StorageError::io("read", path, error))?;
                assert_eq!(bytes.len(), len, "a segment is as long as it must be");
                bytes.to_vec()
            }
            Ok(Read::Empty) => panic!("nothing is read at {offset:?} below {end:?}"),
            Ok(Read::Lookup) => panic!("a look-up that asks for a look-up"),
            // Retention was faster.
            Err(ReadError::OffsetOutOfRange) if offset < log.log_start() => return Ok(()),
            Err(ReadError::OffsetOutOfRange) => panic!("{offset:?} is in range"),
            Err(ReadError::Storage(error)) => return Err(error),
        };
        let ghost = ghost.borrow();
        let known = &ghost.logs[&log.id()];
        let mut wanted = known.bytes(offset, end);
        wanted.truncate(bytes.len());
        assert!(
            bytes == wanted && !bytes.is_empty(),
            "{:?} has other bytes at {offset:?} than were appended",
            log.id()
        );
        let mut left = bytes.len();
        let from = offset;
        for batch in known.batches.iter().filter(|batch| batch.end > from) {
            if left < batch.bytes.len() {
                break;
            }
            left -= batch.bytes.len();
            offset = batch.end;
        }
        assert_eq!(left, 0, "whole batches are read");
    }
}

/// Takes note of what is said to be durable, as soon as it is said.
async fn observe(storage: Storage, ghost: Rc<RefCell<Ghost>>, logs: Logs) {
    while storage.failed().is_none() {
        storage.progressed().await;
        note_durable(&ghost, &logs);
    }
}

fn note_durable(ghost: &Rc<RefCell<Ghost>>, logs: &Logs) {
    let mut ghost = ghost.borrow_mut();
    for log in &*logs.borrow() {
        let known = ghost.logs.get_mut(&log.id()).expect("known");
        if known.presence == Presence::There {
            assert!(log.durable() <= log.written() && log.written() <= log.log_end());
            known.durable_is(log.durable());
        }
    }
}

type Logs = Rc<RefCell<Vec<Log>>>;

struct Shard {
    world: World,
    reactor: Reactor,
    storage: Storage,
    ghost: Rc<RefCell<Ghost>>,
    logs: Logs,
}

impl Shard {
    async fn act(&mut self) -> Result<(), StorageError> {
        match self.world.below(40) {
            0 => self.create().await,
            1 if self.world.one_in(4) => self.delete().await,
            2 => self.move_start().await,
            3..=5 => self.read().await,
            6..=9 => {
                let time = std::time::Duration::from_micros(self.world.below(200_000));
                reactor::timer::sleep(time).await;
                Ok(())
            }
            10..=12 => {
                reactor::yield_now().await;
                Ok(())
            }
            13..=15 => self.wait_until_durable().await,
            _ => self.append(),
        }
    }

    fn any(&self) -> Option<Log> {
        let logs = self.logs.borrow();
        let count = logs.len() as u64;
        (count > 0).then(|| logs[self.world.below(count) as usize].clone())
    }

    async fn create(&mut self) -> Result<(), StorageError> {
        let id = id(self.world.below(PARTITIONS));
        // A log that was deleted comes back as another one, under another id, so never again here.
        if self.ghost.borrow().logs.contains_key(&id) {
            return Ok(());
        }
        let asked = GhostLog::asked();
        self.ghost.borrow_mut().logs.insert(id, asked);
        let config = config(&self.world);
        let log = self.storage.create(id, "topic", config, 0).await?;
        let mut ghost = self.ghost.borrow_mut();
        ghost.logs.get_mut(&id).expect("asked for").presence = Presence::There;
        drop(ghost);
        self.logs.borrow_mut().push(log);
        Ok(())
    }

    async fn delete(&mut self) -> Result<(), StorageError> {
        let Some(log) = self.any() else {
            return Ok(());
        };
        let id = log.id();
        self.set_presence(id, Presence::Going);
        self.logs.borrow_mut().retain(|log| log.id() != id);
        log.delete().await?;
        self.set_presence(id, Presence::Gone);
        Ok(())
    }

    fn set_presence(&self, id: PartitionId, presence: Presence) {
        let mut ghost = self.ghost.borrow_mut();
        ghost.logs.get_mut(&id).expect("known").presence = presence;
    }

    async fn move_start(&mut self) -> Result<(), StorageError> {
        let Some(log) = self.any() else {
            return Ok(());
        };
        // As DeleteRecords does it: never past what is durable.
        let room = (log.durable().0 - log.log_start().0).max(0) as u64;
        let start = Offset(log.log_start().0 + self.world.below(room + 1) as i64);
        {
            let mut ghost = self.ghost.borrow_mut();
            let known = ghost.logs.get_mut(&log.id()).expect("known");
            known.durable_is(log.durable());
            known.start_asked = known.start_asked.max(start);
        }
        log.set_log_start(start).await?;
        let mut ghost = self.ghost.borrow_mut();
        let known = ghost.logs.get_mut(&log.id()).expect("known");
        known.start = known.start.max(start);
        Ok(())
    }

    async fn read(&self) -> Result<(), StorageError> {
        let Some(log) = self.any() else {
            return Ok(());
        };
        let (start, end) = (log.log_start(), log.log_end());
        let room = (end.0 - start.0).max(0) as u64;
        let from = Offset(start.0 + self.world.below(room + 1) as i64);
        check_read(&self.reactor, &self.ghost, &log, from).await
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
            reactor::timer::sleep(std::time::Duration::from_millis(1)).await;
        }
        Ok(())
    }

    fn append(&mut self) -> Result<(), StorageError> {
        let Some(log) = self.any() else {
            return Ok(());
        };
        let mut ghost = self.ghost.borrow_mut();
        let known = ghost.logs.get_mut(&log.id()).expect("known");
        let base = log.log_end();
        assert_eq!(base, known.end(), "offsets have no holes");
        let (records, bytes, sequence) = self.batch(known.next_sequence);
        let append = AppendBatch {
            bytes: &bytes,
            base_offset: base,
            leader_epoch: LeaderEpoch(0),
            append_time: None,
            flush: self.world.one_in(2),
        };
        log.append(1, &append)?;
        let mut stamped = bytes;
        wire::batch::stamp(&mut stamped, base.0, 0);
        let end = Offset(base.0 + i64::from(records));
        known.next_sequence += if sequence.is_some() { records } else { 0 };
        known.batches.push(GhostBatch {
            base,
            end,
            bytes: stamped,
            sequence,
        });
        Ok(())
    }

    /// A batch as a producer sends it: how many records, its bytes, its first sequence number.
    fn batch(&self, next_sequence: i32) -> (i32, Vec<u8>, Option<i32>) {
        let sequence = self.world.one_in(2).then_some(next_sequence);
        let mut builder = wire::records::BatchBuilder::new(wire::Compression::None);
        if let Some(sequence) = sequence {
            builder = builder.producer(42, 0, sequence);
        }
        let records = 1 + self.world.below(8) as i32;
        for _ in 0..records {
            let value =
                vec![self.world.below(256) as u8; self.world.below(RECORD_BYTES_MAX) as usize];
            builder.push(1, None, Some(&value), &[]);
        }
        let bytes = builder.finish().expect("a batch").to_vec();
        (records, bytes, sequence)
    }
}
