//! What is asked of the leaders of partitions: records, offsets, the ends of leader epochs. Knows
//! nothing of positions.

use std::sync::Arc;
use std::time::Duration;

use wire::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use wire::messages::{
    FetchRequestData, FetchResponseData, ListOffsetsRequestData, OffsetForLeaderEpochRequestData,
};
use wire::{ErrorCode, KafkaUuid};

use super::super::fetch::{Aborted, FetchSession, Fetched, Said};
use super::super::membership::Answer;
use super::super::partition::{TopicPartition, by_topic};
use super::{code_of, text};
use crate::cluster::{Cluster, Route};
use crate::properties::{ConsumerConfig, IsolationLevel};

/// The version from which on topics are named by id (KIP-516).
const FETCH_BY_ID: i16 = 13;
/// An ordinary reader, as the replica id of a request.
const CONSUMER: i32 = -1;

/// What a ListOffsets finds: `None` when no record is that young.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) leader_epoch: Option<i32>,
}

/// One partition's ListOffsets: the leader's epoch as it is known, and the timestamp (or -1 for the
/// latest offset, -2 for the earliest).
pub(crate) type OffsetQuery = (TopicPartition, i32, i64);

/// Sends one fetch.
pub(crate) async fn fetch(
    cluster: &Cluster,
    config: &ConsumerConfig,
    node: i32,
    said: &Said,
) -> Answer<FetchResponseData> {
    let timeout = cluster.config().request_timeout + config.fetch_max_wait;
    let build = |version| fetch_request(config, said, version);
    let answer = cluster.send_built(Route::Node(node), timeout, build).await;
    answer.map_err(|error| code_of(&error))
}

fn fetch_request(config: &ConsumerConfig, said: &Said, version: i16) -> FetchRequestData {
    let by_id = version >= FETCH_BY_ID;
    let id = |id: Option<KafkaUuid>| id.filter(|_| by_id).unwrap_or_default();
    let mut topics: Vec<FetchTopic> = Vec::new();
    let mut last: Option<(&Arc<str>, Option<KafkaUuid>)> = None;
    for (at, wanted) in &said.partitions {
        if last != Some((&at.topic, wanted.topic_id)) {
            last = Some((&at.topic, wanted.topic_id));
            let topic = FetchTopic::default().with_topic_id(id(wanted.topic_id));
            topics.push(match by_id {
                true => topic,
                false => topic.with_topic(text(&at.topic)),
            });
        }
        let partition = FetchPartition::default()
            .with_partition(at.partition)
            .with_current_leader_epoch(if version >= 9 {
                wanted.leader_epoch
            } else {
                -1
            })
            .with_fetch_offset(wanted.offset)
            .with_partition_max_bytes(wanted.bytes_max);
        if let Some(topic) = topics.last_mut() {
            topic.partitions.push(partition);
        }
    }
    let forgotten = said.forgotten.iter().map(|(at, topic_id)| {
        let topic = ForgottenTopic::default().with_partitions(vec![at.partition]);
        match by_id {
            true => topic.with_topic_id(id(*topic_id)),
            false => topic.with_topic(text(&at.topic)),
        }
    });
    let request = FetchRequestData::default()
        .with_max_wait_ms(i32::try_from(config.fetch_max_wait.as_millis()).unwrap_or(i32::MAX))
        .with_min_bytes(size(config.fetch_min_bytes))
        .with_max_bytes(size(config.fetch_max_bytes))
        .with_isolation_level(config.isolation_level.code())
        .with_topics(topics);
    let request = match version {
        0..15 => request.with_replica_id(CONSUMER),
        _ => request,
    };
    match version {
        // Before sessions.
        0..7 => request,
        _ => request
            .with_session_id(said.id)
            .with_session_epoch(said.epoch)
            .with_forgotten_topics_data(forgotten.collect()),
    }
}

/// What a fetch brought, its topics named by the session that asked.
pub(crate) fn fetched(answer: FetchResponseData, session: &FetchSession) -> Vec<Fetched> {
    let mut all = Vec::new();
    for topic in answer.responses {
        let name: Option<Arc<str>> = if topic.topic_id.is_nil() {
            Some(topic.topic.as_str().into())
        } else {
            session.topic(topic.topic_id).map(|at| at.topic.clone())
        };
        let Some(name) = name else { continue };
        for partition in topic.partitions {
            let aborted = partition.aborted_transactions.unwrap_or_default();
            let aborted = aborted.into_iter().map(|it| Aborted {
                first_offset: it.first_offset,
                producer_id: it.producer_id,
            });
            all.push(Fetched {
                partition: TopicPartition::new(name.clone(), partition.partition_index),
                error: ErrorCode::from(partition.error_code),
                high_watermark: partition.high_watermark,
                last_stable_offset: partition.last_stable_offset,
                log_start: partition.log_start_offset,
                aborted: aborted.collect(),
                records: partition.records.unwrap_or_default(),
            });
        }
    }
    all
}

/// Looks offsets up by time, or at the ends of the log.
pub(crate) async fn list_offsets(
    cluster: &Cluster,
    isolation: IsolationLevel,
    node: i32,
    asked: &[OffsetQuery],
) -> Answer<Vec<(TopicPartition, Answer<Option<Found>>)>> {
    let timeout = cluster.config().request_timeout;
    let build = |version: i16| {
        let asked = asked
            .iter()
            .map(|(at, epoch, time)| (at.clone(), (*epoch, *time)));
        let topics = by_topic(asked).into_iter().map(|(topic, partitions)| {
            let partitions = partitions.into_iter().map(|(partition, (epoch, time))| {
                ListOffsetsPartition::default()
                    .with_partition_index(partition)
                    .with_current_leader_epoch(if version >= 4 { epoch } else { -1 })
                    .with_timestamp(time)
            });
            ListOffsetsTopic::default()
                .with_name(text(&topic))
                .with_partitions(partitions.collect())
        });
        let isolation = if version >= 2 { isolation.code() } else { 0 };
        let request = ListOffsetsRequestData::default()
            .with_replica_id(CONSUMER)
            .with_isolation_level(isolation)
            .with_topics(topics.collect());
        match version {
            0..10 => request,
            _ => request.with_timeout_ms(millis(timeout)),
        }
    };
    let answer = cluster.send_built(Route::Node(node), timeout, build).await;
    let answer = answer.map_err(|error| code_of(&error))?;
    let mut all = Vec::new();
    for topic in answer.topics {
        let name: Arc<str> = topic.name.as_str().into();
        for partition in topic.partitions {
            let at = TopicPartition::new(name.clone(), partition.partition_index);
            let found = Found {
                offset: partition.offset,
                timestamp: partition.timestamp,
                leader_epoch: Some(partition.leader_epoch).filter(|epoch| *epoch >= 0),
            };
            let found = super::checked(partition.error_code)
                .map(|()| Some(found).filter(|found| found.offset >= 0));
            all.push((at, found));
        }
    }
    Ok(all)
}

/// One partition's OffsetForLeaderEpoch: the leader's epoch as it is known, and the epoch whose end is
/// asked for.
pub(crate) type EpochQuery = (TopicPartition, i32, i32);

/// The end of an epoch: (epoch, end offset), `None` when the leader does not know it.
pub(crate) type EpochEnd = Option<(i32, i64)>;

/// Asks where leader epochs end (KIP-320).
pub(crate) async fn epoch_ends(
    cluster: &Cluster,
    node: i32,
    asked: &[EpochQuery],
) -> Answer<Vec<(TopicPartition, Answer<EpochEnd>)>> {
    let timeout = cluster.config().request_timeout;
    let build = |version: i16| {
        let asked = asked
            .iter()
            .map(|(at, current, epoch)| (at.clone(), (*current, *epoch)));
        let topics = by_topic(asked).into_iter().map(|(topic, partitions)| {
            let partitions = partitions.into_iter().map(|(partition, (current, epoch))| {
                OffsetForLeaderPartition::default()
                    .with_partition(partition)
                    .with_current_leader_epoch(current)
                    .with_leader_epoch(epoch)
            });
            OffsetForLeaderTopic::default()
                .with_topic(text(&topic))
                .with_partitions(partitions.collect())
        });
        let request = OffsetForLeaderEpochRequestData::default().with_topics(topics.collect());
        match version {
            0..3 => request,
            _ => request.with_replica_id(CONSUMER),
        }
    };
    let answer = cluster.send_built(Route::Node(node), timeout, build).await;
    let answer = answer.map_err(|error| code_of(&error))?;
    let mut all = Vec::new();
    for topic in answer.topics {
        let name: Arc<str> = topic.topic.as_str().into();
        for partition in topic.partitions {
            let at = TopicPartition::new(name.clone(), partition.partition);
            let end = (partition.leader_epoch, partition.end_offset);
            let end = super::checked(partition.error_code)
                .map(|()| Some(end).filter(|(epoch, offset)| *epoch >= 0 && *offset >= 0));
            all.push((at, end));
        }
    }
    Ok(all)
}

fn size(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
