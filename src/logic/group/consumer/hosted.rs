//! Members by the classic protocol in a group of consumers, as there are while it changes from one protocol to
//! the other: they join, ask for what they have, and beat as ever, but nobody waits for anybody, and the
//! coordinator shares out. A member's epoch is its generation. Knows nothing of how a group comes to have both
//! kinds of members.

use alloc::string::String;
use alloc::vec::Vec;

use wire::ErrorCode;
use wire::group_records::{Assignment, ClassicValue, ConsumerValue, CurrentValue, MemberState};

use super::Consumers;
use super::heartbeat::{Admitted, Asked};
use super::reconcile::is_subset;
use super::round::Round;
use crate::group::classic::{fresh_id, once_each};
use crate::group::embedded::{Subscription, write_assignment};
use crate::group::request::{Heartbeat, Identity, Join, JoinReply, Reply, Sync, SyncReply, Token};
use crate::group::state::CONSUMER;
use crate::group::turn::Turn;

impl Consumers {
    /// Takes a JoinGroup whose turn has come. What is refused, by an error and the id to come back with, has
    /// changed nothing.
    pub(super) fn join(
        &mut self,
        round: &mut Round,
        token: Token,
        mut request: Join,
        turn: &Turn<'_>,
    ) -> Result<(), (ErrorCode, String)> {
        once_each(&mut request.protocols);
        let is_new = request.identity.member_id.is_empty();
        let id = if is_new {
            fresh_id(&request)
        } else {
            request.identity.member_id.clone()
        };
        let refused = |error| (error, id.clone());
        self.check_room(&id, turn)
            .map_err(|refusal| refused(refusal.error))?;
        let subscription = self
            .follows(&request)
            .ok_or_else(|| refused(ErrorCode::InconsistentGroupProtocol))?;
        match &request.identity.instance_id {
            None if is_new && request.id_required => {
                return Err(refused(ErrorCode::MemberIdRequired));
            }
            None => self.check_speaks_classic(&id).map_err(refused)?,
            Some(instance) => self
                .let_in_static(round, instance, &id, is_new)
                .map_err(refused)?,
        }
        let owned = turn.topics.by_id(&subscription.owned);
        let value = said(request, subscription);
        self.keep(round, id.clone(), value);
        self.heard(&id, turn);
        round.admitted.push(Admitted {
            token,
            member_id: id,
            owned: Some(owned),
            asked: Asked::Join,
        });
        Ok(())
    }

    /// What a member subscribes to, if it is a consumer and can follow a protocol that the others by the
    /// classic protocol can follow too: the group may have to do without the coordinator's assignors again.
    fn follows(&self, request: &Join) -> Option<Subscription> {
        if request.protocol_type != CONSUMER {
            return None;
        }
        let can_follow = |name: &str| {
            let mut others = self.ahead.classic_members();
            others.all(|(_, it)| it.protocols.iter().any(|(known, _)| known == name))
        };
        if !request.protocols.iter().any(|(name, _)| can_follow(name)) {
            return None;
        }
        let (_, said) = request.protocols.first()?;
        Subscription::read(said.clone())
    }

    /// Whether an id is nobody's by the new protocol.
    fn check_speaks_classic(&self, id: &str) -> Result<(), ErrorCode> {
        if self.ahead.has_member(id) && !self.ahead.is_classic(id) {
            return Err(ErrorCode::UnknownMemberId);
        }
        Ok(())
    }

    /// A static member that joins without an id is a new one, or takes its own place, whatever protocol it
    /// spoke before.
    fn let_in_static(
        &mut self,
        round: &mut Round,
        instance: &str,
        id: &str,
        is_new: bool,
    ) -> Result<(), ErrorCode> {
        let known = self.ahead.static_member(instance).map(String::from);
        match known {
            None if is_new => Ok(()),
            None => Err(ErrorCode::UnknownMemberId),
            Some(known) if is_new => {
                self.replace_static(round, &known, id);
                Ok(())
            }
            Some(known) if known != id => Err(ErrorCode::FencedInstanceId),
            Some(_) => self.check_speaks_classic(id),
        }
    }

    /// A member has joined: it is told its epoch at once, and to ask for what it has in time.
    pub(super) fn joined(&mut self, round: &mut Round, token: Token, id: &str, turn: &Turn<'_>) {
        let Some((value, classic)) = self.classic(id) else {
            unreachable!("a member that joins speaks the classic protocol");
        };
        let reply = JoinReply {
            generation: self.ahead.current(id).epoch,
            protocol_type: Some(CONSUMER.into()),
            protocol: first_protocol(classic),
            member_id: id.into(),
            // Nobody leads: the coordinator shares out.
            ..JoinReply::default()
        };
        let wait_ms = u64::try_from(value.rebalance_timeout_ms).unwrap_or(0);
        self.revocations.set(id, turn.now.instant.plus_ms(wait_ms));
        round.owe(token, Reply::Join(reply), |error| {
            Reply::Join(JoinReply::refused(error, ""))
        });
    }

    /// Takes a SyncGroup: a member has come to have what it is to have for now.
    pub(super) fn sync(&mut self, request: &Sync, turn: &Turn<'_>) -> Result<SyncReply, ErrorCode> {
        let id = &request.identity.member_id;
        let classic = self.check_hosted(&request.identity, request.generation)?;
        let protocol = first_protocol(classic);
        let differs =
            |said: &Option<String>, is: Option<&str>| said.is_some() && said.as_deref() != is;
        if differs(&request.protocol_type, Some(CONSUMER))
            || differs(&request.protocol, protocol.as_deref())
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let has = turn.topics.by_name(&self.ahead.current(id).assigned);
        let subscription = classic.protocols.first().map(|(_, said)| said.clone());
        let reply = SyncReply {
            protocol_type: Some(CONSUMER.into()),
            protocol,
            assignment: write_assignment(has, &subscription.unwrap_or_default()),
        };
        self.revocations.remove(id);
        self.heard(id, turn);
        Ok(reply)
    }

    /// Takes a Heartbeat: a member that has something to give back, or to get, is told to join again.
    pub(super) fn beat(&mut self, request: &Heartbeat, turn: &Turn<'_>) -> ErrorCode {
        let id = &request.identity.member_id;
        if let Err(error) = self.check_hosted(&request.identity, request.generation) {
            return error;
        }
        self.heard(id, turn);
        if !self.must_join_again(id) {
            return ErrorCode::None;
        }
        let wait_ms = self.ahead.member(id).map(|it| it.rebalance_timeout_ms);
        let wait_ms = u64::try_from(wait_ms.unwrap_or(0)).unwrap_or(0);
        self.revocations
            .begin(id, turn.now.instant.plus_ms(wait_ms));
        ErrorCode::RebalanceInProgress
    }

    fn must_join_again(&self, id: &str) -> bool {
        let current = self.ahead.current(id);
        current.epoch < self.ahead.target_epoch()
            || match current.state {
                MemberState::Stable | MemberState::Unknown => false,
                MemberState::UnrevokedPartitions => true,
                MemberState::UnreleasedPartitions => self.all_is_free(id, current),
            }
    }

    /// Whether nobody has what a member waits for any more.
    fn all_is_free(&self, id: &str, current: &CurrentValue) -> bool {
        let nothing = Assignment::new();
        let target = self.ahead.target(id).unwrap_or(&nothing);
        let mut partitions = target
            .iter()
            .flat_map(|(topic, partitions)| partitions.iter().map(|index| (*topic, *index)));
        !is_subset(target, &current.assigned)
            && partitions.all(|(topic, index)| self.is_free(id, topic, index))
    }

    /// Whether a member by the classic protocol is who it says it is, in the epoch that it says.
    fn check_hosted(
        &self,
        identity: &Identity,
        generation: i32,
    ) -> Result<&ClassicValue, ErrorCode> {
        if let Some(instance) = &identity.instance_id {
            match self.ahead.static_member(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(known) if known != identity.member_id => {
                    return Err(ErrorCode::FencedInstanceId);
                }
                Some(_) => {}
            }
        }
        let (_, classic) = self
            .classic(&identity.member_id)
            .ok_or(ErrorCode::UnknownMemberId)?;
        if self.ahead.current(&identity.member_id).epoch == generation {
            Ok(classic)
        } else {
            Err(ErrorCode::IllegalGeneration)
        }
    }

    fn classic(&self, id: &str) -> Option<(&ConsumerValue, &ClassicValue)> {
        let value = self.ahead.member(id)?;
        Some((value, value.classic.as_ref()?))
    }
}

/// What a member has said of itself by joining.
fn said(request: Join, subscription: Subscription) -> ConsumerValue {
    let mut topic_names: Vec<String> = subscription.topics;
    topic_names.sort_unstable();
    topic_names.dedup();
    ConsumerValue {
        instance_id: request.identity.instance_id,
        rack_id: subscription.rack_id,
        client_id: request.client_id,
        client_host: request.client_host,
        topic_names,
        topic_regex: None,
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        server_assignor: None,
        classic: Some(ClassicValue {
            session_timeout_ms: request.session_timeout_ms,
            protocols: request.protocols,
        }),
    }
}

/// The protocol that a member is told to follow: all that it takes from it is the form of an assignment.
fn first_protocol(classic: &ClassicValue) -> Option<String> {
    classic.protocols.first().map(|(name, _)| name.clone())
}
