//! DeleteGroups (API 42): each group by itself. Knows nothing of when a group may go.

use logic::group::request::{Reply, Request};
use wire::messages::DeleteGroupsRequestData;
use wire::messages::delete_groups_response::{DeletableGroupResult, DeleteGroupsResponseData};
use wire::response::Response;

use super::groups::ask;
use super::{Context, Handled};

/// Answers one request.
pub async fn handle(context: &Context, request: DeleteGroupsRequestData) -> Handled {
    let mut results = Vec::with_capacity(request.groups_names.len());
    for id in request.groups_names {
        let asked = Request::Delete(id.as_str().to_owned());
        let Reply::Delete(error) = ask(context, asked).await else {
            unreachable!("a deletion is answered by its outcome");
        };
        results.push(
            DeletableGroupResult::default()
                .with_group_id(id)
                .with_error_code(error.code()),
        );
    }
    let response = DeleteGroupsResponseData::default().with_results(results);
    context.reply(&Response::DeleteGroups(response))
}
