//! A broker to test a consumer with: this build's corelog, or one that runs already. Knows nothing of
//! consumers.

use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::consumer::TopicPartition;
use client::direct::{Acks, Connection, Error};
use client::{Cluster, ClusterConfig, Route};
use wire::Compression;
use wire::messages::CreatePartitionsRequestData;
use wire::messages::create_partitions_request::CreatePartitionsTopic;
use wire::records::BatchBuilder;
use wire::{ErrorCode, KafkaString};

use crate::address::free_address;

const START_MAX: Duration = Duration::from_secs(20);
/// Records in one produced batch.
const BATCH: usize = 50;

/// Distinguishes the topics and groups of one run.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A name that no other test and no earlier run uses.
pub fn unique(name: &str) -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{}-{number}", std::process::id())
}

pub struct Broker {
    pub bootstrap: String,
    own: Option<Own>,
}

struct Own {
    process: Child,
    data: PathBuf,
}

impl Broker {
    /// The broker of CORELOG_GROUPS_BOOTSTRAP, or else one of this build.
    pub async fn start() -> Self {
        match Self::given() {
            Some(broker) => broker,
            None => Self::start_own().await,
        }
    }

    /// The broker of CORELOG_GROUPS_BOOTSTRAP.
    pub fn given() -> Option<Self> {
        let bootstrap = std::env::var("CORELOG_GROUPS_BOOTSTRAP").ok()?;
        Some(Self {
            bootstrap,
            own: None,
        })
    }

    /// One of this build, on a fresh directory.
    pub async fn start_own() -> Self {
        let bootstrap = free_address().to_string();
        let data = std::env::temp_dir().join(unique("corelog-consumer"));
        let mut broker = Self {
            own: Some(Own {
                process: spawn(&bootstrap, &data),
                data,
            }),
            bootstrap,
        };
        broker.wait().await;
        broker
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        let own = self.own.as_mut().expect("a broker of ours");
        own.process.kill().expect("it runs");
        own.process.wait().expect("it ends");
    }

    /// Starts it again on its directory.
    pub async fn restart(&mut self) {
        let bootstrap = self.bootstrap.clone();
        let own = self.own.as_mut().expect("a broker of ours");
        own.process = spawn(&bootstrap, &own.data);
        self.wait().await;
    }

    async fn wait(&mut self) {
        let begun = Instant::now();
        loop {
            if let Ok(mut connection) = Connection::connect(self.address()).await
                && connection.api_versions().await.is_ok()
            {
                return;
            }
            assert!(begun.elapsed() < START_MAX, "the broker does not answer");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn address(&self) -> SocketAddr {
        let mut addresses = self.bootstrap.to_socket_addrs().expect("an address");
        addresses.next().expect("an address")
    }

    pub async fn topic(&self, name: &str, partitions: i32) -> Topic {
        let name = unique(name);
        let mut connection = Connection::connect(self.address())
            .await
            .expect("it listens");
        let created = connection.create_topic(&name, partitions, &[]).await;
        created.expect("the topic is created");
        Topic {
            address: self.address(),
            name,
            partitions,
        }
    }

    /// Gives a topic more partitions.
    pub async fn grow(&self, topic: &mut Topic, partitions: i32) {
        let cluster = Cluster::new(ClusterConfig::to(&self.bootstrap));
        let grown = CreatePartitionsTopic::default()
            .with_name(KafkaString::from(topic.name.clone()))
            .with_count(partitions)
            .with_assignments(None);
        let request = CreatePartitionsRequestData::default()
            .with_topics(vec![grown])
            .with_timeout_ms(10_000);
        let answer = cluster.send(Route::Any, request).await.expect("an answer");
        assert_eq!(answer.results[0].error_code, 0);
        topic.partitions = partitions;
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(own) = &mut self.own {
            let _ = own.process.kill();
            let _ = own.process.wait();
            let _ = std::fs::remove_dir_all(&own.data);
        }
    }
}

fn spawn(bootstrap: &str, data: &PathBuf) -> Child {
    Command::new(env!("CARGO_BIN_EXE_corelog"))
        .env("CORELOG_GROUPS__INITIAL_REBALANCE_DELAY_MS", "300")
        .env("CORELOG_GROUPS__CONSUMER_HEARTBEAT_INTERVAL_MS", "300")
        .env("CORELOG_GROUPS__CONSUMER_SESSION_TIMEOUT_MS", "6000")
        .env("CORELOG_OFFSETS__TOPIC_NUM_PARTITIONS", "4")
        .args(["serve", "--listen", bootstrap, "--shards", "2", "--data"])
        .arg(data)
        .stderr(Stdio::null())
        .spawn()
        .expect("the broker starts")
}

/// A topic that a test made.
#[derive(Clone)]
pub struct Topic {
    address: SocketAddr,
    pub name: String,
    partitions: i32,
}

impl Topic {
    pub fn at(&self, partition: i32) -> TopicPartition {
        TopicPartition::new(self.name.as_str(), partition)
    }

    pub fn partitions(&self) -> Vec<TopicPartition> {
        (0..self.partitions)
            .map(|partition| self.at(partition))
            .collect()
    }

    /// Produces record `value-N` with key `key-N`, time 1,000,000 + N and a header, for each N.
    pub async fn produce(&self, partition: i32, numbers: Range<i64>, codec: Compression) {
        let mut connection = Connection::connect(self.address).await.expect("it listens");
        let numbers: Vec<i64> = numbers.collect();
        for numbers in numbers.chunks(BATCH) {
            let mut batch = BatchBuilder::new(codec);
            for number in numbers {
                let (key, value) = (format!("key-{number}"), format!("value-{number}"));
                let headers: [(&[u8], Option<&[u8]>); 1] = [(b"header", Some(b"h"))];
                batch.push(
                    1_000_000 + number,
                    Some(key.as_bytes()),
                    Some(value.as_bytes()),
                    &headers,
                );
            }
            let batch = batch.finish().expect("a batch");
            self.send(&mut connection, partition, batch.clone()).await;
        }
    }

    /// Kafka names a topic to clients before its leader is ready: it is asked again, as producers do.
    async fn send(&self, connection: &mut Connection, partition: i32, batch: Bytes) {
        const NOT_YET: [ErrorCode; 2] = [
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::NotLeaderOrFollower,
        ];
        let begun = Instant::now();
        loop {
            let batch = batch.clone();
            let produced = connection
                .produce(&self.name, partition, Acks::All, batch)
                .await;
            let again = match &produced {
                Err(Error::Broker(code)) => NOT_YET.contains(&ErrorCode::from(*code)),
                _ => false,
            };
            if !again || begun.elapsed() > START_MAX {
                produced.expect("acknowledged");
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
