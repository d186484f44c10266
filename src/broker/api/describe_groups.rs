//! DescribeGroups (API 15). Knows nothing of what members say to each other.

use logic::group::request::{DescribedMember, Description, Reply, Request};
use wire::messages::DescribeGroupsRequestData;
use wire::messages::describe_groups_response::{
    DescribeGroupsResponseData, DescribedGroup, DescribedGroupMember,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use super::groups::{ask, once_each, text};
use super::{Context, Handled};

/// The authorised operations when nobody asked for them.
const NOT_ASKED: i32 = i32::MIN;
/// From this version on a group that does not exist is an error; before it was dead.
const FIRST_VERSION_WITH_NOT_FOUND: i16 = 6;
/// A group that does not exist.
const DEAD: &str = "Dead";

/// Answers one request.
pub async fn handle(context: &Context, request: DescribeGroupsRequestData) -> Handled {
    let mut groups = Vec::with_capacity(request.groups.len());
    for id in once_each(request.groups) {
        let asked = Request::Describe(id.as_str().to_owned());
        let Reply::Describe(reply) = ask(context, asked).await else {
            unreachable!("a question about a group is answered by its description");
        };
        groups.push(described(context, id, reply));
    }
    let response = DescribeGroupsResponseData::default().with_groups(groups);
    context.reply(&Response::DescribeGroups(response))
}

fn described(
    context: &Context,
    id: KafkaString,
    reply: Result<Description, ErrorCode>,
) -> DescribedGroup {
    let not_found = format!("Group {} not found.", id.as_str());
    let group = DescribedGroup::default()
        .with_group_id(id)
        .with_authorized_operations(NOT_ASKED);
    let description = match reply {
        Ok(description) => description,
        Err(error) => return group.with_error_code(error.code()),
    };
    let errors = context.header.api_version >= FIRST_VERSION_WITH_NOT_FOUND;
    let group = if errors && description.state == DEAD {
        group
            .with_error_code(ErrorCode::GroupIdNotFound.code())
            .with_error_message(Some(text(not_found)))
    } else {
        group
    };
    group
        .with_group_state(KafkaString::from_static(description.state))
        .with_protocol_type(text(description.protocol_type))
        .with_protocol_data(text(description.protocol))
        .with_members(description.members.into_iter().map(member).collect())
}

fn member(member: DescribedMember) -> DescribedGroupMember {
    DescribedGroupMember::default()
        .with_member_id(text(member.identity.member_id))
        .with_group_instance_id(member.identity.instance_id.map(text))
        .with_client_id(text(member.client_id))
        .with_client_host(text(member.client_host))
        .with_member_metadata(member.metadata)
        .with_member_assignment(member.assignment)
}
