//! Requests that a client sends without waiting for answers: each sees what those before it have done, and
//! small ones have small answers. Knows the broker as a process and its frames.

mod broker;

use std::time::{Duration, Instant};

use broker::{Broker, DataDir};
use client::direct::Connection;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use wire::messages::{
    FetchRequestData, FindCoordinatorRequestData, MetadataRequestData, OffsetCommitRequestData,
    OffsetFetchRequestData,
};
use wire::request::Request;
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

const TOPIC: &str = "topic";
const GROUP: &str = "group";
const FIND_COORDINATOR: i16 = 3;
const COMMIT: i16 = 7;
const FETCH_OFFSETS: i16 = 7;
const FETCH: i16 = 12;
const METADATA: i16 = 8;

async fn connected(broker: &Broker) -> Connection {
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    let created = connection.create_topic(TOPIC, 1, &[]).await;
    created.expect("the topic is created");
    connection
}

/// Looks for the group's coordinator until it is there.
async fn with_coordinator(connection: &mut Connection) {
    loop {
        let request = FindCoordinatorRequestData::default().with_key(text(GROUP));
        let request = Request::FindCoordinator(request);
        let found = connection.call(FIND_COORDINATOR, &request).await;
        let Response::FindCoordinator(found) = found.expect("answered") else {
            panic!("another answer");
        };
        if found.error_code == ErrorCode::None.code() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn text(text: &'static str) -> KafkaString {
    KafkaString::from_static(text)
}

fn commit(offset: i64) -> Request {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(0)
        .with_committed_offset(offset)
        .with_committed_leader_epoch(-1);
    let topic = OffsetCommitRequestTopic::default()
        .with_name(text(TOPIC))
        .with_partitions(vec![partition]);
    let request = OffsetCommitRequestData::default()
        .with_group_id(text(GROUP))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    Request::OffsetCommit(request)
}

fn fetch_offsets() -> Request {
    let topic = OffsetFetchRequestTopic::default()
        .with_name(text(TOPIC))
        .with_partition_indexes(vec![0]);
    let request = OffsetFetchRequestData::default()
        .with_group_id(text(GROUP))
        .with_topics(Some(vec![topic]));
    Request::OffsetFetch(request)
}

#[tokio::test]
async fn a_fetch_of_offsets_sees_the_commit_that_was_sent_before_it() {
    let data = DataDir::new("commit-then-fetch");
    let broker = Broker::start(&data, 2).await;
    let mut connection = connected(&broker).await;
    with_coordinator(&mut connection).await;
    let mut offset = 0;
    while offset < 50 {
        let sent = connection.ask(COMMIT, &commit(offset)).await;
        sent.expect("sent");
        let sent = connection.ask(FETCH_OFFSETS, &fetch_offsets()).await;
        sent.expect("sent");
        let Response::OffsetCommit(committed) = connection.answer().await.expect("answered") else {
            panic!("another answer");
        };
        let Response::OffsetFetch(fetched) = connection.answer().await.expect("answered") else {
            panic!("another answer");
        };
        let error = committed.topics[0].partitions[0].error_code;
        if error == ErrorCode::CoordinatorLoadInProgress.code() {
            continue;
        }
        assert_eq!(error, ErrorCode::None.code());
        let found = fetched.topics[0].partitions[0].committed_offset;
        assert_eq!(found, offset);
        offset += 1;
    }
    broker.terminate();
}

#[tokio::test]
async fn a_fetch_of_no_partition_is_answered_at_once() {
    let data = DataDir::new("fetch-of-nothing");
    let broker = Broker::start(&data, 1).await;
    let mut connection = connected(&broker).await;
    let request = FetchRequestData::default()
        .with_replica_id(-1)
        .with_max_wait_ms(20_000)
        .with_min_bytes(1)
        .with_max_bytes(1)
        .with_session_epoch(-1);
    let begun = Instant::now();
    let answer = connection.call(FETCH, &Request::Fetch(request)).await;
    assert!(matches!(answer, Ok(Response::Fetch(_))));
    assert!(begun.elapsed() < Duration::from_secs(10));
    broker.terminate();
}

#[tokio::test]
async fn a_topic_that_is_named_often_is_described_once() {
    let data = DataDir::new("named-often");
    let broker = Broker::start(&data, 1).await;
    let mut connection = connected(&broker).await;
    let topic = MetadataRequestTopic::default().with_name(Some(text(TOPIC)));
    let request = MetadataRequestData::default().with_topics(Some(vec![topic; 1_000]));
    let answer = connection.call(METADATA, &Request::Metadata(request)).await;
    let Ok(Response::Metadata(answer)) = answer else {
        panic!("another answer");
    };
    assert_eq!(answer.topics.len(), 1);
    broker.terminate();
}
