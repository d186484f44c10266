//! ConsumerGroupHeartbeat: who may be a member under which id, what it says of itself, and what it is
//! told to have. Knows nothing of how partitions are shared out.

use alloc::format;
use alloc::string::String;

use wire::ErrorCode;
use wire::group_records::{Assignment, ConsumerRecord, ConsumerValue, CurrentValue};

use super::reconcile::{Goal, is_subset, reconcile};
use super::round::Round;
use super::settings::ConsumerSettings;
use super::subscription::compile;
use super::{Consumers, JOIN, LEAVE, LEAVE_FOR_A_WHILE, session_timeout_ms};
use crate::bugs;
use crate::group::request::{
    ConsumerHeartbeat, ConsumerHeartbeatReply, JoinReply, Refusal, Reply, Request, Token,
};
use crate::group::state::{Group, Phase};
use crate::group::turn::Turn;

/// Somebody who was let in, and moves on.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) token: Token,
    pub(super) member_id: String,
    pub(super) owned: Option<Assignment>,
    pub(super) asked: Asked,
}

/// By which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// ConsumerGroupHeartbeat.
    Heartbeat {
        /// It wants to be told all that it has.
        wants_all: bool,
    },
    /// JoinGroup, of a member by the classic protocol: it asks for what it has by SyncGroup.
    Join,
}

impl Group {
    /// Takes one ConsumerGroupHeartbeat, which was checked.
    pub(in crate::group) fn consumer_heartbeat(
        &mut self,
        token: Token,
        request: ConsumerHeartbeat,
        turn: &mut Turn<'_>,
    ) {
        // An empty group by the classic protocol becomes one of consumers, with its offsets.
        let empty = self.phase == Phase::Empty;
        if self.is_of_consumers() || (request.epoch == JOIN && empty) {
            return self.queue(token, Request::ConsumerHeartbeat(request), turn);
        }
        if request.epoch == JOIN {
            return self.upgrade(token, request, turn);
        }
        let refusal = Refusal::of_another_kind(&self.id);
        turn.reply(token, Reply::ConsumerHeartbeat(Err(refusal)));
    }
}

/// What is wrong with a heartbeat whatever the group is.
pub(in crate::group) fn check(
    request: &ConsumerHeartbeat,
    settings: &ConsumerSettings,
) -> Result<(), Refusal> {
    let invalid = |text: &str| Err(Refusal::new(ErrorCode::InvalidRequest, text));
    let is_empty = |text: &Option<String>| text.as_ref().is_some_and(String::is_empty);
    if is_empty(&request.instance_id) {
        return invalid("InstanceId can't be empty.");
    }
    if is_empty(&request.rack_id) {
        return invalid("RackId can't be empty.");
    }
    match request.epoch {
        JOIN => {
            if request.rebalance_timeout_ms < 0 {
                return invalid("RebalanceTimeoutMs must be provided in first request.");
            }
            if !request.owned.as_ref().is_some_and(Assignment::is_empty) {
                return invalid("TopicPartitions must be empty when (re-)joining.");
            }
            if request.topic_names.is_none() && request.topic_regex.is_none() {
                return invalid(
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when \
                     (re-)joining.",
                );
            }
        }
        LEAVE_FOR_A_WHILE if request.instance_id.is_none() => {
            return invalid("InstanceId can't be null.");
        }
        ..LEAVE_FOR_A_WHILE => return invalid("MemberEpoch is invalid."),
        _ => {}
    }
    if request.member_id.is_empty() {
        return invalid("MemberId can't be empty.");
    }
    match &request.server_assignor {
        Some(name) if settings.assignor(name).is_none() => {
            let names = settings.assignor_names();
            let text =
                format!("ServerAssignor {name} is not supported. Supported assignors: {names}.");
            Err(Refusal::new(ErrorCode::UnsupportedAssignor, text))
        }
        _ => Ok(()),
    }
}

impl Consumers {
    /// Takes a heartbeat whose turn has come. What is refused has changed nothing.
    pub(in crate::group) fn heartbeat(
        &mut self,
        round: &mut Round,
        token: Token,
        request: ConsumerHeartbeat,
        turn: &Turn<'_>,
    ) -> Result<(), Refusal> {
        if matches!(request.epoch, LEAVE | LEAVE_FOR_A_WHILE) {
            return self.leave(round, token, &request);
        }
        let member_id = request.member_id.clone();
        self.check_room(&member_id, turn)?;
        if let Some(pattern) = &request.topic_regex
            && !pattern.is_empty()
        {
            compile(pattern)
                .map_err(|text| Refusal::new(ErrorCode::InvalidRegularExpression, text))?;
        }
        match &request.instance_id {
            Some(instance) => self.admit_static(round, instance, &request)?,
            None => self.admit_dynamic(&request)?,
        }
        let says_all = request.rebalance_timeout_ms >= 0
            && (request.topic_names.is_some() || request.topic_regex.is_some())
            && request.owned.is_some();
        let wants_all = request.epoch == JOIN || says_all;
        let owned = request.owned.clone();
        self.learn(round, request);
        self.heard(&member_id, turn);
        round.admitted.push(Admitted {
            token,
            member_id,
            owned,
            asked: Asked::Heartbeat { wants_all },
        });
        Ok(())
    }

    /// A member lives.
    pub(in crate::group) fn heard(&mut self, id: &str, turn: &Turn<'_>) {
        let Some(member) = self.ahead.member(id) else {
            return;
        };
        let session_ms = session_timeout_ms(member, turn.times);
        let until = turn.now.instant.plus_ms(session_ms);
        if !(bugs::leaves_session_timers() && self.sessions.contains(id)) {
            self.sessions.set(id, until);
        }
    }

    /// `group.consumer.max.size`, and the memory for all groups.
    pub(super) fn check_room(&self, member_id: &str, turn: &Turn<'_>) -> Result<(), Refusal> {
        let most = turn.settings.consumer.size_max;
        let full = turn.full || self.ahead.members().len() >= most;
        if full && !self.ahead.has_member(member_id) {
            let text =
                format!("The consumer group has reached its maximum capacity of {most} members.");
            return Err(Refusal::new(ErrorCode::GroupMaxSizeReached, text));
        }
        Ok(())
    }

    fn admit_dynamic(&self, request: &ConsumerHeartbeat) -> Result<(), Refusal> {
        if self.ahead.has_member(&request.member_id) {
            return check_epoch(self.ahead.current(&request.member_id), request);
        }
        if request.epoch == JOIN {
            return Ok(());
        }
        Err(unknown(&request.member_id))
    }

    fn admit_static(
        &mut self,
        round: &mut Round,
        instance: &str,
        request: &ConsumerHeartbeat,
    ) -> Result<(), Refusal> {
        let known = self.ahead.static_member(instance).map(String::from);
        let Some(known) = known else {
            return if request.epoch == JOIN {
                self.admit_dynamic(request)
            } else {
                let text = format!("Instance id {instance} is unknown.");
                Err(Refusal::new(ErrorCode::UnknownMemberId, text))
            };
        };
        let current = self.ahead.current(&known);
        if request.epoch != JOIN {
            check_instance(instance, &known, request)?;
            return check_epoch(current, request);
        }
        // By the classic protocol a static member comes back without having said goodbye.
        if current.epoch == LEAVE_FOR_A_WHILE || self.ahead.is_classic(&known) {
            self.replace_static(round, &known, &request.member_id);
            return Ok(());
        }
        // The answer to its first join may have been lost.
        if known == request.member_id && check_epoch(current, request).is_ok() {
            return Ok(());
        }
        let text = format!(
            "Static member {} with instance id {instance} cannot join the group because the instance id \
             is owned by {known} member.",
            request.member_id
        );
        Err(Refusal::new(ErrorCode::UnreleasedInstanceId, text))
    }

    /// A static member that was away is back: it has what it had, under its new id.
    pub(super) fn replace_static(&mut self, round: &mut Round, old: &str, new: &str) {
        let member = self.ahead.member(old).cloned();
        let target = self.ahead.target(old).cloned();
        let current = CurrentValue {
            epoch: JOIN,
            previous_epoch: JOIN,
            ..self.ahead.current(old).clone()
        };
        let changed = round.changed;
        self.put_out_one(round, old);
        round.changed = changed;
        self.write(round, ConsumerRecord::Member(new.into(), member));
        if target.is_some() {
            self.write(round, ConsumerRecord::Target(new.into(), target));
        }
        self.write(round, ConsumerRecord::Current(new.into(), Some(current)));
    }

    /// Keeps what a member says of itself, as far as it says it.
    fn learn(&mut self, round: &mut Round, request: ConsumerHeartbeat) {
        let before = self.ahead.member(&request.member_id);
        let mut value = before.cloned().unwrap_or_default();
        let said = |pattern: String| (!pattern.is_empty()).then_some(pattern);
        if request.instance_id.is_some() {
            value.instance_id = request.instance_id;
        }
        if request.rack_id.is_some() {
            value.rack_id = request.rack_id;
        }
        if request.rebalance_timeout_ms >= 0 {
            value.rebalance_timeout_ms = request.rebalance_timeout_ms;
        }
        if request.server_assignor.is_some() {
            value.server_assignor = request.server_assignor;
        }
        if let Some(mut names) = request.topic_names {
            names.sort_unstable();
            names.dedup();
            value.topic_names = names;
        }
        if let Some(pattern) = request.topic_regex {
            value.topic_regex = said(pattern);
        }
        (value.client_id, value.client_host) = (request.client_id, request.client_host);
        value.classic = None;
        self.keep(round, request.member_id, value);
    }

    /// Keeps what is known of a member now. Others are concerned when it reads other topics.
    pub(super) fn keep(&mut self, round: &mut Round, id: String, value: ConsumerValue) {
        let before = self.ahead.member(&id);
        if before == Some(&value) {
            return;
        }
        let reads = |it: &ConsumerValue| (it.topic_names.clone(), it.topic_regex.clone());
        let reads_others = before.is_some_and(|it| reads(it) != reads(&value));
        round.changed |= before.is_none() || reads_others;
        round.urgent |= reads_others;
        self.write(round, ConsumerRecord::Member(id, Some(value)));
    }

    /// A member moves towards its target and is told what it has now, if that is news.
    pub(super) fn move_on(&mut self, round: &mut Round, admitted: Admitted, turn: &mut Turn<'_>) {
        let Admitted {
            token,
            member_id,
            owned,
            asked,
        } = admitted;
        if !self.ahead.has_member(&member_id) {
            // It has left in this very round.
            return turn.reply(token, gone(&member_id, asked));
        }
        let nothing = Assignment::new();
        let current = self.ahead.current(&member_id);
        let goal = Goal {
            epoch: self.ahead.target_epoch(),
            target: self.ahead.target(&member_id).unwrap_or(&nothing),
        };
        let next = reconcile(current, &goal, owned.as_ref(), |topic, index| {
            self.is_free(&member_id, topic, index)
        });
        // What differs from what it says was told in an answer that may have been lost.
        let differs = owned.as_ref().is_some_and(|it| *it != next.assigned);
        let is_news = differs || next.assigned != current.assigned;
        if next != *current {
            let record = ConsumerRecord::Current(member_id.clone(), Some(next.clone()));
            self.write(round, record);
            self.watch_revocation(&member_id, turn);
        }
        let wants_all = match asked {
            Asked::Join => return self.joined(round, token, &member_id, turn),
            Asked::Heartbeat { wants_all } => wants_all,
        };
        let reply = ConsumerHeartbeatReply {
            member_id,
            epoch: next.epoch,
            heartbeat_interval_ms: self.pace.next_heartbeat_ms(next.state, turn),
            assignment: (wants_all || is_news).then_some(next.assigned),
        };
        round.owe(token, Reply::ConsumerHeartbeat(Ok(reply)), |error| {
            Reply::ConsumerHeartbeat(Err(error.into()))
        });
    }
}

/// What somebody is told who is no member any more.
fn gone(member_id: &str, asked: Asked) -> Reply {
    match asked {
        Asked::Heartbeat { .. } => Reply::ConsumerHeartbeat(Err(unknown(member_id))),
        Asked::Join => {
            let error = ErrorCode::UnknownMemberId;
            Reply::Join(JoinReply::refused(error, member_id))
        }
    }
}

/// Whether a member is in the epoch that it says, or in the one after it and has nothing that it may not
/// have: then the answer that told of the next epoch was lost.
fn check_epoch(current: &CurrentValue, request: &ConsumerHeartbeat) -> Result<(), Refusal> {
    let (said, is) = (request.epoch, current.epoch);
    let owned = request.owned.as_ref();
    let answer_lost = said == current.previous_epoch
        && said < is
        && owned.is_some_and(|it| is_subset(it, &current.assigned));
    if said == is || answer_lost {
        return Ok(());
    }
    let text = format!(
        "The consumer group member has member epoch {said}, and the one known by the group coordinator \
         is {is}. The member must abandon all its partitions and rejoin."
    );
    Err(Refusal::new(ErrorCode::FencedMemberEpoch, text))
}

/// Whether nobody else is the static member now.
pub(super) fn check_instance(
    instance: &str,
    known: &str,
    request: &ConsumerHeartbeat,
) -> Result<(), Refusal> {
    if known == request.member_id || bugs::skips_static_fencing() {
        return Ok(());
    }
    let text = format!(
        "Static member {} with instance id {instance} was fenced by member {known}.",
        request.member_id
    );
    Err(Refusal::new(ErrorCode::FencedInstanceId, text))
}

pub(super) fn unknown(member_id: &str) -> Refusal {
    let text = format!("Member {member_id} is not a member of the group.");
    Refusal::new(ErrorCode::UnknownMemberId, text)
}
