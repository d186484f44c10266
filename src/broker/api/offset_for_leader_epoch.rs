//! OffsetForLeaderEpoch (API 23): where an epoch ends, for clients that check for truncation
//! (KIP-320). Knows nothing of how epochs are kept.

use logic::ids::{LeaderEpoch, PartitionId};
use wire::messages::OffsetForLeaderEpochRequestData;
use wire::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderEpochResponseData, OffsetForLeaderTopicResult,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaUuid};

use super::{Context, Handled, topics};
use crate::shard::mail::{Answer, Ask};

/// Answers one request.
pub async fn handle(context: &Context, request: OffsetForLeaderEpochRequestData) -> Handled {
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let id = topics::resolve(&context.shard, &topic.topic, &KafkaUuid::ZERO);
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for asked in topic.partitions {
            let epochs = Epochs {
                known: asked.current_leader_epoch,
                asked: asked.leader_epoch,
            };
            let end = match id {
                Ok(topic) => {
                    let id = PartitionId {
                        topic,
                        index: asked.partition,
                    };
                    end(context, id, epochs).await
                }
                Err(error) => Err(error),
            };
            let response = EpochEndOffset::default()
                .with_partition(asked.partition)
                .with_leader_epoch(-1)
                .with_end_offset(-1);
            partitions.push(match end {
                Ok((epoch, offset)) => response.with_leader_epoch(epoch).with_end_offset(offset),
                Err(error) => response.with_error_code(error.code()),
            });
        }
        results.push(
            OffsetForLeaderTopicResult::default()
                .with_topic(topic.topic)
                .with_partitions(partitions),
        );
    }
    let response = OffsetForLeaderEpochResponseData::default().with_topics(results);
    context.reply(&Response::OffsetForLeaderEpoch(response))
}

struct Epochs {
    known: i32,
    asked: i32,
}

async fn end(context: &Context, id: PartitionId, epochs: Epochs) -> Result<(i32, i64), ErrorCode> {
    let owner = context
        .shard
        .metadata
        .owner(id)
        .ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let known = (epochs.known >= 0).then_some(LeaderEpoch(epochs.known));
    let ask = Ask::EpochEnds(vec![(id, known, LeaderEpoch(epochs.asked))]);
    let Answer::EpochEnds(mut ends) = context.shard.ask(owner, ask).await else {
        unreachable!("epochs are answered by their ends");
    };
    match ends.pop() {
        Some(Ok((epoch, offset))) => Ok((epoch.0, offset.0)),
        Some(Err(refused)) => Err(topics::error_code(refused)),
        None => unreachable!("one question has one answer"),
    }
}
