//! The client library against a running broker: what a program that uses it relies on. With
//! CORELOG_TEST_BOOTSTRAP=HOST:PORT it runs against that broker (any Kafka), else against its own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::admin::{Admin, ConfigResource, ConfigSource, NewTopic, OffsetSpec};
use client::producer::{Producer, ProducerRecord};
use client::properties::Acks;
use client::{AdminConfig, Error, ProducerConfig};
use wire::records::Records;
use wire::{Compression, ErrorCode};

use address::free_address;

#[path = "broker/address.rs"]
mod address;

/// A broker of its own, or the one that the environment names.
struct Broker {
    bootstrap: String,
    own: Option<Own>,
}

struct Own {
    child: Child,
    data: PathBuf,
}

static BROKERS: AtomicU64 = AtomicU64::new(0);

impl Broker {
    fn start() -> Self {
        if let Ok(bootstrap) = std::env::var("CORELOG_TEST_BOOTSTRAP") {
            return Self {
                bootstrap,
                own: None,
            };
        }
        let number = BROKERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("corelog-client-{}-{number}", std::process::id());
        let data = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let bootstrap = free_address().to_string();
        let child = launch(&data, &bootstrap);
        Self {
            bootstrap,
            own: Some(Own { child, data }),
        }
    }

    /// Kills it as a power cut would, and starts it again; false where it is not ours to kill.
    fn restart(&mut self) -> bool {
        let Some(own) = &mut self.own else {
            return false;
        };
        own.child.kill().expect("our child");
        own.child.wait().expect("our child");
        own.child = launch(&own.data, &self.bootstrap);
        true
    }

    fn admin(&self) -> Admin {
        Admin::new(AdminConfig::to(&self.bootstrap))
    }

    fn producer(&self, configure: impl FnOnce(&mut ProducerConfig)) -> Producer {
        let mut config = ProducerConfig::to(&self.bootstrap);
        configure(&mut config);
        Producer::new(config).expect("valid settings")
    }

    /// Creates a topic with a name of its own.
    async fn topic(&self, admin: &Admin, partitions: i32) -> String {
        static TOPICS: AtomicU64 = AtomicU64::new(0);
        let number = TOPICS.fetch_add(1, Ordering::Relaxed);
        let since = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .expect("a clock");
        let name = format!("client-{}-{number}", since.as_micros());
        let topic = NewTopic::new(&name, partitions);
        admin
            .create_topics(vec![topic], false)
            .await
            .expect("asked")[0]
            .result
            .clone()
            .expect("created");
        name
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(own) = &mut self.own {
            let _ = own.child.kill();
            let _ = own.child.wait();
            let _ = std::fs::remove_dir_all(&own.data);
        }
    }
}

/// Starts a broker and waits until it says that it listens.
fn launch(data: &PathBuf, listen: &str) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_corelog"))
        .args(["serve", "--shards", "1", "--listen", listen, "--data"])
        .arg(data)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the broker starts");
    let stderr = child.stderr.take().expect("piped");
    let deadline = Instant::now() + Duration::from_secs(30);
    std::thread::spawn(move || BufReader::new(stderr).lines().for_each(drop));
    while std::net::TcpStream::connect(listen).is_err() {
        assert!(Instant::now() < deadline, "the broker listens within 30 s");
        let ended = child.try_wait().expect("our child");
        assert!(ended.is_none(), "the broker ended: {ended:?}");
        std::thread::yield_now();
    }
    child
}

/// Asks until the answer is yes, for 10 s.
async fn eventually(ask: impl AsyncFn() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !ask().await {
        assert!(Instant::now() < until, "not within 10 s");
    }
}

/// All values of a partition, in order, read batch by batch.
async fn values(bootstrap: &str, topic: &str, partition: i32) -> Vec<(i64, String)> {
    let address = bootstrap.parse().expect("an address");
    let mut connection = client::direct::Connection::connect(address)
        .await
        .expect("connects");
    let mut found = Vec::new();
    let mut offset = 0;
    loop {
        let fetched = connection.fetch(topic, partition, offset).await;
        let (high_watermark, batches) = fetched.expect("fetched");
        for batch in batches {
            let records = Records::open(&batch.bytes, &wire::compression::Unfolding::default());
            for record in records.expect("a batch") {
                let record = record.expect("a record");
                offset = batch.base_offset + i64::from(record.offset_delta) + 1;
                let value = record.value.unwrap_or_default();
                found.push((offset - 1, String::from_utf8_lossy(&value).into_owned()));
            }
        }
        if offset >= high_watermark {
            return found;
        }
    }
}

#[tokio::test]
async fn every_codec_and_acks_delivers_each_record_once_and_in_order() {
    let broker = Broker::start();
    let admin = broker.admin();
    for compression in Compression::ALL {
        let topic = broker.topic(&admin, 1).await;
        let producer = broker.producer(|config| config.compression = compression);
        let mut deliveries = Vec::new();
        for i in 0..5_000 {
            let record = ProducerRecord::to(topic.as_str())
                .key("k")
                .value(format!("v{i}"));
            deliveries.push(producer.send(record).await.expect("taken"));
        }
        for (offset, delivery) in (0..).zip(deliveries) {
            let known = delivery.await.expect("written");
            assert_eq!(
                (known.partition, known.offset),
                (0, Some(offset)),
                "{compression:?}"
            );
        }
        let expected: Vec<_> = (0..5_000).map(|i| (i, format!("v{i}"))).collect();
        assert_eq!(
            values(&broker.bootstrap, &topic, 0).await,
            expected,
            "{compression:?}"
        );
    }
}

#[tokio::test]
async fn acks_1_says_the_offset_and_acks_0_does_not() {
    let broker = Broker::start();
    let admin = broker.admin();
    let topic = broker.topic(&admin, 1).await;
    for (acks, offset) in [(Acks::Leader, Some(0)), (Acks::None, None)] {
        let producer = broker.producer(|config| {
            config.acks = acks;
            config.enable_idempotence = false;
        });
        let record = ProducerRecord::to(topic.as_str()).value("x");
        let known = producer.send_and_wait(record).await.expect("sent");
        assert_eq!(known.offset, offset);
        producer
            .close(Duration::from_secs(10))
            .await
            .expect("all decided");
    }
    eventually(async || values(&broker.bootstrap, &topic, 0).await.len() == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_a_producer_and_a_small_buffer() {
    let broker = Broker::start();
    let admin = broker.admin();
    let topic = broker.topic(&admin, 4).await;
    let producer = broker.producer(|config| config.buffer_memory = 128 << 10);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8 {
        let (producer, topic) = (producer.clone(), topic.clone());
        tasks.spawn(async move {
            for i in 0..2_000 {
                let record = ProducerRecord::to(topic.as_str()).key(format!("{task}"));
                producer
                    .send(record.value(format!("{task}-{i}")))
                    .await
                    .expect("taken");
            }
        });
    }
    tasks.join_all().await;
    producer.flush().await;
    let metrics = producer.metrics();
    assert_eq!(
        (metrics.records_acknowledged, metrics.record_errors),
        (16_000, 0)
    );
    assert_eq!((metrics.buffer_bytes, metrics.requests_in_flight), (0, 0));
    let mut next = [0; 8];
    for partition in 0..4 {
        for (_, value) in values(&broker.bootstrap, &topic, partition).await {
            let (task, i) = value.split_once('-').expect("ours");
            let next = &mut next[task.parse::<usize>().expect("a number")];
            assert_eq!(i, next.to_string(), "the order of a key");
            *next += 1;
        }
    }
    assert_eq!(next, [2_000; 8]);
}

#[tokio::test]
async fn idempotence_outlives_a_killed_broker_without_loss_or_duplicate() {
    let mut broker = Broker::start();
    let admin = broker.admin();
    let topic = broker.topic(&admin, 2).await;
    let producer = broker.producer(|config| config.batch_size = 1_000);
    let mut deliveries = Vec::new();
    for i in 0..20_000 {
        if i == 10_000 && !broker.restart() {
            return;
        }
        let record = ProducerRecord::to(topic.as_str()).partition(i % 2);
        deliveries.push(
            producer
                .send(record.value(format!("{i}")))
                .await
                .expect("taken"),
        );
    }
    for delivery in deliveries {
        delivery.await.expect("written");
    }
    for partition in 0..2 {
        let found = values(&broker.bootstrap, &topic, partition).await;
        let expected = (0..10_000).map(|i| (i, format!("{}", i * 2 + i64::from(partition))));
        assert_eq!(found, expected.collect::<Vec<_>>(), "partition {partition}");
    }
}

#[tokio::test]
async fn what_can_never_be_written_fails_with_kafkas_name_for_it() {
    let broker = Broker::start();
    let admin = broker.admin();
    let producer = broker.producer(|config| config.max_block = Duration::from_secs(5));
    let topic = NewTopic::new("small", 1).config("max.message.bytes", "500");
    let _ = admin
        .create_topics(vec![topic], false)
        .await
        .expect("asked");
    let record = ProducerRecord::to("small").value(vec![0; 2_000]);
    let error = producer.send_and_wait(record).await.expect_err("too large");
    assert_eq!(error.name(), "MESSAGE_TOO_LARGE");
    let mut deliveries = Vec::new();
    for _ in 0..50 {
        let record = ProducerRecord::to("small").value(vec![0; 100]);
        deliveries.push(producer.send(record).await.expect("taken"));
    }
    for delivery in deliveries {
        delivery.await.expect("written in parts");
    }
    let record = ProducerRecord::to("no such name!").value("x");
    let error = producer
        .send_and_wait(record)
        .await
        .expect_err("no name for a topic");
    assert_eq!(
        error.code(),
        Some(ErrorCode::InvalidTopicException),
        "{error}"
    );
    let record = ProducerRecord::to("small").value(vec![0; 2 << 20]);
    let error = producer
        .send_and_wait(record)
        .await
        .expect_err("too large for a request");
    assert!(matches!(error, Error::RecordTooLarge { .. }), "{error}");
}

#[tokio::test]
async fn a_groups_configs_are_set_shown_kept_over_a_restart_and_deleted() {
    let mut broker = Broker::start();
    let admin = broker.admin();
    let resource = ConfigResource::Group("nobody-yet".into());
    let interval = || "consumer.heartbeat.interval.ms".to_owned();
    let shown = async |admin: &Admin| {
        let configs = admin.describe_config(&resource).await.expect("described");
        let found = configs.into_iter().find(|it| it.name == interval());
        let found = found.expect("there");
        (found.value.unwrap_or_default(), found.source)
    };
    let default = ("5000".to_owned(), ConfigSource::Default);
    assert_eq!(shown(&admin).await, default);
    let refused = vec![(interval(), Some("4999".to_owned()))];
    let error = admin.alter_config(&resource, refused, false).await;
    let error = error.expect_err("below the bound");
    assert!(
        error.to_string().contains("in the range 5000 to 15000"),
        "{error}"
    );
    let set = vec![(interval(), Some("7000".to_owned()))];
    admin
        .alter_config(&resource, set, false)
        .await
        .expect("set");
    let own = ("7000".to_owned(), ConfigSource::Group);
    eventually(async || shown(&admin).await == own).await;
    if broker.restart() {
        assert_eq!(shown(&broker.admin()).await, own);
    }
    let admin = broker.admin();
    let deleted = vec![(interval(), None)];
    admin
        .alter_config(&resource, deleted, false)
        .await
        .expect("deleted");
    eventually(async || shown(&admin).await == default).await;
}

#[tokio::test]
async fn topics_are_made_listed_described_grown_configured_and_deleted() {
    let broker = Broker::start();
    let admin = broker.admin();
    let name = broker.topic(&admin, 2).await;
    let topics = admin.list_topics().await.expect("listed");
    assert!(topics.iter().any(|topic| *topic.name == *name));
    admin
        .create_partitions(&name, 5, false)
        .await
        .expect("grown");
    // Kafka answers a change before each broker has heard of it.
    eventually(async || {
        let described = admin.describe_topics(&[&name]).await.expect("asked");
        let topic = described[0].result.as_ref().expect("described");
        topic.partitions.len() == 5
    })
    .await;
    let resource = ConfigResource::topic(&name);
    let set = vec![("retention.ms".to_owned(), Some("1234".to_owned()))];
    admin
        .alter_config(&resource, set, false)
        .await
        .expect("set");
    eventually(async || {
        let configs = admin.describe_config(&resource).await.expect("described");
        let retention = configs.iter().find(|it| it.name == "retention.ms");
        retention.and_then(|it| it.value.as_deref()) == Some("1234")
    })
    .await;
    let wrong = vec![("retention.ms".to_owned(), Some("x".to_owned()))];
    let error = admin
        .alter_config(&resource, wrong, false)
        .await
        .expect_err("no number");
    assert_eq!(error.code(), Some(ErrorCode::InvalidConfig));
    let again = admin
        .create_topics(vec![NewTopic::new(&name, 1)], false)
        .await
        .expect("asked");
    let error = again[0].result.as_ref().expect_err("exists");
    assert_eq!(error.code(), Some(ErrorCode::TopicAlreadyExists));
    let deleted = admin.delete_topics(&[&name, "none"]).await.expect("asked");
    assert!(deleted[0].result.is_ok());
    let error = deleted[1].result.as_ref().expect_err("was never there");
    assert_eq!(error.code(), Some(ErrorCode::UnknownTopicOrPartition));
}

#[tokio::test]
async fn offsets_are_found_by_time_and_records_deleted_before_one() {
    let broker = Broker::start();
    let admin = broker.admin();
    let topic = broker.topic(&admin, 1).await;
    let producer = broker.producer(|_| {});
    let base = client::producer::timestamp_now() - 1_000_000;
    for i in 0..10 {
        let record = ProducerRecord::to(topic.as_str())
            .value("x")
            .timestamp(base + i * 1_000);
        producer.send_and_wait(record).await.expect("written");
    }
    let offset = async |spec| {
        let wanted = vec![((topic.clone(), 0), spec)];
        let mut found = admin.list_offsets(wanted).await.expect("asked");
        found.remove(0).result.expect("found").offset
    };
    assert_eq!(offset(OffsetSpec::Earliest).await, 0);
    assert_eq!(offset(OffsetSpec::Latest).await, 10);
    assert_eq!(offset(OffsetSpec::MaxTimestamp).await, 9);
    assert_eq!(offset(OffsetSpec::Timestamp(base + 3_500)).await, 4);
    assert_eq!(offset(OffsetSpec::Timestamp(base + 99_000)).await, -1);
    let deleted = admin
        .delete_records(&topic, &[(0, 4)])
        .await
        .expect("asked");
    assert_eq!(*deleted[0].result.as_ref().expect("deleted"), 4);
    assert_eq!(offset(OffsetSpec::Earliest).await, 4);
}

#[tokio::test]
async fn the_cluster_and_its_disks_are_described() {
    let broker = Broker::start();
    let admin = broker.admin();
    let topic = broker.topic(&admin, 1).await;
    let cluster = admin.describe_cluster().await.expect("described");
    assert_eq!(cluster.brokers.len(), 1);
    let node = cluster.brokers[0].id;
    let dirs = admin.describe_log_dirs(node).await.expect("described");
    let replicas = dirs.iter().flat_map(|dir| &dir.replicas);
    assert!(replicas.into_iter().any(|replica| replica.topic == topic));
}

#[tokio::test]
async fn without_a_broker_the_error_says_which_address_did_not_answer() {
    let address = free_address().to_string();
    let mut config = ProducerConfig::to(&address);
    config.max_block = Duration::from_millis(500);
    let producer = Producer::new(config).expect("valid settings");
    let error = producer
        .send(ProducerRecord::to("t"))
        .await
        .expect_err("nobody there");
    assert!(error.to_string().contains(&address), "{error}");
    assert_eq!(error.name(), "BROKER_NOT_AVAILABLE");
}
