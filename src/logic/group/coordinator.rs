//! The coordinator of every group whose partition is led here: events in, effects out. It knows which
//! partitions are loaded, whose turn it is and how much memory groups take, and nothing of what a group
//! does with a request.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use wire::ErrorCode;
use wire::group_records::GroupRecord;

use super::Settings;
#[cfg(test)]
use super::consumer::state::State;
use super::consumer::topics::{Topic, Topics};
use super::consumer::{Times, heartbeat};
use super::dispatch::without_group;
use super::request::{ListedGroup, Reply, Request, Token};
use super::state::Group;
use super::turn::{Appends, InFlight, Then, Turn};
use crate::bugs;
use crate::ids::{Instant, Timestamp, TopicId};

/// The machine's name for an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// The moment of an event, by both clocks: durations go by the first, what is kept by the second.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The monotonic clock.
    pub instant: Instant,
    /// The wall clock.
    pub wall: Timestamp,
}

/// What happens to a coordinator.
#[derive(Debug)]
pub enum Event {
    /// A partition of the topic is led here now; its records follow.
    Load(i32),
    /// Records of a partition that loads, in the order of its log.
    Replay(i32, Vec<GroupRecord>),
    /// A partition is loaded: its groups may be asked for.
    Loaded(i32),
    /// A partition is no longer led here, or its log has failed.
    Unload(i32),
    /// A client asks something of a group of this partition.
    Request(Token, i32, Box<Request>),
    /// Time has passed: see [`Coordinator::wake_at`].
    Wake,
    /// The log has an append, as durably as its topic asks. Appends to one partition end in order.
    Committed(BatchId),
    /// The log has not taken an append.
    Failed(BatchId, AppendError),
    /// A topic is there with so many partitions: it is new, or has grown, or the coordinator is new.
    TopicChanged(String, TopicId, i32),
    /// A topic was deleted.
    TopicDeleted(String),
    /// A group, which need not be there, has durations of its own, or has them no more.
    GroupConfigured(String, Option<Times>),
}

/// Why the log has not taken an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// Not now; later it may.
    Unavailable,
    /// It cannot be written any more, or is led elsewhere.
    NotLeader,
    /// The records are larger than the topic allows.
    TooLarge,
}

/// What the shell must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Answer a request.
    Reply {
        /// Who.
        token: Token,
        /// What.
        reply: Reply,
    },
    /// Append records to a partition, all or none, and tell what became of it.
    Append {
        /// The name to tell it by.
        batch: BatchId,
        /// Where.
        partition: i32,
        /// What.
        records: Rc<[GroupRecord]>,
    },
}

/// All groups of a shard.
#[derive(Debug)]
pub struct Coordinator {
    settings: Settings,
    topics: Topics,
    /// The durations of groups that have their own.
    times: BTreeMap<String, Times>,
    partitions: BTreeMap<i32, Partition>,
    appends: Appends,
    /// When each group is to be woken, at the latest; one entry a group, as its `armed` says.
    wakes: BTreeSet<(Instant, i32, String)>,
    /// When offsets are looked at next; unknown while there is no partition.
    sweep_at: Option<Instant>,
    /// Memory of all groups, about: the sum of what each is counted by.
    bytes: usize,
    /// Offsets may expire by the wall clock.
    believes_clock: bool,
}

/// The groups of one partition.
#[derive(Debug, Default)]
struct Partition {
    loaded: bool,
    groups: BTreeMap<String, Group>,
    /// Topics that were deleted while it was loading.
    deleted: BTreeSet<String>,
}

impl Coordinator {
    /// A coordinator of nothing.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            topics: Topics::default(),
            times: BTreeMap::new(),
            partitions: BTreeMap::new(),
            appends: Appends::default(),
            wakes: BTreeSet::new(),
            sweep_at: None,
            bytes: 0,
            believes_clock: true,
        }
    }

    /// When it wants to be woken next.
    pub fn wake_at(&self) -> Option<Instant> {
        let group = self.wakes.first().map(|(at, _, _)| *at);
        group.into_iter().chain(self.sweep_at).min()
    }

    /// Says whether the wall clock may be believed. As long as not, no offset expires: a clock that was
    /// set forward makes each look old at once.
    pub fn believe_clock(&mut self, believed: bool) {
        self.believes_clock = believed;
    }

    /// The topics for which groups of a partition have committed offsets.
    pub fn topics_committed(&self, partition: i32) -> BTreeSet<String> {
        let groups = self.partitions.get(&partition).map(|it| it.groups.values());
        let offsets = groups.into_iter().flatten().map(|it| it.durable.offsets());
        offsets.flat_map(|it| it.keys().cloned()).collect()
    }

    /// The groups that are loaded, and whether others still load.
    pub fn list(&self) -> (Vec<ListedGroup>, bool) {
        let loaded = self.partitions.values().filter(|it| it.loaded);
        let groups = loaded.flat_map(|it| it.groups.values().map(Group::list));
        let loading = self.partitions.values().any(|it| !it.loaded);
        (groups.collect(), loading)
    }

    /// Memory that groups take, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What a group of consumers is, in the log and ahead of it.
    #[cfg(test)]
    pub(super) fn consumers(&self, partition: i32, id: &str) -> Option<(State, State)> {
        let group = self.partitions.get(&partition)?.groups.get(id)?;
        Some((
            group.durable.consumers.clone(),
            group.consumers.ahead.clone(),
        ))
    }

    /// The partitions that are here.
    pub fn partitions(&self) -> impl Iterator<Item = i32> + '_ {
        self.partitions.keys().copied()
    }

    /// Takes one event; what must be done is pushed to `effects` in order.
    pub fn step(&mut self, now: Now, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Load(partition) => {
                self.partitions.entry(partition).or_default();
                let interval_ms = self.settings.retention_check_interval_ms;
                let sweep_at = now.instant.plus_ms(interval_ms);
                self.sweep_at.get_or_insert(sweep_at);
            }
            Event::Replay(partition, mut records) => {
                if bugs::loses_ends_of_replay() {
                    records.pop_if(|it| matches!(it, GroupRecord::Offset { .. }));
                }
                for record in &records {
                    self.replay(partition, record);
                }
            }
            Event::Loaded(partition) => self.loaded(now, partition, effects),
            Event::Unload(partition) => self.unload(now, partition, effects),
            Event::Request(token, partition, request) => {
                self.request(now, token, partition, *request, effects);
            }
            Event::Wake => self.wake(now, effects),
            Event::Committed(batch) => {
                if let Some(append) = self.appends.take(batch) {
                    for record in append.records.iter() {
                        self.replay(append.partition, record);
                    }
                    self.ended(now, append, None, effects);
                }
            }
            Event::Failed(batch, error) => {
                if let Some(append) = self.appends.take(batch) {
                    self.ended(now, append, Some(error), effects);
                }
            }
            Event::TopicChanged(name, TopicId(id), partitions) => {
                self.topics.set(name.clone(), Topic { id, partitions });
                let concerned = Group::is_of_consumers;
                self.every_turn(now, effects, concerned, |group, turn| {
                    group.topic_changed(&name, turn);
                });
            }
            Event::GroupConfigured(group, Some(times)) => {
                self.times.insert(group, times);
            }
            Event::GroupConfigured(group, None) => {
                self.times.remove(&group);
            }
            Event::TopicDeleted(topic) => {
                self.topics.remove(&topic);
                for loading in self.partitions.values_mut().filter(|it| !it.loaded) {
                    loading.deleted.insert(topic.clone());
                }
                self.every_turn(
                    now,
                    effects,
                    |_| true,
                    |group, turn| {
                        group.topic_deleted(&topic, turn);
                        group.topic_changed(&topic, turn);
                    },
                );
            }
        }
    }

    /// The one way in which what the log holds becomes what a group is.
    fn replay(&mut self, partition: i32, record: &GroupRecord) {
        let Some(here) = self.partitions.get_mut(&partition) else {
            return;
        };
        let id = record.group();
        if !here.groups.contains_key(id) {
            here.groups.insert(id.into(), Group::new(id, partition));
        }
        if let Some(group) = here.groups.get_mut(id) {
            group.durable.replay(record);
        }
    }

    fn loaded(&mut self, now: Now, partition: i32, effects: &mut Vec<Effect>) {
        let Some(here) = self.partitions.get_mut(&partition) else {
            return;
        };
        here.loaded = true;
        let deleted = core::mem::take(&mut here.deleted);
        let groups: Vec<String> = here.groups.keys().cloned().collect();
        for group in groups {
            self.turn(now, partition, &group, effects, |group, turn| {
                group.restore(turn);
                for topic in &deleted {
                    group.topic_deleted(topic, turn);
                }
                if group.members.len() > turn.settings.size_max {
                    group.rebalance(turn);
                }
            });
        }
    }

    /// Nothing of the partition is kept; whoever waits for it is sent elsewhere.
    fn unload(&mut self, now: Now, partition: i32, effects: &mut Vec<Effect>) {
        for append in self.appends.take_all(partition) {
            self.ended(now, append, Some(AppendError::NotLeader), effects);
        }
        let groups = self.partitions.get(&partition);
        let groups: Vec<String> =
            groups.map_or(Vec::new(), |it| it.groups.keys().cloned().collect());
        for id in groups {
            self.turn(now, partition, &id, effects, |group, turn| {
                let members = group.members.iter();
                let members: Vec<String> =
                    members.map(|it| it.identity.member_id.clone()).collect();
                for member in members {
                    group.remove_member(&member, ErrorCode::NotCoordinator, turn);
                }
                group.refuse_waiting(ErrorCode::NotCoordinator, turn);
            });
            self.forget(partition, &id);
        }
        // Appends of these last turns are nobody's any more.
        self.appends.take_all(partition);
        self.partitions.remove(&partition);
        if self.partitions.is_empty() {
            self.sweep_at = None;
        }
    }

    fn request(
        &mut self,
        now: Now,
        token: Token,
        partition: i32,
        request: Request,
        effects: &mut Vec<Effect>,
    ) {
        let mut refuse = |error| {
            let reply = request.refused(error);
            effects.push(Effect::Reply { token, reply });
        };
        let Some(here) = self.partitions.get(&partition) else {
            return refuse(ErrorCode::NotCoordinator);
        };
        if request.needs_name() && request.group().is_empty() {
            return refuse(ErrorCode::InvalidGroupId);
        }
        if !here.loaded {
            return refuse(ErrorCode::CoordinatorLoadInProgress);
        }
        if let Request::Join(join) = &request {
            let bounds =
                self.settings.session_timeout_ms_min..=self.settings.session_timeout_ms_max;
            if !bounds.contains(&join.session_timeout_ms) {
                return refuse(ErrorCode::InvalidSessionTimeout);
            }
        }
        if let Request::ConsumerHeartbeat(heartbeat) = &request
            && let Err(refusal) = heartbeat::check(heartbeat, &self.settings.consumer)
        {
            let reply = Reply::ConsumerHeartbeat(Err(refusal));
            return effects.push(Effect::Reply { token, reply });
        }
        let id = String::from(request.group());
        if !here.groups.contains_key(&id) {
            if let Some(reply) = without_group(&request) {
                return effects.push(Effect::Reply { token, reply });
            }
            let groups = self.partitions.get_mut(&partition).map(|it| &mut it.groups);
            groups.map(|it| it.insert(id.clone(), Group::new(&id, partition)));
        }
        self.turn(now, partition, &id, effects, |group, turn| {
            group.take(token, request, turn);
        });
    }

    fn wake(&mut self, now: Now, effects: &mut Vec<Effect>) {
        while let Some((at, partition, id)) = self.wakes.first().cloned() {
            if at > now.instant {
                break;
            }
            self.turn(now, partition, &id, effects, |group, turn| group.wake(turn));
        }
        if self.sweep_at.is_some_and(|at| at <= now.instant) {
            let interval_ms = self.settings.retention_check_interval_ms.max(1);
            self.sweep_at = Some(now.instant.plus_ms(interval_ms));
            if self.believes_clock {
                self.every_turn(
                    now,
                    effects,
                    |_| true,
                    |group, turn| group.expire_offsets(turn),
                );
            }
        }
    }

    /// Gives every loaded group that is concerned its turn.
    fn every_turn(
        &mut self,
        now: Now,
        effects: &mut Vec<Effect>,
        concerned: impl Fn(&Group) -> bool,
        act: impl Fn(&mut Group, &mut Turn<'_>),
    ) {
        let mut groups = Vec::new();
        for (partition, here) in self.partitions.iter().filter(|(_, it)| it.loaded) {
            let here = here.groups.iter().filter(|(_, group)| concerned(group));
            groups.extend(here.map(|(id, _)| (*partition, id.clone())));
        }
        for (partition, group) in groups {
            self.turn(now, partition, &group, effects, &act);
        }
    }

    /// An append is over: whoever waits for it is answered.
    fn ended(
        &mut self,
        now: Now,
        append: InFlight,
        error: Option<AppendError>,
        effects: &mut Vec<Effect>,
    ) {
        let InFlight {
            partition,
            group,
            then,
            failed,
            ..
        } = append;
        // All of it is done, or none is said to be.
        let error = error.or(failed);
        let told = error.map(told);
        match then {
            Then::Commit { token, results } => {
                let reply = commit_reply(results, error);
                effects.push(Effect::Reply { token, reply });
            }
            Then::Answer {
                token,
                done,
                failed,
            } => {
                let reply = told.map_or(done, failed);
                effects.push(Effect::Reply { token, reply });
            }
            Then::Assign { generation } => {
                self.turn(now, partition, &group, effects, |group, turn| match told {
                    None => group.assigned(generation, turn),
                    Some(error) => group.not_assigned(generation, error, turn),
                });
                return;
            }
            Then::Return {
                token,
                member_id,
                leader,
                can_skip_assignment,
            } => {
                self.turn(now, partition, &group, effects, |group, turn| match told {
                    None => group.returned(token, &member_id, leader, can_skip_assignment, turn),
                    Some(error) => {
                        let refused = super::request::JoinReply::refused(error, "");
                        turn.reply(token, Reply::Join(refused));
                    }
                });
                return;
            }
            Then::Round { rest, owed } => {
                self.turn(now, partition, &group, effects, |group, turn| match told {
                    None => group.round_kept(rest, owed, turn),
                    Some(error) => group.round_lost(owed, error, turn),
                });
                return;
            }
            Then::Part { last } => self.appends.part_ended(last, error),
            Then::Nothing => {}
        }
        // Its memory has changed, and perhaps there is nothing left of it.
        self.turn(now, partition, &group, effects, |group, turn| {
            group.forget_if_deleted(turn);
        });
    }

    /// Gives a group, if there is one, its turn, and takes note of what it is afterwards.
    fn turn(
        &mut self,
        now: Now,
        partition: i32,
        id: &str,
        effects: &mut Vec<Effect>,
        act: impl FnOnce(&mut Group, &mut Turn<'_>),
    ) {
        let groups = self.partitions.get_mut(&partition).map(|it| &mut it.groups);
        let Some(group) = groups.and_then(|it| it.get_mut(id)) else {
            return;
        };
        let mut turn = Turn {
            now,
            settings: &self.settings,
            topics: &self.topics,
            times: self
                .times
                .get(id)
                .copied()
                .unwrap_or(self.settings.consumer.times),
            full: self.bytes >= self.settings.memory_bytes_max,
            appends: &mut self.appends,
            effects,
        };
        act(group, &mut turn);
        self.bytes -= group.counted;
        group.counted = group.bytes();
        self.bytes += group.counted;
        // A later deadline is noticed when the earlier one comes: heartbeats change nothing here.
        let next = group.next_deadline();
        let stays = match (group.armed, next) {
            (Some(armed), Some(next)) => armed <= next && armed > now.instant,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !stays {
            if let Some(armed) = group.armed {
                self.wakes.remove(&(armed, partition, id.into()));
            }
            group.armed = next;
            self.wakes.extend(next.map(|at| (at, partition, id.into())));
        }
        if group.is_vacuous() && !self.appends.concern(id) {
            self.forget(partition, id);
        }
    }

    fn forget(&mut self, partition: i32, id: &str) {
        let groups = self.partitions.get_mut(&partition).map(|it| &mut it.groups);
        if let Some(group) = groups.and_then(|it| it.remove(id)) {
            self.bytes -= group.counted;
            if let Some(armed) = group.armed {
                self.wakes.remove(&(armed, partition, group.id));
            }
        }
    }
}

/// The answer to a commit: each item's own error, or what became of the append.
fn commit_reply(results: Vec<ErrorCode>, error: Option<AppendError>) -> Reply {
    let error = error.map(|error| match error {
        AppendError::TooLarge => ErrorCode::InvalidCommitOffsetSize,
        other => told(other),
    });
    let result = |it| match error {
        Some(error) if it == ErrorCode::None => error,
        _ => it,
    };
    Reply::Commit(results.into_iter().map(result).collect())
}

/// A failed append as Kafka tells it.
fn told(error: AppendError) -> ErrorCode {
    match error {
        AppendError::Unavailable => ErrorCode::CoordinatorNotAvailable,
        AppendError::NotLeader => ErrorCode::NotCoordinator,
        AppendError::TooLarge => ErrorCode::UnknownServerError,
    }
}
