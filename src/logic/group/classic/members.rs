//! The members of one group and what follows from all of them together: which protocols they share,
//! who is a static member, who waits. Knows nothing of states or of time passing.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use bytes::Bytes;
use wire::group_records::MemberValue;

use crate::group::request::{Identity, JoinedMember, Token};
use crate::ids::Instant;

/// Memory that a member takes beside its texts and bytes, about.
const MEMBER_BYTES: usize = 512;

/// What a member can follow, best first, and what it says under each.
pub(in crate::group) type Protocols = Vec<(String, Bytes)>;

/// One member.
#[derive(Debug)]
pub(in crate::group) struct Member {
    pub(in crate::group) identity: Identity,
    pub(in crate::group) client_id: String,
    pub(in crate::group) client_host: String,
    pub(in crate::group) rebalance_timeout_ms: i32,
    pub(in crate::group) session_timeout_ms: i32,
    pub(in crate::group) protocols: Protocols,
    pub(in crate::group) assignment: Bytes,
    /// Its join that waits for the others.
    pub(in crate::group) joining: Option<Token>,
    /// Its sync that waits for the leader's assignment.
    pub(in crate::group) syncing: Option<Token>,
    /// It has joined and was in no generation yet.
    pub(in crate::group) is_new: bool,
    /// Without a word until then it is gone.
    pub(in crate::group) deadline: Instant,
}

/// All members of a group.
#[derive(Debug, Default)]
pub(in crate::group) struct Members {
    by_id: BTreeMap<String, Member>,
    /// Static members' ids by their instance ids.
    statics: BTreeMap<String, String>,
    /// How many members can follow each protocol; none is zero.
    support: BTreeMap<String, usize>,
    /// Memory of all members, about.
    bytes: usize,
}

impl Member {
    /// What it says under a protocol.
    pub(in crate::group) fn metadata(&self, protocol: Option<&str>) -> Bytes {
        let said = self
            .protocols
            .iter()
            .find(|(name, _)| Some(&**name) == protocol);
        said.map(|(_, metadata)| metadata.clone())
            .unwrap_or_default()
    }

    /// Whether its silence is the coordinator's own doing: it waits for an answer.
    pub(in crate::group) fn is_kept_waiting(&self) -> bool {
        !self.is_new && (self.joining.is_some() || self.syncing.is_some())
    }

    /// It was heard.
    pub(in crate::group) fn heard(&mut self, now: Instant) {
        let session = u64::try_from(self.session_timeout_ms).unwrap_or(0);
        self.deadline = now.plus_ms(session);
    }

    fn cost(&self) -> usize {
        let protocols = self.protocols.iter();
        let protocols: usize = protocols.map(|(name, said)| name.len() + said.len()).sum();
        let instance = self.identity.instance_id.as_ref();
        // In the map of static members too.
        let instance = instance.map_or(0, |it| 2 * it.len());
        let texts = self.identity.member_id.len() + self.client_id.len() + self.client_host.len();
        let texts = texts + instance;
        MEMBER_BYTES + texts + protocols + self.assignment.len()
    }
}

impl Members {
    /// Takes a member in. Its id, and its instance id if it has one, are not in use.
    pub(in crate::group) fn insert(&mut self, member: Member) {
        self.bytes += member.cost();
        for (name, _) in &member.protocols {
            *self.support.entry(name.clone()).or_default() += 1;
        }
        let Identity {
            member_id,
            instance_id,
        } = member.identity.clone();
        if let Some(instance) = instance_id {
            let before = self.statics.insert(instance, member_id.clone());
            assert!(before.is_none(), "a static member has one id");
        }
        let before = self.by_id.insert(member_id, member);
        assert!(before.is_none(), "a member is taken in once");
    }

    /// Takes a member out.
    pub(in crate::group) fn remove(&mut self, id: &str) -> Option<Member> {
        let member = self.by_id.remove(id)?;
        self.bytes -= member.cost();
        for (name, _) in &member.protocols {
            if let Some(count) = self.support.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.support.remove(name);
                }
            }
        }
        if let Some(instance) = &member.identity.instance_id {
            self.statics.remove(instance);
        }
        Some(member)
    }

    /// Changes what a member holds that counts: its protocols, its assignment, its id.
    pub(in crate::group) fn change(&mut self, id: &str, change: impl FnOnce(&mut Member)) {
        if let Some(mut member) = self.remove(id) {
            change(&mut member);
            self.insert(member);
        }
    }

    pub(in crate::group) fn get(&self, id: &str) -> Option<&Member> {
        self.by_id.get(id)
    }

    /// For what does not count towards memory: waiting, deadlines.
    pub(in crate::group) fn get_mut(&mut self, id: &str) -> Option<&mut Member> {
        self.by_id.get_mut(id)
    }

    pub(in crate::group) fn contains(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// The id of the static member that calls itself so.
    pub(in crate::group) fn static_member(&self, instance: &str) -> Option<&str> {
        self.statics.get(instance).map(String::as_str)
    }

    pub(in crate::group) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.by_id.values()
    }

    /// As [`Members::get_mut`].
    pub(in crate::group) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.by_id.values_mut()
    }

    pub(in crate::group) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(in crate::group) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// How many wait for a join's answer.
    pub(in crate::group) fn joining(&self) -> usize {
        self.iter().filter(|it| it.joining.is_some()).count()
    }

    /// Whether one of these protocols can be followed by all members.
    pub(in crate::group) fn share_any(&self, protocols: &Protocols) -> bool {
        protocols.iter().any(|(name, _)| self.all_support(name))
    }

    fn all_support(&self, protocol: &str) -> bool {
        self.support.get(protocol).copied().unwrap_or(0) == self.len()
    }

    /// The protocol with the most votes: each member's is the first in its list that all can follow.
    /// Of several the first by name.
    pub(in crate::group) fn elect_protocol(&self) -> Option<String> {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.iter() {
            let names = member.protocols.iter().map(|(name, _)| name.as_str());
            if let Some(name) = names.into_iter().find(|name| self.all_support(name)) {
                *votes.entry(name).or_default() += 1;
            }
        }
        let most = votes
            .into_iter()
            .max_by_key(|(name, votes)| (*votes, Reverse(*name)));
        most.map(|(name, _)| name.into())
    }

    /// How long a rebalance waits: as long as the most patient member allows.
    pub(in crate::group) fn rebalance_timeout_ms(&self) -> u64 {
        let longest = self.iter().map(|it| it.rebalance_timeout_ms).max();
        u64::try_from(longest.unwrap_or(0)).unwrap_or(0)
    }

    /// Everybody, as the leader is told.
    pub(in crate::group) fn joined(&self, protocol: Option<&str>) -> Vec<JoinedMember> {
        let joined = |member: &Member| JoinedMember {
            identity: member.identity.clone(),
            metadata: member.metadata(protocol),
        };
        self.iter().map(joined).collect()
    }

    /// Everybody, as the log is told.
    pub(in crate::group) fn values(&self, protocol: Option<&str>) -> Vec<MemberValue> {
        let value = |member: &Member| MemberValue {
            member_id: member.identity.member_id.clone(),
            instance_id: member.identity.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: member.metadata(protocol),
            assignment: member.assignment.clone(),
        };
        self.iter().map(value).collect()
    }

    /// Memory of all members, about.
    pub(in crate::group) fn bytes(&self) -> usize {
        self.bytes
    }
}
