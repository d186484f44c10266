//! What records of a group of consumers add up to. One mutator, [`State::replay`], for what the log
//! holds and for what is on its way alike. Knows nothing of what is decided, and of no clock.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use wire::group_records::{
    Assignment, ClassicValue, ConsumerRecord, ConsumerValue, CurrentValue, MemberState,
    MetadataValue, RegularExpressionValue, TopicUuid,
};

use super::LEAVE_FOR_A_WHILE;

/// Memory that a member, or a list of partitions, takes beside its texts, about.
const ENTRY_BYTES: usize = 256;

/// What a member has that has nothing.
static NOTHING: CurrentValue = CurrentValue {
    epoch: 0,
    previous_epoch: 0,
    state: MemberState::Stable,
    assigned: BTreeMap::new(),
    pending_revocation: BTreeMap::new(),
};

/// A group of consumers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::group) struct State {
    metadata: Option<MetadataValue>,
    target_epoch: i32,
    members: BTreeMap<String, ConsumerValue>,
    targets: BTreeMap<String, Assignment>,
    currents: BTreeMap<String, CurrentValue>,
    regexes: BTreeMap<String, RegularExpressionValue>,
    /// Follows from `members`: static members' ids by their instance ids.
    statics: BTreeMap<String, String>,
    /// Follows from `members`: how many have subscribed to each topic by name; none is zero.
    names: BTreeMap<String, usize>,
    /// Follows from `members`: how many have subscribed by each regular expression; none is zero.
    patterns: BTreeMap<String, usize>,
    /// Follows from `currents`: who has a partition, or is still to give it back.
    owners: BTreeMap<(TopicUuid, i32), String>,
    /// Memory, about.
    bytes: usize,
}

impl State {
    /// Applies one record.
    pub(in crate::group) fn replay(&mut self, record: &ConsumerRecord) {
        match record {
            ConsumerRecord::Metadata(value) => self.metadata = *value,
            ConsumerRecord::TargetMetadata(value) => {
                self.target_epoch = value.map_or(0, |it| it.epoch);
            }
            ConsumerRecord::Member(id, value) => {
                self.forget_member(id);
                if let Some(value) = value {
                    self.learn_member(id, value);
                }
            }
            ConsumerRecord::Target(id, value) => {
                if let Some(before) = self.targets.remove(id) {
                    self.bytes -= size(&before);
                }
                if let Some(value) = value {
                    self.bytes += size(value);
                    self.targets.insert(id.clone(), value.clone());
                }
            }
            ConsumerRecord::Current(id, value) => {
                self.forget_current(id);
                if let Some(value) = value {
                    self.learn_current(id, value);
                }
            }
            ConsumerRecord::RegularExpression(regex, value) => {
                if let Some(before) = self.regexes.remove(regex) {
                    self.bytes -= regex.len() + length(&before.topics);
                }
                if let Some(value) = value {
                    self.bytes += regex.len() + length(&value.topics);
                    self.regexes.insert(regex.clone(), value.clone());
                }
            }
        }
    }

    fn learn_member(&mut self, id: &str, value: &ConsumerValue) {
        if let Some(instance) = &value.instance_id {
            self.statics.insert(instance.clone(), id.into());
        }
        for name in &value.topic_names {
            *self.names.entry(name.clone()).or_default() += 1;
        }
        if let Some(pattern) = &value.topic_regex {
            *self.patterns.entry(pattern.clone()).or_default() += 1;
        }
        self.bytes += cost(id, value);
        self.members.insert(id.into(), value.clone());
    }

    fn forget_member(&mut self, id: &str) {
        let Some(value) = self.members.remove(id) else {
            return;
        };
        if let Some(instance) = &value.instance_id
            && self.statics.get(instance).is_some_and(|it| it == id)
        {
            self.statics.remove(instance);
        }
        for name in &value.topic_names {
            one_less(&mut self.names, name);
        }
        if let Some(pattern) = &value.topic_regex {
            one_less(&mut self.patterns, pattern);
        }
        self.bytes -= cost(id, &value);
    }

    fn learn_current(&mut self, id: &str, value: &CurrentValue) {
        for partition in partitions(value) {
            self.owners.insert(partition, id.into());
        }
        self.bytes += size(&value.assigned) + size(&value.pending_revocation);
        self.currents.insert(id.into(), value.clone());
    }

    fn forget_current(&mut self, id: &str) {
        let Some(value) = self.currents.remove(id) else {
            return;
        };
        for partition in partitions(&value) {
            // After compaction a log may tell of the next owner first.
            if self.owners.get(&partition).is_some_and(|it| it == id) {
                self.owners.remove(&partition);
            }
        }
        self.bytes -= size(&value.assigned) + size(&value.pending_revocation);
    }

    /// Whether the log knows of such a group.
    pub(in crate::group) fn exists(&self) -> bool {
        self.metadata.is_some() || !self.members.is_empty()
    }

    pub(in crate::group) fn metadata(&self) -> MetadataValue {
        self.metadata.unwrap_or_default()
    }

    /// Of which epoch the targets are.
    pub(super) fn target_epoch(&self) -> i32 {
        self.target_epoch
    }

    pub(in crate::group) fn members(
        &self,
    ) -> impl ExactSizeIterator<Item = (&String, &ConsumerValue)> {
        self.members.iter()
    }

    pub(in crate::group) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(in crate::group) fn member(&self, id: &str) -> Option<&ConsumerValue> {
        self.members.get(id)
    }

    pub(super) fn has_member(&self, id: &str) -> bool {
        self.members.contains_key(id)
    }

    /// Whether a member speaks the classic protocol.
    pub(in crate::group) fn is_classic(&self, id: &str) -> bool {
        self.member(id).is_some_and(|it| it.classic.is_some())
    }

    /// Those who do, with what they have said.
    pub(super) fn classic_members(&self) -> impl Iterator<Item = (&String, &ClassicValue)> {
        let members = self.members.iter();
        members.filter_map(|(id, value)| Some((id, value.classic.as_ref()?)))
    }

    /// The id of the static member that calls itself so.
    pub(super) fn static_member(&self, instance: &str) -> Option<&str> {
        self.statics.get(instance).map(String::as_str)
    }

    /// What a member is to have in the end, if that was ever worked out.
    pub(super) fn target(&self, id: &str) -> Option<&Assignment> {
        self.targets.get(id)
    }

    /// What a member has.
    pub(in crate::group) fn current(&self, id: &str) -> &CurrentValue {
        self.currents.get(id).unwrap_or(&NOTHING)
    }

    /// Who has a partition, or is still to give it back.
    pub(super) fn owner(&self, topic: TopicUuid, partition: i32) -> Option<&str> {
        self.owners.get(&(topic, partition)).map(String::as_str)
    }

    /// The regular expressions that members subscribe by.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &String> {
        self.patterns.keys()
    }

    /// Those that the log has topics of.
    pub(super) fn resolved(&self) -> impl Iterator<Item = (&String, &RegularExpressionValue)> {
        self.regexes.iter()
    }

    /// The topics that a regular expression stands for.
    pub(super) fn topics_of(&self, pattern: &str) -> Option<&[String]> {
        self.regexes.get(pattern).map(|it| &it.topics[..])
    }

    /// Whether some member reads a topic.
    pub(in crate::group) fn is_subscribed(&self, topic: &str) -> bool {
        let by_pattern = |pattern| {
            let topics = self.topics_of(pattern);
            topics.is_some_and(|it| it.iter().any(|name| name == topic))
        };
        self.names.contains_key(topic) || self.patterns().any(|it| by_pattern(it))
    }

    /// The topics that a member reads.
    pub(super) fn topics_read<'a>(
        &'a self,
        member: &'a ConsumerValue,
    ) -> impl Iterator<Item = &'a String> {
        let by_pattern = member.topic_regex.as_ref();
        let by_pattern = by_pattern.and_then(|it| self.topics_of(it));
        member
            .topic_names
            .iter()
            .chain(by_pattern.unwrap_or_default())
    }

    /// The topics that somebody reads, in order, each once.
    pub(super) fn topics_read_by_any(&self) -> BTreeSet<&String> {
        let by_pattern = self.patterns().filter_map(|it| self.topics_of(it));
        self.names.keys().chain(by_pattern.flatten()).collect()
    }

    /// Kafka's name of the state.
    pub(in crate::group) fn name(&self) -> &'static str {
        let arrived = |id: &String| {
            let current = self.current(id);
            current.state == MemberState::Stable && current.epoch == self.target_epoch
        };
        if self.members.is_empty() {
            "Empty"
        } else if self.metadata().epoch > self.target_epoch {
            "Assigning"
        } else if self.members.keys().all(arrived) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    /// The records that leave nothing of a member.
    pub(in crate::group) fn removal_of(&self, id: &str) -> Vec<ConsumerRecord> {
        let mut records = Vec::new();
        if self.currents.contains_key(id) {
            records.push(ConsumerRecord::Current(id.into(), None));
        }
        if self.targets.contains_key(id) {
            records.push(ConsumerRecord::Target(id.into(), None));
        }
        records.push(ConsumerRecord::Member(id.into(), None));
        records
    }

    /// The records that leave nothing of a group without members.
    pub(in crate::group) fn removal(&self) -> Vec<ConsumerRecord> {
        let patterns = self.regexes.keys().cloned();
        let patterns = patterns.map(|it| ConsumerRecord::RegularExpression(it, None));
        let own = [
            ConsumerRecord::TargetMetadata(None),
            ConsumerRecord::Metadata(None),
        ];
        patterns.chain(own).collect()
    }

    /// Memory, about.
    pub(in crate::group) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Whether a member has partitions to give back.
pub(super) fn is_revoking(current: &CurrentValue) -> bool {
    current.state == MemberState::UnrevokedPartitions
        && current.epoch != LEAVE_FOR_A_WHILE
        && !current.pending_revocation.is_empty()
}

/// All partitions that nobody else may have meanwhile.
fn partitions(current: &CurrentValue) -> impl Iterator<Item = (TopicUuid, i32)> + '_ {
    let both = current.assigned.iter().chain(&current.pending_revocation);
    both.flat_map(|(topic, partitions)| partitions.iter().map(|index| (*topic, *index)))
}

fn one_less(counts: &mut BTreeMap<String, usize>, key: &str) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

fn size(assignment: &Assignment) -> usize {
    let partitions: usize = assignment.values().map(|it| it.len()).sum();
    ENTRY_BYTES + 64 * partitions
}

/// What a member takes, about: texts that are kept in a second map count twice.
fn cost(id: &str, value: &ConsumerValue) -> usize {
    let twice = [&value.instance_id, &value.topic_regex];
    let twice = twice.into_iter().flatten().map(|it| 2 * it.len());
    let once = [&value.rack_id, &value.server_assignor];
    let once = once.into_iter().flatten().map(String::len);
    let client = value.client_id.len() + value.client_host.len();
    let classic = value.classic.as_ref().map_or(0, ClassicValue::size);
    let texts = twice.sum::<usize>() + once.sum::<usize>() + client + classic;
    ENTRY_BYTES + 2 * id.len() + texts + length(&value.topic_names)
}

fn length(texts: &[String]) -> usize {
    texts.iter().map(|it| 24 + it.len()).sum()
}
