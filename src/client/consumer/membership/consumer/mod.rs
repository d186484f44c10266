//! A member by the `consumer` protocol (KIP-848): one request, ConsumerGroupHeartbeat, joins, stays,
//! acknowledges and leaves; the coordinator assigns. Pure. Knows nothing of the bytes of requests.

mod answers;
mod reconciliation;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::KafkaUuid;

use super::coordinator::Search;
use super::{Attempt, ByTopicId, Effect, Event, GroupConfig};
use crate::consumer::assignors::NO_GENERATION;
use reconciliation::Reconciliation;

/// Member epochs with a meaning of their own.
const JOIN: i32 = 0;
const LEAVE: i32 = -1;
/// A static member goes to come back: its partitions wait for it.
const LEAVE_FOR_A_WHILE: i32 = -2;

/// What a heartbeat says, but for what is the same as long as the member lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::consumer) struct Heartbeat {
    pub(in crate::consumer) attempt: Attempt,
    pub(in crate::consumer) coordinator: i32,
    pub(in crate::consumer) member_id: Arc<str>,
    pub(in crate::consumer) epoch: i32,
    /// What the member has; with it goes everything else that it has to say. `None` when the coordinator
    /// knows it all.
    pub(in crate::consumer) owned: Option<ByTopicId>,
}

/// What a heartbeat answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::consumer) struct Heard {
    pub(in crate::consumer) epoch: i32,
    /// When the next one is due.
    pub(in crate::consumer) interval: Duration,
    /// What the member is to have; `None` when that is as before.
    pub(in crate::consumer) assignment: Option<ByTopicId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In no group; a poll or a subscription may change that.
    Out,
    /// Waits for [`Event::Prepared`]: what it had is lost and has to be given up first.
    Preparing,
    /// It said that it joins, or will.
    Joining,
    /// A member with an epoch, whatever it has so far.
    Joined,
}

/// One member's part in its group.
#[derive(Debug)]
pub(in crate::consumer) struct ConsumerMember {
    config: GroupConfig,
    member_id: Arc<str>,
    state: State,
    /// Whether the application wants to be in the group.
    wanted: bool,
    search: Search,
    /// [`NO_GENERATION`] in all states but [`State::Joined`].
    epoch: i32,
    reconciliation: Reconciliation,
    /// The one that is not answered yet.
    heartbeat: Option<Attempt>,
    next_heartbeat: Instant,
    /// The coordinator does not know everything, or it is not certain that it does: a heartbeat is due
    /// that says it all.
    has_news: bool,
    /// `None` until the first poll: a consumer that is never polled joins no group.
    polled: Option<Instant>,
}

impl ConsumerMember {
    pub(super) fn new(config: GroupConfig, member_id: Arc<str>, now: Instant) -> Self {
        Self {
            search: Search::new(config.retry_backoff, config.jitter),
            config,
            member_id,
            state: State::Out,
            wanted: false,
            epoch: NO_GENERATION,
            reconciliation: Reconciliation::default(),
            heartbeat: None,
            next_heartbeat: now,
            has_news: false,
            polled: None,
        }
    }

    pub(super) fn coordinator(&self) -> Option<i32> {
        self.search.node()
    }

    /// Who is not a member commits as nobody.
    pub(super) fn identity(&self) -> (Arc<str>, i32) {
        match self.state {
            State::Joined => (self.member_id.clone(), self.epoch),
            State::Out | State::Preparing | State::Joining => ("".into(), NO_GENERATION),
        }
    }

    pub(super) fn instance_id(&self) -> Option<&Arc<str>> {
        self.config.instance_id.as_ref()
    }

    pub(super) fn nameless(&self) -> BTreeSet<KafkaUuid> {
        self.reconciliation.nameless()
    }

    pub(super) fn handle(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Rejoin => {
                self.wanted = true;
                self.has_news = true;
            }
            Event::CoordinatorWanted => self.search.want(),
            Event::Polled => self.polled = Some(now),
            Event::Tick => {}
            Event::CoordinatorFound(attempt, answer) => {
                if let Err(code) = self.search.found(attempt, answer, now) {
                    self.refused(code, &mut effects);
                }
            }
            Event::Prepared => {
                if self.state == State::Preparing {
                    self.state = State::Joining;
                    self.has_news = true;
                }
            }
            Event::Assigned { .. } => {
                // Acknowledged at once: another member may wait for what was revoked.
                self.has_news |= self.reconciliation.done();
                self.reconcile(&mut effects);
            }
            Event::CommitFailed(epoch, code) => self.commit_failed(epoch, code, &mut effects),
            Event::Leave(_) => {
                self.wanted = false;
                self.leave(&mut effects);
            }
            Event::Heard(attempt, answer) => self.heard(attempt, answer, now, &mut effects),
            Event::Named(names) => {
                self.reconciliation.named(names);
                self.reconcile(&mut effects);
            }
            Event::Joined(..)
            | Event::Counted(..)
            | Event::Synced(..)
            | Event::HeartbeatAnswered(..) => {}
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
        if self.heartbeats() && self.heartbeat.is_none() && self.coordinator().is_some() {
            let next = if self.has_news {
                now
            } else {
                self.next_heartbeat
            };
            due.push(next.max(not_before.unwrap_or(now)));
        }
        due.extend(not_before.filter(|&at| at > now));
        due.into_iter().min()
    }

    fn is_in_group(&self) -> bool {
        self.state != State::Out
    }

    fn heartbeats(&self) -> bool {
        matches!(self.state, State::Joining | State::Joined)
    }

    /// Does what the state and the clock ask for.
    fn advance(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let alive = self
            .polled
            .is_some_and(|at| now.saturating_duration_since(at) < self.config.max_poll_interval);
        if self.is_in_group() && !alive {
            self.leave(effects);
        }
        if self.state == State::Out && self.wanted && alive {
            self.lose(effects);
        }
        let Some(coordinator) = self.search.ask(self.wanted, now, effects) else {
            return;
        };
        let is_due = self.has_news || now >= self.next_heartbeat;
        if self.heartbeats() && self.heartbeat.is_none() && is_due {
            self.beat(coordinator, effects);
        }
    }

    fn beat(&mut self, coordinator: i32, effects: &mut Vec<Effect>) {
        let attempt = self.search.attempt();
        self.heartbeat = Some(attempt);
        let says_all = std::mem::take(&mut self.has_news);
        effects.push(Effect::ConsumerHeartbeat(Heartbeat {
            attempt,
            coordinator,
            member_id: self.member_id.clone(),
            epoch: match self.state {
                State::Joined => self.epoch,
                State::Out | State::Preparing | State::Joining => JOIN,
            },
            owned: says_all.then(|| self.reconciliation.owned()),
        }));
    }

    /// Gives the application what it is to have, as far as that is known and one step at a time.
    fn reconcile(&mut self, effects: &mut Vec<Effect>) {
        effects.extend(self.reconciliation.step().map(Effect::Assign));
    }

    /// The coordinator does not count this member in: what it owns may be another's by now.
    fn lose(&mut self, effects: &mut Vec<Effect>) {
        self.out();
        self.state = State::Preparing;
        effects.push(Effect::Prepare { lost: true });
    }

    /// Leaves, and tells the coordinator so: whoever waits for its partitions need not wait for its
    /// session to end. The answer makes no difference.
    fn leave(&mut self, effects: &mut Vec<Effect>) {
        if let Some(coordinator) = self.coordinator()
            && self.heartbeats()
        {
            effects.push(Effect::ConsumerHeartbeat(Heartbeat {
                attempt: self.search.attempt(),
                coordinator,
                member_id: self.member_id.clone(),
                epoch: match self.config.instance_id {
                    Some(_) => LEAVE_FOR_A_WHILE,
                    None => LEAVE,
                },
                owned: None,
            }));
        }
        self.out();
    }

    fn out(&mut self) {
        self.state = State::Out;
        self.epoch = NO_GENERATION;
        self.heartbeat = None;
        self.reconciliation = Reconciliation::default();
    }

    /// What it was told by a heartbeat that is not answered is not certain.
    fn forget_coordinator(&mut self) {
        self.search.forget();
        self.heartbeat = None;
        self.has_news = true;
    }
}
