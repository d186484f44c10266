//! What all clients of a cluster share, under Kafka's property names and with its defaults.

use std::time::Duration;

use super::backoff::Backoff;
use crate::stream::Transport;

/// Settings of a [`super::Cluster`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// `bootstrap.servers`: `host:port` of some brokers; the rest are learnt from them.
    pub bootstrap_servers: Vec<String>,
    /// `client.id`: how the client calls itself.
    pub client_id: String,
    /// `request.timeout.ms`: how long an answer may take.
    pub request_timeout: Duration,
    /// `metadata.max.age.ms`: when metadata is fetched again without a reason.
    pub metadata_max_age: Duration,
    /// `reconnect.backoff.ms` and `reconnect.backoff.max.ms`.
    pub reconnect_backoff: Backoff,
    /// `retry.backoff.ms` and `retry.backoff.max.ms`.
    pub retry_backoff: Backoff,
    /// `socket.connection.setup.timeout.ms`: how long connecting may take.
    pub connection_setup_timeout: Duration,
    /// `connections.max.idle.ms`: when an unused connection is closed.
    pub connections_max_idle: Duration,
    /// `allow.auto.create.topics`: whether asking for a topic may create it.
    pub allow_auto_create_topics: bool,
    /// How brokers are reached: no property of Kafka's.
    pub transport: Transport,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            bootstrap_servers: Vec::new(),
            client_id: "corelog-client".to_owned(),
            request_timeout: Duration::from_secs(30),
            metadata_max_age: Duration::from_secs(300),
            reconnect_backoff: Backoff {
                initial: Duration::from_millis(50),
                max: Duration::from_secs(1),
            },
            retry_backoff: Backoff {
                initial: Duration::from_millis(100),
                max: Duration::from_secs(1),
            },
            connection_setup_timeout: Duration::from_secs(10),
            connections_max_idle: Duration::from_secs(540),
            allow_auto_create_topics: true,
            transport: Transport::default(),
        }
    }
}

impl ClusterConfig {
    /// The defaults, for the brokers of `bootstrap` (`host:port`, comma separated).
    pub fn to(bootstrap: &str) -> Self {
        let servers = bootstrap.split(',').map(str::trim);
        Self {
            bootstrap_servers: servers
                .filter(|server| !server.is_empty())
                .map(str::to_owned)
                .collect(),
            ..Self::default()
        }
    }
}
