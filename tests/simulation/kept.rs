//! Retention and cleaning, told naively from all that was ever appended: what may be gone, what must be gone,
//! and whether what was read is what is left. Knows neither segments nor when storage looks.

use std::collections::BTreeMap;

use bytes::Bytes;
use logic::ids::Offset;
use logic::log::header::BatchHeader;
use wire::compression::Unfolding;
use wire::records::Records;

use crate::ghost::{Cleaning, GhostBatch, GhostLog, GhostRecord, Retaining};

impl GhostLog {
    /// The highest offset up to which retention may take the log. As each batch is judged by itself, a
    /// segment of them may stay longer, but never goes before.
    pub fn may_go(&self, asked: &Retaining) -> Offset {
        let mut after: i64 = self.batches.iter().map(|it| it.bytes.len() as i64).sum();
        let mut limit = self.start;
        let newest = self.newest();
        for batch in &self.batches {
            after -= batch.bytes.len() as i64;
            if batch.end <= self.start {
                continue;
            }
            let rules = &self.policy.config.retention;
            let enough = rules.retention_bytes >= 0 && after >= rules.retention_bytes;
            let goes = rules.deletes && (enough || self.is_expired(batch, asked.wall_ms, &newest));
            if batch.end > asked.high_watermark || !goes {
                break;
            }
            limit = batch.end;
        }
        limit
    }

    /// Whether what may be left of a batch is older than `retention.ms`.
    fn is_expired(&self, batch: &GhostBatch, wall_ms: Option<i64>, newest: &Newest) -> bool {
        let rules = &self.policy.config.retention;
        let Some(wall_ms) = wall_ms.filter(|_| rules.retention_ms >= 0) else {
            return false;
        };
        // What a newer record has made superfluous may have been cleaned away, and a tombstone in its time.
        let left = batch.records.iter();
        let left = left.filter(|record| !self.may_be_cleaned(record, newest));
        let Some(max_timestamp) = left.map(|record| record.timestamp).max() else {
            return true;
        };
        let believed = 0..=wall_ms + rules.timestamp_after_ms_max;
        let newest = if believed.contains(&max_timestamp) {
            max_timestamp
        } else {
            batch.appended_ms
        };
        wall_ms - newest > rules.retention_ms
    }

    /// Whether retention by time must take all there is.
    pub fn must_go(&self, asked: &Retaining) -> bool {
        let left = self.batches.iter().filter(|batch| batch.end > self.start);
        // A segment without timestamps is as old as its file, which may be younger than its records.
        let clock = self.policy.times == crate::policy::Times::Clock;
        let nothing = Newest::default();
        let mut expired = left.map(|batch| self.is_expired(batch, asked.wall_ms, &nothing));
        let rules = &self.policy.config.retention;
        rules.deletes && clock && asked.high_watermark == self.end() && expired.all(|it| it)
    }

    /// Compares whole batches that were read with all that lies in `from..end`: what is missing may be
    /// missing, what is there was appended just so, and what a cleaning was done with before is gone.
    pub fn compare(&self, (from, end): (Offset, Offset), before: &[Cleaning], read: &[Bytes]) {
        let mut read = read.iter().peekable();
        let mut newest = self.newest();
        let clean_below = before.iter().filter_map(|it| it.clean_below).max();
        newest.clean_below = clean_below.unwrap_or_default();
        let wanted = self.batches.iter();
        // A range in which nothing lies may still begin within a batch: where the log's start moved past it
        // before anything was read.
        let meets = |batch: &&GhostBatch| from < end && batch.end > from && batch.base < end;
        for batch in wanted.filter(meets) {
            let same = |bytes: &&Bytes| {
                let header = BatchHeader::read(bytes).expect("a batch");
                (header.base_offset, header.end_offset()) == (batch.base, batch.end)
            };
            let records = match read.next_if(same) {
                Some(bytes) if *bytes == batch.bytes => batch.records.clone(),
                Some(bytes) => {
                    assert!(self.policy.compacts(), "{:?}: other bytes", batch.base);
                    rewritten(batch, bytes)
                }
                None => {
                    assert!(
                        !self.is_last_of_producer(batch),
                        "{:?}: its producer's last",
                        batch.base
                    );
                    Vec::new()
                }
            };
            self.judge(batch, before, &records, &newest);
        }
        if let Some(extra) = read.next() {
            let header = BatchHeader::read(extra).expect("a batch");
            panic!(
                "other batches than were appended, {:?} the first of them",
                header.base_offset
            );
        }
    }

    /// What of a batch was read: all of it that had to be, and nothing that had to go.
    fn judge(
        &self,
        batch: &GhostBatch,
        before: &[Cleaning],
        read: &[GhostRecord],
        newest: &Newest,
    ) {
        let mut read = read.iter().peekable();
        for record in &batch.records {
            if read.next_if(|it| *it == record).is_some() {
                let left = newest.is_superseded(record, newest.clean_below);
                assert!(!left, "{:?} was cleaned and is there", record.offset);
                let left = record.value.is_none() && self.is_tombstone_over(record, before, true);
                assert!(!left, "the tombstone {:?} outlives its time", record.offset);
            } else {
                let may_go = self.may_be_cleaned(record, newest);
                assert!(may_go, "the record {:?} is gone", record.offset);
            }
        }
        assert!(
            read.next().is_none(),
            "{:?} has records that it had not",
            batch.base
        );
    }

    /// Whether a record may have gone by cleaning.
    fn may_be_cleaned(&self, record: &GhostRecord, newest: &Newest) -> bool {
        let tombstone = record.value.is_none() && record.offset < newest.bound;
        newest.is_superseded(record, newest.bound)
            || tombstone && self.is_tombstone_over(record, &self.cleanings, false)
    }

    /// Whether a tombstone may have gone, or must have: cleaned once, and again when
    /// `delete.retention.ms` had passed since.
    fn is_tombstone_over(
        &self,
        record: &GhostRecord,
        cleanings: &[Cleaning],
        surely: bool,
    ) -> bool {
        let covers = |below: Offset| record.offset < below;
        let covering = cleanings.iter().filter(|cleaning| {
            let done = cleaning.clean_below.is_some_and(covers);
            if surely { done } else { covers(cleaning.bound) }
        });
        let times: Vec<i64> = covering.map(|cleaning| cleaning.wall_ms).collect();
        let (first, last) = (times.iter().min(), times.iter().max());
        let stay = self.policy.config.cleaning.delete_retention_ms;
        first
            .zip(last)
            .is_some_and(|(first, last)| *last >= first + stay)
    }

    fn is_last_of_producer(&self, batch: &GhostBatch) -> bool {
        let Some((id, _)) = batch.producer else {
            return false;
        };
        let same = |other: &&GhostBatch| other.producer.is_some_and(|(other, _)| other == id);
        let last = self.batches.iter().rev().find(same);
        last.is_some_and(|last| last.base == batch.base)
    }

    fn newest(&self) -> Newest {
        let cleanings = self.cleanings.iter();
        let mut newest = Newest {
            bound: cleanings.map(|it| it.bound).max().unwrap_or_default(),
            clean_below: Offset(0),
            offsets: BTreeMap::new(),
        };
        if self.policy.compacts() {
            for record in self.batches.iter().flat_map(|batch| &batch.records) {
                if let Some(key) = record.key.clone() {
                    newest.offsets.entry(key).or_default().push(record.offset);
                }
            }
        }
        newest
    }
}

/// Where each key occurs, and how far cleaning may have come and surely has.
#[derive(Default)]
struct Newest {
    bound: Offset,
    clean_below: Offset,
    offsets: BTreeMap<Bytes, Vec<Offset>>,
}

impl Newest {
    /// Whether a record's key has a newer one below this offset.
    fn is_superseded(&self, record: &GhostRecord, below: Offset) -> bool {
        let all = record.key.as_ref().and_then(|key| self.offsets.get(key));
        let mut newer = all.into_iter().flatten();
        newer.any(|offset| *offset > record.offset && *offset < below)
    }
}

/// The records of a batch that cleaning has written again.
fn rewritten(batch: &GhostBatch, bytes: &Bytes) -> Vec<GhostRecord> {
    let header = BatchHeader::read(bytes).expect("a batch");
    let checksum = crc32c::crc32c(&bytes[logic::log::header::CHECKSUM_START..]);
    assert_eq!(checksum, header.checksum, "{:?}: its checksum", batch.base);
    let old = BatchHeader::read(&batch.bytes).expect("a batch");
    let producer = |it: &BatchHeader| (it.producer_id, it.producer_epoch, it.base_sequence);
    assert_eq!(producer(&header), producer(&old), "{:?}", batch.base);
    assert_eq!(header.leader_epoch, old.leader_epoch, "{:?}", batch.base);
    records(bytes)
}

/// A batch's records.
pub fn records(batch: &Bytes) -> Vec<GhostRecord> {
    let header = BatchHeader::read(batch).expect("a batch");
    if header.record_count == 0 {
        return Vec::new();
    }
    let records = Records::open(batch, &Unfolding::default()).expect("records");
    let record = |record: wire::records::Record| GhostRecord {
        offset: Offset(header.base_offset.0 + i64::from(record.offset_delta)),
        timestamp: record.timestamp,
        key: record.key,
        value: record.value,
    };
    records.map(|it| record(it.expect("a record"))).collect()
}
