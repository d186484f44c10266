//! The partition that holds the groups: what is durable of it, and what that adds up to by the plainest rule
//! there is, the last record of each key. Knows nothing of what records mean to a coordinator.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use wire::group_records::{
    ConsumerRecord, ConsumerValue, CurrentValue, GroupRecord, GroupValue, OffsetValue,
};

/// What is committed, by topic and partition.
pub type Offsets = BTreeMap<(String, i32), OffsetValue>;

/// A log, and what compaction would leave of it.
#[derive(Debug, Default)]
pub struct Log {
    records: Vec<GroupRecord>,
    /// By key, without tombstones.
    latest: BTreeMap<Bytes, Latest>,
    /// Keys whose last record is one.
    tombstones: BTreeMap<Bytes, Latest>,
    /// Every offset that was ever committed.
    committed: BTreeSet<i64>,
}

/// The last record of a key.
#[derive(Debug)]
struct Latest {
    position: usize,
    /// The number of the append that brought it.
    append: u64,
    record: GroupRecord,
}

impl Log {
    /// Records of one append are durable.
    pub fn append(&mut self, append: u64, records: &[GroupRecord]) {
        for record in records {
            let key = record.encode_key().expect("short names");
            let latest = Latest {
                position: self.records.len(),
                append,
                record: record.clone(),
            };
            let (last, other) = if record.encode_value() == Some(None) {
                (&mut self.tombstones, &mut self.latest)
            } else {
                (&mut self.latest, &mut self.tombstones)
            };
            other.remove(&key);
            last.insert(key, latest);
            if let GroupRecord::Offset {
                value: Some(value), ..
            } = record
            {
                self.committed.insert(value.offset);
            }
            self.records.push(record.clone());
        }
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Some records from a position on.
    pub fn read(&self, from: usize, records: usize) -> Vec<GroupRecord> {
        let records = self.records.iter().skip(from).take(records);
        records.cloned().collect()
    }

    /// What compaction leaves, in the order of the log.
    pub fn compacted(&self, with_tombstones: bool) -> Vec<GroupRecord> {
        let tombstones = self.tombstones.values().filter(|_| with_tombstones);
        let kept = self.latest.values().chain(tombstones);
        let kept: BTreeMap<usize, &GroupRecord> =
            kept.map(|it| (it.position, &it.record)).collect();
        kept.into_values().cloned().collect()
    }

    fn of<'a>(&'a self, group: &str) -> impl Iterator<Item = &'a Latest> {
        let latest = self.latest.values();
        latest.filter(move |it| it.record.group() == group)
    }

    /// Something of a group that one of the appends up to this one has brought.
    pub fn older(&self, group: &str, append: u64) -> Option<&GroupRecord> {
        self.of(group)
            .find(|it| it.append <= append)
            .map(|it| &it.record)
    }

    /// The same of one offset.
    pub fn older_offset(
        &self,
        group: &str,
        (topic, partition): (&str, i32),
        append: u64,
    ) -> Option<&GroupRecord> {
        let is_it = |record: &GroupRecord| {
            matches!(record, GroupRecord::Offset { topic: of, partition: index, .. }
                if of == topic && *index == partition)
        };
        let mut older = self.of(group).filter(|it| it.append <= append);
        older.find(|it| is_it(&it.record)).map(|it| &it.record)
    }

    /// Whether an offset was ever committed, by anybody: no two commits are of one.
    pub fn has_committed(&self, offset: i64) -> bool {
        self.committed.contains(&offset)
    }

    pub fn knows(&self, group: &str) -> bool {
        self.of(group).next().is_some()
    }

    pub fn offsets(&self, group: &str) -> Offsets {
        let offsets = self.of(group).filter_map(|it| match &it.record {
            GroupRecord::Offset {
                topic,
                partition,
                value: Some(value),
                ..
            } => Some(((topic.clone(), *partition), value.clone())),
            _ => None,
        });
        offsets.collect()
    }

    /// The group by the classic protocol.
    pub fn group(&self, group: &str) -> Option<&GroupValue> {
        self.of(group).find_map(|it| match &it.record {
            GroupRecord::Group { value, .. } => value.as_ref(),
            _ => None,
        })
    }

    /// Members of a group of consumers.
    pub fn consumers(&self, group: &str) -> BTreeMap<&str, &ConsumerValue> {
        let members = self.of(group).filter_map(|it| match &it.record {
            GroupRecord::Consumer {
                record: ConsumerRecord::Member(id, Some(value)),
                ..
            } => Some((id.as_str(), value)),
            _ => None,
        });
        members.collect()
    }

    /// What they have.
    pub fn currents(&self, group: &str) -> BTreeMap<&str, &CurrentValue> {
        let currents = self.of(group).filter_map(|it| match &it.record {
            GroupRecord::Consumer {
                record: ConsumerRecord::Current(id, Some(value)),
                ..
            } => Some((id.as_str(), value)),
            _ => None,
        });
        currents.collect()
    }
}
