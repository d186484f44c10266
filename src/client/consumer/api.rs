//! The consumer as applications see it. Decides nothing: the state does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::assignors::Assignor;
use super::commits::{self, Commits, Offsets, make_commits};
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
    /// Locked while it is called: it stays where it is when the caller is dropped.
    listener: Mutex<Option<Box<dyn RebalanceListener>>>,
    /// What was assigned and the listener has not been told of, or not to the end.
    untold: Option<Vec<TopicPartition>>,
    next_auto_commit: Option<Instant>,
    /// The automatic commit of the last poll that made one.
    last_auto_commit: Option<commits::Outcome>,
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
            listener: Mutex::new(None),
            untold: None,
            next_auto_commit: auto_commit.then(|| Instant::now() + interval),
            last_auto_commit: None,
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
        *self.listener.get_mut() = Some(Box::new(listener));
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
            committed = self.commits.make(offsets, COMMIT_BEFORE_REBALANCE).await;
        }
        if is_member && !owned.is_empty() {
            let owned: Vec<TopicPartition> = owned.into_iter().collect();
            self.tell_revoked(&owned, lost).await;
        }
        self.untold = None;
        self.shared
            .apply_and_wait(|state, now| state.unsubscribe(reason, now))
            .await;
        committed
    }

    /// Waits up to `timeout` for records. Rebalances, callbacks and automatic commits happen here:
    /// a member has to poll at least every `max.poll.interval.ms`.
    ///
    /// Cancel safe: no record is lost with a poll that is dropped, and a callback that it cuts short is
    /// called again by the next.
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
        if self.next_auto_commit.is_none_or(|at| at > now) || self.is_auto_committing() {
            return;
        }
        self.next_auto_commit = Some(now + self.shared.config.auto_commit_interval);
        let within = self.shared.config.default_api_timeout;
        let state = self.shared.state();
        if state.may_commit() {
            // What fails is committed with the next.
            self.last_auto_commit = Some(self.commits.push(state.consumed(), within));
        }
    }

    fn is_auto_committing(&mut self) -> bool {
        let last = self.last_auto_commit.as_mut();
        last.is_some_and(|last| matches!(last.try_recv(), Err(TryRecvError::Empty)))
    }

    /// Does what rebalances wait for. Dropped before its end it begins again with the step, or the
    /// callback, that it was at.
    async fn rebalance(&mut self) {
        loop {
            self.tell_assigned().await;
            let work = self.shared.state().next_work();
            let Some(work) = work else { return };
            self.give_up(&work).await;
            self.shared.apply(|state, now| state.work_done(&work, now));
            if let Step::Assign(_) = work.step {
                self.untold = work.added.map(|added| added.into_iter().collect());
            }
        }
    }

    async fn give_up(&self, work: &Work) {
        if self.next_auto_commit.is_some() && !work.lost {
            let offsets = self.shared.state().consumed();
            // The records are read again by whoever gets the partition.
            let _ = self.commits.make(offsets, COMMIT_BEFORE_REBALANCE).await;
        }
        let revoked: Vec<TopicPartition> = work.revoked.iter().cloned().collect();
        if !revoked.is_empty() {
            self.tell_revoked(&revoked, work.lost).await;
        }
    }

    async fn tell_assigned(&mut self) {
        let Some(added) = &self.untold else { return };
        let mut listener = self.listener.lock().await;
        if let Some(listener) = listener.as_mut() {
            listener.assigned(self, added).await;
        }
        drop(listener);
        self.untold = None;
    }

    async fn tell_revoked(&self, partitions: &[TopicPartition], lost: bool) {
        let mut listener = self.listener.lock().await;
        if let Some(listener) = listener.as_mut() {
            match lost {
                true => listener.lost(self, partitions).await,
                false => listener.revoked(self, partitions).await,
            }
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
        self.commits.make(offsets, timeout).await
    }

    /// Commits what polls have returned so far. What is returned tells how it went, and need not be
    /// waited for. Commits are made in the order of their calls.
    pub fn commit_async(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let offsets = self.shared.state().consumed();
        self.commit_async_offsets(offsets)
    }

    /// As [`Consumer::commit_async`], these offsets. It is not tried again, and fails at once when a
    /// thousand others wait.
    pub fn commit_async_offsets(
        &self,
        offsets: Offsets,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let within = self.shared.config.default_api_timeout;
        let outcome = self.commits.push(offsets, within);
        async move { outcome.await.unwrap_or(Err(Error::Closed)) }
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

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::{Mutex, PoisonError};

    use super::super::listener::Callback;
    use super::super::tests::{at, give, member, rebalance};
    use super::*;

    /// Tells which callbacks were called. Each hangs when it is called for the first time.
    #[derive(Clone, Default)]
    struct Hanging(Arc<Mutex<Vec<&'static str>>>);

    impl Hanging {
        fn called(&self) -> Vec<&'static str> {
            let called = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            called.clone()
        }

        fn call(&self, name: &'static str) -> Callback<'static> {
            let mut called = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let hangs = !called.contains(&name);
            called.push(name);
            match hangs {
                true => Box::pin(pending()),
                false => Box::pin(ready(())),
            }
        }
    }

    impl RebalanceListener for Hanging {
        fn revoked<'a>(&'a mut self, _: &'a Consumer, _: &'a [TopicPartition]) -> Callback<'a> {
            self.call("revoked")
        }

        fn assigned<'a>(&'a mut self, _: &'a Consumer, _: &'a [TopicPartition]) -> Callback<'a> {
            self.call("assigned")
        }
    }

    /// Polls as far as that goes without waiting.
    async fn poll_and_drop(consumer: &mut Consumer) {
        tokio::select! {
            biased;
            polled = consumer.poll(Duration::from_secs(3_600)) => panic!("{polled:?}"),
            () = ready(()) => {}
        }
    }

    #[tokio::test]
    async fn a_poll_that_is_dropped_in_a_callback_is_gone_on_with_by_the_next() {
        let mut consumer = member();
        let listener = Hanging::default();
        consumer.set_rebalance_listener(listener.clone());
        give(&mut consumer.shared.state(), std::time::Instant::now());
        poll_and_drop(&mut consumer).await;
        poll_and_drop(&mut consumer).await;
        assert_eq!(listener.called(), ["assigned"; 2]);
        assert_eq!(consumer.assignment(), BTreeSet::from([at(0)]));
        rebalance(&mut consumer.shared.state(), std::time::Instant::now());
        poll_and_drop(&mut consumer).await;
        assert!(!consumer.shared.state().is_joining(), "not yet revoked");
        poll_and_drop(&mut consumer).await;
        assert_eq!(listener.called()[2..], ["revoked"; 2]);
        assert!(consumer.shared.state().is_joining());
        poll_and_drop(&mut consumer).await;
        assert_eq!(listener.called().len(), 4, "each is told once to its end");
    }

    #[tokio::test]
    async fn there_is_one_automatic_commit_at_a_time() {
        let mut consumer = member();
        consumer.assign([at(0)]).expect("nothing is subscribed to");
        consumer.next_auto_commit = Some(Instant::now());
        let (commits, mut queue) = Commits::new();
        consumer.commits = commits;
        consumer.auto_commit();
        let first = queue.try_recv().expect("a commit");
        consumer.next_auto_commit = Some(Instant::now());
        consumer.auto_commit();
        assert!(queue.try_recv().is_err(), "the first is not decided");
        drop(first);
        consumer.auto_commit();
        assert!(queue.try_recv().is_ok(), "as soon as it is decided");
    }
}
