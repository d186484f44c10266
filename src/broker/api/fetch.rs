//! Fetch (API 1): reads partitions from their owners, waits until enough is there, answers without
//! copying records. Knows nothing of segments or caches.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use logic::ids::{LeaderEpoch, Offset, PartitionId};
use wire::fetch::{Part, frame};
use wire::messages::FetchRequestData;
use wire::messages::fetch_request::FetchPartition;
use wire::messages::fetch_response::{FetchResponseData, FetchableTopicResponse, PartitionData};
use wire::{ErrorCode, KafkaString, KafkaUuid};

use super::{Context, Handled, topics};
use crate::shard::calls::Call;
use crate::shard::hosted::now;
use crate::shard::mail::{Answer, Ask, Chunk, ReadItem, ReadLimits, ReadResult, Refused, ShardId};

/// A consumer's fetch says so by this replica id.
const CONSUMER: i32 = -1;

/// One partition of the request, resolved.
struct Wanted {
    topic: usize,
    index: i32,
    item: Result<(ShardId, ReadItem), ErrorCode>,
}

/// One topic of the response.
struct Topic {
    name: KafkaString,
    id: KafkaUuid,
}

/// What the request comes to: its topics and its partitions, both in order.
struct Plan {
    topics: Vec<Topic>,
    wanted: Vec<Wanted>,
}

/// Answers one fetch.
pub async fn handle(context: &Context, request: FetchRequestData) -> Handled {
    if request.replica_id > CONSUMER || request.replica_state.replica_id > CONSUMER {
        // Replica semantics need a cluster principal and a broker epoch; there are no followers yet.
        return refuse(context, ErrorCode::ClusterAuthorizationFailed);
    }
    let plan = plan(context, &request);
    let limits = ReadLimits {
        bytes_max: usize::try_from(request.max_bytes)
            .unwrap_or(0)
            .min(context.shard.limits.fetch_bytes_max),
        first_batch_whole: true,
    };
    let bytes_min = usize::try_from(request.min_bytes)
        .unwrap_or(0)
        .min(limits.bytes_max);
    let wait_ms = u64::try_from(request.max_wait_ms).unwrap_or(0);
    let deadline = now().plus_ms(wait_ms);
    let results = loop {
        let results = read(context, &plan, limits).await;
        let enough = plan.wanted.is_empty() || satisfied(&results, bytes_min);
        if enough || now() >= deadline || context.shard.stopping() {
            // A fetch of nothing at all still waits, or its client would spin.
            if plan.wanted.is_empty() && bytes_min > 0 {
                let left = deadline.0.saturating_sub(now().0);
                reactor::timer::sleep(std::time::Duration::from_nanos(left)).await;
            }
            break results;
        }
        wait(context, &plan, &results, deadline.0).await;
    };
    reply(context, plan, results)
}

fn satisfied(results: &[ReadResult], bytes_min: usize) -> bool {
    let mut bytes = 0;
    for result in results {
        match &result.result {
            Ok(chunks) => bytes += chunks.iter().map(Chunk::len).sum::<usize>(),
            Err(_) => return true,
        }
    }
    bytes >= bytes_min
}

fn plan(context: &Context, request: &FetchRequestData) -> Plan {
    let mut plan = Plan {
        topics: Vec::new(),
        wanted: Vec::new(),
    };
    for topic in &request.topics {
        let id = topics::resolve(&context.shard, &topic.topic, &topic.topic_id);
        for partition in &topic.partitions {
            let item = id.and_then(|topic| {
                let id = PartitionId {
                    topic,
                    index: partition.partition,
                };
                let owner = context.shard.metadata.owner(id);
                let owner = owner.ok_or(ErrorCode::UnknownTopicOrPartition)?;
                Ok((owner, read_item(id, partition)))
            });
            plan.wanted.push(Wanted {
                topic: plan.topics.len(),
                index: partition.partition,
                item,
            });
        }
        plan.topics.push(Topic {
            name: topic.topic.clone(),
            id: topic.topic_id,
        });
    }
    plan
}

fn read_item(partition: PartitionId, asked: &FetchPartition) -> ReadItem {
    let epoch = asked.current_leader_epoch;
    ReadItem {
        partition,
        offset: Offset(asked.fetch_offset),
        bytes_max: usize::try_from(asked.partition_max_bytes).unwrap_or(0),
        current_epoch: (epoch >= 0).then_some(LeaderEpoch(epoch)),
    }
}

/// The places of one shard's partitions in the plan.
fn by_owner(plan: &Plan) -> BTreeMap<ShardId, Vec<usize>> {
    let mut owners: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
    for (place, wanted) in plan.wanted.iter().enumerate() {
        if let Ok((owner, _)) = &wanted.item {
            owners.entry(*owner).or_default().push(place);
        }
    }
    owners
}

/// Reads every partition once. Owners are asked one after the other, so that together they keep to
/// the limits.
async fn read(context: &Context, plan: &Plan, limits: ReadLimits) -> Vec<ReadResult> {
    let nothing = || ReadResult::refused(Refused::UnknownPartition);
    let mut results: Vec<ReadResult> = plan.wanted.iter().map(|_| nothing()).collect();
    let mut left = limits;
    for (owner, places) in by_owner(plan) {
        let items = places
            .iter()
            .filter_map(|place| plan.wanted[*place].item.as_ref().ok());
        let items: Vec<ReadItem> = items.map(|(_, item)| item.clone()).collect();
        let Answer::Read(read) = context.shard.ask(owner, Ask::Read(left, items)).await else {
            unreachable!("a read is answered by results");
        };
        for (place, result) in places.into_iter().zip(read) {
            let bytes = result.bytes();
            left.bytes_max = left.bytes_max.saturating_sub(bytes);
            left.first_batch_whole &= bytes == 0;
            results[place] = result;
        }
    }
    results
}

/// Waits until a high watermark passes what the results have seen, or the deadline.
async fn wait(context: &Context, plan: &Plan, results: &[ReadResult], deadline: u64) {
    let mut calls: Vec<Call> = by_owner(plan)
        .into_iter()
        .map(|(owner, places)| {
            let watches = places.into_iter().filter_map(|place| {
                let (_, item) = plan.wanted[place].item.as_ref().ok()?;
                Some((item.partition, results[place].high_watermark))
            });
            context
                .shard
                .ask(owner, Ask::Watch(watches.collect(), deadline))
        })
        .collect();
    poll_fn(|task| {
        let woken = calls
            .iter_mut()
            .any(|call| Pin::new(call).poll(task).is_ready());
        if woken {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

fn reply(context: &Context, plan: Plan, results: Vec<ReadResult>) -> Handled {
    let mut responses: Vec<FetchableTopicResponse> = plan
        .topics
        .into_iter()
        .map(|topic| {
            FetchableTopicResponse::default()
                .with_topic(topic.name)
                .with_topic_id(topic.id)
        })
        .collect();
    let mut lengths = Vec::with_capacity(results.len());
    let mut records = Vec::with_capacity(results.len());
    for (wanted, result) in plan.wanted.into_iter().zip(results) {
        lengths.push(result.bytes());
        let refused = wanted.item.err();
        responses[wanted.topic]
            .partitions
            .push(partition(wanted.index, refused, &result));
        records.push(result.result.unwrap_or_default());
    }
    let response = FetchResponseData::default().with_responses(responses);
    send(context, &response, &lengths, records)
}

fn partition(index: i32, refused: Option<ErrorCode>, result: &ReadResult) -> PartitionData {
    let error = match (refused, &result.result) {
        (Some(error), _) => error,
        (None, Err(refused)) => topics::error_code(*refused),
        (None, Ok(_)) => ErrorCode::None,
    };
    PartitionData::default()
        .with_partition_index(index)
        .with_error_code(error.code())
        .with_high_watermark(result.high_watermark.0)
        .with_last_stable_offset(result.last_stable.0)
        .with_log_start_offset(result.log_start.0)
        .with_preferred_read_replica(-1)
}

fn send(
    context: &Context,
    response: &FetchResponseData,
    lengths: &[usize],
    mut records: Vec<Vec<Chunk>>,
) -> Handled {
    let version = context.header.api_version;
    match frame(version, context.header.correlation_id, response, lengths) {
        Ok(parts) => {
            let mut chunks = Vec::with_capacity(parts.len() + records.len());
            for part in parts {
                match part {
                    Part::Bytes(bytes) => chunks.push(Chunk::Memory(bytes)),
                    Part::Records(place) => chunks.append(&mut records[place]),
                }
            }
            Handled::Reply(chunks)
        }
        Err(error) => {
            eprintln!("error: a fetch response cannot be encoded: {error}");
            Handled::Close
        }
    }
}

fn refuse(context: &Context, error: ErrorCode) -> Handled {
    let response = FetchResponseData::default().with_error_code(error.code());
    send(context, &response, &[], Vec::new())
}
