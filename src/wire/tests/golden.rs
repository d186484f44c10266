//! Every served API at every version against an independent codec, byte by byte, and frames written
//! down by hand. Knows nothing of what the APIs do.

#[path = "golden/groups.rs"]
mod groups;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable};
use wire::messages::*;
use wire::request::Request;
use wire::response::{self, Response};
use wire::{ApiKey, KafkaString, KafkaUuid, WireError, header, version};

fn s(text: &'static str) -> KafkaString {
    KafkaString::from_static(text)
}

fn some(text: &'static str) -> Option<KafkaString> {
    Some(s(text))
}

fn uuid() -> KafkaUuid {
    KafkaUuid::from_parts(0x0102_0304_0506_0708, 0x090a_0b0c_0d0e_0f10)
}

/// Decodes and encodes again by the independent codec; the version must use up all bytes.
fn again<T: Encodable + Decodable>(bytes: &[u8], version: i16) -> BytesMut {
    let mut input = Bytes::copy_from_slice(bytes);
    let message = T::decode(&mut input, version).expect("the other codec decodes");
    assert!(
        input.is_empty(),
        "the other codec leaves {} bytes",
        input.len()
    );
    let mut out = BytesMut::new();
    message
        .encode(&mut out, version)
        .expect("the other codec encodes");
    out
}

fn check_request<T: Encodable + Decodable>(request: Request, version: i16, other_max: i16) {
    let name = format!("{:?} request version {version}", request.api());
    let frame = request
        .encode(version, 77, some("client"))
        .expect(&name)
        .freeze();
    assert_eq!(frame[..4], (frame.len() as i32 - 4).to_be_bytes(), "{name}");
    let mut rest = frame.slice(4..);
    let header = header::decode(&mut rest).expect(&name);
    assert_eq!(header.correlation_id, 77, "{name}");
    let body = rest;
    if version <= other_max {
        let header_version = version::request_header_version(header.api_key, version);
        let header_bytes = &frame[4..frame.len() - body.len()];
        assert_eq!(
            again::<theirs::RequestHeader>(header_bytes, header_version),
            header_bytes,
            "{name}"
        );
        assert_eq!(again::<T>(&body, version), body, "{name}");
    }
    let decoded = Request::decode(&header, body.clone()).expect(&name);
    let mut out = BytesMut::new();
    decoded.write(version, &mut out).expect(&name);
    assert_eq!(out, body, "{name}");
    let more = Bytes::from([&body[..], &[0]].concat());
    // librdkafka asks for all topics with a few bytes too many, which Kafka ignores.
    let forgiven = matches!(decoded, Request::Metadata(_));
    assert_eq!(
        Request::decode(&header, more).is_ok(),
        forgiven,
        "{name} with a byte more"
    );
    for length in 0..body.len() {
        assert!(
            Request::decode(&header, body.slice(..length)).is_err(),
            "{name}, first {length}"
        );
    }
}

fn check_response<T: Encodable + Decodable>(response: Response, version: i16, other_max: i16) {
    let name = format!("{:?} response version {version}", response.api());
    let api_key = response.api() as i16;
    let frame = response::encode(version, 78, &response).expect(&name);
    assert_eq!(frame[..4], (frame.len() as i32 - 4).to_be_bytes(), "{name}");
    let (id, body) = response::decode_response(api_key, version, frame.slice(4..)).expect(&name);
    assert_eq!(id, 78, "{name}");
    if version <= other_max {
        let header_version = version::response_header_version(api_key, version);
        let header_bytes = &frame[4..frame.len() - body.len()];
        assert_eq!(
            again::<theirs::ResponseHeader>(header_bytes, header_version),
            header_bytes,
            "{name}"
        );
        assert_eq!(again::<T>(&body, version), body, "{name}");
    }
    let decoded = Response::decode(api_key, version, body).expect(&name);
    assert_eq!(
        response::encode(version, 78, &decoded).expect(&name),
        frame,
        "{name}"
    );
}

/// Checks one API: a request and a response for each version, filled in as far as it has fields.
fn check<Q: Encodable + Decodable, A: Encodable + Decodable>(
    api: ApiKey,
    other_max: i16,
    request: impl Fn(i16) -> Request,
    response: impl Fn(i16) -> Response,
) {
    let served = version::range(api as i16).expect("is served");
    for version in served.min..=served.max {
        check_request::<Q>(request(version), version, other_max);
        check_response::<A>(response(version), version, other_max);
    }
}

#[test]
fn produce() {
    use produce_request::{PartitionProduceData, TopicProduceData};
    use produce_response::*;
    check::<theirs::ProduceRequest, theirs::ProduceResponse>(
        ApiKey::Produce,
        13,
        |_| {
            let partition = PartitionProduceData::default()
                .with_index(3)
                .with_records(Some(Bytes::from_static(&[9; 200])));
            let empty = PartitionProduceData::default().with_index(4);
            let topic = TopicProduceData::default()
                .with_name(s("orders"))
                .with_topic_id(uuid())
                .with_partition_data(vec![partition, empty]);
            ProduceRequestData::default()
                .with_transactional_id(some("t"))
                .with_acks(-1)
                .with_timeout_ms(30_000)
                .with_topic_data(vec![topic])
                .into()
        },
        |_| {
            let error = BatchIndexAndErrorMessage::default()
                .with_batch_index(2)
                .with_batch_index_error_message(some("bad"));
            let partition = PartitionProduceResponse::default()
                .with_index(1)
                .with_error_code(87)
                .with_base_offset(1 << 40)
                .with_log_append_time_ms(5)
                .with_log_start_offset(6)
                .with_record_errors(vec![error])
                .with_error_message(some("bad"))
                .with_current_leader(LeaderIdAndEpoch::default().with_leader_id(1));
            let topic = TopicProduceResponse::default()
                .with_name(s("orders"))
                .with_topic_id(uuid())
                .with_partition_responses(vec![partition]);
            ProduceResponseData::default()
                .with_throttle_time_ms(3)
                .with_responses(vec![topic])
                .with_node_endpoints(vec![NodeEndpoint::default().with_host(s("h"))])
                .into()
        },
    );
}

#[test]
fn fetch() {
    use fetch_request::*;
    use fetch_response::*;
    check::<theirs::FetchRequest, theirs::FetchResponse>(
        ApiKey::Fetch,
        18,
        |version| {
            let mut partition = FetchPartition::default()
                .with_partition(1)
                .with_current_leader_epoch(4)
                .with_fetch_offset(99)
                .with_log_start_offset(7)
                .with_partition_max_bytes(1 << 20);
            let mut request = FetchRequestData::default()
                .with_max_wait_ms(500)
                .with_min_bytes(1)
                .with_max_bytes(1 << 20)
                .with_isolation_level(1)
                .with_session_id(12)
                .with_session_epoch(3)
                .with_rack_id(s("rack"));
            if version >= 12 {
                partition.last_fetched_epoch = 4;
                request.cluster_id = some("cluster");
            }
            if version >= 7 {
                request.forgotten_topics_data = vec![
                    ForgottenTopic::default()
                        .with_topic(s("gone"))
                        .with_topic_id(uuid())
                        .with_partitions(vec![1, 2]),
                ];
            }
            request.topics = vec![
                FetchTopic::default()
                    .with_topic(s("orders"))
                    .with_topic_id(uuid())
                    .with_partitions(vec![partition]),
            ];
            request.into()
        },
        |_| {
            let aborted = AbortedTransaction::default()
                .with_producer_id(3)
                .with_first_offset(4);
            let partition = PartitionData::default()
                .with_partition_index(1)
                .with_error_code(6)
                .with_high_watermark(10)
                .with_last_stable_offset(9)
                .with_log_start_offset(2)
                .with_diverging_epoch(EpochEndOffset::default().with_epoch(3).with_end_offset(8))
                .with_current_leader(LeaderIdAndEpoch::default().with_leader_id(2))
                .with_aborted_transactions(Some(vec![aborted]))
                .with_preferred_read_replica(2)
                .with_records(Some(Bytes::from_static(b"records")));
            let topic = FetchableTopicResponse::default()
                .with_topic(s("orders"))
                .with_topic_id(uuid())
                .with_partitions(vec![partition]);
            FetchResponseData::default()
                .with_throttle_time_ms(1)
                .with_error_code(70)
                .with_session_id(12)
                .with_responses(vec![topic])
                .with_node_endpoints(vec![NodeEndpoint::default().with_node_id(2)])
                .into()
        },
    );
}

#[test]
fn list_offsets() {
    use list_offsets_request::*;
    use list_offsets_response::*;
    check::<theirs::ListOffsetsRequest, theirs::ListOffsetsResponse>(
        ApiKey::ListOffsets,
        10,
        |version| {
            let partition = ListOffsetsPartition::default()
                .with_partition_index(1)
                .with_current_leader_epoch(3)
                .with_timestamp(-2);
            let topic = ListOffsetsTopic::default()
                .with_name(s("orders"))
                .with_partitions(vec![partition]);
            ListOffsetsRequestData::default()
                .with_replica_id(-1)
                .with_isolation_level(i8::from(version >= 2))
                .with_topics(vec![topic])
                .with_timeout_ms(1_000)
                .into()
        },
        |_| {
            let partition = ListOffsetsPartitionResponse::default()
                .with_partition_index(1)
                .with_timestamp(4)
                .with_offset(5)
                .with_leader_epoch(6);
            let topic = ListOffsetsTopicResponse::default()
                .with_name(s("orders"))
                .with_partitions(vec![partition]);
            ListOffsetsResponseData::default()
                .with_throttle_time_ms(1)
                .with_topics(vec![topic])
                .into()
        },
    );
}

#[test]
fn metadata() {
    use metadata_request::*;
    use metadata_response::*;
    check::<theirs::MetadataRequest, theirs::MetadataResponse>(
        ApiKey::Metadata,
        13,
        |version| {
            let topic = MetadataRequestTopic::default()
                .with_name(some("orders"))
                .with_topic_id(uuid());
            MetadataRequestData::default()
                .with_topics(Some(vec![topic]))
                .with_allow_auto_topic_creation(version < 4)
                .with_include_topic_authorized_operations(version >= 8)
                .into()
        },
        |_| {
            let broker = MetadataResponseBroker::default()
                .with_node_id(1)
                .with_host(s("localhost"))
                .with_port(9092)
                .with_rack(some("r"));
            let partition = MetadataResponsePartition::default()
                .with_partition_index(2)
                .with_leader_id(1)
                .with_leader_epoch(8)
                .with_replica_nodes(vec![1, 2])
                .with_isr_nodes(vec![1])
                .with_offline_replicas(vec![2]);
            let topic = MetadataResponseTopic::default()
                .with_name(some("orders"))
                .with_topic_id(uuid())
                .with_is_internal(true)
                .with_partitions(vec![partition])
                .with_topic_authorized_operations(7);
            MetadataResponseData::default()
                .with_throttle_time_ms(1)
                .with_brokers(vec![broker])
                .with_cluster_id(some("cluster"))
                .with_controller_id(1)
                .with_topics(vec![topic])
                .with_cluster_authorized_operations(9)
                .with_error_code(1)
                .into()
        },
    );
}

#[test]
fn api_versions() {
    use api_versions_response::*;
    check::<theirs::ApiVersionsRequest, theirs::ApiVersionsResponse>(
        ApiKey::ApiVersions,
        4,
        |_| {
            ApiVersionsRequestData::default()
                .with_client_software_name(s("client"))
                .with_client_software_version(s("1.0"))
                .into()
        },
        |_| {
            let feature = SupportedFeatureKey::default().with_name(s("metadata.version"));
            let finalized = FinalizedFeatureKey::default().with_name(s("metadata.version"));
            ApiVersionsResponseData::default()
                .with_api_keys(response::served_api_versions())
                .with_throttle_time_ms(1)
                .with_supported_features(vec![feature.with_min_version(1).with_max_version(2)])
                .with_finalized_features_epoch(3)
                .with_finalized_features(vec![finalized.with_max_version_level(2)])
                .into()
        },
    );
}

#[test]
fn create_topics() {
    use create_topics_request::*;
    use create_topics_response::*;
    check::<theirs::CreateTopicsRequest, theirs::CreateTopicsResponse>(
        ApiKey::CreateTopics,
        7,
        |_| {
            let assignment = CreatableReplicaAssignment::default()
                .with_partition_index(0)
                .with_broker_ids(vec![1]);
            let config = CreatableTopicConfig::default()
                .with_name(s("retention.ms"))
                .with_value(some("5"));
            let topic = CreatableTopic::default()
                .with_name(s("orders"))
                .with_num_partitions(-1)
                .with_replication_factor(-1)
                .with_assignments(vec![assignment])
                .with_configs(vec![config]);
            CreateTopicsRequestData::default()
                .with_topics(vec![topic])
                .with_timeout_ms(5)
                .with_validate_only(true)
                .into()
        },
        |_| {
            let config = CreatableTopicConfigs::default()
                .with_name(s("retention.ms"))
                .with_value(some("5"))
                .with_config_source(1);
            let topic = CreatableTopicResult::default()
                .with_name(s("orders"))
                .with_topic_id(uuid())
                .with_error_code(36)
                .with_error_message(some("exists"))
                .with_num_partitions(3)
                .with_replication_factor(1)
                .with_configs(Some(vec![config]));
            CreateTopicsResponseData::default()
                .with_topics(vec![topic])
                .into()
        },
    );
}

#[test]
fn delete_topics() {
    use delete_topics_request::*;
    use delete_topics_response::*;
    check::<theirs::DeleteTopicsRequest, theirs::DeleteTopicsResponse>(
        ApiKey::DeleteTopics,
        6,
        |version| {
            let request = DeleteTopicsRequestData::default().with_timeout_ms(5);
            if version >= 6 {
                let by_id = DeleteTopicState::default().with_topic_id(uuid());
                let by_name = DeleteTopicState::default().with_name(some("orders"));
                request.with_topics(vec![by_id, by_name]).into()
            } else {
                request.with_topic_names(vec![s("orders")]).into()
            }
        },
        |_| {
            let topic = DeletableTopicResult::default()
                .with_name(some("orders"))
                .with_topic_id(uuid())
                .with_error_code(3)
                .with_error_message(some("unknown"));
            DeleteTopicsResponseData::default()
                .with_responses(vec![topic])
                .into()
        },
    );
}

#[test]
fn delete_records() {
    use delete_records_request::*;
    use delete_records_response::*;
    check::<theirs::DeleteRecordsRequest, theirs::DeleteRecordsResponse>(
        ApiKey::DeleteRecords,
        2,
        |_| {
            let partition = DeleteRecordsPartition::default()
                .with_partition_index(1)
                .with_offset(-1);
            let topic = DeleteRecordsTopic::default()
                .with_name(s("orders"))
                .with_partitions(vec![partition]);
            DeleteRecordsRequestData::default()
                .with_topics(vec![topic])
                .with_timeout_ms(5)
                .into()
        },
        |_| {
            let partition = DeleteRecordsPartitionResult::default().with_low_watermark(8);
            let topic = DeleteRecordsTopicResult::default()
                .with_name(s("orders"))
                .with_partitions(vec![partition]);
            DeleteRecordsResponseData::default()
                .with_topics(vec![topic])
                .into()
        },
    );
}

#[test]
fn init_producer_id() {
    check::<theirs::InitProducerIdRequest, theirs::InitProducerIdResponse>(
        ApiKey::InitProducerId,
        5,
        |version| {
            let mut request = InitProducerIdRequestData::default()
                .with_transactional_id(some("t"))
                .with_transaction_timeout_ms(60_000);
            if version >= 3 {
                (request.producer_id, request.producer_epoch) = (5, 2);
            }
            request.keep_prepared_txn = version >= 6;
            request.into()
        },
        |_| {
            InitProducerIdResponseData::default()
                .with_producer_id(5)
                .with_producer_epoch(3)
                .with_ongoing_txn_producer_id(4)
                .into()
        },
    );
}

#[test]
fn offset_for_leader_epoch() {
    use offset_for_leader_epoch_request::*;
    use offset_for_leader_epoch_response::*;
    check::<theirs::OffsetForLeaderEpochRequest, theirs::OffsetForLeaderEpochResponse>(
        ApiKey::OffsetForLeaderEpoch,
        4,
        |_| {
            let partition = OffsetForLeaderPartition::default()
                .with_partition(1)
                .with_current_leader_epoch(4)
                .with_leader_epoch(3);
            let topic = OffsetForLeaderTopic::default()
                .with_topic(s("orders"))
                .with_partitions(vec![partition]);
            OffsetForLeaderEpochRequestData::default()
                .with_replica_id(-1)
                .with_topics(vec![topic])
                .into()
        },
        |_| {
            let partition = offset_for_leader_epoch_response::EpochEndOffset::default()
                .with_partition(1)
                .with_leader_epoch(3)
                .with_end_offset(8);
            let topic = OffsetForLeaderTopicResult::default()
                .with_topic(s("orders"))
                .with_partitions(vec![partition]);
            OffsetForLeaderEpochResponseData::default()
                .with_topics(vec![topic])
                .into()
        },
    );
}

#[test]
fn describe_configs() {
    use describe_configs_request::*;
    use describe_configs_response::*;
    check::<theirs::DescribeConfigsRequest, theirs::DescribeConfigsResponse>(
        ApiKey::DescribeConfigs,
        4,
        |version| {
            let all = DescribeConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name(s("orders"))
                .with_configuration_keys(None);
            let none = all.clone().with_configuration_keys(Some(vec![]));
            let one = all
                .clone()
                .with_configuration_keys(Some(vec![s("retention.ms")]));
            DescribeConfigsRequestData::default()
                .with_resources(vec![all, none, one])
                .with_include_synonyms(true)
                .with_include_documentation(version >= 3)
                .into()
        },
        |_| {
            let synonym = DescribeConfigsSynonym::default()
                .with_name(s("log.retention.ms"))
                .with_source(5);
            let config = DescribeConfigsResourceResult::default()
                .with_name(s("retention.ms"))
                .with_value(some("5"))
                .with_config_source(1)
                .with_synonyms(vec![synonym])
                .with_config_type(5)
                .with_documentation(some("how long"));
            let result = DescribeConfigsResult::default()
                .with_error_message(some("none"))
                .with_resource_type(2)
                .with_resource_name(s("orders"))
                .with_configs(vec![config]);
            DescribeConfigsResponseData::default()
                .with_results(vec![result])
                .into()
        },
    );
}

#[test]
fn alter_configs() {
    use alter_configs_request::*;
    use alter_configs_response::*;
    check::<theirs::AlterConfigsRequest, theirs::AlterConfigsResponse>(
        ApiKey::AlterConfigs,
        2,
        |_| {
            let config = AlterableConfig::default()
                .with_name(s("retention.ms"))
                .with_value(some("5"));
            let resource = AlterConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name(s("orders"))
                .with_configs(vec![config]);
            AlterConfigsRequestData::default()
                .with_resources(vec![resource])
                .with_validate_only(true)
                .into()
        },
        |_| {
            let resource = AlterConfigsResourceResponse::default()
                .with_error_code(40)
                .with_error_message(some("bad"))
                .with_resource_type(2)
                .with_resource_name(s("orders"));
            AlterConfigsResponseData::default()
                .with_responses(vec![resource])
                .into()
        },
    );
}

#[test]
fn incremental_alter_configs() {
    use incremental_alter_configs_request::*;
    use incremental_alter_configs_response::*;
    check::<theirs::IncrementalAlterConfigsRequest, theirs::IncrementalAlterConfigsResponse>(
        ApiKey::IncrementalAlterConfigs,
        1,
        |_| {
            let config = AlterableConfig::default()
                .with_name(s("retention.ms"))
                .with_config_operation(1);
            let resource = AlterConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name(s("orders"))
                .with_configs(vec![config]);
            IncrementalAlterConfigsRequestData::default()
                .with_resources(vec![resource])
                .into()
        },
        |_| {
            let resource = AlterConfigsResourceResponse::default()
                .with_error_code(40)
                .with_error_message(some("bad"))
                .with_resource_name(s("orders"));
            IncrementalAlterConfigsResponseData::default()
                .with_responses(vec![resource])
                .into()
        },
    );
}

#[test]
fn alter_replica_log_dirs() {
    use alter_replica_log_dirs_request::*;
    use alter_replica_log_dirs_response::*;
    check::<theirs::AlterReplicaLogDirsRequest, theirs::AlterReplicaLogDirsResponse>(
        ApiKey::AlterReplicaLogDirs,
        2,
        |_| {
            let topic = AlterReplicaLogDirTopic::default()
                .with_name(s("orders"))
                .with_partitions(vec![1, 2]);
            let dir = AlterReplicaLogDir::default()
                .with_path(s("/data"))
                .with_topics(vec![topic]);
            AlterReplicaLogDirsRequestData::default()
                .with_dirs(vec![dir])
                .into()
        },
        |_| {
            let partition = AlterReplicaLogDirPartitionResult::default()
                .with_partition_index(1)
                .with_error_code(57);
            let topic = AlterReplicaLogDirTopicResult::default()
                .with_topic_name(s("orders"))
                .with_partitions(vec![partition]);
            AlterReplicaLogDirsResponseData::default()
                .with_results(vec![topic])
                .into()
        },
    );
}

#[test]
fn describe_log_dirs() {
    use describe_log_dirs_request::*;
    use describe_log_dirs_response::*;
    check::<theirs::DescribeLogDirsRequest, theirs::DescribeLogDirsResponse>(
        ApiKey::DescribeLogDirs,
        4,
        |version| {
            let topic = DescribableLogDirTopic::default()
                .with_topic(s("orders"))
                .with_partitions(vec![1]);
            let topics = (version != 2).then(|| vec![topic]);
            DescribeLogDirsRequestData::default()
                .with_topics(topics)
                .into()
        },
        |_| {
            let partition = DescribeLogDirsPartition::default()
                .with_partition_index(1)
                .with_partition_size(1 << 33)
                .with_offset_lag(2);
            let topic = DescribeLogDirsTopic::default()
                .with_name(s("orders"))
                .with_partitions(vec![partition]);
            let result = DescribeLogDirsResult::default()
                .with_log_dir(s("/data"))
                .with_topics(vec![topic])
                .with_total_bytes(9)
                .with_usable_bytes(8);
            DescribeLogDirsResponseData::default()
                .with_error_code(1)
                .with_results(vec![result])
                .into()
        },
    );
}

#[test]
fn create_partitions() {
    use create_partitions_request::*;
    use create_partitions_response::*;
    check::<theirs::CreatePartitionsRequest, theirs::CreatePartitionsResponse>(
        ApiKey::CreatePartitions,
        3,
        |_| {
            let assignment = CreatePartitionsAssignment::default().with_broker_ids(vec![1]);
            let with = CreatePartitionsTopic::default()
                .with_name(s("orders"))
                .with_count(4)
                .with_assignments(Some(vec![assignment]));
            let without = CreatePartitionsTopic::default()
                .with_name(s("bills"))
                .with_count(5);
            CreatePartitionsRequestData::default()
                .with_topics(vec![with, without.with_assignments(None)])
                .with_timeout_ms(5)
                .into()
        },
        |_| {
            let result = CreatePartitionsTopicResult::default()
                .with_name(s("orders"))
                .with_error_code(37)
                .with_error_message(some("fewer"));
            CreatePartitionsResponseData::default()
                .with_results(vec![result])
                .into()
        },
    );
}

#[test]
fn describe_cluster() {
    use describe_cluster_response::*;
    check::<theirs::DescribeClusterRequest, theirs::DescribeClusterResponse>(
        ApiKey::DescribeCluster,
        2,
        |version| {
            DescribeClusterRequestData::default()
                .with_include_cluster_authorized_operations(true)
                .with_include_fenced_brokers(version >= 2)
                .into()
        },
        |_| {
            let broker = DescribeClusterBroker::default()
                .with_broker_id(1)
                .with_host(s("localhost"))
                .with_port(9092)
                .with_is_fenced(true);
            DescribeClusterResponseData::default()
                .with_error_message(some("none"))
                .with_cluster_id(s("cluster"))
                .with_controller_id(1)
                .with_brokers(vec![broker])
                .with_cluster_authorized_operations(3)
                .into()
        },
    );
}

#[test]
fn describe_producers() {
    use describe_producers_request::*;
    use describe_producers_response::*;
    check::<theirs::DescribeProducersRequest, theirs::DescribeProducersResponse>(
        ApiKey::DescribeProducers,
        0,
        |_| {
            let topic = describe_producers_request::TopicRequest::default()
                .with_name(s("orders"))
                .with_partition_indexes(vec![0, 1]);
            DescribeProducersRequestData::default()
                .with_topics(vec![topic])
                .into()
        },
        |_| {
            let producer = ProducerState::default()
                .with_producer_id(5)
                .with_producer_epoch(1)
                .with_last_sequence(9)
                .with_last_timestamp(8)
                .with_coordinator_epoch(-1)
                .with_current_txn_start_offset(-1);
            let partition = PartitionResponse::default()
                .with_error_message(some("none"))
                .with_active_producers(vec![producer]);
            let topic = TopicResponse::default()
                .with_name(s("orders"))
                .with_partitions(vec![partition]);
            DescribeProducersResponseData::default()
                .with_topics(vec![topic])
                .into()
        },
    );
}

#[test]
fn list_config_resources() {
    use list_config_resources_response::*;
    check::<theirs::ListConfigResourcesRequest, theirs::ListConfigResourcesResponse>(
        ApiKey::ListConfigResources,
        1,
        |version| {
            let types = if version == 0 { vec![] } else { vec![2, 32] };
            ListConfigResourcesRequestData::default()
                .with_resource_types(types)
                .into()
        },
        |version| {
            let client_metrics = 16;
            let kind = if version == 0 { client_metrics } else { 32 };
            let resource = ConfigResource::default()
                .with_resource_name(s("orders"))
                .with_resource_type(kind);
            ListConfigResourcesResponseData::default()
                .with_throttle_time_ms(1)
                .with_error_code(35)
                .with_config_resources(vec![resource])
                .into()
        },
    );
}

#[test]
fn describe_topic_partitions() {
    use describe_topic_partitions_response::*;
    check::<theirs::DescribeTopicPartitionsRequest, theirs::DescribeTopicPartitionsResponse>(
        ApiKey::DescribeTopicPartitions,
        0,
        |_| {
            let topic =
                describe_topic_partitions_request::TopicRequest::default().with_name(s("orders"));
            let cursor = describe_topic_partitions_request::Cursor::default()
                .with_topic_name(s("orders"))
                .with_partition_index(3);
            DescribeTopicPartitionsRequestData::default()
                .with_topics(vec![topic])
                .with_response_partition_limit(100)
                .with_cursor(Some(Box::new(cursor)))
                .into()
        },
        |_| {
            let partition = DescribeTopicPartitionsResponsePartition::default()
                .with_partition_index(1)
                .with_replica_nodes(vec![1])
                .with_isr_nodes(vec![1])
                .with_eligible_leader_replicas(Some(vec![]))
                .with_last_known_elr(None);
            let topic = DescribeTopicPartitionsResponseTopic::default()
                .with_name(some("orders"))
                .with_topic_id(uuid())
                .with_partitions(vec![partition]);
            DescribeTopicPartitionsResponseData::default()
                .with_topics(vec![topic])
                .with_next_cursor(None)
                .into()
        },
    );
}

/// Decodes the body of a frame without its length.
fn decode(frame: &'static [u8]) -> Result<(header::RequestHeader, Request), WireError> {
    let mut frame = Bytes::from_static(frame);
    let header = header::decode(&mut frame)?;
    let request = Request::decode(&header, frame)?;
    Ok((header, request))
}

#[test]
fn an_api_versions_frame_of_version_3_written_by_hand() {
    // key 18, version 3, id 1, client "rdk", no tags; name "a", version "b", no tags
    let frame = b"\0\x12\0\x03\0\0\0\x01\0\x03rdk\0\x02a\x02b\0";
    let (header, request) = decode(frame).expect("decodes");
    assert_eq!((header.correlation_id, header.client_id), (1, some("rdk")));
    let expected = ApiVersionsRequestData::default()
        .with_client_software_name(s("a"))
        .with_client_software_version(s("b"));
    assert_eq!(request, Request::ApiVersions(expected));
}

#[test]
fn a_metadata_frame_asks_for_all_topics_by_null_and_for_none_by_empty() {
    let all = b"\0\x03\0\x01\0\0\0\x02\xff\xff\xff\xff\xff\xff";
    let none = b"\0\x03\0\x01\0\0\0\x02\xff\xff\0\0\0\0";
    let topics = |frame| match decode(frame).expect("decodes") {
        (_, Request::Metadata(data)) => data.topics,
        other => panic!("another API: {other:?}"),
    };
    assert_eq!((topics(all), topics(none)), (None, Some(vec![])));
}

#[test]
fn null_for_an_array_that_may_not_be_null_is_refused() {
    // Metadata version 0: "no topics" means all of them there; null means nothing.
    let metadata = b"\0\x03\0\0\0\0\0\x02\xff\xff\xff\xff\xff\xff";
    assert_eq!(decode(metadata), Err(WireError::NullArray { api_key: 3 }));
    // AlterConfigs version 0: a topic without configs resets all of them.
    let configs = b"\0\x21\0\0\0\0\0\x02\xff\xff\0\0\0\x01\x02\0\x01t\xff\xff\xff\xff\0";
    assert_eq!(decode(configs), Err(WireError::NullArray { api_key: 33 }));
    // And in a flexible version, where null is 0.
    let configs = b"\0\x21\0\x02\0\0\0\x02\xff\xff\0\x02\x02\x02t\0\0\0\0";
    assert_eq!(decode(configs), Err(WireError::NullArray { api_key: 33 }));
}

#[test]
fn records_are_slices_of_the_frame() {
    use produce_request::{PartitionProduceData, TopicProduceData};
    let partition =
        PartitionProduceData::default().with_records(Some(Bytes::from_static(&[1; 512])));
    let topic = TopicProduceData::default().with_partition_data(vec![partition]);
    let request = Request::from(ProduceRequestData::default().with_topic_data(vec![topic]));
    let mut frame = request
        .encode(13, 1, None)
        .expect("encodes")
        .freeze()
        .slice(4..);
    let range = frame.as_ptr_range();
    let header = header::decode(&mut frame).expect("header");
    let Ok(Request::Produce(data)) = Request::decode(&header, frame) else {
        panic!("does not decode");
    };
    let records = data.topic_data[0].partition_data[0]
        .records
        .clone()
        .expect("has records");
    assert!(range.contains(&records.as_ptr()), "the records were copied");
}

#[test]
fn versions_outside_the_table_are_refused_by_name() {
    let request = Request::from(ProduceRequestData::default());
    for version in [0, 1, 2, 14] {
        let header = header::RequestHeader {
            api_key: 0,
            api_version: version,
            correlation_id: 1,
            client_id: None,
        };
        let expected = WireError::UnsupportedVersion {
            api_key: 0,
            version,
        };
        assert_eq!(Request::decode(&header, Bytes::new()), Err(expected));
        assert!(request.encode(version, 1, None).is_err());
    }
}
