//! A consumer's subscription and its group: what changes with a rebalance, and what the application
//! has to be asked in between. Knows nothing of positions but that they come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use wire::ErrorCode;

use super::super::assignors::{NO_GENERATION, Subscription};
use super::super::calls::group::{Identity, Joining};
use super::super::membership::{Answer, Attempt, Effect, Event, Joined};
use super::{Call, State, TopicPartition, Wanted};

/// What a rebalance waits for a poll with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Give up what has to be given up before joining.
    Prepare { lost: bool },
    /// Take what the group gave.
    Assign(Vec<TopicPartition>),
    /// The group refused the member: all is lost.
    Lose,
}

/// One step, as the application sees it: commits, then callbacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) step: Step,
    /// Partitions to be given up: offsets are committed before and the listener told.
    pub(crate) revoked: BTreeSet<TopicPartition>,
    /// They are others' already: nothing can be committed any more.
    pub(crate) lost: bool,
    /// Partitions that are new; `None` when nothing is assigned in this step.
    pub(crate) added: Option<BTreeSet<TopicPartition>>,
}

impl State {
    /// Subscribes to topics, or to what a pattern matches, instead of what was wanted before.
    pub(crate) fn subscribe(&mut self, wanted: Wanted, now: Instant) -> Vec<Call> {
        let mut calls = Vec::new();
        self.wanted = wanted;
        self.match_pattern(now, &mut calls);
        self.membership_event(Event::Rejoin, now, &mut calls);
        calls
    }

    /// Reads these partitions from now on, without a group's say.
    pub(crate) fn assign(&mut self, partitions: Vec<TopicPartition>, now: Instant) -> Vec<Call> {
        let mut calls = Vec::new();
        self.wanted = Wanted::Partitions;
        self.assignment.set(partitions);
        self.faults.keep(&self.assignment.to_set());
        self.advance(now, &mut calls);
        calls
    }

    /// Leaves the group and reads nothing any more.
    pub(crate) fn unsubscribe(&mut self, reason: &'static str, now: Instant) -> Vec<Call> {
        let mut calls = Vec::new();
        self.wanted = Wanted::Nothing;
        self.steps.clear();
        self.membership_event(Event::Leave(reason), now, &mut calls);
        self.assignment.set([]);
        self.faults.keep(&BTreeSet::new());
        self.given = (Vec::new(), NO_GENERATION);
        calls
    }

    /// The application polls.
    pub(crate) fn polled(&mut self, now: Instant) -> Vec<Call> {
        let mut calls = Vec::new();
        if self.wanted.topics().is_some() {
            self.membership_event(Event::Polled, now, &mut calls);
        }
        calls
    }

    /// Who this consumer is to its coordinator; `None` while that is not known.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let membership = self.membership.as_ref()?;
        let (member_id, generation) = membership.identity();
        Some(Identity {
            coordinator: membership.coordinator()?,
            group: self.group.clone()?,
            member_id,
            generation,
            instance_id: membership.instance_id().cloned(),
        })
    }

    /// Whether offsets may be committed: with a subscription only by a member.
    pub(crate) fn may_commit(&self) -> bool {
        let membership = self.membership.as_ref();
        let is_member = membership.is_some_and(|it| it.identity().1 != NO_GENERATION);
        self.group.is_some() && (self.wanted.topics().is_none() || is_member)
    }

    /// Whether this member has a newer generation than that, or is about to get one.
    pub(crate) fn has_moved_on(&self, generation: i32) -> bool {
        self.membership.as_ref().is_some_and(|membership| {
            let now = membership.identity().1;
            now > generation || (now == generation && membership.is_joining())
        })
    }

    /// Whether a rebalance goes on that needs nothing more of the application.
    pub(crate) fn is_joining(&self) -> bool {
        self.membership.as_ref().is_some_and(|it| it.is_joining())
    }

    /// Whether a commit of these partitions is still this consumer's to make.
    pub(crate) fn owns<'a>(
        &self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
    ) -> bool {
        let mut partitions = partitions.into_iter();
        self.wanted.topics().is_none() || partitions.all(|at| self.assignment.contains(at))
    }

    /// What the next step of a rebalance asks of the application. Partitions to be revoked are not
    /// handed out from here on.
    pub(crate) fn next_work(&mut self) -> Option<Work> {
        let step = self.steps.front()?.clone();
        let owned = self.assignment.to_set();
        let cooperative = self
            .membership
            .as_ref()
            .is_some_and(|it| it.is_cooperative());
        let work = match &step {
            Step::Prepare { lost: true } | Step::Lose => Work {
                revoked: owned,
                lost: true,
                added: None,
                step,
            },
            Step::Prepare { lost: false } if !cooperative => Work {
                revoked: owned,
                lost: false,
                added: None,
                step,
            },
            Step::Prepare { lost: false } => {
                let topics = self.wanted.topics();
                let unwanted =
                    |at: &TopicPartition| !topics.is_some_and(|topics| topics.contains(&at.topic));
                Work {
                    revoked: owned.into_iter().filter(unwanted).collect(),
                    lost: false,
                    added: None,
                    step,
                }
            }
            Step::Assign(given) => {
                let given: BTreeSet<TopicPartition> = given.iter().cloned().collect();
                Work {
                    revoked: owned.difference(&given).cloned().collect(),
                    lost: false,
                    added: Some(given.difference(&owned).cloned().collect()),
                    step,
                }
            }
        };
        self.assignment.mark_revoking(&work.revoked);
        Some(work)
    }

    /// The step is through: commits are made and the listener has been told of what was revoked.
    pub(crate) fn work_done(&mut self, work: &Work, now: Instant) -> Vec<Call> {
        let mut calls = Vec::new();
        // Something may have made it void meanwhile: then that is what comes next.
        let is_due = self.steps.front() == Some(&work.step);
        if is_due {
            self.steps.pop_front();
        }
        match &work.step {
            Step::Lose => self.assignment.set([]),
            Step::Prepare { .. } => {
                let owned = self.assignment.to_set();
                self.assignment
                    .set(owned.difference(&work.revoked).cloned());
                if is_due {
                    self.membership_event(Event::Prepared, now, &mut calls);
                }
            }
            Step::Assign(given) => {
                self.totals.rebalances += 1;
                self.assignment.set(given.iter().cloned());
                let generation = self.membership.as_ref().map(|it| it.identity().1);
                self.given = (given.clone(), generation.unwrap_or(NO_GENERATION));
                if !work.revoked.is_empty() {
                    // Cooperative: what was revoked here can be given to others now.
                    self.membership_event(Event::Rejoin, now, &mut calls);
                }
            }
        }
        self.faults.keep(&self.assignment.to_set());
        self.advance(now, &mut calls);
        calls
    }

    pub(crate) fn coordinator_found(
        &mut self,
        attempt: Attempt,
        answer: Answer<i32>,
        now: Instant,
    ) -> Vec<Call> {
        self.event(Event::CoordinatorFound(attempt, answer), now)
    }

    pub(crate) fn joined(
        &mut self,
        attempt: Attempt,
        answer: Result<Joined, (ErrorCode, Arc<str>)>,
        now: Instant,
    ) -> Vec<Call> {
        self.event(Event::Joined(attempt, answer), now)
    }

    /// Fresh metadata is here for the leader's assignment.
    pub(crate) fn counted(
        &mut self,
        attempt: Attempt,
        topics: BTreeSet<Arc<str>>,
        now: Instant,
    ) -> Vec<Call> {
        let counts = self.counts(topics);
        self.event(Event::Counted(attempt, counts), now)
    }

    pub(crate) fn synced(
        &mut self,
        attempt: Attempt,
        answer: Answer<Bytes>,
        now: Instant,
    ) -> Vec<Call> {
        self.event(Event::Synced(attempt, answer), now)
    }

    pub(crate) fn heartbeat_answered(
        &mut self,
        attempt: Attempt,
        answer: Answer<()>,
        now: Instant,
    ) -> Vec<Call> {
        self.event(Event::HeartbeatAnswered(attempt, answer), now)
    }

    /// A commit failed at that generation.
    pub(crate) fn commit_failed(
        &mut self,
        generation: i32,
        code: ErrorCode,
        now: Instant,
    ) -> Vec<Call> {
        self.event(Event::CommitFailed(generation, code), now)
    }

    /// Somebody waits for the coordinator.
    pub(crate) fn want_coordinator(&mut self, now: Instant) -> Vec<Call> {
        self.event(Event::CoordinatorWanted, now)
    }

    fn event(&mut self, event: Event, now: Instant) -> Vec<Call> {
        let mut calls = Vec::new();
        self.membership_event(event, now, &mut calls);
        self.advance(now, &mut calls);
        calls
    }

    /// Passes an event to the membership and turns what it wants into calls and steps.
    pub(super) fn membership_event(&mut self, event: Event, now: Instant, calls: &mut Vec<Call>) {
        let Some(membership) = &mut self.membership else {
            return;
        };
        for effect in membership.handle(event, now) {
            self.effect(effect, now, calls);
        }
    }

    fn prepare(&mut self, lost: bool, now: Instant, calls: &mut Vec<Call>) {
        let is_idle = self.steps.is_empty();
        if lost {
            // What was given before is void, and so is what waits to be done with it.
            self.steps.clear();
        }
        if is_idle && self.assignment.partitions().next().is_none() {
            self.membership_event(Event::Prepared, now, calls);
        } else {
            self.steps.push_back(Step::Prepare { lost });
        }
    }

    fn effect(&mut self, effect: Effect, now: Instant, calls: &mut Vec<Call>) {
        match effect {
            Effect::FindCoordinator(attempt) => calls.push(Call::FindCoordinator(attempt)),
            Effect::Prepare { lost } => self.prepare(lost, now, calls),
            Effect::Join {
                attempt,
                coordinator,
                member_id,
                generation,
            } => {
                let identity = self.named(coordinator, member_id, generation);
                calls.push(Call::Join(attempt, identity, self.joining(generation)));
            }
            Effect::CountPartitions(attempt, topics) => {
                self.watched = topics.clone();
                calls.push(Call::CountPartitions(attempt, topics));
            }
            Effect::Sync {
                attempt,
                coordinator,
                member_id,
                generation,
                protocol,
                assignments,
            } => {
                let identity = self.named(coordinator, member_id, generation);
                calls.push(Call::Sync(attempt, identity, protocol, assignments));
            }
            Effect::Heartbeat {
                attempt,
                coordinator,
                member_id,
                generation,
            } => {
                let identity = self.named(coordinator, member_id, generation);
                calls.push(Call::Heartbeat(attempt, identity));
            }
            Effect::LeaveGroup {
                coordinator,
                member_id,
                reason,
            } => {
                let identity = self.named(coordinator, member_id, NO_GENERATION);
                calls.push(Call::Leave(identity, reason));
            }
            Effect::Assign(given) => self.steps.push_back(Step::Assign(given)),
            Effect::Refused(code) => {
                self.add_group_fault(code);
                self.steps.clear();
                self.steps.push_back(Step::Lose);
            }
        }
    }

    fn named(&self, coordinator: i32, member_id: Arc<str>, generation: i32) -> Identity {
        let instance_id = self.membership.as_ref().and_then(|it| it.instance_id());
        Identity {
            coordinator,
            group: self.group.clone().unwrap_or_else(|| "".into()),
            member_id,
            generation,
            instance_id: instance_id.cloned(),
        }
    }

    /// What this member says of itself, once for each assignor.
    fn joining(&self, generation: i32) -> Joining {
        let topics = self.wanted.topics().cloned().unwrap_or_default();
        let owned: Vec<TopicPartition> = self.assignment.partitions().cloned().collect();
        let protocols = self.assignors.iter().map(|assignor| {
            let subscription = Subscription {
                topics: topics.clone(),
                user_data: match assignor.is_cooperative() {
                    true => assignor.user_data(&owned, generation),
                    false => assignor.user_data(&self.given.0, self.given.1),
                },
                owned: owned.clone(),
                generation,
                rack: Some(self.config.client_rack.as_str())
                    .filter(|rack| !rack.is_empty())
                    .map(Into::into),
            };
            (assignor.name(), subscription.encode())
        });
        Joining {
            session_timeout: self.config.session_timeout,
            rebalance_timeout: self.config.max_poll_interval,
            protocols: protocols.collect(),
        }
    }

    /// Topics that match a pattern come and go with the metadata; the group rebalances then.
    pub(super) fn match_pattern(&mut self, now: Instant, calls: &mut Vec<Call>) {
        let Wanted::Matching(pattern, matched) = &self.wanted else {
            return;
        };
        let exclude = self.config.exclude_internal_topics;
        let topics = self.metadata.topics.values().filter(|topic| {
            let hidden = exclude && topic.is_internal;
            topic.error.is_none() && !hidden && (pattern.0)(&topic.name)
        });
        let now_matching: BTreeSet<Arc<str>> = topics.map(|topic| topic.name.clone()).collect();
        if now_matching != *matched {
            self.wanted = Wanted::Matching(pattern.clone(), now_matching);
            self.membership_event(Event::Rejoin, now, calls);
        }
    }

    /// As leader: the group rebalances when topics have got more partitions.
    pub(super) fn watch_counts(&mut self, now: Instant, calls: &mut Vec<Call>) {
        let Some(counted) = self.membership.as_ref().and_then(|it| it.counted()) else {
            return;
        };
        let known: BTreeMap<_, _> = counted.clone();
        let counts = self.counts(self.watched.iter().cloned());
        if counts != known {
            self.membership_event(Event::Rejoin, now, calls);
        }
    }
}
