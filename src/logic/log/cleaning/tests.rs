//! Cleaning against a naive model of it, over random histories in every codec.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use wire::batch;
use wire::compression::{Compression, Unfolding};
use wire::folding::Folding;
use wire::records::{BatchBuilder, Records};

use super::filter::{Cleaned, Pass, note_keys};
use super::key_map::{KeyMap, SLOT_BYTES};
use super::*;
use crate::ids::{PartitionId, TopicId};
use crate::log::header::BatchHeader;
use crate::log::samples::{hash, header};

const SEEDS: u64 = 1_000;
const DELETE_RETENTION_MS: i64 = 1_000;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A record as a consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    offset: i64,
    timestamp: i64,
    key: Option<Bytes>,
    value: Option<Bytes>,
}

/// A log as its batches, and what the model knows of it.
#[derive(Default)]
struct History {
    batches: Vec<Bytes>,
    end: i64,
    /// The batch ends of each producer.
    last_of_producer: BTreeMap<i64, Offset>,
    /// The model: all records that must still be there, by offset.
    expected: BTreeMap<i64, Seen>,
    /// When each tombstone was first cleaned.
    cleaned_at: BTreeMap<i64, i64>,
    clean_below: i64,
}

impl History {
    fn append(&mut self, random: &mut Random, codec: Compression) {
        let producer = i64::try_from(random.below(3)).unwrap_or(0) - 1;
        let sequence = if producer < 0 { -1 } else { 0 };
        let epoch = if producer < 0 { -1 } else { 0 };
        let mut builder = BatchBuilder::new(codec).producer(producer, epoch, sequence);
        let count = 1 + random.below(5);
        for at in 0..count {
            let offset = self.end + i64::try_from(at).unwrap_or(0);
            let key: Option<String> =
                (random.below(20) > 0).then(|| format!("key-{}", random.below(8)));
            let value = (random.below(4) > 0).then(|| format!("value-{offset}"));
            let timestamp = 5_000 + i64::try_from(random.below(100)).unwrap_or(0);
            let (key_bytes, value_bytes) = (
                key.as_ref().map(|key| key.as_bytes()),
                value.as_ref().map(|value| value.as_bytes()),
            );
            builder.push(timestamp, key_bytes, value_bytes, &[(b"h", None)]);
            let seen = Seen {
                offset,
                timestamp,
                key: key.map(Bytes::from),
                value: value.map(Bytes::from),
            };
            self.expected.insert(offset, seen);
        }
        let mut bytes = builder.finish().expect("a batch").to_vec();
        batch::stamp(&mut bytes, self.end, 4);
        self.end += i64::try_from(count).unwrap_or(0);
        if producer >= 0 {
            self.last_of_producer.insert(producer, Offset(self.end - 1));
        }
        self.batches.push(bytes.into());
    }

    /// Cleans with memory for so many keys; says up to where it came.
    fn clean(&mut self, now_ms: i64, keys: usize, compression: Option<Compression>) {
        let mut newest = KeyMap::new(keys * SLOT_BYTES, u64::MAX, hash());
        let mut end = self.end;
        for bytes in &self.batches {
            let header = BatchHeader::read(bytes).expect("a batch");
            if header.last_offset().0 < self.clean_below {
                continue;
            }
            if !note_keys(&mut newest, bytes).expect("sound") {
                end = header.base_offset.0;
                break;
            }
        }
        assert!(end > self.clean_below, "each pass gets on");
        let pass = Pass {
            newest: &newest,
            end: Offset(end),
            now_ms,
            delete_retention_ms: DELETE_RETENTION_MS,
            folding: compression.map(Folding::from),
            last_of_producer: &self.last_of_producer,
        };
        let mut left = Vec::new();
        for bytes in &self.batches {
            match pass.clean(bytes).expect("sound") {
                Cleaned::Kept => left.push(bytes.clone()),
                Cleaned::Rewrite(rewrite) => left.push(rewrite.write().expect("sound")),
                Cleaned::Dropped => {}
            }
        }
        self.batches = left;
        self.model_clean(now_ms, end);
        self.clean_below = end;
    }

    /// The promise in its plainest form: below `end`, a record stays if no later one below `end` has
    /// its key, and a tombstone for a while after it was first cleaned.
    fn model_clean(&mut self, now_ms: i64, end: i64) {
        let mut newest: BTreeMap<Bytes, i64> = BTreeMap::new();
        for seen in self.expected.values().filter(|seen| seen.offset < end) {
            if let Some(key) = &seen.key {
                newest.insert(key.clone(), seen.offset);
            }
        }
        let cleaned_at = &mut self.cleaned_at;
        self.expected.retain(|offset, seen| {
            let Some(key) = &seen.key else {
                return *offset >= end;
            };
            if *offset >= end {
                return true;
            }
            let stays = newest.get(key) == Some(offset);
            match (stays, &seen.value) {
                (true, None) => match cleaned_at.get(offset) {
                    Some(at) => now_ms < at + DELETE_RETENTION_MS,
                    None => {
                        cleaned_at.insert(*offset, now_ms);
                        true
                    }
                },
                (stays, _) => stays,
            }
        });
    }

    fn records(&self) -> Vec<Seen> {
        let mut all = Vec::new();
        for bytes in &self.batches {
            assert!(batch::crc_matches(bytes));
            let header = BatchHeader::read(bytes).expect("a batch");
            for record in Records::open(bytes, &Unfolding::default()).expect("opened") {
                let record = record.expect("sound");
                all.push(Seen {
                    offset: header.base_offset.0 + i64::from(record.offset_delta),
                    timestamp: record.timestamp,
                    key: record.key,
                    value: record.value,
                });
            }
        }
        all
    }

    fn check(&self, what: &str) {
        let expected: Vec<&Seen> = self.expected.values().collect();
        let got = self.records();
        // A tombstone's time begins with its batch's first cleaning that left any in it.
        assert_eq!(got.iter().collect::<Vec<_>>(), expected, "{what}");
        let mut before = -1;
        let mut ends = BTreeSet::new();
        for bytes in &self.batches {
            let header = BatchHeader::read(bytes).expect("a batch");
            assert!(header.base_offset.0 > before, "{what}: offsets rise");
            assert_eq!(header.leader_epoch.0, 4, "{what}: epochs stay");
            before = header.last_offset().0;
            ends.insert((header.producer_id, header.last_offset()));
        }
        for (id, last) in &self.last_of_producer {
            assert!(
                ends.contains(&(*id, *last)),
                "{what}: a producer's last batch"
            );
        }
    }
}

#[test]
fn what_is_left_is_what_a_naive_model_leaves() {
    for seed in 1..=SEEDS {
        for codec in Compression::ALL {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let mut history = History::default();
            let mut now_ms = 10_000;
            for round in 0..3 {
                for _ in 0..1 + random.below(6) {
                    history.append(&mut random, codec);
                }
                let other = (random.below(3) == 0).then(|| {
                    let at = usize::try_from(random.below(5)).unwrap_or(0);
                    Compression::ALL[at]
                });
                // Few keys fit into the map of some rounds: then it takes several passes.
                let keys = if random.below(2) == 0 { 7 } else { 100 };
                while history.clean_below < history.end {
                    history.clean(now_ms, keys, other);
                    history.check(&format!("seed {seed}, {codec:?}, round {round}"));
                }
                now_ms += i64::try_from(random.below(1_500)).unwrap_or(0);
            }
        }
    }
}

#[test]
fn a_batch_that_loses_nothing_stays_as_it_is() {
    let mut history = History::default();
    let mut builder = BatchBuilder::new(Compression::Lz4);
    builder.push(1, Some(b"a"), Some(b"1"), &[]);
    builder.push(1, Some(b"b"), Some(b"1"), &[]);
    history.batches.push(builder.finish().expect("a batch"));
    history.end = 2;
    let before = history.batches.clone();
    let clean = |history: &mut History, compression| {
        history.clean_below = 0;
        history.clean(5, 100, compression);
    };
    clean(&mut history, None);
    clean(&mut history, Some(Compression::Lz4));
    assert_eq!(history.batches, before);
    clean(&mut history, Some(Compression::Zstd));
    assert_ne!(history.batches, before);
}

#[test]
fn control_batches_stay_whole() {
    let mut builder = BatchBuilder::new(Compression::None)
        .producer(5, 0, -1)
        .control();
    builder.push(1, Some(&[0, 0, 0, 1]), Some(&[0; 6]), &[]);
    let marker = builder.finish().expect("a batch");
    let mut newest = KeyMap::new(1_000, 10, hash());
    assert!(note_keys(&mut newest, &marker).expect("sound"));
    assert!(newest.is_empty());
    let pass = Pass {
        newest: &newest,
        end: Offset(10),
        now_ms: 0,
        delete_retention_ms: 0,
        folding: Some(Compression::Gzip.into()),
        last_of_producer: &BTreeMap::new(),
    };
    assert!(matches!(pass.clean(&marker), Ok(Cleaned::Kept)));
}

/// Five sealed segments of 1,000 bytes with ten offsets each and an active one; appended, and written
/// by their records' timestamps, at 1,000, 2,000 ... ms.
fn log(rules: Rules) -> Log {
    let config = Config {
        segment_bytes: 1_000,
        cleaning: Rules {
            compacts: true,
            ..rules
        },
        ..Config::default()
    };
    let id = PartitionId {
        topic: TopicId([7; 16]),
        index: 0,
    };
    let mut log = Log::new(id, config, 0);
    for at in 0..6 {
        log.append(
            (at + 1) * 1_000,
            &header(at * 10, 10, (at + 1) * 1_000, 1_000),
        );
    }
    log
}

fn part(log: &Log, wall_ms: i64, bound: i64, clean_below: i64) -> Option<Cleanable> {
    match decide(log, wall_ms, Offset(bound), Offset(clean_below)) {
        Verdict::Clean(part) => Some(part),
        _ => None,
    }
}

#[test]
fn neither_the_active_segment_nor_what_is_above_the_bound_is_cleaned() {
    let log = log(Rules::default());
    let end = |bound, clean_below| part(&log, 9_000, bound, clean_below).map(|part| part.end.0);
    assert_eq!(end(60, 0), Some(50));
    assert_eq!(end(49, 0), Some(40));
    assert_eq!(end(9, 0), None);
    assert_eq!(end(60, 50), None);
    assert_eq!(end(60, 999), Some(50), "of another log: begin anew");
    let mut deletes = log;
    let config = *deletes.config();
    deletes.configure(Config {
        cleaning: Rules::default(),
        ..config
    });
    assert_eq!(part(&deletes, 9_000, 60, 0), None);
}

#[test]
fn a_log_is_due_by_its_share_of_dirty_bytes_or_by_age() {
    let rules = Rules {
        dirty_millionths_min: 400_000,
        lag_ms_max: 3_000,
        ..Rules::default()
    };
    let log = log(rules);
    let due = |wall_ms, clean_below| {
        let part = part(&log, wall_ms, 60, clean_below).expect("something is dirty");
        (part.dirty_millionths(), part.is_due(&rules))
    };
    assert_eq!(due(6_000, 20), (600_000, true));
    assert_eq!(
        due(6_000, 30),
        (400_000, false),
        "not above the least share"
    );
    assert_eq!(
        due(7_001, 30),
        (400_000, true),
        "the record of 4,000 has waited long enough"
    );
}

#[test]
fn records_younger_than_the_lag_are_left_alone() {
    let rules = Rules {
        lag_ms_min: 2_000,
        ..Rules::default()
    };
    let mut log = log(rules);
    let end = |log: &Log, wall_ms| part(log, wall_ms, 60, 0).map(|part| part.end.0);
    assert_eq!(end(&log, 6_000), Some(40));
    assert_eq!(end(&log, 2_999), None);
    log.segment_mut(Offset(10)).expect("there").max_timestamp = None;
    let verdict = decide(&log, 6_000, Offset(60), Offset(0));
    assert_eq!(verdict, Verdict::Look(Offset(10)));
}

#[test]
fn small_neighbours_become_one_segment_and_full_ones_stay() {
    let mut log = log(Rules::default());
    let full: Vec<Vec<Offset>> = (0..4).map(|at| Vec::from([Offset(at * 10)])).collect();
    assert_eq!(groups(&log, Offset(40)), full);
    let config = *log.config();
    log.configure(Config {
        segment_bytes: 2_000,
        ..config
    });
    let pairs = [[0, 10], [20, 30]].map(|pair| pair.map(Offset).to_vec());
    assert_eq!(groups(&log, Offset(40)), pairs);
}

#[test]
fn a_cleaned_segment_takes_the_place_of_its_neighbours_and_keeps_their_offsets() {
    let mut log = log(Rules::default());
    let mut small = Segment::new(Offset(10), 0);
    small.push(0, &header(12, 1, 0, 100), log.config());
    let gone = [Offset(10), Offset(20), Offset(99)];
    assert!(!log.replace(&gone, small.clone()), "one is not there");
    assert!(
        !log.replace(&[Offset(10), Offset(50)], small.clone()),
        "one is active"
    );
    assert!(log.replace(&[Offset(10), Offset(20)], small));
    let bases: Vec<i64> = log.segments().map(|at| at.base.0).collect();
    assert_eq!(bases, [0, 10, 30, 40, 50]);
    for offset in 10..30 {
        let found = log.locate(Offset(offset)).expect("in the log");
        assert_eq!(found.segment, Offset(10), "{offset}");
    }
}
