//! Heartbeat (API 12). Knows nothing of sessions.

use logic::group::request::{Heartbeat, Reply, Request};
use wire::messages::HeartbeatRequestData;
use wire::messages::heartbeat_response::HeartbeatResponseData;
use wire::response::Response;

use super::groups::{ask, identity};
use super::{Context, Handled};

/// Answers one request.
pub async fn handle(context: &Context, request: HeartbeatRequestData) -> Handled {
    let heartbeat = Heartbeat {
        identity: identity(&request.member_id, request.group_instance_id.as_ref()),
        group: request.group_id.as_str().to_owned(),
        generation: request.generation_id,
    };
    let Reply::Heartbeat(error) = ask(context, Request::Heartbeat(heartbeat)).await else {
        unreachable!("a heartbeat is answered by a heartbeat");
    };
    let response = HeartbeatResponseData::default().with_error_code(error.code());
    context.reply(&Response::Heartbeat(response))
}
