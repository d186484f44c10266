//! The admin client: what a cluster is told to change and asked about itself. One file per kind of
//! question; knows nothing of records.

mod configs;
mod describe;
mod groups;
mod offsets;
mod topics;

use std::future::Future;
use std::time::Instant;

pub use configs::{ConfigEntry, ConfigOperation, ConfigResource, ConfigSource, ConfigSynonym};
pub use describe::{BrokerDescription, ClusterDescription, LogDir, ReplicaLog};
pub use groups::{GroupDescription, GroupListing, GroupMember};
pub use offsets::{FoundOffset, OffsetSpec};
pub use topics::{NewTopic, TopicListing};

use crate::cluster::{Cluster, RequestMessage, Route, backoff::random};
use crate::properties::AdminConfig;
use crate::{ClusterConfig, Error};

/// An admin client. Cheap to clone. Each call tries again what may succeed later, up to
/// `default.api.timeout.ms`.
#[derive(Clone, Debug)]
pub struct Admin {
    cluster: Cluster,
    config: AdminConfig,
}

/// What was answered about one of the things asked about.
#[derive(Clone, Debug)]
pub struct About<K, T> {
    /// Which one.
    pub key: K,
    /// What was answered.
    pub result: Result<T, Error>,
}

impl Admin {
    /// A client that may ask for topics without creating them. Nothing is connected before it is
    /// needed.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(config: AdminConfig) -> Self {
        let cluster = ClusterConfig {
            allow_auto_create_topics: false,
            ..config.cluster.clone()
        };
        Self {
            cluster: Cluster::new(cluster),
            config,
        }
    }

    /// The cluster that it asks.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Makes attempts until one ends well, its error is final, or time is up.
    async fn attempts<T, F: Future<Output = Result<T, Error>>>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + self.config.default_api_timeout;
        let mut failures = 0;
        loop {
            let error = match tokio::time::timeout_at(deadline.into(), attempt()).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => error,
                Err(_) => return Err(self.timeout()),
            };
            failures += 1;
            let wait = self.config.cluster.retry_backoff.after(failures, random());
            if !error.is_retriable() || Instant::now() + wait >= deadline {
                return Err(error);
            }
            if error.is_stale_metadata() {
                self.cluster.request_refresh();
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Asks any broker, as often as needed.
    async fn ask<M: RequestMessage + Clone>(&self, request: M) -> Result<M::Response, Error> {
        self.attempts(|| self.cluster.send(Route::Any, request.clone()))
            .await
    }

    /// Asks this broker, once.
    async fn ask_node<M: RequestMessage>(
        &self,
        node: i32,
        request: M,
    ) -> Result<M::Response, Error> {
        self.cluster.send(self.node(node).await?, request).await
    }

    /// The way to a broker that must exist.
    async fn node(&self, node: i32) -> Result<Route, Error> {
        if self.cluster.metadata().brokers.contains_key(&node) {
            return Ok(Route::Node(node));
        }
        let metadata = self.cluster.refresh().await?;
        if metadata.brokers.contains_key(&node) {
            return Ok(Route::Node(node));
        }
        let known: Vec<String> = metadata.brokers.keys().map(i32::to_string).collect();
        Err(Error::Invalid {
            reason: format!("there is no broker {node}, only {}", known.join(", ")),
        })
    }

    fn timeout(&self) -> Error {
        Error::Timeout {
            what: "the call".into(),
            waited: self.config.default_api_timeout,
            setting: "default.api.timeout.ms",
        }
    }

    /// How long the broker may take for a change.
    fn timeout_ms(&self) -> i32 {
        let timeout = self.config.cluster.request_timeout.as_millis();
        i32::try_from(timeout).unwrap_or(i32::MAX)
    }
}

/// For errors that come with a message.
fn text(message: &Option<wire::KafkaString>) -> Option<&str> {
    message.as_ref().map(wire::KafkaString::as_str)
}

fn kafka(text: &str) -> wire::KafkaString {
    wire::KafkaString::from(text.to_owned())
}
