//! What each answer of the coordinator means to a member: every error code as Kafka's clients take
//! it. Knows nothing of timers.

use std::time::Instant;

use wire::ErrorCode;

use super::super::coordinator::is_elsewhere;
use super::super::{Answer, Attempt, Effect};
use super::{ConsumerMember, Heard, State};
use crate::consumer::assignors::NO_GENERATION;

impl ConsumerMember {
    pub(super) fn heard(
        &mut self,
        attempt: Attempt,
        answer: Answer<Heard>,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        if self.heartbeat != Some(attempt) {
            return;
        }
        self.heartbeat = None;
        match answer {
            Ok(heard) => {
                self.search.succeeded();
                self.state = State::Joined;
                self.epoch = heard.epoch;
                self.next_heartbeat = now + heard.interval;
                if let Some(target) = heard.assignment {
                    self.reconciliation.aim(target);
                    if self.nameless().is_empty() {
                        self.reconcile(effects);
                    } else {
                        effects.push(Effect::NameTopics);
                    }
                }
            }
            Err(code) => self.failed(code, now, effects),
        }
    }

    fn failed(&mut self, code: ErrorCode, now: Instant, effects: &mut Vec<Effect>) {
        let is_joined = self.state == State::Joined;
        // Whether the coordinator took what was said is not certain.
        self.has_news = true;
        match code {
            ErrorCode::FencedMemberEpoch | ErrorCode::UnknownMemberId if is_joined => {
                self.lose(effects);
            }
            // The coordinator still knows an earlier life of this member, until its session ends.
            ErrorCode::FencedMemberEpoch | ErrorCode::UnknownMemberId => self.search.back_off(now),
            // The group is gone, and its members with it. Who joins is told that the group has members
            // by the classic protocol.
            ErrorCode::GroupIdNotFound if is_joined => self.lose(effects),
            ErrorCode::CoordinatorLoadInProgress => self.search.back_off(now),
            code if is_elsewhere(code) => {
                self.forget_coordinator();
                self.search.back_off(now);
            }
            code => self.refused(code, effects),
        }
    }

    /// A commit may be the first to hear that the member is out, or in another epoch; what it heard of an
    /// earlier epoch says nothing about this one.
    pub(super) fn commit_failed(&mut self, epoch: i32, code: ErrorCode, effects: &mut Vec<Effect>) {
        match code {
            // One that is searched for already goes on being searched for.
            _ if is_elsewhere(code) && self.coordinator().is_some() => self.forget_coordinator(),
            _ if epoch == NO_GENERATION || epoch != self.epoch => {}
            // The next heartbeat brings the epoch that the coordinator has.
            ErrorCode::StaleMemberEpoch => self.has_news = true,
            ErrorCode::UnknownMemberId
            | ErrorCode::FencedMemberEpoch
            | ErrorCode::GroupIdNotFound => self.lose(effects),
            ErrorCode::FencedInstanceId => self.refused(code, effects),
            _ => {}
        }
    }

    pub(super) fn refused(&mut self, code: ErrorCode, effects: &mut Vec<Effect>) {
        self.wanted = false;
        self.out();
        effects.push(Effect::Refused(code));
    }
}
