//! JoinGroup (API 11). Knows versions, and nothing of what a group does with a join.

use bytes::Bytes;
use logic::group::request::{Join, JoinedMember, Reply, Request};
use wire::messages::JoinGroupRequestData;
use wire::messages::join_group_response::{JoinGroupResponseData, JoinGroupResponseMember};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use super::groups::{ask, client_host, client_id, identity, text};
use super::{Context, Handled};

/// From this version on a member says how long a rebalance may wait for it.
const FIRST_VERSION_WITH_REBALANCE_TIMEOUT: i16 = 1;
/// From this version on a new member must come back with the id that it is given (KIP-394).
const FIRST_VERSION_WITH_REQUIRED_ID: i16 = 4;
/// From this version on the answer may lack a protocol.
const FIRST_VERSION_WITH_NULL_PROTOCOL: i16 = 7;
/// From this version on a leader may be told to leave the assignment as it is (KIP-814).
const FIRST_VERSION_WITH_SKIPPING: i16 = 9;

/// Answers one request.
pub async fn handle(context: &Context, request: JoinGroupRequestData) -> Handled {
    let version = context.header.api_version;
    let mut random = [0; 16];
    if let Err(error) = getrandom::fill(&mut random) {
        eprintln!("error: no random member id: {error}");
        let refused = ErrorCode::CoordinatorNotAvailable.code();
        let response = JoinGroupResponseData::default().with_error_code(refused);
        return context.reply(&Response::JoinGroup(response));
    }
    let join = Join {
        identity: identity(&request.member_id, request.group_instance_id.as_ref()),
        group: request.group_id.as_str().to_owned(),
        client_id: client_id(context),
        client_host: client_host(context),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: if version >= FIRST_VERSION_WITH_REBALANCE_TIMEOUT {
            request.rebalance_timeout_ms
        } else {
            request.session_timeout_ms
        },
        protocol_type: request.protocol_type.as_str().to_owned(),
        protocols: request
            .protocols
            .iter()
            // Copied: a member outlives its request, whose memory is counted elsewhere.
            .map(|it| {
                let metadata = Bytes::copy_from_slice(&it.metadata);
                (it.name.as_str().to_owned(), metadata)
            })
            .collect(),
        id_required: version >= FIRST_VERSION_WITH_REQUIRED_ID,
        can_skip_assignment: version >= FIRST_VERSION_WITH_SKIPPING,
        random,
    };
    let Reply::Join(reply) = ask(context, Request::Join(join)).await else {
        unreachable!("a join is answered by a join");
    };
    let protocol = match reply.protocol {
        None if version < FIRST_VERSION_WITH_NULL_PROTOCOL => Some(String::new()),
        protocol => protocol,
    };
    let response = JoinGroupResponseData::default()
        .with_error_code(reply.error.unwrap_or(ErrorCode::None).code())
        .with_generation_id(reply.generation)
        .with_protocol_type(reply.protocol_type.map(text))
        .with_protocol_name(protocol.map(text))
        .with_leader(text(reply.leader))
        .with_skip_assignment(reply.skip_assignment)
        .with_member_id(text(reply.member_id))
        .with_members(reply.members.into_iter().map(member).collect());
    context.reply(&Response::JoinGroup(response))
}

fn member(member: JoinedMember) -> JoinGroupResponseMember {
    JoinGroupResponseMember::default()
        .with_member_id(KafkaString::from(member.identity.member_id))
        .with_group_instance_id(member.identity.instance_id.map(text))
        .with_metadata(member.metadata)
}
