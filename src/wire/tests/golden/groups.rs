//! The group APIs at every version against an independent codec. Knows nothing of groups.

use wire::messages::find_coordinator_response::Coordinator;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::join_group_response::JoinGroupResponseMember;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::leave_group_response::MemberResponse;
use wire::messages::list_groups_response::ListedGroup;
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    consumer_group_describe_response as consumers, consumer_group_heartbeat_request as beat,
    consumer_group_heartbeat_response as beaten, delete_groups_response as deleted,
    describe_groups_response as described, offset_commit_request as commit,
    offset_commit_response as committed, offset_delete_request as delete,
    offset_delete_response as gone, offset_fetch_request as fetch,
    offset_fetch_response as fetched,
};

use super::*;

#[test]
fn find_coordinator() {
    check::<theirs::FindCoordinatorRequest, theirs::FindCoordinatorResponse>(
        ApiKey::FindCoordinator,
        6,
        |version| {
            let request = FindCoordinatorRequestData::default();
            match version {
                0..=3 => request.with_key(s("g")).into(),
                _ => request.with_coordinator_keys(vec![s("g"), s("h")]).into(),
            }
        },
        |version| {
            let response = FindCoordinatorResponseData::default();
            match version {
                0..=3 => response
                    .with_node_id(1)
                    .with_host(s("host"))
                    .with_port(9092)
                    .into(),
                _ => response
                    .with_coordinators(vec![
                        Coordinator::default()
                            .with_key(s("g"))
                            .with_node_id(1)
                            .with_host(s("host"))
                            .with_port(9092),
                    ])
                    .into(),
            }
        },
    );
}

#[test]
fn join_group() {
    check::<theirs::JoinGroupRequest, theirs::JoinGroupResponse>(
        ApiKey::JoinGroup,
        9,
        |version| {
            let mut request = JoinGroupRequestData::default()
                .with_group_id(s("g"))
                .with_session_timeout_ms(45_000)
                .with_member_id(s("m"))
                .with_protocol_type(s("consumer"))
                .with_protocols(vec![
                    JoinGroupRequestProtocol::default()
                        .with_name(s("range"))
                        .with_metadata(Bytes::from_static(b"wants")),
                ]);
            if version >= 1 {
                request.rebalance_timeout_ms = 300_000;
            }
            if version >= 5 {
                request.group_instance_id = some("i");
            }
            if version >= 8 {
                request.reason = some("because");
            }
            request.into()
        },
        |version| {
            JoinGroupResponseData::default()
                .with_generation_id(3)
                .with_protocol_type(some("consumer"))
                .with_protocol_name(some("range"))
                .with_leader(s("m"))
                .with_skip_assignment(version >= 9)
                .with_member_id(s("m"))
                .with_members(vec![
                    JoinGroupResponseMember::default()
                        .with_member_id(s("m"))
                        .with_group_instance_id(some("i"))
                        .with_metadata(Bytes::from_static(b"wants")),
                ])
                .into()
        },
    );
}

#[test]
fn sync_group() {
    check::<theirs::SyncGroupRequest, theirs::SyncGroupResponse>(
        ApiKey::SyncGroup,
        5,
        |version| {
            let mut request = SyncGroupRequestData::default()
                .with_group_id(s("g"))
                .with_generation_id(3)
                .with_member_id(s("m"))
                .with_assignments(vec![
                    SyncGroupRequestAssignment::default()
                        .with_member_id(s("m"))
                        .with_assignment(Bytes::from_static(b"gets")),
                ]);
            if version >= 3 {
                request.group_instance_id = some("i");
            }
            if version >= 5 {
                request.protocol_type = some("consumer");
                request.protocol_name = some("range");
            }
            request.into()
        },
        |_| {
            SyncGroupResponseData::default()
                .with_protocol_type(some("consumer"))
                .with_protocol_name(some("range"))
                .with_assignment(Bytes::from_static(b"gets"))
                .into()
        },
    );
}

#[test]
fn heartbeat() {
    check::<theirs::HeartbeatRequest, theirs::HeartbeatResponse>(
        ApiKey::Heartbeat,
        4,
        |version| {
            let mut request = HeartbeatRequestData::default()
                .with_group_id(s("g"))
                .with_generation_id(3)
                .with_member_id(s("m"));
            if version >= 3 {
                request.group_instance_id = some("i");
            }
            request.into()
        },
        |_| HeartbeatResponseData::default().with_error_code(27).into(),
    );
}

#[test]
fn leave_group() {
    check::<theirs::LeaveGroupRequest, theirs::LeaveGroupResponse>(
        ApiKey::LeaveGroup,
        5,
        |version| {
            let request = LeaveGroupRequestData::default().with_group_id(s("g"));
            if version < 3 {
                return request.with_member_id(s("m")).into();
            }
            let mut member = MemberIdentity::default()
                .with_member_id(s("m"))
                .with_group_instance_id(some("i"));
            if version >= 5 {
                member.reason = some("because");
            }
            request.with_members(vec![member]).into()
        },
        |version| {
            let response = LeaveGroupResponseData::default();
            if version < 3 {
                return response.with_error_code(25).into();
            }
            let member = MemberResponse::default()
                .with_member_id(s("m"))
                .with_group_instance_id(some("i"))
                .with_error_code(25);
            response.with_members(vec![member]).into()
        },
    );
}

#[test]
fn offset_commit() {
    check::<theirs::OffsetCommitRequest, theirs::OffsetCommitResponse>(
        ApiKey::OffsetCommit,
        9,
        |version| {
            let mut partition = commit::OffsetCommitRequestPartition::default()
                .with_partition_index(2)
                .with_committed_offset(77)
                .with_committed_metadata(some("so far"));
            if version >= 6 {
                partition.committed_leader_epoch = 4;
            }
            let topic =
                commit::OffsetCommitRequestTopic::default().with_partitions(vec![partition]);
            let topic = match version {
                0..=9 => topic.with_name(s("t")),
                _ => topic.with_topic_id(uuid()),
            };
            let mut request = OffsetCommitRequestData::default()
                .with_group_id(s("g"))
                .with_generation_id_or_member_epoch(3)
                .with_member_id(s("m"))
                .with_topics(vec![topic]);
            if version <= 4 {
                request.retention_time_ms = 1_000;
            }
            if version >= 7 {
                request.group_instance_id = some("i");
            }
            request.into()
        },
        |version| {
            let partition = committed::OffsetCommitResponsePartition::default()
                .with_partition_index(2)
                .with_error_code(22);
            let topic =
                committed::OffsetCommitResponseTopic::default().with_partitions(vec![partition]);
            let topic = match version {
                0..=9 => topic.with_name(s("t")),
                _ => topic.with_topic_id(uuid()),
            };
            OffsetCommitResponseData::default()
                .with_topics(vec![topic])
                .into()
        },
    );
}

fn fetch_request(version: i16) -> Request {
    let request = OffsetFetchRequestData::default().with_require_stable(version >= 7);
    if version < 8 {
        let topic = fetch::OffsetFetchRequestTopic::default()
            .with_name(s("t"))
            .with_partition_indexes(vec![2]);
        let request = request.with_group_id(s("g"));
        return request.with_topics(Some(vec![topic])).into();
    }
    let topic = fetch::OffsetFetchRequestTopics::default().with_partition_indexes(vec![2]);
    let topic = match version {
        8..=9 => topic.with_name(s("t")),
        _ => topic.with_topic_id(uuid()),
    };
    let mut group = fetch::OffsetFetchRequestGroup::default()
        .with_group_id(s("g"))
        .with_topics(Some(vec![topic]));
    if version >= 9 {
        (group.member_id, group.member_epoch) = (some("m"), 3);
    }
    let all = fetch::OffsetFetchRequestGroup::default()
        .with_group_id(s("h"))
        .with_topics(None);
    request.with_groups(vec![group, all]).into()
}

fn fetch_response(version: i16) -> Response {
    let response = OffsetFetchResponseData::default();
    if version < 8 {
        let partition = fetched::OffsetFetchResponsePartition::default()
            .with_partition_index(2)
            .with_committed_offset(77)
            .with_committed_leader_epoch(4)
            .with_metadata(some("so far"));
        let topic = fetched::OffsetFetchResponseTopic::default()
            .with_name(s("t"))
            .with_partitions(vec![partition]);
        return response.with_topics(vec![topic]).into();
    }
    let partition = fetched::OffsetFetchResponsePartitions::default()
        .with_partition_index(2)
        .with_committed_offset(77)
        .with_committed_leader_epoch(4)
        .with_metadata(some("so far"));
    let topic = fetched::OffsetFetchResponseTopics::default().with_partitions(vec![partition]);
    let topic = match version {
        8..=9 => topic.with_name(s("t")),
        _ => topic.with_topic_id(uuid()),
    };
    let group = fetched::OffsetFetchResponseGroup::default()
        .with_group_id(s("g"))
        .with_topics(vec![topic]);
    response.with_groups(vec![group]).into()
}

#[test]
fn offset_fetch() {
    check::<theirs::OffsetFetchRequest, theirs::OffsetFetchResponse>(
        ApiKey::OffsetFetch,
        9,
        fetch_request,
        fetch_response,
    );
}

#[test]
fn offset_delete() {
    check::<theirs::OffsetDeleteRequest, theirs::OffsetDeleteResponse>(
        ApiKey::OffsetDelete,
        0,
        |_| {
            let partition = delete::OffsetDeleteRequestPartition::default().with_partition_index(2);
            let topic = delete::OffsetDeleteRequestTopic::default()
                .with_name(s("t"))
                .with_partitions(vec![partition]);
            OffsetDeleteRequestData::default()
                .with_group_id(s("g"))
                .with_topics(vec![topic])
                .into()
        },
        |_| {
            let partition = gone::OffsetDeleteResponsePartition::default()
                .with_partition_index(2)
                .with_error_code(86);
            let topic = gone::OffsetDeleteResponseTopic::default()
                .with_name(s("t"))
                .with_partitions(vec![partition]);
            OffsetDeleteResponseData::default()
                .with_topics(vec![topic])
                .into()
        },
    );
}

#[test]
fn describe_groups() {
    check::<theirs::DescribeGroupsRequest, theirs::DescribeGroupsResponse>(
        ApiKey::DescribeGroups,
        6,
        |version| {
            DescribeGroupsRequestData::default()
                .with_groups(vec![s("g")])
                .with_include_authorized_operations(version >= 3)
                .into()
        },
        |version| {
            let member = described::DescribedGroupMember::default()
                .with_member_id(s("m"))
                .with_group_instance_id(some("i"))
                .with_client_id(s("client"))
                .with_client_host(s("/host"))
                .with_member_metadata(Bytes::from_static(b"wants"))
                .with_member_assignment(Bytes::from_static(b"gets"));
            let mut group = described::DescribedGroup::default()
                .with_group_id(s("g"))
                .with_group_state(s("Stable"))
                .with_protocol_type(s("consumer"))
                .with_protocol_data(s("range"))
                .with_members(vec![member]);
            if version >= 6 {
                group.error_message = some("what");
            }
            DescribeGroupsResponseData::default()
                .with_groups(vec![group])
                .into()
        },
    );
}

#[test]
fn list_groups() {
    check::<theirs::ListGroupsRequest, theirs::ListGroupsResponse>(
        ApiKey::ListGroups,
        5,
        |version| {
            let mut request = ListGroupsRequestData::default();
            if version >= 4 {
                request.states_filter = vec![s("Stable")];
            }
            if version >= 5 {
                request.types_filter = vec![s("classic")];
            }
            request.into()
        },
        |_| {
            let group = ListedGroup::default()
                .with_group_id(s("g"))
                .with_protocol_type(s("consumer"))
                .with_group_state(s("Stable"))
                .with_group_type(s("classic"));
            ListGroupsResponseData::default()
                .with_groups(vec![group])
                .into()
        },
    );
}

#[test]
fn delete_groups() {
    check::<theirs::DeleteGroupsRequest, theirs::DeleteGroupsResponse>(
        ApiKey::DeleteGroups,
        2,
        |_| {
            DeleteGroupsRequestData::default()
                .with_groups_names(vec![s("g")])
                .into()
        },
        |_| {
            let group = deleted::DeletableGroupResult::default()
                .with_group_id(s("g"))
                .with_error_code(68);
            DeleteGroupsResponseData::default()
                .with_results(vec![group])
                .into()
        },
    );
}

#[test]
fn consumer_group_heartbeat() {
    check::<theirs::ConsumerGroupHeartbeatRequest, theirs::ConsumerGroupHeartbeatResponse>(
        ApiKey::ConsumerGroupHeartbeat,
        1,
        |version| {
            let owned = beat::TopicPartitions::default()
                .with_topic_id(uuid())
                .with_partitions(vec![0, 5]);
            let mut request = ConsumerGroupHeartbeatRequestData::default()
                .with_group_id(s("g"))
                .with_member_id(s("m"))
                .with_member_epoch(7)
                .with_instance_id(some("i"))
                .with_rack_id(some("r"))
                .with_rebalance_timeout_ms(300_000)
                .with_subscribed_topic_names(Some(vec![s("t")]))
                .with_server_assignor(some("uniform"))
                .with_topic_partitions(Some(vec![owned]));
            if version >= 1 {
                request.subscribed_topic_regex = some("t.*");
            }
            request.into()
        },
        |_| {
            let given = beaten::TopicPartitions::default()
                .with_topic_id(uuid())
                .with_partitions(vec![1, 2]);
            let assignment = beaten::Assignment::default().with_topic_partitions(vec![given]);
            ConsumerGroupHeartbeatResponseData::default()
                .with_error_code(110)
                .with_error_message(some("what"))
                .with_member_id(some("m"))
                .with_member_epoch(8)
                .with_heartbeat_interval_ms(5_000)
                .with_assignment(Some(Box::new(assignment)))
                .into()
        },
    );
}

#[test]
fn a_consumer_s_heartbeat_that_says_nothing_is_not_one_that_says_it_has_nothing() {
    let owned = |owned: Option<Vec<beat::TopicPartitions>>| {
        let request = ConsumerGroupHeartbeatRequestData::default().with_topic_partitions(owned);
        let frame = Request::from(request).encode(1, 1, None).expect("encodes");
        let mut rest = frame.freeze().slice(4..);
        let header = header::decode(&mut rest).expect("a header");
        match Request::decode(&header, rest).expect("a body") {
            Request::ConsumerGroupHeartbeat(request) => request.topic_partitions,
            other => panic!("another request: {other:?}"),
        }
    };
    assert_eq!(owned(None), None);
    assert_eq!(owned(Some(Vec::new())), Some(Vec::new()));
}

#[test]
fn consumer_group_describe() {
    check::<theirs::ConsumerGroupDescribeRequest, theirs::ConsumerGroupDescribeResponse>(
        ApiKey::ConsumerGroupDescribe,
        1,
        |_| {
            ConsumerGroupDescribeRequestData::default()
                .with_group_ids(vec![s("g")])
                .with_include_authorized_operations(true)
                .into()
        },
        |version| {
            let has = |index| {
                let partitions = consumers::TopicPartitions::default()
                    .with_topic_id(uuid())
                    .with_topic_name(s("t"))
                    .with_partitions(vec![index]);
                consumers::Assignment::default().with_topic_partitions(vec![partitions])
            };
            let mut member = consumers::Member::default()
                .with_member_id(s("m"))
                .with_instance_id(some("i"))
                .with_rack_id(some("r"))
                .with_member_epoch(7)
                .with_client_id(s("client"))
                .with_client_host(s("/host"))
                .with_subscribed_topic_names(vec![s("t")])
                .with_subscribed_topic_regex(some("t.*"))
                .with_assignment(has(0))
                .with_target_assignment(has(1));
            if version >= 1 {
                member.member_type = 1;
            }
            let group = consumers::DescribedGroup::default()
                .with_error_message(some("what"))
                .with_group_id(s("g"))
                .with_group_state(s("Reconciling"))
                .with_group_epoch(8)
                .with_assignment_epoch(8)
                .with_assignor_name(s("uniform"))
                .with_members(vec![member]);
            ConsumerGroupDescribeResponseData::default()
                .with_groups(vec![group])
                .into()
        },
    );
}
