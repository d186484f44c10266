//! A broker whose disk is below its reserve: nothing new from producers, everything else goes on. Knows
//! the broker as a process and a client.

mod broker;

use std::time::{Duration, Instant};

use broker::{Broker, DataDir};
use client::consumer::Consumer;
use client::direct::{Acks, Connection, Error};
use client::properties::{AutoOffsetReset, ConsumerConfig};
use wire::records::BatchBuilder;
use wire::{Compression, ErrorCode};

const TOPIC: &str = "full";
/// More than any disk has, in bytes.
const RESERVE: (&str, &str) = ("CORELOG_STORAGE__DISK_RESERVE_BYTES", "1125899906842624");
/// How soon the broker must have looked at its disk.
const NOTICED_MAX: Duration = Duration::from_secs(20);

async fn produce(connection: &mut Connection) -> Result<i64, Error> {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(1_000, None, Some(b"value"), &[]);
    let batch = builder.finish().expect("a batch");
    connection.produce(TOPIC, 0, Acks::All, batch).await
}

fn member(broker: &Broker) -> Consumer {
    let config = ConsumerConfig {
        group_id: Some("readers".to_owned()),
        auto_offset_reset: AutoOffsetReset::Earliest,
        enable_auto_commit: false,
        ..ConsumerConfig::to(&broker.address.to_string())
    };
    Consumer::new(config).expect("a consumer")
}

#[tokio::test]
async fn groups_reads_and_deletions_go_on_where_produce_is_refused() {
    let data = DataDir::new("short-of-space");
    let broker = Broker::start(&data, 2).await;
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    let created = connection.create_topic(TOPIC, 1, &[]).await;
    created.expect("the topic is created");
    for _ in 0..3 {
        produce(&mut connection).await.expect("there is space");
    }
    broker.terminate();

    let broker = Broker::start_with(&data, 2, &[RESERVE]).await;
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    let begun = Instant::now();
    let refused = loop {
        if let Err(error) = produce(&mut connection).await {
            break error;
        }
        assert!(begun.elapsed() < NOTICED_MAX, "nothing is refused");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let Error::Broker(code) = refused else {
        panic!("{refused}");
    };
    assert_eq!(ErrorCode::from(code), ErrorCode::KafkaStorageError);

    let mut consumer = member(&broker);
    consumer.subscribe([TOPIC]).expect("a group");
    let mut read = 0;
    while read < 3 {
        let polled = consumer.poll(Duration::from_secs(20)).await;
        read += polled.expect("reads go on").len();
    }
    consumer.commit_sync().await.expect("commits go on");
    consumer.close(Duration::from_secs(5)).await.expect("left");
    let other = connection.create_topic("other", 1, &[]).await;
    other.expect("topics are made");
    broker.kill();

    let broker = Broker::start_with(&data, 2, &[RESERVE]).await;
    let consumer = member(&broker);
    let at = client::consumer::TopicPartition::new(TOPIC, 0);
    let committed = consumer.committed([at.clone()]).await.expect("found");
    assert!(committed[&at].offset >= 3, "the commit outlived kill -9");
    broker.terminate();
}
