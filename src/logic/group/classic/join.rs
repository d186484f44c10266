//! JoinGroup: who may join, under which id, and whether that begins a rebalance. Knows nothing of how a
//! rebalance goes on.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use wire::ErrorCode;

use super::members::{Member, Protocols};
use crate::group::request::{Identity, Join, JoinReply, Reply, Token};
use crate::group::state::{Group, Phase};
use crate::group::turn::{Then, Turn};

/// A new member whose join waits for others is given up after this: its connection may be gone.
const NEW_MEMBER_WAIT_MS: u64 = 5 * 60 * 1000;

impl Group {
    /// Takes one JoinGroup. The group is not full of what its log holds: it may be new.
    pub(in crate::group) fn join(&mut self, token: Token, mut request: Join, turn: &mut Turn<'_>) {
        once_each(&mut request.protocols);
        let member_id = request.identity.member_id.clone();
        if !self.has_room_for(&member_id, turn) {
            self.remove_member(&member_id, ErrorCode::GroupMaxSizeReached, turn);
            return refuse(token, ErrorCode::GroupMaxSizeReached, "", turn);
        }
        if !self.can_follow(&request) {
            let error = ErrorCode::InconsistentGroupProtocol;
            return refuse(token, error, &member_id, turn);
        }
        if member_id.is_empty() {
            self.join_without_id(token, request, turn);
        } else if self.pending_joins.contains_key(&member_id)
            && request.identity.instance_id.is_some()
        {
            // Only a member without a name of its own was told to come back under this id.
            refuse(token, ErrorCode::UnknownMemberId, &member_id, turn);
        } else if self.pending_joins.contains_key(&member_id) {
            self.add_member(token, member_id, request, turn);
        } else {
            self.join_again(token, request, turn);
        }
    }

    /// `group.max.size`, and the memory for all groups.
    fn has_room_for(&self, member_id: &str, turn: &Turn<'_>) -> bool {
        let known = self.members.get(member_id);
        let most = turn.settings.size_max;
        let room = match self.phase {
            Phase::Empty => true,
            Phase::PreparingRebalance { .. } => {
                known.is_some_and(|member| member.joining.is_some())
                    || self.members.joining() < most
            }
            Phase::CompletingRebalance | Phase::Stable => {
                known.is_some() || self.members.len() < most
            }
        };
        room && (known.is_some() || !turn.full)
    }

    fn can_follow(&self, request: &Join) -> bool {
        if self.phase == Phase::Empty {
            return !request.protocol_type.is_empty() && !request.protocols.is_empty();
        }
        self.protocol_type.as_ref() == Some(&request.protocol_type)
            && self.members.share_any(&request.protocols)
    }

    fn join_without_id(&mut self, token: Token, request: Join, turn: &mut Turn<'_>) {
        let member_id = fresh_id(&request);
        match &request.identity.instance_id {
            Some(instance) => match self.members.static_member(instance) {
                Some(known) => {
                    let known = known.into();
                    self.replace_static_member(token, known, member_id, request, turn);
                }
                None => self.add_member(token, member_id, request, turn),
            },
            None if request.id_required => {
                let session = u64::try_from(request.session_timeout_ms).unwrap_or(0);
                let until = turn.now.instant.plus_ms(session);
                self.pending_joins.insert(member_id.clone(), until);
                refuse(token, ErrorCode::MemberIdRequired, &member_id, turn);
            }
            None => self.add_member(token, member_id, request, turn),
        }
    }

    fn add_member(&mut self, token: Token, member_id: String, request: Join, turn: &mut Turn<'_>) {
        self.pending_joins.remove(&member_id);
        if let Phase::PreparingRebalance {
            initial: Some(initial),
            ..
        } = &mut self.phase
        {
            initial.joined = true;
        }
        if self.members.is_empty() {
            self.protocol_type = Some(request.protocol_type);
        }
        if self.leader.is_none() {
            self.leader = Some(member_id.clone());
        }
        self.members.insert(Member {
            identity: Identity {
                member_id,
                instance_id: request.identity.instance_id,
            },
            client_id: request.client_id,
            client_host: request.client_host,
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            session_timeout_ms: request.session_timeout_ms,
            protocols: request.protocols,
            assignment: bytes::Bytes::new(),
            joining: Some(token),
            syncing: None,
            is_new: true,
            deadline: turn.now.instant.plus_ms(NEW_MEMBER_WAIT_MS),
        });
        self.rebalance(turn);
    }

    fn join_again(&mut self, token: Token, request: Join, turn: &mut Turn<'_>) {
        let member_id = request.identity.member_id.clone();
        if let Err(error) = self.check_member(&request.identity) {
            return refuse(token, error, &member_id, turn);
        }
        let same = self
            .members
            .get(&member_id)
            .is_some_and(|member| member.protocols == request.protocols);
        let leads = self.is_leader(&member_id);
        match self.phase {
            // Its answer may have been lost: it gets the same again.
            Phase::CompletingRebalance if same => {
                let reply = self.join_reply(&member_id);
                turn.reply(token, Reply::Join(reply));
            }
            // A leader that joins again wants to assign anew; a follower only when it has changed.
            Phase::Stable if same && !leads => {
                let reply = self.join_reply(&member_id);
                turn.reply(token, Reply::Join(reply));
            }
            Phase::PreparingRebalance { .. } | Phase::CompletingRebalance | Phase::Stable => {
                self.update_member(&member_id, request, turn);
                self.wait_for_join(&member_id, token, turn);
                self.rebalance(turn);
            }
            Phase::Empty => refuse(token, ErrorCode::UnknownMemberId, &member_id, turn),
        }
    }

    fn update_member(&mut self, member_id: &str, request: Join, turn: &Turn<'_>) {
        self.members.change(member_id, |member| {
            member.protocols = request.protocols;
            member.rebalance_timeout_ms = request.rebalance_timeout_ms;
            member.session_timeout_ms = request.session_timeout_ms;
            // A new member has no session before its first generation.
            if !member.is_new {
                member.heard(turn.now.instant);
            }
        });
    }

    /// The member waits for the others. An older join of it that still waits has lost its connection.
    fn wait_for_join(&mut self, member_id: &str, token: Token, turn: &mut Turn<'_>) {
        if let Some(member) = self.members.get_mut(member_id)
            && let Some(older) = member.joining.replace(token)
        {
            refuse(older, ErrorCode::RebalanceInProgress, member_id, turn);
        }
    }

    /// A static member has come back without its id (KIP-345): it gets another one, and whoever still
    /// uses the old one is fenced. Where nothing that counts has changed, the generation goes on.
    fn replace_static_member(
        &mut self,
        token: Token,
        old_id: String,
        new_id: String,
        request: Join,
        turn: &mut Turn<'_>,
    ) {
        let can_skip_assignment = request.can_skip_assignment;
        let leader = self.leader.clone().unwrap_or_default();
        let Some(mut member) = self.members.remove(&old_id) else {
            unreachable!("an instance id names a member");
        };
        let fenced = ErrorCode::FencedInstanceId;
        if let Some(token) = member.joining.take() {
            refuse(token, fenced, &old_id, turn);
        }
        if let Some(token) = member.syncing.take() {
            turn.reply(token, Reply::Sync(Err(fenced)));
        }
        member.identity.member_id.clone_from(&new_id);
        self.members.insert(member);
        if self.pending_syncs.remove(&old_id) {
            self.pending_syncs.insert(new_id.clone());
        }
        if leader == old_id {
            self.leader = Some(new_id.clone());
        }
        self.update_member(&new_id, request, turn);
        if self.phase == Phase::Stable && self.members.elect_protocol() == self.protocol {
            let then = Then::Return {
                token,
                member_id: new_id,
                leader,
                can_skip_assignment,
            };
            let record = self.record();
            turn.append(self.partition, &self.id, alloc::vec![record], then);
        } else {
            self.wait_for_join(&new_id, token, turn);
            self.rebalance(turn);
        }
    }

    /// The log knows that a static member has come back.
    pub(in crate::group) fn returned(
        &self,
        token: Token,
        member_id: &str,
        leader: String,
        can_skip_assignment: bool,
        turn: &mut Turn<'_>,
    ) {
        let Some(member) = self.members.get(member_id) else {
            return refuse(token, ErrorCode::UnknownMemberId, member_id, turn);
        };
        let mut reply = self.join_reply(&member.identity.member_id);
        if can_skip_assignment {
            reply.skip_assignment = self.is_leader(member_id);
        } else {
            // It must not think that it leads: it would assign anew, to members that do not ask.
            reply.leader = leader;
            reply.members = Vec::new();
        }
        turn.reply(token, Reply::Join(reply));
    }

    /// What a member of the present generation is told.
    pub(in crate::group) fn join_reply(&self, member_id: &str) -> JoinReply {
        let protocol = self.protocol.as_deref();
        JoinReply {
            error: None,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            skip_assignment: false,
            member_id: member_id.into(),
            members: if self.is_leader(member_id) {
                self.members.joined(protocol)
            } else {
                Vec::new()
            },
        }
    }
}

fn refuse(token: Token, error: ErrorCode, member_id: &str, turn: &mut Turn<'_>) {
    turn.reply(token, Reply::Join(JoinReply::refused(error, member_id)));
}

/// Kafka's form: the client's id, or the instance id, and a UUID.
pub(in crate::group) fn fresh_id(request: &Join) -> String {
    let name = request.identity.instance_id.as_ref();
    let name = name.unwrap_or(&request.client_id);
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|it| format!("{it:02x}")).collect() };
    let id = &request.random;
    format!(
        "{name}-{}-{}-{}-{}-{}",
        hex(&id[..4]),
        hex(&id[4..6]),
        hex(&id[6..8]),
        hex(&id[8..10]),
        hex(&id[10..])
    )
}

/// A protocol that is named twice counts once.
pub(in crate::group) fn once_each(protocols: &mut Protocols) {
    let mut seen = alloc::collections::BTreeSet::new();
    protocols.retain(|(name, _)| seen.insert(name.clone()));
}
