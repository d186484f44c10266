//! What comes before a run: the topics are made, and the broker says what it is.

use client::{Cluster, Error};

use super::{Plan, admin, durability};
use crate::results::Broker;

/// Makes the topics and describes the broker.
///
/// # Errors
/// When the cluster cannot be reached or does not make the topics.
pub async fn prepare(cluster: &Cluster, plan: &Plan) -> Result<Broker, Error> {
    admin::create_topics(cluster, &plan.workload, &plan.topics).await?;
    // A broker that does not describe its configs can be measured all the same.
    let described = admin::configs(cluster, &plan.topics[0]).await;
    let (topic, broker) = described.unwrap_or_default();
    let metadata = cluster.metadata();
    let cluster_id = metadata.cluster_id.clone().unwrap_or_default();
    let partition = metadata.partition(&plan.topics[0], 0);
    let replicas = partition.map_or(1, |partition| partition.replicas.len());
    Ok(Broker {
        bootstrap: plan.clients.consumer.cluster.bootstrap_servers.join(","),
        kind: durability::kind(&topic, &broker, &cluster_id),
        durability: durability::words(plan.workload.acks, &topic, replicas),
        configs: durability::telling(&topic),
        brokers: metadata.brokers.len(),
        cluster_id,
        pid: plan.watched.pid(),
        cpu_seconds: None,
        rss_bytes_max: None,
    })
}
