//! OffsetFetch (API 9): what groups have committed, of one group or of many (KIP-709). Knows nothing of
//! where it is kept. `require_stable` asks for nothing while there are no transactions.

use std::collections::HashSet;

use logic::group::request::{FetchOffsets, FetchedTopic, Reply, Request, TopicPartitions};
use wire::group_records::OffsetValue;
use wire::messages::OffsetFetchRequestData;
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::offset_fetch_response::{
    OffsetFetchResponseData, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaString, KafkaUuid};

use super::groups::{ask, topic_name};
use super::{Context, Handled, topics};

/// From this version on an error may stand for the whole answer.
const FIRST_VERSION_WITH_TOP_ERROR: i16 = 2;
/// From this version on many groups are asked for at once.
const FIRST_VERSION_WITH_GROUPS: i16 = 8;
/// From this version on topics are named by id.
const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 10;
/// Nothing is committed.
const NO_OFFSET: i64 = -1;
const NO_EPOCH: i32 = -1;

/// Answers one request.
pub async fn handle(context: &Context, request: OffsetFetchRequestData) -> Handled {
    if context.header.api_version < FIRST_VERSION_WITH_GROUPS {
        return one(context, request).await;
    }
    let mut groups = Vec::with_capacity(request.groups.len());
    let mut seen = HashSet::new();
    for group in request.groups {
        // What is named twice is answered once: the answer may be large.
        if !seen.insert(group.group_id.as_str().to_owned()) {
            continue;
        }
        groups.push(fetch(context, group).await);
    }
    let response = OffsetFetchResponseData::default().with_groups(groups);
    context.reply(&Response::OffsetFetch(response))
}

/// As older versions ask: one group, its answer at the top.
async fn one(context: &Context, request: OffsetFetchRequestData) -> Handled {
    let topics = request.topics.map(|topics| {
        let topics = topics.into_iter().map(|topic| {
            OffsetFetchRequestTopics::default()
                .with_name(topic.name)
                .with_partition_indexes(topic.partition_indexes)
        });
        topics.collect()
    });
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(request.group_id)
        .with_topics(topics);
    let fetched = fetch(context, group).await;
    let topics = fetched.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|it| {
            OffsetFetchResponsePartition::default()
                .with_partition_index(it.partition_index)
                .with_committed_offset(it.committed_offset)
                .with_committed_leader_epoch(it.committed_leader_epoch)
                .with_metadata(it.metadata)
                .with_error_code(it.error_code)
        });
        OffsetFetchResponseTopic::default()
            .with_name(topic.name)
            .with_partitions(partitions.collect())
    });
    let response = OffsetFetchResponseData::default()
        .with_topics(topics.collect())
        .with_error_code(fetched.error_code);
    context.reply(&Response::OffsetFetch(response))
}

async fn fetch(context: &Context, group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup {
    let version = context.header.api_version;
    let mut known: Vec<TopicPartitions> = Vec::new();
    let mut unknown = Vec::new();
    for topic in group.topics.iter().flatten() {
        match topic_name(context, &topic.name, &topic.topic_id) {
            Ok(name) => known.push((name, topic.partition_indexes.clone())),
            Err(error) => unknown.push(refused(topic, error)),
        }
    }
    let response = OffsetFetchResponseGroup::default().with_group_id(group.group_id.clone());
    let wanted = group.topics.is_some().then_some(known);
    let member = group.member_id.as_ref().map(KafkaString::as_str);
    let member = member.filter(|id| !id.is_empty() || group.member_epoch >= 0);
    let asked = Request::FetchOffsets(FetchOffsets {
        group: group.group_id.as_str().to_owned(),
        member: member.map(|id| (id.to_owned(), group.member_epoch)),
        topics: wanted,
    });
    let Reply::FetchOffsets(reply) = ask(context, asked).await else {
        unreachable!("a fetch of offsets is answered by offsets");
    };
    match reply {
        Ok(found) => {
            let found = found.into_iter().filter_map(|it| found_topic(context, it));
            response.with_topics(found.chain(unknown).collect())
        }
        Err(error) if version < FIRST_VERSION_WITH_TOP_ERROR => {
            let topics = group.topics.iter().flatten();
            response.with_topics(topics.map(|it| refused(it, error)).collect())
        }
        Err(error) => response.with_error_code(error.code()),
    }
}

/// A topic's answer; none where it must have an id and is gone.
fn found_topic(
    context: &Context,
    (name, partitions): FetchedTopic,
) -> Option<OffsetFetchResponseTopics> {
    let partitions = partitions
        .into_iter()
        .map(|(index, value)| partition(index, value, ErrorCode::None));
    let topic = OffsetFetchResponseTopics::default().with_partitions(partitions.collect());
    if context.header.api_version < FIRST_VERSION_WITH_TOPIC_IDS {
        return Some(topic.with_name(KafkaString::from(name)));
    }
    let id: KafkaUuid = topics::uuid(context.shard.metadata.topic_id(&name)?);
    Some(topic.with_topic_id(id))
}

fn refused(topic: &OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics {
    let indexes = topic.partition_indexes.iter();
    let partitions = indexes.map(|index| partition(*index, None, error));
    OffsetFetchResponseTopics::default()
        .with_name(topic.name.clone())
        .with_topic_id(topic.topic_id)
        .with_partitions(partitions.collect())
}

fn partition(
    index: i32,
    value: Option<OffsetValue>,
    error: ErrorCode,
) -> OffsetFetchResponsePartitions {
    let partition = OffsetFetchResponsePartitions::default()
        .with_partition_index(index)
        .with_error_code(error.code())
        .with_metadata(Some(KafkaString::default()))
        .with_committed_offset(NO_OFFSET)
        .with_committed_leader_epoch(NO_EPOCH);
    match value {
        None => partition,
        Some(value) => partition
            .with_committed_offset(value.offset)
            .with_committed_leader_epoch(value.leader_epoch)
            .with_metadata(Some(KafkaString::from(value.metadata))),
    }
}
