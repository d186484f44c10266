//! Heartbeats, and what becomes of a group when time passes without them. Knows nothing of clocks: the
//! moment comes with the event.

use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use wire::ErrorCode;

use crate::bugs;
use crate::group::request::{Heartbeat, Reply, Token};
use crate::group::state::{Group, Phase};
use crate::group::turn::Turn;

impl Group {
    /// Takes one Heartbeat.
    pub(in crate::group) fn heartbeat(
        &mut self,
        token: Token,
        request: &Heartbeat,
        turn: &mut Turn<'_>,
    ) {
        let checked = self.check_generation(&request.identity, request.generation);
        let answer = match checked {
            Err(error) => error,
            Ok(()) => {
                self.heard(&request.identity.member_id, turn);
                match self.phase {
                    Phase::PreparingRebalance { .. } => ErrorCode::RebalanceInProgress,
                    _ => ErrorCode::None,
                }
            }
        };
        turn.reply(token, Reply::Heartbeat(answer));
    }

    /// A member lives.
    pub(in crate::group) fn heard(&mut self, member_id: &str, turn: &Turn<'_>) {
        if !bugs::leaves_session_timers()
            && let Some(member) = self.members.get_mut(member_id)
        {
            member.heard(turn.now.instant);
        }
    }

    /// Does what is due: sessions end, waits are over.
    pub(in crate::group) fn wake(&mut self, turn: &mut Turn<'_>) {
        if self.is_of_consumers() {
            return self.go_on(turn);
        }
        let now = turn.now.instant;
        let before = self.pending_joins.len();
        self.pending_joins.retain(|_, until| *until > now);
        let gave_up = self.pending_joins.len() < before;
        let silent = self
            .members
            .iter()
            .filter(|member| member.deadline <= now && !member.is_kept_waiting());
        let silent: Vec<String> = silent.map(|it| it.identity.member_id.clone()).collect();
        for id in &silent {
            self.remove_member(id, ErrorCode::UnknownMemberId, turn);
        }
        if !silent.is_empty() {
            self.rebalance_after_loss(turn);
        } else if gave_up {
            self.finish_if_all_joined(turn);
        }
        if let Phase::PreparingRebalance { deadline, .. } = self.phase
            && deadline <= now
        {
            self.join_wait_over(turn);
        }
        if self.sync_deadline.is_some_and(|deadline| deadline <= now) {
            self.sync_wait_over(turn);
        }
    }

    /// Members that have joined and never asked for their assignment are out.
    fn sync_wait_over(&mut self, turn: &mut Turn<'_>) {
        self.sync_deadline = None;
        for id in mem::take(&mut self.pending_syncs) {
            self.remove_member(&id, ErrorCode::UnknownMemberId, turn);
        }
        self.rebalance_after_loss(turn);
    }
}
