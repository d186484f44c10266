//! Carries out what the state decides: makes its calls on tasks of their own, hands the answers back,
//! keeps its time. Decides nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{Notify, watch};
use wire::ErrorCode;

use super::calls::{consumer_group, group, log};
use super::fetch::Said;
use super::state::{Call, State};
use crate::cluster::Cluster;
use crate::properties::ConsumerConfig;

/// The shortest sleep of the task that keeps time.
const TICK_MIN: Duration = Duration::from_millis(1);

/// What a consumer's tasks share.
pub(super) struct Shared {
    pub(super) cluster: Cluster,
    pub(super) config: Arc<ConsumerConfig>,
    state: Mutex<State>,
    /// Tells that the state has changed.
    changed: watch::Sender<()>,
    /// Rung when the next tick may be another.
    bell: Notify,
    closed: AtomicBool,
}

impl Shared {
    pub(super) fn new(cluster: Cluster, config: Arc<ConsumerConfig>, state: State) -> Self {
        Self {
            cluster,
            config,
            state: Mutex::new(state),
            changed: watch::Sender::new(()),
            bell: Notify::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// The state, for a look or a change that asks for no calls. Never held over an await.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of each change of the state from now on.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Changes the state, makes the calls that it asks for, and tells who waits for changes.
    pub(super) fn apply(self: &Arc<Self>, change: impl FnOnce(&mut State, Instant) -> Vec<Call>) {
        self.look(|state, now| ((), change(state, now)));
        self.changed.send_replace(());
    }

    /// Takes something out of the state and makes the calls that this allows. Those who wait for
    /// changes are not told.
    pub(super) fn look<T>(
        self: &Arc<Self>,
        take: impl FnOnce(&mut State, Instant) -> (T, Vec<Call>),
    ) -> T {
        let (taken, calls) = take(&mut self.state(), Instant::now());
        if self.closed.load(Ordering::Acquire) {
            return taken;
        }
        let mut refreshed = false;
        for call in calls {
            if matches!(call, Call::RefreshMetadata) {
                if !std::mem::replace(&mut refreshed, true) {
                    self.cluster.request_refresh();
                }
                continue;
            }
            tokio::spawn(make(self.clone(), call));
        }
        self.bell.notify_one();
        taken
    }

    /// The consumer is gone: answers that are still on their way lead to no more calls.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// As [`Shared::apply`], and waits for the calls to be answered.
    pub(super) async fn apply_and_wait(
        self: &Arc<Self>,
        change: impl FnOnce(&mut State, Instant) -> Vec<Call>,
    ) {
        let calls = change(&mut self.state(), Instant::now());
        self.changed.send_replace(());
        for call in calls {
            make(self.clone(), call).await;
        }
    }

    /// Ticks when the state says so. Never ends.
    pub(super) async fn keep_time(self: Arc<Self>) {
        loop {
            let now = Instant::now();
            let next = self.state().next_tick(now);
            let Some(next) = next else {
                self.bell.notified().await;
                continue;
            };
            let next = next.max(now + TICK_MIN);
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => {
                    self.apply(|state, now| state.tick(now));
                }
                () = self.bell.notified() => {}
            }
        }
    }

    /// Tells the state of each new picture of the cluster, until the cluster ends.
    pub(super) async fn watch_metadata(self: Arc<Self>) {
        let mut views = self.cluster.views();
        loop {
            let metadata = views.borrow_and_update().metadata.clone();
            self.apply(|state, now| state.metadata_changed(metadata, now));
            if views.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Makes one call and hands its answer to the state.
async fn make(shared: Arc<Shared>, call: Call) {
    let cluster = &shared.cluster;
    let config = &shared.config;
    match call {
        Call::FindCoordinator(attempt) => {
            let name = config.group_id.as_deref().unwrap_or_default();
            let answer = group::find_coordinator(cluster, name).await;
            shared.apply(|state, now| state.coordinator_found(attempt, answer, now));
        }
        Call::Join(attempt, who, joining) => {
            let answer = group::join(cluster, &who, &joining).await;
            shared.apply(|state, now| state.joined(attempt, answer, now));
        }
        Call::CountPartitions(attempt, topics) => {
            cluster.track(topics.iter().map(|topic| &**topic));
            // Without an answer what is known has to do: the leader watches for changes anyway.
            let metadata = cluster
                .refresh()
                .await
                .unwrap_or_else(|_| cluster.metadata());
            shared.apply(|state, now| {
                let mut calls = state.metadata_changed(metadata, now);
                calls.extend(state.counted(attempt, topics, now));
                calls
            });
        }
        Call::Sync(attempt, who, protocol, assignments) => {
            let wait = config.max_poll_interval;
            let answer = group::sync(cluster, &who, wait, &protocol, assignments).await;
            shared.apply(|state, now| state.synced(attempt, answer, now));
        }
        Call::Heartbeat(attempt, who) => {
            let answer = group::heartbeat(cluster, &who).await;
            shared.apply(|state, now| state.heartbeat_answered(attempt, answer, now));
        }
        Call::Leave(who, reason) => group::leave(cluster, &who, reason).await,
        Call::ConsumerHeartbeat(attempt, who, introduction) => {
            let answer = consumer_group::heartbeat(cluster, &who, introduction.as_ref()).await;
            shared.apply(|state, now| state.heard(attempt, answer, now));
        }
        Call::Committed(who, partitions) => {
            let answer = group::committed(cluster, &who, &partitions).await;
            let generation = who.generation;
            shared.apply(|state, now| state.committed_found(partitions, generation, answer, now));
        }
        Call::Ends(node, asked) => {
            let queries: Vec<_> = asked.iter().map(|(query, _)| query.clone()).collect();
            let isolation = config.isolation_level;
            let answer = log::list_offsets(cluster, isolation, node, &queries).await;
            shared.apply(|state, now| state.ends_found(asked, answer, now));
        }
        Call::Epochs(node, asked) => {
            let queries: Vec<_> = asked.iter().map(|(query, _)| query.clone()).collect();
            let answer = log::epoch_ends(cluster, node, &queries).await;
            shared.apply(|state, now| state.epochs_found(asked, answer, now));
        }
        Call::Fetch(node, said) => fetch(&shared, node, &said).await,
        Call::RefreshMetadata => cluster.request_refresh(),
    }
}

async fn fetch(shared: &Arc<Shared>, node: i32, said: &Said) {
    let answer = log::fetch(&shared.cluster, &shared.config, node, said).await;
    shared.apply(|state, now| {
        let answer = answer.and_then(|answer| match ErrorCode::from(answer.error_code) {
            ErrorCode::None => {
                let session = state.fetcher.session(node);
                let id = answer.session_id;
                let fetched = session.map(|session| log::fetched(answer, session));
                Ok((id, fetched.unwrap_or_default()))
            }
            code => Err(code),
        });
        state.fetched(node, answer, now)
    });
}

/// The time of day, in milliseconds since 1970.
pub(super) fn time_of_day() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
