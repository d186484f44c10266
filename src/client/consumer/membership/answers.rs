//! What each answer of the coordinator means to a member: every error code as Kafka's clients take
//! it. Knows nothing of timers.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use wire::ErrorCode;

use super::super::assignors::{NO_GENERATION, decode_assignment};
use super::{Answer, Attempt, Coordinator, Effect, Joined, Membership, State};

impl Membership {
    pub(super) fn coordinator_found(
        &mut self,
        attempt: Attempt,
        answer: Answer<i32>,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        if self.coordinator != Coordinator::Searched(attempt) {
            return;
        }
        match answer {
            Ok(node) => {
                self.coordinator_wanted = false;
                self.coordinator = Coordinator::Known(node);
                self.succeeded();
            }
            Err(ErrorCode::GroupAuthorizationFailed | ErrorCode::InvalidGroupId) => {
                self.coordinator = Coordinator::Unknown;
                self.coordinator_wanted = false;
                self.refused(answer.err(), effects);
            }
            Err(_) => {
                self.coordinator = Coordinator::Unknown;
                self.back_off(now);
            }
        }
    }

    pub(super) fn joined(
        &mut self,
        attempt: Attempt,
        answer: Result<Joined, (ErrorCode, Arc<str>)>,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        if self.state != State::Joining(Some(attempt)) {
            return;
        }
        self.state = State::Joining(None);
        match answer {
            Ok(joined) => {
                self.succeeded();
                self.heartbeat = None;
                self.heard = now;
                self.next_heartbeat = now + self.config.heartbeat_interval;
                self.member_id = joined.member_id.clone();
                self.generation = joined.generation;
                self.protocol = joined.protocol.clone();
                self.go_on_to_sync(joined, effects);
            }
            // The coordinator gives an id first, so that members that vanish leave nothing (KIP-394).
            Err((ErrorCode::MemberIdRequired, member_id)) => self.member_id = member_id,
            Err((ErrorCode::UnknownMemberId, _)) => {
                self.member_id = "".into();
                self.lose(effects);
            }
            Err((ErrorCode::IllegalGeneration, _)) => self.lose(effects),
            Err((code, _)) => self.failed(code, now, effects),
        }
    }

    pub(super) fn synced(
        &mut self,
        attempt: Attempt,
        answer: Answer<Bytes>,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        if !matches!(self.state, State::Syncing(Some(sent), _) if sent == attempt) {
            return;
        }
        match answer {
            Ok(bytes) => match decode_assignment(bytes) {
                Ok(assigned) => {
                    self.succeeded();
                    self.heard = now;
                    self.state = State::Stable;
                    effects.push(Effect::Assign(assigned));
                }
                Err(_) => self.refused(Some(ErrorCode::InconsistentGroupProtocol), effects),
            },
            Err(ErrorCode::UnknownMemberId) => {
                self.member_id = "".into();
                self.lose(effects);
            }
            Err(ErrorCode::IllegalGeneration) => self.lose(effects),
            Err(code) => {
                // Whatever else happened, this generation's assignment is not to be had any more.
                self.state = State::Joining(None);
                self.failed(code, now, effects);
            }
        }
    }

    pub(super) fn heartbeat_answered(
        &mut self,
        attempt: Attempt,
        answer: Answer<()>,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        if self.heartbeat != Some(attempt) {
            return;
        }
        self.heartbeat = None;
        if !self.heartbeats() {
            return;
        }
        match answer {
            Ok(()) => self.heard = now,
            Err(ErrorCode::RebalanceInProgress) => {
                self.heard = now;
                self.rejoin |= self.state == State::Stable;
            }
            Err(ErrorCode::UnknownMemberId) => {
                self.member_id = "".into();
                self.lose(effects);
            }
            Err(ErrorCode::IllegalGeneration) => self.lose(effects),
            Err(ErrorCode::FencedInstanceId | ErrorCode::GroupAuthorizationFailed) => {
                self.refused(answer.err(), effects);
            }
            Err(ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable) => {
                self.forget_coordinator();
            }
            // The next heartbeat tries again, until the session is over.
            Err(ErrorCode::NetworkException | ErrorCode::RequestTimedOut) => {
                self.forget_coordinator();
                self.back_off(now);
            }
            Err(_) => {}
        }
    }

    /// A commit may be the first to hear that the member is out; what it heard of an earlier
    /// generation says nothing about this one.
    pub(super) fn commit_failed(
        &mut self,
        generation: i32,
        code: ErrorCode,
        effects: &mut Vec<Effect>,
    ) {
        let is_elsewhere = matches!(
            code,
            ErrorCode::NotCoordinator
                | ErrorCode::CoordinatorNotAvailable
                | ErrorCode::RequestTimedOut
                | ErrorCode::NetworkException
        );
        match code {
            // One that is searched for already goes on being searched for.
            _ if is_elsewhere && self.coordinator().is_some() => self.forget_coordinator(),
            _ if generation == NO_GENERATION || generation != self.generation => {}
            ErrorCode::RebalanceInProgress => self.rejoin |= self.state == State::Stable,
            ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration if self.heartbeats() => {
                if code == ErrorCode::UnknownMemberId {
                    self.member_id = "".into();
                }
                self.lose(effects);
            }
            ErrorCode::FencedInstanceId => self.refused(Some(code), effects),
            _ => {}
        }
    }

    /// What JoinGroup and SyncGroup have in common: the rebalance begins again at JoinGroup, unless
    /// the code says that it never can succeed.
    fn failed(&mut self, code: ErrorCode, now: Instant, effects: &mut Vec<Effect>) {
        match code {
            ErrorCode::RebalanceInProgress => {}
            ErrorCode::CoordinatorLoadInProgress => self.back_off(now),
            ErrorCode::NotCoordinator
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NetworkException
            | ErrorCode::RequestTimedOut => {
                self.forget_coordinator();
                self.back_off(now);
            }
            code => self.refused(Some(code), effects),
        }
    }

    fn refused(&mut self, code: Option<ErrorCode>, effects: &mut Vec<Effect>) {
        self.wanted = false;
        self.out();
        effects.extend(code.map(Effect::Refused));
    }
}
