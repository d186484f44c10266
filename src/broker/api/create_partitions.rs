//! CreatePartitions (API 37). Knows nothing of what makes a request valid.

use wire::messages::CreatePartitionsRequestData;
use wire::messages::create_partitions_request::CreatePartitionsTopic;
use wire::messages::create_partitions_response::{
    CreatePartitionsResponseData, CreatePartitionsTopicResult,
};
use wire::response::Response;

use super::{Context, Handled, topics};
use crate::shard::controller::{Change, Mode, NewPartitions};

/// Answers one request.
pub async fn handle(context: &Context, request: CreatePartitionsRequestData) -> Handled {
    let mode = if request.validate_only {
        Mode::Validate
    } else {
        Mode::Commit
    };
    let wanted = |topic: &CreatePartitionsTopic| NewPartitions {
        name: topic.name.as_str().to_owned(),
        count: topic.count,
        assignments: topic.assignments.as_ref().map(|assignments| {
            assignments
                .iter()
                .map(|assignment| assignment.broker_ids.clone())
                .collect()
        }),
    };
    let change = Change::CreatePartitions(request.topics.iter().map(wanted).collect(), mode);
    let outcomes = topics::change(context, change).await;
    let results = request
        .topics
        .into_iter()
        .zip(outcomes)
        .map(|(topic, outcome)| {
            let (code, message) = topics::told(&outcome);
            CreatePartitionsTopicResult::default()
                .with_name(topic.name)
                .with_error_code(code)
                .with_error_message(message)
        });
    let response = CreatePartitionsResponseData::default().with_results(results.collect());
    context.reply(&Response::CreatePartitions(response))
}
