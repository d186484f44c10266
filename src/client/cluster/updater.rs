//! What the clones of a cluster share, and the task that keeps metadata fresh.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use wire::messages::MetadataRequestData;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::{ErrorCode, KafkaString};

use super::backoff::random;
use super::config::ClusterConfig;
use super::connection::Connection;
use super::links::{Links, Route};
use super::metadata::{Coverage, Metadata};
use super::refresh::Schedule;
use crate::Error;

/// The newest picture of the cluster.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The picture.
    pub metadata: Arc<Metadata>,
    /// Why the last attempt to get a newer one failed.
    pub failure: Option<Error>,
    /// Up to which ticket demands are met.
    met: u64,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: ClusterConfig,
    links: Links,
    view: watch::Sender<View>,
    demands: Mutex<Demands>,
    /// Rung when the task should look at the demands.
    bell: Notify,
}

#[derive(Debug)]
struct Demands {
    schedule: Schedule,
    topics: BTreeSet<Arc<str>>,
    all_topics: bool,
}

impl Shared {
    pub(super) fn new(config: ClusterConfig) -> Self {
        let schedule = Schedule::new(config.metadata_max_age, config.retry_backoff);
        Self {
            config,
            links: Links::default(),
            view: watch::Sender::default(),
            demands: Mutex::new(Demands {
                schedule,
                topics: BTreeSet::new(),
                all_topics: false,
            }),
            bell: Notify::new(),
        }
    }

    pub(super) fn metadata(&self) -> Arc<Metadata> {
        self.view.borrow().metadata.clone()
    }

    pub(super) fn views(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    pub(super) fn track<'a>(&self, topics: impl IntoIterator<Item = &'a str>) {
        let mut demands = self.demands();
        let mut new = false;
        for topic in topics {
            new |= demands.topics.insert(topic.into());
        }
        if new {
            demands.schedule.demand_for_new_topics();
            self.bell.notify_one();
        }
    }

    pub(super) fn track_only<'a>(&self, topics: impl IntoIterator<Item = &'a str>) {
        let topics: BTreeSet<Arc<str>> = topics.into_iter().map(Arc::from).collect();
        let mut demands = self.demands();
        let new = !topics.is_subset(&demands.topics);
        demands.topics = topics;
        if new {
            demands.schedule.demand_for_new_topics();
            self.bell.notify_one();
        }
    }

    pub(super) fn track_all(&self, all: bool) {
        let mut demands = self.demands();
        if all && !demands.all_topics {
            demands.schedule.demand_for_new_topics();
            self.bell.notify_one();
        }
        demands.all_topics = all;
    }

    pub(super) fn demand(&self) -> u64 {
        let ticket = self.demands().schedule.demand();
        self.bell.notify_one();
        ticket
    }

    /// Waits for the fetch that meets the ticket.
    pub(super) async fn met(&self, ticket: u64) -> Result<Arc<Metadata>, Error> {
        let mut views = self.view.subscribe();
        let view = views.wait_for(|view| view.met >= ticket).await;
        let view = view.map_err(|_| Error::Closed)?;
        match &view.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(view.metadata.clone()),
        }
    }

    pub(super) async fn connection(&self, route: Route) -> Result<Connection, Error> {
        let metadata = self.metadata();
        let found = self.links.connection(route, &metadata, &self.config).await;
        if !matches!(route, Route::Any) && found.as_ref().is_err_and(Error::is_stale_metadata) {
            self.demand();
        }
        found
    }

    fn demands(&self) -> MutexGuard<'_, Demands> {
        self.demands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches once and publishes what came of it.
    async fn fetch(&self) {
        let (tickets, wanted) = {
            let demands = self.demands();
            let wanted = (!demands.all_topics).then(|| demands.topics.clone());
            (demands.schedule.begin(), wanted)
        };
        let fetched = self.ask(wanted.as_ref()).await;
        let now = Instant::now();
        let mut demands = self.demands();
        let failure = match fetched {
            Ok(metadata) => {
                let metadata = match wanted {
                    Some(_) => metadata.retained(|name| demands.topics.contains(name)),
                    None => metadata,
                };
                let news = metadata != *self.view.borrow().metadata;
                demands.schedule.fetched(tickets, news, now, random());
                self.view
                    .send_modify(|view| view.metadata = Arc::new(metadata));
                None
            }
            Err(error) => {
                demands.schedule.failed(tickets, now, random());
                Some(error)
            }
        };
        drop(demands);
        self.view.send_modify(|view| {
            view.failure = failure;
            view.met = view.met.max(tickets);
        });
    }

    async fn ask(&self, wanted: Option<&BTreeSet<Arc<str>>>) -> Result<Metadata, Error> {
        let connection = self.connection(Route::Any).await?;
        let topic = |name: &Arc<str>| {
            MetadataRequestTopic::default().with_name(Some(KafkaString::from(name.to_string())))
        };
        let request = MetadataRequestData::default()
            .with_topics(wanted.map(|topics| topics.iter().map(topic).collect()))
            .with_allow_auto_topic_creation(self.config.allow_auto_create_topics);
        let answer = connection
            .send(&request, self.config.request_timeout)
            .await?;
        Error::check(answer.error_code, None, "metadata")?;
        if answer.brokers.is_empty() {
            return Err(
                Error::from_code(ErrorCode::BrokerNotAvailable.code(), "metadata")
                    .unwrap_or(Error::Closed),
            );
        }
        let coverage = match wanted {
            None => Coverage::All,
            Some(_) => Coverage::Named,
        };
        Ok(self.metadata().updated(&answer, coverage))
    }
}

/// The task; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Updater(JoinHandle<()>);

impl Updater {
    pub(super) fn start(shared: Arc<Shared>) -> Self {
        Self(tokio::spawn(keep_fresh(shared)))
    }
}

impl Drop for Updater {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn keep_fresh(shared: Arc<Shared>) {
    loop {
        let now = Instant::now();
        let next = shared.demands().schedule.next(now);
        match next {
            Some(at) if at <= now => shared.fetch().await,
            Some(at) => tokio::select! {
                () = tokio::time::sleep_until(at.into()) => {}
                () = shared.bell.notified() => {}
            },
            None => shared.bell.notified().await,
        }
    }
}
