//! AlterConfigs (API 33) and IncrementalAlterConfigs (API 44). Knows nothing of what a config may hold.

use logic::cluster::change::{Edit, Resource};
use wire::messages::incremental_alter_configs_request::AlterableConfig;
use wire::messages::{
    AlterConfigsRequestData, IncrementalAlterConfigsRequestData, alter_configs_response,
    incremental_alter_configs_response,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use super::{Context, Handled, topics};
use crate::shard::controller::{Change, Failed, Mode};

/// A topic, among the resource types of the protocol.
pub const TOPIC: i8 = 2;
/// A broker, among the resource types of the protocol.
pub const BROKER: i8 = 4;
/// A consumer group, among the resource types of the protocol.
pub const GROUP: i8 = 32;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// An answer for one resource: its error code and message.
type Told = (i16, Option<KafkaString>);

/// A broker resource's id; the empty name means all brokers.
pub fn broker_of(name: &str) -> Result<Option<i32>, String> {
    if name.is_empty() {
        return Ok(None);
    }
    let not_a_number = |_| format!("Broker id must be an integer, but it is: {name}");
    name.parse().map(Some).map_err(not_a_number)
}

fn resource(kind: i8, name: &KafkaString) -> Result<Resource, Told> {
    let invalid = |message| {
        (
            ErrorCode::InvalidRequest.code(),
            Some(KafkaString::from(message)),
        )
    };
    match kind {
        TOPIC => Ok(Resource::Topic(name.as_str().to_owned())),
        BROKER => broker_of(name.as_str())
            .map(Resource::Broker)
            .map_err(invalid),
        GROUP => Ok(Resource::Group(name.as_str().to_owned())),
        other => Err(invalid(format!(
            "configs of resource type {other} cannot be changed"
        ))),
    }
}

fn mode(validate_only: bool) -> Mode {
    if validate_only {
        Mode::Validate
    } else {
        Mode::Commit
    }
}

/// Fills in the outcomes of those items that reached the controller.
fn tell<T>(
    items: Vec<Result<T, Told>>,
    outcomes: Vec<Result<Option<logic::ids::TopicId>, Failed>>,
) -> Vec<Told> {
    let mut outcomes = outcomes.into_iter();
    let told = |item| match item {
        Ok(_) => topics::told(&outcomes.next().expect("each item asked for has an outcome")),
        Err(told) => told,
    };
    items.into_iter().map(told).collect()
}

/// Answers AlterConfigs: each resource has the given configs and no others.
pub async fn replace(context: &Context, request: AlterConfigsRequestData) -> Handled {
    let text = |value: &KafkaString| value.as_str().to_owned();
    let items: Vec<Result<_, Told>> = request
        .resources
        .iter()
        .map(|asked| {
            let resource = resource(asked.resource_type, &asked.resource_name)?;
            let configs = asked.configs.iter();
            let configs = configs.map(|it| (text(&it.name), it.value.as_ref().map(text)));
            Ok((resource, configs.collect::<Vec<_>>()))
        })
        .collect();
    let wanted = items
        .iter()
        .filter_map(|item| item.as_ref().ok().cloned())
        .collect();
    let change = Change::ReplaceConfigs(wanted, mode(request.validate_only));
    let told = tell(items, topics::change(context, change).await);
    let responses = request
        .resources
        .into_iter()
        .zip(told)
        .map(|(asked, (code, message))| {
            alter_configs_response::AlterConfigsResourceResponse::default()
                .with_resource_type(asked.resource_type)
                .with_resource_name(asked.resource_name)
                .with_error_code(code)
                .with_error_message(message)
        });
    let response = alter_configs_response::AlterConfigsResponseData::default()
        .with_responses(responses.collect());
    context.reply(&Response::AlterConfigs(response))
}

/// Answers IncrementalAlterConfigs: the configs named are edited, the others stay.
pub async fn incremental(
    context: &Context,
    request: IncrementalAlterConfigsRequestData,
) -> Handled {
    let items: Vec<Result<_, Told>> = request
        .resources
        .iter()
        .map(|asked| {
            let resource = resource(asked.resource_type, &asked.resource_name)?;
            let edits = asked
                .configs
                .iter()
                .map(edit)
                .collect::<Result<Vec<_>, Told>>()?;
            Ok((resource, edits))
        })
        .collect();
    let wanted = items
        .iter()
        .filter_map(|item| item.as_ref().ok().cloned())
        .collect();
    let change = Change::EditConfigs(wanted, mode(request.validate_only));
    let told = tell(items, topics::change(context, change).await);
    let responses = request
        .resources
        .into_iter()
        .zip(told)
        .map(|(asked, (code, message))| {
            incremental_alter_configs_response::AlterConfigsResourceResponse::default()
                .with_resource_type(asked.resource_type)
                .with_resource_name(asked.resource_name)
                .with_error_code(code)
                .with_error_message(message)
        });
    let response =
        incremental_alter_configs_response::IncrementalAlterConfigsResponseData::default()
            .with_responses(responses.collect());
    context.reply(&Response::IncrementalAlterConfigs(response))
}

fn edit(config: &AlterableConfig) -> Result<(String, Edit), Told> {
    let name = config.name.as_str().to_owned();
    let value = config.value.as_ref().map(|value| value.as_str().to_owned());
    let edit = match (config.config_operation, value) {
        (DELETE, _) => Edit::Delete,
        (SET, Some(value)) => Edit::Set(value),
        (APPEND, Some(value)) => Edit::Append(value),
        (SUBTRACT, Some(value)) => Edit::Subtract(value),
        (SET | APPEND | SUBTRACT, None) => {
            let message = format!("Null value not supported for config {name}");
            return Err((
                ErrorCode::InvalidRequest.code(),
                Some(KafkaString::from(message)),
            ));
        }
        (operation, _) => {
            let message = format!("Unknown operation {operation} for config {name}");
            return Err((
                ErrorCode::InvalidRequest.code(),
                Some(KafkaString::from(message)),
            ));
        }
    };
    Ok((name, edit))
}
