//! The consumer as applications see it. Decides nothing: the state does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::assignors::Assignor;
use super::commits::{Commits, Offsets, make_commits};
use super::listener::RebalanceListener;
use super::metrics::ConsumerMetrics;
use super::offsets::OffsetAndMetadata;
use super::partition::TopicPartition;
use super::record::ConsumerRecords;
use super::shared::{Shared, time_of_day};
use super::state::{Pattern, State, Step, Wanted, Work};
use crate::Error;
use crate::cluster::Cluster;
use crate::cluster::backoff::random;
use crate::properties::{AutoOffsetReset, ConsumerConfig};

/// How long a commit before a rebalance is tried.
const COMMIT_BEFORE_REBALANCE: Duration = Duration::from_secs(30);

/// Reads records, alone or as a member of a group.
///
/// Dropped without [`Consumer::close`] it leaves the group when its session times out.
pub struct Consumer {
    pub(super) shared: Arc<Shared>,
    commits: Commits,
    listener: Option<Box<dyn RebalanceListener>>,
    next_auto_commit: Option<Instant>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.shared.close();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Consumer {
    /// A consumer that reads nothing yet.
    ///
    /// # Errors
    /// When an assignor's name is unknown.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(config: ConsumerConfig) -> Result<Self, Error> {
        let names = config.partition_assignment_strategy.iter();
        let assignors: Vec<Assignor> = names
            .map(|name| {
                Assignor::from_name(name).ok_or_else(|| {
                    let fault =
                        format!("partition.assignment.strategy: no assignor is called {name}");
                    Error::Config(vec![fault])
                })
            })
            .collect::<Result<_, _>>()?;
        if assignors.is_empty() {
            let fault = "partition.assignment.strategy: name at least one assignor";
            return Err(Error::Config(vec![fault.to_owned()]));
        }
        let config = Arc::new(config);
        let cluster = Cluster::new(config.cluster.clone());
        let now = std::time::Instant::now();
        let state = State::new(config.clone(), assignors, random(), time_of_day, now);
        let auto_commit = config.group_id.is_some() && config.enable_auto_commit;
        let interval = config.auto_commit_interval;
        let shared = Arc::new(Shared::new(cluster, config, state));
        let (commits, queue) = Commits::new();
        let tasks = vec![
            tokio::spawn(shared.clone().keep_time()),
            tokio::spawn(shared.clone().watch_metadata()),
            tokio::spawn(make_commits(shared.clone(), queue)),
        ];
        Ok(Self {
            shared,
            commits,
            listener: None,
            next_auto_commit: auto_commit.then(|| Instant::now() + interval),
            tasks,
        })
    }

    /// Reads its share of these topics, with the other members of the group. Takes the place of the
    /// earlier subscription; the change comes with the next polls.
    ///
    /// # Errors
    /// Without `group.id`, or when partitions are assigned.
    pub fn subscribe<'a>(
        &mut self,
        topics: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), Error> {
        let topics: BTreeSet<Arc<str>> = topics.into_iter().map(Arc::from).collect();
        self.check_subscription()?;
        let cluster = &self.shared.cluster;
        cluster.track_all(false);
        cluster.track_only(topics.iter().map(|topic| &**topic));
        self.shared
            .apply(|state, now| state.subscribe(Wanted::Topics(topics), now));
        Ok(())
    }

    /// Reads its share of all topics whose names `matches` likes, those that come later too (found
    /// within `metadata.max.age.ms`).
    ///
    /// # Errors
    /// As [`Consumer::subscribe`].
    pub fn subscribe_matching(
        &mut self,
        matches: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.check_subscription()?;
        self.shared.cluster.track_all(true);
        let wanted = Wanted::Matching(Pattern(Arc::new(matches)), BTreeSet::new());
        self.shared.apply(|state, now| state.subscribe(wanted, now));
        Ok(())
    }

    fn check_subscription(&self) -> Result<(), Error> {
        if self.shared.config.group_id.is_none() {
            return Err(invalid("a subscription needs a group: set group.id"));
        }
        match self.shared.state().wanted {
            Wanted::Partitions => Err(invalid("partitions are assigned: unsubscribe first")),
            _ => Ok(()),
        }
    }

    /// Tells `listener` of rebalances from now on.
    pub fn set_rebalance_listener(&mut self, listener: impl RebalanceListener + 'static) {
        self.listener = Some(Box::new(listener));
    }

    /// Reads these partitions, whatever a group's other members do. Takes the place of those
    /// assigned before.
    ///
    /// # Errors
    /// When topics are subscribed to.
    pub fn assign(
        &mut self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<(), Error> {
        if self.shared.state().wanted.topics().is_some() {
            return Err(invalid("topics are subscribed to: unsubscribe first"));
        }
        let partitions: Vec<TopicPartition> = partitions.into_iter().collect();
        let topics = partitions.iter().map(|at| &*at.topic);
        self.shared.cluster.track_only(topics);
        self.shared
            .apply(|state, now| state.assign(partitions, now));
        Ok(())
    }

    /// Leaves the group and reads nothing any more. The listener is told what is revoked.
    ///
    /// # Errors
    /// When the last offsets could not be committed (`enable.auto.commit`); it has left all the same.
    pub async fn unsubscribe(&mut self) -> Result<(), Error> {
        self.leave("unsubscribed").await
    }

    async fn leave(&mut self, reason: &'static str) -> Result<(), Error> {
        let (is_member, lost, owned) = {
            let state = self.shared.state();
            let is_member = state.wanted.topics().is_some();
            (is_member, !state.may_commit(), state.assignment.to_set())
        };
        let mut committed = Ok(());
        if self.next_auto_commit.is_some() && !lost {
            let offsets = self.shared.state().consumed();
            committed = self.commit(offsets, Some(COMMIT_BEFORE_REBALANCE)).await;
        }
        if is_member && !owned.is_empty() {
            let owned: Vec<TopicPartition> = owned.into_iter().collect();
            self.tell_revoked(&owned, lost).await;
        }
        self.shared
            .apply_and_wait(|state, now| state.unsubscribe(reason, now))
            .await;
        committed
    }

    /// Waits up to `timeout` for records. Rebalances, callbacks and automatic commits happen here:
    /// a member has to poll at least every `max.poll.interval.ms`.
    ///
    /// # Errors
    /// What stands in the way of reading; most errors are tried around and not told.
    pub async fn poll(&mut self, timeout: Duration) -> Result<ConsumerRecords, Error> {
        let deadline = Instant::now() + timeout;
        self.shared.apply(|state, now| state.polled(now));
        self.auto_commit();
        let mut changes = self.shared.changes();
        loop {
            changes.mark_unchanged();
            self.rebalance().await;
            // What is taken out makes room for the next fetch, which is then on its way while the
            // application works.
            let (fault, records) = self.shared.look(|state, now| {
                let fault = state.take_fault();
                let records = fault.is_none().then(|| state.collect()).flatten();
                let fault = fault.or_else(|| state.take_fault());
                ((fault, records), state.tick(now))
            });
            if let Some(fault) = fault {
                return Err(fault);
            }
            if let Some(records) = records {
                return Ok(records);
            }
            let changed = tokio::time::timeout_at(deadline, changes.changed()).await;
            if changed.is_err() {
                return Ok(ConsumerRecords::default());
            }
        }
    }

    /// Commits what was returned by earlier polls, when it is time to.
    fn auto_commit(&mut self) {
        let now = Instant::now();
        if self.next_auto_commit.is_none_or(|at| at > now) {
            return;
        }
        self.next_auto_commit = Some(now + self.shared.config.auto_commit_interval);
        let state = self.shared.state();
        if state.may_commit() {
            let offsets = state.consumed();
            // What fails is committed with the next.
            drop(self.commits.push(offsets, None));
        }
    }

    /// Does what rebalances wait for.
    async fn rebalance(&mut self) {
        loop {
            let work = self.shared.state().next_work();
            let Some(work) = work else { return };
            self.give_up(&work).await;
            self.shared.apply(|state, now| state.work_done(&work, now));
            if let (Step::Assign(_), Some(added)) = (&work.step, &work.added) {
                let added: Vec<TopicPartition> = added.iter().cloned().collect();
                if let Some(mut listener) = self.listener.take() {
                    listener.assigned(self, &added).await;
                    self.listener = Some(listener);
                }
            }
        }
    }

    async fn give_up(&mut self, work: &Work) {
        if self.next_auto_commit.is_some() && !work.lost {
            let offsets = self.shared.state().consumed();
            // The records are read again by whoever gets the partition.
            let _ = self.commit(offsets, Some(COMMIT_BEFORE_REBALANCE)).await;
        }
        let revoked: Vec<TopicPartition> = work.revoked.iter().cloned().collect();
        if !revoked.is_empty() {
            self.tell_revoked(&revoked, work.lost).await;
        }
    }

    async fn tell_revoked(&mut self, partitions: &[TopicPartition], lost: bool) {
        if let Some(mut listener) = self.listener.take() {
            match lost {
                true => listener.lost(self, partitions).await,
                false => listener.revoked(self, partitions).await,
            }
            self.listener = Some(listener);
        }
    }

    /// The assigned partitions.
    pub fn assignment(&self) -> BTreeSet<TopicPartition> {
        self.shared.state().assignment.to_set()
    }

    /// The subscribed topics.
    pub fn subscription(&self) -> BTreeSet<Arc<str>> {
        self.shared
            .state()
            .wanted
            .topics()
            .cloned()
            .unwrap_or_default()
    }

    /// Reads the partition from this offset on.
    ///
    /// # Errors
    /// When it is not assigned, or the offset is negative.
    pub fn seek(&self, partition: &TopicPartition, offset: i64) -> Result<(), Error> {
        self.seek_with_epoch(partition, offset, None)
    }

    /// As [`Consumer::seek`], with the leader epoch of the record before the offset: whether the log
    /// is still that one is checked before reading.
    ///
    /// # Errors
    /// As [`Consumer::seek`].
    pub fn seek_with_epoch(
        &self,
        partition: &TopicPartition,
        offset: i64,
        leader_epoch: Option<i32>,
    ) -> Result<(), Error> {
        if offset < 0 {
            return Err(invalid("offsets are not negative"));
        }
        self.change(partition, |state| {
            state.seek(partition, offset, leader_epoch)
        })
    }

    /// Reads the partition from its oldest record on.
    ///
    /// # Errors
    /// When it is not assigned.
    pub fn seek_to_beginning(&self, partition: &TopicPartition) -> Result<(), Error> {
        self.change(partition, |state| {
            state.seek_to(partition, AutoOffsetReset::Earliest)
        })
    }

    /// Reads what is produced to the partition from now on.
    ///
    /// # Errors
    /// When it is not assigned.
    pub fn seek_to_end(&self, partition: &TopicPartition) -> Result<(), Error> {
        self.change(partition, |state| {
            state.seek_to(partition, AutoOffsetReset::Latest)
        })
    }

    /// Stops reading the partition without giving it up.
    ///
    /// # Errors
    /// When it is not assigned.
    pub fn pause(&self, partition: &TopicPartition) -> Result<(), Error> {
        self.change(partition, |state| state.assignment.pause(partition, true))
    }

    /// Reads a paused partition again.
    ///
    /// # Errors
    /// When it is not assigned.
    pub fn resume(&self, partition: &TopicPartition) -> Result<(), Error> {
        self.change(partition, |state| state.assignment.pause(partition, false))
    }

    /// The paused partitions.
    pub fn paused(&self) -> BTreeSet<TopicPartition> {
        self.shared.state().assignment.paused().cloned().collect()
    }

    fn change(
        &self,
        partition: &TopicPartition,
        change: impl FnOnce(&mut State) -> bool,
    ) -> Result<(), Error> {
        let mut is_assigned = false;
        self.shared.apply(|state, now| {
            is_assigned = change(state);
            state.tick(now)
        });
        match is_assigned {
            true => Ok(()),
            false => Err(invalid(&format!("{partition} is not assigned"))),
        }
    }

    /// Commits what polls have returned so far, and waits for it.
    ///
    /// # Errors
    /// When it cannot be committed within `default.api.timeout.ms`, or the group has rebalanced: then
    /// another member may read the same records.
    pub async fn commit_sync(&self) -> Result<(), Error> {
        let offsets = self.shared.state().consumed();
        self.commit_sync_offsets(offsets).await
    }

    /// Commits these offsets, each that of the next record to be read, and waits for it.
    ///
    /// # Errors
    /// As [`Consumer::commit_sync`].
    pub async fn commit_sync_offsets(&self, offsets: Offsets) -> Result<(), Error> {
        let timeout = self.shared.config.default_api_timeout;
        self.commit(offsets, Some(timeout)).await
    }

    /// Commits what polls have returned so far. What is returned tells how it went, and need not be
    /// waited for. Commits are made in the order of their calls.
    pub fn commit_async(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let offsets = self.shared.state().consumed();
        self.commit_async_offsets(offsets)
    }

    /// As [`Consumer::commit_async`], these offsets.
    pub fn commit_async_offsets(
        &self,
        offsets: Offsets,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let done = self.commits.push(offsets, None);
        async move { done.await.unwrap_or(Err(Error::Closed)) }
    }

    async fn commit(&self, offsets: Offsets, retry_for: Option<Duration>) -> Result<(), Error> {
        let done = self.commits.push(offsets, retry_for);
        done.await.unwrap_or(Err(Error::Closed))
    }

    /// What has been done so far, and how far behind the ends of the logs it is.
    pub fn metrics(&self) -> ConsumerMetrics {
        let state = self.shared.state();
        let totals = state.totals;
        let committed = state.is_committed_only();
        let partitions = state.assignment.partitions();
        let lag =
            partitions.filter_map(|at| Some((at.clone(), state.assignment.lag(at, committed)?)));
        ConsumerMetrics {
            records: totals.records,
            bytes: totals.bytes,
            fetches: totals.fetches,
            rebalances: totals.rebalances,
            lag: lag.collect(),
        }
    }

    /// Commits what was returned (with `enable.auto.commit`), leaves the group and ends.
    ///
    /// # Errors
    /// When the commit failed, or not all was done within `timeout`.
    pub async fn close(mut self, timeout: Duration) -> Result<(), Error> {
        let closing = self.leave("the consumer is closed");
        match tokio::time::timeout(timeout, closing).await {
            Ok(closed) => closed,
            Err(_) => Err(Error::Timeout {
                what: "closing the consumer".into(),
                waited: timeout,
                setting: "the timeout of close",
            }),
        }
    }

    /// The position: the offset of the next record to be returned. Waits until it is known.
    ///
    /// # Errors
    /// When the partition is not assigned, or the position not known within `default.api.timeout.ms`.
    pub async fn position(&self, partition: &TopicPartition) -> Result<i64, Error> {
        let timeout = self.shared.config.default_api_timeout;
        let deadline = Instant::now() + timeout;
        let mut changes = self.shared.changes();
        loop {
            changes.mark_unchanged();
            {
                let state = self.shared.state();
                if !state.assignment.contains(partition) {
                    return Err(invalid(&format!("{partition} is not assigned")));
                }
                if let Some(position) = state.assignment.position(partition) {
                    return Ok(position.offset);
                }
            }
            let changed = tokio::time::timeout_at(deadline, changes.changed()).await;
            changed
                .map_err(|_| Error::Timeout {
                    what: format!("the position of {partition}").into(),
                    waited: timeout,
                    setting: "default.api.timeout.ms",
                })?
                .map_err(|_| Error::Closed)?;
        }
    }
}

/// Offsets with the application's own words, for [`Consumer::commit_sync_offsets`].
impl From<(i64, &str)> for OffsetAndMetadata {
    fn from((offset, metadata): (i64, &str)) -> Self {
        Self {
            offset,
            leader_epoch: None,
            metadata: metadata.to_owned(),
        }
    }
}

fn invalid(reason: &str) -> Error {
    Error::Invalid {
        reason: reason.to_owned(),
    }
}
