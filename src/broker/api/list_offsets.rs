//! ListOffsets (API 2): the ends of a partition and look-ups by time. A true value or an error, never
//! a default (invariant 17). Knows nothing of indexes.

use std::collections::{BTreeMap, HashSet};

use logic::ids::{LeaderEpoch, PartitionId, Timestamp, TopicId};
use wire::messages::ListOffsetsRequestData;
use wire::messages::list_offsets_request::ListOffsetsPartition;
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

/// The epoch of a client that knows none.
const NO_EPOCH: i32 = -1;

/// Where one answer goes: topic and partition by their order in the response.
type Place = (usize, usize);

/// Answers one request.
pub async fn handle(context: &Context, request: ListOffsetsRequestData) -> Handled {
    let repeated = repeated(&request);
    let mut told = HashSet::new();
    let mut asks: BTreeMap<ShardId, (Vec<OffsetItem>, Vec<Place>)> = BTreeMap::new();
    let mut responses = Vec::with_capacity(request.topics.len());
    for (at, topic) in request.topics.iter().enumerate() {
        let id = topics::resolve(&context.shard, &topic.name, &KafkaUuid::ZERO);
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for asked in &topic.partitions {
            let whose = (topic.name.as_str(), asked.partition_index);
            let item = match repeated.contains(&whose) {
                true if !told.insert(whose) => continue,
                true => Err(ErrorCode::InvalidRequest),
                false => item(context, id, asked, request.isolation_level),
            };
            let mut response = ListOffsetsPartitionResponse::default()
                .with_partition_index(asked.partition_index)
                .with_timestamp(-1)
                .with_offset(-1)
                .with_leader_epoch(-1);
            match item {
                Ok((owner, item)) => {
                    let (items, places) = asks.entry(owner).or_default();
                    items.push(item);
                    places.push((at, partitions.len()));
                }
                Err(error) => response.error_code = error.code(),
            }
            partitions.push(response);
        }
        responses.push(
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
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

/// The partitions that are asked about more than once. Kafka refuses each, in one answer.
fn repeated(request: &ListOffsetsRequestData) -> HashSet<(&str, i32)> {
    let mut seen = HashSet::new();
    let partitions = request.topics.iter().flat_map(|topic| {
        let indexes = topic.partitions.iter().map(|asked| asked.partition_index);
        indexes.map(|index| (topic.name.as_str(), index))
    });
    partitions.filter(|whose| !seen.insert(*whose)).collect()
}

/// What the partition's owner is asked.
fn item(
    context: &Context,
    topic: Result<TopicId, ErrorCode>,
    asked: &ListOffsetsPartition,
    isolation: i8,
) -> Result<(ShardId, OffsetItem), ErrorCode> {
    let version = context.header.api_version;
    let query = query(asked.timestamp, version, isolation == READ_COMMITTED)
        .ok_or(ErrorCode::UnsupportedVersion)?;
    let partition = PartitionId {
        topic: topic?,
        index: asked.partition_index,
    };
    let owner = context.shard.metadata.owner(partition);
    let epoch = asked.current_leader_epoch;
    let item = OffsetItem {
        partition,
        query,
        current_epoch: (epoch != NO_EPOCH).then_some(LeaderEpoch(epoch)),
    };
    Ok((owner.ok_or(ErrorCode::UnknownTopicOrPartition)?, item))
}

/// What a timestamp asks for; `None` for a negative one that has no meaning in this version.
fn query(timestamp: i64, version: i16, committed: bool) -> Option<OffsetQuery> {
    let (since, query) = match timestamp {
        LATEST if committed => (0, OffsetQuery::LatestStable),
        LATEST => (0, OffsetQuery::Latest),
        EARLIEST => (0, OffsetQuery::Earliest),
        MAX_TIMESTAMP => (7, OffsetQuery::MaxTimestamp),
        EARLIEST_LOCAL => (8, OffsetQuery::Earliest),
        LATEST_TIERED => (9, OffsetQuery::Tiered),
        EARLIEST_PENDING_UPLOAD => (11, OffsetQuery::Tiered),
        time if time >= 0 => (0, OffsetQuery::At(Timestamp(time))),
        _ => return None,
    };
    (version >= since).then_some(query)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use wire::messages::list_offsets_request::ListOffsetsTopic;

    use super::*;

    #[test]
    fn a_negative_timestamp_means_something_from_its_version_on_or_nothing_at_all() {
        let first =
            |timestamp| (0..=11).find(|version| query(timestamp, *version, false).is_some());
        assert_eq!(
            [-1, -2, -3, -4, -5, -6, -7, -100, i64::MIN].map(first),
            [
                Some(0),
                Some(0),
                Some(7),
                Some(8),
                Some(9),
                Some(11),
                None,
                None,
                None
            ]
        );
        assert_eq!([0, i64::MAX].map(first), [Some(0), Some(0)]);
    }

    #[test]
    fn partitions_that_are_asked_about_twice_are_found_across_topics() {
        let topic = |name: &str, indexes: &[i32]| {
            let partition =
                |index: &i32| ListOffsetsPartition::default().with_partition_index(*index);
            ListOffsetsTopic::default()
                .with_name(name.to_owned().into())
                .with_partitions(indexes.iter().map(partition).collect())
        };
        let topics = vec![
            topic("a", &[0, 1, 1, 1]),
            topic("b", &[0, 2]),
            topic("a", &[2, 0]),
        ];
        let request = ListOffsetsRequestData::default().with_topics(topics);
        let found: BTreeSet<_> = repeated(&request).into_iter().collect();
        assert_eq!(found, BTreeSet::from([("a", 0), ("a", 1)]));
    }
}
