//! OffsetCommit (API 8): sorts out partitions that do not exist and hands the others to the group's
//! coordinator. Knows nothing of who may commit.

use logic::group::request::{Commit, CommitItem, Reply, Request};
use logic::ids::PartitionId;
use wire::messages::OffsetCommitRequestData;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_commit_response::{
    OffsetCommitResponseData, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use super::groups::{ask, identity};
use super::{Context, Handled, topics};

/// Until this version the client says how long its offsets are to be kept.
const LAST_VERSION_WITH_RETENTION: i16 = 4;
/// From this version on clients know GROUP_ID_NOT_FOUND.
const FIRST_VERSION_WITH_GROUP_NOT_FOUND: i16 = 9;

/// Answers one request.
pub async fn handle(context: &Context, request: OffsetCommitRequestData) -> Handled {
    let version = context.header.api_version;
    let mut offsets = Vec::new();
    let mut responses = Vec::with_capacity(request.topics.len());
    // Where each item's answer goes: topic and partition by their order.
    let mut places = Vec::new();
    for (at, topic) in request.topics.iter().enumerate() {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (within, partition) in topic.partitions.iter().enumerate() {
            let error = match item(context, topic, partition) {
                Ok(item) => {
                    offsets.push(item);
                    places.push((at, within));
                    ErrorCode::None
                }
                Err(error) => error,
            };
            partitions.push(
                OffsetCommitResponsePartition::default()
                    .with_partition_index(partition.partition_index)
                    .with_error_code(error.code()),
            );
        }
        responses.push(
            OffsetCommitResponseTopic::default()
                .with_name(topic.name.clone())
                .with_topic_id(topic.topic_id)
                .with_partitions(partitions),
        );
    }
    let says_retention = version <= LAST_VERSION_WITH_RETENTION && request.retention_time_ms >= 0;
    let commit = Commit {
        identity: identity(&request.member_id, request.group_instance_id.as_ref()),
        group: request.group_id.as_str().to_owned(),
        generation: request.generation_id_or_member_epoch,
        unknown_group: if version >= FIRST_VERSION_WITH_GROUP_NOT_FOUND {
            ErrorCode::GroupIdNotFound
        } else {
            ErrorCode::IllegalGeneration
        },
        retention_ms: says_retention.then_some(request.retention_time_ms),
        offsets,
    };
    if !commit.offsets.is_empty() {
        let Reply::Commit(errors) = ask(context, Request::Commit(commit)).await else {
            unreachable!("a commit is answered by a commit");
        };
        for ((topic, partition), error) in places.into_iter().zip(errors) {
            responses[topic].partitions[partition].error_code = error.code();
        }
    }
    let response = OffsetCommitResponseData::default().with_topics(responses);
    context.reply(&Response::OffsetCommit(response))
}

/// One partition's part of the commit, if the partition exists.
fn item(
    context: &Context,
    topic: &OffsetCommitRequestTopic,
    partition: &OffsetCommitRequestPartition,
) -> Result<CommitItem, ErrorCode> {
    let id = topics::resolve(&context.shard, &topic.name, &topic.topic_id)?;
    let metadata = &context.shard.metadata;
    let index = partition.partition_index;
    let unknown = ErrorCode::UnknownTopicOrPartition;
    metadata
        .owner(PartitionId { topic: id, index })
        .ok_or(unknown)?;
    let said = partition.committed_metadata.as_ref();
    Ok(CommitItem {
        topic: metadata.topic_name(id).ok_or(unknown)?,
        partition: index,
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: said.map_or("", KafkaString::as_str).to_owned(),
    })
}
