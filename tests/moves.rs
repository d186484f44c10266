//! Partitions that are moved between the data directories of one broker, while they are written and read: nothing
//! is lost, doubled or reordered, wherever a kill comes in between. Knows the broker as a process, its directories
//! and a client.

mod broker;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use broker::{Broker, DataDir};
use bytes::Bytes;
use client::AdminConfig;
use client::admin::{Admin, LogDir};
use client::direct::{Acks, Connection, Error, Producer};
use wire::compression::Unfolding;
use wire::messages::AlterReplicaLogDirsRequestData;
use wire::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use wire::records::{BatchBuilder, Records};
use wire::request::Request;
use wire::response::Response;
use wire::{Compression, ErrorCode, KafkaString};

const TOPIC: &str = "moved";
const PARTITIONS: i32 = 2;
/// Segments roll often, so that some are sealed and some are not.
const CONFIGS: &[(&str, &str)] = &[("segment.bytes", "1048576")];
/// Records of a batch, and bytes of each.
const RECORDS: i64 = 8;
const RECORD_BYTES: usize = 2_000;
const SETTINGS: &[(&str, &str)] = &[
    ("CORELOG_WAL__EXTENT_BYTES", "2097152"),
    ("CORELOG_WAL__BYTES_MAX", "8388608"),
];
/// How long a move may take, on any machine and under any load.
const MOVE_MAX: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

fn both(data: &Path) -> PathBuf {
    let names = ["a", "b"].map(|name| data.join(name).display().to_string());
    PathBuf::from(names.join(","))
}

fn content(number: i64) -> Vec<u8> {
    let mut value = format!("{number}:").into_bytes();
    value.resize(RECORD_BYTES, b'.');
    value
}

fn batch(producer: Producer, first: i64) -> Bytes {
    let sequence = i32::try_from(first).expect("a short run");
    let builder = BatchBuilder::new(Compression::None);
    let mut builder = builder.producer(producer.id, producer.epoch, sequence);
    for number in first..first + RECORDS {
        builder.push(1_000, None, Some(&content(number)), &[]);
    }
    builder.finish().expect("a batch")
}

/// Asks for a move; the partition's error code.
async fn alter(connection: &mut Connection, partition: i32, path: &Path) -> ErrorCode {
    let name = |text: &str| KafkaString::from(text.to_owned());
    let topic = AlterReplicaLogDirTopic::default()
        .with_name(name(TOPIC))
        .with_partitions(vec![partition]);
    let dir = AlterReplicaLogDir::default()
        .with_path(name(&path.display().to_string()))
        .with_topics(vec![topic]);
    let request = AlterReplicaLogDirsRequestData::default().with_dirs(vec![dir]);
    let request = Request::AlterReplicaLogDirs(request);
    let Response::AlterReplicaLogDirs(answer) =
        connection.call(2, &request).await.expect("answered")
    else {
        panic!("an AlterReplicaLogDirs response");
    };
    ErrorCode::from(answer.results[0].partitions[0].error_code)
}

async fn described(address: SocketAddr) -> Vec<LogDir> {
    let admin = Admin::new(AdminConfig::to(&address.to_string()));
    admin
        .describe_log_dirs(1)
        .await
        .expect("the broker answers")
}

/// The number of the directory that a partition is in, when it is not on its way to another one.
async fn settled_in(address: SocketAddr, partition: i32) -> Option<usize> {
    let dirs = described(address).await;
    let replicas = |dir: &LogDir, future| {
        let mut all = dir.replicas.iter();
        all.any(|it| (it.topic.as_str(), it.partition, it.is_future) == (TOPIC, partition, future))
    };
    let moving = dirs.iter().any(|dir| replicas(dir, true));
    let at = dirs.iter().position(|dir| replicas(dir, false));
    at.filter(|_| !moving)
}

async fn until_in(address: SocketAddr, partition: i32, wanted: usize) {
    let begun = Instant::now();
    while settled_in(address, partition).await != Some(wanted) {
        assert!(
            begun.elapsed() < MOVE_MAX,
            "{partition} does not come to {wanted}"
        );
        tokio::time::sleep(PAUSE).await;
    }
}

/// One producer's partition, which nobody else writes to: a record's number is its offset.
struct Writer {
    partition: i32,
    producer: Producer,
    acknowledged: AtomicI64,
    read: AtomicI64,
}

impl Writer {
    /// Produces until told to stop, or until the broker is gone.
    async fn write(&self, address: SocketAddr, stop: &AtomicBool) {
        let mut connection = Connection::connect(address).await.expect("connects");
        while !stop.load(Ordering::Relaxed) {
            let first = self.acknowledged.load(Ordering::Relaxed);
            match self.append(&mut connection, first).await {
                Ok(offset) => assert_eq!(offset, first, "partition {}", self.partition),
                Err(Error::Broker(code)) => panic!("partition {}: {code}", self.partition),
                Err(_) => return,
            }
            self.acknowledged.store(first + RECORDS, Ordering::Relaxed);
        }
    }

    async fn append(&self, connection: &mut Connection, first: i64) -> Result<i64, Error> {
        let batch = batch(self.producer, first);
        connection
            .produce(TOPIC, self.partition, Acks::All, batch)
            .await
    }

    /// Reads until told to stop, or until the broker is gone.
    async fn follow(&self, address: SocketAddr, stop: &AtomicBool) {
        let mut connection = Connection::connect(address).await.expect("connects");
        while !stop.load(Ordering::Relaxed) {
            let next = self.read.load(Ordering::Relaxed);
            match read_from(&mut connection, self.partition, next).await {
                Ok(end) => self.read.store(end, Ordering::Relaxed),
                Err(Error::Broker(code)) => panic!("reading {}: {code}", self.partition),
                Err(_) => return,
            }
        }
    }
}

/// Reads what is there from one record on, each in its place; says where the next is.
async fn read_from(connection: &mut Connection, partition: i32, from: i64) -> Result<i64, Error> {
    let mut next = from;
    let (_, batches) = connection.fetch(TOPIC, partition, from).await?;
    for batch in batches {
        let mut number = batch.base_offset;
        assert!(
            number <= next,
            "records before {number} are missing from {next} on"
        );
        for record in Records::open(&batch.bytes, &Unfolding::default()).expect("a batch") {
            let value = record.expect("a record").value.expect("a value");
            assert!(value == content(number), "record {number} differs");
            number += 1;
        }
        next = next.max(number);
    }
    Ok(next)
}

async fn read_all(connection: &mut Connection, writer: &Writer) {
    let acknowledged = writer.acknowledged.load(Ordering::Relaxed);
    read_up_to(connection, writer.partition, (0, acknowledged)).await;
}

/// Reads what there must be between two records.
async fn read_up_to(connection: &mut Connection, partition: i32, (from, to): (i64, i64)) {
    let mut next = from;
    while next < to {
        let end = read_from(connection, partition, next).await;
        let end = end.expect("served");
        assert!(end > next, "{next} of {to} records are there");
        next = end;
    }
}

async fn writers(broker: &Broker) -> Vec<Arc<Writer>> {
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    let created = connection.create_topic(TOPIC, PARTITIONS, CONFIGS).await;
    created.expect("the topic is created");
    let mut all = Vec::new();
    for partition in 0..PARTITIONS {
        all.push(Arc::new(Writer {
            partition,
            producer: connection.init_producer().await.expect("an id"),
            acknowledged: AtomicI64::new(0),
            read: AtomicI64::new(0),
        }));
    }
    all
}

type Tasks = Vec<tokio::task::JoinHandle<()>>;

fn under_load(address: SocketAddr, all: &[Arc<Writer>], stop: &Arc<AtomicBool>) -> Tasks {
    let mut tasks = Vec::new();
    for writer in all {
        let (it, told) = (writer.clone(), stop.clone());
        tasks.push(tokio::spawn(async move { it.write(address, &told).await }));
        let (it, told) = (writer.clone(), stop.clone());
        tasks.push(tokio::spawn(async move { it.follow(address, &told).await }));
    }
    tasks
}

async fn ended(tasks: Tasks) {
    for task in tasks {
        task.await.expect("nobody has met a wrong answer");
    }
}

/// Waits until each writer has got on by so many records.
async fn until_grown(all: &[Arc<Writer>], by: i64) {
    let begun = Instant::now();
    let goals: Vec<i64> = all
        .iter()
        .map(|it| it.acknowledged.load(Ordering::Relaxed) + by)
        .collect();
    for (writer, goal) in all.iter().zip(goals) {
        while writer.acknowledged.load(Ordering::Relaxed) < goal {
            assert!(begun.elapsed() < MOVE_MAX, "appends go on");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_moved_under_load_to_and_fro_and_nobody_notices() {
    let data = DataDir::new("moved");
    let broker = Broker::start_with(&both(&data), 2, SETTINGS).await;
    let all = writers(&broker).await;
    let stop = Arc::new(AtomicBool::new(false));
    let tasks = under_load(broker.address, &all, &stop);
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    let dirs = ["a", "b"].map(|name| data.join(name));
    until_grown(&all, 1_000).await;
    for _ in 0..3 {
        for partition in 0..PARTITIONS {
            let at = settled_in(broker.address, partition)
                .await
                .expect("at rest");
            let code = alter(&mut connection, partition, &dirs[1 - at]).await;
            assert_eq!(code, ErrorCode::None);
            until_in(broker.address, partition, 1 - at).await;
            until_grown(&all, 200).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    ended(tasks).await;
    for writer in &all {
        read_all(&mut connection, writer).await;
        // What the leader knows of its producers has come along.
        let last = writer.acknowledged.load(Ordering::Relaxed) - RECORDS;
        let again = writer.append(&mut connection, last).await;
        assert_eq!(again.expect("known"), last, "a retry is answered as before");
    }
    let places = [
        settled_in(broker.address, 0).await,
        settled_in(broker.address, 1).await,
    ];
    broker.kill();
    let broker = Broker::start_with(&both(&data), 1, SETTINGS).await;
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    assert_eq!(
        places,
        [
            settled_in(broker.address, 0).await,
            settled_in(broker.address, 1).await
        ]
    );
    for writer in &all {
        read_all(&mut connection, writer).await;
        let next = writer.acknowledged.load(Ordering::Relaxed);
        assert_eq!(
            writer.append(&mut connection, next).await.expect("goes on"),
            next
        );
    }
    broker.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_amid_moves_leaves_each_partition_whole_in_one_place() {
    let data = DataDir::new("killed-moving");
    let mut broker = Broker::start_with(&both(&data), 2, SETTINGS).await;
    let all = writers(&broker).await;
    let dirs = ["a", "b"].map(|name| data.join(name));
    for round in 0..broker::number("CORELOG_MOVE_ROUNDS", 6) {
        let address = broker.address;
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = under_load(address, &all, &stop);
        until_grown(&all, 200).await;
        let mover = {
            let (stop, dirs) = (stop.clone(), dirs.clone());
            tokio::spawn(async move {
                let mut connection = Connection::connect(address).await.expect("connects");
                let mut to = 0;
                while !stop.load(Ordering::Relaxed) {
                    to = 1 - to;
                    for partition in 0..PARTITIONS {
                        let at = (to + usize::try_from(partition).expect("small")) % 2;
                        // Left early when the broker is gone.
                        let asked = tokio::time::timeout(
                            MOVE_MAX,
                            try_alter(&mut connection, partition, &dirs[at]),
                        );
                        if !matches!(asked.await, Ok(true)) {
                            return;
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(37)).await;
                }
            })
        };
        tokio::time::sleep(Duration::from_millis(150 + round * 41)).await;
        broker.assert_alive();
        broker.kill();
        stop.store(true, Ordering::Relaxed);
        ended(tasks).await;
        mover.await.expect("it only asks");
        broker = Broker::start_with(
            &both(&data),
            1 + usize::try_from(round).expect("small") % 2,
            SETTINGS,
        )
        .await;
        let mut connection = Connection::connect(broker.address).await.expect("connects");
        for writer in &all {
            // The batch that was not answered is there or not; sent again, it is there once.
            let next = writer.acknowledged.load(Ordering::Relaxed);
            let again = writer.append(&mut connection, next).await;
            assert_eq!(again.expect("appended"), next, "round {round}");
            writer.acknowledged.store(next + RECORDS, Ordering::Relaxed);
            read_all(&mut connection, writer).await;
            assert!(settled_in(broker.address, writer.partition).await.is_some());
        }
    }
    broker.terminate();
}

async fn try_alter(connection: &mut Connection, partition: i32, path: &Path) -> bool {
    let name = |text: &str| KafkaString::from(text.to_owned());
    let topic = AlterReplicaLogDirTopic::default()
        .with_name(name(TOPIC))
        .with_partitions(vec![partition]);
    let dir = AlterReplicaLogDir::default()
        .with_path(name(&path.display().to_string()))
        .with_topics(vec![topic]);
    let request = AlterReplicaLogDirsRequestData::default().with_dirs(vec![dir]);
    connection
        .call(2, &Request::AlterReplicaLogDirs(request))
        .await
        .is_ok()
}

#[tokio::test]
async fn what_cannot_be_moved_is_refused_as_in_kafka() {
    let data = DataDir::new("refused-moves");
    let broker = Broker::start_with(&both(&data), 1, SETTINGS).await;
    let all = writers(&broker).await;
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    let at = settled_in(broker.address, 0).await.expect("at rest");
    let dirs = ["a", "b"].map(|name| data.join(name));
    let nowhere = alter(&mut connection, 0, &data.join("c")).await;
    assert_eq!(nowhere, ErrorCode::LogDirNotFound);
    assert_eq!(
        alter(&mut connection, 7, &dirs[at]).await,
        ErrorCode::UnknownTopicOrPartition
    );
    assert_eq!(
        alter(&mut connection, 0, &dirs[at]).await,
        ErrorCode::None,
        "it is there"
    );
    assert_eq!(settled_in(broker.address, 0).await, Some(at));
    // Where the log starts goes along.
    for first in [0, RECORDS] {
        all[0]
            .append(&mut connection, first)
            .await
            .expect("appended");
    }
    let admin = Admin::new(AdminConfig::to(&broker.address.to_string()));
    let deleted = admin
        .delete_records(TOPIC, &[(0, RECORDS)])
        .await
        .expect("answered");
    assert!(deleted.iter().all(|about| about.result.is_ok()));
    assert_eq!(
        alter(&mut connection, 0, &dirs[1 - at]).await,
        ErrorCode::None
    );
    until_in(broker.address, 0, 1 - at).await;
    for restarted in [false, true] {
        let below = connection.fetch(TOPIC, 0, RECORDS - 1).await;
        let refused = matches!(below, Err(Error::Broker(code)) if ErrorCode::from(code) == ErrorCode::OffsetOutOfRange);
        assert!(refused, "restarted: {restarted}");
        read_up_to(&mut connection, 0, (RECORDS, 2 * RECORDS)).await;
        if restarted {
            break;
        }
    }
    broker.kill();
    fs::rename(&dirs[1], data.join("away")).expect("moved");
    let broker = Broker::start_with(&both(&data), 1, SETTINGS).await;
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    let on_first = i32::from(settled_in(broker.address, 0).await != Some(0));
    let offline = alter(&mut connection, on_first, &dirs[1]).await;
    assert_eq!(offline, ErrorCode::KafkaStorageError);
    broker.terminate();
}

/// The directory of partition 0's log in a data directory, with this end of its name.
fn log(data_dir: &Path, end: &str) -> PathBuf {
    let logs = fs::read_dir(data_dir.join("logs")).expect("logs");
    let names = logs.map(|it| it.expect("an entry").path());
    let prefix = format!("{TOPIC}-0.");
    let mut found = names.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&prefix) && !name.ends_with("-future")
    });
    let path = found.next().expect("the log");
    path.with_file_name(format!(
        "{}{end}",
        path.file_name().expect("a name").to_string_lossy()
    ))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("made");
    for file in fs::read_dir(from).expect("files") {
        let file = file.expect("an entry").path();
        fs::copy(&file, to.join(file.file_name().expect("a name"))).expect("copied");
    }
}

#[tokio::test]
async fn a_start_finishes_a_move_that_counts_and_forgets_any_other() {
    let data = DataDir::new("cut-short");
    let broker = Broker::start_with(&both(&data), 1, SETTINGS).await;
    let all = writers(&broker).await;
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    all[0].append(&mut connection, 0).await.expect("appended");
    let at = settled_in(broker.address, 0).await.expect("at rest");
    broker.terminate();
    let dirs = ["a", "b"].map(|name| data.join(name));
    let (here, there) = (&dirs[at], &dirs[1 - at]);
    let source = log(here, "");
    let future = there
        .join("logs")
        .join(log(here, "-future").file_name().expect("a name"));

    // The copy is whole, and the log has its name still: a move that was given up.
    copy(&source, &future);
    serves(&data, at, 2).await;
    assert!(!future.exists(), "it is forgotten");
    // The copy is not whole.
    copy(&source, &future);
    fs::remove_file(future.join("partition.metadata")).expect("removed");
    serves(&data, at, 3).await;
    assert!(!future.exists(), "it is forgotten");
    // The log has given up its name.
    copy(&source, &future);
    fs::remove_dir_all(&source).expect("removed");
    serves(&data, 1 - at, 4).await;
    assert!(!future.exists(), "it has its name");
    // The same, but for a directory that is missing: the log may be there.
    let source = log(there, "");
    let third = data.join("c");
    let three = PathBuf::from(format!("{},{}", both(&data).display(), third.display()));
    Broker::start_with(&three, 1, SETTINGS).await.terminate();
    let kept = log(there, "-future");
    fs::rename(&source, &kept).expect("renamed");
    fs::rename(&third, data.join("away")).expect("moved");
    let broker = Broker::start_with(&three, 1, SETTINGS).await;
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    let refused = connection.fetch(TOPIC, 0, 0).await;
    assert!(
        matches!(refused, Err(Error::Broker(code)) if ErrorCode::from(code) == ErrorCode::KafkaStorageError)
    );
    broker.terminate();
    assert!(kept.exists(), "nobody knows yet");
    fs::remove_dir_all(&third).unwrap_or_default();
    fs::rename(data.join("away"), &third).expect("moved back");
    let broker = Broker::start_with(&three, 1, SETTINGS).await;
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    read_up_to(&mut connection, 0, (0, 4 * RECORDS)).await;
    broker.terminate();
}

/// A broker that has partition 0 in this directory, where one more batch makes so many.
async fn serves(data: &Path, at: usize, batches: i64) {
    let broker = Broker::start_with(&both(data), 1, SETTINGS).await;
    assert_eq!(settled_in(broker.address, 0).await, Some(at));
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    let first = (batches - 1) * RECORDS;
    let mut builder = BatchBuilder::new(Compression::None);
    for number in first..first + RECORDS {
        builder.push(1_000, None, Some(&content(number)), &[]);
    }
    let batch = builder.finish().expect("a batch");
    let appended = connection.produce(TOPIC, 0, Acks::All, batch).await;
    assert_eq!(appended.expect("appended"), first);
    read_up_to(&mut connection, 0, (0, batches * RECORDS)).await;
    broker.terminate();
}
