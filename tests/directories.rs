//! A broker with several data directories: partitions are spread over them and found again, and one that is gone
//! takes only its own partitions offline. Knows the broker as a process, its directories and a client.

mod broker;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use broker::{Broker, DataDir};
use client::AdminConfig;
use client::admin::Admin;
use client::direct::{Acks, Connection, Error};
use wire::compression::Unfolding;
use wire::messages::{FindCoordinatorRequestData, MetadataRequestData};
use wire::records::{BatchBuilder, Records};
use wire::request::Request;
use wire::response::Response;
use wire::{Compression, ErrorCode, KafkaString};

const TOPIC: &str = "spread";
const PARTITIONS: i32 = 8;
const SHARDS: usize = 2;

/// The directories `a`, `b` and so on below one, as `--data` takes them.
fn list(parent: &Path, names: &[&str]) -> PathBuf {
    let all = names
        .iter()
        .map(|name| parent.join(name).display().to_string());
    PathBuf::from(all.collect::<Vec<_>>().join(","))
}

async fn connect(broker: &Broker) -> Connection {
    Connection::connect(broker.address).await.expect("connects")
}

async fn produce(
    connection: &mut Connection,
    topic: &str,
    partition: i32,
    value: &str,
) -> Result<i64, Error> {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(1_000, None, Some(value.as_bytes()), &[]);
    let batch = builder.finish().expect("a batch");
    connection.produce(topic, partition, Acks::All, batch).await
}

/// The values of a partition's records.
async fn values(
    connection: &mut Connection,
    topic: &str,
    partition: i32,
) -> Result<Vec<String>, Error> {
    let mut values = Vec::new();
    loop {
        let next = i64::try_from(values.len()).expect("small");
        let (high_watermark, batches) = connection.fetch(topic, partition, next).await?;
        for batch in batches {
            assert_eq!(
                batch.base_offset,
                i64::try_from(values.len()).expect("small")
            );
            for record in Records::open(&batch.bytes, &Unfolding::default()).expect("a batch") {
                let value = record.expect("a record").value.expect("a value");
                values.push(String::from_utf8(value.to_vec()).expect("text"));
            }
        }
        if i64::try_from(values.len()).expect("small") >= high_watermark {
            return Ok(values);
        }
    }
}

fn code<T>(answer: Result<T, Error>) -> Option<ErrorCode> {
    match answer {
        Err(Error::Broker(code)) => Some(ErrorCode::from(code)),
        _ => None,
    }
}

/// What DescribeLogDirs says: of each directory, by its last name, its error or the topic's partitions in it.
async fn described(address: SocketAddr) -> BTreeMap<String, Result<Vec<i32>, ()>> {
    let admin = Admin::new(AdminConfig::to(&address.to_string()));
    let dirs = admin
        .describe_log_dirs(1)
        .await
        .expect("the broker answers");
    let dirs = dirs.into_iter().map(|dir| {
        let name = Path::new(&dir.path).file_name().expect("a name");
        let replicas = dir.replicas.iter().filter(|it| it.topic == TOPIC);
        let mut partitions: Vec<i32> = replicas.map(|it| it.partition).collect();
        partitions.sort_unstable();
        let said = match dir.error {
            None => Ok(partitions),
            Some(_) => Err(()),
        };
        (name.to_string_lossy().into_owned(), said)
    });
    dirs.collect()
}

/// Creates the topic and appends a first record to each partition; says which partitions are in `b`.
async fn spread(broker: &Broker) -> Vec<i32> {
    let mut connection = connect(broker).await;
    let created = connection.create_topic(TOPIC, PARTITIONS, &[]).await;
    created.expect("the topic is created");
    append_to_all(&mut connection, "first").await;
    described(broker.address).await["b"]
        .clone()
        .expect("online")
}

async fn append_to_all(connection: &mut Connection, value: &str) {
    for partition in 0..PARTITIONS {
        let appended = produce(connection, TOPIC, partition, value).await;
        appended.expect("appended");
    }
}

async fn all_have(connection: &mut Connection, wanted: &[&str]) {
    for partition in 0..PARTITIONS {
        let found = values(connection, TOPIC, partition).await.expect("served");
        assert_eq!(found, wanted, "partition {partition}");
    }
}

#[tokio::test]
async fn partitions_are_spread_over_the_directories_and_found_there_after_any_end() {
    let data = DataDir::new("spread");
    let three = list(&data, &["a", "b", "c"]);
    let broker = Broker::start(&list(&data, &["a", "b"]), SHARDS).await;
    let in_b = spread(&broker).await;
    let before = described(broker.address).await;
    assert_eq!(before["a"].clone().map(|it| it.len()), Ok(4), "{before:?}");
    assert_eq!(in_b.len(), 4, "{before:?}");
    broker.kill();

    let broker = Broker::start(&three, SHARDS).await;
    let after = described(broker.address).await;
    assert_eq!((&after["a"], &after["b"]), (&before["a"], &before["b"]));
    let mut connection = connect(&broker).await;
    all_have(&mut connection, &["first"]).await;
    append_to_all(&mut connection, "second").await;
    connection
        .create_topic("more", 4, &[])
        .await
        .expect("created");
    assert_eq!(
        fs::read_dir(data.join("c/logs")).expect("logs").count(),
        4,
        "the emptiest gets them"
    );
    broker.terminate();
    let wals = ["a", "b", "c"].map(|name| {
        let wal = fs::read_dir(data.join(name).join("wal")).expect("a log");
        wal.count()
    });
    assert_eq!(
        wals, [1; 3],
        "after a clean stop only the count of starts is left in each"
    );

    let broker = Broker::start(&three, 1).await;
    all_have(&mut connect(&broker).await, &["first", "second"]).await;
    broker.terminate();
}

/// Looks at a broker that has lost `b`.
async fn only_b_is_offline(broker: &Broker, in_b: &[i32]) {
    let mut connection = connect(broker).await;
    for partition in 0..PARTITIONS {
        let offline = in_b
            .contains(&partition)
            .then_some(ErrorCode::KafkaStorageError);
        let produced = produce(&mut connection, TOPIC, partition, "second").await;
        assert_eq!(code(produced), offline, "produce to {partition}");
        let fetched = values(&mut connection, TOPIC, partition).await;
        assert_eq!(code(fetched), offline, "fetch of {partition}");
    }
    let dirs = described(broker.address).await;
    assert_eq!(dirs["b"], Err(()), "{dirs:?}");
    assert_eq!(dirs["a"].as_ref().map(Vec::len), Ok(4), "{dirs:?}");
    assert_eq!(leaderless(&mut connection).await, in_b);
}

/// The partitions of which Metadata says that nobody leads them.
async fn leaderless(connection: &mut Connection) -> Vec<i32> {
    let request = Request::Metadata(MetadataRequestData::default().with_topics(None));
    let Response::Metadata(answer) = connection.call(12, &request).await.expect("answered") else {
        panic!("a Metadata response");
    };
    let name = |it: &Option<KafkaString>| it.as_ref().is_some_and(|it| it.as_str() == TOPIC);
    let topic = answer.topics.iter().find(|topic| name(&topic.name));
    let partitions = topic.expect("the topic").partitions.iter();
    let mut found: Vec<i32> = partitions
        .filter(|it| it.leader_id == -1 && it.offline_replicas == [1])
        .map(|it| it.partition_index)
        .collect();
    found.sort_unstable();
    found
}

#[tokio::test]
async fn a_directory_that_is_gone_takes_only_its_own_partitions_offline_until_it_is_back() {
    for empty in [false, true] {
        let data = DataDir::new(&format!("gone-{empty}"));
        let both = list(&data, &["a", "b"]);
        let broker = Broker::start(&both, SHARDS).await;
        let in_b = spread(&broker).await;
        broker.kill();
        let (b, away) = (data.join("b"), data.join("away"));
        fs::rename(&b, &away).expect("moved");
        match empty {
            // A mount point without its disk.
            true => fs::create_dir(&b).expect("made"),
            // A path that leads nowhere.
            false => fs::write(&b, "").expect("written"),
        }
        for round in 0..2 {
            let broker = Broker::start(&both, SHARDS).await;
            only_b_is_offline(&broker, &in_b).await;
            let mut connection = connect(&broker).await;
            let name = format!("new-{round}");
            connection
                .create_topic(&name, 2, &[])
                .await
                .expect("created");
            let appended = produce(&mut connection, &name, 1, "here").await;
            assert_eq!(
                appended.expect("appended"),
                0,
                "in the directory that is left"
            );
            broker.kill();
        }
        match empty {
            true => fs::remove_dir(&b).expect("nothing was put there"),
            false => fs::remove_file(&b).expect("a file"),
        }
        fs::rename(&away, &b).expect("moved back");
        let broker = Broker::start(&both, SHARDS).await;
        let mut connection = connect(&broker).await;
        for partition in 0..PARTITIONS {
            let wanted: &[&str] = match in_b.contains(&partition) {
                true => &["first"],
                false => &["first", "second", "second"],
            };
            let found = values(&mut connection, TOPIC, partition).await;
            assert_eq!(found.expect("served"), wanted, "partition {partition}");
        }
        broker.terminate();
    }
}

#[tokio::test]
async fn a_partition_that_is_in_two_directories_is_not_guessed_at() {
    let data = DataDir::new("twice");
    let both = list(&data, &["a", "b"]);
    let broker = Broker::start(&both, 1).await;
    let in_b = spread(&broker).await;
    broker.terminate();
    let twice = in_b[0];
    let logs = fs::read_dir(data.join("b/logs")).expect("logs");
    let prefix = format!("{TOPIC}-{twice}.");
    let is_it = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|it| it.to_string_lossy().starts_with(&prefix))
    };
    let log = logs
        .map(|it| it.expect("an entry").path())
        .find(is_it)
        .expect("the log");
    let copy = data.join("a/logs").join(log.file_name().expect("a name"));
    fs::create_dir(&copy).expect("made");
    for file in fs::read_dir(&log).expect("files") {
        let file = file.expect("an entry").path();
        fs::copy(&file, copy.join(file.file_name().expect("a name"))).expect("copied");
    }
    let broker = Broker::start(&both, 1).await;
    let mut connection = connect(&broker).await;
    for partition in 0..PARTITIONS {
        let offline = (partition == twice).then_some(ErrorCode::KafkaStorageError);
        let appended = produce(&mut connection, TOPIC, partition, "second").await;
        assert_eq!(code(appended), offline, "partition {partition}");
    }
    broker.terminate();
    fs::remove_dir_all(&copy).expect("removed");
    let broker = Broker::start(&both, 1).await;
    let found = values(&mut connect(&broker).await, TOPIC, twice).await;
    assert_eq!(found.expect("served"), ["first"]);
    broker.terminate();
}

#[tokio::test]
async fn groups_in_a_directory_that_is_gone_have_no_coordinator_and_others_have() {
    let data = DataDir::new("groups-gone");
    let both = list(&data, &["a", "b"]);
    let broker = Broker::start(&both, SHARDS).await;
    let names: Vec<String> = (0..40).map(|number| format!("group-{number}")).collect();
    let mut connection = connect(&broker).await;
    let found = coordinators(&mut connection, &names).await;
    assert!(
        found.iter().all(|code| *code == ErrorCode::None),
        "{found:?}"
    );
    broker.terminate();
    fs::rename(data.join("b"), data.join("away")).expect("moved");
    let broker = Broker::start(&both, SHARDS).await;
    let mut connection = connect(&broker).await;
    let found = coordinators(&mut connection, &names).await;
    let count = |wanted| found.iter().filter(|code| **code == wanted).count();
    let (with, without) = (
        count(ErrorCode::None),
        count(ErrorCode::CoordinatorNotAvailable),
    );
    assert!(
        with > 0 && without > 0 && with + without == names.len(),
        "{found:?}"
    );
    broker.terminate();
}

async fn coordinators(connection: &mut Connection, groups: &[String]) -> Vec<ErrorCode> {
    let keys = groups.iter().map(|name| KafkaString::from(name.clone()));
    let request = FindCoordinatorRequestData::default().with_coordinator_keys(keys.collect());
    let request = Request::FindCoordinator(request);
    let Response::FindCoordinator(answer) = connection.call(4, &request).await.expect("answered")
    else {
        panic!("a FindCoordinator response");
    };
    let found = answer.coordinators.iter();
    found.map(|it| ErrorCode::from(it.error_code)).collect()
}
