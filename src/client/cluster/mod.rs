//! The brokers of a cluster as one thing to talk to: connections, negotiated versions, metadata. What
//! producer, consumer and admin share; knows nothing of what they ask.

pub mod api;
pub mod backoff;
pub mod config;
pub mod connection;
pub mod links;
pub mod metadata;
mod open;
mod refresh;
mod updater;
pub mod versions;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

pub use api::RequestMessage;
pub use backoff::Backoff;
pub use config::ClusterConfig;
pub use connection::{Answer, Connection};
pub use links::Route;
pub use metadata::{Broker, Metadata, Partition, Topic};
pub use updater::View;

use crate::Error;
use updater::{Shared, Updater};

/// A cluster. Cheap to clone, usable from many tasks; connections and the task that keeps metadata
/// fresh end with the last clone.
#[derive(Clone, Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    _updater: Arc<Updater>,
}

impl Cluster {
    /// A cluster to be reached through `config.bootstrap_servers`. Nothing is connected before it is
    /// needed.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(config: ClusterConfig) -> Self {
        let shared = Arc::new(Shared::new(config));
        Self {
            _updater: Arc::new(Updater::start(shared.clone())),
            shared,
        }
    }

    /// What it was made with.
    pub fn config(&self) -> &ClusterConfig {
        &self.shared.config
    }

    /// What is known of the cluster now.
    pub fn metadata(&self) -> Arc<Metadata> {
        self.shared.metadata()
    }

    /// Tells of each new picture of the cluster, and of each failure to get one.
    pub fn views(&self) -> watch::Receiver<View> {
        self.shared.views()
    }

    /// Keeps these topics in the metadata from now on.
    pub fn track<'a>(&self, topics: impl IntoIterator<Item = &'a str>) {
        self.shared.track(topics);
    }

    /// Keeps only these topics in the metadata.
    pub fn track_only<'a>(&self, topics: impl IntoIterator<Item = &'a str>) {
        self.shared.track_only(topics);
    }

    /// Keeps all topics of the cluster in the metadata, or (`false`) those tracked by name.
    pub fn track_all(&self, all: bool) {
        self.shared.track_all(all);
    }

    /// Asks for fresh metadata without waiting for it.
    pub fn request_refresh(&self) {
        self.shared.demand();
    }

    /// Fetches metadata; what is returned was fetched after this call.
    ///
    /// # Errors
    /// When no broker answered.
    pub async fn refresh(&self) -> Result<Arc<Metadata>, Error> {
        let ticket = self.shared.demand();
        self.shared.met(ticket).await
    }

    /// The topic, with a partition at least, tracked from now on. Waits for it to exist: brokers may
    /// create topics that are asked for.
    ///
    /// # Errors
    /// When it cannot exist or may not be seen, or does not exist `within` that time (the property
    /// `setting`).
    pub async fn topic(
        &self,
        name: &str,
        within: Duration,
        setting: &'static str,
    ) -> Result<Arc<Topic>, Error> {
        if let Some(topic) = self.known_topic(name)? {
            return Ok(topic);
        }
        let deadline = Instant::now() + within;
        let mut views = self.shared.views();
        self.shared.track([name]);
        let mut last = None;
        loop {
            match self.known_topic(name) {
                Ok(Some(topic)) => return Ok(topic),
                Ok(None) => {}
                Err(error) if error.is_retriable() => last = Some(error),
                Err(error) => return Err(error),
            }
            self.shared.demand();
            let changed = tokio::time::timeout_at(deadline, views.changed()).await;
            if changed.is_err() {
                let failure = views.borrow().failure.clone();
                return Err(failure.or(last).unwrap_or_else(|| Error::Timeout {
                    what: format!("metadata of topic {name}").into(),
                    waited: within,
                    setting,
                }));
            }
        }
    }

    /// The topic if it is known; an error that is final, or the one that the broker gave for now.
    fn known_topic(&self, name: &str) -> Result<Option<Arc<Topic>>, Error> {
        let metadata = self.metadata();
        let Some(topic) = metadata.topics.get(name) else {
            return Ok(None);
        };
        match topic.error {
            Some(code) => Error::check(code.code(), None, format!("topic {name}")).map(|()| None),
            None if topic.partitions.is_empty() => Ok(None),
            None => Ok(Some(topic.clone())),
        }
    }

    /// An open connection for the route. Its broker is asked in the order of
    /// [`Connection::enqueue`]'s calls.
    ///
    /// # Errors
    /// When the broker cannot be reached; metadata is then refreshed.
    pub async fn connection(&self, route: Route) -> Result<Connection, Error> {
        self.shared.connection(route).await
    }

    /// Sends a request in the highest version that the broker and this client have, and waits for
    /// the answer. Nothing is tried twice.
    ///
    /// # Errors
    /// When the broker cannot be reached, has no version in common, or does not answer within
    /// `request.timeout.ms`. Error codes within the answer are for the caller to see.
    pub async fn send<M: RequestMessage>(
        &self,
        route: Route,
        request: M,
    ) -> Result<M::Response, Error> {
        let timeout = self.config().request_timeout;
        self.send_built(route, timeout, |_| request).await
    }

    /// As [`Cluster::send`], with a time limit of its own, and a request that is built for the
    /// version in which it will be sent.
    ///
    /// # Errors
    /// As [`Cluster::send`].
    pub async fn send_built<M: RequestMessage>(
        &self,
        route: Route,
        timeout: Duration,
        build: impl FnOnce(i16) -> M,
    ) -> Result<M::Response, Error> {
        let connection = self.connection(route).await?;
        let request = build(connection.version::<M>()?);
        let answer = connection.send(&request, timeout).await;
        if answer.as_ref().is_err_and(Error::is_stale_metadata) {
            self.request_refresh();
        }
        answer
    }
}
