//! Which requests this client sends, in which versions, and what answers them. Knows nothing of
//! connections.

use bytes::Bytes;
use wire::messages::*;
use wire::{ApiKey, KafkaString, WireError};

/// A frame to be sent: pieces in their order, the first of which begins with the length.
pub type Frame = Vec<Bytes>;

/// A request that this client can send. Sealed: the table below is the list.
pub trait RequestMessage: sealed::Sealed + Send + Sync {
    /// What answers it.
    type Response: Send + 'static;
    /// Which API it asks.
    const API: ApiKey;
    /// Lowest version that this client sends.
    const VERSION_MIN: i16;
    /// Highest version that this client sends.
    const VERSION_MAX: i16;

    /// The whole frame. Fails when a field is set that the version does not have.
    fn frame(
        &self,
        version: i16,
        correlation_id: i32,
        client_id: KafkaString,
    ) -> Result<Frame, WireError>;

    /// Reads the body of the answer. Records are slices of `body`.
    fn decode(version: i16, body: Bytes) -> Result<Self::Response, WireError>;

    /// What stands for the answer to a request that no broker answers (a produce with acks=0).
    fn unanswered(&self) -> Option<Self::Response> {
        None
    }
}

mod sealed {
    pub trait Sealed {}
}

/// One line per API: request, response, versions.
macro_rules! requests {
    ($($api:ident, $request:ty, $response:ty, $min:literal, $max:literal;)*) => {$(
        impl sealed::Sealed for $request {}

        impl RequestMessage for $request {
            type Response = $response;
            const API: ApiKey = ApiKey::$api;
            const VERSION_MIN: i16 = $min;
            const VERSION_MAX: i16 = $max;

            fn frame(
                &self,
                version: i16,
                correlation_id: i32,
                client_id: KafkaString,
            ) -> Result<Frame, WireError> {
                let frame = wire::request::encode_request(
                    Self::API as i16,
                    version,
                    correlation_id,
                    Some(client_id),
                    |out| self.write(out, version),
                )?;
                Ok(vec![frame.freeze()])
            }

            fn decode(version: i16, body: Bytes) -> Result<Self::Response, WireError> {
                whole(body, |body| Ok(<$response>::read(body, version)?))
            }
        }
    )*};
}

// OffsetCommit and OffsetFetch stop below the versions that name topics by id alone: a group's offsets
// outlive the topic's incarnation for their owner to judge. DescribeTopicPartitions has one version.
requests! {
    Fetch, FetchRequestData, FetchResponseData, 4, 18;
    ListOffsets, ListOffsetsRequestData, ListOffsetsResponseData, 1, 11;
    Metadata, MetadataRequestData, MetadataResponseData, 4, 13;
    OffsetCommit, OffsetCommitRequestData, OffsetCommitResponseData, 2, 9;
    OffsetFetch, OffsetFetchRequestData, OffsetFetchResponseData, 1, 9;
    FindCoordinator, FindCoordinatorRequestData, FindCoordinatorResponseData, 0, 6;
    JoinGroup, JoinGroupRequestData, JoinGroupResponseData, 2, 9;
    Heartbeat, HeartbeatRequestData, HeartbeatResponseData, 0, 4;
    LeaveGroup, LeaveGroupRequestData, LeaveGroupResponseData, 0, 5;
    SyncGroup, SyncGroupRequestData, SyncGroupResponseData, 0, 5;
    DescribeGroups, DescribeGroupsRequestData, DescribeGroupsResponseData, 0, 6;
    ListGroups, ListGroupsRequestData, ListGroupsResponseData, 0, 5;
    DeleteGroups, DeleteGroupsRequestData, DeleteGroupsResponseData, 0, 2;
    OffsetDelete, OffsetDeleteRequestData, OffsetDeleteResponseData, 0, 0;
    ConsumerGroupHeartbeat, ConsumerGroupHeartbeatRequestData, ConsumerGroupHeartbeatResponseData, 0, 1;
    ConsumerGroupDescribe, ConsumerGroupDescribeRequestData, ConsumerGroupDescribeResponseData, 0, 1;
    ApiVersions, ApiVersionsRequestData, ApiVersionsResponseData, 0, 4;
    CreateTopics, CreateTopicsRequestData, CreateTopicsResponseData, 2, 7;
    DeleteTopics, DeleteTopicsRequestData, DeleteTopicsResponseData, 1, 6;
    DeleteRecords, DeleteRecordsRequestData, DeleteRecordsResponseData, 0, 2;
    InitProducerId, InitProducerIdRequestData, InitProducerIdResponseData, 0, 5;
    OffsetForLeaderEpoch, OffsetForLeaderEpochRequestData, OffsetForLeaderEpochResponseData, 2, 4;
    DescribeConfigs, DescribeConfigsRequestData, DescribeConfigsResponseData, 1, 4;
    DescribeLogDirs, DescribeLogDirsRequestData, DescribeLogDirsResponseData, 1, 5;
    CreatePartitions, CreatePartitionsRequestData, CreatePartitionsResponseData, 0, 3;
    IncrementalAlterConfigs, IncrementalAlterConfigsRequestData, IncrementalAlterConfigsResponseData, 0, 1;
    DescribeCluster, DescribeClusterRequestData, DescribeClusterResponseData, 0, 2;
    DescribeProducers, DescribeProducersRequestData, DescribeProducersResponseData, 0, 0;
}

impl sealed::Sealed for ProduceRequestData {}

impl RequestMessage for ProduceRequestData {
    type Response = ProduceResponseData;
    const API: ApiKey = ApiKey::Produce;
    const VERSION_MIN: i16 = 3;
    const VERSION_MAX: i16 = 13;

    fn frame(
        &self,
        version: i16,
        correlation_id: i32,
        client_id: KafkaString,
    ) -> Result<Frame, WireError> {
        wire::produce::frame(version, correlation_id, Some(client_id), self)
    }

    fn decode(version: i16, body: Bytes) -> Result<Self::Response, WireError> {
        whole(body, |body| Ok(ProduceResponseData::read(body, version)?))
    }

    fn unanswered(&self) -> Option<Self::Response> {
        (self.acks == 0).then(ProduceResponseData::default)
    }
}

fn whole<T>(
    mut body: Bytes,
    read: impl FnOnce(&mut Bytes) -> Result<T, WireError>,
) -> Result<T, WireError> {
    let message = read(&mut body)?;
    if body.is_empty() {
        Ok(message)
    } else {
        Err(WireError::TrailingBytes { bytes: body.len() })
    }
}
