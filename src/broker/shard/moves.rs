//! Partitions on their way to another data directory of this broker (KIP-113), one at a time in each shard: copied
//! in the background while they are served, then switched over while what is sent to them waits for a moment.
//! Knows not how a log is copied, or how one takes the other's place.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use logic::ids::{Offset, PartitionId};

use super::directories::DirId;
use super::hosted::{Partition, Waiting};
use super::mail::{LogRow, Refused};
use super::{Shard, groups, held, metadata};
use crate::storage::{Copied, Copy, NotMoved, Storage, StorageError};

/// With so many bytes left, what is sent to the partition waits while the rest is copied.
const SWITCH_BYTES_MAX: u64 = 4 << 20;
/// How often it is looked whether the log cleaner is done with a log.
const CLEANER_POLL: Duration = Duration::from_millis(20);

/// The moves of one shard.
#[derive(Default)]
pub struct Moves {
    /// Those that are asked for and neither done nor given up.
    all: RefCell<HashMap<PartitionId, Rc<Move>>>,
    /// Those that have not begun.
    queue: RefCell<VecDeque<Rc<Move>>>,
    running: Cell<Option<PartitionId>>,
    /// The log that the cleaner is at.
    cleaning: Cell<Option<PartitionId>>,
}

/// One partition's move.
struct Move {
    id: PartitionId,
    to: DirId,
    copied: Cell<Copied>,
    cancelled: Cell<bool>,
}

impl Moves {
    /// Whether a partition's log is being copied, so that it must not be cleaned.
    pub fn is_moving(&self, id: PartitionId) -> bool {
        self.running.get() == Some(id)
    }

    /// The log that the cleaner is at, or none.
    pub fn set_cleaning(&self, id: Option<PartitionId>) {
        self.cleaning.set(id);
    }

    /// Gives a move up, if there is one.
    pub fn cancel(&self, id: PartitionId) {
        if let Some(it) = self.all.borrow_mut().remove(&id) {
            it.cancelled.set(true);
        }
    }

    /// The copies that are under way, as DescribeLogDirs shows them.
    pub fn describe(&self, shard: &Shard) -> Vec<LogRow> {
        let all = self.all.borrow();
        let row = |it: &Rc<Move>| {
            let partition = shard.hosted.get(it.id)?;
            let Copied { bytes, end } = it.copied.get();
            let lag = partition.log().log_end().0 - end.0;
            Some(LogRow {
                partition: it.id,
                dir: it.to,
                bytes,
                future_lag: Some(lag.max(0)),
            })
        };
        all.values().filter_map(row).collect()
    }
}

/// Has partitions moved, each to a directory. As in Kafka the answer says that it was begun.
pub(super) fn ask(shard: &Rc<Shard>, items: &[(PartitionId, DirId)]) -> Vec<Result<(), Refused>> {
    let answers = items.iter().map(|(id, to)| begin(shard, *id, *to));
    let answers = answers.collect();
    run_next(shard);
    answers
}

fn begin(shard: &Rc<Shard>, id: PartitionId, to: DirId) -> Result<(), Refused> {
    let moves = &shard.moves;
    let partition = shard.hosted.find(id)?;
    if !shard.directories.is_online(to) || shard.storage(to).is_none() {
        return Err(Refused::Storage);
    }
    let known = moves.all.borrow().get(&id).map(|it| it.to);
    if known == Some(to) {
        return Ok(());
    }
    moves.cancel(id);
    // One that is just being switched over may be elsewhere in a moment, given up or not.
    if partition.dir() == to && !moves.is_moving(id) {
        return Ok(());
    }
    let it = Rc::new(Move {
        id,
        to,
        copied: Cell::default(),
        cancelled: Cell::new(false),
    });
    moves.all.borrow_mut().insert(id, it.clone());
    moves.queue.borrow_mut().push_back(it);
    Ok(())
}

/// Begins the next move, if none is under way.
fn run_next(shard: &Rc<Shard>) {
    let moves = &shard.moves;
    if moves.running.get().is_some() || shard.stopping() {
        return;
    }
    let next = loop {
        let next = moves.queue.borrow_mut().pop_front();
        match next {
            Some(it) if it.cancelled.get() => {}
            other => break other,
        }
    };
    if let Some(it) = next {
        moves.running.set(Some(it.id));
        let reactor = shard.reactor.clone();
        reactor.spawn_background(run(shard.clone(), it));
    }
}

async fn run(shard: Rc<Shard>, it: Rc<Move>) {
    while shard.moves.cleaning.get() == Some(it.id) {
        reactor::timer::sleep(CLEANER_POLL).await;
    }
    match copy(&shard, &it).await {
        Ok(Some((partition, copy))) => {
            // What waits now gets all of the core.
            reactor::spawn(async move {
                switch(&shard, &it, &partition, copy).await;
                end(&shard, &it);
            });
            return;
        }
        Ok(None) => {}
        Err(error) => told(&shard, &it, "is not moved", &error),
    }
    end(&shard, &it);
}

fn end(shard: &Rc<Shard>, it: &Rc<Move>) {
    let moves = &shard.moves;
    let mut all = moves.all.borrow_mut();
    if all.get(&it.id).is_some_and(|other| Rc::ptr_eq(other, it)) {
        all.remove(&it.id);
    }
    drop(all);
    moves.running.set(None);
    run_next(shard);
}

fn name(shard: &Shard, id: PartitionId) -> String {
    let topic = shard.metadata.topic_name(id.topic).unwrap_or_default();
    format!("{topic}-{}", id.index)
}

fn told(shard: &Shard, it: &Move, what: &str, error: &StorageError) {
    let (name, to) = (name(shard, it.id), shard.directories.path(it.to).display());
    eprintln!("error: {name} {what} to {to}: {error}");
}

/// Copies nearly all of a partition's log; none when the move was given up.
async fn copy(shard: &Rc<Shard>, it: &Move) -> Result<Option<(Rc<Partition>, Copy)>, StorageError> {
    let partition = shard.hosted.get(it.id);
    let storage = shard.storage(it.to);
    let (Some(partition), Some(storage)) = (partition, storage) else {
        return Ok(None);
    };
    if partition.dir() == it.to {
        return Ok(None);
    }
    let mut copy = storage.begin_copy(&partition.log()).await?;
    let copied = fill(shard, it, storage, &mut copy).await;
    match copied {
        Ok(true) => Ok(Some((partition, copy))),
        Ok(false) => {
            copy.discard().await;
            Ok(None)
        }
        Err(error) => {
            copy.discard().await;
            Err(error)
        }
    }
}

/// Copies until little is left; `false` when the move was given up.
async fn fill(
    shard: &Shard,
    it: &Move,
    storage: &Storage,
    copy: &mut Copy,
) -> Result<bool, StorageError> {
    let given_up = || it.cancelled.get() || shard.stopping() || shard.hosted.get(it.id).is_none();
    loop {
        let go_on = |copied| {
            it.copied.set(copied);
            !given_up() && !storage.is_short_of_space()
        };
        copy.catch_up(go_on).await?;
        if given_up() {
            return Ok(false);
        }
        if storage.is_short_of_space() {
            return Err(StorageError::Failed(
                "too little space is left there".into(),
            ));
        }
        if copy.left_bytes() <= SWITCH_BYTES_MAX {
            return Ok(true);
        }
        reactor::yield_now().await;
    }
}

/// Puts the copy in the log's place, while what is sent to the partition waits.
async fn switch(shard: &Rc<Shard>, it: &Move, partition: &Rc<Partition>, copy: Copy) {
    let begun = Instant::now();
    let from = partition.dir();
    partition.pause();
    let log = partition.log();
    let is_flushed = log.flushed().await;
    let mut owed = Vec::new();
    shard.hosted.progressed(it.id, !is_flushed, &mut owed);
    shard.deliver(owed);
    let is_served = shard.hosted.get(it.id).is_some();
    if !is_flushed || it.cancelled.get() || shard.stopping() || !is_served {
        copy.discard().await;
        return resume(shard, it.id, partition, from);
    }
    let end = log.log_end();
    match copy.take_place().await {
        Ok(log) => {
            shard.hosted.relocate(it.id, partition, log, it.to);
            metadata::configure(shard, it.id, partition);
            tell(shard, it, end, begun.elapsed());
            if !shard.directories.is_online(it.to) {
                take_offline(shard, it.id);
            }
        }
        Err(NotMoved::Stayed(error)) => told(shard, it, "is not moved", &error),
        Err(NotMoved::Unknown(error)) => {
            told(
                shard,
                it,
                "is offline until a restart, amid its move",
                &error,
            );
            take_offline(shard, it.id);
        }
    }
    resume(shard, it.id, partition, from);
}

fn tell(shard: &Shard, it: &Move, end: Offset, paused: Duration) {
    let (name, to) = (name(shard, it.id), shard.directories.path(it.to).display());
    eprintln!(
        "moved: {name} is in {to} now, up to offset {}; appends waited for {} ms",
        end.0,
        paused.as_millis()
    );
}

fn take_offline(shard: &Rc<Shard>, id: PartitionId) {
    shard.directories.take_partition_offline(id);
    let mut owed = Vec::new();
    shard.hosted.remove(id, &mut owed);
    shard.deliver(owed);
    groups::leave(shard, id);
}

/// Lets in what has waited, in the order in which it came: what was held for the old directory's sake came later.
fn resume(shard: &Rc<Shard>, id: PartitionId, partition: &Partition, from: DirId) {
    for Waiting { job, acks, item } in partition.resume() {
        shard.append(&job, acks, vec![item]);
    }
    held::release_now(shard, from, id);
}
