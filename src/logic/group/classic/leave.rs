//! LeaveGroup: members that say they go, or are removed by an operator. Knows nothing of members that
//! fall silent.

use alloc::vec::Vec;

use wire::ErrorCode;

use crate::group::request::{Identity, Leave, Reply, Token};
use crate::group::state::Group;
use crate::group::turn::Turn;

impl Group {
    /// Takes one LeaveGroup.
    pub(in crate::group) fn leave(&mut self, token: Token, request: &Leave, turn: &mut Turn<'_>) {
        let mut any = false;
        let mut results = Vec::with_capacity(request.members.len());
        for identity in &request.members {
            let result = self.leave_one(identity, turn);
            any |= result == ErrorCode::None;
            results.push(result);
        }
        turn.reply(token, Reply::Leave(Ok(results)));
        if any {
            self.rebalance_after_loss(turn);
        }
    }

    fn leave_one(&mut self, identity: &Identity, turn: &mut Turn<'_>) -> ErrorCode {
        let by_instance = identity.instance_id.as_deref();
        let member_id = if identity.member_id.is_empty() {
            // An operator knows static members by the ids that they have given themselves.
            match by_instance.and_then(|it| self.members.static_member(it)) {
                Some(known) => known.into(),
                None => return ErrorCode::UnknownMemberId,
            }
        } else if self.pending_joins.remove(&identity.member_id).is_some() {
            return ErrorCode::None;
        } else {
            match self.check_member(identity) {
                Ok(()) => identity.member_id.clone(),
                Err(error) => return error,
            }
        };
        self.remove_member(&member_id, ErrorCode::UnknownMemberId, turn);
        ErrorCode::None
    }
}
