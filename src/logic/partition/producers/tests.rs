//! Promises of the producer state, by example and against a naive fold. Knows no log.

use alloc::vec;
use alloc::vec::Vec;

use super::*;

const NOW: Instant = Instant(0);

/// A stand-in for crc32c that notices any changed byte.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(17, |sum: u32, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(*byte))
    })
}

fn batch(epoch: i16, base_sequence: i32, record_count: u32) -> BatchSummary {
    BatchSummary {
        producer_id: 7,
        epoch,
        base_sequence,
        record_count,
        timestamp: 1000,
    }
}

fn duplicate(base: i64, last: i64) -> Verdict {
    duplicate_of(base, last, 1000)
}

fn duplicate_of(base: i64, last: i64, timestamp: i64) -> Verdict {
    Verdict::Duplicate {
        base_offset: Offset(base),
        last_offset: Offset(last),
        timestamp,
    }
}

const OUT_OF_ORDER: Verdict = Verdict::Refuse(Refusal::OutOfOrderSequence);
const FENCED: Verdict = Verdict::Refuse(Refusal::InvalidProducerEpoch);

#[test]
fn invariant_18_a_retry_of_any_of_the_last_five_returns_the_original_offset() {
    let mut producers = Producers::new();
    for index in 0..7 {
        let new = batch(0, index * 3, 3);
        assert_eq!(producers.check(&new), Verdict::Append);
        producers.replay(NOW, &new, Offset(100 + i64::from(index) * 3));
    }
    for index in 2..7 {
        let base = 100 + i64::from(index) * 3;
        assert_eq!(
            producers.check(&batch(0, index * 3, 3)),
            duplicate(base, base + 2)
        );
    }
    for index in 0..2 {
        assert_eq!(producers.check(&batch(0, index * 3, 3)), OUT_OF_ORDER);
    }
}

#[test]
fn a_batch_that_covers_part_of_a_known_one_is_no_retry() {
    let mut producers = Producers::new();
    producers.replay(NOW, &batch(0, 0, 4), Offset(0));
    assert_eq!(producers.check(&batch(0, 0, 3)), OUT_OF_ORDER);
    assert_eq!(producers.check(&batch(0, 1, 3)), OUT_OF_ORDER);
}

#[test]
fn a_gap_is_refused() {
    let mut producers = Producers::new();
    producers.replay(NOW, &batch(0, 0, 4), Offset(0));
    assert_eq!(producers.check(&batch(0, 5, 1)), OUT_OF_ORDER);
    assert_eq!(producers.check(&batch(0, 4, 1)), Verdict::Append);
}

#[test]
fn invariant_19_sequences_wrap_to_zero() {
    let mut producers = Producers::new();
    let before = batch(0, i32::MAX - 1, 2);
    producers.replay(NOW, &before, Offset(0));
    assert_eq!(producers.check(&batch(0, 0, 1)), Verdict::Append);
    let mut producers = Producers::new();
    let across = batch(0, i32::MAX, 3);
    producers.replay(NOW, &across, Offset(10));
    assert_eq!(producers.check(&across), duplicate(10, 12));
    assert_eq!(producers.check(&batch(0, 2, 1)), Verdict::Append);
    assert_eq!(producers.check(&batch(0, 3, 1)), OUT_OF_ORDER);
}

#[test]
fn invariant_20_a_lower_epoch_appends_nothing() {
    let mut producers = Producers::new();
    producers.replay(NOW, &batch(3, 0, 1), Offset(0));
    assert_eq!(producers.check(&batch(2, 0, 1)), FENCED);
    assert_eq!(producers.check(&batch(2, 1, 1)), FENCED);
    producers.replay(NOW, &batch(2, 9, 1), Offset(1));
    assert_eq!(producers.check(&batch(3, 1, 1)), Verdict::Append);
}

#[test]
fn a_new_epoch_starts_at_sequence_zero_and_forgets_the_old_window() {
    let mut producers = Producers::new();
    producers.replay(NOW, &batch(0, 0, 1), Offset(0));
    assert_eq!(producers.check(&batch(1, 1, 1)), OUT_OF_ORDER);
    assert_eq!(producers.check(&batch(1, 0, 1)), Verdict::Append);
    producers.replay(NOW, &batch(1, 0, 1), Offset(1));
    assert_eq!(producers.check(&batch(1, 0, 1)), duplicate(1, 1));
    assert_eq!(producers.check(&batch(0, 0, 1)), FENCED);
}

#[test]
fn a_producer_whose_state_is_gone_may_go_on_at_any_sequence() {
    let mut producers = Producers::new();
    assert_eq!(producers.check(&batch(4, 77, 2)), Verdict::Append);
    producers.replay(NOW, &batch(4, 77, 2), Offset(0));
    assert_eq!(producers.check(&batch(4, 79, 1)), Verdict::Append);
}

#[test]
fn batches_without_a_producer_leave_no_trace() {
    let mut producers = Producers::new();
    let plain = BatchSummary {
        producer_id: -1,
        ..batch(-1, -1, 5)
    };
    assert_eq!(producers.check(&plain), Verdict::Append);
    producers.replay(NOW, &plain, Offset(0));
    assert!(producers.is_empty());
}

#[test]
fn negative_epochs_and_sequences_are_refused() {
    let producers = Producers::new();
    assert_eq!(producers.check(&batch(-1, 0, 1)), FENCED);
    assert_eq!(producers.check(&batch(0, -1, 1)), OUT_OF_ORDER);
}

#[test]
fn expiry_follows_the_clock_and_ignores_record_timestamps() {
    let mut producers = Producers::new();
    let ancient = BatchSummary {
        timestamp: -1,
        ..batch(0, 0, 1)
    };
    producers.replay(Instant(0).plus_ms(10), &ancient, Offset(0));
    let other = BatchSummary {
        producer_id: 8,
        timestamp: i64::MAX,
        ..ancient
    };
    producers.replay(Instant(0).plus_ms(20), &other, Offset(1));
    assert_eq!(producers.deadline(100), Some(Instant(0).plus_ms(110)));
    assert_eq!(producers.expire(Instant(0).plus_ms(109), 100), 0);
    assert_eq!(producers.expire(Instant(0).plus_ms(110), 100), 1);
    assert_eq!(
        producers
            .iter()
            .map(|one| one.producer_id)
            .collect::<Vec<_>>(),
        [8]
    );
    assert_eq!(producers.expire(Instant(u64::MAX), 100), 1);
    assert_eq!(producers.deadline(100), None);
}

#[test]
fn activity_puts_expiry_off() {
    let mut producers = Producers::new();
    producers.replay(Instant(0), &batch(0, 0, 1), Offset(0));
    producers.replay(Instant(0).plus_ms(90), &batch(0, 1, 1), Offset(1));
    assert_eq!(producers.expire(Instant(0).plus_ms(150), 100), 0);
    assert_eq!(producers.expire(Instant(0).plus_ms(190), 100), 1);
}

#[test]
fn beyond_the_bound_the_longest_idle_producer_is_forgotten() {
    let mut producers = Producers::new();
    for id in 0..=PRODUCERS_MAX as i64 {
        let new = BatchSummary {
            producer_id: id,
            ..batch(0, 0, 1)
        };
        producers.replay(Instant(id as u64), &new, Offset(id));
    }
    assert_eq!(producers.len(), PRODUCERS_MAX);
    assert_eq!(producers.iter().next().map(|one| one.producer_id), Some(1));
}

#[test]
fn a_snapshot_keeps_the_window() {
    let mut producers = Producers::new();
    for index in 0..7 {
        producers.replay(NOW, &batch(2, index, 1), Offset(i64::from(index)));
    }
    let file = producers.encode_snapshot(checksum);
    let read = Producers::decode_snapshot(Instant(5), &file, checksum).unwrap();
    for index in 0..9 {
        assert_eq!(
            read.check(&batch(2, index, 1)),
            producers.check(&batch(2, index, 1))
        );
    }
    assert_eq!(read.deadline(0), Some(Instant(5)));
}

#[test]
fn a_snapshot_has_kafkas_layout() {
    let mut producers = Producers::new();
    let only = BatchSummary {
        timestamp: 0x55,
        ..batch(3, 9, 2)
    };
    producers.replay(NOW, &only, Offset(0x40));
    let file = producers.encode_snapshot(checksum);
    let mut body = vec![0, 0, 0, 1];
    body.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 7, 0, 3, 0, 0, 0, 10]);
    body.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0x41, 0, 0, 0, 1]);
    body.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0x55]);
    body.extend_from_slice(&[0xff; 12]);
    assert_eq!(file[..2], [0, 1]);
    assert_eq!(file[2..6], checksum(&body).to_be_bytes());
    assert_eq!(file[6..], body);
}

#[test]
fn a_damaged_snapshot_is_an_error_and_never_a_panic() {
    let mut producers = Producers::new();
    producers.replay(NOW, &batch(2, 5, 1), Offset(9));
    let file = producers.encode_snapshot(checksum);
    for length in 0..file.len() {
        assert!(Producers::decode_snapshot(NOW, &file[..length], checksum).is_err());
    }
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x80;
        assert!(
            Producers::decode_snapshot(NOW, &damaged, checksum).is_err(),
            "byte {at}"
        );
        // And with a checksum that always matches, whatever the bytes say.
        let _ = Producers::decode_snapshot(NOW, &damaged, |_| 0);
        damaged[2..6].fill(0);
        let _ = Producers::decode_snapshot(NOW, &damaged, |_| 0);
    }
}

#[test]
fn a_snapshot_with_impossible_values_is_refused_even_when_its_checksum_matches() {
    let mut producers = Producers::new();
    producers.replay(NOW, &batch(2, 5, 1), Offset(9));
    let file = producers.encode_snapshot(|_| 0);
    // The sign bits of producer id, epoch, last sequence and offset delta; then a delta above the
    // last offset, which would put the first record before the log.
    for (at, byte) in [(10, 0x80), (18, 0x80), (20, 0x80), (32, 0x80), (35, 10)] {
        let mut wrong = file.clone();
        wrong[at] = byte;
        let read = Producers::decode_snapshot(NOW, &wrong, |_| 0).map(|_| ());
        assert_eq!(read, Err(SnapshotError::Value), "byte {at}");
    }
    // Kafka writes no offset for a producer that has only ended a transaction: nothing to remember.
    let mut marker_only = file.clone();
    marker_only[24..32].fill(0xff);
    let read = Producers::decode_snapshot(NOW, &marker_only, |_| 0).unwrap();
    assert!(read.is_empty());
}

#[test]
fn replaying_the_log_over_a_snapshot_changes_nothing() {
    let mut producers = Producers::new();
    let log: Vec<_> = (0..8)
        .map(|index| (batch(0, index, 1), Offset(i64::from(index))))
        .collect();
    for (summary, offset) in &log {
        producers.replay(NOW, summary, *offset);
    }
    let before = producers.encode_snapshot(checksum);
    for (summary, offset) in &log[5..] {
        producers.replay(NOW, summary, *offset);
    }
    assert_eq!(producers.encode_snapshot(checksum), before);
}

/// The log itself, searched from its end: what the state must equal.
fn naive(log: &[(BatchSummary, Offset)], new: &BatchSummary) -> Verdict {
    let own: Vec<_> = log
        .iter()
        .filter(|(known, _)| known.producer_id == new.producer_id)
        .collect();
    let Some((last, _)) = own.last() else {
        return Verdict::Append;
    };
    if new.epoch < last.epoch {
        return FENCED;
    }
    if new.epoch > last.epoch {
        return if new.base_sequence == 0 {
            Verdict::Append
        } else {
            OUT_OF_ORDER
        };
    }
    let same_epoch = own
        .iter()
        .rev()
        .take_while(|(known, _)| known.epoch == new.epoch);
    for (known, offset) in same_epoch.take(WINDOW) {
        let same = known.base_sequence == new.base_sequence;
        if same && known.record_count == new.record_count {
            let last = offset.0 + i64::from(known.record_count) - 1;
            return duplicate_of(offset.0, last, known.timestamp);
        }
    }
    let next = (i64::from(last.base_sequence) + i64::from(last.record_count)) % (1 << 31);
    if i64::from(new.base_sequence) == next {
        Verdict::Append
    } else {
        OUT_OF_ORDER
    }
}

/// A linear congruential generator: the same seed, the same run.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn random_batch(seeded: &mut Seeded, log: &[(BatchSummary, Offset)]) -> BatchSummary {
    let producer_id = seeded.below(3) as i64;
    let own = log
        .iter()
        .rev()
        .filter(|(known, _)| known.producer_id == producer_id);
    let back = seeded.below(7) as usize;
    let known = own
        .clone()
        .nth(back)
        .or(own.clone().next())
        .map(|(known, _)| *known);
    let record_count = 1 + seeded.below(3) as u32;
    let start = i32::MAX - seeded.below(12) as i32;
    let fresh = BatchSummary {
        producer_id,
        epoch: 0,
        base_sequence: start,
        record_count,
        timestamp: seeded.below(1_000) as i64,
    };
    let Some(known) = known else { return fresh };
    let last = own.clone().next().map_or(known, |(last, _)| *last);
    match seeded.below(12) {
        0..3 => known,
        3 => BatchSummary {
            epoch: last.epoch + 1,
            base_sequence: 0,
            ..fresh
        },
        4 => BatchSummary {
            epoch: last.epoch - i16::from(last.epoch > 0),
            ..fresh
        },
        5 => BatchSummary {
            record_count,
            ..known
        },
        _ => {
            let next = sequence_plus(last.last_sequence(), 1);
            BatchSummary {
                epoch: last.epoch,
                base_sequence: next,
                ..fresh
            }
        }
    }
}

#[test]
fn invariants_18_to_20_the_state_equals_a_fold_over_the_log() {
    for seed in 0..60 {
        let mut seeded = Seeded(seed);
        let (mut producers, mut log) = (Producers::new(), Vec::new());
        let mut end = 0;
        for step in 0..300 {
            let new = random_batch(&mut seeded, &log);
            let verdict = producers.check(&new);
            assert_eq!(
                verdict,
                naive(&log, &new),
                "seed {seed} step {step}: {new:?}"
            );
            if verdict == Verdict::Append {
                producers.replay(Instant(step), &new, Offset(end));
                log.push((new, Offset(end)));
                end += i64::from(new.record_count);
            }
            if seeded.below(20) == 0 {
                let file = producers.encode_snapshot(checksum);
                producers = Producers::decode_snapshot(Instant(step), &file, checksum).unwrap();
            }
        }
        let mut again = Producers::new();
        for (summary, offset) in &log {
            again.replay(NOW, summary, *offset);
        }
        assert_eq!(again.entries.len(), producers.entries.len(), "seed {seed}");
        assert_eq!(
            again.encode_snapshot(checksum),
            producers.encode_snapshot(checksum),
            "seed {seed}"
        );
    }
}
