//! ListOffsets (API 2): the ends of a partition and look-ups by time. A true value or an error, never
//! a default (invariant 17). Knows nothing of indexes.

use std::collections::BTreeMap;

use logic::ids::{LeaderEpoch, PartitionId, Timestamp};
use wire::messages::ListOffsetsRequestData;
use wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponseData, ListOffsetsTopicResponse,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaUuid};

use super::{Context, Handled, topics};
use crate::shard::mail::{Answer, Ask, OffsetItem, OffsetQuery, OffsetResult, ShardId};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;
const READ_COMMITTED: i8 = 1;

/// Where one answer goes: topic and partition by their order in the response.
type Place = (usize, usize);

/// Answers one request.
pub async fn handle(context: &Context, request: ListOffsetsRequestData) -> Handled {
    let committed = request.isolation_level == READ_COMMITTED;
    let mut asks: BTreeMap<ShardId, (Vec<OffsetItem>, Vec<Place>)> = BTreeMap::new();
    let mut responses = Vec::with_capacity(request.topics.len());
    for (at, topic) in request.topics.into_iter().enumerate() {
        let id = topics::resolve(&context.shard, &topic.name, &KafkaUuid::ZERO);
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (within, asked) in topic.partitions.iter().enumerate() {
            let mut response = ListOffsetsPartitionResponse::default()
                .with_partition_index(asked.partition_index)
                .with_timestamp(-1)
                .with_offset(-1)
                .with_leader_epoch(-1);
            let query = query(asked.timestamp, committed);
            let owned = id.and_then(|topic| {
                let id = PartitionId {
                    topic,
                    index: asked.partition_index,
                };
                let owner = context.shard.metadata.owner(id);
                Ok((owner.ok_or(ErrorCode::UnknownTopicOrPartition)?, id))
            });
            match (owned, query) {
                (Err(error), _) => response.error_code = error.code(),
                // Nothing is ever in a remote tier here, and nothing waits to go there.
                (Ok(_), None) => {}
                (Ok((owner, partition)), Some(query)) => {
                    let epoch = asked.current_leader_epoch;
                    let current_epoch = (epoch >= 0).then_some(LeaderEpoch(epoch));
                    let (items, places) = asks.entry(owner).or_default();
                    items.push(OffsetItem {
                        partition,
                        query,
                        current_epoch,
                    });
                    places.push((at, within));
                }
            }
            partitions.push(response);
        }
        responses.push(
            ListOffsetsTopicResponse::default()
                .with_name(topic.name)
                .with_partitions(partitions),
        );
    }
    for (owner, (items, places)) in asks {
        let Answer::Offsets(found) = context.shard.ask(owner, Ask::Offsets(items)).await else {
            unreachable!("offsets are answered by offsets");
        };
        for ((topic, partition), found) in places.into_iter().zip(found) {
            tell(&mut responses[topic].partitions[partition], found);
        }
    }
    let response = ListOffsetsResponseData::default().with_topics(responses);
    context.reply(&Response::ListOffsets(response))
}

/// What a timestamp asks for; `None` for what only exists with remote storage.
fn query(timestamp: i64, committed: bool) -> Option<OffsetQuery> {
    match timestamp {
        LATEST if committed => Some(OffsetQuery::LatestStable),
        LATEST => Some(OffsetQuery::Latest),
        EARLIEST | EARLIEST_LOCAL => Some(OffsetQuery::Earliest),
        MAX_TIMESTAMP => Some(OffsetQuery::MaxTimestamp),
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => None,
        time => Some(OffsetQuery::At(Timestamp(time))),
    }
}

fn tell(response: &mut ListOffsetsPartitionResponse, found: OffsetResult) {
    match found {
        Ok(Some(found)) => {
            response.timestamp = found.timestamp.0;
            response.offset = found.offset.0;
            response.leader_epoch = found.epoch.0;
        }
        Ok(None) => {}
        Err(refused) => response.error_code = topics::error_code(refused).code(),
    }
}
