//! A member by the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup; one of the members
//! assigns. Pure. Knows nothing of the bytes of requests.

mod answers;
mod assigning;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::coordinator::Search;
use super::{Attempt, Effect, Event, GroupConfig};
use crate::consumer::assignors::{Assignor, NO_GENERATION, PartitionCounts, Subscription};

/// What only members by this protocol are told.
#[derive(Clone, Debug)]
pub(in crate::consumer) struct ClassicConfig {
    /// `session.timeout.ms`
    pub(in crate::consumer) session_timeout: Duration,
    /// `heartbeat.interval.ms`
    pub(in crate::consumer) heartbeat_interval: Duration,
    /// `partition.assignment.strategy`, the preferred one first. Not empty.
    pub(in crate::consumer) assignors: Vec<Assignor>,
}

/// What a JoinGroup answers.
#[derive(Clone, Debug, Default)]
pub(in crate::consumer) struct Joined {
    pub(in crate::consumer) generation: i32,
    pub(in crate::consumer) member_id: Arc<str>,
    pub(in crate::consumer) leader_id: Arc<str>,
    pub(in crate::consumer) protocol: Arc<str>,
    /// A static leader came back and the old assignment stands (KIP-814).
    pub(in crate::consumer) skip_assignment: bool,
    /// All members with their subscriptions; only the leader sees them.
    pub(in crate::consumer) members: Vec<JoinedMember>,
}

/// Another member, as the leader sees it.
#[derive(Clone, Debug)]
pub(in crate::consumer) struct JoinedMember {
    pub(in crate::consumer) id: Arc<str>,
    pub(in crate::consumer) instance_id: Option<Arc<str>>,
    pub(in crate::consumer) metadata: Bytes,
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

/// One member's part in its group.
#[derive(Debug)]
pub(in crate::consumer) struct ClassicMember {
    config: GroupConfig,
    classic: ClassicConfig,
    state: State,
    /// Whether the application wants to be in the group.
    wanted: bool,
    /// A new JoinGroup is due once the current one is through.
    rejoin: bool,
    search: Search,
    /// Empty until the coordinator gave one.
    member_id: Arc<str>,
    generation: i32,
    protocol: Arc<str>,
    heartbeat: Option<Attempt>,
    next_heartbeat: Instant,
    /// When the coordinator last said that this member is in.
    heard: Instant,
    /// `None` until the first poll: a consumer that is never polled joins no group.
    polled: Option<Instant>,
    /// As leader: what the assignment was made of. When it changes the group rebalances.
    counted: Option<PartitionCounts>,
}

impl ClassicMember {
    pub(super) fn new(config: GroupConfig, classic: ClassicConfig, now: Instant) -> Self {
        assert!(!classic.assignors.is_empty(), "a member has an assignor");
        Self {
            search: Search::new(config.retry_backoff, config.jitter),
            config,
            classic,
            state: State::Out,
            wanted: false,
            rejoin: false,
            member_id: "".into(),
            generation: NO_GENERATION,
            protocol: "".into(),
            heartbeat: None,
            next_heartbeat: now,
            heard: now,
            polled: None,
            counted: None,
        }
    }

    pub(super) fn coordinator(&self) -> Option<i32> {
        self.search.node()
    }

    pub(super) fn identity(&self) -> (Arc<str>, i32) {
        (self.member_id.clone(), self.generation)
    }

    pub(super) fn instance_id(&self) -> Option<&Arc<str>> {
        self.config.instance_id.as_ref()
    }

    /// Only if every assignor can (KIP-429).
    pub(super) fn is_cooperative(&self) -> bool {
        self.classic.assignors.iter().all(|it| it.is_cooperative())
    }

    pub(super) fn counted(&self) -> Option<&PartitionCounts> {
        self.counted.as_ref()
    }

    pub(super) fn handle(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Rejoin => {
                self.wanted = true;
                self.rejoin = true;
            }
            Event::CoordinatorWanted => self.search.want(),
            Event::Polled => self.polled = Some(now),
            Event::Tick => {}
            Event::CoordinatorFound(attempt, answer) => {
                let found = self.search.found(attempt, answer, now);
                if let Err(code) = found {
                    self.refused(code, &mut effects);
                }
            }
            Event::Prepared => {
                if self.state == State::Preparing {
                    self.state = State::Joining(None);
                }
            }
            // Cooperative: what was revoked here can be given to others now.
            Event::Assigned { revoked } => self.rejoin |= revoked && self.wanted,
            Event::Joined(attempt, answer) => self.joined(attempt, answer, now, &mut effects),
            Event::Counted(attempt, counts) => self.counted_partitions(attempt, counts),
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
            Event::Heard(..) | Event::Named(_) => {}
        }
        self.advance(now, &mut effects);
        effects
    }

    pub(super) fn next_tick(&self, now: Instant) -> Option<Instant> {
        let mut due = Vec::new();
        if self.is_in_group() {
            due.extend(self.polled.map(|at| at + self.config.max_poll_interval));
        }
        let not_before = self.search.not_before();
        if self.heartbeats() {
            if self.heartbeat.is_none() && self.coordinator().is_some() {
                due.push(self.next_heartbeat.max(not_before.unwrap_or(now)));
            }
            due.push(self.heard + self.classic.session_timeout);
        }
        due.extend(not_before.filter(|&at| at > now));
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
        if self.heartbeats() && unheard >= self.classic.session_timeout {
            self.forget_coordinator();
            self.heard = now;
        }
        if let Some(coordinator) = self.search.ask(self.wanted, now, effects) {
            self.ask(coordinator, now, effects);
        }
    }

    /// Sends what is due to the coordinator.
    fn ask(&mut self, coordinator: i32, now: Instant, effects: &mut Vec<Effect>) {
        if self.state == State::Joining(None) {
            let attempt = self.search.attempt();
            self.state = State::Joining(Some(attempt));
            self.rejoin = false;
            effects.push(Effect::Join {
                attempt,
                coordinator,
                member_id: self.member_id.clone(),
                generation: self.generation,
            });
        } else if let State::Syncing(None, assignments) = self.state.clone() {
            let attempt = self.search.attempt();
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
            let attempt = self.search.attempt();
            self.heartbeat = Some(attempt);
            self.next_heartbeat = now + self.classic.heartbeat_interval;
            effects.push(Effect::Heartbeat {
                attempt,
                coordinator,
                member_id: self.member_id.clone(),
                generation: self.generation,
            });
        }
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
        self.search.forget();
        self.heartbeat = None;
    }
}
