//! How a member joins its group and stays in it: FindCoordinator, JoinGroup, SyncGroup, Heartbeat,
//! LeaveGroup. Pure: events in, effects out, `now` passed in. Knows nothing of bytes, offsets or
//! positions.

mod answers;
mod assigning;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use wire::ErrorCode;

use super::assignors::{Assignor, NO_GENERATION, PartitionCounts, Subscription};
use super::partition::TopicPartition;
use crate::cluster::Backoff;

/// What a member is told once.
#[derive(Clone, Debug)]
pub(super) struct GroupConfig {
    /// `group.instance.id`: the member is static, and keeps its place while it restarts (KIP-345).
    pub(super) instance_id: Option<Arc<str>>,
    /// `session.timeout.ms`
    pub(super) session_timeout: Duration,
    /// `heartbeat.interval.ms`
    pub(super) heartbeat_interval: Duration,
    /// `max.poll.interval.ms`, which is also how long a rebalance waits for this member.
    pub(super) max_poll_interval: Duration,
    /// `retry.backoff.ms`
    pub(super) retry_backoff: Backoff,
    /// `partition.assignment.strategy`, the preferred one first. Not empty.
    pub(super) assignors: Vec<Assignor>,
    /// In 0..1: spreads the retries of many members.
    pub(super) jitter: f64,
}

/// Names one request; answers to an earlier one are not listened to.
pub(super) type Attempt = u64;

/// A failed answer, as an error code. What broke on the way is NETWORK_EXCEPTION.
pub(super) type Answer<T> = Result<T, ErrorCode>;

/// What a JoinGroup answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Joined {
    pub(super) generation: i32,
    pub(super) member_id: Arc<str>,
    pub(super) leader_id: Arc<str>,
    pub(super) protocol: Arc<str>,
    /// A static leader came back and the old assignment stands (KIP-814).
    pub(super) skip_assignment: bool,
    /// All members with their subscriptions; only the leader sees them.
    pub(super) members: Vec<JoinedMember>,
}

/// Another member, as the leader sees it.
#[derive(Clone, Debug)]
pub(super) struct JoinedMember {
    pub(super) id: Arc<str>,
    pub(super) instance_id: Option<Arc<str>>,
    pub(super) metadata: Bytes,
}

#[derive(Debug)]
pub(super) enum Event {
    /// The subscription needs a group, or another assignment from it.
    Rejoin,
    /// Somebody needs to know the coordinator.
    CoordinatorWanted,
    /// The application is alive.
    Polled,
    /// Time passed.
    Tick,
    /// What [`Effect::FindCoordinator`] found: a node id.
    CoordinatorFound(Attempt, Answer<i32>),
    /// [`Effect::Prepare`] is done: what had to be revoked is.
    Prepared,
    /// The answer to [`Effect::Join`]; an error comes with the member id of the answer, if any.
    Joined(Attempt, Result<Joined, (ErrorCode, Arc<str>)>),
    /// What [`Effect::CountPartitions`] asked for.
    Counted(Attempt, PartitionCounts),
    /// The answer to [`Effect::Sync`]: the assignment's bytes.
    Synced(Attempt, Answer<Bytes>),
    /// The answer to [`Effect::Heartbeat`].
    HeartbeatAnswered(Attempt, Answer<()>),
    /// Another request to the coordinator failed in a way that concerns the membership.
    CommitFailed(i32, ErrorCode),
    /// The member is to leave, and not to come back by itself.
    Leave(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    FindCoordinator(Attempt),
    /// Partitions must be given up before the next JoinGroup: all (eager) or none (cooperative), or,
    /// when `lost`, all and without a say, because others may own them already.
    Prepare {
        lost: bool,
    },
    Join {
        attempt: Attempt,
        coordinator: i32,
        member_id: Arc<str>,
        generation: i32,
    },
    /// The leader needs to know how many partitions these topics have now.
    CountPartitions(Attempt, BTreeSet<Arc<str>>),
    Sync {
        attempt: Attempt,
        coordinator: i32,
        member_id: Arc<str>,
        generation: i32,
        protocol: Arc<str>,
        /// Only from the leader: each member's bytes.
        assignments: Vec<(Arc<str>, Bytes)>,
    },
    Heartbeat {
        attempt: Attempt,
        coordinator: i32,
        member_id: Arc<str>,
        generation: i32,
    },
    LeaveGroup {
        coordinator: i32,
        member_id: Arc<str>,
        reason: &'static str,
    },
    /// The group gave these partitions to this member.
    Assign(Vec<TopicPartition>),
    /// The group refuses this member; trying again does not help.
    Refused(ErrorCode),
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    /// In no group; a poll or a subscription may change that.
    Out,
    /// Waits for [`Event::Prepared`].
    Preparing,
    /// JoinGroup is to be sent, or was (`Some`).
    Joining(Option<Attempt>),
    /// The leader waits for partition counts.
    Assigning(Attempt, Box<Leading>),
    /// SyncGroup is to be sent, or was (`Some`).
    Syncing(Option<Attempt>, Vec<(Arc<str>, Bytes)>),
    /// A member with an assignment.
    Stable,
}

/// What a leader has to make an assignment of.
#[derive(Clone, Debug, PartialEq)]
struct Leading {
    assignor: Assignor,
    members: Vec<(Arc<str>, Option<Arc<str>>, Subscription)>,
    skip: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coordinator {
    Unknown,
    Searched(Attempt),
    Known(i32),
}

/// One member's part in its group.
#[derive(Debug)]
pub(super) struct Membership {
    config: GroupConfig,
    state: State,
    /// Whether the application wants to be in the group.
    wanted: bool,
    /// A new JoinGroup is due once the current one is through.
    rejoin: bool,
    coordinator: Coordinator,
    /// Commits need a coordinator, too, of consumers that are in no group.
    coordinator_wanted: bool,
    /// Empty until the coordinator gave one.
    member_id: Arc<str>,
    generation: i32,
    protocol: Arc<str>,
    last_attempt: Attempt,
    failures: u32,
    not_before: Option<Instant>,
    heartbeat: Option<Attempt>,
    next_heartbeat: Instant,
    /// When the coordinator last said that this member is in.
    heard: Instant,
    /// `None` until the first poll: a consumer that is never polled joins no group.
    polled: Option<Instant>,
    /// As leader: what the assignment was made of. When it changes the group rebalances.
    counted: Option<PartitionCounts>,
}

impl Membership {
    pub(super) fn new(config: GroupConfig, now: Instant) -> Self {
        assert!(!config.assignors.is_empty(), "a member has an assignor");
        Self {
            config,
            state: State::Out,
            wanted: false,
            rejoin: false,
            coordinator: Coordinator::Unknown,
            coordinator_wanted: false,
            member_id: "".into(),
            generation: NO_GENERATION,
            protocol: "".into(),
            last_attempt: 0,
            failures: 0,
            not_before: None,
            heartbeat: None,
            next_heartbeat: now,
            heard: now,
            polled: None,
            counted: None,
        }
    }

    /// Node id of the coordinator, while it is known.
    pub(super) fn coordinator(&self) -> Option<i32> {
        match self.coordinator {
            Coordinator::Known(node) => Some(node),
            Coordinator::Unknown | Coordinator::Searched(_) => None,
        }
    }

    /// Who this member is to the coordinator: its id and generation.
    pub(super) fn identity(&self) -> (Arc<str>, i32) {
        (self.member_id.clone(), self.generation)
    }

    /// `group.instance.id`
    pub(super) fn instance_id(&self) -> Option<&Arc<str>> {
        self.config.instance_id.as_ref()
    }

    /// Whether partitions are kept during a rebalance: only if every assignor can (KIP-429).
    pub(super) fn is_cooperative(&self) -> bool {
        self.config.assignors.iter().all(|it| it.is_cooperative())
    }

    /// As leader: the counts that the current assignment was made of.
    pub(super) fn counted(&self) -> Option<&PartitionCounts> {
        self.counted.as_ref()
    }

    /// Takes an event and says what is to be done.
    pub(super) fn handle(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Rejoin => {
                self.wanted = true;
                self.rejoin = true;
            }
            Event::CoordinatorWanted => self.coordinator_wanted = true,
            Event::Polled => self.polled = Some(now),
            Event::Tick => {}
            Event::CoordinatorFound(attempt, answer) => {
                self.coordinator_found(attempt, answer, now, &mut effects);
            }
            Event::Prepared => {
                if self.state == State::Preparing {
                    self.state = State::Joining(None);
                }
            }
            Event::Joined(attempt, answer) => self.joined(attempt, answer, now, &mut effects),
            Event::Counted(attempt, counts) => self.counted_partitions(attempt, counts, now),
            Event::Synced(attempt, answer) => self.synced(attempt, answer, now, &mut effects),
            Event::HeartbeatAnswered(attempt, answer) => {
                self.heartbeat_answered(attempt, answer, now, &mut effects);
            }
            Event::CommitFailed(generation, code) => {
                self.commit_failed(generation, code, &mut effects);
            }
            Event::Leave(reason) => {
                self.wanted = false;
                self.leave(reason, &mut effects);
            }
        }
        self.advance(now, &mut effects);
        effects
    }

    /// When [`Event::Tick`] is due.
    pub(super) fn next_tick(&self, now: Instant) -> Option<Instant> {
        let mut due = Vec::new();
        if self.is_in_group() {
            due.extend(self.polled.map(|at| at + self.config.max_poll_interval));
        }
        if self.heartbeats() {
            if self.heartbeat.is_none() && self.coordinator().is_some() {
                let not_before = self.not_before.unwrap_or(now);
                due.push(self.next_heartbeat.max(not_before));
            }
            due.push(self.heard + self.config.session_timeout);
        }
        due.extend(self.not_before.filter(|&at| at > now));
        due.into_iter().min()
    }

    fn is_in_group(&self) -> bool {
        self.state != State::Out
    }

    /// While JoinGroup is unanswered the coordinator knows that the member is alive, and a heartbeat
    /// would wait behind it on the connection. Preparing may take as long as the application does.
    fn heartbeats(&self) -> bool {
        match self.state {
            State::Preparing => self.generation != NO_GENERATION,
            State::Assigning(..) | State::Syncing(..) | State::Stable => true,
            State::Out | State::Joining(_) => false,
        }
    }

    /// Whether a rebalance goes on that needs nothing more of the application.
    pub(super) fn is_joining(&self) -> bool {
        matches!(
            self.state,
            State::Joining(_) | State::Assigning(..) | State::Syncing(..)
        )
    }

    /// Does what the state and the clock ask for.
    fn advance(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let alive = self
            .polled
            .is_some_and(|at| now.saturating_duration_since(at) < self.config.max_poll_interval);
        if self.is_in_group() && !alive {
            self.leave("max.poll.interval.ms passed without a poll", effects);
        }
        if self.state == State::Out && self.wanted && alive {
            self.lose(effects);
        }
        if self.state == State::Stable && self.rejoin {
            self.prepare(false, effects);
        }
        let unheard = now.saturating_duration_since(self.heard);
        if self.heartbeats() && unheard >= self.config.session_timeout {
            self.forget_coordinator();
            self.heard = now;
        }
        if self.not_before.is_some_and(|at| at > now) {
            return;
        }
        match self.coordinator {
            Coordinator::Unknown if !self.wanted && !self.coordinator_wanted => {}
            Coordinator::Unknown => {
                let attempt = self.attempt();
                self.coordinator = Coordinator::Searched(attempt);
                effects.push(Effect::FindCoordinator(attempt));
            }
            Coordinator::Searched(_) => {}
            Coordinator::Known(node) => self.ask(node, now, effects),
        }
    }

    /// Sends what is due to the coordinator.
    fn ask(&mut self, coordinator: i32, now: Instant, effects: &mut Vec<Effect>) {
        if self.state == State::Joining(None) {
            let attempt = self.attempt();
            self.state = State::Joining(Some(attempt));
            self.rejoin = false;
            effects.push(Effect::Join {
                attempt,
                coordinator,
                member_id: self.member_id.clone(),
                generation: self.generation,
            });
        } else if let State::Syncing(None, assignments) = self.state.clone() {
            let attempt = self.attempt();
            self.state = State::Syncing(Some(attempt), Vec::new());
            effects.push(Effect::Sync {
                attempt,
                coordinator,
                member_id: self.member_id.clone(),
                generation: self.generation,
                protocol: self.protocol.clone(),
                assignments,
            });
        }
        if self.heartbeats() && self.heartbeat.is_none() && now >= self.next_heartbeat {
            let attempt = self.attempt();
            self.heartbeat = Some(attempt);
            self.next_heartbeat = now + self.config.heartbeat_interval;
            effects.push(Effect::Heartbeat {
                attempt,
                coordinator,
                member_id: self.member_id.clone(),
                generation: self.generation,
            });
        }
    }

    fn attempt(&mut self) -> Attempt {
        self.last_attempt += 1;
        self.last_attempt
    }

    fn prepare(&mut self, lost: bool, effects: &mut Vec<Effect>) {
        self.state = State::Preparing;
        self.counted = None;
        effects.push(Effect::Prepare { lost });
    }

    /// The coordinator no longer counts this member in: what it owns may be another's by now.
    fn lose(&mut self, effects: &mut Vec<Effect>) {
        self.generation = NO_GENERATION;
        self.heartbeat = None;
        self.prepare(true, effects);
    }

    /// Leaves, and tells the coordinator so. A static member only goes silent: it is to find its
    /// place again (KIP-345).
    fn leave(&mut self, reason: &'static str, effects: &mut Vec<Effect>) {
        let is_dynamic = self.config.instance_id.is_none();
        if let Some(coordinator) = self.coordinator()
            && self.is_in_group()
            && is_dynamic
            && !self.member_id.is_empty()
        {
            effects.push(Effect::LeaveGroup {
                coordinator,
                member_id: self.member_id.clone(),
                reason,
            });
        }
        self.out();
    }

    fn out(&mut self) {
        self.state = State::Out;
        self.member_id = "".into();
        self.generation = NO_GENERATION;
        self.heartbeat = None;
        self.counted = None;
        self.rejoin = false;
    }

    fn forget_coordinator(&mut self) {
        self.coordinator = Coordinator::Unknown;
        self.heartbeat = None;
    }

    fn back_off(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        let wait = self.config.retry_backoff;
        self.not_before = Some(now + wait.after(self.failures, self.config.jitter));
    }

    fn succeeded(&mut self) {
        self.failures = 0;
        self.not_before = None;
    }
}
