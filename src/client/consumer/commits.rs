//! Commits, one after the other in the order in which they were asked for: a later offset is never
//! overwritten by an earlier one. Knows nothing of why they are asked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use wire::ErrorCode;

use super::calls::group::{self, Identity};
use super::offsets::OffsetAndMetadata;
use super::partition::TopicPartition;
use super::shared::Shared;
use crate::Error;

/// Offsets to be committed.
pub(super) type Offsets = BTreeMap<TopicPartition, OffsetAndMetadata>;

/// One commit.
pub(super) struct Commit {
    offsets: Offsets,
    /// Until when failures that may pass are tried again; `None` for never.
    retry_until: Option<Instant>,
    done: oneshot::Sender<Result<(), Error>>,
}

/// Where commits are handed in.
#[derive(Clone)]
pub(super) struct Commits(mpsc::UnboundedSender<Commit>);

impl Commits {
    /// A queue and its other end.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Commit>) {
        let (sender, queue) = mpsc::unbounded_channel();
        (Self(sender), queue)
    }

    /// Hands a commit in; it is made behind all earlier ones.
    pub(super) fn push(
        &self,
        offsets: Offsets,
        retry_for: Option<Duration>,
    ) -> oneshot::Receiver<Result<(), Error>> {
        let (done, result) = oneshot::channel();
        let commit = Commit {
            offsets,
            retry_until: retry_for.map(|retry_for| Instant::now() + retry_for),
            done,
        };
        // Without a committer the sender is dropped, which the receiver notices.
        let _ = self.0.send(commit);
        result
    }
}

/// Makes the commits of the queue.
pub(super) async fn make_commits(shared: Arc<Shared>, mut queue: mpsc::UnboundedReceiver<Commit>) {
    while let Some(commit) = queue.recv().await {
        let made = make(&shared, &commit.offsets, commit.retry_until).await;
        let _ = commit.done.send(made);
    }
}

async fn make(
    shared: &Arc<Shared>,
    offsets: &Offsets,
    retry_until: Option<Instant>,
) -> Result<(), Error> {
    if offsets.is_empty() {
        return Ok(());
    }
    let backoff = shared.config.cluster.retry_backoff;
    let mut failures = 0;
    loop {
        if !shared.state().may_commit() {
            return Err(refused(ErrorCode::UnknownMemberId));
        }
        let waited = shared.config.default_api_timeout;
        let deadline = retry_until.unwrap_or_else(|| Instant::now() + waited);
        let who = coordinator(shared, deadline).await?;
        let failed = match group::commit(&shared.cluster, &who, offsets).await {
            Ok(codes) => codes.into_iter().find(|(_, code)| code.is_error()),
            Err(code) => offsets.keys().next().map(|at| (at.clone(), code)),
        };
        let Some((at, code)) = failed else {
            return Ok(());
        };
        shared.apply(|state, now| state.commit_failed(who.generation, code, now));
        let owned = shared.state().owns(offsets.keys());
        failures += 1;
        let wait = backoff.after(failures, crate::cluster::backoff::random());
        let again = retry_until.filter(|until| Instant::now() + wait < *until);
        if again.is_none() || !owned || !(may_pass(code) || has_moved_on(shared, &who, code)) {
            return Err(match code {
                ErrorCode::RebalanceInProgress
                | ErrorCode::UnknownMemberId
                | ErrorCode::IllegalGeneration
                | ErrorCode::StaleMemberEpoch
                | ErrorCode::GroupIdNotFound
                | ErrorCode::FencedInstanceId => refused(code),
                code => Error::from_code(code.code(), at.to_string()).unwrap_or(Error::Closed),
            });
        }
        tokio::time::sleep(wait).await;
    }
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
            // So does its way to the epoch in which the coordinator has it (KIP-848).
            | ErrorCode::StaleMemberEpoch
    )
}

/// Whether this member has got a new generation since the commit was sent, or is about to: what it
/// still owns it may commit in that one.
fn has_moved_on(shared: &Shared, who: &Identity, code: ErrorCode) -> bool {
    code == ErrorCode::IllegalGeneration && shared.state().has_moved_on(who.generation)
}

/// The group has moved on without this member: its partitions may be another's.
fn refused(code: ErrorCode) -> Error {
    let about = "the commit, because the group has rebalanced";
    Error::from_code(code.code(), about).unwrap_or(Error::Closed)
}
