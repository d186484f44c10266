//! The cluster and its disks, described.

use wire::messages::describe_cluster_request::DescribeClusterRequestData;
use wire::messages::describe_log_dirs_request::DescribeLogDirsRequestData;
use wire::messages::describe_log_dirs_response::DescribeLogDirsResult;

use super::{Admin, text};
use crate::Error;

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDescription {
    /// Its id.
    pub id: String,
    /// The broker that takes requests for the controller.
    pub controller: Option<i32>,
    /// All brokers, by node id.
    pub brokers: Vec<BrokerDescription>,
}

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerDescription {
    /// Its node id.
    pub id: i32,
    /// Where it listens.
    pub host: String,
    /// Where it listens.
    pub port: i32,
    /// Where it stands, if it says so.
    pub rack: Option<String>,
}

/// A directory in which a broker keeps partitions.
#[derive(Clone, Debug)]
pub struct LogDir {
    /// Its path on the broker.
    pub path: String,
    /// What is wrong with it.
    pub error: Option<Error>,
    /// Bytes of its file system; `None` when the broker does not say.
    pub total_bytes: Option<u64>,
    /// Bytes that can still be written there.
    pub usable_bytes: Option<u64>,
    /// What is in it.
    pub replicas: Vec<ReplicaLog>,
}

/// A partition's log in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaLog {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Bytes on disk.
    pub bytes: i64,
    /// How far it is behind the log that it copies or replaces.
    pub offset_lag: i64,
    /// Whether it will take the place of the partition's log in another directory.
    pub is_future: bool,
}

impl Admin {
    /// Who is in the cluster.
    ///
    /// # Errors
    /// When nobody answered.
    pub async fn describe_cluster(&self) -> Result<ClusterDescription, Error> {
        let answer = self.ask(DescribeClusterRequestData::default()).await?;
        Error::check(answer.error_code, text(&answer.error_message), "cluster")?;
        let broker = |broker: &wire::messages::describe_cluster_response::DescribeClusterBroker| {
            BrokerDescription {
                id: broker.broker_id,
                host: broker.host.to_string(),
                port: broker.port,
                rack: broker.rack.as_ref().map(ToString::to_string),
            }
        };
        let mut brokers: Vec<_> = answer.brokers.iter().map(broker).collect();
        brokers.sort_by_key(|broker| broker.id);
        Ok(ClusterDescription {
            id: answer.cluster_id.to_string(),
            controller: (answer.controller_id >= 0).then_some(answer.controller_id),
            brokers,
        })
    }

    /// What a broker has on its disks.
    ///
    /// # Errors
    /// When there is no such broker, or it does not answer.
    pub async fn describe_log_dirs(&self, node: i32) -> Result<Vec<LogDir>, Error> {
        let request = DescribeLogDirsRequestData::default().with_topics(None);
        let answer = self
            .attempts(|| self.ask_node(node, request.clone()))
            .await?;
        Error::check(
            answer.error_code,
            None,
            format!("log directories of broker {node}"),
        )?;
        Ok(answer.results.iter().map(log_dir).collect())
    }
}

fn log_dir(result: &DescribeLogDirsResult) -> LogDir {
    let mut replicas = Vec::new();
    for topic in &result.topics {
        replicas.extend(topic.partitions.iter().map(|partition| ReplicaLog {
            topic: topic.name.to_string(),
            partition: partition.partition_index,
            bytes: partition.partition_size,
            offset_lag: partition.offset_lag,
            is_future: partition.is_future_key,
        }));
    }
    LogDir {
        path: result.log_dir.to_string(),
        error: Error::from_code(result.error_code, format!("directory {}", result.log_dir)),
        total_bytes: u64::try_from(result.total_bytes).ok(),
        usable_bytes: u64::try_from(result.usable_bytes).ok(),
        replicas,
    }
}
