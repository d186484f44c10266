//! ConsumerGroupHeartbeat (KIP-848), by which a member joins, stays and leaves. Knows nothing of the state
//! of a membership.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use wire::messages::ConsumerGroupHeartbeatRequestData;
use wire::messages::consumer_group_heartbeat_request::TopicPartitions;
use wire::messages::consumer_group_heartbeat_response::Assignment;

use super::super::membership::{Answer, ByTopicId, Heard};
use super::group::{Identity, millis};
use super::{checked, code_of, text};
use crate::cluster::Cluster;

/// What a member says of itself; the coordinator remembers it.
#[derive(Clone, Debug)]
pub(crate) struct Introduction {
    /// How long the coordinator waits for this member to give partitions back.
    pub(crate) rebalance_timeout: Duration,
    pub(crate) topics: BTreeSet<Arc<str>>,
    pub(crate) rack: Option<Arc<str>>,
    /// `group.remote.assignor`
    pub(crate) assignor: Option<Arc<str>>,
    pub(crate) owned: ByTopicId,
}

/// Says that the member is alive, or joins, or leaves: as its epoch has it. Without an introduction all is
/// as it was said before.
pub(crate) async fn heartbeat(
    cluster: &Cluster,
    who: &Identity,
    introduction: Option<&Introduction>,
) -> Answer<Heard> {
    let timeout = cluster.config().request_timeout;
    let build = |_| {
        let request = ConsumerGroupHeartbeatRequestData::default()
            .with_group_id(text(&who.group))
            .with_member_id(text(&who.member_id))
            .with_member_epoch(who.generation)
            .with_instance_id(who.instance_id.as_ref().map(|it| text(it)));
        match introduction {
            Some(introduction) => with_all(request, introduction),
            None => request,
        }
    };
    let answer = cluster.send_built(who.route(), timeout, build).await;
    let answer = answer.map_err(|error| code_of(&error))?;
    checked(answer.error_code)?;
    Ok(Heard {
        epoch: answer.member_epoch,
        interval: Duration::from_millis(answer.heartbeat_interval_ms.max(0).unsigned_abs().into()),
        assignment: answer.assignment.map(|it| by_topic_id(*it)),
    })
}

fn with_all(
    request: ConsumerGroupHeartbeatRequestData,
    who: &Introduction,
) -> ConsumerGroupHeartbeatRequestData {
    let owned = who.owned.iter().map(|(topic, partitions)| {
        TopicPartitions::default()
            .with_topic_id(*topic)
            .with_partitions(partitions.iter().copied().collect())
    });
    request
        .with_rebalance_timeout_ms(millis(who.rebalance_timeout))
        .with_subscribed_topic_names(Some(who.topics.iter().map(|it| text(it)).collect()))
        .with_rack_id(who.rack.as_ref().map(|it| text(it)))
        .with_server_assignor(who.assignor.as_ref().map(|it| text(it)))
        .with_topic_partitions(Some(owned.collect()))
}

fn by_topic_id(assignment: Assignment) -> ByTopicId {
    let mut partitions = ByTopicId::new();
    for topic in assignment.topic_partitions {
        if !topic.partitions.is_empty() {
            let of_topic = partitions.entry(topic.topic_id).or_default();
            of_topic.extend(topic.partitions);
        }
    }
    partitions
}
