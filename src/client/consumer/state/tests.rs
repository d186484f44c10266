//! What the group asks of polls, step by step, by the consumer protocol, with a coordinator and metadata
//! that the test makes up.

use wire::messages::MetadataResponseData;
use wire::messages::metadata_response::MetadataResponseTopic;
use wire::{KafkaString, KafkaUuid};

use super::*;
use crate::cluster::metadata::Coverage;
use crate::consumer::membership::{ByTopicId, Heard};

const BIRDS: KafkaUuid = KafkaUuid::from_parts(7, 1);

fn given(partitions: &[i32]) -> ByTopicId {
    ByTopicId::from([(BIRDS, partitions.iter().copied().collect())])
}

fn heard(epoch: i32, partitions: &[i32]) -> Heard {
    Heard {
        epoch,
        interval: Duration::from_secs(5),
        assignment: Some(given(partitions)),
    }
}

fn metadata() -> Arc<Metadata> {
    let topic = MetadataResponseTopic::default()
        .with_name(Some(KafkaString::from_static("birds")))
        .with_topic_id(BIRDS);
    let answer = MetadataResponseData::default().with_topics(vec![topic]);
    Arc::new(Metadata::default().updated(&answer, Coverage::All))
}

/// The one heartbeat among the calls.
fn heartbeat(calls: Vec<Call>) -> (Attempt, Identity, Option<Introduction>) {
    let mut heartbeats = calls.into_iter().filter_map(|call| match call {
        Call::ConsumerHeartbeat(attempt, who, introduction) => Some((attempt, who, introduction)),
        _ => None,
    });
    let heartbeat = heartbeats.next().expect("a heartbeat");
    assert!(heartbeats.next().is_none(), "one heartbeat");
    heartbeat
}

/// A member that was given one partition of a topic that it knows by its id.
fn member(now: Instant) -> State {
    let config = ConsumerConfig {
        group_id: Some("watchers".into()),
        group_remote_assignor: Some("range".into()),
        ..ConsumerConfig::to("a:1")
    };
    let protocol = Protocol::Consumer("me".into());
    let mut state = State::new(Arc::new(config), protocol, 0.5, || 0, now);
    let calls = state.subscribe(Wanted::Topics(["birds".into()].into()), now);
    let [Call::FindCoordinator(attempt)] = calls[..] else {
        panic!("it looks for the coordinator: {calls:?}");
    };
    state.polled(now);
    let calls = state.coordinator_found(attempt, Ok(7), now);
    let (attempt, who, introduction) = heartbeat(calls);
    let introduction = introduction.expect("it says everything");
    assert_eq!((who.generation, &*who.member_id), (0, "me"));
    assert_eq!(introduction.topics, BTreeSet::from(["birds".into()]));
    assert_eq!(introduction.assignor.as_deref(), Some("range"));
    let calls = state.heard(attempt, Ok(heard(1, &[0])), now);
    assert!(matches!(calls[..], [Call::RefreshMetadata]), "{calls:?}");
    state
}

#[test]
fn what_is_given_by_topic_id_waits_for_the_topic_s_name() {
    let now = Instant::now();
    let mut state = member(now);
    assert_eq!(state.next_work(), None);
    let calls = state.metadata_changed(Arc::default(), now);
    assert!(matches!(calls[..], [Call::RefreshMetadata]), "{calls:?}");
    state.metadata_changed(metadata(), now);
    let work = state.next_work().expect("now it has one");
    assert_eq!(
        work.step,
        Step::Assign(vec![TopicPartition::new("birds", 0)])
    );
}

#[test]
fn a_step_that_a_poll_did_not_get_through_is_the_next_poll_s() {
    let now = Instant::now();
    let mut state = member(now);
    state.metadata_changed(metadata(), now);
    let work = state.next_work().expect("a step");
    assert_eq!(state.next_work().as_ref(), Some(&work));
    let (_, who, introduction) = heartbeat(state.work_done(&work, now));
    assert_eq!(who.generation, 1);
    assert_eq!(introduction.map(|it| it.owned), Some(given(&[0])));
    assert_eq!(state.next_work(), None);
}

#[test]
fn what_was_given_is_given_up_when_the_member_was_put_out_meanwhile() {
    let now = Instant::now();
    let mut state = member(now);
    state.metadata_changed(metadata(), now);
    let work = state.next_work().expect("a step");
    state.commit_failed(1, ErrorCode::UnknownMemberId, now);
    state.work_done(&work, now);
    let work = state.next_work().expect("all is lost");
    assert_eq!(work.step, Step::Prepare { lost: true });
    assert_eq!(work.revoked.len(), 1);
    let (_, who, introduction) = heartbeat(state.work_done(&work, now));
    assert_eq!(who.generation, 0);
    assert_eq!(introduction.map(|it| it.owned), Some(ByTopicId::new()));
}
