//! Responses, encoded into one buffer each and decoded for clients. Knows nothing of requests, and
//! leaves Fetch with records to `fetch`.

use bytes::{BufMut, Bytes, BytesMut};

use crate::header::{self, RequestHeader};
use crate::request::set_length;
use crate::version::{self, SERVED, for_each_api};
use crate::{ApiKey, ErrorCode, KafkaString, WireError, messages};
use messages::api_versions_response::{ApiVersion, ApiVersionsResponseData};
use messages::response_header::ResponseHeaderData;

macro_rules! response_enum {
    ($($variant:ident, $rm:ident :: $rt:ident, $am:ident :: $at:ident, $min:literal, $max:literal;)*) => {
        /// A response: one variant per served API.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Response {
            $(
                #[doc = concat!("A ", stringify!($variant), " response.")]
                $variant(messages::$am::$at),
            )*
        }

        impl Response {
            /// Which API this response belongs to.
            pub fn api(&self) -> ApiKey {
                match self {
                    $(Self::$variant(_) => ApiKey::$variant,)*
                }
            }

            fn write(&self, version: i16, out: &mut BytesMut) -> Result<(), WireError> {
                match self {
                    $(Self::$variant(data) => data.write(out, version)?,)*
                }
                Ok(())
            }

            fn length(&self, version: i16) -> Result<usize, WireError> {
                Ok(match self {
                    $(Self::$variant(data) => data.encoded_len(version)?,)*
                })
            }

            /// Decodes a body (what [`decode_response`] returns).
            pub fn decode(api_key: i16, version: i16, body: Bytes) -> Result<Self, WireError> {
                let served = version::range(api_key).ok_or(WireError::UnknownApi { api_key })?;
                let mut rest = body;
                let response = match served.api {
                    $(ApiKey::$variant => {
                        Self::$variant(messages::$am::$at::read(&mut rest, version)?)
                    })*
                    other => return Err(WireError::UnknownApi { api_key: other as i16 }),
                };
                if !rest.is_empty() {
                    return Err(WireError::TrailingBytes { bytes: rest.len() });
                }
                Ok(response)
            }
        }

        $(impl From<messages::$am::$at> for Response {
            fn from(data: messages::$am::$at) -> Self {
                Self::$variant(data)
            }
        })*
    };
}
for_each_api!(response_enum);

/// Encodes a whole response frame: length, header, body.
///
/// Fields that this version does not have are left out, as they would be at their defaults. Fails
/// when a string or an array is longer than the version can say; the connection is then to be
/// closed.
pub fn encode(
    api_version: i16,
    correlation_id: i32,
    response: &Response,
) -> Result<Bytes, WireError> {
    let fitted;
    let (response, length) = match response.length(api_version) {
        Err(WireError::FieldNotInVersion { .. }) => {
            fitted = without_later_fields(response.clone(), api_version);
            (&fitted, fitted.length(api_version)?)
        }
        length => (response, length?),
    };
    let mut out = BytesMut::with_capacity(FRAME_OVERHEAD + length);
    out.put_i32(0);
    header::encode_response(response.api() as i16, api_version, correlation_id, &mut out);
    response.write(api_version, &mut out)?;
    set_length(&mut out, 0)?;
    Ok(out.freeze())
}

/// Length, correlation id, no tagged fields.
const FRAME_OVERHEAD: usize = 9;

/// Drops what the codec refuses to leave out by itself: what Kafka's schemas do not call ignorable.
fn without_later_fields(mut response: Response, version: i16) -> Response {
    match &mut response {
        Response::Fetch(data) => {
            if version < 7 {
                data.session_id = 0;
            }
            let partitions = data
                .responses
                .iter_mut()
                .flat_map(|topic| &mut topic.partitions);
            if version < 11 {
                partitions.for_each(|partition| partition.preferred_read_replica = -1);
            }
        }
        Response::ListOffsets(data) if version < 4 => {
            let partitions = data
                .topics
                .iter_mut()
                .flat_map(|topic| &mut topic.partitions);
            partitions.for_each(|partition| partition.leader_epoch = -1);
        }
        Response::Metadata(data) => {
            if !(8..=10).contains(&version) {
                data.cluster_authorized_operations = i32::MIN;
            }
            if version < 8 {
                let topics = data.topics.iter_mut();
                topics.for_each(|topic| topic.topic_authorized_operations = i32::MIN);
            }
        }
        Response::InitProducerId(data) if version < 6 => {
            data.ongoing_txn_producer_id = -1;
            data.ongoing_txn_producer_epoch = -1;
        }
        Response::ConsumerGroupDescribe(data) if version < 1 => {
            let members = data.groups.iter_mut().flat_map(|it| &mut it.members);
            members.for_each(|member| member.member_type = -1);
        }
        Response::DescribeCluster(data) => {
            if version < 1 {
                data.endpoint_type = 1;
            }
            if version < 2 {
                data.brokers
                    .iter_mut()
                    .for_each(|broker| broker.is_fenced = false);
            }
        }
        _ => {}
    }
    response
}

/// The API list of an ApiVersions response, from the one table.
pub fn served_api_versions() -> Vec<ApiVersion> {
    SERVED
        .iter()
        .map(|served| ApiVersion {
            api_key: served.api as i16,
            min_version: served.advertised_min,
            max_version: served.max,
            ..ApiVersion::default()
        })
        .collect()
}

/// The answer to ApiVersions in a version that is not served (KIP-511): UNSUPPORTED_VERSION in a
/// version 0 body, with the whole list, so that the client can try again.
pub fn unsupported_api_versions(correlation_id: i32) -> Bytes {
    let body = ApiVersionsResponseData::default()
        .with_error_code(ErrorCode::UnsupportedVersion.code())
        .with_api_keys(served_api_versions());
    let encoded = encode(0, correlation_id, &Response::ApiVersions(body));
    assert!(encoded.is_ok(), "a list of integers always encodes");
    encoded.unwrap_or_default()
}

/// The answer to a request whose body cannot be decoded, where the response has an error code at
/// its top; `None` where it has not, or the version is not served: the connection is then closed,
/// as Kafka does.
pub fn error_response(header: &RequestHeader, error: ErrorCode) -> Option<Bytes> {
    let (api_key, version) = (header.api_key, header.api_version);
    if !version::is_served(api_key, version) {
        return (api_key == version::API_VERSIONS)
            .then(|| unsupported_api_versions(header.correlation_id));
    }
    let response = top_level_error(version::range(api_key)?.api, version, error.code())?;
    encode(version, header.correlation_id, &response).ok()
}

fn top_level_error(api: ApiKey, version: i16, code: i16) -> Option<Response> {
    use messages::consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponseData;
    use messages::describe_cluster_response::DescribeClusterResponseData;
    use messages::describe_log_dirs_response::DescribeLogDirsResponseData;
    use messages::fetch_response::FetchResponseData;
    use messages::find_coordinator_response::FindCoordinatorResponseData;
    use messages::heartbeat_response::HeartbeatResponseData;
    use messages::init_producer_id_response::InitProducerIdResponseData;
    use messages::join_group_response::JoinGroupResponseData;
    use messages::leave_group_response::LeaveGroupResponseData;
    use messages::list_groups_response::ListGroupsResponseData;
    use messages::metadata_response::MetadataResponseData;
    use messages::offset_delete_response::OffsetDeleteResponseData;
    use messages::offset_fetch_response::OffsetFetchResponseData;
    use messages::sync_group_response::SyncGroupResponseData;

    Some(match api {
        ApiKey::Fetch if version >= 7 => FetchResponseData::default().with_error_code(code).into(),
        ApiKey::Metadata if version >= 13 => {
            MetadataResponseData::default().with_error_code(code).into()
        }
        ApiKey::ApiVersions => ApiVersionsResponseData::default()
            .with_error_code(code)
            .with_api_keys(served_api_versions())
            .into(),
        ApiKey::InitProducerId => InitProducerIdResponseData::default()
            .with_error_code(code)
            .with_producer_id(-1)
            .with_producer_epoch(-1)
            .into(),
        ApiKey::DescribeLogDirs if version >= 3 => DescribeLogDirsResponseData::default()
            .with_error_code(code)
            .into(),
        ApiKey::FindCoordinator if version < 4 => FindCoordinatorResponseData::default()
            .with_error_code(code)
            .into(),
        ApiKey::OffsetFetch if (2..8).contains(&version) => OffsetFetchResponseData::default()
            .with_error_code(code)
            .into(),
        ApiKey::JoinGroup => JoinGroupResponseData::default()
            .with_error_code(code)
            .with_protocol_name((version < 7).then(KafkaString::default))
            .into(),
        ApiKey::SyncGroup => SyncGroupResponseData::default()
            .with_error_code(code)
            .into(),
        ApiKey::Heartbeat => HeartbeatResponseData::default()
            .with_error_code(code)
            .into(),
        ApiKey::LeaveGroup => LeaveGroupResponseData::default()
            .with_error_code(code)
            .into(),
        ApiKey::ListGroups => ListGroupsResponseData::default()
            .with_error_code(code)
            .into(),
        ApiKey::OffsetDelete => OffsetDeleteResponseData::default()
            .with_error_code(code)
            .into(),
        ApiKey::ConsumerGroupHeartbeat => ConsumerGroupHeartbeatResponseData::default()
            .with_error_code(code)
            .into(),
        ApiKey::DescribeCluster => DescribeClusterResponseData::default()
            .with_error_code(code)
            .into(),
        _ => return None,
    })
}

/// Splits a response frame (without its length) into correlation id and body, for clients.
pub fn decode_response(
    api_key: i16,
    version: i16,
    mut frame: Bytes,
) -> Result<(i32, Bytes), WireError> {
    let header_version = version::response_header_version(api_key, version);
    let header = ResponseHeaderData::read(&mut frame, header_version)?;
    Ok((header.correlation_id, frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsupported_api_versions_request_is_answered_in_version_0_with_the_list() {
        let frame = unsupported_api_versions(5);
        assert_eq!(frame[..4], (frame.len() as i32 - 4).to_be_bytes());
        let (id, body) = decode_response(18, 99, frame.slice(4..)).expect("header");
        let response = Response::decode(18, 0, body).expect("body");
        let Response::ApiVersions(data) = response else {
            panic!("another API: {response:?}");
        };
        assert_eq!(
            (id, data.error_code, data.api_keys.len()),
            (5, 35, SERVED.len())
        );
        assert_eq!(
            data.api_keys[0].min_version, 0,
            "librdkafka needs Produce from 0"
        );
    }

    #[test]
    fn an_error_without_a_place_for_it_closes_the_connection() {
        let header = |api_key, api_version| RequestHeader {
            api_key,
            api_version,
            correlation_id: 1,
            client_id: None,
        };
        for (api_key, version, answered) in [
            (0, 13, false),
            (1, 6, false),
            (1, 7, true),
            (3, 12, false),
            (3, 13, true),
            (999, 0, false),
            (18, 99, true),
        ] {
            let frame = error_response(&header(api_key, version), ErrorCode::InvalidRequest);
            assert_eq!(frame.is_some(), answered, "API {api_key} version {version}");
        }
    }
}
