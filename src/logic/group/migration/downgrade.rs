//! From the new protocol to the classic one: the members that are left, all by the classic protocol, as a group
//! of their own, stable in the epoch that they were in. Knows nothing of when that is due.

use alloc::string::String;
use alloc::vec::Vec;

use wire::group_records::{ClassicValue, ConsumerRecord, ConsumerValue};

use crate::group::classic::members::Member;
use crate::group::consumer::round::Round;
use crate::group::embedded::write_assignment;
use crate::group::request::Identity;
use crate::group::state::{CONSUMER, Group, Phase};
use crate::group::turn::Turn;

impl Group {
    /// Decides that it is a group by the classic protocol. What the log holds of consumers goes first, as in
    /// Kafka, whose coordinators take records of one kind for a group of the other for an error.
    pub(in crate::group) fn downgrade(&mut self, round: &mut Round, turn: &mut Turn<'_>) {
        let ahead = &self.consumers.ahead;
        self.generation = ahead.metadata().epoch;
        self.protocol_type = Some(CONSUMER.into());
        let ids: Vec<String> = ahead.members().map(|(id, _)| id.clone()).collect();
        for id in &ids {
            let member = self.as_classic_member(id, turn);
            self.members.insert(member);
        }
        self.protocol = self.members.elect_protocol();
        self.elect_leader_among_all();
        self.subscribed = self.read_subscriptions();
        self.enter(Phase::Stable, turn);
        let gone = |id: &String| self.consumers.ahead.removal_of(id);
        let members: Vec<ConsumerRecord> = ids.iter().flat_map(gone).collect();
        for record in members {
            self.consumers.write(round, record);
        }
        for record in self.consumers.ahead.removal() {
            self.consumers.write(round, record);
        }
        round.push(self.record());
    }

    /// A member with what it has said and what it has.
    fn as_classic_member(&self, id: &str, turn: &Turn<'_>) -> Member {
        let ahead = &self.consumers.ahead;
        let Some(ConsumerValue {
            instance_id,
            client_id,
            client_host,
            rebalance_timeout_ms,
            classic: Some(classic),
            ..
        }) = ahead.member(id).cloned()
        else {
            unreachable!("all members speak the classic protocol");
        };
        let ClassicValue {
            session_timeout_ms,
            protocols,
        } = classic;
        // What it is to give back it has still.
        let current = ahead.current(id);
        let mut has = current.assigned.clone();
        for (topic, partitions) in &current.pending_revocation {
            has.entry(*topic).or_default().extend(partitions);
        }
        let has = turn.topics.by_name(&has);
        let said = protocols.first().map(|(_, said)| said.clone());
        let mut member = Member {
            identity: Identity {
                member_id: id.into(),
                instance_id,
            },
            client_id,
            client_host,
            rebalance_timeout_ms,
            session_timeout_ms,
            protocols,
            assignment: write_assignment(has, &said.unwrap_or_default()),
            joining: None,
            syncing: None,
            is_new: false,
            deadline: turn.now.instant,
        };
        member.heard(turn.now.instant);
        member
    }
}
