//! ListGroups (API 16): the groups of every shard, by state and type where those are asked for. Knows
//! nothing of what they do.

use logic::group::request::ListedGroup as Found;
use wire::messages::ListGroupsRequestData;
use wire::messages::list_groups_response::{ListGroupsResponseData, ListedGroup};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use super::groups::text;
use super::{Context, Handled};
use crate::shard::mail::{Answer, Ask, ShardId};

/// Answers one request.
pub async fn handle(context: &Context, request: ListGroupsRequestData) -> Handled {
    let shard = &context.shard;
    let ask = |to| shard.ask(ShardId(to), Ask::ListGroups);
    let calls: Vec<_> = (0..shard.shards()).map(ask).collect();
    let mut groups: Vec<Found> = Vec::new();
    let mut any_loading = false;
    for call in calls {
        let Answer::Groups(found, loading) = call.await else {
            unreachable!("a question for groups is answered by groups");
        };
        groups.extend(found);
        any_loading |= loading;
    }
    let states = &request.states_filter;
    let types = &request.types_filter;
    let wanted = |group: &Found| allows(states, group.state) && allows(types, group.group_type);
    let listed = groups.into_iter().filter(wanted);
    let error = if any_loading {
        ErrorCode::CoordinatorLoadInProgress
    } else {
        ErrorCode::None
    };
    let response = ListGroupsResponseData::default()
        .with_error_code(error.code())
        .with_groups(listed.map(row).collect());
    context.reply(&Response::ListGroups(response))
}

/// Whether a filter lets a name through; an empty one lets all.
fn allows(filter: &[KafkaString], name: &str) -> bool {
    let same = |it: &KafkaString| it.as_str().eq_ignore_ascii_case(name);
    filter.is_empty() || filter.iter().any(same)
}

fn row(group: Found) -> ListedGroup {
    ListedGroup::default()
        .with_group_id(text(group.group))
        .with_protocol_type(text(group.protocol_type))
        .with_group_state(KafkaString::from_static(group.state))
        .with_group_type(KafkaString::from_static(group.group_type))
}
