//! What is fetched from which broker, and how what came is handed out. Pure; knows nothing of
//! requests' bytes or of why a position is where it is.

mod batches;
mod session;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use wire::ErrorCode;

use super::partition::TopicPartition;
use super::record::{ConsumerRecord, ConsumerRecords, PartitionRecords};
use super::subscription::{Assignment, Lost, is_for_another_leader};
pub(super) use batches::{Aborted, Batches, Damage, Reading};
pub(super) use session::{FetchSession, Said, Wanted};

/// The leader of a partition, as the metadata says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leader {
    pub(super) node: i32,
    pub(super) epoch: i32,
    pub(super) topic_id: Option<wire::KafkaUuid>,
}

/// What a fetch brought for one partition.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    pub(super) partition: TopicPartition,
    pub(super) error: ErrorCode,
    pub(super) high_watermark: i64,
    pub(super) last_stable_offset: i64,
    pub(super) log_start: i64,
    pub(super) aborted: Vec<Aborted>,
    pub(super) records: Bytes,
}

/// Why a fetched partition cannot be read on without the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The position is lost.
    Lost(Lost),
    /// The broker refuses.
    Refused(TopicPartition, ErrorCode),
    /// What the broker sent is damaged.
    Damaged(TopicPartition, Damage),
}

#[derive(Debug, Default)]
struct Node {
    session: FetchSession,
    in_flight: bool,
    /// It is in trouble: not to be asked before then.
    not_before: Option<Instant>,
}

struct Buffered {
    partition: TopicPartition,
    /// The position that it continues.
    offset: i64,
    batches: Batches,
}

/// Fetch sessions and buffered records of a consumer.
pub(super) struct Fetcher {
    reading: Reading,
    partition_bytes_max: i32,
    nodes: BTreeMap<i32, Node>,
    /// Each partition at most once; the one at the front is handed out next.
    buffered: VecDeque<Buffered>,
}

impl Fetcher {
    pub(super) fn new(reading: Reading, partition_bytes_max: i32) -> Self {
        Self {
            reading,
            partition_bytes_max,
            nodes: BTreeMap::new(),
            buffered: VecDeque::new(),
        }
    }

    /// The requests to be sent now: at most one per broker is on its way, and a broker is asked again when
    /// what came of it has been handed out. Asked earlier, for its other partitions alone, it would hold
    /// that request until they have records, and those that were handed out meanwhile would wait for it
    /// (`fetch.max.wait.ms`). Kafka's consumer does the same since KAFKA-17182.
    pub(super) fn plan(
        &mut self,
        assignment: &Assignment,
        now: Instant,
        leader: impl Fn(&TopicPartition) -> Option<Leader>,
    ) -> Vec<(i32, Said)> {
        let mut by_node: BTreeMap<i32, BTreeMap<TopicPartition, Wanted>> = BTreeMap::new();
        for partition in assignment.partitions() {
            let is_buffered = self.buffered.iter().any(|it| it.partition == *partition);
            let (Some(position), Some(leader), false) = (
                assignment.fetchable(partition),
                leader(partition),
                is_buffered,
            ) else {
                continue;
            };
            let wanted = Wanted {
                topic_id: leader.topic_id,
                offset: position.offset,
                leader_epoch: leader.epoch,
                bytes_max: self.partition_bytes_max,
            };
            let node = by_node.entry(leader.node).or_default();
            node.insert(partition.clone(), wanted);
        }
        for buffered in &self.buffered {
            let position = assignment.fetchable(&buffered.partition);
            // What is paused may wait for long, and what was sought elsewhere is thrown away.
            if position.is_some_and(|position| position.offset == buffered.offset)
                && let Some(leader) = leader(&buffered.partition)
            {
                by_node.remove(&leader.node);
            }
        }
        let mut requests = Vec::new();
        for (id, wanted) in by_node {
            let node = self.nodes.entry(id).or_default();
            let is_paused = node.not_before.is_some_and(|at| at > now);
            if !is_paused && !std::mem::replace(&mut node.in_flight, true) {
                requests.push((id, node.session.request(wanted)));
            }
        }
        requests
    }

    /// The session with a broker, to read its answer by.
    pub(super) fn session(&self, node: i32) -> Option<&FetchSession> {
        self.nodes.get(&node).map(|node| &node.session)
    }

    /// Does not ask a broker before `until`.
    pub(super) fn pause(&mut self, node: i32, until: Instant) {
        self.nodes.entry(node).or_default().not_before = Some(until);
    }

    /// When a broker that is not asked may be asked again.
    pub(super) fn next_retry(&self, now: Instant) -> Option<Instant> {
        let paused = self.nodes.values().filter_map(|node| node.not_before);
        paused.filter(|at| *at > now).min()
    }

    /// A fetch failed as a whole.
    pub(super) fn failed(&mut self, node: i32, code: ErrorCode) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.in_flight = false;
            node.session.failed(code);
        }
    }

    /// A fetch was answered. Returns whether the metadata is to be refreshed, and what only the
    /// application can solve.
    pub(super) fn answered(
        &mut self,
        node: i32,
        session_id: i32,
        fetched: Vec<Fetched>,
        assignment: &mut Assignment,
    ) -> (bool, Vec<Fault>) {
        let Some(node) = self.nodes.get_mut(&node) else {
            return (false, Vec::new());
        };
        node.in_flight = false;
        let asked: Vec<Option<Wanted>> = fetched
            .iter()
            .map(|it| node.session.known(&it.partition))
            .collect();
        node.session.answered(session_id);
        let mut stale = false;
        let mut faults = Vec::new();
        for (fetched, asked) in fetched.into_iter().zip(asked) {
            let Some(asked) = asked else { continue };
            let position = assignment.fetchable(&fetched.partition);
            if position.is_none_or(|position| position.offset != asked.offset) {
                // Meanwhile sought elsewhere, paused, or revoked.
                continue;
            }
            match self.take(fetched, asked, assignment) {
                Ok(refresh) => stale |= refresh,
                Err(fault) => faults.push(fault),
            }
        }
        (stale, faults)
    }

    fn take(
        &mut self,
        fetched: Fetched,
        asked: Wanted,
        assignment: &mut Assignment,
    ) -> Result<bool, Fault> {
        let partition = fetched.partition;
        match fetched.error {
            ErrorCode::None => {
                let (high, stable) = (fetched.high_watermark, fetched.last_stable_offset);
                assignment.seen(&partition, high, stable, fetched.log_start);
                if !fetched.records.is_empty() {
                    let (records, aborted) = (fetched.records, fetched.aborted);
                    self.buffered.push_back(Buffered {
                        partition,
                        offset: asked.offset,
                        batches: Batches::new(self.reading, asked.offset, records, aborted),
                    });
                }
                Ok(false)
            }
            ErrorCode::OffsetOutOfRange => assignment
                .out_of_range(&partition, asked.offset)
                .map(|()| false)
                .map_err(Fault::Lost),
            code if is_for_another_leader(code) => Ok(true),
            // A broker in trouble is asked again; the pause is the caller's.
            ErrorCode::UnknownServerError => Ok(true),
            code => Err(Fault::Refused(partition, code)),
        }
    }

    /// Hands out up to `count` records and moves the positions past them. Partitions take turns: what
    /// is left of one waits until the others had theirs.
    pub(super) fn collect(
        &mut self,
        count: usize,
        assignment: &mut Assignment,
    ) -> Result<ConsumerRecords, Fault> {
        let mut collected = ConsumerRecords::default();
        let mut left = count;
        let mut waiting = VecDeque::new();
        let mut fault = None;
        while left > 0 {
            let Some(mut buffered) = self.buffered.pop_front() else {
                break;
            };
            if !assignment.contains(&buffered.partition) {
                continue;
            }
            match assignment.fetchable(&buffered.partition) {
                Some(position) if position.offset == buffered.offset => {}
                Some(_) => continue,
                // Paused: it is kept, so that nothing is fetched twice.
                None => {
                    waiting.push_back(buffered);
                    continue;
                }
            }
            let mut records = Vec::new();
            let read = buffered.batches.read(left, &mut records);
            left -= records.len();
            let (next, epoch) = (
                buffered.batches.next_offset(),
                buffered.batches.last_epoch(),
            );
            assignment.advance(&buffered.partition, next, epoch);
            buffered.offset = next;
            if let Err(damage) = read {
                fault = Some(Fault::Damaged(buffered.partition.clone(), damage));
                break;
            }
            push(&mut collected, &buffered.partition, records);
            if !buffered.batches.is_done() {
                waiting.push_back(buffered);
            }
        }
        self.buffered.append(&mut waiting);
        match fault {
            Some(fault) if collected.is_empty() => Err(fault),
            // What is sound goes out first; the damage is fetched, and reported, again.
            _ => Ok(collected),
        }
    }
}

fn push(into: &mut ConsumerRecords, partition: &TopicPartition, records: Vec<ConsumerRecord>) {
    if !records.is_empty() {
        into.partitions.push(PartitionRecords {
            partition: partition.clone(),
            records,
        });
    }
}
