//! DeleteRecords (API 21): moves a partition's log start up. Knows nothing of segments.

use logic::cluster::config::Resolved;
use logic::ids::{Offset, PartitionId, TopicId};
use wire::messages::DeleteRecordsRequestData;
use wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsResponseData, DeleteRecordsTopicResult,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaUuid};

use super::{Context, Handled, topics};
use crate::shard::mail::{Answer, Ask};

/// Answers one request.
pub async fn handle(context: &Context, request: DeleteRecordsRequestData) -> Handled {
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let id = topics::resolve(&context.shard, &topic.name, &KafkaUuid::ZERO)
            .and_then(|id| topics::refuse_internal(&context.shard, id))
            .and_then(|id| refuse_compacted(context, id));
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for asked in topic.partitions {
            let before = Offset(asked.offset);
            let deleted = match id {
                Ok(topic) => {
                    delete(
                        context,
                        PartitionId {
                            topic,
                            index: asked.partition_index,
                        },
                        before,
                    )
                    .await
                }
                Err(error) => Err(error),
            };
            let result = DeleteRecordsPartitionResult::default()
                .with_partition_index(asked.partition_index)
                .with_low_watermark(-1);
            partitions.push(match deleted {
                Ok(start) => result.with_low_watermark(start.0),
                Err(error) => result.with_error_code(error.code()),
            });
        }
        results.push(
            DeleteRecordsTopicResult::default()
                .with_name(topic.name)
                .with_partitions(partitions),
        );
    }
    let response = DeleteRecordsResponseData::default().with_topics(results);
    context.reply(&Response::DeleteRecords(response))
}

/// A topic that is compacted only keeps the newest record of each key, wherever it is.
fn refuse_compacted(context: &Context, id: TopicId) -> Result<TopicId, ErrorCode> {
    let metadata = &context.shard.metadata;
    let (identity, image) = (&metadata.identity, metadata.image());
    let config = Resolved::new(&image, &identity.statics, identity.node, image.topic(id));
    if config.has_policy("delete") {
        Ok(id)
    } else {
        Err(ErrorCode::PolicyViolation)
    }
}

async fn delete(context: &Context, id: PartitionId, before: Offset) -> Result<Offset, ErrorCode> {
    let owner = context
        .shard
        .metadata
        .owner(id)
        .ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let ask = Ask::DeleteRecords(vec![(id, before)]);
    let Answer::Deleted(mut deleted) = context.shard.ask(owner, ask).await else {
        unreachable!("a deletion is answered by the new start");
    };
    let outcome = deleted.pop().expect("one question has one answer");
    outcome.map_err(topics::error_code)
}
