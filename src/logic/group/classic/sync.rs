//! SyncGroup: the leader hands in what each member gets, and members get it once the log has it. Knows
//! nothing of what is in an assignment.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use wire::ErrorCode;
use wire::group_records::GroupRecord;

use crate::bugs;
use crate::group::request::{Reply, Sync, SyncReply, Token};
use crate::group::state::{Group, Phase};
use crate::group::turn::{Then, Turn};

impl Group {
    /// Takes one SyncGroup.
    pub(in crate::group) fn sync(&mut self, token: Token, request: Sync, turn: &mut Turn<'_>) {
        if let Err(error) = self.check_sync(&request) {
            return turn.reply(token, Reply::Sync(Err(error)));
        }
        let member_id = &request.identity.member_id;
        self.pending_syncs.remove(member_id);
        if self.pending_syncs.is_empty() {
            self.sync_deadline = None;
        }
        let Some(member) = self.members.get_mut(member_id) else {
            unreachable!("the member was checked");
        };
        if self.phase == Phase::Stable {
            member.heard(turn.now.instant);
            let reply = self.sync_reply(member_id);
            return turn.reply(token, Reply::Sync(Ok(reply)));
        }
        if let Some(older) = member.syncing.replace(token) {
            turn.reply(older, Reply::Sync(Err(ErrorCode::RebalanceInProgress)));
        }
        // A leader that asks twice has lost its first answer: what it handed in first counts.
        if self.is_leader(member_id) && !turn.appends.assign(&self.id, self.generation) {
            self.assign(request.assignments, turn);
        }
    }

    fn check_sync(&self, request: &Sync) -> Result<(), ErrorCode> {
        self.check_generation(&request.identity, request.generation)?;
        let differs = |said: &Option<String>, is: &Option<String>| said.is_some() && said != is;
        if differs(&request.protocol_type, &self.protocol_type)
            || differs(&request.protocol, &self.protocol)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        match self.phase {
            Phase::Empty => Err(ErrorCode::UnknownMemberId),
            Phase::PreparingRebalance { .. } => Err(ErrorCode::RebalanceInProgress),
            Phase::CompletingRebalance | Phase::Stable => Ok(()),
        }
    }

    /// Appends the generation with what its members get.
    fn assign(&mut self, assignments: Vec<(String, Bytes)>, turn: &mut Turn<'_>) {
        let mut assignments: BTreeMap<String, Bytes> = assignments.into_iter().collect();
        let mut record = self.record();
        if let GroupRecord::Group {
            value: Some(value), ..
        } = &mut record
        {
            value.state_timestamp = turn.now.wall.0;
            for member in &mut value.members {
                member.assignment = assignments.remove(&member.member_id).unwrap_or_default();
            }
        }
        let then = Then::Assign {
            generation: self.generation,
        };
        turn.append(self.partition, &self.id, vec![record], then);
    }

    /// The log has the assignment of a generation. If that is still the present one, its members get
    /// theirs; otherwise they were told to join again.
    pub(in crate::group) fn assigned(&mut self, generation: i32, turn: &mut Turn<'_>) {
        let is_present = self.generation == generation || bugs::applies_old_assignments();
        if self.phase != Phase::CompletingRebalance || !is_present {
            return;
        }
        let value = self.durable.value.clone().unwrap_or_default();
        assert_eq!(value.generation, generation, "the log has this generation");
        for given in value.members {
            self.members.change(&given.member_id, |member| {
                member.assignment = given.assignment;
            });
        }
        self.enter(Phase::Stable, turn);
        let mut waiting: Vec<(Token, String)> = Vec::new();
        for member in self.members.iter_mut() {
            let id = &member.identity.member_id;
            waiting.extend(member.syncing.take().map(|token| (token, id.clone())));
            member.heard(turn.now.instant);
        }
        for (token, id) in waiting {
            let reply = self.sync_reply(&id);
            turn.reply(token, Reply::Sync(Ok(reply)));
        }
    }

    /// The log could not take the assignment of a generation.
    pub(in crate::group) fn not_assigned(
        &mut self,
        generation: i32,
        error: ErrorCode,
        turn: &mut Turn<'_>,
    ) {
        if self.phase == Phase::CompletingRebalance && self.generation == generation {
            self.take_back_assignments(error, turn);
            self.rebalance(turn);
        }
    }

    fn sync_reply(&self, member_id: &str) -> SyncReply {
        let member = self.members.get(member_id);
        SyncReply {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: member.map(|it| it.assignment.clone()).unwrap_or_default(),
        }
    }
}
