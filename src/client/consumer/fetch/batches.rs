//! The record batches that one fetch brought for one partition, read one by one: checksums, control
//! batches, aborted transactions. Pure; knows nothing of sessions or of who reads.

use std::collections::BTreeSet;

use bytes::Bytes;
use wire::batch::{self, BatchHeader};
use wire::compression::Unfolding;
use wire::records::{Record, Records, RecordsError};

use super::super::record::ConsumerRecord;

/// How batches are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// `isolation.level=read_committed`
    pub(crate) committed_only: bool,
    /// `check.crcs`
    pub(crate) check_crcs: bool,
}

/// Why a partition cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The checksum of the batch at this offset does not match.
    Checksum(i64),
    /// The records of the batch at this offset do not follow the format.
    Records(i64, RecordsError),
    /// Not even one whole batch came.
    NoWholeBatch,
}

/// A transaction that was aborted: its producer, and the first offset that it wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) first_offset: i64,
    pub(crate) producer_id: i64,
}

/// The rest of the batches.
pub(crate) struct Batches {
    reading: Reading,
    rest: Bytes,
    open: Option<Open>,
    /// Where the next fetch is to begin: past all that was read, skipped records too.
    next_offset: i64,
    last_epoch: Option<i32>,
    /// By first offset, the last one first.
    aborted: Vec<Aborted>,
    /// Producers whose current transaction ends aborted.
    aborting: BTreeSet<i64>,
    damage: Option<Damage>,
}

struct Open {
    records: Records,
    base_offset: i64,
    next_batch: i64,
    leader_epoch: Option<i32>,
}

impl Batches {
    /// Batches as they came for a fetch at `offset`; brokers may send more in front of it.
    pub(crate) fn new(
        reading: Reading,
        offset: i64,
        bytes: Bytes,
        mut aborted: Vec<Aborted>,
    ) -> Self {
        aborted.sort_by_key(|it| std::cmp::Reverse(it.first_offset));
        let is_cut = !bytes.is_empty() && batch::split(&bytes).next().is_none();
        Self {
            reading,
            rest: bytes,
            open: None,
            next_offset: offset,
            last_epoch: None,
            aborted,
            aborting: BTreeSet::new(),
            damage: is_cut.then_some(Damage::NoWholeBatch),
        }
    }

    /// Offset behind what was read so far.
    pub(crate) fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Leader epoch of the last batch read.
    pub(crate) fn last_epoch(&self) -> Option<i32> {
        self.last_epoch
    }

    /// Reads up to `count` more records into `out`; fewer only at the end or before damage, which the
    /// next call then reports.
    pub(crate) fn read(
        &mut self,
        count: usize,
        out: &mut Vec<ConsumerRecord>,
    ) -> Result<(), Damage> {
        let end = out.len() + count;
        let begun = out.len();
        while out.len() < end && self.damage.is_none() {
            match self.next() {
                Ok(Some(record)) => out.push(record),
                Ok(None) => break,
                Err(damage) => self.damage = Some(damage),
            }
        }
        match self.damage {
            Some(damage) if out.len() == begun => Err(damage),
            _ => Ok(()),
        }
    }

    /// Whether nothing is left to be read.
    pub(crate) fn is_done(&self) -> bool {
        self.damage.is_none() && self.open.is_none() && batch::split(&self.rest).next().is_none()
    }

    fn next(&mut self) -> Result<Option<ConsumerRecord>, Damage> {
        loop {
            if self.open.is_none() && !self.open_batch()? {
                return Ok(None);
            }
            let Some(open) = &mut self.open else {
                return Ok(None);
            };
            match open.records.next() {
                Some(Ok(record)) => {
                    let offset = open.base_offset.saturating_add(record.offset_delta.into());
                    if offset < self.next_offset {
                        continue;
                    }
                    self.next_offset = offset.saturating_add(1);
                    return Ok(Some(consumer_record(record, offset, open.leader_epoch)));
                }
                Some(Err(error)) => return Err(Damage::Records(self.next_offset, error)),
                None => {
                    // Compaction may have removed the last records: the batch still ends there.
                    self.next_offset = self.next_offset.max(open.next_batch);
                    self.open = None;
                }
            }
        }
    }

    /// Opens the next batch that has records for the application; false at the end.
    fn open_batch(&mut self) -> Result<bool, Damage> {
        loop {
            let Some(view) = batch::split(&self.rest).next() else {
                return Ok(false);
            };
            let header = *view.header;
            let base_offset = header.base_offset();
            if self.reading.check_crcs && !batch::crc_matches(view.bytes) {
                return Err(Damage::Checksum(base_offset));
            }
            let length = view.bytes.len();
            let bytes = self.rest.split_to(length);
            let next_batch = header.last_offset().saturating_add(1);
            let leader_epoch = Some(header.leader_epoch()).filter(|epoch| *epoch >= 0);
            self.last_epoch = leader_epoch.or(self.last_epoch);
            if next_batch <= self.next_offset {
                continue;
            }
            let records = Records::open(&bytes, &Unfolding::default())
                .map_err(|error| Damage::Records(base_offset, error))?;
            if self.is_hidden(&header, &bytes) {
                self.next_offset = next_batch;
                continue;
            }
            self.open = Some(Open {
                records,
                base_offset,
                next_batch,
                leader_epoch,
            });
            return Ok(true);
        }
    }

    /// Control batches are nobody's records; those of aborted transactions are hidden from readers of
    /// committed ones. The list of aborted transactions says where each begins, its marker where it
    /// ends.
    fn is_hidden(&mut self, header: &BatchHeader, bytes: &Bytes) -> bool {
        let producer = header.producer_id();
        if self.reading.committed_only && producer >= 0 {
            while let Some(begun) = self.aborted.last()
                && begun.first_offset <= header.last_offset()
            {
                self.aborting.insert(begun.producer_id);
                self.aborted.pop();
            }
        }
        if header.is_control() {
            if is_abort_marker(bytes) {
                self.aborting.remove(&producer);
            }
            return true;
        }
        self.reading.committed_only
            && header.is_transactional()
            && self.aborting.contains(&producer)
    }
}

/// A control record's key is its version and its type; type 0 is an abort.
fn is_abort_marker(bytes: &Bytes) -> bool {
    const ABORT: [u8; 2] = [0, 0];
    let first = Records::open(bytes, &Unfolding::default())
        .ok()
        .and_then(|mut records| records.next());
    let key = first.and_then(Result::ok).and_then(|record| record.key);
    key.is_some_and(|key| key.get(2..4) == Some(&ABORT))
}

fn consumer_record(record: Record, offset: i64, leader_epoch: Option<i32>) -> ConsumerRecord {
    ConsumerRecord {
        offset,
        timestamp: record.timestamp,
        leader_epoch,
        key: record.key,
        value: record.value,
        headers: record.headers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Compression;
    use wire::records::BatchBuilder;

    const COMMITTED: Reading = Reading {
        committed_only: true,
        check_crcs: true,
    };

    fn builder(records: i64) -> BatchBuilder {
        let mut builder = BatchBuilder::new(Compression::Lz4);
        for number in 0..records {
            builder.push(1_000 + number, None, Some(b"v"), &[]);
        }
        builder
    }

    fn stamped(builder: BatchBuilder, base_offset: i64) -> Vec<u8> {
        let mut bytes = builder.finish().expect("builds").to_vec();
        batch::stamp(&mut bytes, base_offset, 4);
        bytes
    }

    fn plain(base_offset: i64, records: i64) -> Vec<u8> {
        stamped(builder(records), base_offset)
    }

    fn transactional(base_offset: i64, producer: i64) -> Vec<u8> {
        let builder = builder(2).producer(producer, 0, 0).transactional();
        stamped(builder, base_offset)
    }

    fn marker(base_offset: i64, producer: i64, committed: bool) -> Vec<u8> {
        let builder = BatchBuilder::new(Compression::None).producer(producer, 0, -1);
        let mut builder = builder.transactional().control();
        builder.push(0, Some(&[0, 0, 0, u8::from(committed)]), Some(&[0; 6]), &[]);
        stamped(builder, base_offset)
    }

    fn offsets(mut batches: Batches) -> (Vec<i64>, i64) {
        let mut out = Vec::new();
        batches.read(usize::MAX / 2, &mut out).expect("sound");
        assert!(batches.is_done());
        let offsets = out.iter().map(|record| record.offset).collect();
        (offsets, batches.next_offset())
    }

    #[test]
    fn records_below_the_fetch_offset_are_skipped_and_the_next_fetch_begins_behind_the_last() {
        let bytes: Bytes = [plain(10, 3), plain(13, 2)].concat().into();
        let batches = Batches::new(COMMITTED, 12, bytes, Vec::new());
        assert_eq!(offsets(batches), (vec![12, 13, 14], 15));
    }

    #[test]
    fn a_few_records_at_a_time_add_up_to_all() {
        let bytes: Bytes = [plain(0, 5), plain(5, 5)].concat().into();
        let mut batches = Batches::new(COMMITTED, 0, bytes, Vec::new());
        let mut out = Vec::new();
        for read in [3, 6, 9, 10, 10] {
            batches.read(3, &mut out).expect("sound");
            assert_eq!(out.len(), read);
        }
        assert_eq!((batches.next_offset(), batches.last_epoch()), (10, Some(4)));
    }

    #[test]
    fn a_batch_cut_off_at_the_end_waits_for_the_next_fetch() {
        let mut bytes = [plain(0, 2), plain(2, 2)].concat();
        bytes.truncate(bytes.len() - 1);
        let batches = Batches::new(COMMITTED, 0, bytes.into(), Vec::new());
        assert_eq!(offsets(batches), (vec![0, 1], 2));
        let mut cut = plain(0, 2);
        cut.truncate(70);
        let mut batches = Batches::new(COMMITTED, 0, cut.into(), Vec::new());
        let read = batches.read(1, &mut Vec::new());
        assert_eq!(read, Err(Damage::NoWholeBatch));
    }

    #[test]
    fn the_records_of_aborted_transactions_are_hidden_up_to_their_markers() {
        let bytes: Bytes = [
            transactional(0, 7),
            transactional(2, 8),
            marker(4, 7, false),
            transactional(5, 7),
            marker(7, 8, true),
            marker(8, 7, true),
            plain(9, 1),
        ]
        .concat()
        .into();
        let aborted = vec![Aborted {
            first_offset: 0,
            producer_id: 7,
        }];
        let batches = Batches::new(COMMITTED, 0, bytes.clone(), aborted.clone());
        assert_eq!(offsets(batches), (vec![2, 3, 5, 6, 9], 10));
        let reading = Reading {
            committed_only: false,
            ..COMMITTED
        };
        let batches = Batches::new(reading, 0, bytes, aborted);
        assert_eq!(offsets(batches).0, [0, 1, 2, 3, 5, 6, 9]);
    }

    #[test]
    fn a_transaction_that_began_before_the_fetch_is_hidden_too() {
        let bytes: Bytes = [
            transactional(20, 7),
            marker(22, 7, false),
            transactional(23, 7),
        ]
        .concat()
        .into();
        let aborted = vec![Aborted {
            first_offset: 3,
            producer_id: 7,
        }];
        let batches = Batches::new(COMMITTED, 20, bytes, aborted);
        assert_eq!(offsets(batches), (vec![23, 24], 25));
    }

    #[test]
    fn a_damaged_batch_is_reported_after_what_is_sound_and_not_passed_over() {
        let mut second = plain(2, 2);
        let last = second.len() - 1;
        second[last] ^= 1;
        let bytes: Bytes = [plain(0, 2), second].concat().into();
        let mut batches = Batches::new(COMMITTED, 0, bytes.clone(), Vec::new());
        let mut out = Vec::new();
        assert_eq!(batches.read(10, &mut out), Ok(()));
        assert_eq!(out.len(), 2);
        for _ in 0..2 {
            assert_eq!(batches.read(10, &mut out), Err(Damage::Checksum(2)));
        }
        assert_eq!(batches.next_offset(), 2);
    }
}
