//! What is asked of a group's coordinator. Knows nothing of the state of a membership.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use wire::messages::offset_fetch_response::OffsetFetchResponseData;
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    FindCoordinatorRequestData, HeartbeatRequestData, JoinGroupRequestData, LeaveGroupRequestData,
    OffsetCommitRequestData, OffsetFetchRequestData, SyncGroupRequestData,
};
use wire::{ErrorCode, KafkaString};

use super::super::assignors::NO_GENERATION;
use super::super::membership::{Answer, Joined, JoinedMember};
use super::super::offsets::OffsetAndMetadata;
use super::super::partition::{TopicPartition, by_topic};
use super::{checked, code_of, text};
use crate::cluster::{Cluster, Route};

const PROTOCOL_TYPE: &str = "consumer";

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) coordinator: i32,
    pub(crate) group: Arc<str>,
    pub(crate) member_id: Arc<str>,
    pub(crate) generation: i32,
    pub(crate) instance_id: Option<Arc<str>>,
    /// Whether the generation is a member epoch (KIP-848), by which look-ups of offsets are checked, too.
    pub(crate) has_epoch: bool,
}

impl Identity {
    /// Versions before static members (KIP-345) have no field for the instance.
    fn instance(&self, since: i16, version: i16) -> Option<KafkaString> {
        let instance = self.instance_id.as_ref().filter(|_| version >= since);
        instance.map(|instance| text(instance))
    }

    pub(super) fn route(&self) -> Route {
        Route::Coordinator(self.coordinator)
    }
}

/// What a JoinGroup says besides who asks.
#[derive(Clone, Debug)]
pub(crate) struct Joining {
    pub(crate) session_timeout: Duration,
    pub(crate) rebalance_timeout: Duration,
    /// Each assignor's name and subscription.
    pub(crate) protocols: Vec<(&'static str, Bytes)>,
}

/// Finds the coordinator: its node id.
pub(crate) async fn find_coordinator(cluster: &Cluster, group: &str) -> Answer<i32> {
    let timeout = cluster.config().request_timeout;
    let build = |version| coordinator_request(group, version);
    let answer = cluster.send_built(Route::Any, timeout, build).await;
    let answer = answer.map_err(|error| code_of(&error))?;
    let (code, node) = match answer.coordinators.first() {
        Some(coordinator) => (coordinator.error_code, coordinator.node_id),
        None => (answer.error_code, answer.node_id),
    };
    checked(code)?;
    if !cluster.metadata().brokers.contains_key(&node) {
        let refreshed = cluster.refresh().await;
        refreshed.map_err(|error| code_of(&error))?;
    }
    Ok(node)
}

/// Asks who coordinates a group.
pub(crate) fn coordinator_request(group: &str, version: i16) -> FindCoordinatorRequestData {
    match version {
        0..4 => FindCoordinatorRequestData::default().with_key(text(group)),
        _ => FindCoordinatorRequestData::default().with_coordinator_keys(vec![text(group)]),
    }
}

/// Joins. An error comes with the member id of the answer.
pub(crate) async fn join(
    cluster: &Cluster,
    who: &Identity,
    joining: &Joining,
) -> Result<Joined, (ErrorCode, Arc<str>)> {
    // The coordinator answers when all have joined, or the rebalance timed out.
    let timeout = joining.rebalance_timeout + Duration::from_secs(5);
    let timeout = timeout.max(cluster.config().request_timeout);
    let protocol = |(name, metadata): &(&'static str, Bytes)| {
        JoinGroupRequestProtocol::default()
            .with_name(KafkaString::from_static(name))
            .with_metadata(metadata.clone())
    };
    let build = |version| {
        JoinGroupRequestData::default()
            .with_group_id(text(&who.group))
            .with_session_timeout_ms(millis(joining.session_timeout))
            .with_rebalance_timeout_ms(millis(joining.rebalance_timeout))
            .with_member_id(text(&who.member_id))
            .with_group_instance_id(who.instance(5, version))
            .with_protocol_type(KafkaString::from_static(PROTOCOL_TYPE))
            .with_protocols(joining.protocols.iter().map(protocol).collect())
    };
    let answer = cluster.send_built(who.route(), timeout, build).await;
    let answer = answer.map_err(|error| (code_of(&error), Arc::from("")))?;
    let member_id: Arc<str> = answer.member_id.as_str().into();
    checked(answer.error_code).map_err(|code| (code, member_id.clone()))?;
    let protocol_type = answer.protocol_type.as_ref();
    if protocol_type.is_some_and(|it| it.as_str() != PROTOCOL_TYPE) {
        return Err((ErrorCode::InconsistentGroupProtocol, member_id));
    }
    let members = answer.members.into_iter().map(|member| JoinedMember {
        id: member.member_id.as_str().into(),
        instance_id: member.group_instance_id.map(|it| it.as_str().into()),
        metadata: member.metadata,
    });
    Ok(Joined {
        generation: answer.generation_id,
        member_id,
        leader_id: answer.leader.as_str().into(),
        protocol: answer
            .protocol_name
            .map_or("".into(), |it| it.as_str().into()),
        skip_assignment: answer.skip_assignment,
        members: members.collect(),
    })
}

/// Waits for the leader's assignment (or sends it, as the leader).
pub(crate) async fn sync(
    cluster: &Cluster,
    who: &Identity,
    rebalance_timeout: Duration,
    protocol: &str,
    assignments: Vec<(Arc<str>, Bytes)>,
) -> Answer<Bytes> {
    let timeout =
        (rebalance_timeout + Duration::from_secs(5)).max(cluster.config().request_timeout);
    let assignments = assignments.into_iter().map(|(member, assignment)| {
        SyncGroupRequestAssignment::default()
            .with_member_id(text(&member))
            .with_assignment(assignment)
    });
    let build = |version| {
        let named = version >= 5;
        SyncGroupRequestData::default()
            .with_group_id(text(&who.group))
            .with_generation_id(who.generation)
            .with_member_id(text(&who.member_id))
            .with_group_instance_id(who.instance(3, version))
            .with_protocol_type(named.then(|| KafkaString::from_static(PROTOCOL_TYPE)))
            .with_protocol_name(named.then(|| text(protocol)))
            .with_assignments(assignments.collect())
    };
    let answer = cluster.send_built(who.route(), timeout, build).await;
    let answer = answer.map_err(|error| code_of(&error))?;
    checked(answer.error_code)?;
    Ok(answer.assignment)
}

/// Says that the member is alive.
pub(crate) async fn heartbeat(cluster: &Cluster, who: &Identity) -> Answer<()> {
    let timeout = cluster.config().request_timeout;
    let build = |version| {
        HeartbeatRequestData::default()
            .with_group_id(text(&who.group))
            .with_generation_id(who.generation)
            .with_member_id(text(&who.member_id))
            .with_group_instance_id(who.instance(3, version))
    };
    let answer = cluster.send_built(who.route(), timeout, build).await;
    checked(answer.map_err(|error| code_of(&error))?.error_code)
}

/// Leaves. Whether the coordinator heard it does not matter: the session ends anyway.
pub(crate) async fn leave(cluster: &Cluster, who: &Identity, reason: &'static str) {
    let timeout = cluster.config().request_timeout;
    let build = |version| {
        let request = LeaveGroupRequestData::default().with_group_id(text(&who.group));
        if version < 3 {
            return request.with_member_id(text(&who.member_id));
        }
        let reason = (version >= 5).then(|| KafkaString::from_static(reason));
        let member = MemberIdentity::default()
            .with_member_id(text(&who.member_id))
            .with_reason(reason);
        request.with_members(vec![member])
    };
    let _ = cluster.send_built(who.route(), timeout, build).await;
}

/// Commits offsets: each partition's answer.
pub(crate) async fn commit(
    cluster: &Cluster,
    who: &Identity,
    offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>,
) -> Answer<Vec<(TopicPartition, ErrorCode)>> {
    let timeout = cluster.config().request_timeout;
    let build = |version| commit_request(who, offsets, version);
    let answer = cluster.send_built(who.route(), timeout, build).await;
    let answer = answer.map_err(|error| code_of(&error))?;
    let codes = answer.topics.into_iter().flat_map(|topic| {
        let name: Arc<str> = topic.name.as_str().into();
        topic.partitions.into_iter().map(move |it| {
            let at = TopicPartition::new(name.clone(), it.partition_index);
            (at, ErrorCode::from(it.error_code))
        })
    });
    Ok(codes.collect())
}

/// A commit of offsets.
pub(crate) fn commit_request(
    who: &Identity,
    offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>,
    version: i16,
) -> OffsetCommitRequestData {
    let topics = by_topic(offsets.iter().map(|(at, offset)| (at.clone(), offset)));
    let topics = topics.into_iter().map(|(topic, partitions)| {
        let partitions = partitions.into_iter().map(|(partition, offset)| {
            let epoch = offset.leader_epoch.filter(|_| version >= 6).unwrap_or(-1);
            OffsetCommitRequestPartition::default()
                .with_partition_index(partition)
                .with_committed_offset(offset.offset)
                .with_committed_leader_epoch(epoch)
                .with_committed_metadata(Some(text(&offset.metadata)))
        });
        OffsetCommitRequestTopic::default()
            .with_name(text(&topic))
            .with_partitions(partitions.collect())
    });
    OffsetCommitRequestData::default()
        .with_group_id(text(&who.group))
        .with_generation_id_or_member_epoch(who.generation)
        .with_member_id(text(&who.member_id))
        .with_group_instance_id(who.instance(7, version))
        .with_topics(topics.collect())
}

/// Committed offsets by partition; those without are left out.
pub(crate) type Committed = BTreeMap<TopicPartition, OffsetAndMetadata>;

/// Looks committed offsets up, stable ones (KIP-447): not while a transaction may still change them.
pub(crate) async fn committed(
    cluster: &Cluster,
    who: &Identity,
    partitions: &[TopicPartition],
) -> Answer<Committed> {
    let timeout = cluster.config().request_timeout;
    let build = |version: i16| {
        let topics = by_topic(partitions.iter().map(|at| (at.clone(), ())));
        let topics = topics.into_iter();
        let request = OffsetFetchRequestData::default().with_require_stable(version >= 7);
        if version < 8 {
            let topics = topics.map(|(topic, partitions)| {
                OffsetFetchRequestTopic::default()
                    .with_name(text(&topic))
                    .with_partition_indexes(partitions.into_keys().collect())
            });
            return request
                .with_group_id(text(&who.group))
                .with_topics(Some(topics.collect()));
        }
        let topics = topics.map(|(topic, partitions)| {
            OffsetFetchRequestTopics::default()
                .with_name(text(&topic))
                .with_partition_indexes(partitions.into_keys().collect())
        });
        let mut group = OffsetFetchRequestGroup::default()
            .with_group_id(text(&who.group))
            .with_topics(Some(topics.collect()));
        if version >= 9 && who.has_epoch && who.generation != NO_GENERATION {
            group.member_id = Some(text(&who.member_id));
            group.member_epoch = who.generation;
        }
        request.with_groups(vec![group])
    };
    let answer = cluster.send_built(who.route(), timeout, build).await;
    read_committed(answer.map_err(|error| code_of(&error))?)
}

/// What an answer says; its first error, if any.
pub(crate) fn read_committed(answer: OffsetFetchResponseData) -> Answer<Committed> {
    checked(answer.error_code)?;
    let mut rows = Vec::new();
    for topic in answer.topics {
        let name: Arc<str> = topic.name.as_str().into();
        rows.extend(topic.partitions.into_iter().map(|it| {
            let at = TopicPartition::new(name.clone(), it.partition_index);
            let (offset, epoch) = (it.committed_offset, it.committed_leader_epoch);
            (at, it.error_code, offset, epoch, it.metadata)
        }));
    }
    for group in answer.groups {
        checked(group.error_code)?;
        for topic in group.topics {
            let name: Arc<str> = topic.name.as_str().into();
            rows.extend(topic.partitions.into_iter().map(|it| {
                let at = TopicPartition::new(name.clone(), it.partition_index);
                let (offset, epoch) = (it.committed_offset, it.committed_leader_epoch);
                (at, it.error_code, offset, epoch, it.metadata)
            }));
        }
    }
    let mut committed = Committed::new();
    for (at, code, offset, epoch, metadata) in rows {
        checked(code)?;
        if offset >= 0 {
            let found = OffsetAndMetadata {
                offset,
                leader_epoch: Some(epoch).filter(|epoch| *epoch >= 0),
                metadata: metadata.map_or_else(String::new, |it| it.to_string()),
            };
            committed.insert(at, found);
        }
    }
    Ok(committed)
}

pub(super) fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
