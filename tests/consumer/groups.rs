//! Groups: members that come, go and crash, and every record read by one of them. Knows
//! nothing of what coordinates them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::consumer::{
    Assignor, Callback, Consumer, OffsetAndMetadata, RebalanceListener, TopicPartition,
};
use client::properties::{AutoOffsetReset, ConsumerConfig, GroupProtocol};
use wire::Compression;

use super::broker::{Broker, Topic, unique};

pub const PARTITIONS: i32 = 6;
const RECORDS: i64 = 400;
pub const DONE_MAX: Duration = Duration::from_secs(90);

/// How often each record was read, by all members together.
pub type Seen = Arc<Mutex<BTreeMap<(i32, i64), u32>>>;

/// How the members of a group come to their partitions.
#[derive(Clone, Copy, Debug)]
pub enum Protocol {
    Classic(Assignor),
    Consumer,
}

impl From<Assignor> for Protocol {
    fn from(assignor: Assignor) -> Self {
        Self::Classic(assignor)
    }
}

pub fn member(broker: &Broker, group: &str, protocol: impl Into<Protocol>) -> ConsumerConfig {
    let (group_protocol, assignors) = match protocol.into() {
        Protocol::Classic(assignor) => (GroupProtocol::Classic, vec![assignor.name().to_owned()]),
        Protocol::Consumer => (GroupProtocol::Consumer, Vec::new()),
    };
    ConsumerConfig {
        group_id: Some(group.to_owned()),
        auto_offset_reset: AutoOffsetReset::Earliest,
        enable_auto_commit: false,
        fetch_max_wait: Duration::from_millis(50),
        session_timeout: Duration::from_secs(6),
        heartbeat_interval: Duration::from_millis(300),
        group_protocol,
        partition_assignment_strategy: assignors,
        max_poll_records: 20,
        cluster: client::ClusterConfig {
            metadata_max_age: Duration::from_millis(500),
            ..client::ClusterConfig::to(&broker.bootstrap)
        },
        ..ConsumerConfig::to(&broker.bootstrap)
    }
}

/// Commits what was read when partitions are taken away.
struct CommitOnRevoke;

impl RebalanceListener for CommitOnRevoke {
    fn revoked<'a>(&'a mut self, consumer: &'a Consumer, _: &'a [TopicPartition]) -> Callback<'a> {
        Box::pin(async { consumer.commit_sync().await.expect("still a member") })
    }

    fn lost<'a>(&'a mut self, _: &'a Consumer, _: &'a [TopicPartition]) -> Callback<'a> {
        Box::pin(std::future::ready(()))
    }
}

/// A member on a task of its own, which reads and commits until it is stopped.
pub struct Member {
    stop: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
    owned: Arc<Mutex<BTreeSet<TopicPartition>>>,
}

impl Member {
    pub fn start(config: ConsumerConfig, topic: &Topic, seen: &Seen) -> Self {
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let (topic, seen) = (topic.name.clone(), seen.clone());
        let owned: Arc<Mutex<BTreeSet<TopicPartition>>> = Arc::default();
        let shown = owned.clone();
        let task = tokio::spawn(async move {
            let mut consumer = Consumer::new(config).expect("a consumer");
            consumer.set_rebalance_listener(CommitOnRevoke);
            consumer.subscribe([topic.as_str()]).expect("a group");
            while stopped.try_recv().is_err() {
                let records = consumer
                    .poll(Duration::from_millis(100))
                    .await
                    .expect("a poll");
                for (at, record) in records.iter() {
                    let mut seen = seen.lock().expect("no panic");
                    *seen.entry((at.partition, record.offset)).or_default() += 1;
                }
                *shown.lock().expect("no panic") = consumer.assignment();
                if !records.is_empty() {
                    consumer.commit_sync().await.expect("a member commits");
                }
            }
            let closed = consumer.close(Duration::from_secs(10)).await;
            closed.expect("it leaves in time");
        });
        Self { stop, task, owned }
    }

    pub fn owned(&self) -> BTreeSet<TopicPartition> {
        self.owned.lock().expect("no panic").clone()
    }

    pub async fn leave(self) {
        self.stop.send(()).expect("it runs");
        self.task.await.expect("no panic");
    }

    /// It is gone without a word, and its connections with it.
    async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Waits until each partition is owned by exactly one member, and each member owns its share.
async fn balanced(members: &[Member], partitions: usize) {
    let begun = Instant::now();
    loop {
        let owned: Vec<_> = members.iter().map(Member::owned).collect();
        let all: BTreeSet<&TopicPartition> = owned.iter().flatten().collect();
        let total: usize = owned.iter().map(BTreeSet::len).sum();
        let least = owned.iter().map(BTreeSet::len).min().unwrap_or_default();
        if all.len() == partitions && total == partitions && least >= partitions / members.len() {
            return;
        }
        for member in members {
            assert!(!member.task.is_finished(), "a member failed");
        }
        assert!(begun.elapsed() < DONE_MAX, "not balanced: {owned:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub async fn produce(
    topic: &Topic,
    partitions: std::ops::Range<i32>,
    numbers: std::ops::Range<i64>,
) {
    for partition in partitions {
        topic
            .produce(partition, numbers.clone(), Compression::Lz4)
            .await;
    }
}

/// Waits until so many different records were read.
pub async fn all_read(seen: &Seen, count: i64) {
    let begun = Instant::now();
    let count = usize::try_from(count).expect("positive");
    loop {
        let read = seen.lock().expect("no panic").len();
        if read >= count {
            return;
        }
        if begun.elapsed() > DONE_MAX {
            let mut by_partition = BTreeMap::<i32, usize>::new();
            for (partition, _) in seen.lock().expect("no panic").keys() {
                *by_partition.entry(*partition).or_default() += 1;
            }
            panic!("{read} of {count} records were read: {by_partition:?}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub fn read_twice(seen: &Seen) -> Vec<((i32, i64), u32)> {
    let seen = seen.lock().expect("no panic");
    let twice = seen.iter().filter(|(_, times)| **times > 1);
    twice.map(|(record, times)| (*record, *times)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_come_and_go_and_each_record_is_read_exactly_once() {
    let broker = Broker::start().await;
    let classic = Assignor::ALL.map(Protocol::Classic);
    for protocol in classic.into_iter().chain([Protocol::Consumer]) {
        let topic = broker.topic("come-and-go", PARTITIONS).await;
        let group = unique("come-and-go");
        let seen = Seen::default();
        let start = || Member::start(member(&broker, &group, protocol), &topic, &seen);
        let mut members = vec![start(), start()];
        produce(&topic, 0..PARTITIONS, 0..RECORDS / 2).await;
        balanced(&members, PARTITIONS as usize).await;
        members.extend([start(), start(), start()]);
        produce(&topic, 0..PARTITIONS, RECORDS / 2..RECORDS).await;
        balanced(&members, PARTITIONS as usize).await;
        members.remove(0).leave().await;
        members.remove(0).leave().await;
        balanced(&members, PARTITIONS as usize).await;
        produce(&topic, 0..PARTITIONS, RECORDS..RECORDS + 50).await;
        all_read(&seen, i64::from(PARTITIONS) * (RECORDS + 50)).await;
        for member in members {
            member.leave().await;
        }
        assert_eq!(read_twice(&seen), [], "{protocol:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_members_that_crash_or_leave_are_read_by_the_others_and_committed() {
    let broker = Broker::start().await;
    for protocol in [
        Assignor::Range.into(),
        Assignor::CooperativeSticky.into(),
        Protocol::Consumer,
    ] {
        let topic = broker.topic("crash", PARTITIONS).await;
        let group = unique("crash");
        let seen = Seen::default();
        let start = || Member::start(member(&broker, &group, protocol), &topic, &seen);
        let mut members = vec![start(), start(), start()];
        balanced(&members, PARTITIONS as usize).await;
        produce(&topic, 0..PARTITIONS, 0..RECORDS).await;
        members.remove(1).crash().await;
        produce(&topic, 0..PARTITIONS, RECORDS..RECORDS + 50).await;
        all_read(&seen, i64::from(PARTITIONS) * (RECORDS + 50)).await;
        balanced(&members, PARTITIONS as usize).await;
        members.remove(0).leave().await;
        produce(&topic, 0..PARTITIONS, RECORDS + 50..RECORDS + 100).await;
        all_read(&seen, i64::from(PARTITIONS) * (RECORDS + 100)).await;
        for member in members {
            member.leave().await;
        }
        let other = Consumer::new(member(&broker, &group, protocol)).expect("a consumer");
        let committed = other.committed(topic.partitions()).await.expect("found");
        let offsets: Vec<i64> = committed.values().map(|it| it.offset).collect();
        let all = vec![RECORDS + 100; PARTITIONS as usize];
        assert_eq!(offsets, all, "{protocol:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_partitions_are_found_shared_and_read_from_their_beginning() {
    let broker = Broker::start().await;
    for protocol in [
        Assignor::RoundRobin.into(),
        Assignor::CooperativeSticky.into(),
        Protocol::Consumer,
    ] {
        let mut topic = broker.topic("grow", 2).await;
        let group = unique("grow");
        let seen = Seen::default();
        let start = || Member::start(member(&broker, &group, protocol), &topic, &seen);
        let members = vec![start(), start()];
        balanced(&members, 2).await;
        produce(&topic, 0..2, 0..50).await;
        broker.grow(&mut topic, 6).await;
        produce(&topic, 2..6, 0..50).await;
        balanced(&members, 6).await;
        all_read(&seen, 6 * 50).await;
        for member in members {
            member.leave().await;
        }
        assert_eq!(read_twice(&seen), [], "{protocol:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_static_member_finds_its_partitions_again_without_a_rebalance() {
    for protocol in [Assignor::Sticky.into(), Protocol::Consumer] {
        come_back(protocol).await;
    }
}

async fn come_back(protocol: Protocol) {
    let broker = Broker::start().await;
    let topic = broker.topic("static", PARTITIONS).await;
    let group = unique("static");
    let seen = Seen::default();
    let start = |instance: &str| {
        let config = ConsumerConfig {
            group_instance_id: Some(instance.to_owned()),
            session_timeout: Duration::from_secs(30),
            ..member(&broker, &group, protocol)
        };
        Member::start(config, &topic, &seen)
    };
    let mut members = vec![start("a"), start("b")];
    balanced(&members, PARTITIONS as usize).await;
    let (kept, had) = (members[0].owned(), members[1].owned());
    members.remove(1).leave().await;
    members.push(start("b"));
    balanced(&members, PARTITIONS as usize).await;
    assert_eq!((members[0].owned(), members[1].owned()), (kept, had));
    for member in members {
        member.leave().await;
    }
}

#[tokio::test]
async fn offsets_are_committed_with_their_words_and_found_again() {
    for protocol in [Assignor::Range.into(), Protocol::Consumer] {
        commit_with_words(protocol).await;
    }
}

async fn commit_with_words(protocol: Protocol) {
    let broker = Broker::start().await;
    let topic = broker.topic("commit", 2).await;
    let group = unique("commit");
    produce(&topic, 0..2, 0..30).await;
    let config = || member(&broker, &group, protocol);
    let mut first = Consumer::new(config()).expect("a consumer");
    first.subscribe([topic.name.as_str()]).expect("a group");
    let mut got = 0;
    while got < 60 {
        got += first
            .poll(Duration::from_secs(10))
            .await
            .expect("a poll")
            .len();
    }
    first.commit_async().await.expect("committed");
    let offsets = BTreeMap::from([(topic.at(0), OffsetAndMetadata::from((12, "so far")))]);
    first
        .commit_sync_offsets(offsets.clone())
        .await
        .expect("committed");
    let committed = first.committed(topic.partitions()).await.expect("found");
    assert_eq!(committed[&topic.at(0)].metadata, "so far");
    assert_eq!(
        (
            committed[&topic.at(0)].offset,
            committed[&topic.at(1)].offset
        ),
        (12, 30)
    );
    first
        .close(Duration::from_secs(10))
        .await
        .expect("it leaves");
    let mut second = Consumer::new(config()).expect("a consumer");
    second
        .subscribe_matching({
            let name = topic.name.clone();
            move |topic| topic == name
        })
        .expect("a group");
    let mut read = Vec::new();
    while read.len() < 18 {
        let records = second.poll(Duration::from_secs(10)).await.expect("a poll");
        read.extend(
            records
                .iter()
                .map(|(at, record)| (at.partition, record.offset)),
        );
    }
    assert_eq!(read, (12..30).map(|offset| (0, offset)).collect::<Vec<_>>());
    second
        .close(Duration::from_secs(10))
        .await
        .expect("it leaves");
}

#[tokio::test]
async fn what_polls_returned_is_committed_automatically_and_by_close() {
    for protocol in [Assignor::Range.into(), Protocol::Consumer] {
        commit_automatically(protocol).await;
    }
}

async fn commit_automatically(protocol: Protocol) {
    let broker = Broker::start().await;
    let topic = broker.topic("auto", 1).await;
    let group = unique("auto");
    produce(&topic, 0..1, 0..30).await;
    let config = ConsumerConfig {
        enable_auto_commit: true,
        auto_commit_interval: Duration::from_millis(100),
        ..member(&broker, &group, protocol)
    };
    let mut consumer = Consumer::new(config).expect("a consumer");
    consumer.subscribe([topic.name.as_str()]).expect("a group");
    let at = topic.at(0);
    let first = consumer
        .poll(Duration::from_secs(10))
        .await
        .expect("a poll")
        .len() as i64;
    tokio::time::sleep(Duration::from_millis(150)).await;
    let second = consumer
        .poll(Duration::from_secs(10))
        .await
        .expect("a poll")
        .len() as i64;
    // The offsets after the first poll were committed by the second; the commit may still be on its way.
    let begun = Instant::now();
    loop {
        let committed = consumer.committed([at.clone()]).await.expect("found");
        match committed.get(&at) {
            Some(committed) => break assert_eq!(committed.offset, first),
            None => assert!(
                begun.elapsed() < Duration::from_secs(10),
                "nothing committed"
            ),
        }
    }
    consumer
        .close(Duration::from_secs(10))
        .await
        .expect("it leaves");
    let other = Consumer::new(member(&broker, &group, protocol)).expect("a consumer");
    let committed = other.committed([at.clone()]).await.expect("found");
    assert_eq!(committed[&at].offset, first + second);
}
