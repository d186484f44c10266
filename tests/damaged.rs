//! A broker on files in which something is wrong: what is damaged is refused by name, and everything beside it
//! is served. Knows the broker as a process, its files and a client.

mod broker;

use std::fs;
use std::path::{Path, PathBuf};

use broker::{Broker, DataDir};
use client::direct::{Acks, Connection, Error};
use wire::records::BatchBuilder;
use wire::{Compression, ErrorCode};

const HURT: &str = "hurt";
const SOUND: &str = "sound";
const BATCHES: i64 = 10;

async fn produce(connection: &mut Connection, topic: &str) -> Result<i64, Error> {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(1_000, None, Some(&[b'v'; 500]), &[]);
    let batch = builder.finish().expect("a batch");
    connection.produce(topic, 0, Acks::All, batch).await
}

/// Two topics with the same records, on a broker that was stopped after them.
async fn stopped(data: &Path) {
    let broker = Broker::start(data, 1).await;
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    for topic in [HURT, SOUND] {
        let created = connection.create_topic(topic, 1, &[]).await;
        created.expect("the topic is created");
        for _ in 0..BATCHES {
            produce(&mut connection, topic).await.expect("appended");
        }
    }
    broker.terminate();
}

/// A file of the topic's only partition.
fn file(data: &Path, name: &str) -> PathBuf {
    let logs = fs::read_dir(data.join("logs")).expect("logs");
    let mut logs = logs.map(|log| log.expect("an entry").path());
    let is_hurt = |log: &PathBuf| {
        let name = log.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with(HURT)
    };
    logs.find(is_hurt).expect("the partition").join(name)
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[at] ^= 0x10;
    fs::write(path, bytes).expect("written");
}

fn refused_with<T>(answer: Result<T, Error>) -> Option<ErrorCode> {
    match answer {
        Err(Error::Broker(code)) => Some(ErrorCode::from(code)),
        _ => None,
    }
}

/// The offsets of all batches from one on, each of one record.
async fn offsets(connection: &mut Connection, topic: &str, from: i64) -> Vec<i64> {
    let mut offsets = Vec::new();
    let mut next = from;
    loop {
        let (high_watermark, batches) = connection.fetch(topic, 0, next).await.expect("served");
        offsets.extend(batches.iter().map(|batch| batch.base_offset));
        next = offsets.last().map_or(from, |last| last + 1);
        if next >= high_watermark {
            return offsets;
        }
        assert!(!batches.is_empty(), "nothing from {next} on");
    }
}

/// The sound topic is whole and goes on.
async fn the_other_is_served(connection: &mut Connection) {
    assert_eq!(
        offsets(connection, SOUND, 0).await,
        (0..BATCHES).collect::<Vec<_>>()
    );
    let appended = produce(connection, SOUND).await;
    assert_eq!(appended.expect("appended"), BATCHES);
}

#[tokio::test]
async fn a_partition_whose_metadata_is_damaged_or_gone_is_offline_and_never_made_anew() {
    for gone in [false, true] {
        let data = DataDir::new(&format!("metadata-{gone}"));
        stopped(&data).await;
        let metadata = file(&data, "partition.metadata");
        match gone {
            true => fs::remove_file(&metadata).expect("removed"),
            false => flip(&metadata, 30),
        }
        let segment = file(&data, "00000000000000000000.log");
        let before = fs::read(&segment).expect("a segment");
        let broker = Broker::start(&data, 1).await;
        let mut connection = Connection::connect(broker.address).await.expect("connects");
        let offline = Some(ErrorCode::KafkaStorageError);
        let fetched = connection.fetch(HURT, 0, 0).await;
        assert_eq!(refused_with(fetched), offline, "gone: {gone}");
        let produced = produce(&mut connection, HURT).await;
        assert_eq!(refused_with(produced), offline, "gone: {gone}");
        the_other_is_served(&mut connection).await;
        broker.terminate();
        let after = fs::read(&segment).expect("a segment");
        assert!(before == after, "its segment is left alone");
    }
}

#[tokio::test]
async fn records_that_are_damaged_are_never_sent() {
    let data = DataDir::new("records");
    stopped(&data).await;
    let segment = file(&data, "00000000000000000000.log");
    let batch = fs::metadata(&segment).expect("a segment").len() as usize / BATCHES as usize;
    flip(&segment, 4 * batch + 200);
    let broker = Broker::start(&data, 1).await;
    let mut connection = Connection::connect(broker.address).await.expect("connects");
    for _ in 0..2 {
        let fetched = connection.fetch(HURT, 0, 4).await;
        assert_eq!(refused_with(fetched), Some(ErrorCode::CorruptMessage));
    }
    let behind: Vec<i64> = (5..BATCHES).collect();
    assert_eq!(offsets(&mut connection, HURT, 5).await, behind);
    the_other_is_served(&mut connection).await;
    broker.terminate();
}
