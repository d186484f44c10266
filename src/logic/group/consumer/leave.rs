//! Members that say they go, for good or for a while, or are removed by an operator. Knows nothing of
//! members that fall silent.

use alloc::string::String;
use alloc::vec::Vec;

use wire::ErrorCode;
use wire::group_records::{Assignment, ConsumerRecord, CurrentValue};

use super::heartbeat::{check_instance, unknown};
use super::round::Round;
use super::{Consumers, LEAVE_FOR_A_WHILE};
use crate::group::request::{
    ConsumerHeartbeat, ConsumerHeartbeatReply, Identity, Leave, Refusal, Reply, Token,
};

impl Consumers {
    /// Takes a heartbeat that says goodbye.
    pub(super) fn leave(
        &mut self,
        round: &mut Round,
        token: Token,
        request: &ConsumerHeartbeat,
    ) -> Result<(), Refusal> {
        let id = &request.member_id;
        match &request.instance_id {
            None if self.ahead.has_member(id) => {}
            None => return Err(unknown(id)),
            Some(instance) => {
                let known = self.ahead.static_member(instance);
                check_instance(instance, known.ok_or_else(|| unknown(id))?, request)?;
            }
        }
        if request.epoch == LEAVE_FOR_A_WHILE {
            self.let_go_for_a_while(round, id);
        } else {
            self.put_out_one(round, id);
        }
        let reply = ConsumerHeartbeatReply {
            member_id: id.clone(),
            epoch: request.epoch,
            heartbeat_interval_ms: 0,
            assignment: None,
        };
        round.owe(token, Reply::ConsumerHeartbeat(Ok(reply)), |error| {
            Reply::ConsumerHeartbeat(Err(error.into()))
        });
        Ok(())
    }

    /// A static member's partitions wait for it until its session ends. What it was to give back it has
    /// not any more.
    fn let_go_for_a_while(&mut self, round: &mut Round, id: &str) {
        let current = CurrentValue {
            epoch: LEAVE_FOR_A_WHILE,
            pending_revocation: Assignment::new(),
            ..self.ahead.current(id).clone()
        };
        self.write(round, ConsumerRecord::Current(id.into(), Some(current)));
        self.revocations.remove(id);
    }

    /// Takes a LeaveGroup, by which an operator removes members.
    pub(super) fn leave_by_classic_request(
        &mut self,
        round: &mut Round,
        request: &Leave,
    ) -> Vec<ErrorCode> {
        let members = request.members.iter();
        members.map(|it| self.remove(round, it)).collect()
    }

    fn remove(&mut self, round: &mut Round, identity: &Identity) -> ErrorCode {
        let by_instance = identity.instance_id.as_deref();
        let by_instance = by_instance.map(|it| self.ahead.static_member(it).map(String::from));
        let id = match by_instance {
            Some(None) => return ErrorCode::UnknownMemberId,
            Some(Some(known)) if identity.member_id.is_empty() => known,
            Some(Some(known)) if known != identity.member_id => {
                return ErrorCode::FencedInstanceId;
            }
            Some(Some(_)) | None => identity.member_id.clone(),
        };
        if !self.ahead.has_member(&id) {
            return ErrorCode::UnknownMemberId;
        }
        self.put_out_one(round, &id);
        ErrorCode::None
    }
}
