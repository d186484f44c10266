//! SyncGroup (API 14). Knows nothing of who leads.

use bytes::Bytes;
use logic::group::request::{Reply, Request, Sync};
use wire::ErrorCode;
use wire::messages::SyncGroupRequestData;
use wire::messages::sync_group_response::SyncGroupResponseData;
use wire::response::Response;

use super::groups::{ask, identity, text};
use super::{Context, Handled};

/// Answers one request.
pub async fn handle(context: &Context, request: SyncGroupRequestData) -> Handled {
    let given = request.assignments.iter();
    let sync = Sync {
        identity: identity(&request.member_id, request.group_instance_id.as_ref()),
        group: request.group_id.as_str().to_owned(),
        generation: request.generation_id,
        protocol_type: request.protocol_type.map(|it| it.as_str().to_owned()),
        protocol: request.protocol_name.map(|it| it.as_str().to_owned()),
        assignments: given
            .map(|it| {
                // Copied, as what a member says of itself is.
                let assignment = Bytes::copy_from_slice(&it.assignment);
                (it.member_id.as_str().to_owned(), assignment)
            })
            .collect(),
    };
    let Reply::Sync(reply) = ask(context, Request::Sync(sync)).await else {
        unreachable!("a sync is answered by a sync");
    };
    let response = SyncGroupResponseData::default();
    let response = match reply {
        Ok(reply) => response
            .with_error_code(ErrorCode::None.code())
            .with_protocol_type(reply.protocol_type.map(text))
            .with_protocol_name(reply.protocol.map(text))
            .with_assignment(reply.assignment),
        Err(error) => response.with_error_code(error.code()),
    };
    context.reply(&Response::SyncGroup(response))
}
