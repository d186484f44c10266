//! OffsetCommit, OffsetFetch and OffsetDelete: how far a group has read. Knows nothing of whether the
//! partitions exist.

use alloc::string::String;
use alloc::vec::Vec;

use wire::ErrorCode;
use wire::group_records::{GroupRecord, OffsetValue};

use super::request::{
    Commit, CommitItem, FetchedTopic, NO_GENERATION, Reply, Token, TopicPartitions,
};
use super::state::{CONSUMER, Group, Phase};
use super::turn::{Then, Turn};
use crate::bugs;

impl Group {
    /// Takes one OffsetCommit.
    pub(super) fn commit(&mut self, token: Token, request: Commit, turn: &mut Turn<'_>) {
        if let Err(error) = self.check_commit(&request) {
            let refused = alloc::vec![error; request.offsets.len()];
            return turn.reply(token, Reply::Commit(refused));
        }
        if matches!(self.phase, Phase::Stable | Phase::PreparingRebalance { .. }) {
            self.heard(&request.identity.member_id, turn);
        }
        let mut results = Vec::with_capacity(request.offsets.len());
        let mut records = Vec::with_capacity(request.offsets.len());
        for item in request.offsets {
            let result = self.check_item(&item, turn);
            results.push(result);
            if result == ErrorCode::None {
                records.push(self.offset_record(item, request.retention_ms, turn));
            }
        }
        if records.is_empty() {
            turn.reply(token, Reply::Commit(results));
        } else {
            let then = Then::Commit { token, results };
            turn.append(self.partition, &self.id, records, then);
        }
    }

    /// Commits count from members of the present generation, and from anybody while there are no
    /// members (invariant 25).
    fn check_commit(&self, request: &Commit) -> Result<(), ErrorCode> {
        let identity = &request.identity;
        if self.is_of_consumers() {
            return self.check_consumer_commit(&identity.member_id, request.generation);
        }
        let outsider = request.generation <= NO_GENERATION;
        if outsider && self.phase == Phase::Empty {
            return Ok(());
        }
        if outsider && identity.member_id.is_empty() && identity.instance_id.is_none() {
            return Err(ErrorCode::UnknownMemberId);
        }
        if bugs::accepts_old_commits() {
            self.check_member(identity)?;
        } else {
            self.check_generation(identity, request.generation)?;
        }
        if self.phase == Phase::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    fn check_item(&self, item: &CommitItem, turn: &Turn<'_>) -> ErrorCode {
        if item.metadata.len() > turn.settings.metadata_bytes_max {
            return ErrorCode::OffsetMetadataTooLarge;
        }
        // What is known already may move on: a consumer at work is not stopped by others.
        if turn.full && self.durable.offset(&item.topic, item.partition).is_none() {
            return ErrorCode::PolicyViolation;
        }
        ErrorCode::None
    }

    fn offset_record(
        &self,
        item: CommitItem,
        retention_ms: Option<i64>,
        turn: &Turn<'_>,
    ) -> GroupRecord {
        let now = turn.now.wall.0;
        GroupRecord::Offset {
            group: self.id.clone(),
            topic: item.topic,
            partition: item.partition,
            value: Some(OffsetValue {
                offset: item.offset,
                leader_epoch: item.leader_epoch,
                metadata: item.metadata,
                commit_timestamp: now,
                expire_timestamp: retention_ms.map_or(-1, |ms| now.saturating_add(ms)),
            }),
        }
    }

    /// What is committed for these partitions, or for all. Only what the log has counts.
    pub(super) fn fetch_offsets(&self, wanted: Option<&[TopicPartitions]>) -> Vec<FetchedTopic> {
        let Some(wanted) = wanted else {
            let all = self.durable.offsets().iter();
            return all
                .map(|(topic, partitions)| {
                    let partitions = partitions.iter();
                    let found = partitions.map(|(index, value)| (*index, Some(value.clone())));
                    (topic.clone(), found.collect())
                })
                .collect();
        };
        let topics = wanted.iter().map(|(topic, partitions)| {
            let found = |index: &i32| (*index, self.durable.offset(topic, *index).cloned());
            (topic.clone(), partitions.iter().map(found).collect())
        });
        topics.collect()
    }

    /// Takes one OffsetDelete.
    pub(super) fn delete_offsets(
        &mut self,
        token: Token,
        topics: &[TopicPartitions],
        turn: &mut Turn<'_>,
    ) {
        let consumers = self.protocol_type.as_deref() == Some(CONSUMER);
        if self.phase != Phase::Empty && !consumers {
            let refused = Reply::DeleteOffsets(Err(ErrorCode::NonEmptyGroup));
            return turn.reply(token, refused);
        }
        let mut results = Vec::with_capacity(topics.len());
        let mut wanted: Vec<(String, i32)> = Vec::new();
        for (topic, partitions) in topics {
            let result = if self.may_read(topic) {
                ErrorCode::GroupSubscribedToTopic
            } else {
                wanted.extend(partitions.iter().map(|index| (topic.clone(), *index)));
                ErrorCode::None
            };
            results.push(alloc::vec![result; partitions.len()]);
        }
        let coming = turn.appends.offsets_of(&self.id);
        wanted.retain(|offset| {
            self.durable.offset(&offset.0, offset.1).is_some() || coming.contains(offset)
        });
        let done = Reply::DeleteOffsets(Ok(results));
        self.tombstone(token, wanted, done, turn);
    }

    /// Whether members of this group read a topic, as far as can be known.
    fn may_read(&self, topic: &str) -> bool {
        if self.is_of_consumers() {
            return self.consumers.ahead.is_subscribed(topic);
        }
        match (self.phase, &self.subscribed) {
            (Phase::Empty, _) => false,
            (_, Some(topics)) => topics.contains(topic),
            (_, None) => true,
        }
    }

    fn tombstone(
        &mut self,
        token: Token,
        offsets: Vec<(String, i32)>,
        done: Reply,
        turn: &mut Turn<'_>,
    ) {
        if offsets.is_empty() {
            return turn.reply(token, done);
        }
        let failed = |error| Reply::DeleteOffsets(Err(error));
        let then = Then::Answer {
            token,
            done,
            failed,
        };
        let records = self.tombstones(offsets);
        turn.append(self.partition, &self.id, records, then);
    }

    /// The records that make offsets forgotten.
    pub(super) fn tombstones(
        &self,
        offsets: impl IntoIterator<Item = (String, i32)>,
    ) -> Vec<GroupRecord> {
        let tombstone = |(topic, partition)| GroupRecord::Offset {
            group: self.id.clone(),
            topic,
            partition,
            value: None,
        };
        offsets.into_iter().map(tombstone).collect()
    }
}
