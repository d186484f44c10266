//! One group: its state and the checks and small steps that all requests share. What is in the log
//! ([`Durable`]) and what the members' connections make of it now are kept apart. Knows nothing of any
//! one request.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;

use wire::ErrorCode;
use wire::group_records::{GroupRecord, GroupValue, MemberValue};

use super::classic::members::{Member, Members};
use super::consumer::Consumers;
use super::durable::Durable;
use super::embedded::Subscription;
use super::request::{Identity, JoinReply, Reply};
use super::turn::Turn;
use crate::bugs;
use crate::ids::{Instant, Timestamp};

/// The kind of group whose members' metadata the coordinator can read.
pub(super) const CONSUMER: &str = "consumer";
/// Memory that a group takes beside its texts, members and offsets, about.
const GROUP_BYTES: usize = 512;

/// Where a group is between two generations. Kafka's `Dead` is a group that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No members.
    Empty,
    /// Members are to join again until the deadline.
    PreparingRebalance {
        deadline: Instant,
        /// The first rebalance after being empty: more members may come.
        initial: Option<Initial>,
    },
    /// Members have joined a new generation and wait for what the leader gives them.
    CompletingRebalance,
    /// Each member has its assignment.
    Stable,
}

/// The first rebalance of a group that was empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Initial {
    /// Milliseconds that the delay may still be extended by.
    pub(super) left_ms: u64,
    /// A member came since the delay began.
    pub(super) joined: bool,
}

/// One group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: String,
    pub(super) partition: i32,
    pub(super) durable: Durable,
    pub(super) phase: Phase,
    /// When it came into its phase.
    pub(super) since: Timestamp,
    pub(super) generation: i32,
    pub(super) protocol_type: Option<String>,
    /// The protocol of this generation.
    pub(super) protocol: Option<String>,
    /// A member, if there are any.
    pub(super) leader: Option<String>,
    pub(super) members: Members,
    /// Ids that were given to clients which must come back with them (KIP-394), and until when.
    pub(super) pending_joins: BTreeMap<String, Instant>,
    /// Members of this generation that have not asked for their assignment.
    pub(super) pending_syncs: BTreeSet<String>,
    /// When those are removed.
    pub(super) sync_deadline: Option<Instant>,
    /// What the members have subscribed to; unknown of those that are no consumers.
    pub(super) subscribed: Option<BTreeSet<String>>,
    /// The group of consumers by the new protocol, if it is one; the fields above are then those of an empty
    /// group, unless it changes from one to the other at this moment.
    pub(super) consumers: Consumers,
    /// Under which moment it stands among the groups to be woken.
    pub(super) armed: Option<Instant>,
    /// Bytes by which it is counted.
    pub(super) counted: usize,
}

impl Group {
    /// A group of which nothing is known.
    pub(super) fn new(id: &str, partition: i32) -> Self {
        Self {
            id: id.into(),
            partition,
            durable: Durable::default(),
            phase: Phase::Empty,
            since: Timestamp(-1),
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: Members::default(),
            pending_joins: BTreeMap::new(),
            pending_syncs: BTreeSet::new(),
            sync_deadline: None,
            subscribed: None,
            consumers: Consumers::default(),
            armed: None,
            counted: 0,
        }
    }

    /// Makes the group what the log says it was: after loading, before the first request.
    pub(super) fn restore(&mut self, turn: &Turn<'_>) {
        let now = turn.now.instant;
        let consumers = &self.durable.consumers;
        // A group may have changed its kind while it was empty: the kind that has members is its own.
        if consumers.exists() && (self.durable.value.is_none() || !consumers.is_empty()) {
            return self.restore_consumers(turn);
        }
        let Some(value) = self.durable.value.clone() else {
            return;
        };
        let GroupValue {
            protocol_type,
            generation,
            protocol,
            leader,
            state_timestamp,
            members,
        } = value;
        self.generation = generation;
        self.protocol_type = (!protocol_type.is_empty()).then_some(protocol_type);
        self.since = Timestamp(state_timestamp);
        for member in members {
            // The log may hold anything: an id that comes twice is taken once.
            let taken = self.members.contains(&member.member_id)
                || member
                    .instance_id
                    .as_ref()
                    .is_some_and(|it| self.members.static_member(it).is_some());
            if !taken {
                let name = protocol.as_deref().unwrap_or_default();
                self.members.insert(restored(member, name, now));
            }
        }
        if !self.members.is_empty() {
            self.phase = Phase::Stable;
            self.protocol = protocol;
            self.leader = leader.filter(|it| self.members.contains(it));
            self.elect_leader_among_all();
            self.subscribed = self.read_subscriptions();
        }
    }

    /// What the classic protocol has left of a group that is one of consumers now: nothing.
    pub(super) fn forget_classic(&mut self) {
        assert!(self.members.is_empty(), "members are among the consumers");
        (self.generation, self.since) = (0, Timestamp(-1));
        (
            self.protocol_type,
            self.protocol,
            self.leader,
            self.subscribed,
        ) = (None, None, None, None);
    }

    /// Whether those who ask about it see a group of consumers: what the log does not have yet is not
    /// told.
    pub(super) fn is_told_as_consumers(&self) -> bool {
        let is_new = self.is_of_consumers() && self.phase == Phase::Empty;
        self.durable.consumers.exists() || is_new
    }

    /// Kafka's name of the state.
    pub(super) fn state_name(&self) -> &'static str {
        if self.is_told_as_consumers() {
            return self.durable.consumers.name();
        }
        match self.phase {
            Phase::Empty => "Empty",
            Phase::PreparingRebalance { .. } => "PreparingRebalance",
            Phase::CompletingRebalance => "CompletingRebalance",
            Phase::Stable => "Stable",
        }
    }

    /// Nothing is known of it: it need not be kept.
    pub(super) fn is_vacuous(&self) -> bool {
        self.durable.is_empty()
            && self.phase == Phase::Empty
            && self.members.is_empty()
            && self.pending_joins.is_empty()
            && !self.is_of_consumers()
    }

    pub(super) fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    /// Whether a member is who it says it is.
    pub(super) fn check_member(&self, identity: &Identity) -> Result<(), ErrorCode> {
        if let Some(instance) = &identity.instance_id {
            match self.members.static_member(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(known) if known != identity.member_id => {
                    if bugs::skips_static_fencing() {
                        return Ok(());
                    }
                    return Err(ErrorCode::FencedInstanceId);
                }
                Some(_) => {}
            }
        }
        if self.members.contains(&identity.member_id) {
            Ok(())
        } else {
            Err(ErrorCode::UnknownMemberId)
        }
    }

    /// The same, and that it is in the present generation.
    pub(super) fn check_generation(
        &self,
        identity: &Identity,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        self.check_member(identity)?;
        if generation == self.generation {
            Ok(())
        } else {
            Err(ErrorCode::IllegalGeneration)
        }
    }

    /// Enters a phase.
    pub(super) fn enter(&mut self, phase: Phase, turn: &Turn<'_>) {
        self.phase = phase;
        self.since = turn.now.wall;
    }

    /// Takes a member out; what it waits for is answered by `error`.
    pub(super) fn remove_member(&mut self, id: &str, error: ErrorCode, turn: &mut Turn<'_>) {
        let Some(member) = self.members.remove(id) else {
            return;
        };
        if let Some(token) = member.joining {
            turn.reply(token, Reply::Join(JoinReply::refused(error, id)));
        }
        if let Some(token) = member.syncing {
            turn.reply(token, Reply::Sync(Err(error)));
        }
        self.pending_syncs.remove(id);
        if self.is_leader(id) {
            self.leader = None;
            self.elect_leader_among_all();
        }
    }

    pub(super) fn elect_leader_among_all(&mut self) {
        if self.leader.is_none() {
            let first = self.members.iter().next();
            self.leader = first.map(|member| member.identity.member_id.clone());
        }
    }

    /// The record of the group as it is now.
    pub(super) fn record(&self) -> GroupRecord {
        GroupRecord::Group {
            group: self.id.clone(),
            value: Some(GroupValue {
                protocol_type: self.protocol_type.clone().unwrap_or_default(),
                generation: self.generation,
                protocol: self.protocol.clone(),
                leader: self.leader.clone(),
                state_timestamp: self.since.0,
                members: self.members.values(self.protocol.as_deref()),
            }),
        }
    }

    /// The topics that the members of this generation have subscribed to; unknown when they are no
    /// consumers or do not say it in a form that can be read.
    pub(super) fn read_subscriptions(&self) -> Option<BTreeSet<String>> {
        if self.protocol_type.as_deref() != Some(CONSUMER) {
            return None;
        }
        let mut topics = BTreeSet::new();
        for member in self.members.iter() {
            let said = member.metadata(self.protocol.as_deref());
            topics.extend(Subscription::read(said)?.topics);
        }
        Some(topics)
    }

    /// The next moment at which something happens by itself.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        if self.is_of_consumers() {
            return self.consumers.next_deadline();
        }
        let members = self.members.iter().filter(|it| !it.is_kept_waiting());
        let sessions = members.map(|it| it.deadline);
        let joins = self.pending_joins.values().copied();
        let rebalance = match self.phase {
            Phase::PreparingRebalance { deadline, .. } => Some(deadline),
            _ => None,
        };
        sessions
            .chain(joins)
            .chain(rebalance)
            .chain(self.sync_deadline)
            .min()
    }

    /// Memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        let pending = self.pending_joins.keys().map(|id| GROUP_BYTES + id.len());
        GROUP_BYTES
            + self.id.len()
            + pending.sum::<usize>()
            + self.members.bytes()
            + self.consumers.bytes()
            + self.durable.bytes()
    }
}

fn restored(member: MemberValue, protocol: &str, now: Instant) -> Member {
    let mut restored = Member {
        identity: Identity {
            member_id: member.member_id,
            instance_id: member.instance_id,
        },
        client_id: member.client_id,
        client_host: member.client_host,
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        session_timeout_ms: member.session_timeout_ms,
        protocols: alloc::vec![(protocol.into(), member.subscription)],
        assignment: member.assignment,
        joining: None,
        syncing: None,
        is_new: false,
        deadline: now,
    };
    restored.heard(now);
    restored
}
