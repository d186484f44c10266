//! DescribeConfigs (API 32): every config with value, source, synonyms, type and meaning, so that tools
//! that read, modify and write lose nothing. Knows nothing of what a config does.

use std::collections::BTreeSet;

use logic::cluster::config::group::describe_group;
use logic::cluster::config::{
    Described, describe_broker, describe_broker_defaults, describe_topic,
};
use wire::messages::DescribeConfigsRequestData;
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResponseData, DescribeConfigsResult,
    DescribeConfigsSynonym,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use super::alter_configs::{BROKER, GROUP, TOPIC, broker_of};
use super::{Context, Handled};

/// What the client wants to see beside values.
#[derive(Clone, Copy)]
struct Wanted {
    synonyms: bool,
    documentation: bool,
}

/// Answers one request.
pub fn handle(context: &Context, request: &DescribeConfigsRequestData) -> Handled {
    let wanted = Wanted {
        synonyms: request.include_synonyms,
        documentation: request.include_documentation,
    };
    // As in Kafka, where they are a map: what is named twice is described once.
    let mut seen = BTreeSet::new();
    let resources = request.resources.iter();
    let resources =
        resources.filter(|it| seen.insert((it.resource_type, it.resource_name.as_str())));
    let results = resources.map(|resource| {
        let result = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        match describe(context, resource) {
            Ok(described) => {
                let keys = resource.configuration_keys.as_ref();
                let named = |config: &Described| {
                    keys.is_none_or(|keys| {
                        keys.is_empty() || keys.iter().any(|key| key.as_str() == config.name)
                    })
                };
                let configs = described
                    .into_iter()
                    .filter(named)
                    .map(|it| shown(it, wanted));
                result.with_configs(configs.collect())
            }
            Err((error, message)) => result
                .with_error_code(error.code())
                .with_error_message(Some(KafkaString::from(message))),
        }
    });
    let response = DescribeConfigsResponseData::default().with_results(results.collect());
    context.reply(&Response::DescribeConfigs(response))
}

fn describe(
    context: &Context,
    resource: &DescribeConfigsResource,
) -> Result<Vec<Described>, (ErrorCode, String)> {
    let metadata = &context.shard.metadata;
    let (node, statics) = (metadata.identity.node, &metadata.identity.statics);
    let image = metadata.image();
    let name = resource.resource_name.as_str();
    match resource.resource_type {
        TOPIC => match image.topic_by_name(name) {
            Some(topic) => Ok(describe_topic(&image, statics, node, topic)),
            None => {
                let message = format!("The topic '{name}' does not exist.");
                Err((ErrorCode::UnknownTopicOrPartition, message))
            }
        },
        BROKER => {
            let broker = broker_of(name).map_err(|message| (ErrorCode::InvalidRequest, message))?;
            match broker {
                Some(broker) if broker != node => {
                    let message =
                        format!("Unexpected broker id, expected {node}, but received {broker}");
                    Err((ErrorCode::InvalidRequest, message))
                }
                Some(_) => Ok(describe_broker(&image, statics, node)),
                None => Ok(describe_broker_defaults(&image)),
            }
        }
        GROUP if name.is_empty() => {
            let message = "Group name must not be empty".to_owned();
            Err((ErrorCode::InvalidRequest, message))
        }
        GROUP => Ok(describe_group(&image, statics, name)),
        other => {
            let message = format!("configs of resource type {other} are not kept");
            Err((ErrorCode::InvalidRequest, message))
        }
    }
}

fn shown(config: Described, wanted: Wanted) -> DescribeConfigsResourceResult {
    let synonym = |synonym: logic::cluster::config::Synonym| {
        DescribeConfigsSynonym::default()
            .with_name(KafkaString::from(synonym.name))
            .with_value(Some(KafkaString::from(synonym.value)))
            .with_source(synonym.source as i8)
    };
    let synonyms = if wanted.synonyms {
        config.synonyms.into_iter().map(synonym).collect()
    } else {
        Vec::new()
    };
    let doc = wanted.documentation.then(|| KafkaString::from(config.doc));
    DescribeConfigsResourceResult::default()
        .with_name(KafkaString::from(config.name))
        .with_value(Some(KafkaString::from(config.value)))
        .with_read_only(config.read_only)
        .with_config_source(config.source as i8)
        .with_synonyms(synonyms)
        .with_config_type(config.kind)
        .with_documentation(doc)
}
