//! Which APIs and versions are served: the one table. Knows nothing of what the APIs do.

use crate::ApiKey;
use kacrab_protocol::generated::client_api_info;

/// One served API with its versions, both ends inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// The API.
    pub api: ApiKey,
    /// Lowest version that is decoded.
    pub min: i16,
    /// Highest version that is decoded.
    pub max: i16,
    /// Lowest version named in ApiVersions. Below `min` for Produce alone: librdkafka stops
    /// compressing when the broker does not name version 0 to 2 (KIP-896 kept that in Kafka 4).
    pub advertised_min: i16,
}

impl Served {
    /// Whether a request in this version is decoded and answered.
    pub fn accepts(&self, version: i16) -> bool {
        (self.min..=self.max).contains(&version)
    }
}

/// Key of the API that is answered in versions that are not served, too (KIP-511).
pub const API_VERSIONS: i16 = ApiKey::ApiVersions as i16;
/// Produce.
pub const PRODUCE: i16 = ApiKey::Produce as i16;

/// Calls `$then!` with one line per served API: variant, request, response, versions.
macro_rules! for_each_api {
    ($then:ident) => {
        $then! {
            Produce, produce_request::ProduceRequestData, produce_response::ProduceResponseData, 3, 13;
            Fetch, fetch_request::FetchRequestData, fetch_response::FetchResponseData, 4, 18;
            ListOffsets, list_offsets_request::ListOffsetsRequestData, list_offsets_response::ListOffsetsResponseData, 1, 11;
            Metadata, metadata_request::MetadataRequestData, metadata_response::MetadataResponseData, 0, 13;
            OffsetCommit, offset_commit_request::OffsetCommitRequestData, offset_commit_response::OffsetCommitResponseData, 2, 10;
            OffsetFetch, offset_fetch_request::OffsetFetchRequestData, offset_fetch_response::OffsetFetchResponseData, 1, 10;
            FindCoordinator, find_coordinator_request::FindCoordinatorRequestData, find_coordinator_response::FindCoordinatorResponseData, 0, 6;
            JoinGroup, join_group_request::JoinGroupRequestData, join_group_response::JoinGroupResponseData, 0, 9;
            Heartbeat, heartbeat_request::HeartbeatRequestData, heartbeat_response::HeartbeatResponseData, 0, 4;
            LeaveGroup, leave_group_request::LeaveGroupRequestData, leave_group_response::LeaveGroupResponseData, 0, 5;
            SyncGroup, sync_group_request::SyncGroupRequestData, sync_group_response::SyncGroupResponseData, 0, 5;
            DescribeGroups, describe_groups_request::DescribeGroupsRequestData, describe_groups_response::DescribeGroupsResponseData, 0, 6;
            ListGroups, list_groups_request::ListGroupsRequestData, list_groups_response::ListGroupsResponseData, 0, 5;
            ApiVersions, api_versions_request::ApiVersionsRequestData, api_versions_response::ApiVersionsResponseData, 0, 4;
            CreateTopics, create_topics_request::CreateTopicsRequestData, create_topics_response::CreateTopicsResponseData, 2, 7;
            DeleteTopics, delete_topics_request::DeleteTopicsRequestData, delete_topics_response::DeleteTopicsResponseData, 1, 6;
            DeleteRecords, delete_records_request::DeleteRecordsRequestData, delete_records_response::DeleteRecordsResponseData, 0, 2;
            InitProducerId, init_producer_id_request::InitProducerIdRequestData, init_producer_id_response::InitProducerIdResponseData, 0, 6;
            OffsetForLeaderEpoch, offset_for_leader_epoch_request::OffsetForLeaderEpochRequestData, offset_for_leader_epoch_response::OffsetForLeaderEpochResponseData, 2, 4;
            DescribeConfigs, describe_configs_request::DescribeConfigsRequestData, describe_configs_response::DescribeConfigsResponseData, 1, 4;
            AlterConfigs, alter_configs_request::AlterConfigsRequestData, alter_configs_response::AlterConfigsResponseData, 0, 2;
            AlterReplicaLogDirs, alter_replica_log_dirs_request::AlterReplicaLogDirsRequestData, alter_replica_log_dirs_response::AlterReplicaLogDirsResponseData, 1, 2;
            DescribeLogDirs, describe_log_dirs_request::DescribeLogDirsRequestData, describe_log_dirs_response::DescribeLogDirsResponseData, 1, 5;
            CreatePartitions, create_partitions_request::CreatePartitionsRequestData, create_partitions_response::CreatePartitionsResponseData, 0, 3;
            DeleteGroups, delete_groups_request::DeleteGroupsRequestData, delete_groups_response::DeleteGroupsResponseData, 0, 2;
            IncrementalAlterConfigs, incremental_alter_configs_request::IncrementalAlterConfigsRequestData, incremental_alter_configs_response::IncrementalAlterConfigsResponseData, 0, 1;
            OffsetDelete, offset_delete_request::OffsetDeleteRequestData, offset_delete_response::OffsetDeleteResponseData, 0, 0;
            DescribeCluster, describe_cluster_request::DescribeClusterRequestData, describe_cluster_response::DescribeClusterResponseData, 0, 2;
            DescribeProducers, describe_producers_request::DescribeProducersRequestData, describe_producers_response::DescribeProducersResponseData, 0, 0;
            ConsumerGroupHeartbeat, consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequestData, consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponseData, 0, 1;
            ConsumerGroupDescribe, consumer_group_describe_request::ConsumerGroupDescribeRequestData, consumer_group_describe_response::ConsumerGroupDescribeResponseData, 0, 1;
            ListConfigResources, list_config_resources_request::ListConfigResourcesRequestData, list_config_resources_response::ListConfigResourcesResponseData, 0, 1;
            DescribeTopicPartitions, describe_topic_partitions_request::DescribeTopicPartitionsRequestData, describe_topic_partitions_response::DescribeTopicPartitionsResponseData, 0, 0;
        }
    };
}
pub(crate) use for_each_api;

macro_rules! served_table {
    ($($variant:ident, $rm:ident :: $rt:ident, $am:ident :: $at:ident, $min:literal, $max:literal;)*) => {
        /// Every served API, in the order of the API keys.
        pub const SERVED: &[Served] = &[
            $(Served {
                api: ApiKey::$variant,
                min: $min,
                max: $max,
                advertised_min: advertised_min(ApiKey::$variant, $min),
            },)*
        ];
    };
}
for_each_api!(served_table);

const fn advertised_min(api: ApiKey, min: i16) -> i16 {
    match api {
        ApiKey::Produce => 0,
        _ => min,
    }
}

/// The row of an API, or `None` when it is not served.
pub fn range(api_key: i16) -> Option<&'static Served> {
    SERVED.iter().find(|served| served.api as i16 == api_key)
}

/// Whether a request of this API and version is decoded and answered.
pub fn is_served(api_key: i16, version: i16) -> bool {
    range(api_key).is_some_and(|served| served.accepts(version))
}

/// Version of the request header (KIP-482): 2 for flexible versions, else 1.
///
/// Only the first flexible version of the API counts, so that a header of a version above our
/// range still decodes (ApiVersions must be answered then, KIP-511).
pub fn request_header_version(api_key: i16, version: i16) -> i16 {
    if is_flexible(api_key, version) { 2 } else { 1 }
}

/// Version of the response header (KIP-482). ApiVersions always answers in version 0 (KIP-511).
pub fn response_header_version(api_key: i16, version: i16) -> i16 {
    i16::from(api_key != API_VERSIONS && is_flexible(api_key, version))
}

fn is_flexible(api_key: i16, version: i16) -> bool {
    ApiKey::from_i16(api_key)
        .is_some_and(|api| version >= client_api_info(api).flexible_versions_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_by_key_and_holds_each_api_once() {
        let keys: Vec<i16> = SERVED.iter().map(|served| served.api as i16).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
    }

    #[test]
    fn the_codec_decodes_exactly_the_served_versions() {
        for served in SERVED {
            let info = client_api_info(served.api);
            assert_eq!(
                (served.min, served.max),
                (info.min_version, info.max_version),
                "{:?}",
                served.api
            );
        }
    }

    #[test]
    fn produce_advertises_version_zero_and_nothing_else_goes_below_what_is_decoded() {
        for served in SERVED {
            let expected = if served.api == ApiKey::Produce {
                0
            } else {
                served.min
            };
            assert_eq!(served.advertised_min, expected, "{:?}", served.api);
        }
    }

    #[test]
    fn header_versions_follow_the_flexible_versions() {
        assert_eq!(request_header_version(ApiKey::Produce as i16, 8), 1);
        assert_eq!(request_header_version(ApiKey::Produce as i16, 9), 2);
        assert_eq!(request_header_version(ApiKey::ApiVersions as i16, 99), 2);
        assert_eq!(response_header_version(ApiKey::ApiVersions as i16, 4), 0);
        assert_eq!(response_header_version(ApiKey::Fetch as i16, 11), 0);
        assert_eq!(response_header_version(ApiKey::Fetch as i16, 12), 1);
        assert_eq!(request_header_version(-7, 3), 1);
    }
}
