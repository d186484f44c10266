//! ListConfigResources (API 74, KIP-1142): what has configs that can be described. Knows nothing of configs.

use wire::messages::ListConfigResourcesRequestData;
use wire::messages::list_config_resources_response::{
    ConfigResource, ListConfigResourcesResponseData,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use super::alter_configs::{BROKER, GROUP, TOPIC};
use super::{Context, Handled};

/// Client metrics and brokers' loggers, among the resource types of the protocol: none is kept here.
const WITHOUT_ANY: [i8; 2] = [8, 16];

/// Answers one request.
pub fn handle(context: &Context, request: &ListConfigResourcesRequestData) -> Handled {
    let mut wanted = request.resource_types.clone();
    if wanted.is_empty() && context.header.api_version > 0 {
        wanted = vec![TOPIC, BROKER, GROUP];
    }
    let is_known = |it: &i8| [TOPIC, BROKER, GROUP].contains(it) || WITHOUT_ANY.contains(it);
    let response = ListConfigResourcesResponseData::default();
    let response = if wanted.iter().all(is_known) {
        response.with_config_resources(named(context, &wanted))
    } else {
        response.with_error_code(ErrorCode::UnsupportedVersion.code())
    };
    context.reply(&Response::ListConfigResources(response))
}

fn named(context: &Context, wanted: &[i8]) -> Vec<ConfigResource> {
    let metadata = &context.shard.metadata;
    let image = metadata.image();
    let mut found = Vec::new();
    let mut add = |kind: i8, name: String| {
        let resource = ConfigResource::default()
            .with_resource_name(KafkaString::from(name))
            .with_resource_type(kind);
        found.push(resource);
    };
    if wanted.contains(&GROUP) {
        let groups = image.configured_groups();
        groups.for_each(|group| add(GROUP, group.clone()));
    }
    if wanted.contains(&BROKER) {
        add(BROKER, metadata.identity.node.to_string());
    }
    if wanted.contains(&TOPIC) {
        let topics = image.topics();
        topics.for_each(|topic| add(TOPIC, topic.name.clone()));
    }
    found
}
