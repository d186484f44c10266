//! The bytes of subscriptions and assignments (Kafka's ConsumerProtocol) and of the user data of the
//! sticky assignors. Knows nothing of who gets what.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use wire::KafkaString;
use wire::messages::consumer_protocol_assignment::{self as given, ConsumerProtocolAssignmentData};
use wire::messages::consumer_protocol_subscription::{
    self as wanted, ConsumerProtocolSubscriptionData,
};

use super::super::partition::{TopicPartition, by_topic};
use super::NO_GENERATION;

/// The newest version that is written. Readers of older ones ignore what follows.
const VERSION: i16 = 3;

/// Another member's bytes do not follow ConsumerProtocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What a member says of itself when it joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) topics: BTreeSet<Arc<str>>,
    pub(crate) user_data: Option<Bytes>,
    /// Only filled by cooperative members.
    pub(crate) owned: Vec<TopicPartition>,
    pub(crate) generation: i32,
    pub(crate) rack: Option<Arc<str>>,
}

impl Subscription {
    /// As a member sends it.
    pub(crate) fn encode(&self) -> Bytes {
        let owned = by_topic(self.owned.iter().map(|it| (it.clone(), ())));
        let owned = owned.into_iter().map(|(topic, partitions)| {
            wanted::TopicPartition::default()
                .with_topic(text(&topic))
                .with_partitions(partitions.into_keys().collect())
        });
        let data = ConsumerProtocolSubscriptionData::default()
            .with_topics(self.topics.iter().map(|topic| text(topic)).collect())
            .with_user_data(self.user_data.clone())
            .with_owned_partitions(owned.collect())
            .with_generation_id(self.generation)
            .with_rack_id(self.rack.as_ref().map(|rack| text(rack)));
        let mut out = BytesMut::new();
        out.put_i16(VERSION);
        let written = data.write(&mut out, VERSION);
        assert!(written.is_ok(), "topic names and racks are short");
        out.freeze()
    }

    /// Any version: newer ones only add fields behind those known.
    pub(crate) fn decode(mut bytes: Bytes) -> Result<Self, Malformed> {
        let version = version(&mut bytes)?;
        let data = ConsumerProtocolSubscriptionData::read(&mut bytes, version);
        let data = data.map_err(|_| Malformed)?;
        let owned = data
            .owned_partitions
            .into_iter()
            .flat_map(|topic| partitions(&topic.topic, topic.partitions));
        Ok(Self {
            topics: data
                .topics
                .iter()
                .map(|it| Arc::from(it.as_str()))
                .collect(),
            user_data: data.user_data,
            owned: owned.collect(),
            generation: data.generation_id,
            rack: data.rack_id.map(|rack| Arc::from(rack.as_str())),
        })
    }
}

/// An assignment as the leader sends it to one member.
pub(crate) fn encode_assignment(assigned: &[TopicPartition]) -> Bytes {
    let topics = by_topic(assigned.iter().map(|it| (it.clone(), ())));
    let topics = topics.into_iter().map(|(topic, partitions)| {
        given::TopicPartition::default()
            .with_topic(text(&topic))
            .with_partitions(partitions.into_keys().collect())
    });
    let data = ConsumerProtocolAssignmentData::default().with_assigned_partitions(topics.collect());
    let mut out = BytesMut::new();
    out.put_i16(VERSION);
    let written = data.write(&mut out, VERSION);
    assert!(written.is_ok(), "topic names are short");
    out.freeze()
}

/// Reads an assignment. No bytes at all are no partitions: a leader sends so to a member that it
/// does not know of.
pub(crate) fn decode_assignment(mut bytes: Bytes) -> Result<Vec<TopicPartition>, Malformed> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let version = version(&mut bytes)?;
    let data = ConsumerProtocolAssignmentData::read(&mut bytes, version);
    let data = data.map_err(|_| Malformed)?;
    Ok(data
        .assigned_partitions
        .into_iter()
        .flat_map(|topic| partitions(&topic.topic, topic.partitions))
        .collect())
}

fn version(bytes: &mut Bytes) -> Result<i16, Malformed> {
    let version = bytes.try_get_i16().map_err(|_| Malformed)?;
    if version < 0 {
        return Err(Malformed);
    }
    Ok(version.min(VERSION))
}

/// The sticky assignor's user data: what it gave last, then at which generation (KIP-341).
pub(super) fn sticky_user_data(owned: &[TopicPartition], generation: i32) -> Bytes {
    let topics = by_topic(owned.iter().map(|it| (it.clone(), ())));
    let mut out = BytesMut::new();
    out.put_i32(length(topics.len()));
    for (topic, partitions) in &topics {
        let name_length = i16::try_from(topic.len());
        assert!(name_length.is_ok(), "topic names are short");
        out.put_i16(name_length.unwrap_or(i16::MAX));
        out.put_slice(topic.as_bytes());
        out.put_i32(length(partitions.len()));
        partitions
            .keys()
            .for_each(|&partition| out.put_i32(partition));
    }
    out.put_i32(generation);
    out.freeze()
}

/// What cannot be read counts as nothing owned, as with the Java client: another member's bytes must
/// not stop the group. Without a generation (older members) it is the oldest.
pub(super) fn read_sticky_user_data(bytes: Option<&Bytes>) -> (Vec<TopicPartition>, i32) {
    let Some(bytes) = bytes else {
        return (Vec::new(), NO_GENERATION);
    };
    let mut rest = bytes.clone();
    match read_topics(&mut rest) {
        Some(owned) => (owned, rest.try_get_i32().unwrap_or(NO_GENERATION)),
        None => (Vec::new(), NO_GENERATION),
    }
}

fn read_topics(rest: &mut Bytes) -> Option<Vec<TopicPartition>> {
    let mut owned: BTreeMap<Arc<str>, Vec<i32>> = BTreeMap::new();
    for _ in 0..rest.try_get_i32().ok()? {
        let name_length = usize::try_from(rest.try_get_i16().ok()?).ok()?;
        if name_length > rest.len() {
            return None;
        }
        let name = rest.split_to(name_length);
        let partitions = owned
            .entry(Arc::from(std::str::from_utf8(&name).ok()?))
            .or_default();
        for _ in 0..rest.try_get_i32().ok()? {
            partitions.push(rest.try_get_i32().ok()?);
        }
    }
    let owned = owned.into_iter().flat_map(|(topic, partitions)| {
        partitions
            .into_iter()
            .map(move |partition| TopicPartition::new(topic.clone(), partition))
    });
    Some(owned.collect())
}

/// The cooperative-sticky assignor's user data, for members that cannot read the generation of the
/// subscription itself yet.
pub(super) fn cooperative_user_data(generation: i32) -> Bytes {
    Bytes::copy_from_slice(&generation.to_be_bytes())
}

pub(super) fn read_cooperative_user_data(bytes: Option<&Bytes>) -> i32 {
    bytes
        .and_then(|bytes| bytes.clone().try_get_i32().ok())
        .unwrap_or(NO_GENERATION)
}

fn partitions(
    topic: &KafkaString,
    numbers: Vec<i32>,
) -> impl Iterator<Item = TopicPartition> + use<> {
    let topic: Arc<str> = Arc::from(topic.as_str());
    numbers
        .into_iter()
        .map(move |partition| TopicPartition::new(topic.clone(), partition))
}

fn text(text: &str) -> KafkaString {
    KafkaString::from(text.to_owned())
}

fn length(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}
