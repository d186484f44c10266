//! What the null broker answers. Knows the few APIs that a load generator asks.

use std::time::{Duration, Instant};

use wire::messages::create_topics_response::{CreatableTopicResult, CreateTopicsResponseData};
use wire::messages::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponseData};
use wire::messages::fetch_request::FetchRequestData;
use wire::messages::fetch_response::{FetchResponseData, FetchableTopicResponse, PartitionData};
use wire::messages::list_offsets_request::ListOffsetsRequestData;
use wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponseData, ListOffsetsTopicResponse,
};
use wire::messages::metadata_request::MetadataRequestData;
use wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponseData, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::messages::produce_request::ProduceRequestData;
use wire::messages::produce_response::{
    PartitionProduceResponse, ProduceResponseData, TopicProduceResponse,
};
use wire::messages::{
    ApiVersionsResponseData, DescribeConfigsResponseData, InitProducerIdResponseData,
};
use wire::request::Request;
use wire::response::{self, Response};
use wire::{ApiKey, ErrorCode, KafkaString, KafkaUuid};

use super::state::{State, Topic, Topics};

const EARLIEST: i64 = -2;
/// The only broker.
const NODE: i32 = 0;
/// The only producer id: nothing is deduplicated here.
const PRODUCER_ID: i64 = 1;
/// From this version on topics to delete have a list of their own.
const DELETE_WITH_TOPICS: i16 = 6;

/// What a request comes to.
pub enum Answer {
    /// This.
    Some(Response),
    /// Nothing: no acknowledgement was asked for.
    None,
    /// Its API is not known here.
    Unknown,
}

/// The answer to a request.
pub fn answer(state: &State, version: i16, request: Request) -> Answer {
    Answer::Some(match request {
        Request::ApiVersions(_) => Response::ApiVersions(api_versions()),
        Request::Metadata(request) => Response::Metadata(metadata(state, &request)),
        Request::CreateTopics(request) => {
            let mut topics = state.topics();
            let created = request.topics.iter().map(|topic| {
                let id = topics.create(topic.name.as_str(), topic.num_partitions);
                let code = id.map_or(ErrorCode::TopicAlreadyExists.code(), |_| 0);
                CreatableTopicResult::default()
                    .with_name(topic.name.clone())
                    .with_topic_id(id.unwrap_or(KafkaUuid::ZERO))
                    .with_error_code(code)
                    .with_num_partitions(topic.num_partitions)
                    .with_configs(Some(Vec::new()))
                    .with_replication_factor(1)
            });
            let created = created.collect();
            Response::CreateTopics(CreateTopicsResponseData::default().with_topics(created))
        }
        Request::DeleteTopics(request) => {
            let names: Vec<KafkaString> = if version < DELETE_WITH_TOPICS {
                request.topic_names
            } else {
                request
                    .topics
                    .into_iter()
                    .filter_map(|topic| topic.name)
                    .collect()
            };
            Response::DeleteTopics(delete(&mut state.topics(), names))
        }
        Request::InitProducerId(_) => Response::InitProducerId(
            InitProducerIdResponseData::default().with_producer_id(PRODUCER_ID),
        ),
        Request::DescribeConfigs(_) => {
            Response::DescribeConfigs(DescribeConfigsResponseData::default())
        }
        Request::ListOffsets(request) => Response::ListOffsets(offsets(state, request)),
        Request::Produce(request) => {
            let acks = request.acks;
            let answer = produce(state, request);
            if acks == 0 {
                return Answer::None;
            }
            Response::Produce(answer)
        }
        Request::Fetch(request) => Response::Fetch(fetch(state, &request)),
        _ => return Answer::Unknown,
    })
}

/// What is answered here, in the versions that `wire` has.
const ANSWERED: &[ApiKey] = &[
    ApiKey::ApiVersions,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::DescribeConfigs,
    ApiKey::Fetch,
    ApiKey::InitProducerId,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::Produce,
];

fn api_versions() -> ApiVersionsResponseData {
    let mut versions = response::served_api_versions();
    versions.retain(|version| ANSWERED.iter().any(|api| *api as i16 == version.api_key));
    ApiVersionsResponseData::default().with_api_keys(versions)
}

fn metadata(state: &State, request: &MetadataRequestData) -> MetadataResponseData {
    let broker = MetadataResponseBroker::default()
        .with_node_id(NODE)
        .with_host(KafkaString::from(state.host.clone()))
        .with_port(state.port.into());
    let topics = state.topics();
    let wanted = |name: &str| {
        request.topics.as_ref().is_none_or(|topics| {
            let mut names = topics.iter().filter_map(|topic| topic.name.as_ref());
            names.any(|it| it.as_str() == name)
        })
    };
    let known = topics.all().filter(|(name, _)| wanted(name));
    let mut described: Vec<_> = known.map(|(name, topic)| describe(name, topic)).collect();
    for topic in request.topics.iter().flatten() {
        let name = topic.name.clone();
        if described.iter().all(|known| known.name != name) {
            let unknown = MetadataResponseTopic::default()
                .with_name(name)
                .with_error_code(ErrorCode::UnknownTopicOrPartition.code());
            described.push(unknown);
        }
    }
    MetadataResponseData::default()
        .with_brokers(vec![broker])
        .with_cluster_id(Some(KafkaString::from_static("null")))
        .with_controller_id(NODE)
        .with_topics(described)
}

fn describe(name: &str, topic: &Topic) -> MetadataResponseTopic {
    let partition = |index| {
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(NODE)
            .with_leader_epoch(0)
            .with_replica_nodes(vec![NODE])
            .with_isr_nodes(vec![NODE])
    };
    let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
    MetadataResponseTopic::default()
        .with_name(Some(KafkaString::from(name.to_owned())))
        .with_topic_id(topic.id)
        .with_partitions((0..count).map(partition).collect())
}

fn delete(topics: &mut Topics, names: Vec<KafkaString>) -> DeleteTopicsResponseData {
    let deleted = names.into_iter().map(|name| {
        let code = match topics.delete(name.as_str()) {
            true => 0,
            false => ErrorCode::UnknownTopicOrPartition.code(),
        };
        DeletableTopicResult::default()
            .with_name(Some(name))
            .with_error_code(code)
    });
    DeleteTopicsResponseData::default().with_responses(deleted.collect())
}

fn offsets(state: &State, request: ListOffsetsRequestData) -> ListOffsetsResponseData {
    let mut topics = state.topics();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let number = asked.partition_index;
            let answer = ListOffsetsPartitionResponse::default().with_partition_index(number);
            match topics.log(topic.name.as_str(), KafkaUuid::ZERO, number) {
                None => answer.with_error_code(ErrorCode::UnknownTopicOrPartition.code()),
                Some(log) if asked.timestamp == EARLIEST => answer.with_offset(log.start),
                Some(log) => answer.with_offset(log.end),
            }
        });
        ListOffsetsTopicResponse::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    });
    ListOffsetsResponseData::default().with_topics(topics.collect())
}

fn produce(state: &State, request: ProduceRequestData) -> ProduceResponseData {
    let topics = request.topic_data.into_iter().map(|topic| {
        let partitions = topic.partition_data.iter().map(|partition| {
            let answer = PartitionProduceResponse::default().with_index(partition.index);
            let records = partition.records.as_ref();
            let base = records.and_then(|records| {
                state.append(
                    topic.name.as_str(),
                    topic.topic_id,
                    partition.index,
                    records,
                )
            });
            match base {
                Some(base) => answer.with_base_offset(base),
                None => answer.with_error_code(ErrorCode::UnknownTopicOrPartition.code()),
            }
        });
        TopicProduceResponse::default()
            .with_partition_responses(partitions.collect())
            .with_topic_id(topic.topic_id)
            .with_name(topic.name)
    });
    ProduceResponseData::default().with_responses(topics.collect())
}

/// Waits for the first record, at most as long as was asked for.
fn fetch(state: &State, request: &FetchRequestData) -> FetchResponseData {
    let wait = u64::try_from(request.max_wait_ms).unwrap_or(0);
    let deadline = Instant::now() + Duration::from_millis(wait);
    let mut topics = state.topics();
    loop {
        let (answer, bytes) = read(&mut topics, request);
        if bytes > 0 || request.min_bytes <= 0 || Instant::now() >= deadline {
            return answer;
        }
        topics = state.wait(topics, deadline);
    }
}

fn read(topics: &mut Topics, request: &FetchRequestData) -> (FetchResponseData, usize) {
    let mut room = usize::try_from(request.max_bytes).unwrap_or(0);
    let mut bytes = 0;
    let mut answered = Vec::new();
    for topic in &request.topics {
        let mut partitions = Vec::new();
        for asked in &topic.partitions {
            let answer = PartitionData::default().with_partition_index(asked.partition);
            let log = topics.log(topic.topic.as_str(), topic.topic_id, asked.partition);
            let Some(log) = log else {
                let code = ErrorCode::UnknownTopicOrPartition.code();
                partitions.push(answer.with_error_code(code));
                continue;
            };
            let most = usize::try_from(asked.partition_max_bytes)
                .unwrap_or(0)
                .min(room);
            let records = match room {
                0 => bytes::Bytes::new(),
                _ => log.read(asked.fetch_offset, most),
            };
            room = room.saturating_sub(records.len());
            bytes += records.len();
            partitions.push(
                answer
                    .with_high_watermark(log.end)
                    .with_last_stable_offset(log.end)
                    .with_log_start_offset(log.start)
                    .with_records(Some(records)),
            );
        }
        answered.push(
            FetchableTopicResponse::default()
                .with_topic(topic.topic.clone())
                .with_topic_id(topic.topic_id)
                .with_partitions(partitions),
        );
    }
    (FetchResponseData::default().with_responses(answered), bytes)
}
