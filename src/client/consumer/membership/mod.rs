//! How a member joins its group and stays in it, by either of Kafka's protocols: `classic`, in which
//! the members assign, and `consumer` (KIP-848), in which the coordinator does. Pure: events in,
//! effects out, `now` passed in. Knows nothing of bytes, offsets or positions.

mod classic;
mod consumer;

mod coordinator;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use wire::{ErrorCode, KafkaUuid};

use super::assignors::PartitionCounts;
use super::partition::TopicPartition;
use crate::cluster::Backoff;

pub(super) use classic::{ClassicConfig, ClassicMember, Joined, JoinedMember};
pub(super) use consumer::{ConsumerMember, Heard, Heartbeat};

/// What a member is told once, whichever the protocol.
#[derive(Clone, Debug)]
pub(super) struct GroupConfig {
    /// `group.instance.id`: the member is static, and keeps its place while it restarts (KIP-345).
    pub(super) instance_id: Option<Arc<str>>,
    /// `max.poll.interval.ms`, which is also how long a rebalance waits for this member.
    pub(super) max_poll_interval: Duration,
    /// `retry.backoff.ms`
    pub(super) retry_backoff: Backoff,
    /// In 0..1: spreads the retries of many members.
    pub(super) jitter: f64,
}

/// `group.protocol`, with what only that protocol needs.
#[derive(Clone, Debug)]
pub(super) enum Protocol {
    Classic(ClassicConfig),
    /// The id that the member has for as long as it lives (KIP-1082).
    Consumer(Arc<str>),
}

/// Names one request; answers to an earlier one are not listened to.
pub(super) type Attempt = u64;

/// A failed answer, as an error code. What broke on the way is NETWORK_EXCEPTION.
pub(super) type Answer<T> = Result<T, ErrorCode>;

/// Partitions as the coordinator names them in the `consumer` protocol.
pub(super) type ByTopicId = BTreeMap<KafkaUuid, BTreeSet<i32>>;

#[derive(Debug)]
pub(super) enum Event {
    /// The subscription needs a group, or another assignment from it.
    Rejoin,
    /// Somebody needs to know the coordinator.
    CoordinatorWanted,
    /// The application is alive.
    Polled,
    /// Time passed.
    Tick,
    /// What [`Effect::FindCoordinator`] found: a node id.
    CoordinatorFound(Attempt, Answer<i32>),
    /// [`Effect::Prepare`] is done: what had to be revoked is.
    Prepared,
    /// [`Effect::Assign`] is done; whether partitions had to be revoked for it.
    Assigned { revoked: bool },
    /// Another request to the coordinator failed in a way that concerns the membership. The number is
    /// the generation or member epoch that the request was sent with.
    CommitFailed(i32, ErrorCode),
    /// The member is to leave, and not to come back by itself.
    Leave(&'static str),

    /// Classic: the answer to [`Effect::Join`]; an error comes with the member id of the answer, if any.
    Joined(Attempt, Result<Joined, (ErrorCode, Arc<str>)>),
    /// Classic: what [`Effect::CountPartitions`] asked for.
    Counted(Attempt, PartitionCounts),
    /// Classic: the answer to [`Effect::Sync`]: the assignment's bytes.
    Synced(Attempt, Answer<Bytes>),
    /// Classic: the answer to [`Effect::Heartbeat`].
    HeartbeatAnswered(Attempt, Answer<()>),

    /// Consumer: the answer to [`Effect::ConsumerHeartbeat`].
    Heard(Attempt, Answer<Heard>),
    /// Consumer: the names that are known now of topics that [`Membership::nameless`] tells of. Follows
    /// [`Effect::NameTopics`], and comes again when more become known.
    Named(Vec<(KafkaUuid, Arc<str>)>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    FindCoordinator(Attempt),
    /// Partitions must be given up before the next request to join: all (eager) or none (cooperative),
    /// or, when `lost`, all and without a say, because others may own them already.
    Prepare {
        lost: bool,
    },
    /// The group gave these partitions to this member, and no others.
    Assign(Vec<TopicPartition>),
    /// The group refuses this member; trying again does not help.
    Refused(ErrorCode),

    /// Classic.
    Join {
        attempt: Attempt,
        coordinator: i32,
        member_id: Arc<str>,
        generation: i32,
    },
    /// Classic: the leader needs to know how many partitions these topics have now.
    CountPartitions(Attempt, BTreeSet<Arc<str>>),
    /// Classic.
    Sync {
        attempt: Attempt,
        coordinator: i32,
        member_id: Arc<str>,
        generation: i32,
        protocol: Arc<str>,
        /// Only from the leader: each member's bytes.
        assignments: Vec<(Arc<str>, Bytes)>,
    },
    /// Classic.
    Heartbeat {
        attempt: Attempt,
        coordinator: i32,
        member_id: Arc<str>,
        generation: i32,
    },
    /// Classic.
    LeaveGroup {
        coordinator: i32,
        member_id: Arc<str>,
        reason: &'static str,
    },

    /// Consumer: joins, stays, acknowledges and leaves.
    ConsumerHeartbeat(Heartbeat),
    /// Consumer: the topics that [`Membership::nameless`] tells of have to get their names.
    NameTopics,
}

/// One member's part in its group.
#[derive(Debug)]
pub(super) enum Membership {
    Classic(ClassicMember),
    Consumer(ConsumerMember),
}

impl Membership {
    pub(super) fn new(config: GroupConfig, protocol: Protocol, now: Instant) -> Self {
        match protocol {
            Protocol::Classic(classic) => Self::Classic(ClassicMember::new(config, classic, now)),
            Protocol::Consumer(member_id) => {
                Self::Consumer(ConsumerMember::new(config, member_id, now))
            }
        }
    }

    /// Takes an event and says what is to be done.
    pub(super) fn handle(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        match self {
            Self::Classic(member) => member.handle(event, now),
            Self::Consumer(member) => member.handle(event, now),
        }
    }

    /// When [`Event::Tick`] is due.
    pub(super) fn next_tick(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Classic(member) => member.next_tick(now),
            Self::Consumer(member) => member.next_tick(now),
        }
    }

    /// Node id of the coordinator, while it is known.
    pub(super) fn coordinator(&self) -> Option<i32> {
        match self {
            Self::Classic(member) => member.coordinator(),
            Self::Consumer(member) => member.coordinator(),
        }
    }

    /// Who this member is to the coordinator: its id, and its generation or member epoch.
    pub(super) fn identity(&self) -> (Arc<str>, i32) {
        match self {
            Self::Classic(member) => member.identity(),
            Self::Consumer(member) => member.identity(),
        }
    }

    /// Whether the number of [`Membership::identity`] is a member epoch, by which look-ups of committed
    /// offsets are checked as well.
    pub(super) fn has_epochs(&self) -> bool {
        matches!(self, Self::Consumer(_))
    }

    /// `group.instance.id`
    pub(super) fn instance_id(&self) -> Option<&Arc<str>> {
        match self {
            Self::Classic(member) => member.instance_id(),
            Self::Consumer(member) => member.instance_id(),
        }
    }

    /// Whether partitions are kept while the group rebalances.
    pub(super) fn is_cooperative(&self) -> bool {
        match self {
            Self::Classic(member) => member.is_cooperative(),
            Self::Consumer(_) => true,
        }
    }

    /// Whether a rebalance goes on that needs nothing more of the application, and after which the
    /// member has another generation.
    pub(super) fn is_joining(&self) -> bool {
        match self {
            Self::Classic(member) => member.is_joining(),
            Self::Consumer(_) => false,
        }
    }

    /// As leader: the counts that the current assignment was made of.
    pub(super) fn counted(&self) -> Option<&PartitionCounts> {
        match self {
            Self::Classic(member) => member.counted(),
            Self::Consumer(_) => None,
        }
    }

    /// Topics that the coordinator has named only by their ids so far.
    pub(super) fn nameless(&self) -> BTreeSet<KafkaUuid> {
        match self {
            Self::Classic(_) => BTreeSet::new(),
            Self::Consumer(member) => member.nameless(),
        }
    }
}
