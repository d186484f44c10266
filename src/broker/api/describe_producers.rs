//! DescribeProducers (API 61, KIP-664): who has written to a partition. Knows nothing of windows.

use std::collections::HashSet;

use logic::ids::PartitionId;
use wire::messages::DescribeProducersRequestData;
use wire::messages::describe_producers_response::{
    DescribeProducersResponseData, PartitionResponse, ProducerState, TopicResponse,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaUuid};

use super::{Context, Handled, topics};
use crate::shard::mail::{Answer, Ask, ProducerRow};

/// Answers one request.
pub async fn handle(context: &Context, request: DescribeProducersRequestData) -> Handled {
    let mut results = Vec::with_capacity(request.topics.len());
    let mut seen = HashSet::new();
    for topic in request.topics {
        let id = topics::resolve(&context.shard, &topic.name, &KafkaUuid::ZERO);
        let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
        for index in topic.partition_indexes {
            // What is named twice is answered once: the answer may be large.
            if !seen.insert((topic.name.as_str().to_owned(), index)) {
                continue;
            }
            let rows = match id {
                Ok(topic) => rows(context, PartitionId { topic, index }).await,
                Err(error) => Err(error),
            };
            let response = PartitionResponse::default().with_partition_index(index);
            partitions.push(match rows {
                Ok(rows) => response.with_active_producers(rows.iter().map(state).collect()),
                Err(error) => response.with_error_code(error.code()),
            });
        }
        results.push(
            TopicResponse::default()
                .with_name(topic.name)
                .with_partitions(partitions),
        );
    }
    let response = DescribeProducersResponseData::default().with_topics(results);
    context.reply(&Response::DescribeProducers(response))
}

async fn rows(context: &Context, id: PartitionId) -> Result<Vec<ProducerRow>, ErrorCode> {
    let owner = context
        .shard
        .metadata
        .owner(id)
        .ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let ask = Ask::DescribeProducers(vec![id]);
    let Answer::Producers(mut rows) = context.shard.ask(owner, ask).await else {
        unreachable!("producers are answered by rows");
    };
    let outcome = rows.pop().expect("one question has one answer");
    outcome.map_err(topics::error_code)
}

fn state(row: &ProducerRow) -> ProducerState {
    ProducerState::default()
        .with_producer_id(row.producer_id)
        .with_producer_epoch(i32::from(row.epoch))
        .with_last_sequence(row.last_sequence)
        .with_last_timestamp(row.last_timestamp)
        .with_coordinator_epoch(-1)
        .with_current_txn_start_offset(-1)
}
