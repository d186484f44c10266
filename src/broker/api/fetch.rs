//! Fetch (API 1): reads partitions from their owners, waits until enough is there, answers without
//! copying records. Knows nothing of segments or caches.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use logic::ids::{Instant, LeaderEpoch, Offset, PartitionId};
use logic::partition::fetch_session::{
    Fetch, NO_SESSION, PartitionKey, Request, Returned, SessionError, TopicKey, Wanted,
};
use wire::fetch::{Part, frame};
use wire::messages::FetchRequestData;
use wire::messages::fetch_response::{FetchResponseData, FetchableTopicResponse, PartitionData};
use wire::{ErrorCode, KafkaString, KafkaUuid};

use super::{Context, Handled, topics};
use crate::shard::calls::Watch;
use crate::shard::hosted::now;
use crate::shard::mail::{Answer, Ask, Chunk, ReadItem, ReadLimits, ReadResult, Refused, ShardId};

/// A consumer's fetch says so by this replica id.
const CONSUMER: i32 = -1;
/// The session epoch of a fetch that wants no session.
const FINAL_EPOCH: i32 = -1;

/// From this version on fetches have sessions (KIP-227).
const FIRST_VERSION_WITH_SESSIONS: i16 = 7;
/// From this version on topics are named by id (KIP-516).
const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 13;

/// One partition to read: its owner and how to read it, or why it cannot be read.
type Item = Result<(ShardId, ReadItem), ErrorCode>;

/// Answers one fetch.
pub async fn handle(context: &Context, request: FetchRequestData) -> Handled {
    if request.replica_id > CONSUMER || request.replica_state.replica_id > CONSUMER {
        // Replica semantics need a cluster principal and a broker epoch; there are no followers yet.
        return refuse(context, ErrorCode::ClusterAuthorizationFailed);
    }
    let session = session_request(context.header.api_version, &request);
    let begun = context
        .shard
        .fetch_sessions
        .borrow_mut()
        .begin(now(), session);
    let fetch = match begun {
        Ok(fetch) => fetch,
        Err(error) => return refuse(context, session_error(error)),
    };
    if fetch.wanted.is_empty() {
        // As a client does that closes its session.
        return reply(context, fetch, Vec::new(), Vec::new());
    }
    let items: Vec<Item> = fetch
        .wanted
        .iter()
        .map(|wanted| item(context, wanted))
        .collect();
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
    let results = read_until(context, &items, limits, bytes_min, now().plus_ms(wait_ms)).await;
    reply(context, fetch, items, results)
}

/// Reads again and again until there is enough, something is to be told, or the time is over.
async fn read_until(
    context: &Context,
    items: &[Item],
    limits: ReadLimits,
    bytes_min: usize,
    deadline: Instant,
) -> Vec<ReadResult> {
    loop {
        let left = context.shard.budget_replies.left();
        let limits = ReadLimits {
            bytes_max: limits.bytes_max.min(left),
            ..limits
        };
        let results = read(context, items, limits).await;
        let enough = satisfied(&results, bytes_min.min(limits.bytes_max.max(1)));
        if enough || bytes_min == 0 || now() >= deadline || context.shard.stopping() {
            return results;
        }
        wait(context, items, &results, deadline).await;
        // Whatever woke it: others have their turn between two reads.
        reactor::yield_now().await;
    }
}

/// The request's part in sessions. Before they existed every fetch was a full one.
fn session_request(version: i16, request: &FetchRequestData) -> Request {
    let topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS;
    let key = |name: &KafkaString, id: &KafkaUuid| {
        if topic_ids {
            TopicKey::Id(topics::topic_id(id))
        } else {
            TopicKey::Name(name.as_str().into())
        }
    };
    let known = |epoch: i32| (epoch >= 0).then_some(LeaderEpoch(epoch));
    let wanted = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(move |asked| Wanted {
            key: PartitionKey {
                topic: key(&topic.topic, &topic.topic_id),
                index: asked.partition,
            },
            offset: Offset(asked.fetch_offset),
            bytes_max: asked.partition_max_bytes,
            current_epoch: known(asked.current_leader_epoch),
            last_fetched_epoch: known(asked.last_fetched_epoch),
        })
    });
    let forgotten = request.forgotten_topics_data.iter().flat_map(|topic| {
        topic.partitions.iter().map(move |index| PartitionKey {
            topic: key(&topic.topic, &topic.topic_id),
            index: *index,
        })
    });
    let in_session = version >= FIRST_VERSION_WITH_SESSIONS;
    Request {
        session_id: if in_session {
            request.session_id
        } else {
            NO_SESSION
        },
        epoch: if in_session {
            request.session_epoch
        } else {
            FINAL_EPOCH
        },
        topic_ids,
        wanted: wanted.collect(),
        forgotten: forgotten.collect(),
    }
}

fn session_error(error: SessionError) -> ErrorCode {
    match error {
        SessionError::IdNotFound => ErrorCode::FetchSessionIdNotFound,
        SessionError::InvalidEpoch => ErrorCode::InvalidFetchSessionEpoch,
        SessionError::TopicId => ErrorCode::FetchSessionTopicIdError,
    }
}

fn item(context: &Context, wanted: &Wanted) -> Item {
    let metadata = &context.shard.metadata;
    let topic = match &wanted.key.topic {
        TopicKey::Name(name) => metadata
            .topic_id(name)
            .ok_or(ErrorCode::UnknownTopicOrPartition)?,
        TopicKey::Id(id) if metadata.image().topic(*id).is_some() => *id,
        TopicKey::Id(_) => return Err(ErrorCode::UnknownTopicId),
    };
    let partition = PartitionId {
        topic,
        index: wanted.key.index,
    };
    let owner = metadata
        .owner(partition)
        .ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let item = ReadItem {
        partition,
        offset: wanted.offset,
        bytes_max: usize::try_from(wanted.bytes_max).unwrap_or(0),
        current_epoch: wanted.current_epoch,
    };
    Ok((owner, item))
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

/// The places of each shard's partitions among the items.
fn by_owner(items: &[Item]) -> BTreeMap<ShardId, Vec<usize>> {
    let mut owners: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
    for (place, item) in items.iter().enumerate() {
        if let Ok((owner, _)) = item {
            owners.entry(*owner).or_default().push(place);
        }
    }
    owners
}

/// Reads every partition once. Owners are asked one after the other, so that together they keep to
/// the limits.
async fn read(context: &Context, items: &[Item], limits: ReadLimits) -> Vec<ReadResult> {
    let nothing = || ReadResult::refused(Refused::UnknownPartition);
    let mut results: Vec<ReadResult> = items.iter().map(|_| nothing()).collect();
    let mut left = limits;
    for (owner, places) in by_owner(items) {
        let owned = places
            .iter()
            .filter_map(|place| items[*place].as_ref().ok());
        let owned: Vec<ReadItem> = owned.map(|(_, item)| item.clone()).collect();
        let Answer::Read(read) = context.shard.ask(owner, Ask::Read(left, owned)).await else {
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
async fn wait(context: &Context, items: &[Item], results: &[ReadResult], deadline: Instant) {
    let mut watches: Vec<Watch> = by_owner(items)
        .into_iter()
        .map(|(owner, places)| {
            let watches = places.into_iter().filter_map(|place| {
                let (_, item) = items[place].as_ref().ok()?;
                Some((item.partition, results[place].high_watermark))
            });
            context.shard.watch(owner, watches.collect(), deadline)
        })
        .collect();
    poll_fn(|task| {
        let woken = watches
            .iter_mut()
            .any(|watch| Pin::new(watch).poll(task).is_ready());
        if woken {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Shows what the session says is to be shown.
fn reply(context: &Context, fetch: Fetch, items: Vec<Item>, results: Vec<ReadResult>) -> Handled {
    let returned: Vec<Returned> = items
        .iter()
        .zip(&results)
        .map(|(item, result)| Returned {
            failed: item.is_err() || result.result.is_err(),
            bytes: result.bytes(),
            high_watermark: result.high_watermark,
            last_stable: result.last_stable,
            log_start: result.log_start,
        })
        .collect();
    let keys: Vec<PartitionKey> = fetch.wanted.iter().map(|it| it.key.clone()).collect();
    let mut sessions = context.shard.fetch_sessions.borrow_mut();
    let fresh_id = if fetch.opens_session() {
        getrandom::u32().map_or(NO_SESSION, |id| (id >> 1).cast_signed())
    } else {
        NO_SESSION
    };
    let answer = match sessions.finish(now(), fetch, &returned, fresh_id) {
        Ok(answer) => answer,
        Err(error) => return refuse(context, session_error(error)),
    };
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    let mut last_topic = None;
    let (mut lengths, mut records) = (Vec::new(), Vec::new());
    for (((key, item), result), shown) in keys.into_iter().zip(items).zip(results).zip(answer.shown)
    {
        if !shown {
            continue;
        }
        if last_topic.as_ref() != Some(&key.topic) {
            responses.push(response_topic(&key.topic));
            last_topic = Some(key.topic);
        }
        lengths.push(result.bytes());
        let topic = responses.last_mut().expect("a topic was just pushed");
        topic
            .partitions
            .push(partition(key.index, item.err(), &result));
        records.push(result.result.unwrap_or_default());
    }
    let response = FetchResponseData::default()
        .with_session_id(answer.session_id)
        .with_responses(responses);
    send(context, &response, &lengths, records)
}

fn response_topic(key: &TopicKey) -> FetchableTopicResponse {
    match key {
        TopicKey::Name(name) => {
            let name = KafkaString::from(name.to_string());
            FetchableTopicResponse::default().with_topic(name)
        }
        TopicKey::Id(id) => FetchableTopicResponse::default().with_topic_id(topics::uuid(*id)),
    }
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
