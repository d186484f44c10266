//! What members of a group of consumers may commit and ask for, and what is left of a group that is
//! deleted or forgotten. Knows nothing of offsets.

use alloc::vec::Vec;

use wire::ErrorCode;
use wire::group_records::GroupRecord;

use super::round::Round;
use crate::bugs;
use crate::group::request::{Reply, Token};
use crate::group::state::Group;
use crate::group::turn::Turn;

impl Group {
    /// Whether somebody may commit: a member in its present epoch, and anybody while there are no members
    /// (invariant 25).
    pub(in crate::group) fn check_consumer_commit(
        &self,
        member_id: &str,
        epoch: i32,
    ) -> Result<(), ErrorCode> {
        if epoch < 0 && self.consumers.ahead.is_empty() {
            return Ok(());
        }
        if bugs::accepts_old_commits() && self.consumers.ahead.has_member(member_id) {
            return Ok(());
        }
        self.check_member_epoch(member_id, epoch)
    }

    /// Whether a member is in the epoch that it says.
    pub(in crate::group) fn check_member_epoch(
        &self,
        member_id: &str,
        epoch: i32,
    ) -> Result<(), ErrorCode> {
        let ahead = &self.consumers.ahead;
        if !ahead.has_member(member_id) {
            Err(ErrorCode::UnknownMemberId)
        } else if ahead.current(member_id).epoch == epoch {
            Ok(())
        } else if ahead.is_classic(member_id) {
            Err(ErrorCode::IllegalGeneration)
        } else {
            Err(ErrorCode::StaleMemberEpoch)
        }
    }

    /// Takes a DeleteGroups whose turn has come.
    pub(super) fn delete_consumers(
        &mut self,
        round: &mut Round,
        token: Token,
        turn: &mut Turn<'_>,
    ) {
        if !self.consumers.ahead.is_empty() {
            return turn.reply(token, Reply::Delete(ErrorCode::NonEmptyGroup));
        }
        for record in self.offset_removal(turn) {
            round.push(record);
        }
        self.forget_consumers(round);
        round.owe(token, Reply::Delete(ErrorCode::None), Reply::Delete);
    }

    /// Writes that nothing is left of the group as one of consumers.
    pub(super) fn forget_consumers(&mut self, round: &mut Round) {
        for record in self.consumers.ahead.removal() {
            self.consumers.write(round, record);
        }
    }

    /// The records by which an empty group of consumers makes room for one by the classic protocol, or is
    /// forgotten. None while there are members or something is on its way.
    pub(in crate::group) fn make_room(&mut self) -> Option<Vec<GroupRecord>> {
        let consumers = &mut self.consumers;
        if !consumers.ahead.is_empty() || consumers.in_flight || !consumers.waiting.is_empty() {
            return None;
        }
        let removal = consumers.ahead.removal().into_iter();
        let removal = removal.map(|record| {
            consumers.ahead.replay(&record);
            let group = self.id.clone();
            GroupRecord::Consumer { group, record }
        });
        Some(removal.collect())
    }
}
