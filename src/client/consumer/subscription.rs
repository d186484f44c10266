//! What a consumer reads: the assigned partitions, where in each it stands, and what has to be found
//! out before it can be fetched. Pure; knows nothing of requests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use wire::ErrorCode;

use super::partition::TopicPartition;
use crate::properties::AutoOffsetReset as OffsetReset;

/// The next offset to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) offset: i64,
    /// Leader epoch of the record before it, by which a truncation is noticed (KIP-320).
    pub(super) epoch: Option<i32>,
    /// Epoch of the leader that the position is known to be good for; -1 for none.
    pub(super) leader_epoch: i32,
}

/// What is missing before records can be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The committed offset.
    Committed,
    /// The offset at that end of the log.
    Reset(OffsetReset),
    /// Whether the log up to the position is still that which was read.
    Validation,
    /// Nothing.
    Fetching,
}

/// What is wrong with a partition so that only the application can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// No committed offset, and `auto.offset.reset=none`.
    NoOffset(TopicPartition),
    /// The position is outside of the log, and `auto.offset.reset=none`.
    OutOfRange(TopicPartition, i64),
    /// The log was truncated below the position, and `auto.offset.reset=none`.
    Truncated(TopicPartition, i64),
}

#[derive(Clone, Debug)]
struct Assigned {
    phase: Phase,
    position: Option<Position>,
    paused: bool,
    /// It is about to be revoked: nothing of it is handed out any more.
    revoking: bool,
    /// A look-up for the phase is on its way.
    asked: bool,
    not_before: Option<Instant>,
    high_watermark: Option<i64>,
    last_stable_offset: Option<i64>,
    log_start: Option<i64>,
}

impl Assigned {
    fn new(phase: Phase) -> Self {
        Self {
            phase,
            position: None,
            paused: false,
            revoking: false,
            asked: false,
            not_before: None,
            high_watermark: None,
            last_stable_offset: None,
            log_start: None,
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.asked = false;
        self.not_before = None;
    }
}

/// The assigned partitions.
#[derive(Debug)]
pub(super) struct Assignment {
    reset: OffsetReset,
    /// Whether there is a group whose committed offsets count.
    has_group: bool,
    partitions: BTreeMap<TopicPartition, Assigned>,
}

impl Assignment {
    pub(super) fn new(reset: OffsetReset, has_group: bool) -> Self {
        Self {
            reset,
            has_group,
            partitions: BTreeMap::new(),
        }
    }

    /// Makes these the assigned partitions. Those that were keep their positions.
    pub(super) fn set(&mut self, partitions: impl IntoIterator<Item = TopicPartition>) {
        let mut before = std::mem::take(&mut self.partitions);
        let first = match self.has_group {
            true => Phase::Committed,
            false => Phase::Reset(self.reset),
        };
        for partition in partitions {
            let kept = before.remove(&partition).map(|mut kept| {
                kept.revoking = false;
                kept
            });
            let state = kept.unwrap_or_else(|| Assigned::new(first));
            self.partitions.insert(partition, state);
        }
    }

    pub(super) fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.partitions.keys()
    }

    pub(super) fn to_set(&self) -> BTreeSet<TopicPartition> {
        self.partitions.keys().cloned().collect()
    }

    pub(super) fn contains(&self, partition: &TopicPartition) -> bool {
        self.partitions.contains_key(partition)
    }

    /// Stops handing out records of partitions that are about to be revoked.
    pub(super) fn mark_revoking(&mut self, partitions: &BTreeSet<TopicPartition>) {
        for (partition, state) in &mut self.partitions {
            state.revoking |= partitions.contains(partition);
        }
    }

    /// Pauses or resumes; false when the partition is not assigned.
    pub(super) fn pause(&mut self, partition: &TopicPartition, paused: bool) -> bool {
        let state = self.partitions.get_mut(partition);
        state.map(|state| state.paused = paused).is_some()
    }

    pub(super) fn paused(&self) -> impl Iterator<Item = &TopicPartition> {
        let paused = self.partitions.iter().filter(|(_, state)| state.paused);
        paused.map(|(partition, _)| partition)
    }

    /// Sets the position; with an epoch it is validated first. False when not assigned.
    pub(super) fn seek(&mut self, at: &TopicPartition, offset: i64, epoch: Option<i32>) -> bool {
        let Some(state) = self.partitions.get_mut(at) else {
            return false;
        };
        state.position = Some(Position {
            offset,
            epoch,
            leader_epoch: -1,
        });
        state.enter(match epoch {
            Some(_) => Phase::Validation,
            None => Phase::Fetching,
        });
        true
    }

    /// Looks the position up at an end of the log. False when not assigned.
    pub(super) fn seek_to(&mut self, partition: &TopicPartition, end: OffsetReset) -> bool {
        let Some(state) = self.partitions.get_mut(partition) else {
            return false;
        };
        state.position = None;
        state.enter(Phase::Reset(end));
        true
    }

    /// The position, once it is known.
    pub(super) fn position(&self, partition: &TopicPartition) -> Option<Position> {
        let state = self.partitions.get(partition)?;
        let known = matches!(state.phase, Phase::Fetching | Phase::Validation);
        state.position.filter(|_| known)
    }

    /// All known positions.
    pub(super) fn positions(&self) -> impl Iterator<Item = (&TopicPartition, Position)> {
        let known = self.partitions.keys();
        known.filter_map(|partition| Some((partition, self.position(partition)?)))
    }

    /// The partitions whose phase wants something looked up now, marked as asked for.
    pub(super) fn ask(&mut self, now: Instant) -> Vec<(TopicPartition, Phase)> {
        let mut asked = Vec::new();
        for (partition, state) in &mut self.partitions {
            let due = !state.asked && state.not_before.is_none_or(|at| at <= now);
            let can = match state.phase {
                Phase::Committed | Phase::Validation => true,
                Phase::Reset(end) => end != OffsetReset::None,
                Phase::Fetching => false,
            };
            if due && can {
                state.asked = true;
                asked.push((partition.clone(), state.phase));
            }
        }
        asked
    }

    /// A look-up of that phase failed, or could not be sent: it is tried again at that moment, or when
    /// something else happens.
    pub(super) fn retry(&mut self, partition: &TopicPartition, phase: Phase, at: Option<Instant>) {
        if let Some(state) = self.in_phase(partition, phase) {
            state.asked = false;
            state.not_before = at;
        }
    }

    /// When the next look-up is due.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        let waiting = self.partitions.values().filter(|state| !state.asked);
        waiting.filter_map(|state| state.not_before).min()
    }

    /// The committed offset was found, or that there is none.
    pub(super) fn committed(
        &mut self,
        partition: &TopicPartition,
        committed: Option<(i64, Option<i32>)>,
    ) -> Result<(), Lost> {
        let reset = self.reset;
        let Some(state) = self.in_phase(partition, Phase::Committed) else {
            return Ok(());
        };
        match committed {
            Some((offset, epoch)) => {
                self.seek(partition, offset, epoch);
                Ok(())
            }
            None => {
                state.enter(Phase::Reset(reset));
                match reset {
                    OffsetReset::None => Err(Lost::NoOffset(partition.clone())),
                    _ => Ok(()),
                }
            }
        }
    }

    /// The offset at an end of the log was found.
    pub(super) fn found_end(
        &mut self,
        partition: &TopicPartition,
        end: OffsetReset,
        offset: i64,
        epoch: Option<i32>,
    ) {
        if let Some(state) = self.in_phase(partition, Phase::Reset(end)) {
            state.position = Some(Position {
                offset,
                epoch,
                leader_epoch: -1,
            });
            state.enter(Phase::Fetching);
        }
    }

    /// No record is as young as that end asks for: reading begins with what comes next.
    pub(super) fn found_no_end(&mut self, partition: &TopicPartition, end: OffsetReset) {
        if let Some(state) = self.in_phase(partition, Phase::Reset(end)) {
            state.enter(Phase::Reset(OffsetReset::Latest));
        }
    }

    /// The leader (of epoch `leader_epoch`) said where the epoch of the position ends in its log:
    /// `(epoch, end offset)`, or that it does not know.
    pub(super) fn validated(
        &mut self,
        partition: &TopicPartition,
        asked: Position,
        leader_epoch: i32,
        end: Option<(i32, i64)>,
    ) -> Result<(), Lost> {
        let reset = self.reset;
        let Some(state) = self.in_phase(partition, Phase::Validation) else {
            return Ok(());
        };
        let Some(position) = state.position.filter(|position| *position == asked) else {
            return Ok(());
        };
        let lost = || Lost::Truncated(partition.clone(), position.offset);
        match end {
            Some((_, offset)) if offset >= position.offset => {
                let good = Position {
                    leader_epoch,
                    ..position
                };
                state.position = Some(good);
                state.enter(Phase::Fetching);
                Ok(())
            }
            _ if reset == OffsetReset::None => {
                state.enter(Phase::Reset(OffsetReset::None));
                Err(lost())
            }
            // What lies above the end is another log's: reading goes on where they part.
            Some((epoch, offset)) => {
                state.position = Some(Position {
                    offset,
                    epoch: Some(epoch),
                    leader_epoch,
                });
                state.enter(Phase::Fetching);
                Ok(())
            }
            None => {
                state.enter(Phase::Reset(reset));
                Ok(())
            }
        }
    }

    /// The partition has a leader of this epoch: a position from an older one is to be validated.
    pub(super) fn leader_seen(&mut self, partition: &TopicPartition, leader_epoch: i32) {
        let Some(state) = self.in_phase(partition, Phase::Fetching) else {
            return;
        };
        let Some(position) = &mut state.position else {
            return;
        };
        if leader_epoch <= position.leader_epoch {
            return;
        }
        if position.leader_epoch >= 0 && position.epoch.is_some() {
            state.enter(Phase::Validation);
        } else {
            position.leader_epoch = leader_epoch;
        }
    }

    /// Whether records of it may be fetched or handed out: its position then.
    pub(super) fn fetchable(&self, partition: &TopicPartition) -> Option<Position> {
        let state = self.partitions.get(partition)?;
        let may = state.phase == Phase::Fetching && !state.paused && !state.revoking;
        state.position.filter(|_| may)
    }

    /// Records up to before `offset` were handed out.
    pub(super) fn advance(&mut self, partition: &TopicPartition, offset: i64, epoch: Option<i32>) {
        if let Some(state) = self.partitions.get_mut(partition)
            && let Some(position) = &mut state.position
        {
            position.offset = offset;
            position.epoch = epoch.or(position.epoch);
        }
    }

    /// What a fetch said about the partition's log.
    pub(super) fn seen(
        &mut self,
        partition: &TopicPartition,
        high_watermark: i64,
        last_stable_offset: i64,
        log_start: i64,
    ) {
        if let Some(state) = self.partitions.get_mut(partition) {
            let known = |offset: i64| (offset >= 0).then_some(offset);
            state.high_watermark = known(high_watermark);
            state.last_stable_offset = known(last_stable_offset);
            state.log_start = known(log_start);
        }
    }

    /// A fetch at `offset` was refused: outside of the log.
    pub(super) fn out_of_range(
        &mut self,
        partition: &TopicPartition,
        offset: i64,
    ) -> Result<(), Lost> {
        let reset = self.reset;
        let Some(state) = self.in_phase(partition, Phase::Fetching) else {
            return Ok(());
        };
        if state
            .position
            .is_none_or(|position| position.offset != offset)
        {
            return Ok(());
        }
        match reset {
            OffsetReset::None => Err(Lost::OutOfRange(partition.clone(), offset)),
            _ => {
                state.enter(Phase::Reset(reset));
                Ok(())
            }
        }
    }

    /// How many records are still to be read, as far as fetches have said.
    pub(super) fn lag(&self, partition: &TopicPartition, committed_only: bool) -> Option<i64> {
        let state = self.partitions.get(partition)?;
        let end = match committed_only {
            true => state.last_stable_offset.or(state.high_watermark)?,
            false => state.high_watermark?,
        };
        Some((end - self.position(partition)?.offset).max(0))
    }

    fn in_phase(&mut self, partition: &TopicPartition, phase: Phase) -> Option<&mut Assigned> {
        let state = self.partitions.get_mut(partition)?;
        (state.phase == phase).then_some(state)
    }
}

/// Whether a code says that another broker leads, or that this one is behind: the metadata is asked
/// again and the look-up repeated.
pub(super) fn is_for_another_leader(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotLeaderOrFollower
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::KafkaStorageError
            | ErrorCode::OffsetNotAvailable
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId
            | ErrorCode::RequestTimedOut
            | ErrorCode::NetworkException
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    fn fetching(reset: OffsetReset, offset: i64, epoch: Option<i32>) -> Assignment {
        let mut assignment = Assignment::new(reset, true);
        assignment.set([at(0)]);
        assignment.seek(&at(0), offset, None);
        assignment.leader_seen(&at(0), 3);
        assignment.advance(&at(0), offset, epoch);
        assignment
    }

    #[test]
    fn a_partition_looks_for_its_committed_offset_then_for_the_end_of_the_log() {
        let now = Instant::now();
        let mut assignment = Assignment::new(OffsetReset::Earliest, true);
        assignment.set([at(0), at(1)]);
        let committed = |partition| (at(partition), Phase::Committed);
        assert_eq!(assignment.ask(now), [committed(0), committed(1)]);
        assert_eq!(assignment.ask(now), [], "asked once");
        assert_eq!(assignment.committed(&at(0), Some((7, None))), Ok(()));
        assert_eq!(assignment.committed(&at(1), None), Ok(()));
        let reset = Phase::Reset(OffsetReset::Earliest);
        assert_eq!(assignment.ask(now), [(at(1), reset)]);
        assignment.found_end(&at(1), OffsetReset::Earliest, 2, None);
        let offset = |partition| assignment.fetchable(&at(partition)).map(|it| it.offset);
        assert_eq!((offset(0), offset(1)), (Some(7), Some(2)));
    }

    #[test]
    fn without_a_reset_policy_a_missing_offset_is_the_application_s_to_solve() {
        let mut assignment = Assignment::new(OffsetReset::None, true);
        assignment.set([at(0)]);
        assignment.ask(Instant::now());
        assert_eq!(
            assignment.committed(&at(0), None),
            Err(Lost::NoOffset(at(0)))
        );
        assert_eq!(
            assignment.ask(Instant::now()),
            [],
            "nothing can be looked up"
        );
        assert!(assignment.seek(&at(0), 5, None));
        assert!(assignment.fetchable(&at(0)).is_some());
    }

    #[test]
    fn a_seek_beats_a_look_up_that_is_still_on_its_way() {
        let mut assignment = Assignment::new(OffsetReset::Latest, true);
        assignment.set([at(0)]);
        assignment.ask(Instant::now());
        assignment.seek(&at(0), 5, None);
        assert_eq!(assignment.committed(&at(0), Some((9, None))), Ok(()));
        assert_eq!(assignment.position(&at(0)).map(|it| it.offset), Some(5));
        assignment.seek_to(&at(0), OffsetReset::Earliest);
        assignment.found_end(&at(0), OffsetReset::Latest, 100, None);
        assert_eq!(
            assignment.position(&at(0)),
            None,
            "the other end was asked for"
        );
    }

    #[test]
    fn that_no_record_is_young_enough_is_news_only_to_who_still_looks_for_one() {
        let age = OffsetReset::ByDuration(std::time::Duration::from_secs(60));
        let mut assignment = Assignment::new(age, true);
        assignment.set([at(0)]);
        assignment.found_no_end(&at(0), age);
        let committed = (at(0), Phase::Committed);
        assert_eq!(
            assignment.ask(Instant::now()),
            [committed],
            "assigned anew since"
        );
        assignment.seek_to(&at(0), OffsetReset::Earliest);
        assignment.found_no_end(&at(0), age);
        let earliest = (at(0), Phase::Reset(OffsetReset::Earliest));
        assert_eq!(assignment.ask(Instant::now()), [earliest], "sought since");
        assignment.seek_to(&at(0), age);
        assignment.found_no_end(&at(0), age);
        let latest = (at(0), Phase::Reset(OffsetReset::Latest));
        assert_eq!(assignment.ask(Instant::now()), [latest]);
    }

    #[test]
    fn kept_partitions_keep_their_positions_and_new_ones_start_afresh() {
        let mut assignment = fetching(OffsetReset::Latest, 5, None);
        assignment.mark_revoking(&[at(0)].into());
        assert_eq!(assignment.fetchable(&at(0)), None, "about to be revoked");
        assignment.set([at(0), at(1)]);
        assert_eq!(assignment.fetchable(&at(0)).map(|it| it.offset), Some(5));
        assert_eq!(assignment.position(&at(1)), None);
        assignment.set([at(1)]);
        assignment.set([at(0)]);
        assert_eq!(assignment.position(&at(0)), None, "it was away");
    }

    #[test]
    fn a_new_leader_is_asked_whether_its_log_is_the_one_that_was_read() {
        let mut assignment = fetching(OffsetReset::Latest, 50, Some(3));
        assignment.leader_seen(&at(0), 3);
        assert!(assignment.fetchable(&at(0)).is_some(), "the same leader");
        assignment.leader_seen(&at(0), 4);
        assert!(
            assignment.fetchable(&at(0)).is_none(),
            "not before it is validated"
        );
        assert_eq!(assignment.ask(Instant::now()), [(at(0), Phase::Validation)]);
        let asked = assignment.position(&at(0)).expect("known");
        assert_eq!(
            assignment.validated(&at(0), asked, 4, Some((3, 60))),
            Ok(())
        );
        assert_eq!(assignment.fetchable(&at(0)).map(|it| it.offset), Some(50));
    }

    #[test]
    fn after_a_truncation_reading_goes_on_where_the_logs_part() {
        let mut assignment = fetching(OffsetReset::Latest, 50, Some(3));
        assignment.leader_seen(&at(0), 4);
        let asked = assignment.position(&at(0)).expect("known");
        assert_eq!(
            assignment.validated(&at(0), asked, 4, Some((2, 40))),
            Ok(())
        );
        let position = assignment.fetchable(&at(0)).expect("goes on");
        assert_eq!((position.offset, position.epoch), (40, Some(2)));
    }

    #[test]
    fn a_truncation_without_a_reset_policy_is_reported_and_nothing_is_skipped() {
        let mut assignment = fetching(OffsetReset::None, 50, Some(3));
        assignment.leader_seen(&at(0), 4);
        let asked = assignment.position(&at(0)).expect("known");
        let lost = assignment.validated(&at(0), asked, 4, Some((2, 40)));
        assert_eq!(lost, Err(Lost::Truncated(at(0), 50)));
        assert_eq!(assignment.fetchable(&at(0)), None);
    }

    #[test]
    fn an_offset_out_of_range_resets_only_if_it_is_still_the_position() {
        let mut assignment = fetching(OffsetReset::Earliest, 50, None);
        assert_eq!(assignment.out_of_range(&at(0), 49), Ok(()));
        assert!(
            assignment.fetchable(&at(0)).is_some(),
            "an old fetch's news"
        );
        assert_eq!(assignment.out_of_range(&at(0), 50), Ok(()));
        let reset = Phase::Reset(OffsetReset::Earliest);
        assert_eq!(assignment.ask(Instant::now()), [(at(0), reset)]);
        let mut assignment = fetching(OffsetReset::None, 50, None);
        assert_eq!(
            assignment.out_of_range(&at(0), 50),
            Err(Lost::OutOfRange(at(0), 50))
        );
    }

    #[test]
    fn a_paused_partition_keeps_its_position_and_is_not_fetched() {
        let mut assignment = fetching(OffsetReset::Latest, 5, None);
        assert!(assignment.pause(&at(0), true));
        assert_eq!(assignment.fetchable(&at(0)), None);
        assert_eq!(assignment.paused().count(), 1);
        assert!(assignment.pause(&at(0), false));
        assert!(assignment.fetchable(&at(0)).is_some());
        assert!(!assignment.pause(&at(9), true), "not assigned");
    }

    #[test]
    fn the_lag_of_a_read_committed_consumer_ends_at_the_last_stable_offset() {
        let mut assignment = fetching(OffsetReset::Latest, 5, None);
        assert_eq!(assignment.lag(&at(0), false), None, "nothing fetched yet");
        assignment.seen(&at(0), 20, 10, 0);
        assert_eq!(assignment.lag(&at(0), false), Some(15));
        assert_eq!(assignment.lag(&at(0), true), Some(5));
    }
}
