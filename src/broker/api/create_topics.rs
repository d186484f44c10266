//! CreateTopics (API 19). Answers when every new partition can be written. Knows nothing of what makes
//! a topic valid.

use std::collections::BTreeMap;

use logic::cluster::change::{self, NewTopic};
use logic::cluster::config::describe_topic;
use logic::cluster::{Image, Record, Topic};
use logic::ids::TopicId;
use wire::messages::CreateTopicsRequestData;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponseData,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use super::{Context, Handled, topics};
use crate::shard::controller::{Change, Mode};

/// From this version on the answer describes the new topic.
const FIRST_VERSION_WITH_DESCRIPTION: i16 = 5;
/// Unknown: the topic was refused.
const UNKNOWN: i16 = -1;

/// Answers one request.
pub async fn handle(context: &Context, request: CreateTopicsRequestData) -> Handled {
    let mode = if request.validate_only {
        Mode::Validate
    } else {
        Mode::Commit
    };
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in &request.topics {
        *named.entry(topic.name.as_str()).or_default() += 1;
    }
    let once = |topic: &&CreatableTopic| named[topic.name.as_str()] == 1;
    let wanted: Vec<NewTopic> = request.topics.iter().filter(once).map(new_topic).collect();
    let mut outcomes = topics::change(context, Change::CreateTopics(wanted, mode))
        .await
        .into_iter();
    let mut imagined = match mode {
        Mode::Commit => Image::default(),
        Mode::Validate => context.shard.metadata.image().clone(),
    };
    let results = request.topics.iter().map(|topic| {
        let result = CreatableTopicResult::default()
            .with_name(topic.name.clone())
            .with_num_partitions(UNKNOWN.into())
            .with_replication_factor(UNKNOWN)
            .with_configs(None);
        if named[topic.name.as_str()] > 1 {
            let message = KafkaString::from_static("Duplicate topic name.");
            return result
                .with_error_code(ErrorCode::InvalidRequest.code())
                .with_error_message(Some(message));
        }
        let outcome = outcomes
            .next()
            .expect("each topic that was asked for has an outcome");
        let (code, message) = topics::told(&outcome);
        let result = result.with_error_code(code).with_error_message(message);
        if outcome.is_err() {
            return result;
        }
        match mode {
            Mode::Commit => describe_made(context, result),
            Mode::Validate => describe_imagined(context, &mut imagined, topic, result),
        }
    });
    let response = CreateTopicsResponseData::default().with_topics(results.collect());
    context.reply(&Response::CreateTopics(response))
}

fn new_topic(topic: &CreatableTopic) -> NewTopic {
    let value = |value: &KafkaString| value.as_str().to_owned();
    NewTopic {
        name: value(&topic.name),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: topic
            .assignments
            .iter()
            .map(|it| (it.partition_index, it.broker_ids.clone()))
            .collect(),
        configs: topic
            .configs
            .iter()
            .map(|config| (value(&config.name), config.value.as_ref().map(value)))
            .collect(),
    }
}

fn describe_made(context: &Context, result: CreatableTopicResult) -> CreatableTopicResult {
    let image = context.shard.metadata.image();
    match image.topic_by_name(result.name.as_str()) {
        Some(topic) => describe(context, &image, topic, result),
        None => result,
    }
}

/// What a topic that is only validated would be: it is made in a copy of the image, for a moment.
fn describe_imagined(
    context: &Context,
    image: &mut Image,
    topic: &CreatableTopic,
    result: CreatableTopicResult,
) -> CreatableTopicResult {
    let metadata = &context.shard.metadata;
    let limits = &metadata.identity.limits;
    let made = change::create_topic(image, limits, &new_topic(topic), TopicId::ZERO);
    made.iter()
        .flatten()
        .for_each(|record| image.replay(record));
    let Some(topic) = image.topic(TopicId::ZERO) else {
        return result;
    };
    let described = describe(context, image, topic, result);
    image.replay(&Record::TopicDeleted { id: TopicId::ZERO });
    described
}

fn describe(
    context: &Context,
    image: &Image,
    topic: &Topic,
    result: CreatableTopicResult,
) -> CreatableTopicResult {
    let metadata = &context.shard.metadata;
    if context.header.api_version < FIRST_VERSION_WITH_DESCRIPTION {
        return result.with_topic_id(topics::uuid(topic.id));
    }
    let described = describe_topic(
        image,
        &metadata.identity.statics,
        metadata.identity.node,
        topic,
    );
    let configs = described.into_iter().map(|config| {
        CreatableTopicConfigs::default()
            .with_name(KafkaString::from(config.name))
            .with_value(Some(KafkaString::from(config.value)))
            .with_read_only(config.read_only)
            .with_config_source(config.source as i8)
    });
    let replicas = topic
        .partitions
        .first()
        .map_or(0, |partition| partition.replicas.len());
    let partitions = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
    result
        .with_topic_id(topics::uuid(topic.id))
        .with_num_partitions(partitions)
        .with_replication_factor(i16::try_from(replicas).unwrap_or(i16::MAX))
        .with_configs(Some(configs.collect()))
}
