//! ConsumerGroupDescribe (API 69, KIP-848). Knows nothing of how a group comes to its state.

use logic::group::request::{ConsumerDescription, DescribedConsumer, Refusal, Reply, Request};
use logic::ids::TopicId;
use wire::KafkaString;
use wire::group_records::Assignment as Partitions;
use wire::messages::ConsumerGroupDescribeRequestData;
use wire::messages::consumer_group_describe_response::{
    Assignment, ConsumerGroupDescribeResponseData, DescribedGroup, Member, TopicPartitions,
};
use wire::response::Response;

use super::groups::{ask, once_each, text};
use super::topics::uuid;
use super::{Context, Handled};

/// The authorised operations when nobody asked for them.
const NOT_ASKED: i32 = i32::MIN;
/// A member's protocol, from version 1 on: the classic one or the new one.
const CLASSIC: i8 = 0;
const CONSUMER: i8 = 1;

/// Answers one request.
pub async fn handle(context: &Context, request: ConsumerGroupDescribeRequestData) -> Handled {
    let mut groups = Vec::with_capacity(request.group_ids.len());
    for id in once_each(request.group_ids) {
        let asked = Request::DescribeConsumers(id.as_str().to_owned());
        let Reply::DescribeConsumers(reply) = ask(context, asked).await else {
            unreachable!("a question about a group is answered by its description");
        };
        groups.push(described(context, id, reply));
    }
    let response = ConsumerGroupDescribeResponseData::default().with_groups(groups);
    context.reply(&Response::ConsumerGroupDescribe(response))
}

fn described(
    context: &Context,
    id: KafkaString,
    reply: Result<ConsumerDescription, Refusal>,
) -> DescribedGroup {
    let group = DescribedGroup::default()
        .with_group_id(id)
        .with_authorized_operations(NOT_ASKED);
    match reply {
        Ok(found) => group
            .with_group_state(KafkaString::from_static(found.state))
            .with_group_epoch(found.epoch)
            .with_assignment_epoch(found.target_epoch)
            .with_assignor_name(KafkaString::from_static(found.assignor))
            .with_members(
                found
                    .members
                    .into_iter()
                    .map(|it| member(context, it))
                    .collect(),
            ),
        Err(refusal) => group
            .with_error_code(refusal.error.code())
            .with_error_message(refusal.message.map(text)),
    }
}

fn member(context: &Context, member: DescribedConsumer) -> Member {
    let said = member.said;
    let member_type = if said.classic.is_some() {
        CLASSIC
    } else {
        CONSUMER
    };
    Member::default()
        .with_member_id(text(member.member_id))
        .with_instance_id(said.instance_id.map(text))
        .with_rack_id(said.rack_id.map(text))
        .with_member_epoch(member.epoch)
        .with_client_id(text(said.client_id))
        .with_client_host(text(said.client_host))
        .with_subscribed_topic_names(said.topic_names.into_iter().map(text).collect())
        .with_subscribed_topic_regex(said.topic_regex.map(text))
        .with_assignment(assignment(context, member.assigned))
        .with_target_assignment(assignment(context, member.target))
        .with_member_type(member_type)
}

/// Partitions by topic; topics that are gone are left out, as they have no name.
fn assignment(context: &Context, partitions: Partitions) -> Assignment {
    let topics = partitions.into_iter().filter_map(|(topic, partitions)| {
        let id = TopicId(topic);
        let name = context.shard.metadata.topic_name(id)?;
        let found = TopicPartitions::default()
            .with_topic_id(uuid(id))
            .with_topic_name(text(name))
            .with_partitions(partitions.into_iter().collect());
        Some(found)
    });
    Assignment::default().with_topic_partitions(topics.collect())
}
