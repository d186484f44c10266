//! Our consumer against brokers: the corelog of this build, and with CORELOG_GROUPS_BOOTSTRAP=HOST:PORT
//! whatever listens there, groups included (see tests/compatibility/groups/run). Knows brokers by the
//! protocol only.

#[path = "broker/address.rs"]
mod address;
#[path = "consumer/broker.rs"]
mod broker;
#[path = "consumer/groups.rs"]
mod groups;
#[path = "consumer/java.rs"]
mod java;

use std::collections::BTreeMap;
use std::time::Duration;

use broker::{Broker, Topic};
use client::consumer::{Consumer, TopicPartition};
use client::properties::{AutoOffsetReset, ConsumerConfig};
use wire::{Compression, ErrorCode};

/// A poll that waits longer than that for records which are there has failed.
const WAIT_MAX: Duration = Duration::from_secs(20);

fn reader(broker: &Broker) -> ConsumerConfig {
    ConsumerConfig {
        auto_offset_reset: AutoOffsetReset::Earliest,
        fetch_max_wait: Duration::from_millis(50),
        ..ConsumerConfig::to(&broker.bootstrap)
    }
}

fn assigned(config: ConsumerConfig, topic: &Topic) -> Consumer {
    let mut consumer = Consumer::new(config).expect("a consumer");
    consumer
        .assign(topic.partitions())
        .expect("nothing is subscribed to");
    consumer
}

/// Polls until `count` records came: each partition's values.
async fn read(consumer: &mut Consumer, count: usize) -> BTreeMap<i32, Vec<String>> {
    let mut values: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    let mut got = 0;
    while got < count {
        let records = consumer.poll(WAIT_MAX).await.expect("a poll");
        assert!(!records.is_empty(), "only {got} of {count} records came");
        got += records.len();
        for (at, record) in records.iter() {
            let value = record.value.as_deref().unwrap_or_default();
            let value = String::from_utf8_lossy(value).into_owned();
            values.entry(at.partition).or_default().push(value);
        }
    }
    values
}

fn values(of: impl IntoIterator<Item = i64>) -> Vec<String> {
    of.into_iter()
        .map(|number| format!("value-{number}"))
        .collect()
}

#[tokio::test]
async fn what_was_produced_is_read_whole_with_every_codec() {
    let broker = Broker::start().await;
    for (codec, name) in Compression::ALL
        .iter()
        .zip(["none", "gzip", "snappy", "lz4", "zstd"])
    {
        let topic = broker.topic(&format!("codec-{name}"), 2).await;
        topic.produce(0, 0..300, *codec).await;
        topic.produce(1, 0..200, *codec).await;
        let mut consumer = assigned(reader(&broker), &topic);
        let records = consumer.poll(WAIT_MAX).await.expect("a poll");
        let (_, first) = records.iter().next().expect("records");
        assert_eq!(first.key.as_deref(), Some(&b"key-0"[..]), "{name}");
        assert_eq!(first.headers[0].key, "header");
        assert_eq!((first.offset, first.timestamp), (0, 1_000_000));
        consumer.seek_to_beginning(&topic.at(0)).expect("assigned");
        consumer.seek_to_beginning(&topic.at(1)).expect("assigned");
        let read = read(&mut consumer, 500).await;
        assert_eq!(read[&0], values(0..300), "{name}");
        assert_eq!(read[&1], values(0..200), "{name}");
        let lag = consumer.metrics().lag;
        assert_eq!(lag.values().sum::<i64>(), 0, "all was read: {lag:?}");
    }
}

#[tokio::test]
async fn a_poll_returns_at_most_max_poll_records_and_loses_none() {
    let broker = Broker::start().await;
    let topic = broker.topic("few", 3).await;
    for partition in 0..3 {
        topic.produce(partition, 0..100, Compression::Lz4).await;
    }
    let config = ConsumerConfig {
        max_poll_records: 7,
        ..reader(&broker)
    };
    let mut consumer = assigned(config, &topic);
    let mut seen = BTreeMap::new();
    let mut got = 0;
    while got < 300 {
        let records = consumer.poll(WAIT_MAX).await.expect("a poll");
        assert!((1..=7).contains(&records.len()), "{}", records.len());
        got += records.len();
        for (at, record) in records.iter() {
            let next = seen.entry(at.clone()).or_insert(0);
            assert_eq!(record.offset, *next, "{at}");
            *next += 1;
        }
    }
    assert_eq!(consumer.metrics().records, 300);
    assert_eq!(consumer.position(&topic.at(2)).await.expect("known"), 100);
}

#[tokio::test]
async fn a_seek_goes_to_offsets_ends_and_times() {
    let broker = Broker::start().await;
    let topic = broker.topic("seek", 1).await;
    topic.produce(0, 0..100, Compression::None).await;
    let at = topic.at(0);
    let mut consumer = assigned(reader(&broker), &topic);
    consumer.seek(&at, 42).expect("assigned");
    assert_eq!(read(&mut consumer, 58).await[&0], values(42..100));
    let found = consumer
        .offsets_for_times([(at.clone(), 1_000_070)])
        .await
        .expect("times");
    let found = found[&at].expect("a record that young");
    assert_eq!((found.offset, found.timestamp), (70, 1_000_070));
    let none = consumer
        .offsets_for_times([(at.clone(), 2_000_000)])
        .await
        .expect("times");
    assert_eq!(none[&at], None);
    let begin = consumer
        .beginning_offsets([at.clone()])
        .await
        .expect("the beginning");
    let end = consumer.end_offsets([at.clone()]).await.expect("the end");
    assert_eq!((begin[&at], end[&at]), (0, 100));
    consumer.seek_to_end(&at).expect("assigned");
    assert_eq!(consumer.position(&at).await.expect("looked up"), 100);
    topic.produce(0, 100..110, Compression::None).await;
    assert_eq!(read(&mut consumer, 10).await[&0], values(100..110));
    let elsewhere = consumer.seek(&TopicPartition::new("elsewhere", 0), 0);
    assert!(elsewhere.is_err(), "not assigned");
}

#[tokio::test]
async fn a_paused_partition_is_silent_and_goes_on_where_it_was() {
    let broker = Broker::start().await;
    let topic = broker.topic("pause", 2).await;
    topic.produce(0, 0..50, Compression::None).await;
    topic.produce(1, 0..50, Compression::None).await;
    let mut consumer = assigned(reader(&broker), &topic);
    consumer.pause(&topic.at(0)).expect("assigned");
    let first = read(&mut consumer, 50).await;
    assert_eq!(first.keys().copied().collect::<Vec<_>>(), [1]);
    let nothing = consumer
        .poll(Duration::from_millis(300))
        .await
        .expect("a poll");
    assert!(nothing.is_empty());
    consumer.resume(&topic.at(0)).expect("assigned");
    assert_eq!(read(&mut consumer, 50).await[&0], values(0..50));
}

#[tokio::test]
async fn an_offset_out_of_range_resets_or_is_told() {
    let broker = Broker::start().await;
    let topic = broker.topic("range", 1).await;
    topic.produce(0, 0..10, Compression::None).await;
    let mut consumer = assigned(reader(&broker), &topic);
    consumer.seek(&topic.at(0), 5_000).expect("assigned");
    assert_eq!(read(&mut consumer, 10).await[&0], values(0..10));
    let config = ConsumerConfig {
        auto_offset_reset: AutoOffsetReset::None,
        ..reader(&broker)
    };
    let mut consumer = assigned(config, &topic);
    consumer.seek(&topic.at(0), 5_000).expect("assigned");
    let error = consumer.poll(WAIT_MAX).await.expect_err("nowhere to go");
    assert_eq!(error.code(), Some(ErrorCode::OffsetOutOfRange), "{error}");
    consumer.seek(&topic.at(0), 8).expect("assigned");
    assert_eq!(read(&mut consumer, 2).await[&0], values(8..10));
}

#[tokio::test]
async fn records_that_come_later_are_read_when_they_come() {
    let broker = Broker::start().await;
    let topic = broker.topic("later", 1).await;
    let config = ConsumerConfig {
        auto_offset_reset: AutoOffsetReset::Latest,
        ..reader(&broker)
    };
    topic.produce(0, 0..5, Compression::None).await;
    let mut consumer = assigned(config, &topic);
    assert_eq!(consumer.position(&topic.at(0)).await.expect("the end"), 5);
    for round in 1..20 {
        let numbers = round * 5..round * 5 + 5;
        topic.produce(0, numbers.clone(), Compression::None).await;
        assert_eq!(read(&mut consumer, 5).await[&0], values(numbers));
    }
}

#[tokio::test]
async fn reading_goes_on_after_the_broker_was_killed_and_started_again() {
    let mut broker = Broker::start_own().await;
    let topic = broker.topic("killed", 2).await;
    topic.produce(0, 0..100, Compression::None).await;
    let mut consumer = assigned(reader(&broker), &topic);
    assert_eq!(read(&mut consumer, 100).await[&0], values(0..100));
    broker.kill();
    let silent = consumer.poll(Duration::from_millis(200)).await;
    assert!(
        silent
            .expect("a broker that is away is no error")
            .is_empty()
    );
    broker.restart().await;
    topic.produce(1, 0..100, Compression::None).await;
    assert_eq!(read(&mut consumer, 100).await[&1], values(0..100));
}
