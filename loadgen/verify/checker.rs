//! The checker: takes events in, keeps what each record's fate should be, and says what does not fit. Knows
//! nothing of files and brokers.

use std::collections::{BTreeMap, HashMap};

use super::finding::{Finding, KINDS, Kind};
use super::{Event, Reading, RecordId};

/// How many findings of a kind are kept whole; all are counted.
const FINDINGS_KEPT_MAX: usize = 100;

/// What the answer to a record was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Waiting,
    Acked(i64),
    Refused,
    Ambiguous,
}

/// A record that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    partition: i32,
    fate: Fate,
    /// Where the final reading found it first; -1 for nowhere.
    found: i64,
}

/// What is known of a partition.
#[derive(Clone, Debug, Default)]
struct Partition {
    /// The records of the live reading, by offset.
    live: BTreeMap<i64, Option<RecordId>>,
    /// Of the final reading: the offset that comes next.
    next: Option<i64>,
    /// Of the final reading: the last record of each producer.
    last: HashMap<u32, u64>,
    /// Offsets at which a damaged record was found.
    corrupt: Vec<i64>,
    /// The highest high watermark that was seen.
    end: i64,
    start: i64,
}

/// A check under way.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    /// By producer, then by sequence: sequences are handed out without gaps.
    sent: Vec<Vec<Sent>>,
    partitions: BTreeMap<i32, Partition>,
    counts: BTreeMap<Kind, u64>,
    findings: Vec<Finding>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Records that were sent.
    pub sent: u64,
    /// Of these, the acknowledged.
    pub acked: u64,
    /// Of these, those refused for certain.
    pub refused: u64,
    /// Of these, those whose fate nobody said, and how many of them are there.
    pub ambiguous: u64,
    /// How many ambiguous records were stored.
    pub ambiguous_stored: u64,
    /// Records in the final reading.
    pub read: u64,
    /// How many of each kind, all kinds.
    pub counts: Vec<(Kind, u64)>,
    /// The findings, the first of each kind.
    pub findings: Vec<Finding>,
    /// The ambiguous records: partition, offset (-1 when not stored), record; the first of them.
    pub ambiguous_records: Vec<(i32, i64, RecordId)>,
}

impl Report {
    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.counts.iter().all(|(_, count)| *count == 0)
    }
}

impl Checker {
    /// Takes the next event.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Sent { record, partition } => self.sent(record, partition),
            Event::Acked { record, offset } => self.answer(record, Fate::Acked(offset)),
            Event::Refused { record } => self.answer(record, Fate::Refused),
            Event::Ambiguous { record } => self.answer(record, Fate::Ambiguous),
            Event::Watermark {
                partition,
                start,
                end,
            } => self.watermark(partition, start, end),
            Event::Read {
                reading: Reading::Live,
                partition,
                offset,
                record,
            } => self.read_live(partition, offset, record),
            Event::Read {
                reading: Reading::Final,
                partition,
                offset,
                record,
            } => self.read_final(partition, offset, record),
        }
    }

    /// Ends the check: what was acknowledged and never read is lost.
    pub fn finish(mut self) -> Report {
        self.find_lost();
        self.find_vanished();
        let all = || self.sent.iter().flatten();
        let count = |is: fn(&Fate) -> bool| all().filter(|sent| is(&sent.fate)).count() as u64;
        let ambiguous = |fate: &Fate| matches!(fate, Fate::Ambiguous | Fate::Waiting);
        let ambiguous_records = self.ambiguous_records();
        Report {
            sent: all().count() as u64,
            acked: count(|fate| matches!(fate, Fate::Acked(_))),
            refused: count(|fate| *fate == Fate::Refused),
            ambiguous: count(ambiguous),
            ambiguous_stored: all()
                .filter(|sent| ambiguous(&sent.fate) && sent.found >= 0)
                .count() as u64,
            read: self.partitions.values().map(Partition::read).sum(),
            counts: KINDS
                .iter()
                .map(|kind| (*kind, self.counts.get(kind).copied().unwrap_or(0)))
                .collect(),
            findings: self.findings,
            ambiguous_records,
        }
    }

    fn sent(&mut self, record: RecordId, partition: i32) {
        let producer = record.producer as usize;
        if self.sent.len() <= producer {
            self.sent.resize(producer + 1, Vec::new());
        }
        let records = &mut self.sent[producer];
        assert_eq!(
            records.len() as u64,
            record.sequence,
            "a producer numbers its records without gaps"
        );
        records.push(Sent {
            partition,
            fate: Fate::Waiting,
            found: -1,
        });
        self.partitions.entry(partition).or_default();
    }

    fn find_sent(&mut self, record: RecordId) -> Option<&mut Sent> {
        let records = self.sent.get_mut(record.producer as usize)?;
        records.get_mut(usize::try_from(record.sequence).ok()?)
    }

    fn answer(&mut self, record: RecordId, fate: Fate) {
        if let Some(sent) = self.find_sent(record) {
            sent.fate = fate;
        }
    }

    fn watermark(&mut self, number: i32, start: Option<i64>, end: i64) {
        let partition = self.partitions.entry(number).or_default();
        let before = partition.end;
        let kept = partition.start;
        let start = start.unwrap_or(kept);
        partition.end = partition.end.max(end);
        partition.start = start;
        if end < before {
            let detail = format!("the high watermark went back from {before} to {end}");
            self.find(Kind::Watermark, number, end, None, detail);
        }
        if start != kept {
            let detail = format!("the log's start moved from {kept} to {start}");
            self.find(Kind::Watermark, number, start, None, detail);
        }
    }

    /// The live reading is remembered; the final one judges it.
    fn read_live(&mut self, number: i32, offset: i64, record: Option<RecordId>) {
        let partition = self.partitions.entry(number).or_default();
        let before = partition.live.insert(offset, record);
        if let Some(before) = before.filter(|before| *before != record) {
            let detail = format!("read again, it is another record than {}", name(before));
            self.find(Kind::Changed, number, offset, record, detail);
        }
    }

    fn read_final(&mut self, number: i32, offset: i64, record: Option<RecordId>) {
        let partition = self.partitions.entry(number).or_default();
        let next = partition.next.replace(offset + 1);
        let live = partition.live.remove(&offset);
        let expected = next.unwrap_or(partition.start);
        if offset != expected {
            let detail = format!("offset {expected} was to come");
            self.find(Kind::Offsets, number, offset, record, detail);
        }
        if let Some(live) = live.filter(|live| *live != record) {
            let detail = format!("was {} when it was read before", name(live));
            self.find(Kind::Changed, number, offset, record, detail);
        }
        match record {
            Some(record) => self.place(number, offset, record),
            None => {
                let partition = self.partitions.entry(number).or_default();
                partition.corrupt.push(offset);
                let detail = "its checksum does not fit its content".to_owned();
                self.find(Kind::Corrupt, number, offset, None, detail);
            }
        }
    }

    /// Holds a record that was read against what was sent.
    fn place(&mut self, number: i32, offset: i64, record: RecordId) {
        let Some(sent) = self.find_sent(record) else {
            let detail = "nobody sent it".to_owned();
            return self.find(Kind::Phantom, number, offset, Some(record), detail);
        };
        if sent.partition != number {
            let detail = format!("it was sent to partition {}", sent.partition);
            return self.find(Kind::Phantom, number, offset, Some(record), detail);
        }
        if sent.found >= 0 {
            let detail = format!("it is at offset {} already", sent.found);
            return self.find(Kind::Duplicated, number, offset, Some(record), detail);
        }
        sent.found = offset;
        match sent.fate {
            Fate::Refused => {
                let detail = "it was refused".to_owned();
                self.find(Kind::Phantom, number, offset, Some(record), detail);
            }
            Fate::Acked(acked) if acked >= 0 && acked != offset => {
                let detail = format!("it was acknowledged at offset {acked}");
                self.find(Kind::Misplaced, number, offset, Some(record), detail);
            }
            Fate::Acked(_) | Fate::Waiting | Fate::Ambiguous => {}
        }
        let partition = self.partitions.entry(number).or_default();
        let last = partition.last.get(&record.producer).copied();
        match last.filter(|last| *last > record.sequence) {
            Some(last) => {
                let detail = format!("record {last} of that producer stands before it");
                self.find(Kind::Reordered, number, offset, Some(record), detail);
            }
            None => {
                partition.last.insert(record.producer, record.sequence);
            }
        }
    }

    fn find_lost(&mut self) {
        let mut lost = Vec::new();
        for (producer, records) in (0..).zip(&self.sent) {
            for (sequence, sent) in (0..).zip(records) {
                let Fate::Acked(offset) = sent.fate else {
                    continue;
                };
                if sent.found >= 0 {
                    continue;
                }
                let partition = &self.partitions[&sent.partition];
                // A damaged record at its offset is the record, found and named already.
                if !partition.corrupt.contains(&offset) {
                    let record = RecordId { producer, sequence };
                    lost.push((sent.partition, offset, record, partition.end));
                }
            }
        }
        for (partition, offset, record, end) in lost {
            let detail = if offset >= end {
                format!("it was acknowledged; the log ends at {end}")
            } else {
                "it was acknowledged".to_owned()
            };
            self.find(Kind::Lost, partition, offset, Some(record), detail);
        }
    }

    /// What the live reading saw and the final one did not.
    fn find_vanished(&mut self) {
        let mut vanished = Vec::new();
        for (number, partition) in &self.partitions {
            for (offset, record) in &partition.live {
                vanished.push((*number, *offset, *record));
            }
        }
        for (partition, offset, record) in vanished {
            let detail = "it was read before and is gone".to_owned();
            self.find(Kind::Changed, partition, offset, record, detail);
        }
    }

    fn ambiguous_records(&self) -> Vec<(i32, i64, RecordId)> {
        let mut found = Vec::new();
        for (producer, records) in (0..).zip(&self.sent) {
            for (sequence, sent) in (0..).zip(records) {
                if matches!(sent.fate, Fate::Ambiguous | Fate::Waiting) {
                    let record = RecordId { producer, sequence };
                    found.push((sent.partition, sent.found, record));
                }
            }
        }
        found.truncate(FINDINGS_KEPT_MAX);
        found
    }

    fn find(
        &mut self,
        kind: Kind,
        partition: i32,
        offset: i64,
        record: Option<RecordId>,
        detail: String,
    ) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count <= FINDINGS_KEPT_MAX as u64 {
            self.findings.push(Finding {
                kind,
                partition,
                offset,
                record,
                detail,
            });
        }
    }
}

impl Partition {
    /// How many records the final reading had.
    fn read(&self) -> u64 {
        let next = self.next.unwrap_or(self.start);
        u64::try_from(next - self.start).unwrap_or(0)
    }
}

fn name(record: Option<RecordId>) -> String {
    record.map_or_else(
        || "a damaged record".to_owned(),
        |record| record.to_string(),
    )
}
