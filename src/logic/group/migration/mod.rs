//! A group that has members changes its protocol: from the classic one to the new one when the first member by
//! the new one joins, and back when the last one has left. Until the log has the change the group is still what
//! it was, and both forms of it are kept. Knows nothing of what members do in either.

mod downgrade;
mod upgrade;

use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use wire::ErrorCode;

use super::consumer::Consumers;
use super::state::{Group, Phase};
use super::turn::Turn;

impl Group {
    /// The log says that it is a group of consumers: members by the classic protocol are among them, and
    /// whoever waits for the others is to join again.
    pub(super) fn leave_to_consumers(&mut self, turn: &mut Turn<'_>) {
        let members = self.members.iter();
        let members: Vec<String> = members.map(|it| it.identity.member_id.clone()).collect();
        for id in members {
            self.remove_member(&id, ErrorCode::RebalanceInProgress, turn);
        }
        self.pending_joins.clear();
        self.pending_syncs.clear();
        self.sync_deadline = None;
        self.phase = Phase::Empty;
        self.forget_classic();
    }

    /// The log does not know it as a group of consumers: it stays one by the classic protocol, whose members
    /// could not be heard meanwhile.
    pub(super) fn stay_classic(&mut self, turn: &Turn<'_>) {
        self.consumers = Consumers::default();
        for member in self.members.iter_mut() {
            member.heard(turn.now.instant);
        }
    }

    /// The log knows it as a group of consumers no more: those who stay share anew among themselves, and
    /// whoever waits has its turn.
    pub(super) fn go_on_as_classic(&mut self, turn: &mut Turn<'_>) {
        let waiting = mem::take(&mut self.consumers).into_waiting();
        self.stay_classic(turn);
        self.rebalance_after_loss(turn);
        for (token, request) in waiting {
            self.take(token, request, turn);
        }
    }
}
