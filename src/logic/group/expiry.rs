//! Which committed offsets are forgotten: those that nobody can want any more. Knows nothing of how
//! often it is asked.

use alloc::string::String;
use alloc::vec::Vec;

use wire::group_records::{GroupRecord, OffsetValue};

use super::state::{Group, Phase};
use super::turn::{Then, Turn};
use crate::bugs;

impl Group {
    /// Forgets what has expired, and the group itself when nothing is left of it.
    pub(super) fn expire_offsets(&mut self, turn: &mut Turn<'_>) {
        // What is on its way may be newer than what has expired: the next time is soon enough.
        if turn.appends.concern(&self.id) {
            return;
        }
        let expired = self.expired(turn);
        let kept: usize = self.durable.offsets().values().map(|it| it.len()).sum();
        let nothing_left = kept == expired.len();
        let mut records = self.tombstones(expired);
        let is_of_consumers = self.is_of_consumers();
        let removal = if nothing_left && self.durable.consumers.exists() {
            self.make_room().unwrap_or_default()
        } else {
            Vec::new()
        };
        let forgets_consumers = is_of_consumers && !removal.is_empty();
        records.extend(removal);
        if nothing_left
            && !self.is_of_consumers()
            && self.phase == Phase::Empty
            && self.pending_joins.is_empty()
        {
            records.push(GroupRecord::Group {
                group: self.id.clone(),
                value: None,
            });
        }
        if forgets_consumers {
            // If the log does not take it, the group is what it was, its epoch included.
            self.send_round(records, Vec::new(), turn);
        } else if !records.is_empty() {
            turn.append(self.partition, &self.id, records, Then::Nothing);
        }
    }

    /// Kafka's rules (KIP-211): while a group has members its offsets stay, but for topics that a
    /// stable group of consumers does not read; an empty group's age from when it became empty; those of
    /// a group that never had members age from their commit, and so do those of a group of consumers by
    /// the new protocol, but for topics that they read.
    fn expired(&self, turn: &Turn<'_>) -> Vec<(String, i32)> {
        let since_empty = (self.since.0 >= 0).then_some(self.since.0);
        let consumers = self.is_of_consumers();
        let base: fn(&OffsetValue, Option<i64>) -> i64 = match (&self.protocol_type, self.phase) {
            _ if consumers => |value, _| value.commit_timestamp,
            (None, _) => |value, _| value.commit_timestamp,
            (Some(_), Phase::Empty) => |value, since| since.unwrap_or(value.commit_timestamp),
            (Some(_), Phase::Stable) if self.subscribed.is_some() => {
                |value, _| value.commit_timestamp
            }
            (Some(_), _) => return Vec::new(),
        };
        let now = turn.now.wall.0;
        let mut expired = Vec::new();
        for (topic, partitions) in self.durable.offsets() {
            let subscribed = self.subscribed.as_ref();
            let read = if consumers {
                self.consumers.ahead.is_subscribed(topic)
            } else {
                self.phase == Phase::Stable && subscribed.is_some_and(|it| it.contains(topic))
            };
            if read && !bugs::expires_in_live_groups() {
                continue;
            }
            for (index, value) in partitions {
                let until = match value.expire_timestamp {
                    -1 => base(value, since_empty).saturating_add(turn.settings.retention_ms),
                    until => until,
                };
                if until <= now {
                    expired.push((topic.clone(), *index));
                }
            }
        }
        expired
    }

    /// A topic is gone, and with it what was committed for it.
    pub(super) fn topic_deleted(&mut self, deleted: &str, turn: &mut Turn<'_>) {
        let mut offsets = turn.appends.offsets_of(&self.id);
        offsets.retain(|(topic, _)| topic == deleted);
        if let Some(partitions) = self.durable.offsets().get(deleted) {
            offsets.extend(partitions.keys().map(|index| (deleted.into(), *index)));
        }
        if !offsets.is_empty() {
            let records = self.tombstones(offsets);
            turn.append(self.partition, &self.id, records, Then::Nothing);
        }
    }
}
