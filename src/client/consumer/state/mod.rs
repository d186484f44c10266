//! The state of a consumer: membership, positions and fetches put together. Pure: what happened goes
//! in, calls to be made come out, `now` passed in. Knows nothing of tasks or connections.

mod faults;
mod lookups;
mod rebalance;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use wire::ErrorCode;

use super::assignors::{Assignor, NO_GENERATION, PartitionCounts};
use super::calls::group::{Identity, Joining};
use super::calls::log::{EpochQuery, OffsetQuery};
use super::fetch::{Fault, Fetched, Fetcher, Leader, Reading, Said};
use super::membership::{Attempt, GroupConfig, Membership};
use super::offsets::OffsetAndMetadata;
use super::partition::TopicPartition;
use super::record::ConsumerRecords;
use super::subscription::{Assignment, Lost, Phase, Position};
use crate::Error;
use crate::cluster::Metadata;
use crate::properties::{AutoOffsetReset, ConsumerConfig, IsolationLevel};
use faults::{About, Faults};

pub(super) use lookups::{EARLIEST, LATEST};
pub(super) use rebalance::{Step, Work};

/// Which of the cluster's topics a pattern subscription reads.
#[derive(Clone)]
pub(super) struct Pattern(pub(super) Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pattern")
    }
}

/// What the application wants to read.
#[derive(Clone, Debug, Default)]
pub(super) enum Wanted {
    #[default]
    Nothing,
    /// Its share, in the group, of these topics.
    Topics(BTreeSet<Arc<str>>),
    /// Its share of the topics that match: those that did by the last metadata.
    Matching(Pattern, BTreeSet<Arc<str>>),
    /// These partitions, group or not.
    Partitions,
}

impl Wanted {
    /// The subscribed topics; `None` without a subscription.
    pub(super) fn topics(&self) -> Option<&BTreeSet<Arc<str>>> {
        match self {
            Self::Topics(topics) | Self::Matching(_, topics) => Some(topics),
            Self::Nothing | Self::Partitions => None,
        }
    }
}

/// A call to be made to the cluster.
#[derive(Debug)]
pub(super) enum Call {
    FindCoordinator(Attempt),
    Join(Attempt, Identity, Joining),
    CountPartitions(Attempt, BTreeSet<Arc<str>>),
    Sync(Attempt, Identity, Arc<str>, Vec<(Arc<str>, Bytes)>),
    Heartbeat(Attempt, Identity),
    Leave(Identity, &'static str),
    Committed(Identity, Vec<TopicPartition>),
    Ends(i32, Vec<(OffsetQuery, AutoOffsetReset)>),
    Epochs(i32, Vec<(EpochQuery, Position)>),
    Fetch(i32, Said),
    RefreshMetadata,
}

/// Totals since the consumer was made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) fetches: u64,
    pub(super) rebalances: u64,
}

/// Everything that a consumer knows.
pub(super) struct State {
    pub(super) config: Arc<ConsumerConfig>,
    /// The time of day in milliseconds since 1970: only `by_duration` needs it.
    clock: fn() -> i64,
    pub(super) wanted: Wanted,
    group: Option<Arc<str>>,
    assignors: Vec<Assignor>,
    /// As leader: the topics that any member subscribed to.
    watched: BTreeSet<Arc<str>>,
    pub(super) membership: Option<Membership>,
    pub(super) assignment: Assignment,
    pub(super) fetcher: Fetcher,
    metadata: Arc<Metadata>,
    /// What a rebalance needs of the application, in order; done by polls.
    steps: VecDeque<Step>,
    /// Errors for the next polls.
    faults: Faults,
    /// What the group gave last, and at which generation: the sticky assignor wants to know.
    given: (Vec<TopicPartition>, i32),
    pub(super) totals: Totals,
}

impl State {
    pub(super) fn new(
        config: Arc<ConsumerConfig>,
        assignors: Vec<Assignor>,
        jitter: f64,
        clock: fn() -> i64,
        now: Instant,
    ) -> Self {
        let reading = Reading {
            committed_only: config.isolation_level == IsolationLevel::ReadCommitted,
            check_crcs: config.check_crcs,
        };
        let group = config.group_id.as_deref().map(Arc::from);
        let member = GroupConfig {
            instance_id: config.group_instance_id.as_deref().map(Arc::from),
            session_timeout: config.session_timeout,
            heartbeat_interval: config.heartbeat_interval,
            max_poll_interval: config.max_poll_interval,
            retry_backoff: config.cluster.retry_backoff,
            assignors: assignors.clone(),
            jitter,
        };
        let bytes_max = i32::try_from(config.max_partition_fetch_bytes).unwrap_or(i32::MAX);
        Self {
            clock,
            wanted: Wanted::Nothing,
            membership: group.as_ref().map(|_| Membership::new(member, now)),
            assignment: Assignment::new(config.auto_offset_reset, group.is_some()),
            fetcher: Fetcher::new(reading, bytes_max),
            group,
            assignors,
            watched: BTreeSet::new(),
            config,
            metadata: Arc::default(),
            steps: VecDeque::new(),
            faults: Faults::default(),
            given: (Vec::new(), NO_GENERATION),
            totals: Totals::default(),
        }
    }

    /// `isolation.level=read_committed`
    pub(super) fn is_committed_only(&self) -> bool {
        self.config.isolation_level == IsolationLevel::ReadCommitted
    }

    /// The error that a poll is to return.
    pub(super) fn take_fault(&mut self) -> Option<Error> {
        self.faults.pop()
    }

    /// Reads the partition from this offset on; false when it is not assigned.
    pub(super) fn seek(&mut self, at: &TopicPartition, offset: i64, epoch: Option<i32>) -> bool {
        self.faults.forget(at);
        self.assignment.seek(at, offset, epoch)
    }

    /// Reads the partition from this end of its log on; false when it is not assigned.
    pub(super) fn seek_to(&mut self, at: &TopicPartition, end: AutoOffsetReset) -> bool {
        self.faults.forget(at);
        self.assignment.seek_to(at, end)
    }

    /// Hands records out.
    pub(super) fn collect(&mut self) -> Option<ConsumerRecords> {
        let count = self.config.max_poll_records;
        match self.fetcher.collect(count, &mut self.assignment) {
            Ok(records) if records.is_empty() => None,
            Ok(records) => {
                self.totals.records += records.len() as u64;
                Some(records)
            }
            Err(fault) => {
                self.add_fault(fault);
                None
            }
        }
    }

    /// What has been handed out, as offsets to be committed.
    pub(super) fn consumed(&self) -> BTreeMap<TopicPartition, OffsetAndMetadata> {
        let offset = |(at, position): (&TopicPartition, Position)| {
            let offset = OffsetAndMetadata {
                offset: position.offset,
                leader_epoch: position.epoch,
                metadata: String::new(),
            };
            (at.clone(), offset)
        };
        self.assignment.positions().map(offset).collect()
    }

    /// A newer picture of the cluster.
    pub(super) fn metadata_changed(&mut self, metadata: Arc<Metadata>, now: Instant) -> Vec<Call> {
        self.metadata = metadata;
        let mut calls = Vec::new();
        self.match_pattern(now, &mut calls);
        self.watch_counts(now, &mut calls);
        let assigned = self.assignment.to_set();
        for partition in &assigned {
            if let Some(leader) = self.leader(partition) {
                self.assignment.leader_seen(partition, leader.epoch);
            }
        }
        self.advance(now, &mut calls);
        calls
    }

    /// Time passed, or something happened that allows more to be asked.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<Call> {
        let mut calls = Vec::new();
        self.membership_event(super::membership::Event::Tick, now, &mut calls);
        self.advance(now, &mut calls);
        calls
    }

    /// When [`State::tick`] is due.
    pub(super) fn next_tick(&self, now: Instant) -> Option<Instant> {
        let membership = self.membership.as_ref();
        let due = [
            membership.and_then(|it| it.next_tick(now)),
            self.assignment.next_retry(),
            self.fetcher.next_retry(now),
        ];
        due.into_iter().flatten().min()
    }

    /// Asks for what is missing and fetches what can be.
    fn advance(&mut self, now: Instant, calls: &mut Vec<Call>) {
        self.look_up(now, calls);
        let metadata = &self.metadata;
        let planned = self
            .fetcher
            .plan(&self.assignment, now, |at| leader_in(metadata, at));
        calls.extend(
            planned
                .into_iter()
                .map(|(node, said)| Call::Fetch(node, said)),
        );
    }

    /// A fetch was answered, or failed as a whole.
    pub(super) fn fetched(
        &mut self,
        node: i32,
        answer: Result<(i32, Vec<Fetched>), ErrorCode>,
        now: Instant,
    ) -> Vec<Call> {
        let mut calls = Vec::new();
        let again = now + self.retry_backoff();
        match answer {
            Ok((session, fetched)) => {
                self.totals.fetches += 1;
                let bytes = fetched.iter().map(|it| it.records.len() as u64);
                self.totals.bytes += bytes.sum::<u64>();
                let (is_stale, faults) =
                    self.fetcher
                        .answered(node, session, fetched, &mut self.assignment);
                if is_stale || !faults.is_empty() {
                    // Asked again at once it would say the same.
                    self.fetcher.pause(node, again);
                }
                if is_stale {
                    calls.push(Call::RefreshMetadata);
                }
                faults.into_iter().for_each(|fault| self.add_fault(fault));
            }
            Err(code) => {
                let is_session = matches!(
                    code,
                    ErrorCode::FetchSessionIdNotFound
                        | ErrorCode::InvalidFetchSessionEpoch
                        | ErrorCode::FetchSessionTopicIdError
                );
                self.fetcher.failed(node, code);
                if !is_session {
                    self.fetcher.pause(node, again);
                    calls.push(Call::RefreshMetadata);
                }
            }
        }
        self.advance(now, &mut calls);
        calls
    }

    fn add_fault(&mut self, fault: Fault) {
        match fault {
            Fault::Lost(lost) => self.add_lost(lost),
            Fault::Refused(at, code) => {
                if let Some(error) = Error::from_code(code.code(), at.to_string()) {
                    self.faults.push(About::Partition(at), error);
                }
            }
            Fault::Damaged(at, damage) => {
                let reason = format!("{at}: the broker sent a damaged record batch: {damage:?}");
                self.faults
                    .push(About::Partition(at), Error::Protocol { reason });
            }
        }
    }

    fn add_lost(&mut self, lost: Lost) {
        let (Lost::NoOffset(at) | Lost::OutOfRange(at, _) | Lost::Truncated(at, _)) = &lost;
        let about = About::Partition(at.clone());
        self.faults.push(about, lost_error(lost));
    }

    fn add_group_fault(&mut self, code: ErrorCode) {
        let group = self.group.as_deref().unwrap_or_default();
        if let Some(error) = Error::from_code(code.code(), format!("group {group}")) {
            self.faults.push(About::Group, error);
        }
    }

    fn leader(&self, partition: &TopicPartition) -> Option<Leader> {
        leader_in(&self.metadata, partition)
    }

    fn retry_backoff(&self) -> Duration {
        self.config.cluster.retry_backoff.initial
    }

    fn counts(&self, topics: impl IntoIterator<Item = Arc<str>>) -> PartitionCounts {
        count_in(&self.metadata, topics)
    }
}

/// How many partitions topics have; those unknown or without any are left out.
pub(super) fn count_in(
    metadata: &Metadata,
    topics: impl IntoIterator<Item = Arc<str>>,
) -> PartitionCounts {
    let counted = topics.into_iter().filter_map(|topic| {
        let partitions = metadata.topics.get(&topic)?.partitions.len();
        let count = i32::try_from(partitions).ok().filter(|count| *count > 0)?;
        Some((topic, count))
    });
    counted.collect()
}

fn leader_in(metadata: &Metadata, at: &TopicPartition) -> Option<Leader> {
    let topic = metadata.topics.get(&at.topic)?;
    let partition = metadata.partition(&at.topic, at.partition)?;
    Some(Leader {
        node: partition.leader?,
        epoch: partition.leader_epoch,
        topic_id: topic.id,
    })
}

fn lost_error(lost: Lost) -> Error {
    let (at, what) = match lost {
        Lost::NoOffset(at) => (at, "there is no committed offset".to_owned()),
        Lost::OutOfRange(at, offset) => {
            let code = ErrorCode::OffsetOutOfRange.code();
            let about = format!("{at} at offset {offset}");
            return Error::from_code(code, about).unwrap_or(Error::Closed);
        }
        Lost::Truncated(at, offset) => (at, format!("the log was truncated below {offset}")),
    };
    Error::Invalid {
        reason: format!("{at}: {what}, and auto.offset.reset is none"),
    }
}

/// A phase's look-up that failed for now is repeated.
const fn is_retried(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator
            | ErrorCode::UnstableOffsetCommit
            | ErrorCode::NetworkException
            | ErrorCode::RequestTimedOut
    )
}

/// The phase that a failed look-up leaves a partition in.
type Failed = (TopicPartition, Phase);
