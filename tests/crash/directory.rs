//! A disk that fails under one of two data directories: its partitions go offline, on every shard, and nothing
//! else does. Knows the broker as a process and a client, and its disk as one whose flushes fail.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::AdminConfig;
use client::admin::Admin;
use client::direct::{Acks, Connection, Error};
use wire::Compression;
use wire::records::BatchBuilder;

use crate::block::FileSystem;
use crate::broker::{Broker, DataDir};
use crate::disk::{self, Disk, Keep};

const TOPIC: &str = "two-disks";
const PARTITIONS: i32 = 8;
/// So many that those on one disk are on several shards.
const SHARDS: usize = 3;
/// Batches to one partition within which a failing flush is met.
const BATCHES_MAX: u32 = 1_000;
/// How long it may take until every shard knows, on any machine and under any load.
const TOLD_MAX: Duration = Duration::from_secs(10);
/// KAFKA_STORAGE_ERROR.
const STORAGE_ERROR: i16 = 56;
const SETTINGS: &[(&str, &str)] = &[
    ("CORELOG_WAL__EXTENT_BYTES", "2097152"),
    ("CORELOG_WAL__BYTES_MAX", "8388608"),
    ("CORELOG_STORAGE__DISK_RESERVE_BYTES", "16777216"),
];

async fn produce(connection: &mut Connection, partition: i32) -> Result<i64, Error> {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(1_000, None, Some(b"value"), &[]);
    let batch = builder.finish().expect("a batch");
    connection.produce(TOPIC, partition, Acks::All, batch).await
}

/// Each directory's error, and the partitions in it.
async fn described(broker: &Broker) -> Vec<(bool, Vec<i32>)> {
    let admin = Admin::new(AdminConfig::to(&broker.address.to_string()));
    let dirs = admin
        .describe_log_dirs(1)
        .await
        .expect("the broker answers");
    let dirs = dirs.iter().map(|dir| {
        let replicas = dir.replicas.iter().filter(|it| it.topic == TOPIC);
        (
            dir.error.is_some(),
            replicas.map(|it| it.partition).collect(),
        )
    });
    dirs.collect()
}

/// Reads until the partition is offline.
async fn until_offline(connection: &mut Connection, partition: i32) {
    let begun = Instant::now();
    while !matches!(
        connection.fetch(TOPIC, partition, 0).await,
        Err(Error::Broker(STORAGE_ERROR))
    ) {
        assert!(begun.elapsed() < TOLD_MAX, "{partition} is served still");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub fn a_disk_that_fails_takes_only_its_own_partitions_offline() {
    if let Some(reason) = disk::missing(&[FileSystem::Ext4]) {
        println!("SKIPPED, no disk failed: {reason}");
        return;
    }
    crate::runtime().block_on(async {
        let data = DataDir::new("two-disks");
        let mut disk = Disk::new(FileSystem::Ext4);
        let (sound, failing) = (data.join("sound"), disk.path().join("data"));
        let both = PathBuf::from(format!("{},{}", sound.display(), failing.display()));
        let broker = Broker::start_with(&both, SHARDS, SETTINGS).await;
        let mut connection = Connection::connect(broker.address).await.expect("connects");
        let created = connection.create_topic(TOPIC, PARTITIONS, &[]).await;
        created.expect("the topic is created");
        let on_failing = described(&broker).await[1].1.clone();
        assert_eq!(on_failing.len(), 4, "half of them");
        let mut acknowledged = vec![0; PARTITIONS as usize];
        for partition in 0..PARTITIONS {
            let appended = produce(&mut connection, partition).await;
            acknowledged[partition as usize] = appended.expect("appended") + 1;
        }

        disk.fail_flush(1);
        let first = on_failing[0];
        let mut tries = 0..BATCHES_MAX;
        let refused = loop {
            assert!(tries.next().is_some(), "a flush fails");
            match produce(&mut connection, first).await {
                Ok(offset) => acknowledged[first as usize] = offset + 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::Broker(STORAGE_ERROR)), "{refused}");
        // Whatever shard they are on, though only one has met the failure itself: reading writes nothing.
        for partition in &on_failing {
            until_offline(&mut connection, *partition).await;
        }
        for partition in 0..PARTITIONS {
            let appended = produce(&mut connection, partition).await;
            match (appended, on_failing.contains(&partition)) {
                (Ok(offset), false) => acknowledged[partition as usize] = offset + 1,
                (Err(Error::Broker(STORAGE_ERROR)), true) => {}
                (other, _) => panic!("partition {partition}: {other:?}"),
            }
        }
        let dirs = described(&broker).await;
        assert_eq!((dirs[0].0, dirs[0].1.len()), (false, 4), "{dirs:?}");
        assert_eq!(dirs[1], (true, Vec::new()));
        let created = connection.create_topic("later", 2, &[]).await;
        created.expect("topics are still created, on the disk that is left");

        disk.cut(Keep::All, 1);
        broker.kill();
        disk.power_on();
        let broker = Broker::start_with(&both, SHARDS, SETTINGS).await;
        let mut connection = Connection::connect(broker.address).await.expect("connects");
        for partition in 0..PARTITIONS {
            let end = acknowledged[partition as usize];
            let (high_watermark, _) = connection.fetch(TOPIC, partition, 0).await.expect("served");
            assert!(
                high_watermark >= end,
                "partition {partition} has lost records"
            );
        }
        broker.kill();
    });
}
