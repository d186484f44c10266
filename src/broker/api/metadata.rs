//! Metadata (API 3): topics, their partitions and the broker's address; topics that do not exist are
//! created when both sides allow it. Knows nothing of how topics are created.

use std::collections::HashSet;

use logic::cluster::Topic;
use logic::cluster::change::{self, Code, NewTopic};
use wire::messages::MetadataRequestData;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponseData, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaString, KafkaUuid};

use super::{Context, Handled, topics};
use crate::shard::controller::{Change, Changed, Failed, Mode};
use crate::shard::mail::{Answer, Ask, ShardId};

/// The authorised operations when nobody asked for them.
const NOT_ASKED: i32 = i32::MIN;
/// From this version on an empty list asks for no topic instead of all.
const FIRST_VERSION_WITH_EMPTY_LIST: i16 = 1;
/// From this version on the client says whether topics may be created.
const FIRST_VERSION_WITH_CREATION: i16 = 4;

/// Answers one request.
pub async fn handle(context: &Context, request: MetadataRequestData) -> Handled {
    let version = context.header.api_version;
    let asked = match request.topics {
        Some(topics) if topics.is_empty() && version < FIRST_VERSION_WITH_EMPTY_LIST => None,
        other => other,
    };
    let topics = match asked {
        None => context
            .shard
            .metadata
            .image()
            .topics()
            .map(|topic| found(context, topic))
            .collect(),
        Some(mut asked) => {
            once_each(&mut asked);
            let may_create =
                version < FIRST_VERSION_WITH_CREATION || request.allow_auto_topic_creation;
            if may_create && context.shard.metadata.identity.auto_create {
                create_missing(context, &asked).await;
            }
            asked
                .into_iter()
                .map(|topic| look_up(context, topic))
                .collect()
        }
    };
    let identity = &context.shard.metadata.identity;
    let (host, port) = topics::address(context);
    let broker = MetadataResponseBroker::default()
        .with_node_id(identity.node)
        .with_host(host)
        .with_port(port)
        .with_rack(identity.rack.clone().map(KafkaString::from));
    let response = MetadataResponseData::default()
        .with_brokers(vec![broker])
        .with_cluster_id(Some(KafkaString::from(identity.cluster.clone())))
        .with_controller_id(identity.node)
        .with_topics(topics)
        .with_cluster_authorized_operations(NOT_ASKED);
    context.reply(&Response::Metadata(response))
}

/// As in Kafka, where they are a set: what is named twice is described once.
fn once_each(asked: &mut Vec<MetadataRequestTopic>) {
    let mut seen = HashSet::new();
    let name = |topic: &MetadataRequestTopic| topic.name.as_ref().map(|it| it.as_str().to_owned());
    asked.retain(|topic| seen.insert((topic.topic_id, name(topic))));
}

/// Creates the topics named that do not exist; whatever goes wrong shows when they are looked up.
async fn create_missing(context: &Context, asked: &[MetadataRequestTopic]) {
    let missing: Vec<NewTopic> = asked
        .iter()
        .filter(|topic| topic.topic_id == KafkaUuid::ZERO)
        .filter_map(|topic| topic.name.as_ref())
        .filter(|name| context.shard.metadata.topic_id(name.as_str()).is_none())
        .filter(|name| change::check_name(name.as_str()).is_ok())
        .map(|name| missing_topic(context, name.as_str()))
        .collect();
    if missing.is_empty() {
        return;
    }
    let change = Box::new(Change::CreateTopics(missing, Mode::Commit));
    let Answer::Changed(changed) = context
        .shard
        .ask(ShardId::CONTROLLER, Ask::Change(change))
        .await
    else {
        unreachable!("a change is answered by its outcome");
    };
    if let Changed::Items(items) = *changed {
        for failed in items.into_iter().filter_map(Result::err) {
            match failed {
                // Somebody else was faster.
                Failed::Refused(refused) if refused.code == Code::TopicExists => {}
                failed => eprintln!(
                    "warning: a topic was not created: {}",
                    topics::message(&failed)
                ),
            }
        }
    }
}

/// A topic as it is made when somebody asks for it.
fn missing_topic(context: &Context, name: &str) -> NewTopic {
    if change::is_internal(name) {
        return context.shard.limits.groups.offsets_topic();
    }
    NewTopic {
        name: name.to_owned(),
        partitions: -1,
        replication_factor: -1,
        assignments: Vec::new(),
        configs: Vec::new(),
    }
}

fn look_up(context: &Context, asked: MetadataRequestTopic) -> MetadataResponseTopic {
    let image = context.shard.metadata.image();
    let missing = |error: ErrorCode| {
        MetadataResponseTopic::default()
            .with_error_code(error.code())
            .with_topic_authorized_operations(NOT_ASKED)
    };
    // An id that is given wins: the Java client sends an empty name beside it.
    let name = asked.name.filter(|_| asked.topic_id == KafkaUuid::ZERO);
    match name {
        Some(name) => match image.topic_by_name(name.as_str()) {
            Some(topic) => found(context, topic),
            None => {
                let error = match change::check_name(name.as_str()) {
                    Ok(()) => ErrorCode::UnknownTopicOrPartition,
                    Err(_) => ErrorCode::InvalidTopicException,
                };
                missing(error).with_name(Some(name))
            }
        },
        None if asked.topic_id == KafkaUuid::ZERO => missing(ErrorCode::InvalidRequest),
        None => match image.topic(topics::topic_id(&asked.topic_id)) {
            Some(topic) => found(context, topic),
            None => missing(ErrorCode::UnknownTopicId).with_topic_id(asked.topic_id),
        },
    }
}

fn found(context: &Context, topic: &Topic) -> MetadataResponseTopic {
    let partitions = (0..).zip(&topic.partitions).map(|(index, partition)| {
        let told = topics::told_of(&context.shard, topic, index);
        MetadataResponsePartition::default()
            .with_error_code(told.error_code)
            .with_partition_index(index)
            .with_leader_id(told.leader)
            .with_offline_replicas(told.offline)
            .with_leader_epoch(partition.leader_epoch.0)
            .with_replica_nodes(partition.replicas.clone())
            .with_isr_nodes(partition.in_sync.clone())
    });
    MetadataResponseTopic::default()
        .with_name(Some(KafkaString::from(topic.name.clone())))
        .with_topic_id(topics::uuid(topic.id))
        .with_is_internal(change::is_internal(&topic.name))
        .with_partitions(partitions.collect())
        .with_topic_authorized_operations(NOT_ASKED)
}
