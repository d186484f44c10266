//! OffsetDelete (API 47): a group forgets what it has committed for some partitions. Knows nothing of
//! which topics its members read.

use logic::group::request::{Reply, Request, TopicPartitions};
use wire::messages::OffsetDeleteRequestData;
use wire::messages::offset_delete_request::OffsetDeleteRequestTopic;
use wire::messages::offset_delete_response::{
    OffsetDeleteResponseData, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaUuid};

use super::groups::ask;
use super::{Context, Handled, topics};

/// Answers one request.
pub async fn handle(context: &Context, request: OffsetDeleteRequestData) -> Handled {
    let known = |topic: &OffsetDeleteRequestTopic| {
        topics::resolve(&context.shard, &topic.name, &KafkaUuid::ZERO).is_ok()
    };
    let wanted = request.topics.iter().filter(|topic| known(topic));
    let wanted: Vec<TopicPartitions> = wanted
        .map(|topic| {
            let partitions = topic.partitions.iter().map(|it| it.partition_index);
            (topic.name.as_str().to_owned(), partitions.collect())
        })
        .collect();
    let group = request.group_id.as_str().to_owned();
    let existing: Vec<bool> = request.topics.iter().map(known).collect();
    let Reply::DeleteOffsets(reply) = ask(context, Request::DeleteOffsets(group, wanted)).await
    else {
        unreachable!("a deletion of offsets is answered by their fate");
    };
    let response = OffsetDeleteResponseData::default();
    let errors = match reply {
        Ok(errors) => errors,
        Err(error) => {
            let response = response.with_error_code(error.code());
            return context.reply(&Response::OffsetDelete(response));
        }
    };
    let mut errors = errors.into_iter();
    let topics = request
        .topics
        .into_iter()
        .zip(existing)
        .map(|(topic, exists)| {
            let unknown = vec![ErrorCode::UnknownTopicOrPartition; topic.partitions.len()];
            let errors = exists.then(|| errors.next()).flatten().unwrap_or(unknown);
            let partitions = topic.partitions.iter().zip(errors).map(|(asked, error)| {
                OffsetDeleteResponsePartition::default()
                    .with_partition_index(asked.partition_index)
                    .with_error_code(error.code())
            });
            OffsetDeleteResponseTopic::default()
                .with_partitions(partitions.collect())
                .with_name(topic.name)
        });
    let response = response.with_topics(topics.collect());
    context.reply(&Response::OffsetDelete(response))
}
