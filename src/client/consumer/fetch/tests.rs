//! What the fetcher promises: who is asked for what, and who gets how much. Knows nothing of bytes on
//! a connection.

use super::*;
use crate::properties::AutoOffsetReset as OffsetReset;
use wire::Compression;
use wire::batch;
use wire::records::BatchBuilder;

fn at(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

/// Even partitions are led by broker 0, odd ones by broker 1.
fn leader(partition: &TopicPartition) -> Option<Leader> {
    Some(Leader {
        node: partition.partition % 2,
        epoch: 1,
        topic_id: None,
    })
}

fn reading(partitions: i32) -> (Fetcher, Assignment) {
    let mut assignment = Assignment::new(OffsetReset::Earliest, false);
    assignment.set((0..partitions).map(at));
    for partition in 0..partitions {
        assignment.seek(&at(partition), 0, None);
    }
    let reading = Reading {
        committed_only: false,
        check_crcs: true,
    };
    (Fetcher::new(reading, 1 << 20), assignment)
}

fn fetched(partition: i32, base_offset: i64, count: i64) -> Fetched {
    let mut builder = BatchBuilder::new(Compression::None);
    for number in 0..count {
        builder.push(number, None, Some(b"v"), &[]);
    }
    let mut records = builder.finish().expect("builds").to_vec();
    batch::stamp(&mut records, base_offset, 1);
    Fetched {
        partition: at(partition),
        error: ErrorCode::None,
        high_watermark: 1_000,
        last_stable_offset: 1_000,
        log_start: 0,
        aborted: Vec::new(),
        records: records.into(),
    }
}

fn failed(partition: i32, error: ErrorCode) -> Fetched {
    Fetched {
        error,
        records: Bytes::new(),
        ..fetched(partition, 0, 1)
    }
}

fn planned(requests: &[(i32, Said)]) -> Vec<(i32, Vec<i32>)> {
    let partitions = |said: &Said| said.partitions.iter().map(|(it, _)| it.partition).collect();
    requests
        .iter()
        .map(|(node, said)| (*node, partitions(said)))
        .collect()
}

fn handed(records: &ConsumerRecords) -> Vec<(i32, usize)> {
    let count = |it: &PartitionRecords| (it.partition.partition, it.records.len());
    records.partitions.iter().map(count).collect()
}

#[test]
fn each_broker_is_asked_for_what_it_leads_and_one_fetch_is_on_its_way() {
    let (mut fetcher, mut assignment) = reading(4);
    let requests = fetcher.plan(&assignment, Instant::now(), leader);
    assert_eq!(planned(&requests), [(0, vec![0, 2]), (1, vec![1, 3])]);
    assert!(
        fetcher.plan(&assignment, Instant::now(), leader).is_empty(),
        "both are on their way"
    );
    fetcher.answered(0, 9, vec![], &mut assignment);
    let requests = fetcher.plan(&assignment, Instant::now(), leader);
    assert_eq!(requests.len(), 1, "broker 1 has not answered");
}

#[test]
fn a_broker_is_asked_again_when_all_that_came_of_it_was_handed_out() {
    let (mut fetcher, mut assignment) = reading(3);
    fetcher.plan(&assignment, Instant::now(), leader);
    for node in [0, 1] {
        let records = fetched(node, 0, 10);
        fetcher.answered(node, 9, vec![records], &mut assignment);
    }
    // A fetch of partition 2 alone would be held until it has records, and partition 0 wait for that.
    assert!(fetcher.plan(&assignment, Instant::now(), leader).is_empty());
    fetcher.collect(15, &mut assignment).expect("sound");
    let requests = fetcher.plan(&assignment, Instant::now(), leader);
    let nodes: Vec<i32> = requests.iter().map(|(node, _)| *node).collect();
    assert_eq!(nodes, [0], "half of partition 1 is left");
    fetcher.collect(15, &mut assignment).expect("sound");
    assert_eq!(fetcher.plan(&assignment, Instant::now(), leader).len(), 1);
}

#[test]
fn a_paused_partition_s_buffer_does_not_hold_up_the_others_of_its_broker() {
    let (mut fetcher, mut assignment) = reading(3);
    fetcher.plan(&assignment, Instant::now(), leader);
    fetcher.answered(0, 9, vec![fetched(0, 0, 10)], &mut assignment);
    assignment.pause(&at(0), true);
    let requests = fetcher.plan(&assignment, Instant::now(), leader);
    assert_eq!(requests.len(), 1);
    let forgotten = &requests[0].1.forgotten;
    assert_eq!(forgotten[..], [(at(0), None)], "it is not asked for again");
}

#[test]
fn partitions_take_turns_in_being_handed_out() {
    let (mut fetcher, mut assignment) = reading(3);
    fetcher.plan(&assignment, Instant::now(), leader);
    let both = vec![fetched(0, 0, 10), fetched(2, 0, 10)];
    fetcher.answered(0, 9, both, &mut assignment);
    let mut turns = Vec::new();
    while let Ok(records) = fetcher.collect(6, &mut assignment)
        && !records.is_empty()
    {
        assert!(records.len() <= 6);
        turns.push(handed(&records));
    }
    let expected = [
        vec![(0, 6)],
        vec![(2, 6)],
        vec![(0, 4), (2, 2)],
        vec![(2, 2)],
    ];
    assert_eq!(turns, expected);
    assert_eq!(assignment.position(&at(0)).map(|it| it.offset), Some(10));
}

#[test]
fn what_was_fetched_before_a_seek_is_not_handed_out() {
    let (mut fetcher, mut assignment) = reading(1);
    fetcher.plan(&assignment, Instant::now(), leader);
    assignment.seek(&at(0), 500, None);
    fetcher.answered(0, 9, vec![fetched(0, 0, 10)], &mut assignment);
    let records = fetcher.collect(100, &mut assignment).expect("sound");
    assert!(records.is_empty(), "sought while it was on its way");
    fetcher.plan(&assignment, Instant::now(), leader);
    fetcher.answered(0, 9, vec![fetched(0, 500, 10)], &mut assignment);
    assignment.seek(&at(0), 3, None);
    let records = fetcher.collect(100, &mut assignment).expect("sound");
    assert!(records.is_empty(), "sought after it was buffered");
    let requests = fetcher.plan(&assignment, Instant::now(), leader);
    assert_eq!(requests[0].1.partitions[0].1.offset, 3);
}

#[test]
fn a_paused_partition_keeps_what_is_buffered_and_hands_it_out_when_resumed() {
    let (mut fetcher, mut assignment) = reading(1);
    fetcher.plan(&assignment, Instant::now(), leader);
    fetcher.answered(0, 9, vec![fetched(0, 0, 10)], &mut assignment);
    assignment.pause(&at(0), true);
    assert!(
        fetcher
            .collect(100, &mut assignment)
            .expect("sound")
            .is_empty()
    );
    assignment.pause(&at(0), false);
    assert!(
        fetcher.plan(&assignment, Instant::now(), leader).is_empty(),
        "it is still there"
    );
    let records = fetcher.collect(100, &mut assignment).expect("sound");
    assert_eq!(handed(&records), [(0, 10)]);
}

#[test]
fn a_revoked_partition_s_buffer_is_thrown_away() {
    let (mut fetcher, mut assignment) = reading(1);
    fetcher.plan(&assignment, Instant::now(), leader);
    fetcher.answered(0, 9, vec![fetched(0, 0, 10)], &mut assignment);
    assignment.set([]);
    assert!(
        fetcher
            .collect(100, &mut assignment)
            .expect("sound")
            .is_empty()
    );
    assignment.set([at(0)]);
    assignment.seek(&at(0), 0, None);
    assert_eq!(
        fetcher.plan(&assignment, Instant::now(), leader).len(),
        1,
        "fetched anew"
    );
}

#[test]
fn errors_of_leadership_ask_for_metadata_and_others_are_the_application_s() {
    for code in [
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::FencedLeaderEpoch,
        ErrorCode::UnknownLeaderEpoch,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::OffsetNotAvailable,
    ] {
        let (mut fetcher, mut assignment) = reading(1);
        fetcher.plan(&assignment, Instant::now(), leader);
        let answer = fetcher.answered(0, 9, vec![failed(0, code)], &mut assignment);
        assert_eq!(answer, (true, Vec::new()), "{code:?}");
        assert!(assignment.fetchable(&at(0)).is_some(), "{code:?}");
    }
    let (mut fetcher, mut assignment) = reading(1);
    fetcher.plan(&assignment, Instant::now(), leader);
    let code = ErrorCode::TopicAuthorizationFailed;
    let answer = fetcher.answered(0, 9, vec![failed(0, code)], &mut assignment);
    assert_eq!(answer, (false, vec![Fault::Refused(at(0), code)]));
}

#[test]
fn an_offset_out_of_range_resets_the_position() {
    let (mut fetcher, mut assignment) = reading(1);
    fetcher.plan(&assignment, Instant::now(), leader);
    let answer = vec![failed(0, ErrorCode::OffsetOutOfRange)];
    fetcher.answered(0, 9, answer, &mut assignment);
    assert_eq!(assignment.position(&at(0)), None);
}

#[test]
fn damage_is_reported_and_reported_again_and_never_passed_over() {
    let (mut fetcher, mut assignment) = reading(1);
    for _ in 0..2 {
        fetcher.plan(&assignment, Instant::now(), leader);
        let mut damaged = fetched(0, 0, 3);
        let mut bytes = damaged.records.to_vec();
        bytes[70] ^= 1;
        damaged.records = bytes.into();
        fetcher.answered(0, 9, vec![damaged], &mut assignment);
        let fault = fetcher.collect(10, &mut assignment);
        assert_eq!(fault, Err(Fault::Damaged(at(0), Damage::Checksum(0))));
        assert_eq!(assignment.position(&at(0)).map(|it| it.offset), Some(0));
    }
}
