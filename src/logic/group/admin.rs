//! DescribeGroups, ListGroups and DeleteGroups of one group. Knows nothing of membership's rules.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use wire::ErrorCode;
use wire::group_records::GroupRecord;

use super::classic::members::Member;
use super::request::{DescribedMember, Description, ListedGroup, Reply, Token};
use super::state::{CONSUMER, Group, Phase};
use super::turn::{Then, Turn};
use crate::bugs;

impl Group {
    /// The group as DescribeGroups shows it. What members say and hold is only told of a stable one:
    /// before that it belongs to no generation.
    pub(super) fn describe(&self) -> Description {
        let stable = self.phase == Phase::Stable;
        let protocol = self.protocol.as_deref().filter(|_| stable);
        let member = |member: &Member| DescribedMember {
            identity: member.identity.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: member.metadata(protocol),
            assignment: if stable {
                member.assignment.clone()
            } else {
                Bytes::new()
            },
        };
        Description {
            state: self.state_name(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: protocol.unwrap_or_default().into(),
            members: self.members.iter().map(member).collect(),
        }
    }

    /// The group as ListGroups shows it.
    pub(super) fn list(&self) -> ListedGroup {
        ListedGroup {
            group: self.id.clone(),
            protocol_type: if self.is_told_as_consumers() {
                CONSUMER.into()
            } else {
                self.protocol_type.clone().unwrap_or_default()
            },
            state: self.state_name(),
            group_type: if self.is_told_as_consumers() {
                "consumer"
            } else {
                "classic"
            },
        }
    }

    /// Takes one DeleteGroups: nothing is left of an empty group.
    pub(super) fn delete(&mut self, token: Token, turn: &mut Turn<'_>) {
        if self.phase != Phase::Empty {
            return turn.reply(token, Reply::Delete(ErrorCode::NonEmptyGroup));
        }
        let mut records = self.offset_removal(turn);
        if self.durable.consumers.exists() {
            // It was a group of consumers, and the log has not taken that it is none any more.
            records.extend(self.make_room().unwrap_or_default());
        }
        records.push(GroupRecord::Group {
            group: self.id.clone(),
            value: None,
        });
        let then = Then::Answer {
            token,
            done: Reply::Delete(ErrorCode::None),
            failed: Reply::Delete,
        };
        turn.append(self.partition, &self.id, records, then);
    }

    /// Of an empty group by the classic protocol that the log has forgotten nothing stays: what was committed
    /// while its tombstone was on its way is a new group's, and ages from its commit.
    pub(super) fn forget_if_deleted(&mut self, turn: &Turn<'_>) {
        let is_deleted = self.phase == Phase::Empty && self.durable.value.is_none();
        if is_deleted && !turn.appends.group(&self.id) {
            self.forget_classic();
        }
    }

    /// The records that make all offsets forgotten, those on their way to the log at this moment included.
    pub(super) fn offset_removal(&self, turn: &Turn<'_>) -> Vec<GroupRecord> {
        let mut offsets: BTreeSet<(String, i32)> = turn.appends.offsets_of(&self.id);
        if bugs::misses_tombstones() {
            offsets.clear();
        }
        for (topic, partitions) in self.durable.offsets() {
            offsets.extend(partitions.keys().map(|index| (topic.clone(), *index)));
        }
        self.tombstones(offsets)
    }
}
