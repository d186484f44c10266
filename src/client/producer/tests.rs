//! The producer's decisions, scripted: records, moments and answers in, batches and fates out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use wire::batch::BatchHeader;
use wire::messages::ProduceResponseData;
use wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use wire::{ErrorCode, KafkaString};

use super::accumulator::{Accumulator, Appended, Fate, Lane, Plan, Refused, Settings};
use super::answers::Sent;
use super::batch::Identity;
use super::completion::Outcome;
use super::record::RecordView;
use crate::cluster::Metadata;
use crate::cluster::metadata::Coverage;
use crate::{Error, ProducerConfig};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A producer of topic `t`, whose partitions 0 and 1 are led by brokers 1 and 2.
struct Script {
    accumulator: Accumulator,
    metadata: Metadata,
    now: Instant,
    /// A request of each broker at a time.
    busy: Vec<i32>,
}

impl Script {
    fn new(configure: impl FnOnce(&mut ProducerConfig)) -> Self {
        let mut config = ProducerConfig::to("b:1");
        config.linger = ms(10);
        config.batch_size = 400;
        configure(&mut config);
        let partition = |index: i32| {
            MetadataResponsePartition::default()
                .with_partition_index(index)
                .with_leader_id(index + 1)
        };
        let topic = MetadataResponseTopic::default()
            .with_name(Some(KafkaString::from_static("t")))
            .with_partitions(vec![partition(0), partition(1)]);
        let broker = |id| MetadataResponseBroker::default().with_node_id(id);
        let answer = wire::messages::MetadataResponseData::default()
            .with_brokers(vec![broker(1), broker(2)])
            .with_topics(vec![topic]);
        let metadata = Metadata::default().updated(&answer, Coverage::All);
        let mut accumulator = Accumulator::new(Settings::new(&config));
        accumulator.learn(&metadata.topics["t"], 1);
        if config.enable_idempotence {
            accumulator.producer_id(Some(Identity { id: 7, epoch: 0 }));
        }
        Self {
            accumulator,
            metadata,
            now: Instant::now(),
            busy: Vec::new(),
        }
    }

    fn try_append(&mut self, partition: i32, value: &[u8]) -> Result<Appended, Refused> {
        let record = RecordView {
            topic: "t",
            partition: Some(partition),
            value: Some(value),
            ..RecordView::default()
        };
        self.accumulator.append(self.now, &record)
    }

    /// Appends a record that fills a batch.
    fn append_full(&mut self, partition: i32) -> Appended {
        self.try_append(partition, &[0; 300]).expect("taken")
    }

    /// The broker knows the producer's sequences in this partition: a record in a batch of its own, the
    /// one with sequence 0, is written.
    fn introduce(&mut self, partition: i32) {
        self.append_full(partition);
        let sent = self.send(partition + 1);
        assert_eq!(written(&self.answer(sent, ErrorCode::None)), 1);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn plan(&mut self) -> Plan {
        let busy = &self.busy;
        let lane = |node: i32| {
            if busy.contains(&node) {
                Lane::Busy
            } else {
                Lane::Free
            }
        };
        self.accumulator.plan(self.now, &self.metadata, lane)
    }

    /// What goes to a broker now.
    fn send(&mut self, node: i32) -> Vec<Sent> {
        let mut plan = self.plan();
        let outgoing = plan.requests.remove(&node).unwrap_or_default();
        let close = |batch: super::accumulator::Outgoing| Sent {
            place: batch.place,
            batch: batch.batch,
            bytes: batch.content.close(batch.stamp).expect("closes"),
            stamp: batch.stamp,
        };
        outgoing.into_iter().map(close).collect()
    }

    fn fail(&mut self, sent: Vec<Sent>, error: &Error) -> Vec<Fate> {
        self.accumulator
            .answered(self.now, sent, Err(error), 0.5)
            .fates
    }

    fn answer(&mut self, sent: Vec<Sent>, code: ErrorCode) -> Vec<Fate> {
        let partitions = sent.iter().map(|sent| {
            PartitionProduceResponse::default()
                .with_index(sent.place.partition)
                .with_error_code(code.code())
                .with_base_offset(100)
        });
        let topic = TopicProduceResponse::default()
            .with_name(KafkaString::from_static("t"))
            .with_partition_responses(partitions.collect());
        let answer = ProduceResponseData::default().with_responses(vec![topic]);
        self.accumulator
            .answered(self.now, sent, Ok(&answer), 0.5)
            .fates
    }
}

fn broken() -> Error {
    Error::Disconnected {
        address: "b:1".into(),
        reason: "test".into(),
    }
}

/// Epoch and base sequence of the batches of a request.
fn numbers(sent: &[Sent]) -> Vec<(i16, i32)> {
    let header = |sent: &Sent| *BatchHeader::parse(&sent.bytes).expect("a batch");
    let number = |header: BatchHeader| (header.producer_epoch(), header.base_sequence());
    sent.iter().map(header).map(number).collect()
}

fn failed(fates: &[Fate]) -> Vec<String> {
    let name = |fate: &Fate| match &fate.outcome {
        Outcome::Failed(error) => Some(error.name()),
        _ => None,
    };
    fates.iter().filter_map(name).collect()
}

fn written(fates: &[Fate]) -> usize {
    let is_written = |fate: &&Fate| matches!(fate.outcome, Outcome::Written { .. });
    fates.iter().filter(is_written).count()
}

#[test]
fn a_batch_that_is_not_full_lingers_and_a_full_one_does_not() {
    let mut script = Script::new(|_| {});
    script.try_append(0, b"x").expect("taken");
    assert!(script.send(1).is_empty());
    script.pass(ms(9));
    let wake = script.plan().wake.expect("a time to look again");
    assert_eq!(wake, script.now + ms(1));
    script.pass(ms(1));
    assert_eq!(script.send(1).len(), 1, "linger.ms is over");
    script.append_full(1);
    let second = script.append_full(1);
    assert_eq!(second.index, 0, "the first batch was full");
    assert_eq!(
        script.send(2).len(),
        1,
        "one batch per partition and request"
    );
}

#[test]
fn records_of_a_batch_share_it_and_count_from_zero() {
    let mut script = Script::new(|_| {});
    let first = script.try_append(0, b"a").expect("taken");
    let second = script.try_append(0, b"b").expect("taken");
    assert!(Arc::ptr_eq(&first.completion, &second.completion));
    assert_eq!((first.index, second.index), (0, 1));
    script.pass(ms(10));
    let sent = script.send(1);
    let fates = script.answer(sent, ErrorCode::None);
    fates[0].completion.complete(fates[0].outcome.clone());
    let known = second
        .completion
        .metadata(1, 5)
        .expect("decided")
        .expect("written");
    assert_eq!(
        (known.offset, known.timestamp, known.partition),
        (Some(101), 5, 0)
    );
}

#[test]
fn without_memory_nothing_is_taken_until_a_batch_is_acknowledged() {
    let mut script = Script::new(|config| config.buffer_memory = 800);
    script.append_full(0);
    script.append_full(0);
    assert!(matches!(script.try_append(1, b"x"), Err(Refused::NoMemory)));
    let sent = script.send(1);
    assert!(
        matches!(script.try_append(1, b"x"), Err(Refused::NoMemory)),
        "not yet acknowledged"
    );
    script.answer(sent, ErrorCode::None);
    assert!(script.try_append(1, b"x").is_ok());
}

#[test]
fn a_record_larger_than_a_request_may_be_is_refused_at_once() {
    let mut script = Script::new(|config| config.max_request_size = 500);
    let refused = script.try_append(0, &[0; 500]);
    let Err(Refused::Never(Error::RecordTooLarge { setting, .. })) = refused else {
        panic!("taken or refused otherwise");
    };
    assert_eq!(setting, "max.request.size");
    assert!(
        script.try_append(0, &[0; 401]).is_ok(),
        "larger than a batch is no fault"
    );
}

#[test]
fn a_partition_that_a_topic_does_not_have_is_refused() {
    let mut script = Script::new(|_| {});
    assert!(matches!(
        script.try_append(2, b"x"),
        Err(Refused::Never(Error::Invalid { .. }))
    ));
}

#[test]
fn each_broker_gets_its_partitions_and_a_busy_one_waits() {
    let mut script = Script::new(|_| {});
    script.append_full(0);
    script.append_full(1);
    script.busy = vec![2];
    let plan = script.plan();
    assert_eq!(plan.requests.keys().collect::<Vec<_>>(), [&1]);
    script.busy = vec![1];
    let place = script.send(2)[0].place.partition;
    assert_eq!(place, 1);
}

#[test]
fn a_retry_waits_for_its_backoff_and_goes_out_before_what_came_later() {
    for idempotent in [true, false] {
        let mut script = Script::new(|config| config.enable_idempotence = idempotent);
        script.append_full(0);
        let first = script.send(1);
        let id = first[0].batch;
        script.append_full(0);
        script.fail(first, &broken());
        assert!(script.send(1).is_empty(), "retry.backoff.ms");
        script.pass(ms(100));
        assert_eq!(script.send(1)[0].batch, id, "idempotent: {idempotent}");
    }
}

#[test]
fn with_idempotence_retries_go_one_by_one_in_order_and_keep_their_sequences() {
    let mut script = Script::new(|_| {});
    script.introduce(0);
    let mut requests = Vec::new();
    for _ in 0..3 {
        script.append_full(0);
        requests.push(script.send(1));
    }
    let sequences: Vec<_> = requests.iter().flat_map(|sent| numbers(sent)).collect();
    assert_eq!(
        sequences,
        [(0, 1), (0, 2), (0, 3)],
        "three requests in flight"
    );
    for sent in requests {
        script.fail(sent, &broken());
    }
    script.pass(ms(1_000));
    for sequence in 1..4 {
        let sent = script.send(1);
        assert_eq!(numbers(&sent), [(0, sequence)]);
        assert!(script.send(1).is_empty(), "the next waits for the answer");
        assert_eq!(written(&script.answer(sent, ErrorCode::None)), 1);
    }
}

#[test]
fn out_of_order_behind_a_missing_batch_is_only_a_retry() {
    let mut script = Script::new(|_| {});
    script.introduce(0);
    script.append_full(0);
    let first = script.send(1);
    script.append_full(0);
    let second = script.send(1);
    script.fail(first, &broken());
    assert!(failed(&script.answer(second, ErrorCode::OutOfOrderSequenceNumber)).is_empty());
    script.pass(ms(1_000));
    let again = script.send(1);
    assert_eq!(numbers(&again), [(0, 1)]);
    script.answer(again, ErrorCode::None);
    assert_eq!(numbers(&script.send(1)), [(0, 2)], "the same epoch");
}

#[test]
fn nothing_overtakes_the_first_batch_of_an_identity_that_the_broker_does_not_know() {
    let mut script = Script::new(|_| {});
    script.append_full(0);
    let first = script.send(1);
    script.append_full(0);
    assert!(script.send(1).is_empty(), "the first is not acknowledged");
    // The leader of a topic that was just made does not serve it yet.
    script.answer(first, ErrorCode::UnknownTopicOrPartition);
    script.pass(ms(1_000));
    let again = script.send(1);
    assert_eq!(numbers(&again), [(0, 0)]);
    assert!(script.send(1).is_empty(), "still not acknowledged");
    script.answer(again, ErrorCode::None);
    script.append_full(0);
    let requests = [script.send(1), script.send(1)];
    assert_eq!(requests.map(|sent| numbers(&sent)), [[(0, 1)], [(0, 2)]]);
}

#[test]
fn without_idempotence_the_first_batch_holds_nothing_up() {
    let mut script = Script::new(|config| config.enable_idempotence = false);
    for _ in 0..2 {
        script.append_full(0);
        assert_eq!(script.send(1).len(), 1);
    }
}

#[test]
fn a_broker_that_lost_the_sequences_makes_the_epoch_rise_and_all_is_numbered_anew() {
    for code in [
        ErrorCode::OutOfOrderSequenceNumber,
        ErrorCode::UnknownProducerId,
    ] {
        let mut script = Script::new(|_| {});
        script.append_full(0);
        let sent = script.send(1);
        script.answer(sent, ErrorCode::None);
        script.append_full(0);
        let first = script.send(1);
        script.append_full(0);
        let second = script.send(1);
        assert_eq!(
            (numbers(&first), numbers(&second)),
            (vec![(0, 1)], vec![(0, 2)])
        );
        script.answer(first, code);
        script.pass(ms(1_000));
        assert!(
            script.send(1).is_empty(),
            "the epoch waits for what is in flight"
        );
        script.answer(second, ErrorCode::OutOfOrderSequenceNumber);
        script.pass(ms(1_000));
        let first = script.send(1);
        assert_eq!(numbers(&first), [(1, 0)], "{code:?}");
        script.answer(first, ErrorCode::None);
        assert_eq!(numbers(&script.send(1)), [(1, 1)], "{code:?}");
        assert_eq!(script.accumulator.metrics.epoch_bumps, 1);
    }
}

#[test]
fn another_partition_keeps_its_epoch_until_its_batches_are_written() {
    let mut script = Script::new(|_| {});
    script.introduce(1);
    script.append_full(1);
    let other = script.send(2);
    script.append_full(0);
    let sent = script.send(1);
    script.answer(sent, ErrorCode::UnknownProducerId);
    script.append_full(1);
    script.pass(ms(1_000));
    let mut plan = script.plan();
    let epoch = |plan: &mut Plan, node| {
        let stamp = plan.requests.remove(&node).expect("a request")[0].stamp;
        let stamp = stamp.expect("numbered");
        (stamp.identity.epoch, stamp.sequence)
    };
    assert_eq!(epoch(&mut plan, 1), (1, 0));
    assert_eq!(
        epoch(&mut plan, 2),
        (0, 2),
        "behind one in flight with epoch 0"
    );
    script.answer(other, ErrorCode::None);
}

#[test]
fn a_batch_given_up_leaves_a_hole_that_a_new_epoch_closes() {
    let mut script = Script::new(|config| config.delivery_timeout = ms(40_000));
    let lost = script.append_full(0);
    let first = script.send(1);
    script.pass(ms(20_000));
    script.append_full(0);
    script.fail(first, &broken());
    script.pass(ms(20_000));
    script.busy = vec![1];
    let plan = script.plan();
    assert_eq!(failed(&plan.fates), ["TIMEOUT"]);
    assert!(Arc::ptr_eq(&plan.fates[0].completion, &lost.completion));
    script.busy.clear();
    assert_eq!(numbers(&script.send(1)), [(1, 0)]);
}

/// Two batches in flight, whose answers are lost, behind one that is given up because its time is over.
fn two_without_answers_behind_one_given_up(script: &mut Script) {
    script.accumulator.settings.rules.delivery_timeout = ms(40_000);
    script.introduce(0);
    script.append_full(0);
    let mut requests = vec![script.send(1)];
    script.pass(ms(5_000));
    for _ in 0..2 {
        script.append_full(0);
        requests.push(script.send(1));
    }
    for sent in requests {
        script.fail(sent, &broken());
    }
    script.pass(ms(35_000));
    script.busy = vec![1];
    assert_eq!(failed(&script.plan().fates), ["TIMEOUT"]);
    script.busy.clear();
}

#[test]
fn what_may_have_been_written_behind_a_batch_given_up_is_sent_again_under_its_old_numbers() {
    let mut script = Script::new(|_| {});
    two_without_answers_behind_one_given_up(&mut script);
    script.append_full(0);
    for number in [2, 3] {
        let sent = script.send(1);
        assert_eq!(numbers(&sent), [(0, number)], "the broker knows it by them");
        assert!(script.send(1).is_empty(), "nothing overtakes it");
        assert_eq!(written(&script.answer(sent, ErrorCode::None)), 1);
    }
    assert_eq!(numbers(&script.send(1)), [(1, 0)], "what is new");
}

#[test]
fn what_the_broker_misses_behind_a_batch_given_up_is_numbered_anew() {
    for code in [
        ErrorCode::OutOfOrderSequenceNumber,
        ErrorCode::UnknownProducerId,
    ] {
        let mut script = Script::new(|_| {});
        two_without_answers_behind_one_given_up(&mut script);
        let sent = script.send(1);
        assert_eq!(numbers(&sent), [(0, 2)]);
        assert!(failed(&script.answer(sent, code)).is_empty());
        for number in [0, 1] {
            script.pass(ms(1_000));
            let sent = script.send(1);
            assert_eq!(numbers(&sent), [(1, number)], "{code:?}");
            assert_eq!(written(&script.answer(sent, ErrorCode::None)), 1);
        }
        assert_eq!(script.accumulator.metrics.epoch_bumps, 1);
    }
}

#[test]
fn what_may_have_been_written_stays_so_until_the_broker_says_that_it_misses_it() {
    let mut script = Script::new(|_| {});
    two_without_answers_behind_one_given_up(&mut script);
    for code in [
        ErrorCode::RequestTimedOut,
        ErrorCode::NotEnoughReplicasAfterAppend,
        ErrorCode::NotLeaderOrFollower,
    ] {
        let sent = script.send(1);
        assert_eq!(numbers(&sent), [(0, 2)], "before {code:?}");
        script.answer(sent, code);
        script.pass(ms(1_200));
    }
    assert_eq!(numbers(&script.send(1)), [(0, 2)]);
}

#[test]
fn a_batch_in_flight_when_its_time_runs_out_is_given_up_and_its_answer_changes_nothing() {
    let mut script = Script::new(|config| config.delivery_timeout = ms(40_000));
    script.append_full(0);
    let sent = script.send(1);
    script.pass(ms(40_000));
    assert_eq!(failed(&script.plan().fates), ["TIMEOUT"]);
    assert!(script.answer(sent, ErrorCode::None).is_empty());
    assert_eq!(script.accumulator.memory_used, 0);
}

#[test]
fn after_so_many_retries_or_a_final_error_the_records_fail() {
    let mut script = Script::new(|config| {
        config.retries = 1;
    });
    script.append_full(0);
    for expected in [&[][..], &["NOT_ENOUGH_REPLICAS".to_owned()][..]] {
        let sent = script.send(1);
        assert_eq!(
            failed(&script.answer(sent, ErrorCode::NotEnoughReplicas)),
            expected
        );
        script.pass(ms(1_000));
    }
    script.append_full(0);
    let sent = script.send(1);
    let fates = script.answer(sent, ErrorCode::TopicAuthorizationFailed);
    assert_eq!(failed(&fates), ["TOPIC_AUTHORIZATION_FAILED"]);
}

#[test]
fn a_batch_that_is_too_large_goes_on_in_parts_with_its_sequences() {
    let mut script = Script::new(|config| config.compression = wire::Compression::Lz4);
    let records: Vec<Appended> = (0..8)
        .map(|at| script.try_append(0, &[at; 10]).expect("taken"))
        .collect();
    script.pass(ms(10));
    let sent = script.send(1);
    let fates = script.answer(sent, ErrorCode::MessageTooLarge);
    assert_eq!(fates.len(), 1);
    fates[0].completion.complete(fates[0].outcome.clone());
    let later = script.try_append(0, b"later").expect("taken");
    assert_eq!(
        later.index, 0,
        "no part takes a record more: it has its numbers"
    );
    let mut next = 0;
    let mut offset = 100;
    let mut offsets = HashMap::new();
    loop {
        let sent = script.send(1);
        let Some(part) = sent.first() else { break };
        let records = BatchHeader::parse(&part.bytes).map_or(0, BatchHeader::record_count);
        assert_eq!(numbers(&sent), [(0, next)], "sequences go on");
        let fates = script.answer(sent, ErrorCode::None);
        for fate in fates {
            fate.completion.complete(Outcome::Written {
                base_offset: Some(offset),
                append_time: None,
            });
        }
        next += records;
        offset += i64::from(records);
        offsets.insert(next, records);
    }
    assert_eq!(next, 8, "the later record lingers");
    assert!(offsets.len() > 1, "in parts");
    for record in records {
        let known = record
            .completion
            .metadata(record.index, 0)
            .expect("decided");
        assert_eq!(
            known.expect("written").offset,
            Some(100 + i64::from(record.index))
        );
    }
    assert_eq!(
        script.accumulator.memory_used, 400,
        "the later record's batch"
    );
}

#[test]
fn a_single_record_that_is_too_large_fails() {
    let mut script = Script::new(|_| {});
    script.append_full(0);
    let sent = script.send(1);
    let fates = script.answer(sent, ErrorCode::MessageTooLarge);
    assert_eq!(failed(&fates), ["MESSAGE_TOO_LARGE"]);
}

#[test]
fn nothing_lingers_while_a_flush_waits_or_memory_is_short() {
    let mut script = Script::new(|_| {});
    script.try_append(0, b"x").expect("taken");
    assert_eq!(script.accumulator.flush().len(), 1);
    assert_eq!(script.send(1).len(), 1);
    script.accumulator.flushed();
    script.accumulator.settings.buffer_memory = 800;
    script.try_append(1, b"x").expect("taken");
    assert!(script.send(2).is_empty());
    assert!(matches!(script.append_full_or(1), Err(Refused::NoMemory)));
    assert_eq!(script.send(2).len(), 1);
}

impl Script {
    fn append_full_or(&mut self, partition: i32) -> Result<Appended, Refused> {
        self.try_append(partition, &[0; 300])
            .and_then(|_| self.try_append(partition, &[0; 300]))
    }
}

#[test]
fn an_idempotent_producer_sends_nothing_before_it_has_an_id() {
    let mut script = Script::new(|_| {});
    script.accumulator.producer_id(None);
    script.append_full(0);
    let plan = script.plan();
    assert!(plan.ask_producer_id && plan.requests.values().all(Vec::is_empty));
    assert!(!script.plan().ask_producer_id, "asked once");
    script
        .accumulator
        .producer_id(Some(Identity { id: 9, epoch: 3 }));
    assert_eq!(numbers(&script.send(1)), [(3, 0)]);
}

#[test]
fn a_partition_without_leader_waits_and_metadata_is_asked_for() {
    let mut script = Script::new(|_| {});
    script.metadata = Metadata::default();
    script.append_full(0);
    let plan = script.plan();
    assert!(plan.refresh_metadata && plan.requests.is_empty());
}

#[test]
fn a_request_is_no_larger_than_allowed_and_who_was_left_out_comes_first() {
    let mut script = Script::new(|config| config.max_request_size = 500);
    for topic in script.metadata.topics.values_mut() {
        for partition in &mut Arc::make_mut(topic).partitions {
            partition.leader = Some(1);
        }
    }
    script.append_full(0);
    script.append_full(1);
    let first = script.send(1);
    let second = script.send(1);
    let places = [first[0].place.partition, second[0].place.partition];
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(places[0], places[1]);
}

#[test]
fn closed_means_no_more_records_and_an_end_for_those_that_wait() {
    let mut script = Script::new(|_| {});
    script.try_append(0, b"x").expect("taken");
    script.accumulator.close();
    assert!(matches!(
        script.try_append(0, b"y"),
        Err(Refused::Never(Error::Closed))
    ));
    let fates = script.accumulator.abort(&Error::Closed);
    assert_eq!(failed(&fates), ["CLIENT_CLOSED"]);
    assert_eq!(script.accumulator.memory_used, 0);
}

#[test]
fn what_is_sent_again_under_a_new_epoch_differs_in_its_stamp_alone() {
    let mut script = Script::new(|_| {});
    script.append_full(0);
    let sent = script.send(1);
    let before: Bytes = sent[0].bytes.clone();
    script.answer(sent, ErrorCode::UnknownProducerId);
    script.pass(ms(1_000));
    let after = script.send(1).remove(0).bytes;
    assert!(wire::batch::crc_matches(&after));
    assert_eq!(before[57..], after[57..], "behind the stamp");
    assert_eq!(before[..17], after[..17], "before the checksum");
}
