//! What has to be found out before partitions can be fetched: committed offsets, ends of logs, whether
//! positions still hold. Knows nothing of groups but where their offsets are kept.

use std::collections::BTreeMap;
use std::time::Instant;

use wire::ErrorCode;

use super::super::calls::group::Committed;
use super::super::calls::log::{EpochEnd, EpochQuery, Found, OffsetQuery};
use super::super::membership::{Answer, Event};
use super::super::subscription::{Phase, Position, is_for_another_leader};
use super::{About, Call, Failed, State, TopicPartition, is_retried};
use crate::Error;
use crate::properties::AutoOffsetReset;

/// ListOffsets' timestamps for the two ends of a log.
pub(crate) const LATEST: i64 = -1;
pub(crate) const EARLIEST: i64 = -2;

impl State {
    /// Asks for what partitions are missing.
    pub(super) fn look_up(&mut self, now: Instant, calls: &mut Vec<Call>) {
        let mut committed = Vec::new();
        let mut ends: BTreeMap<i32, Vec<(OffsetQuery, AutoOffsetReset)>> = BTreeMap::new();
        let mut epochs: BTreeMap<i32, Vec<(EpochQuery, Position)>> = BTreeMap::new();
        let again = now + self.retry_backoff();
        for (at, phase) in self.assignment.ask(now) {
            if phase == Phase::Committed {
                committed.push(at);
                continue;
            }
            let Some(leader) = self.leader(&at) else {
                self.assignment.retry(&at, phase, Some(again));
                calls.push(Call::RefreshMetadata);
                continue;
            };
            match phase {
                Phase::Reset(end) => {
                    let query = (at, leader.epoch, self.time_of(end));
                    ends.entry(leader.node).or_default().push((query, end));
                }
                Phase::Validation => {
                    let Some(position) = self.assignment.position(&at) else {
                        continue;
                    };
                    let query = (at, leader.epoch, position.epoch.unwrap_or(-1));
                    epochs
                        .entry(leader.node)
                        .or_default()
                        .push((query, position));
                }
                Phase::Committed | Phase::Fetching => {}
            }
        }
        calls.extend(
            ends.into_iter()
                .map(|(node, asked)| Call::Ends(node, asked)),
        );
        calls.extend(
            epochs
                .into_iter()
                .map(|(node, asked)| Call::Epochs(node, asked)),
        );
        if !committed.is_empty() {
            self.look_up_committed(committed, now, calls);
        }
    }

    fn look_up_committed(
        &mut self,
        partitions: Vec<TopicPartition>,
        now: Instant,
        calls: &mut Vec<Call>,
    ) {
        if let Some(identity) = self.identity() {
            calls.push(Call::Committed(identity, partitions));
            return;
        }
        for at in &partitions {
            let again = now + self.retry_backoff();
            self.assignment.retry(at, Phase::Committed, Some(again));
        }
        self.membership_event(Event::CoordinatorWanted, now, calls);
    }

    fn time_of(&self, end: AutoOffsetReset) -> i64 {
        match end {
            AutoOffsetReset::Earliest => EARLIEST,
            AutoOffsetReset::Latest | AutoOffsetReset::None => LATEST,
            AutoOffsetReset::ByDuration(age) => {
                let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
                (self.clock)().saturating_sub(age).max(0)
            }
        }
    }

    /// The answer to [`Call::Committed`].
    pub(crate) fn committed_found(
        &mut self,
        asked: Vec<TopicPartition>,
        answer: Answer<Committed>,
        now: Instant,
    ) -> Vec<Call> {
        let mut calls = Vec::new();
        match answer {
            Ok(committed) => {
                for at in asked {
                    let found = committed.get(&at).map(|it| (it.offset, it.leader_epoch));
                    if let Err(lost) = self.assignment.committed(&at, found) {
                        self.add_lost(lost);
                    }
                }
            }
            Err(code) => {
                let failed = asked.into_iter().map(|at| (at, Phase::Committed));
                self.look_up_failed(failed.collect(), code, now);
                self.membership_event(Event::CommitFailed(-1, code), now, &mut calls);
            }
        }
        self.advance(now, &mut calls);
        calls
    }

    /// The answer to [`Call::Ends`].
    pub(crate) fn ends_found(
        &mut self,
        asked: Vec<(OffsetQuery, AutoOffsetReset)>,
        answer: Answer<Vec<(TopicPartition, Answer<Option<Found>>)>>,
        now: Instant,
    ) -> Vec<Call> {
        let mut calls = Vec::new();
        let (answer, missing) = one_by_one(answer);
        for ((at, _, _), end) in asked {
            match answer.get(&at).copied().unwrap_or(Err(missing)) {
                Ok(Some(found)) => {
                    let (offset, epoch) = (found.offset, found.leader_epoch);
                    self.assignment.found_end(&at, end, offset, epoch);
                    if let Some(leader) = self.leader(&at) {
                        self.assignment.leader_seen(&at, leader.epoch);
                    }
                }
                Ok(None) => self.assignment.found_no_end(&at, end),
                Err(code) => {
                    self.look_up_failed(vec![(at, Phase::Reset(end))], code, now);
                    calls.push(Call::RefreshMetadata);
                }
            }
        }
        self.advance(now, &mut calls);
        calls
    }

    /// The answer to [`Call::Epochs`].
    pub(crate) fn epochs_found(
        &mut self,
        asked: Vec<(EpochQuery, Position)>,
        answer: Answer<Vec<(TopicPartition, Answer<EpochEnd>)>>,
        now: Instant,
    ) -> Vec<Call> {
        let mut calls = Vec::new();
        let (answer, missing) = one_by_one(answer);
        for ((at, leader_epoch, _), position) in asked {
            match answer.get(&at).copied().unwrap_or(Err(missing)) {
                Ok(end) => {
                    let validated = self.assignment.validated(&at, position, leader_epoch, end);
                    if let Err(lost) = validated {
                        self.add_lost(lost);
                    }
                }
                Err(code) => {
                    self.look_up_failed(vec![(at, Phase::Validation)], code, now);
                    calls.push(Call::RefreshMetadata);
                }
            }
        }
        self.advance(now, &mut calls);
        calls
    }

    /// Look-ups are repeated until they succeed; what the application should know of is told as well.
    fn look_up_failed(&mut self, failed: Vec<Failed>, code: ErrorCode, now: Instant) {
        let again = now + self.retry_backoff();
        if !is_retried(code) && !is_for_another_leader(code) {
            let names: Vec<String> = failed.iter().map(|(at, _)| at.to_string()).collect();
            let about = match &failed[..] {
                [(at, Phase::Reset(_) | Phase::Validation)] => About::Partition(at.clone()),
                _ => About::Committed,
            };
            if let Some(error) = Error::from_code(code.code(), names.join(", ")) {
                self.faults.push(about, error);
            }
        }
        for (at, phase) in failed {
            self.assignment.retry(&at, phase, Some(again));
        }
    }
}

/// Answers by partition, and the code for those that the answer does not name.
fn one_by_one<T>(
    answer: Answer<Vec<(TopicPartition, Answer<T>)>>,
) -> (BTreeMap<TopicPartition, Answer<T>>, ErrorCode) {
    match answer {
        Ok(answers) => {
            let missing = ErrorCode::UnknownTopicOrPartition;
            (answers.into_iter().collect(), missing)
        }
        Err(code) => (BTreeMap::new(), code),
    }
}
