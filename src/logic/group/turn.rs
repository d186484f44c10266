//! One event's turn: the moment, the bounds, and where replies and appends go. Appends are remembered
//! until the log has them or has failed. Knows nothing of states.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use wire::ErrorCode;
use wire::group_records::GroupRecord;

use super::Settings;
use super::consumer::Times;
use super::consumer::round::Owed;
use super::consumer::topics::Topics;
use super::coordinator::{AppendError, BatchId, Effect, Now};
use super::request::{Reply, Token};

/// Records of one append hold about so many bytes, at most: well below `max.message.bytes`. A single
/// record may be larger.
const BATCH_BYTES_MAX: usize = 512 * 1024;
/// What a record takes beside its texts, about.
const RECORD_BYTES: usize = 64;

/// What happens to one group at one moment.
pub(super) struct Turn<'a> {
    pub(super) now: Now,
    pub(super) settings: &'a Settings,
    pub(super) topics: &'a Topics,
    /// The durations of this group of consumers.
    pub(super) times: Times,
    /// Memory for groups is used up.
    pub(super) full: bool,
    pub(super) appends: &'a mut Appends,
    pub(super) effects: &'a mut Vec<Effect>,
}

/// Records on their way to the log.
#[derive(Debug, Default)]
pub(super) struct Appends {
    next: u64,
    in_flight: BTreeMap<BatchId, InFlight>,
    /// The same by group; no set is empty. At a common start every group has some.
    by_group: BTreeMap<String, BTreeSet<BatchId>>,
}

/// One append.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) partition: i32,
    pub(super) group: String,
    pub(super) records: Rc<[GroupRecord]>,
    pub(super) then: Then,
    /// Why an earlier part of the same change is not in the log.
    pub(super) failed: Option<AppendError>,
}

/// What is to be done when the records of an append are in the log, or cannot be.
#[derive(Debug)]
pub(super) enum Then {
    /// Nothing.
    Nothing,
    /// It is a part of a change, and what is to be done follows the last part.
    Part { last: BatchId },
    /// Members get what the leader of this generation gave them.
    Assign { generation: i32 },
    /// A static member that came back under another id is answered.
    Return {
        token: Token,
        member_id: String,
        /// Who led before: whom a client that cannot skip an assignment is told to follow.
        leader: String,
        can_skip_assignment: bool,
    },
    /// What a group of consumers has decided goes on: the next batch, or the answers.
    Round {
        rest: VecDeque<Vec<GroupRecord>>,
        owed: Vec<Owed>,
    },
    /// A commit is answered: each item by its own error, or by what became of the append.
    Commit {
        token: Token,
        results: Vec<ErrorCode>,
    },
    /// Some request is answered so.
    Answer {
        token: Token,
        done: Reply,
        failed: fn(ErrorCode) -> Reply,
    },
}

impl Turn<'_> {
    /// Answers a request.
    pub(super) fn reply(&mut self, token: Token, reply: Reply) {
        self.effects.push(Effect::Reply { token, reply });
    }

    /// Appends records of one group, in as many batches as they need; `then` follows the last one.
    pub(super) fn append(
        &mut self,
        partition: i32,
        group: &str,
        records: Vec<GroupRecord>,
        then: Then,
    ) {
        let mut batches = batches(records);
        let last = batches.pop().unwrap_or_default();
        let before = batches.len() as u64;
        let part_of = BatchId(self.appends.next + before);
        for records in batches {
            self.append_one(partition, group, records, Then::Part { last: part_of });
        }
        self.append_one(partition, group, last, then);
    }

    fn append_one(&mut self, partition: i32, group: &str, records: Vec<GroupRecord>, then: Then) {
        let records: Rc<[GroupRecord]> = records.into();
        let batch = BatchId(self.appends.next);
        self.appends.next += 1;
        let in_flight = InFlight {
            partition,
            group: group.into(),
            records: records.clone(),
            then,
            failed: None,
        };
        self.appends.keep(batch, in_flight);
        self.effects.push(Effect::Append {
            batch,
            partition,
            records,
        });
    }
}

impl Appends {
    fn keep(&mut self, batch: BatchId, append: InFlight) {
        let of_group = self.by_group.entry(append.group.clone()).or_default();
        of_group.insert(batch);
        self.in_flight.insert(batch, append);
    }

    /// An append that is over, if it was not given up before.
    pub(super) fn take(&mut self, batch: BatchId) -> Option<InFlight> {
        let append = self.in_flight.remove(&batch)?;
        if let Some(of_group) = self.by_group.get_mut(&append.group) {
            of_group.remove(&batch);
            if of_group.is_empty() {
                self.by_group.remove(&append.group);
            }
        }
        Some(append)
    }

    fn of(&self, group: &str) -> impl Iterator<Item = &InFlight> {
        let batches = self.by_group.get(group).into_iter().flatten();
        batches.filter_map(|it| self.in_flight.get(it))
    }

    /// An earlier part of an append's change is in the log, or could not be: the first error stays.
    pub(super) fn part_ended(&mut self, last: BatchId, error: Option<AppendError>) {
        if let Some(append) = self.in_flight.get_mut(&last) {
            append.failed = append.failed.or(error);
        }
    }

    /// Gives up all appends to a partition.
    pub(super) fn take_all(&mut self, partition: i32) -> Vec<InFlight> {
        let gone = self.in_flight.iter();
        let gone = gone.filter(|(_, append)| append.partition == partition);
        let gone: Vec<BatchId> = gone.map(|(batch, _)| *batch).collect();
        gone.into_iter().filter_map(|it| self.take(it)).collect()
    }

    /// Whether records of a group are on their way.
    pub(super) fn concern(&self, group: &str) -> bool {
        self.by_group.contains_key(group)
    }

    /// Whether the state of a group by the classic protocol is on its way.
    pub(super) fn group(&self, group: &str) -> bool {
        self.of(group)
            .flat_map(|it| it.records.iter())
            .any(|it| matches!(it, GroupRecord::Group { value: Some(_), .. }))
    }

    /// Whether the assignment of a generation is on its way.
    pub(super) fn assign(&self, group: &str, of: i32) -> bool {
        self.of(group)
            .any(|it| matches!(it.then, Then::Assign { generation } if generation == of))
    }

    /// The partitions for which offsets of a group are on their way.
    pub(super) fn offsets_of(&self, group: &str) -> BTreeSet<(String, i32)> {
        let offsets = self.of(group).flat_map(|it| it.records.iter());
        offsets
            .filter_map(|record| match record {
                GroupRecord::Offset {
                    topic, partition, ..
                } => Some((topic.clone(), *partition)),
                GroupRecord::Group { .. } | GroupRecord::Consumer { .. } => None,
            })
            .collect()
    }
}

/// Records in batches of a size that a log takes. A group by the classic protocol is never parted from what
/// comes before it: where that ends a group of consumers, the epoch is in one of both.
pub(super) fn batches(records: Vec<GroupRecord>) -> Vec<Vec<GroupRecord>> {
    let mut batches = Vec::new();
    let mut batch = Vec::new();
    let mut bytes = 0;
    for record in records {
        let more = size(&record);
        let goes_along = matches!(record, GroupRecord::Group { value: Some(_), .. });
        if bytes + more > BATCH_BYTES_MAX && !batch.is_empty() && !goes_along {
            batches.push(mem::take(&mut batch));
            bytes = 0;
        }
        bytes += more;
        batch.push(record);
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

/// What a record takes, about.
pub(super) fn size(record: &GroupRecord) -> usize {
    RECORD_BYTES
        + match record {
            GroupRecord::Offset {
                group,
                topic,
                value,
                ..
            } => group.len() + topic.len() + value.as_ref().map_or(0, |it| it.metadata.len()),
            GroupRecord::Group { group, value } => {
                let members = value.iter().flat_map(|it| &it.members);
                let members = members.map(|it| {
                    RECORD_BYTES + it.member_id.len() + it.subscription.len() + it.assignment.len()
                });
                group.len() + members.sum::<usize>()
            }
            GroupRecord::Consumer { group, record } => group.len() + record.size(),
        }
}
