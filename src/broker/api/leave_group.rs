//! LeaveGroup (API 13): one member, or several at once (KIP-345). Knows nothing of what follows.

use logic::group::request::{Leave, Reply, Request};
use wire::ErrorCode;
use wire::messages::LeaveGroupRequestData;
use wire::messages::leave_group_response::{LeaveGroupResponseData, MemberResponse};
use wire::response::Response;

use super::groups::{ask, identity};
use super::{Context, Handled};

/// From this version on several members may leave at once.
const FIRST_VERSION_WITH_MEMBERS: i16 = 3;

/// Answers one request.
pub async fn handle(context: &Context, request: LeaveGroupRequestData) -> Handled {
    let batched = context.header.api_version >= FIRST_VERSION_WITH_MEMBERS;
    let members = if batched {
        let members = request.members.iter();
        members
            .map(|it| identity(&it.member_id, it.group_instance_id.as_ref()))
            .collect()
    } else {
        vec![identity(&request.member_id, None)]
    };
    let leave = Leave {
        group: request.group_id.as_str().to_owned(),
        members,
    };
    let Reply::Leave(reply) = ask(context, Request::Leave(leave)).await else {
        unreachable!("a leave is answered by a leave");
    };
    let response = LeaveGroupResponseData::default();
    let response = match reply {
        Err(error) => response.with_error_code(error.code()),
        Ok(errors) if batched => {
            let left = request.members.into_iter().zip(errors);
            let left = left.map(|(member, error)| {
                MemberResponse::default()
                    .with_member_id(member.member_id)
                    .with_group_instance_id(member.group_instance_id)
                    .with_error_code(error.code())
            });
            response.with_members(left.collect())
        }
        Ok(errors) => {
            let error = errors.first().copied().unwrap_or(ErrorCode::None);
            response.with_error_code(error.code())
        }
    };
    context.reply(&Response::LeaveGroup(response))
}
