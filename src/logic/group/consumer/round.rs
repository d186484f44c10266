//! One round of a group of consumers: the requests that wait are taken, members that are silent or late
//! are put out, the group's epoch counts up once if anything has changed, partitions are shared out, and
//! those who asked move on. What was decided goes to the log in one piece; the next round begins when it
//! is there. Knows nothing of what single requests mean.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use wire::ErrorCode;
use wire::group_records::{
    ConsumerRecord, GroupRecord, MetadataValue, RegularExpressionValue, TargetMetadataValue,
    TopicUuid,
};

use super::Consumers;
use super::assignor::{Sizes, Taker, assign};
use super::heartbeat::Admitted;
use super::pace::Pace;
use super::settings::{Assignor, ConsumerSettings};
use super::state::is_revoking;
use super::topics::Topics;
use crate::bugs;
use crate::group::Settings;
use crate::group::request::{JoinReply, Reply, Request, Token};
use crate::group::state::Group;
use crate::group::turn::{Then, Turn, batches, size};

/// A round takes no more requests when its records hold so many bytes.
const ROUND_BYTES_MAX: usize = 256 * 1024;

/// What comes of a round.
#[derive(Debug)]
pub(in crate::group) struct Round {
    group: String,
    records: Vec<GroupRecord>,
    bytes: usize,
    /// Heartbeats that were let in: those who sent them move on at the end.
    pub(super) admitted: Vec<Admitted>,
    owed: Vec<Owed>,
    /// The group's epoch is to count up.
    pub(in crate::group) changed: bool,
    /// A member reads other topics: what it is to have must not name what it does not read any more.
    pub(super) urgent: bool,
    /// Somebody is no member any more.
    left: bool,
    /// The group ends as one of consumers.
    pub(in crate::group) downgrades: bool,
}

/// An answer that waits for the log.
#[derive(Debug)]
pub(in crate::group) struct Owed {
    token: Token,
    done: Reply,
    /// What is answered when the log does not take the records.
    failed: fn(ErrorCode) -> Reply,
}

impl Round {
    pub(in crate::group) fn new(group: &str) -> Self {
        Self {
            group: group.into(),
            records: Vec::new(),
            bytes: 0,
            admitted: Vec::new(),
            owed: Vec::new(),
            changed: false,
            urgent: false,
            left: false,
            downgrades: false,
        }
    }

    /// Answers when the log has the round's records, or has failed.
    pub(super) fn owe(&mut self, token: Token, done: Reply, failed: fn(ErrorCode) -> Reply) {
        self.owed.push(Owed {
            token,
            done,
            failed,
        });
    }

    /// Nothing has been decided yet.
    fn is_fresh(&self) -> bool {
        self.records.is_empty() && self.admitted.is_empty() && self.owed.is_empty()
    }

    pub(in crate::group) fn push(&mut self, record: GroupRecord) {
        self.bytes += size(&record);
        self.records.push(record);
    }
}

impl Group {
    /// Goes on as far as the log allows.
    pub(in crate::group) fn go_on(&mut self, turn: &mut Turn<'_>) {
        while !self.consumers.in_flight && self.consumers.has_work(turn) {
            self.round(turn);
        }
    }

    fn round(&mut self, turn: &mut Turn<'_>) {
        let mut round = Round::new(&self.id);
        while round.bytes < ROUND_BYTES_MAX
            && !self.consumers.can_downgrade(&round, turn.settings)
            && let Some((token, request)) = self.consumers.waiting.pop_front()
        {
            let ends = match &request {
                Request::Delete(_) => true,
                // A group of consumers that has none left makes room for one by the classic protocol.
                Request::Join(_) => self.consumers.ahead.is_empty(),
                _ => false,
            };
            if ends && !round.is_fresh() {
                // What was decided before comes first.
                self.consumers.waiting.push_front((token, request));
                break;
            }
            if ends && matches!(request, Request::Join(_)) {
                self.consumers.waiting.push_front((token, request));
                self.forget_consumers(&mut round);
                break;
            }
            self.take_waiting(&mut round, token, request, turn);
        }
        self.decide(round, turn);
    }

    /// What follows from what was asked.
    pub(in crate::group) fn decide(&mut self, mut round: Round, turn: &mut Turn<'_>) {
        let consumers = &mut self.consumers;
        if consumers.waiting.is_empty() {
            consumers.put_out(&mut round, turn);
        }
        round.downgrades = consumers.can_downgrade(&round, turn.settings);
        if !round.downgrades {
            consumers.look_at_topics(&mut round, turn);
            consumers.count_up(&mut round, turn.topics);
            consumers.share_out(&mut round, turn);
        }
        for admitted in core::mem::take(&mut round.admitted) {
            consumers.move_on(&mut round, admitted, turn);
        }
        if round.downgrades {
            self.downgrade(&mut round, turn);
        }
        self.finish(round, turn);
    }

    fn take_waiting(
        &mut self,
        round: &mut Round,
        token: Token,
        request: Request,
        turn: &mut Turn<'_>,
    ) {
        match request {
            Request::ConsumerHeartbeat(request) => {
                let refused = self.consumers.heartbeat(round, token, request, turn).err();
                if let Some(refusal) = refused {
                    turn.reply(token, Reply::ConsumerHeartbeat(Err(refusal)));
                }
            }
            Request::Leave(request) => {
                let results = self.consumers.leave_by_classic_request(round, &request);
                round.owe(token, Reply::Leave(Ok(results)), |error| {
                    Reply::Leave(Err(error))
                });
            }
            Request::Delete(_) => self.delete_consumers(round, token, turn),
            Request::Join(request) => {
                let refused = self.consumers.join(round, token, request, turn).err();
                if let Some((error, id)) = refused {
                    turn.reply(token, Reply::Join(JoinReply::refused(error, id)));
                }
            }
            Request::Sync(request) => {
                let result = self.consumers.sync(&request, turn);
                round.owe(token, Reply::Sync(result), |error| Reply::Sync(Err(error)));
            }
            Request::Heartbeat(request) => {
                let result = self.consumers.beat(&request, turn);
                round.owe(token, Reply::Heartbeat(result), Reply::Heartbeat);
            }
            other => unreachable!("only what members ask waits: {other:?}"),
        }
    }

    /// Sends what was decided to the log, or answers at once when nothing was.
    fn finish(&mut self, mut round: Round, turn: &mut Turn<'_>) {
        if round.records.is_empty() {
            for owed in round.owed {
                turn.reply(owed.token, owed.done);
            }
            return;
        }
        if !round.downgrades && (self.generation > 0 || self.durable.value.is_some()) {
            // The group was one by the classic protocol.
            let group = self.id.clone();
            let value = None;
            round.records.insert(0, GroupRecord::Group { group, value });
        }
        self.send_round(round.records, round.owed, turn);
    }

    /// Until the log has these records nothing else is decided, and nothing of it if it does not take them.
    pub(in crate::group) fn send_round(
        &mut self,
        records: Vec<GroupRecord>,
        owed: Vec<Owed>,
        turn: &mut Turn<'_>,
    ) {
        self.consumers.in_flight = true;
        self.send(batches(records).into(), owed, turn);
    }

    /// One batch after the other: none is in the log of which an earlier one is not.
    fn send(&self, mut rest: VecDeque<Vec<GroupRecord>>, owed: Vec<Owed>, turn: &mut Turn<'_>) {
        let first = rest.pop_front().unwrap_or_default();
        let then = Then::Round { rest, owed };
        turn.append(self.partition, &self.id, first, then);
    }

    /// The log has the records of a round, or the first of them.
    pub(in crate::group) fn round_kept(
        &mut self,
        rest: VecDeque<Vec<GroupRecord>>,
        owed: Vec<Owed>,
        turn: &mut Turn<'_>,
    ) {
        if !rest.is_empty() {
            return self.send(rest, owed, turn);
        }
        for owed in owed {
            turn.reply(owed.token, owed.done);
        }
        self.consumers.in_flight = false;
        if !self.durable.consumers.exists() {
            return self.go_on_as_classic(turn);
        }
        if self.durable.value.is_none() {
            self.leave_to_consumers(turn);
        }
        self.go_on(turn);
    }

    /// The log could not take the records of a round: it is as if nothing had been decided.
    pub(in crate::group) fn round_lost(
        &mut self,
        owed: Vec<Owed>,
        error: ErrorCode,
        turn: &mut Turn<'_>,
    ) {
        for owed in owed {
            turn.reply(owed.token, (owed.failed)(error));
        }
        self.refuse_waiting(error, turn);
        if self.durable.consumers.exists() {
            self.leave_to_consumers(turn);
            self.restore_consumers(turn);
        } else {
            self.stay_classic(turn);
        }
    }
}

impl Consumers {
    fn has_work(&self, turn: &Turn<'_>) -> bool {
        let now = turn.now.instant;
        let due = self.next_deadline().is_some_and(|it| it <= now);
        due || !self.waiting.is_empty() || (self.stale && !self.ahead.is_empty())
    }

    /// Decides something: from now on it is so.
    pub(in crate::group) fn write(&mut self, round: &mut Round, record: ConsumerRecord) {
        self.ahead.replay(&record);
        let group = round.group.clone();
        round.push(GroupRecord::Consumer { group, record });
    }

    /// Whether the group is to be one by the classic protocol: somebody has left, and all who stay speak
    /// it.
    fn can_downgrade(&self, round: &Round, settings: &Settings) -> bool {
        round.left
            && settings.consumer.migration.allows_downgrade()
            && (1..=settings.size_max).contains(&self.ahead.members().len())
            && self.ahead.classic_members().count() == self.ahead.members().len()
    }

    /// Members that were silent for a session, or have not given back in time, are out.
    fn put_out(&mut self, round: &mut Round, turn: &Turn<'_>) {
        let now = turn.now.instant;
        let mut late = self.sessions.due(now);
        late.extend(self.revocations.due(now));
        for id in late {
            self.put_out_one(round, &id);
        }
    }

    pub(super) fn put_out_one(&mut self, round: &mut Round, id: &str) {
        self.sessions.remove(id);
        self.revocations.remove(id);
        if !self.ahead.has_member(id) {
            return;
        }
        for record in self.ahead.removal_of(id) {
            self.write(round, record);
        }
        (round.changed, round.left) = (true, true);
    }

    /// Finds out what the regular expressions in use stand for now.
    fn look_at_topics(&mut self, round: &mut Round, turn: &Turn<'_>) {
        if !round.changed && !self.stale {
            return;
        }
        let ahead = &self.ahead;
        let in_use: Vec<String> = ahead.patterns().cloned().collect();
        let known = ahead.resolved().map(|(pattern, _)| pattern.clone());
        let unused: Vec<String> = known.filter(|it| !in_use.contains(it)).collect();
        self.patterns
            .retain(|it| in_use.iter().any(|used| used == it));
        for pattern in unused {
            self.write(round, ConsumerRecord::RegularExpression(pattern, None));
        }
        for pattern in in_use {
            let known = self.ahead.topics_of(&pattern);
            if known.is_some() && !self.stale {
                continue;
            }
            let topics = self.patterns.resolve(&pattern, turn.topics);
            if known == Some(&topics[..]) {
                continue;
            }
            let value = RegularExpressionValue {
                topics,
                version: 0,
                timestamp: turn.now.wall.0,
            };
            self.write(
                round,
                ConsumerRecord::RegularExpression(pattern, Some(value)),
            );
            round.changed = true;
        }
    }

    /// The group's epoch counts up when members, subscriptions or topics have changed.
    fn count_up(&mut self, round: &mut Round, topics: &Topics) {
        if !round.changed && !self.stale {
            return;
        }
        self.stale = false;
        let before = self.ahead.metadata();
        let metadata_hash = topics.hash(self.ahead.topics_read_by_any().into_iter());
        if round.changed || metadata_hash != before.metadata_hash {
            let metadata = MetadataValue {
                epoch: before.epoch + 1,
                metadata_hash,
            };
            self.write(round, ConsumerRecord::Metadata(Some(metadata)));
        }
    }

    /// Works out what each member is to have in this epoch.
    fn share_out(&mut self, round: &mut Round, turn: &Turn<'_>) {
        let epoch = self.ahead.metadata().epoch;
        if self.ahead.is_empty() {
            self.pace = Pace::default();
            return;
        }
        if epoch <= self.ahead.target_epoch() || !self.pace.allows(round.urgent, turn) {
            return;
        }
        let mut sizes = Sizes::new();
        for name in self.ahead.topics_read_by_any() {
            sizes.extend(turn.topics.get(name).map(|it| (it.id, it.partitions)));
        }
        let takers: Vec<Taker<'_>> = self
            .ahead
            .members()
            .map(|(id, member)| Taker {
                id,
                instance: member.instance_id.as_deref(),
                topics: self
                    .ahead
                    .topics_read(member)
                    .filter_map(|name| turn.topics.get(name).map(|it| it.id))
                    .collect(),
                before: self.ahead.target(id),
            })
            .collect();
        let assignments = assign(self.assignor(&turn.settings.consumer), &takers, &sizes);
        let changed: Vec<ConsumerRecord> = takers
            .iter()
            .zip(assignments)
            .filter(|(taker, assignment)| taker.before != Some(assignment))
            .map(|(taker, assignment)| ConsumerRecord::Target(taker.id.into(), Some(assignment)))
            .collect();
        for record in changed {
            self.write(round, record);
        }
        let timestamp = turn.now.wall.0;
        let targets = TargetMetadataValue { epoch, timestamp };
        self.write(round, ConsumerRecord::TargetMetadata(Some(targets)));
    }

    /// The assignor that most members ask for; of several the first.
    pub(super) fn assignor(&self, settings: &ConsumerSettings) -> Assignor {
        let asked = self.ahead.members().filter_map(|(_, member)| {
            let name = member.server_assignor.as_ref()?;
            settings.assignor(name)
        });
        let asked: Vec<Assignor> = asked.collect();
        let votes = |assignor: Assignor| asked.iter().filter(|it| **it == assignor).count();
        let most = settings
            .assignors
            .iter()
            .rev()
            .max_by_key(|it| votes(**it))
            .copied();
        most.unwrap_or_else(|| settings.default_assignor())
    }

    /// Whether nobody but this member has a partition, or is to give it back.
    pub(super) fn is_free(&self, member: &str, topic: TopicUuid, partition: i32) -> bool {
        let owner = self.ahead.owner(topic, partition);
        owner.is_none_or(|it| it == member || bugs::gives_what_is_not_free())
    }

    /// A member that is to give partitions back has its rebalance timeout for it.
    pub(super) fn watch_revocation(&mut self, id: &str, turn: &Turn<'_>) {
        if !is_revoking(self.ahead.current(id)) {
            return self.revocations.remove(id);
        }
        let wait_ms = self
            .ahead
            .member(id)
            .map_or(0, |it| it.rebalance_timeout_ms);
        let wait_ms = u64::try_from(wait_ms).unwrap_or(0);
        self.revocations.set(id, turn.now.instant.plus_ms(wait_ms));
    }
}
