//! ConsumerGroupHeartbeat (API 68, KIP-848). Knows nothing of who may be a member.

use logic::group::request::{ConsumerHeartbeat, ConsumerHeartbeatReply, Refusal, Reply, Request};
use wire::group_records::Assignment as Partitions;
use wire::messages::ConsumerGroupHeartbeatRequestData;
use wire::messages::consumer_group_heartbeat_request as asked;
use wire::messages::consumer_group_heartbeat_response::{
    Assignment, ConsumerGroupHeartbeatResponseData, TopicPartitions,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaString, KafkaUuid};

use super::groups::{ask, client_host, client_id, text};
use super::topics::{topic_id, uuid};
use super::{Context, Handled};

/// From this version on members make their own ids (KIP-1082).
const FIRST_VERSION_WITH_OWN_IDS: i16 = 1;
/// The epoch of a request that joins.
const JOIN: i32 = 0;

/// Answers one request.
pub async fn handle(context: &Context, request: ConsumerGroupHeartbeatRequestData) -> Handled {
    let response = match heartbeat(context, request).await {
        Ok(reply) => ConsumerGroupHeartbeatResponseData::default()
            .with_member_id(Some(text(reply.member_id)))
            .with_member_epoch(reply.epoch)
            .with_heartbeat_interval_ms(reply.heartbeat_interval_ms)
            .with_assignment(reply.assignment.map(given)),
        Err(refusal) => ConsumerGroupHeartbeatResponseData::default()
            .with_error_code(refusal.error.code())
            .with_error_message(refusal.message.map(text)),
    };
    context.reply(&Response::ConsumerGroupHeartbeat(response))
}

async fn heartbeat(
    context: &Context,
    request: ConsumerGroupHeartbeatRequestData,
) -> Result<ConsumerHeartbeatReply, Refusal> {
    let text = |it: &KafkaString| it.as_str().to_owned();
    let mut member_id = text(&request.member_id);
    let joins = request.member_epoch == JOIN;
    if member_id.is_empty() && joins && context.header.api_version < FIRST_VERSION_WITH_OWN_IDS {
        let id = KafkaUuid::random().map_err(|error| {
            eprintln!("error: no random member id: {error}");
            Refusal::from(ErrorCode::CoordinatorNotAvailable)
        })?;
        member_id = id.to_string();
    }
    let names = request.subscribed_topic_names.as_ref();
    let heartbeat = ConsumerHeartbeat {
        group: text(&request.group_id),
        member_id,
        epoch: request.member_epoch,
        instance_id: request.instance_id.as_ref().map(text),
        rack_id: request.rack_id.as_ref().map(text),
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        topic_names: names.map(|names| names.iter().map(text).collect()),
        topic_regex: request.subscribed_topic_regex.as_ref().map(text),
        server_assignor: request.server_assignor.as_ref().map(text),
        owned: request.topic_partitions.as_deref().map(owned),
        client_id: client_id(context),
        client_host: client_host(context),
    };
    let asked = Request::ConsumerHeartbeat(heartbeat);
    let Reply::ConsumerHeartbeat(reply) = ask(context, asked).await else {
        unreachable!("a heartbeat is answered by a heartbeat");
    };
    reply
}

fn owned(topics: &[asked::TopicPartitions]) -> Partitions {
    let mut owned = Partitions::new();
    for topic in topics.iter().filter(|it| !it.partitions.is_empty()) {
        let partitions = owned.entry(topic_id(&topic.topic_id).0).or_default();
        partitions.extend(&topic.partitions);
    }
    owned
}

fn given(partitions: Partitions) -> Box<Assignment> {
    let topics = partitions.into_iter().map(|(topic, partitions)| {
        TopicPartitions::default()
            .with_topic_id(uuid(logic::ids::TopicId(topic)))
            .with_partitions(partitions.into_iter().collect())
    });
    Box::new(Assignment::default().with_topic_partitions(topics.collect()))
}
