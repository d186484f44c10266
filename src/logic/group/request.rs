//! What clients ask of a group and what they are answered, free of protocol versions. Knows nothing of
//! how answers are found.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use wire::ErrorCode;
use wire::group_records::{Assignment, ConsumerValue, OffsetValue};

/// The shell's name for a waiting request. Each is answered once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// The generation of somebody who is no member.
pub const NO_GENERATION: i32 = -1;

/// What a client asks of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// JoinGroup.
    Join(Join),
    /// SyncGroup.
    Sync(Sync),
    /// Heartbeat.
    Heartbeat(Heartbeat),
    /// LeaveGroup.
    Leave(Leave),
    /// OffsetCommit.
    Commit(Commit),
    /// ConsumerGroupHeartbeat.
    ConsumerHeartbeat(ConsumerHeartbeat),
    /// OffsetFetch.
    FetchOffsets(FetchOffsets),
    /// OffsetDelete.
    DeleteOffsets(String, Vec<TopicPartitions>),
    /// DescribeGroups.
    Describe(String),
    /// ConsumerGroupDescribe.
    DescribeConsumers(String),
    /// DeleteGroups.
    Delete(String),
}

/// Some partitions of a topic.
pub type TopicPartitions = (String, Vec<i32>);

/// Who a member says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The id that the coordinator gave it; empty before that.
    pub member_id: String,
    /// Its own name for itself, if it is a static member (KIP-345).
    pub instance_id: Option<String>,
}

/// JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// The group.
    pub group: String,
    /// Who joins.
    pub identity: Identity,
    /// The client's id.
    pub client_id: String,
    /// The client's address.
    pub client_host: String,
    /// Milliseconds of silence after which it counts as gone.
    pub session_timeout_ms: i32,
    /// Milliseconds that a rebalance waits for it.
    pub rebalance_timeout_ms: i32,
    /// What kind of group it expects.
    pub protocol_type: String,
    /// The protocols that it can follow, best first, and what it says under each.
    pub protocols: Vec<(String, Bytes)>,
    /// A dynamic member must come back with the id that it is given (KIP-394).
    pub id_required: bool,
    /// The client knows that a leader may be told to leave the assignment as it is (KIP-814).
    pub can_skip_assignment: bool,
    /// 128 random bits, from which a new member's id is made.
    pub random: [u8; 16],
}

/// SyncGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sync {
    /// The group.
    pub group: String,
    /// Who asks.
    pub identity: Identity,
    /// The generation that it has joined.
    pub generation: i32,
    /// The kind of group that it expects, if it says so (KIP-559).
    pub protocol_type: Option<String>,
    /// The protocol that it expects, if it says so.
    pub protocol: Option<String>,
    /// From the leader: what each member gets.
    pub assignments: Vec<(String, Bytes)>,
}

/// Heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The group.
    pub group: String,
    /// Who lives.
    pub identity: Identity,
    /// The generation that it is in.
    pub generation: i32,
}

/// LeaveGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    /// The group.
    pub group: String,
    /// Who leaves. One without a member id is removed by its instance id, as by an operator.
    pub members: Vec<Identity>,
}

/// ConsumerGroupHeartbeat (KIP-848). What a member does not say is as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerHeartbeat {
    /// The group.
    pub group: String,
    /// The member's id, which it gives itself.
    pub member_id: String,
    /// Its epoch: 0 joins, -1 leaves, -2 is a static member that leaves to come back.
    pub epoch: i32,
    /// Its own name for itself, if it is a static member.
    pub instance_id: Option<String>,
    /// Where it runs.
    pub rack_id: Option<String>,
    /// Milliseconds that it has for giving partitions back, or -1.
    pub rebalance_timeout_ms: i32,
    /// The topics that it subscribes to by name.
    pub topic_names: Option<Vec<String>>,
    /// The regular expression that it subscribes by; an empty one is none.
    pub topic_regex: Option<String>,
    /// The assignor that it asks for.
    pub server_assignor: Option<String>,
    /// What it has.
    pub owned: Option<Assignment>,
    /// The client's id.
    pub client_id: String,
    /// The client's address.
    pub client_host: String,
}

/// OffsetFetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchOffsets {
    /// The group.
    pub group: String,
    /// The member that asks and its epoch, if it says so (KIP-848).
    pub member: Option<(String, i32)>,
    /// The topics that are wanted, or all.
    pub topics: Option<Vec<TopicPartitions>>,
}

/// OffsetCommit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The group.
    pub group: String,
    /// Who commits; empty for a client that uses no membership.
    pub identity: Identity,
    /// The generation or member epoch that it is in, or [`NO_GENERATION`].
    pub generation: i32,
    /// What a member of a group that does not exist is told: newer clients know GROUP_ID_NOT_FOUND.
    pub unknown_group: ErrorCode,
    /// Milliseconds that the offsets are to be kept, if the client says so (versions 2 to 4).
    pub retention_ms: Option<i64>,
    /// What is committed.
    pub offsets: Vec<CommitItem>,
}

/// One partition's part of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitItem {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The next offset to read.
    pub offset: i64,
    /// The leader epoch of the last record read, or -1.
    pub leader_epoch: i32,
    /// What the client wants to remember.
    pub metadata: String,
}

/// The answer to a [`Request`], variant by variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`Request::Join`].
    Join(JoinReply),
    /// To [`Request::Sync`].
    Sync(Result<SyncReply, ErrorCode>),
    /// To [`Request::Heartbeat`].
    Heartbeat(ErrorCode),
    /// To [`Request::Leave`]: for each who leaves, or for all.
    Leave(Result<Vec<ErrorCode>, ErrorCode>),
    /// To [`Request::Commit`]: for each item.
    Commit(Vec<ErrorCode>),
    /// To [`Request::ConsumerHeartbeat`].
    ConsumerHeartbeat(Result<ConsumerHeartbeatReply, Refusal>),
    /// To [`Request::FetchOffsets`]: partitions by topic, with what is committed.
    FetchOffsets(Result<Vec<FetchedTopic>, ErrorCode>),
    /// To [`Request::DeleteOffsets`]: for each topic asked, for each partition.
    DeleteOffsets(Result<Vec<Vec<ErrorCode>>, ErrorCode>),
    /// To [`Request::Describe`].
    Describe(Result<Description, ErrorCode>),
    /// To [`Request::DescribeConsumers`].
    DescribeConsumers(Result<ConsumerDescription, Refusal>),
    /// To [`Request::Delete`].
    Delete(ErrorCode),
}

/// A topic's partitions with what is committed for each.
pub type FetchedTopic = (String, Vec<(i32, Option<OffsetValue>)>);

/// The answer to a join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinReply {
    /// Whether it has joined. Fields that an error leaves unsaid are empty.
    pub error: Option<ErrorCode>,
    /// The generation, or [`NO_GENERATION`].
    pub generation: i32,
    /// What kind of group it is.
    pub protocol_type: Option<String>,
    /// The protocol of this generation.
    pub protocol: Option<String>,
    /// The leader's member id.
    pub leader: String,
    /// The leader is to leave the assignment as it is (KIP-814).
    pub skip_assignment: bool,
    /// The member's id.
    pub member_id: String,
    /// To the leader: all members.
    pub members: Vec<JoinedMember>,
}

/// A member as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Who it is.
    pub identity: Identity,
    /// What it says under the generation's protocol.
    pub metadata: Bytes,
}

/// The answer to a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncReply {
    /// What kind of group it is.
    pub protocol_type: Option<String>,
    /// The protocol of this generation.
    pub protocol: Option<String>,
    /// What the member was given.
    pub assignment: Bytes,
}

/// The answer to a heartbeat of a consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerHeartbeatReply {
    /// The member's id.
    pub member_id: String,
    /// Its epoch from now on.
    pub epoch: i32,
    /// Milliseconds after which it is to be heard again.
    pub heartbeat_interval_ms: i32,
    /// What it may have from now on, if that is news to it.
    pub assignment: Option<Assignment>,
}

/// An error with what Kafka says beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error.
    pub error: ErrorCode,
    /// Why, in words.
    pub message: Option<String>,
}

impl Refusal {
    /// An error with words.
    pub fn new(error: ErrorCode, message: impl Into<String>) -> Self {
        let message = Some(message.into());
        Self { error, message }
    }

    /// There is no group of this name.
    pub(in crate::group) fn no_group(group: &str) -> Self {
        Self::new(
            ErrorCode::GroupIdNotFound,
            format!("Group {group} not found."),
        )
    }

    /// There is one, by the classic protocol.
    pub(in crate::group) fn of_another_kind(group: &str) -> Self {
        let text = format!("Group {group} is not a consumer group.");
        Self::new(ErrorCode::GroupIdNotFound, text)
    }
}

impl From<ErrorCode> for Refusal {
    fn from(error: ErrorCode) -> Self {
        let message = None;
        Self { error, message }
    }
}

/// A group as ConsumerGroupDescribe shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerDescription {
    /// Kafka's name of its state.
    pub state: &'static str,
    /// Its epoch.
    pub epoch: i32,
    /// Of which epoch the targets are.
    pub target_epoch: i32,
    /// The assignor that shares out.
    pub assignor: &'static str,
    /// Its members.
    pub members: Vec<DescribedConsumer>,
}

/// A member as ConsumerGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConsumer {
    /// Its id.
    pub member_id: String,
    /// What it has said of itself.
    pub said: ConsumerValue,
    /// Its epoch.
    pub epoch: i32,
    /// What it has.
    pub assigned: Assignment,
    /// What it is to have.
    pub target: Assignment,
}

/// A group as DescribeGroups shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Kafka's name of its state.
    pub state: &'static str,
    /// What kind of group it is; empty for one that only commits.
    pub protocol_type: String,
    /// The protocol of its generation, when it is stable.
    pub protocol: String,
    /// Its members.
    pub members: Vec<DescribedMember>,
}

/// A member as DescribeGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMember {
    /// Who it is.
    pub identity: Identity,
    /// Its client's id.
    pub client_id: String,
    /// Its client's address.
    pub client_host: String,
    /// What it says under the group's protocol, when the group is stable.
    pub metadata: Bytes,
    /// What it was given, when the group is stable.
    pub assignment: Bytes,
}

/// A group as ListGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// Its id.
    pub group: String,
    /// What kind of group it is; empty for one that only commits.
    pub protocol_type: String,
    /// Kafka's name of its state.
    pub state: &'static str,
    /// Kafka's name of the protocol: "classic" or "consumer".
    pub group_type: &'static str,
}

impl Description {
    /// What is told of a group that is not there, or not one by the classic protocol.
    pub fn dead() -> Self {
        Self {
            state: "Dead",
            ..Self::default()
        }
    }
}

impl JoinReply {
    /// A join that is refused.
    pub fn refused(error: ErrorCode, member_id: impl Into<String>) -> Self {
        Self {
            error: Some(error),
            generation: NO_GENERATION,
            member_id: member_id.into(),
            ..Self::default()
        }
    }
}

impl Request {
    /// The group that it is about.
    pub fn group(&self) -> &str {
        match self {
            Self::Join(Join { group, .. })
            | Self::Sync(Sync { group, .. })
            | Self::Heartbeat(Heartbeat { group, .. })
            | Self::Leave(Leave { group, .. })
            | Self::ConsumerHeartbeat(ConsumerHeartbeat { group, .. })
            | Self::Commit(Commit { group, .. })
            | Self::FetchOffsets(FetchOffsets { group, .. })
            | Self::DeleteOffsets(group, _)
            | Self::Describe(group)
            | Self::DescribeConsumers(group)
            | Self::Delete(group) => group,
        }
    }

    /// Whether the group's id must not be empty. The oldest clients commit under an empty one.
    pub fn needs_name(&self) -> bool {
        match self {
            Self::Join(_)
            | Self::Sync(_)
            | Self::Heartbeat(_)
            | Self::Leave(_)
            | Self::ConsumerHeartbeat(_)
            | Self::DescribeConsumers(_)
            | Self::DeleteOffsets(..)
            | Self::Delete(_) => true,
            Self::Commit(_) | Self::FetchOffsets(..) | Self::Describe(_) => false,
        }
    }

    /// The answer when nothing is done about it.
    pub fn refused(&self, error: ErrorCode) -> Reply {
        match self {
            Self::Join(join) => {
                Reply::Join(JoinReply::refused(error, join.identity.member_id.clone()))
            }
            Self::Sync(_) => Reply::Sync(Err(error)),
            Self::Heartbeat(_) => Reply::Heartbeat(error),
            Self::Leave(_) => Reply::Leave(Err(error)),
            Self::Commit(commit) => Reply::Commit(vec![error; commit.offsets.len()]),
            Self::ConsumerHeartbeat(_) => Reply::ConsumerHeartbeat(Err(error.into())),
            Self::FetchOffsets(..) => Reply::FetchOffsets(Err(error)),
            Self::DeleteOffsets(..) => Reply::DeleteOffsets(Err(error)),
            Self::Describe(_) => Reply::Describe(Err(error)),
            Self::DescribeConsumers(_) => Reply::DescribeConsumers(Err(error.into())),
            Self::Delete(_) => Reply::Delete(error),
        }
    }
}
