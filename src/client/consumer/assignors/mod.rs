//! Who of a group reads which partition: Kafka's four client-side assignors, by the names and bytes
//! that the Java client uses, so that members of both share a group. Knows nothing of how a group
//! forms.

mod protocol;
mod range;
mod round_robin;
mod sticky;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::partition::TopicPartition;

pub(crate) use protocol::decode_assignment;
pub(super) use protocol::{Subscription, encode_assignment};

/// The generation of a member that is in no group.
pub(super) const NO_GENERATION: i32 = -1;

/// A strategy of `partition.assignment.strategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assignor {
    /// Per topic, consecutive partitions for each member.
    Range,
    /// All partitions of all topics dealt out in turn.
    RoundRobin,
    /// Balanced, and as little moved as that allows; everything is revoked before it moves.
    Sticky,
    /// As [`Assignor::Sticky`], but only what moves is revoked (KIP-429).
    CooperativeSticky,
}

/// One member of the group, as the assignor sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) id: Arc<str>,
    pub(super) instance_id: Option<Arc<str>>,
    pub(super) topics: BTreeSet<Arc<str>>,
    /// What it says that it owns, and since which generation; only the sticky ones look.
    pub(super) owned: Vec<TopicPartition>,
    pub(super) generation: i32,
}

/// What each member is given; members without partitions are in it.
pub(super) type Assignment = BTreeMap<Arc<str>, Vec<TopicPartition>>;

/// How many partitions each topic has.
pub(super) type PartitionCounts = BTreeMap<Arc<str>, i32>;

impl Assignor {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Range,
        Self::RoundRobin,
        Self::Sticky,
        Self::CooperativeSticky,
    ];

    /// Its name as a group protocol, and in `partition.assignment.strategy`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
            Self::Sticky => "sticky",
            Self::CooperativeSticky => "cooperative-sticky",
        }
    }

    /// The assignor of a group protocol.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Whether members may keep partitions while the group rebalances.
    pub const fn is_cooperative(self) -> bool {
        matches!(self, Self::CooperativeSticky)
    }

    /// What the assignor wants to find again in the subscription at the next rebalance: `owned` is
    /// what it gave at `generation`.
    pub(super) fn user_data(self, owned: &[TopicPartition], generation: i32) -> Option<Bytes> {
        match self {
            Self::Range | Self::RoundRobin => None,
            Self::Sticky if generation == NO_GENERATION && owned.is_empty() => None,
            Self::Sticky => Some(protocol::sticky_user_data(owned, generation)),
            Self::CooperativeSticky => Some(protocol::cooperative_user_data(generation)),
        }
    }

    /// A member as this assignor sees it.
    pub(super) fn member(
        self,
        id: Arc<str>,
        instance_id: Option<Arc<str>>,
        subscription: Subscription,
    ) -> Member {
        let (owned, generation) = match self {
            Self::Range | Self::RoundRobin => (Vec::new(), NO_GENERATION),
            // Eager members revoke before they join: only the user data still knows what they had.
            Self::Sticky => protocol::read_sticky_user_data(subscription.user_data.as_ref()),
            Self::CooperativeSticky => {
                let written = subscription.generation != NO_GENERATION;
                let generation = if written {
                    subscription.generation
                } else {
                    protocol::read_cooperative_user_data(subscription.user_data.as_ref())
                };
                (subscription.owned, generation)
            }
        };
        Member {
            id,
            instance_id,
            topics: subscription.topics,
            owned,
            generation,
        }
    }

    /// Gives every partition of the subscribed topics to one member that subscribed to its topic.
    ///
    /// The cooperative one holds partitions back that still have to be revoked elsewhere: the group
    /// rebalances once more after that.
    pub(super) fn assign(self, counts: &PartitionCounts, members: &[Member]) -> Assignment {
        let mut members: Vec<&Member> = members.iter().collect();
        match self {
            Self::Range => {
                members.sort_by(static_first);
                range::assign(counts, &members)
            }
            Self::RoundRobin => {
                members.sort_by(static_first);
                round_robin::assign(counts, &members)
            }
            Self::Sticky => {
                members.sort_by(|a, b| a.id.cmp(&b.id));
                sticky::assign(counts, &members)
            }
            Self::CooperativeSticky => {
                members.sort_by(|a, b| a.id.cmp(&b.id));
                let mut given = sticky::assign(counts, &members);
                sticky::hold_back_what_others_own(&mut given, &members);
                given
            }
        }
    }
}

/// Static members come first, by instance id: their order outlives their member ids.
fn static_first(a: &&Member, b: &&Member) -> std::cmp::Ordering {
    match (&a.instance_id, &b.instance_id) {
        (Some(a), Some(b)) => a.cmp(b),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => a.id.cmp(&b.id),
    }
}
