//! A rebalance: members are told to join again, those who do make the next generation. Knows nothing of
//! the requests by which they do.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;
use wire::ErrorCode;

use crate::group::request::{Reply, Token};
use crate::group::state::{Group, Initial, Phase};
use crate::group::turn::{Then, Turn};

impl Group {
    /// Begins a rebalance, or ends the one that is under way if this was what it waited for.
    pub(in crate::group) fn rebalance(&mut self, turn: &mut Turn<'_>) {
        match self.phase {
            Phase::PreparingRebalance { .. } => self.finish_if_all_joined(turn),
            Phase::Empty | Phase::CompletingRebalance | Phase::Stable => self.prepare(turn),
        }
    }

    /// Members have gone: those who stay share anew.
    pub(in crate::group) fn rebalance_after_loss(&mut self, turn: &mut Turn<'_>) {
        if self.phase != Phase::Empty {
            self.rebalance(turn);
        }
    }

    fn prepare(&mut self, turn: &mut Turn<'_>) {
        if self.phase == Phase::CompletingRebalance {
            self.take_back_assignments(ErrorCode::RebalanceInProgress, turn);
        }
        self.sync_deadline = None;
        self.pending_syncs.clear();
        let wait_ms = self.members.rebalance_timeout_ms();
        let first = self.phase == Phase::Empty;
        let delay_ms = turn.settings.initial_rebalance_delay_ms;
        let initial = Initial {
            left_ms: wait_ms.saturating_sub(delay_ms),
            joined: false,
        };
        let wait_ms = if first { delay_ms } else { wait_ms };
        let phase = Phase::PreparingRebalance {
            deadline: turn.now.instant.plus_ms(wait_ms),
            initial: first.then_some(initial),
        };
        self.enter(phase, turn);
        self.finish_if_all_joined(turn);
    }

    /// Ends the wait when nobody else can come: not in the first rebalance, when anybody can.
    pub(in crate::group) fn finish_if_all_joined(&mut self, turn: &mut Turn<'_>) {
        if let Phase::PreparingRebalance { initial: None, .. } = self.phase
            && self.pending_joins.is_empty()
            && self.members.joining() == self.members.len()
        {
            self.next_generation(turn);
        }
    }

    /// The wait for joins is over, unless it is the first one and members still come.
    pub(in crate::group) fn join_wait_over(&mut self, turn: &mut Turn<'_>) {
        if let Phase::PreparingRebalance { deadline, initial } = &mut self.phase
            && let Some(initial) = initial
            && initial.joined
            && initial.left_ms > 0
        {
            let delay_ms = turn.settings.initial_rebalance_delay_ms;
            let delay_ms = delay_ms.min(initial.left_ms);
            *initial = Initial {
                left_ms: initial.left_ms - delay_ms,
                joined: false,
            };
            *deadline = turn.now.instant.plus_ms(delay_ms);
            return;
        }
        self.next_generation(turn);
    }

    /// Whoever has joined makes the next generation. A static member may be late, since it keeps its
    /// place until its session ends; any other that has not joined is out.
    fn next_generation(&mut self, turn: &mut Turn<'_>) {
        let late = self
            .members
            .iter()
            .filter(|member| member.joining.is_none() && member.identity.instance_id.is_none());
        let late: Vec<String> = late.map(|it| it.identity.member_id.clone()).collect();
        for id in late {
            self.remove_member(&id, ErrorCode::UnknownMemberId, turn);
        }
        if self.members.is_empty() {
            return self.become_empty(turn);
        }
        if !self.elect_joined_leader() {
            // Only late static members: wait on until their sessions end.
            let wait_ms = self.members.rebalance_timeout_ms().max(1);
            self.phase = Phase::PreparingRebalance {
                deadline: turn.now.instant.plus_ms(wait_ms),
                initial: None,
            };
            return;
        }
        self.generation = next(self.generation);
        self.protocol = self.members.elect_protocol();
        self.subscribed = self.read_subscriptions();
        self.enter(Phase::CompletingRebalance, turn);
        self.pending_syncs.clear();
        let mut joined: Vec<(Token, String)> = Vec::new();
        for member in self.members.iter_mut() {
            let id = &member.identity.member_id;
            joined.extend(member.joining.take().map(|token| (token, id.clone())));
            self.pending_syncs.insert(id.clone());
            member.is_new = false;
            member.heard(turn.now.instant);
        }
        let wait_ms = self.members.rebalance_timeout_ms();
        self.sync_deadline = Some(turn.now.instant.plus_ms(wait_ms));
        for (token, id) in joined {
            let reply = self.join_reply(&id);
            turn.reply(token, Reply::Join(reply));
        }
    }

    fn become_empty(&mut self, turn: &mut Turn<'_>) {
        self.generation = next(self.generation);
        (self.protocol, self.leader, self.subscribed) = (None, None, None);
        self.sync_deadline = None;
        self.pending_syncs.clear();
        self.enter(Phase::Empty, turn);
        let record = self.record();
        turn.append(self.partition, &self.id, vec![record], Then::Nothing);
    }

    /// Whether some member that has joined leads now.
    fn elect_joined_leader(&mut self) -> bool {
        let leader = self.leader.as_deref().and_then(|id| self.members.get(id));
        if leader.is_some_and(|member| member.joining.is_some()) {
            return true;
        }
        let joined = self.members.iter().find(|it| it.joining.is_some());
        match joined {
            Some(member) => {
                self.leader = Some(member.identity.member_id.clone());
                true
            }
            None => false,
        }
    }

    /// Nobody keeps what a generation that ends gave; syncs that wait are answered by `error`.
    pub(in crate::group) fn take_back_assignments(
        &mut self,
        error: ErrorCode,
        turn: &mut Turn<'_>,
    ) {
        let ids: Vec<String> = self
            .members
            .iter()
            .map(|it| it.identity.member_id.clone())
            .collect();
        for id in ids {
            let mut waiting = None;
            self.members.change(&id, |member| {
                member.assignment = Bytes::new();
                waiting = mem::take(&mut member.syncing);
                if waiting.is_some() {
                    member.heard(turn.now.instant);
                }
            });
            if let Some(token) = waiting {
                turn.reply(token, Reply::Sync(Err(error)));
            }
        }
    }
}

/// Generations count up for as long as the group is known; the last one is followed by the first.
fn next(generation: i32) -> i32 {
    generation.checked_add(1).unwrap_or(1)
}
