//! The partitions that this shard leads: feeds events to each leader and carries out its effects.
//! Knows nothing of connections or of Kafka's frames.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use logic::ids::{Instant, Offset, PartitionId, Timestamp};
use logic::partition::leader::{Acks, Effect, Event, Leader, Outcome, Rules, Token};

use super::directories::{DirId, Directories};
use super::mail::{Answer, ProduceItem, Refused, ShardId};
use crate::storage::{AppendBatch, Log, Signal, StorageError};

/// One partition: who decides, and where the bytes are.
pub struct Partition {
    /// Decides.
    pub leader: RefCell<Leader>,
    /// Holds the bytes.
    log: RefCell<Log>,
    /// The directory that it lies in.
    dir: Cell<DirId>,
    /// While the log is about to be another one: what is sent to the partition meanwhile, in order.
    waiting: RefCell<Option<Vec<Waiting>>>,
    /// It is the other one now.
    resumed: Signal,
}

/// A batch that waits until its partition has a log again.
pub struct Waiting {
    /// Its request.
    pub job: Rc<Job>,
    /// When to answer.
    pub acks: Acks,
    /// The batch, by its place in the request.
    pub item: (usize, ProduceItem),
}

impl Partition {
    /// A partition whose log lies in a directory.
    pub fn new(leader: Leader, log: Log, dir: DirId) -> Self {
        Self {
            leader: RefCell::new(leader),
            log: RefCell::new(log),
            dir: Cell::new(dir),
            waiting: RefCell::default(),
            resumed: Signal::default(),
        }
    }

    /// Holds the bytes.
    pub fn log(&self) -> Log {
        self.log.borrow().clone()
    }

    /// The directory that its log lies in.
    pub fn dir(&self) -> DirId {
        self.dir.get()
    }

    /// From now on what is sent to it waits.
    pub fn pause(&self) {
        self.waiting.replace(Some(Vec::new()));
    }

    fn wait(&self, waiting: Waiting) {
        self.waiting
            .borrow_mut()
            .get_or_insert_default()
            .push(waiting);
    }

    /// What was sent meanwhile; from now on nothing waits.
    pub fn resume(&self) -> Vec<Waiting> {
        let waiting = self.waiting.take().unwrap_or_default();
        self.resumed.notify();
        waiting
    }

    /// Whether its log is about to be another one.
    pub fn is_paused(&self) -> bool {
        self.waiting.borrow().is_some()
    }

    /// Waits until that is over; says whether the log is another one than this.
    pub async fn has_left(&self, log: &Log) -> bool {
        self.resumed.until(|| !self.is_paused()).await;
        !self.log().is_same(log)
    }
}

/// What of a disk an append may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// What is free beside the reserve.
    Free,
    /// The reserve too.
    Reserve,
}

/// An answer owed to a shard.
pub struct Owed {
    /// To whom.
    pub to: ShardId,
    /// The asker's name for the question.
    pub id: u64,
    /// The answer.
    pub answer: Answer,
}

/// A produce request that still waits for some of its partitions.
pub struct Job {
    to: ShardId,
    id: u64,
    remaining: Cell<usize>,
    outcomes: RefCell<Vec<Result<Outcome, Refused>>>,
}

enum Waiter {
    Produce(Rc<Job>, usize),
    Watch {
        asker: (ShardId, u64),
        partitions: Rc<[PartitionId]>,
        deadline: Instant,
    },
}

/// Every partition of one shard and the requests that wait on them.
pub struct Hosted {
    partitions: RefCell<HashMap<PartitionId, Rc<Partition>>>,
    /// Know the partitions that are offline: never served, never made anew.
    directories: Arc<Directories>,
    waiters: RefCell<HashMap<Token, Waiter>>,
    /// Watches by who asked.
    watches: RefCell<HashMap<(ShardId, u64), Token>>,
    /// Deadlines of watches, soonest first.
    deadlines: RefCell<BTreeSet<(Instant, Token)>>,
    next_token: Cell<u64>,
}

impl Hosted {
    /// No partitions yet.
    pub fn new(directories: Arc<Directories>) -> Self {
        Self {
            partitions: RefCell::default(),
            directories,
            waiters: RefCell::default(),
            watches: RefCell::default(),
            deadlines: RefCell::default(),
            next_token: Cell::new(0),
        }
    }

    /// Adds a partition. An id is never hosted twice.
    pub fn insert(&self, id: PartitionId, partition: Partition) -> Rc<Partition> {
        let partition = Rc::new(partition);
        let before = self.partitions.borrow_mut().insert(id, partition.clone());
        assert!(before.is_none(), "partition hosted twice");
        self.directories.add(partition.dir());
        partition
    }

    /// Removes a partition; what waits on it is answered as for a failed log.
    pub fn remove(&self, id: PartitionId, owed: &mut Vec<Owed>) -> Option<Rc<Partition>> {
        let partition = self.partitions.borrow_mut().remove(&id)?;
        self.directories.subtract(partition.dir());
        self.step(&partition, now(), Event::Failed, None, owed);
        Some(partition)
    }

    /// A partition's log is another one now, in another directory.
    pub fn relocate(&self, id: PartitionId, partition: &Rc<Partition>, log: Log, dir: DirId) {
        let is_here = self.get(id).is_some_and(|it| Rc::ptr_eq(&it, partition));
        if is_here {
            self.directories.subtract(partition.dir());
            self.directories.add(dir);
        }
        partition.log.replace(log);
        partition.dir.set(dir);
    }

    /// The partition, if it is led here.
    pub fn get(&self, id: PartitionId) -> Option<Rc<Partition>> {
        self.partitions.borrow().get(&id).cloned()
    }

    /// The partition, or why it cannot be served.
    pub fn find(&self, id: PartitionId) -> Result<Rc<Partition>, Refused> {
        self.get(id).ok_or_else(|| {
            if self.is_offline(id) {
                Refused::Storage
            } else {
                Refused::UnknownPartition
            }
        })
    }

    /// Whether the partition is there and cannot be served.
    pub fn is_offline(&self, id: PartitionId) -> bool {
        self.directories.is_partition_offline(id)
    }

    /// Every partition, in no particular order.
    pub fn all(&self) -> Vec<(PartitionId, Rc<Partition>)> {
        self.partitions
            .borrow()
            .iter()
            .map(|(id, partition)| (*id, partition.clone()))
            .collect()
    }

    /// Hands batches of a produce request, each by its place in it, to their leaders, in order.
    pub fn produce(
        &self,
        job: &Rc<Job>,
        acks: Acks,
        (wall, space): (Timestamp, Space),
        items: Vec<(usize, ProduceItem)>,
        owed: &mut Vec<Owed>,
    ) {
        for (index, item) in items {
            let partition = match self.find(item.partition) {
                Ok(it) if it.is_paused() => {
                    let job = job.clone();
                    let item = (index, item);
                    it.wait(Waiting { job, acks, item });
                    continue;
                }
                Ok(it) if space == Space::Free && it.log().is_short_of_space() => {
                    Err(Refused::Storage)
                }
                found => found,
            };
            let partition = match partition {
                Ok(partition) => partition,
                Err(refused) => {
                    job.refuse(index, refused, owed);
                    continue;
                }
            };
            let token = self.token(Waiter::Produce(job.clone(), index));
            let event = Event::Produce {
                token,
                acks,
                wall,
                batch: item.batch,
            };
            let append = Append {
                bytes: &item.bytes,
                wall,
            };
            self.step(&partition, now(), event, Some(append), owed);
        }
    }

    /// Waits for a high watermark to pass an offset, on any of these partitions.
    pub fn watch(
        &self,
        asker: (ShardId, u64),
        watches: &[(PartitionId, Offset)],
        deadline: Instant,
        owed: &mut Vec<Owed>,
    ) {
        let partitions: Rc<[PartitionId]> = watches.iter().map(|(id, _)| *id).collect();
        let token = self.token(Waiter::Watch {
            asker,
            partitions,
            deadline,
        });
        self.watches.borrow_mut().insert(asker, token);
        self.deadlines.borrow_mut().insert((deadline, token));
        for (id, beyond) in watches {
            if !self.waiters.borrow().contains_key(&token) {
                return;
            }
            match self.get(*id) {
                Some(partition) => {
                    let event = Event::Watch {
                        token,
                        beyond: *beyond,
                    };
                    self.step(&partition, now(), event, None, owed);
                }
                None => self.wake(token, owed),
            }
        }
    }

    /// Forgets a watch, if it is not over.
    pub fn unwatch(&self, asker: (ShardId, u64)) {
        let token = self.watches.borrow().get(&asker).copied();
        if let Some(token) = token {
            self.forget(token);
        }
    }

    /// Wakes the watches whose deadline has passed; returns the next deadline.
    pub fn expire(&self, now: Instant, owed: &mut Vec<Owed>) -> Option<Instant> {
        loop {
            let first = self.deadlines.borrow().first().copied();
            match first {
                Some((deadline, token)) if deadline <= now => {
                    self.wake(token, owed);
                }
                other => return other.map(|(deadline, _)| deadline),
            }
        }
    }

    /// The log of `id` has moved on disk, or failed.
    pub fn progressed(&self, id: PartitionId, failed: bool, owed: &mut Vec<Owed>) {
        let Some(partition) = self.get(id) else {
            return;
        };
        let (written, durable) = (partition.log().written(), partition.log().durable());
        let event = if failed {
            Event::Failed
        } else {
            Event::Progress { written, durable }
        };
        self.step(&partition, now(), event, None, owed);
    }

    /// The topic's rules have changed.
    pub fn rules(&self, id: PartitionId, rules: Rules) {
        if let Some(partition) = self.get(id) {
            self.step(
                &partition,
                now(),
                Event::Rules(rules),
                None,
                &mut Vec::new(),
            );
        }
    }

    /// Feeds one event to a leader and carries out what it says.
    pub fn step(
        &self,
        partition: &Partition,
        now: Instant,
        event: Event,
        append: Option<Append<'_>>,
        owed: &mut Vec<Owed>,
    ) {
        let mut effects = Vec::with_capacity(2);
        partition.leader.borrow_mut().step(now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Append {
                    base_offset,
                    epoch,
                    append_time,
                    flush,
                } => {
                    let append = append.as_ref().expect("only a produce appends");
                    let batch = AppendBatch {
                        bytes: append.bytes,
                        base_offset,
                        leader_epoch: epoch,
                        append_time,
                        flush,
                    };
                    if let Err(error) = partition.log().append(append.wall.0, &batch) {
                        self.log_failed(partition, &error, owed);
                    }
                }
                Effect::Reply { token, outcome } => self.reply(token, outcome, owed),
                Effect::Wake { token } => self.wake(token, owed),
            }
        }
    }

    fn log_failed(&self, partition: &Partition, error: &StorageError, owed: &mut Vec<Owed>) {
        eprintln!("error: a log can no longer be written, its partition is offline: {error}");
        self.step(partition, now(), Event::Failed, None, owed);
    }

    fn token(&self, waiter: Waiter) -> Token {
        let token = Token(self.next_token.get());
        self.next_token.set(token.0 + 1);
        self.waiters.borrow_mut().insert(token, waiter);
        token
    }

    fn reply(&self, token: Token, outcome: Outcome, owed: &mut Vec<Owed>) {
        if let Some(Waiter::Produce(job, index)) = self.waiters.borrow_mut().remove(&token) {
            job.done(index, Ok(outcome), owed);
        }
    }

    fn wake(&self, token: Token, owed: &mut Vec<Owed>) {
        if let Some((to, id)) = self.forget(token) {
            owed.push(Owed {
                to,
                id,
                answer: Answer::Wake,
            });
        }
    }

    /// Ends a watch; returns who had asked.
    fn forget(&self, token: Token) -> Option<(ShardId, u64)> {
        let waiter = self.waiters.borrow_mut().remove(&token)?;
        let Waiter::Watch {
            asker,
            partitions,
            deadline,
        } = waiter
        else {
            unreachable!("a produce is answered, not woken");
        };
        self.watches.borrow_mut().remove(&asker);
        self.deadlines.borrow_mut().remove(&(deadline, token));
        for id in partitions.iter() {
            if let Some(partition) = self.get(*id) {
                let unwatch = Event::Unwatch { token };
                let mut leader = partition.leader.borrow_mut();
                leader.step(now(), unwatch, &mut Vec::new());
            }
        }
        Some(asker)
    }
}

/// What the shell adds to an accepted batch so that it can be appended.
pub struct Append<'a> {
    bytes: &'a Bytes,
    wall: Timestamp,
}

impl Job {
    /// A request with batches for so many partitions; the answer goes to who asked.
    pub fn new((to, id): (ShardId, u64), partitions: usize) -> Rc<Self> {
        Rc::new(Self {
            to,
            id,
            remaining: Cell::new(partitions),
            outcomes: RefCell::new(vec![Err(Refused::UnknownPartition); partitions]),
        })
    }

    /// The batch at a place in the request is not appended.
    pub fn refuse(&self, index: usize, why: Refused, owed: &mut Vec<Owed>) {
        self.done(index, Err(why), owed);
    }

    fn done(&self, index: usize, outcome: Result<Outcome, Refused>, owed: &mut Vec<Owed>) {
        self.outcomes.borrow_mut()[index] = outcome;
        self.remaining.set(self.remaining.get() - 1);
        if self.remaining.get() == 0 {
            let answer = Answer::Produced(self.outcomes.take());
            owed.push(Owed {
                to: self.to,
                id: self.id,
                answer,
            });
        }
    }
}

/// The monotonic clock.
pub fn now() -> Instant {
    Instant(reactor::timer::monotonic_nanos())
}
