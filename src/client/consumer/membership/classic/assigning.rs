//! What the leader of a group does with it: who gets what. Knows nothing of the coordinator's errors.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use wire::ErrorCode;

use super::super::{Attempt, Effect};
use super::{ClassicMember, Joined, Leading, State};
use crate::consumer::assignors::{Assignor, PartitionCounts, Subscription, encode_assignment};

impl ClassicMember {
    /// The next step after a JoinGroup that succeeded.
    pub(super) fn go_on_to_sync(&mut self, joined: Joined, effects: &mut Vec<Effect>) {
        if joined.leader_id != joined.member_id {
            self.state = State::Syncing(None, Vec::new());
            return;
        }
        let Some(leading) = leading(joined) else {
            // The group chose a protocol that this member did not offer, or another member's bytes
            // cannot be read: no assignment can be made.
            self.out();
            self.wanted = false;
            effects.push(Effect::Refused(ErrorCode::InconsistentGroupProtocol));
            return;
        };
        let topics: BTreeSet<Arc<str>> = leading
            .members
            .iter()
            .flat_map(|(_, _, subscription)| subscription.topics.iter().cloned())
            .collect();
        let attempt = self.search.attempt();
        self.state = State::Assigning(attempt, Box::new(leading));
        effects.push(Effect::CountPartitions(attempt, topics));
    }

    pub(super) fn counted_partitions(&mut self, attempt: Attempt, counts: PartitionCounts) {
        let State::Assigning(asked, leading) = &self.state else {
            return;
        };
        if *asked != attempt {
            return;
        }
        let assignments = if leading.skip {
            Vec::new()
        } else {
            assign(leading, &counts)
        };
        self.state = State::Syncing(None, assignments);
        self.counted = Some(counts);
    }
}

fn leading(joined: Joined) -> Option<Leading> {
    let assignor = Assignor::from_name(&joined.protocol)?;
    let members = joined.members.into_iter().map(|member| {
        let subscription = Subscription::decode(member.metadata).ok()?;
        Some((member.id, member.instance_id, subscription))
    });
    Some(Leading {
        assignor,
        members: members.collect::<Option<_>>()?,
        skip: joined.skip_assignment,
    })
}

fn assign(leading: &Leading, counts: &PartitionCounts) -> Vec<(Arc<str>, Bytes)> {
    let members: Vec<_> = leading
        .members
        .iter()
        .map(|(id, instance_id, subscription)| {
            let assignor = leading.assignor;
            assignor.member(id.clone(), instance_id.clone(), subscription.clone())
        })
        .collect();
    let given = leading.assignor.assign(counts, &members);
    given
        .into_iter()
        .map(|(member, partitions)| (member, encode_assignment(&partitions)))
        .collect()
}
