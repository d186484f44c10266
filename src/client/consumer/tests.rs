//! What a consumer promises, with a cluster that the test makes up: its tasks wait for the test to wait,
//! which it never does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use wire::messages::MetadataResponseData;
use wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::{ErrorCode, KafkaString};

use super::assignors::encode_assignment;
use super::fetch::Fetched;
use super::membership::Joined;
use super::state::{Call, State, Wanted};
use super::{Consumer, TopicPartition};
use crate::cluster::Metadata;
use crate::cluster::metadata::Coverage;
use crate::properties::{AutoOffsetReset, ConsumerConfig};

/// Partitions are of topic `t`.
pub(super) fn at(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

/// A consumer in a group, without automatic commits.
pub(super) fn member() -> Consumer {
    let config = ConsumerConfig {
        group_id: Some("g".into()),
        enable_auto_commit: false,
        ..ConsumerConfig::to("a:1")
    };
    Consumer::new(config).expect("a consumer")
}

/// Takes a member up to its assignment, partition 0 in generation 1, which the next poll is to take.
pub(super) fn give(state: &mut State, now: Instant) {
    let calls = state.subscribe(Wanted::Topics(["t".into()].into()), now);
    let [Call::FindCoordinator(attempt)] = calls[..] else {
        panic!("it looks for the coordinator: {calls:?}");
    };
    state.polled(now);
    let calls = state.coordinator_found(attempt, Ok(7), now);
    let [Call::Join(attempt, ..)] = calls[..] else {
        panic!("it joins: {calls:?}");
    };
    let joined = Joined {
        generation: 1,
        member_id: "me".into(),
        leader_id: "other".into(),
        protocol: "range".into(),
        ..Joined::default()
    };
    let calls = state.joined(attempt, Ok(joined), now);
    let [Call::Sync(attempt, ..)] = calls[..] else {
        panic!("it waits for its assignment: {calls:?}");
    };
    state.synced(attempt, Ok(encode_assignment(&[at(0)])), now);
}

/// Does what the next step of a rebalance asks for.
pub(super) fn take_step(state: &mut State, now: Instant) {
    let work = state.next_work().expect("a step");
    state.work_done(&work, now);
}

/// The group of a member rebalances.
pub(super) fn rebalance(state: &mut State, now: Instant) {
    state.commit_failed(1, ErrorCode::RebalanceInProgress, now);
}

/// Broker 1 leads partition 0.
fn metadata() -> Arc<Metadata> {
    let partition = MetadataResponsePartition::default().with_leader_id(1);
    let topic = MetadataResponseTopic::default()
        .with_name(Some(KafkaString::from_static("t")))
        .with_partitions(vec![partition]);
    let answer = MetadataResponseData::default()
        .with_brokers(vec![MetadataResponseBroker::default().with_node_id(1)])
        .with_topics(vec![topic]);
    Arc::new(Metadata::default().updated(&answer, Coverage::All))
}

/// A consumer that reads partition 0 from offset 5 on, and may not look for another.
fn reader(now: Instant) -> Consumer {
    let config = ConsumerConfig {
        auto_offset_reset: AutoOffsetReset::None,
        ..ConsumerConfig::to("a:1")
    };
    let consumer = Consumer::new(config).expect("a consumer");
    let mut state = consumer.shared.state();
    state.metadata_changed(metadata(), now);
    state.assign(vec![at(0)], now);
    assert!(state.seek(&at(0), 5, None));
    drop(state);
    consumer
}

/// The answer to a fetch of partition 0.
fn refused(error: ErrorCode) -> Result<(i32, Vec<Fetched>), ErrorCode> {
    let fetched = Fetched {
        partition: at(0),
        error,
        high_watermark: -1,
        last_stable_offset: -1,
        log_start: -1,
        aborted: Vec::new(),
        records: Bytes::new(),
    };
    Ok((9, vec![fetched]))
}

#[tokio::test]
async fn a_partition_that_is_refused_for_good_is_fetched_after_a_pause_and_its_error_told_once() {
    let mut now = Instant::now();
    let consumer = reader(now);
    let mut state = consumer.shared.state();
    for (code, name) in [
        (ErrorCode::OffsetOutOfRange, "OFFSET_OUT_OF_RANGE"),
        (
            ErrorCode::TopicAuthorizationFailed,
            "TOPIC_AUTHORIZATION_FAILED",
        ),
    ] {
        for _ in 0..3 {
            let calls = state.tick(now);
            assert!(matches!(calls[..], [Call::Fetch(1, _)]), "{calls:?}");
            let calls = state.fetched(1, refused(code), now);
            assert!(calls.is_empty(), "no pause: {calls:?}");
            now += Duration::from_millis(100);
            assert_eq!(state.next_tick(now - Duration::from_millis(1)), Some(now));
        }
        assert_eq!(
            state.take_fault().map(|error| error.name()),
            Some(name.into())
        );
        assert!(state.take_fault().is_none(), "once");
    }
}

#[tokio::test]
async fn an_error_about_a_partition_is_not_told_after_a_seek_or_another_assignment() {
    let ways: [fn(&mut State, Instant); 3] = [
        |state, _| assert!(state.seek(&at(0), 7, None)),
        |state, _| assert!(state.seek_to(&at(0), AutoOffsetReset::Earliest)),
        |state, now| drop(state.assign(vec![at(1)], now)),
    ];
    for go_on in ways {
        let now = Instant::now();
        let consumer = reader(now);
        let mut state = consumer.shared.state();
        state.tick(now);
        state.fetched(1, refused(ErrorCode::OffsetOutOfRange), now);
        go_on(&mut state, now);
        assert!(state.take_fault().is_none());
    }
}
