//! Commits, one after the other in the order in which they were asked for: a later offset is never
//! overwritten by an earlier one. Knows nothing of why they are asked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use wire::ErrorCode;

use super::calls::group::{self, Identity};
use super::offsets::OffsetAndMetadata;
use super::partition::TopicPartition;
use super::shared::Shared;
use crate::Error;

/// Commits that may wait behind the one that is made.
const QUEUED_MAX: usize = 1_000;

/// Offsets to be committed.
pub(super) type Offsets = BTreeMap<TopicPartition, OffsetAndMetadata>;

/// What a commit that was handed in comes to.
pub(super) type Outcome = oneshot::Receiver<Result<(), Error>>;

/// One commit.
pub(super) struct Commit {
    offsets: Offsets,
    /// How long it may take from when it was handed in, and when that is over.
    within: Duration,
    deadline: Instant,
    /// Whether failures that may pass are tried again.
    retries: bool,
    done: oneshot::Sender<Result<(), Error>>,
}

impl Commit {
    fn new(offsets: Offsets, within: Duration, retries: bool) -> (Self, Outcome) {
        let (done, outcome) = oneshot::channel();
        let commit = Self {
            offsets,
            within,
            deadline: Instant::now() + within,
            retries,
            done,
        };
        (commit, outcome)
    }
}

/// Where commits are handed in.
#[derive(Clone)]
pub(super) struct Commits(mpsc::Sender<Commit>);

impl Commits {
    /// A queue and its other end.
    pub(super) fn new() -> (Self, mpsc::Receiver<Commit>) {
        let (sender, queue) = mpsc::channel(QUEUED_MAX);
        (Self(sender), queue)
    }

    /// Hands a commit in that is tried once; it is made behind all earlier ones, and refused when too
    /// many wait.
    pub(super) fn push(&self, offsets: Offsets, within: Duration) -> Outcome {
        let (commit, outcome) = Commit::new(offsets, within, false);
        // Without a committer the sender is dropped, which the receiver notices.
        if let Err(TrySendError::Full(commit)) = self.0.try_send(commit) {
            let _ = commit.done.send(Err(late(Duration::ZERO)));
        }
        outcome
    }

    /// Makes a commit behind all earlier ones, and tries failures that may pass again. Returns when its
    /// time is over, whatever it waits for.
    pub(super) async fn make(&self, offsets: Offsets, within: Duration) -> Result<(), Error> {
        let (commit, outcome) = Commit::new(offsets, within, true);
        let deadline = commit.deadline;
        let made = async {
            self.0.send(commit).await.map_err(|_| Error::Closed)?;
            outcome.await.unwrap_or(Err(Error::Closed))
        };
        let made = timeout_at(deadline, made).await;
        made.unwrap_or_else(|_| Err(late(within)))
    }
}

/// Makes the commits of the queue.
pub(super) async fn make_commits(shared: Arc<Shared>, mut queue: mpsc::Receiver<Commit>) {
    while let Some(commit) = queue.recv().await {
        let made = match commit.deadline <= Instant::now() {
            // Who waited for it was told so: it must not be made behind the application's back.
            true => Err(late(commit.within)),
            false => timeout_at(commit.deadline, make(&shared, &commit))
                .await
                .unwrap_or_else(|_| Err(late(commit.within))),
        };
        let _ = commit.done.send(made);
    }
}

async fn make(shared: &Arc<Shared>, commit: &Commit) -> Result<(), Error> {
    let offsets = &commit.offsets;
    if offsets.is_empty() {
        return Ok(());
    }
    let backoff = shared.config.cluster.retry_backoff;
    let mut failures = 0;
    loop {
        if !shared.state().may_commit() {
            return Err(refused(ErrorCode::UnknownMemberId));
        }
        let who = coordinator(shared, commit.deadline).await?;
        let Some((at, code)) = send(shared, &who, offsets).await else {
            return Ok(());
        };
        let owned = shared.state().owns(offsets.keys());
        failures += 1;
        let wait = backoff.after(failures, crate::cluster::backoff::random());
        let again = commit.retries && Instant::now() + wait < commit.deadline;
        if !again || !owned || !(may_pass(code) || has_moved_on(shared, &who, code)) {
            return Err(match code {
                ErrorCode::RebalanceInProgress
                | ErrorCode::UnknownMemberId
                | ErrorCode::IllegalGeneration
                | ErrorCode::FencedInstanceId => refused(code),
                code => Error::from_code(code.code(), at.to_string()).unwrap_or(Error::Closed),
            });
        }
        tokio::time::sleep(wait).await;
    }
}

/// Sends a commit: what failed first, if anything did.
async fn send(
    shared: &Arc<Shared>,
    who: &Identity,
    offsets: &Offsets,
) -> Option<(TopicPartition, ErrorCode)> {
    let first = |code| offsets.keys().next().map(|at| (at.clone(), code));
    // On the coordinator's connection it would wait behind the JoinGroup, for as long as the other members
    // take, and end both by its own request.timeout.ms. Kafka's consumer does not send it either.
    if shared.state().is_joining() {
        return first(ErrorCode::RebalanceInProgress);
    }
    let failed = match group::commit(&shared.cluster, who, offsets).await {
        Ok(codes) => codes.into_iter().find(|(_, code)| code.is_error()),
        Err(code) => first(code),
    };
    let (_, code) = failed.as_ref()?;
    shared.apply(|state, now| state.commit_failed(who.generation, *code, now));
    failed
}

/// Who commits, once the coordinator is known.
pub(super) async fn coordinator(
    shared: &Arc<Shared>,
    deadline: Instant,
) -> Result<Identity, Error> {
    let begun = Instant::now();
    let again = shared.config.cluster.retry_backoff.initial;
    let mut changes = shared.changes();
    loop {
        changes.mark_unchanged();
        if let Some(identity) = shared.state().identity() {
            return Ok(identity);
        }
        if shared.config.group_id.is_none() {
            return Err(Error::Invalid {
                reason: "committed offsets need a group: set group.id".to_owned(),
            });
        }
        if Instant::now() >= deadline {
            return Err(Error::Timeout {
                what: "the group's coordinator".into(),
                waited: begun.elapsed(),
                setting: "default.api.timeout.ms",
            });
        }
        shared.look(|state, now| ((), state.want_coordinator(now)));
        let until = deadline.min(Instant::now() + again);
        let _ = tokio::time::timeout_at(until, changes.changed()).await;
    }
}

fn may_pass(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator
            | ErrorCode::RequestTimedOut
            | ErrorCode::NetworkException
            | ErrorCode::UnknownTopicOrPartition
            // The member is in the rebalance, which goes on by itself.
            | ErrorCode::RebalanceInProgress
    )
}

/// Whether this member has got a new generation since the commit was sent, or is about to: what it
/// still owns it may commit in that one.
fn has_moved_on(shared: &Shared, who: &Identity, code: ErrorCode) -> bool {
    code == ErrorCode::IllegalGeneration && shared.state().has_moved_on(who.generation)
}

/// A commit did not come to its turn or its end in time.
fn late(waited: Duration) -> Error {
    Error::Timeout {
        what: "the commit, behind those that were asked for earlier".into(),
        waited,
        setting: "default.api.timeout.ms",
    }
}

/// The group has moved on without this member: its partitions may be another's.
fn refused(code: ErrorCode) -> Error {
    let about = "the commit, because the group has rebalanced";
    Error::from_code(code.code(), about).unwrap_or(Error::Closed)
}

#[cfg(test)]
mod tests {
    use super::super::Consumer;
    use super::super::tests::{at, give, member, rebalance, take_step};
    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    fn offsets() -> Offsets {
        Offsets::from([(at(0), (5_i64, "").into())])
    }

    /// A member whose JoinGroup is on its way.
    fn joining() -> Consumer {
        let consumer = member();
        let now = std::time::Instant::now();
        let mut state = consumer.shared.state();
        give(&mut state, now);
        take_step(&mut state, now);
        rebalance(&mut state, now);
        take_step(&mut state, now);
        assert!(state.may_commit() && state.is_joining());
        drop(state);
        consumer
    }

    fn is_late(outcome: &Result<(), Error>) -> bool {
        matches!(outcome, Err(Error::Timeout { .. }))
    }

    #[tokio::test]
    async fn who_waits_for_a_commit_is_told_in_time_that_nobody_makes_it() {
        let (commits, _queue) = Commits::new();
        assert!(is_late(&commits.make(offsets(), Duration::ZERO).await));
    }

    #[tokio::test]
    async fn a_commit_whose_time_is_over_is_not_made_any_more() {
        let consumer = joining();
        let (commits, queue) = Commits::new();
        let outcome = commits.push(offsets(), Duration::ZERO);
        drop(commits);
        make_commits(consumer.shared.clone(), queue).await;
        assert!(is_late(&outcome.await.expect("decided")));
    }

    #[tokio::test]
    async fn one_commit_more_than_may_wait_is_refused_at_once() {
        let (commits, _queue) = Commits::new();
        let waiting: Vec<Outcome> = (0..QUEUED_MAX)
            .map(|_| commits.push(offsets(), LONG))
            .collect();
        let mut refused = commits.push(offsets(), LONG);
        assert!(is_late(&refused.try_recv().expect("decided")));
        for mut outcome in waiting {
            assert!(outcome.try_recv().is_err(), "not decided");
        }
    }

    #[tokio::test]
    async fn a_commit_does_not_wait_behind_the_join_of_its_member() {
        let consumer = joining();
        let (commit, _outcome) = Commit::new(offsets(), LONG, false);
        let made = make(&consumer.shared, &commit).await;
        let name = made.map_err(|error| error.name());
        assert_eq!(name, Err("REBALANCE_IN_PROGRESS".to_owned()));
    }
}
