//! What each answer of the coordinator means to a member: every error code as Kafka's clients take
//! it. Knows nothing of timers.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use wire::ErrorCode;

use super::super::coordinator::is_elsewhere;
use super::super::{Answer, Attempt, Effect};
use super::{ClassicMember, Joined, State};
use crate::consumer::assignors::{NO_GENERATION, decode_assignment};

impl ClassicMember {
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
                self.search.succeeded();
                self.heartbeat = None;
                self.heard = now;
                self.next_heartbeat = now + self.classic.heartbeat_interval;
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
                    self.search.succeeded();
                    self.heard = now;
                    self.state = State::Stable;
                    effects.push(Effect::Assign(assigned));
                }
                Err(_) => self.refused(ErrorCode::InconsistentGroupProtocol, effects),
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
            Err(code @ (ErrorCode::FencedInstanceId | ErrorCode::GroupAuthorizationFailed)) => {
                self.refused(code, effects);
            }
            Err(ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable) => {
                self.forget_coordinator();
            }
            // The next heartbeat tries again, until the session is over.
            Err(ErrorCode::NetworkException | ErrorCode::RequestTimedOut) => {
                self.forget_coordinator();
                self.search.back_off(now);
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
        match code {
            // One that is searched for already goes on being searched for.
            _ if is_elsewhere(code) && self.coordinator().is_some() => self.forget_coordinator(),
            _ if generation == NO_GENERATION || generation != self.generation => {}
            ErrorCode::RebalanceInProgress => self.rejoin |= self.state == State::Stable,
            ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration if self.heartbeats() => {
                if code == ErrorCode::UnknownMemberId {
                    self.member_id = "".into();
                }
                self.lose(effects);
            }
            ErrorCode::FencedInstanceId => self.refused(code, effects),
            _ => {}
        }
    }

    /// What JoinGroup and SyncGroup have in common: the rebalance begins again at JoinGroup, unless
    /// the code says that it never can succeed.
    fn failed(&mut self, code: ErrorCode, now: Instant, effects: &mut Vec<Effect>) {
        match code {
            ErrorCode::RebalanceInProgress => {}
            ErrorCode::CoordinatorLoadInProgress => self.search.back_off(now),
            code if is_elsewhere(code) => {
                self.forget_coordinator();
                self.search.back_off(now);
            }
            code => self.refused(code, effects),
        }
    }

    pub(super) fn refused(&mut self, code: ErrorCode, effects: &mut Vec<Effect>) {
        self.wanted = false;
        self.out();
        effects.push(Effect::Refused(code));
    }
}
