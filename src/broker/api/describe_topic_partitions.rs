//! DescribeTopicPartitions (API 75, KIP-966): topics page by page. Knows nothing of logs.

use logic::cluster::Topic;
use logic::cluster::change;
use wire::messages::DescribeTopicPartitionsRequestData;
use wire::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponseData, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use super::{Context, Handled, topics};

/// The authorised operations when nobody asked for them.
const NOT_ASKED: i32 = i32::MIN;
/// Partitions in one answer, at most (`max.request.partition.size.limit`).
const PARTITIONS_MAX: usize = 2000;

/// Answers one request.
pub fn handle(context: &Context, request: &DescribeTopicPartitionsRequestData) -> Handled {
    let cursor = request.cursor.as_ref();
    if cursor.is_some_and(|cursor| cursor.partition_index < 0) {
        return super::error_reply(&context.header, ErrorCode::InvalidRequest);
    }
    let start = cursor.map_or("", |cursor| cursor.topic_name.as_str());
    let image = context.shard.metadata.image();
    let mut names: Vec<&str> = if request.topics.is_empty() {
        image
            .topics_from(start)
            .map(|topic| topic.name.as_str())
            .collect()
    } else {
        request
            .topics
            .iter()
            .map(|topic| topic.name.as_str())
            .filter(|it| *it >= start)
            .collect()
    };
    names.sort_unstable();
    names.dedup();
    let limit = usize::try_from(request.response_partition_limit).unwrap_or(0);
    let mut left = limit.clamp(1, PARTITIONS_MAX);
    let mut answered = Vec::new();
    let mut next = None;
    for name in names {
        let from = match cursor {
            Some(cursor) if cursor.topic_name.as_str() == name => {
                usize::try_from(cursor.partition_index).unwrap_or(0)
            }
            _ => 0,
        };
        let Some(topic) = image.topic_by_name(name) else {
            answered.push(missing(name));
            continue;
        };
        if left == 0 {
            next = Some(cursor_at(name, 0));
            break;
        }
        let until = topic.partitions.len().min(from.saturating_add(left));
        answered.push(described(context, topic, from, until));
        left -= until.saturating_sub(from);
        if until < topic.partitions.len() {
            next = Some(cursor_at(name, until));
            break;
        }
    }
    let response = DescribeTopicPartitionsResponseData::default()
        .with_topics(answered)
        .with_next_cursor(next);
    context.reply(&Response::DescribeTopicPartitions(response))
}

fn cursor_at(name: &str, partition: usize) -> Box<Cursor> {
    let index = i32::try_from(partition).unwrap_or(i32::MAX);
    let name = KafkaString::from(name.to_owned());
    Box::new(
        Cursor::default()
            .with_topic_name(name)
            .with_partition_index(index),
    )
}

fn missing(name: &str) -> DescribeTopicPartitionsResponseTopic {
    let error = match change::check_name(name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    DescribeTopicPartitionsResponseTopic::default()
        .with_error_code(error.code())
        .with_name(Some(KafkaString::from(name.to_owned())))
        .with_topic_authorized_operations(NOT_ASKED)
}

fn described(
    context: &Context,
    topic: &Topic,
    from: usize,
    until: usize,
) -> DescribeTopicPartitionsResponseTopic {
    let partitions = (0..).zip(&topic.partitions).take(until).skip(from);
    let partitions = partitions.map(|(index, partition)| {
        let told = topics::told_of(&context.shard, topic, index);
        DescribeTopicPartitionsResponsePartition::default()
            .with_error_code(told.error_code)
            .with_partition_index(index)
            .with_leader_id(told.leader)
            .with_offline_replicas(told.offline)
            .with_leader_epoch(partition.leader_epoch.0)
            .with_replica_nodes(partition.replicas.clone())
            .with_isr_nodes(partition.in_sync.clone())
            .with_eligible_leader_replicas(Some(Vec::new()))
            .with_last_known_elr(Some(Vec::new()))
    });
    DescribeTopicPartitionsResponseTopic::default()
        .with_name(Some(KafkaString::from(topic.name.clone())))
        .with_topic_id(topics::uuid(topic.id))
        .with_is_internal(change::is_internal(&topic.name))
        .with_partitions(partitions.collect())
        .with_topic_authorized_operations(NOT_ASKED)
}
