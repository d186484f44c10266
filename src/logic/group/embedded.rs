//! What consumers by the classic protocol say in bytes that the protocol itself does not look into (Kafka's
//! ConsumerProtocol): what they subscribe to, and what they are given. Knows nothing of groups.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use wire::KafkaString;
use wire::messages::consumer_protocol_assignment::{
    ConsumerProtocolAssignmentData, TopicPartition,
};
use wire::messages::consumer_protocol_subscription::ConsumerProtocolSubscriptionData;

use super::request::TopicPartitions;

/// The newest version that is read and written; newer ones only add fields.
const VERSION_MAX: i16 = 3;

/// What a member subscribes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subscription {
    /// Topics by name, as it sent them.
    pub(super) topics: Vec<String>,
    /// What it has, where it does not give back everything before it joins.
    pub(super) owned: Vec<TopicPartitions>,
    /// Where it runs.
    pub(super) rack_id: Option<String>,
}

/// What a member was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) partitions: Vec<TopicPartitions>,
    /// Its leader's assignor told it something else besides.
    pub(super) has_user_data: bool,
}

impl Subscription {
    /// Reads one; none when the bytes are no subscription.
    pub(super) fn read(mut bytes: Bytes) -> Option<Self> {
        let version = take_version(&mut bytes)?;
        let data = ConsumerProtocolSubscriptionData::read(&mut bytes, version).ok()?;
        let owned = data.owned_partitions.into_iter();
        Some(Self {
            topics: data.topics.iter().map(|it| it.as_str().into()).collect(),
            owned: owned
                .map(|it| (it.topic.as_str().into(), it.partitions))
                .collect(),
            rack_id: data.rack_id.map(|it| it.as_str().into()),
        })
    }
}

impl Given {
    /// Reads what a leader has sent; none when the bytes are no assignment. No bytes at all are nothing.
    pub(super) fn read(mut bytes: Bytes) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let version = take_version(&mut bytes)?;
        let data = ConsumerProtocolAssignmentData::read(&mut bytes, version).ok()?;
        let partitions = data.assigned_partitions.into_iter();
        Some(Self {
            partitions: partitions
                .map(|it| (it.topic.as_str().into(), it.partitions))
                .collect(),
            has_user_data: data.user_data.is_some_and(|it| !it.is_empty()),
        })
    }
}

/// What a member gets, in the version in which it has said `subscription`.
pub(super) fn write_assignment(partitions: Vec<TopicPartitions>, subscription: &Bytes) -> Bytes {
    let version = take_version(&mut subscription.clone()).unwrap_or(0);
    let topics = partitions.into_iter().map(|(topic, partitions)| {
        TopicPartition::default()
            .with_topic(KafkaString::from(topic))
            .with_partitions(partitions)
    });
    let data = ConsumerProtocolAssignmentData::default().with_assigned_partitions(topics.collect());
    let mut out = BytesMut::new();
    out.put_i16(version);
    let written = data.write(&mut out, version);
    assert!(written.is_ok(), "topic names are short");
    out.freeze()
}

fn take_version(bytes: &mut Bytes) -> Option<i16> {
    let version = bytes.try_get_i16().ok()?;
    (version >= 0).then(|| version.min(VERSION_MAX))
}
