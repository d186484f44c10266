//! The checker against scripted histories: one clean, and one for each kind of fault.

use super::checker::{Checker, Report};
use super::finding::Kind;
use super::{Event, Reading, RecordId};

fn record(producer: u32, sequence: u64) -> RecordId {
    RecordId { producer, sequence }
}

/// Ten records of two producers to partition 0, all acknowledged at offsets 0 to 9 in turn.
fn produced() -> Vec<Event> {
    let mut events = Vec::new();
    for at in 0..10 {
        let record = id_at(at);
        events.push(Event::Sent {
            record,
            partition: 0,
        });
        events.push(Event::Acked { record, offset: at });
    }
    events
}

fn id_at(offset: i64) -> RecordId {
    let sequence = u64::try_from(offset / 2).expect("positive");
    record(u32::from(offset % 2 == 1), sequence)
}

fn read(offset: i64, record: Option<RecordId>) -> Event {
    Event::Read {
        reading: Reading::Final,
        partition: 0,
        offset,
        record,
    }
}

fn read_all() -> Vec<Event> {
    (0..10).map(|at| read(at, Some(id_at(at)))).collect()
}

fn check(produced: Vec<Event>, read: Vec<Event>) -> Report {
    let mut checker = Checker::default();
    for event in produced.into_iter().chain(read) {
        checker.take(event);
    }
    checker.finish()
}

/// The one kind that was found, with the offsets at which.
fn only(report: &Report) -> (Kind, Vec<i64>) {
    let mut kinds: Vec<Kind> = report.findings.iter().map(|found| found.kind).collect();
    kinds.dedup();
    assert_eq!(kinds.len(), 1, "{:#?}", report.findings);
    let offsets = report.findings.iter().map(|found| found.offset);
    (kinds[0], offsets.collect())
}

#[test]
fn what_is_read_as_it_was_acknowledged_is_clean() {
    let report = check(produced(), read_all());
    assert!(report.is_clean(), "{:#?}", report.findings);
    assert_eq!((report.sent, report.acked, report.read), (10, 10, 10));
}

#[test]
fn an_acknowledged_record_that_is_missing_at_the_end_is_lost() {
    let mut reads = read_all();
    reads.pop();
    assert_eq!(only(&check(produced(), reads)), (Kind::Lost, vec![9]));
}

#[test]
fn a_record_that_was_dropped_from_the_middle_is_lost_where_it_was_acknowledged() {
    let mut reads = read_all();
    reads.remove(4);
    let report = check(produced(), reads);
    let lost = report
        .findings
        .iter()
        .find(|found| found.kind == Kind::Lost);
    assert_eq!(
        lost.map(|found| (found.offset, found.record)),
        Some((4, Some(id_at(4))))
    );
}

#[test]
fn a_record_that_is_there_twice_is_duplicated() {
    let mut reads = read_all();
    reads.push(read(10, Some(id_at(3))));
    assert_eq!(
        only(&check(produced(), reads)),
        (Kind::Duplicated, vec![10])
    );
}

#[test]
fn a_record_behind_a_later_one_of_its_producer_is_reordered() {
    let mut events = produced();
    // The broker's offsets are those of the wrong order, so that the order is all that is wrong.
    for event in &mut events {
        if let Event::Acked { record, offset } = event {
            *offset = match (record.producer, record.sequence) {
                (0, 1) => 4,
                (0, 2) => 2,
                _ => *offset,
            };
        }
    }
    let mut reads = read_all();
    reads[2] = read(2, Some(record(0, 2)));
    reads[4] = read(4, Some(record(0, 1)));
    assert_eq!(only(&check(events, reads)), (Kind::Reordered, vec![4]));
}

#[test]
fn a_damaged_record_is_corrupt_and_not_lost_as_well() {
    let mut reads = read_all();
    reads[6] = read(6, None);
    assert_eq!(only(&check(produced(), reads)), (Kind::Corrupt, vec![6]));
}

#[test]
fn a_record_that_nobody_sent_is_a_phantom() {
    let mut reads = read_all();
    reads.push(read(10, Some(record(9, 9))));
    assert_eq!(only(&check(produced(), reads)), (Kind::Phantom, vec![10]));
}

#[test]
fn a_record_that_was_refused_and_is_there_is_a_phantom() {
    let mut events = produced();
    let refused = record(0, 5);
    events.push(Event::Sent {
        record: refused,
        partition: 0,
    });
    events.push(Event::Refused { record: refused });
    let absent = check(events.clone(), read_all());
    assert!(absent.is_clean(), "{:#?}", absent.findings);
    let mut reads = read_all();
    reads.push(read(10, Some(refused)));
    assert_eq!(only(&check(events, reads)), (Kind::Phantom, vec![10]));
}

#[test]
fn a_record_without_an_answer_is_ambiguous_and_no_fault_either_way() {
    let mut events = produced();
    let unanswered = record(1, 5);
    events.push(Event::Sent {
        record: unanswered,
        partition: 0,
    });
    events.push(Event::Ambiguous { record: unanswered });
    let absent = check(events.clone(), read_all());
    assert!(absent.is_clean());
    assert_eq!((absent.ambiguous, absent.ambiguous_stored), (1, 0));
    let mut reads = read_all();
    reads.push(read(10, Some(unanswered)));
    let stored = check(events, reads);
    assert!(stored.is_clean());
    assert_eq!(stored.ambiguous_records, [(0, 10, unanswered)]);
}

#[test]
fn a_record_at_another_offset_than_was_acknowledged_is_misplaced() {
    let mut events = produced();
    if let Some(Event::Acked { offset, .. }) = events.last_mut() {
        *offset = 12;
    }
    assert_eq!(only(&check(events, read_all())), (Kind::Misplaced, vec![9]));
}

#[test]
fn a_skipped_offset_is_found() {
    let mut events = produced();
    if let Some(Event::Acked { offset, .. }) = events.last_mut() {
        *offset = 10;
    }
    let mut reads = read_all();
    reads[9] = read(10, Some(id_at(9)));
    assert_eq!(only(&check(events, reads)), (Kind::Offsets, vec![10]));
}

#[test]
fn what_was_read_once_must_be_read_again() {
    let live = |offset, record| Event::Read {
        reading: Reading::Live,
        partition: 0,
        offset,
        record,
    };
    let mut events = produced();
    events.push(live(3, Some(id_at(3))));
    assert!(check(events.clone(), read_all()).is_clean());
    events.push(live(5, Some(id_at(7))));
    events.push(live(10, Some(record(7, 7))));
    assert_eq!(
        only(&check(events, read_all())),
        (Kind::Changed, vec![5, 10])
    );
}

#[test]
fn a_watermark_that_goes_back_is_found() {
    let watermark = |end| Event::Watermark {
        partition: 0,
        start: Some(0),
        end,
    };
    let mut events = produced();
    events.extend([watermark(4), watermark(10)]);
    assert!(check(events.clone(), read_all()).is_clean());
    events.push(watermark(8));
    assert_eq!(only(&check(events, read_all())), (Kind::Watermark, vec![8]));
}

#[test]
fn all_findings_are_counted_and_the_first_are_kept() {
    let mut events = Vec::new();
    for sequence in 0..1_000 {
        let record = record(0, sequence);
        events.push(Event::Sent {
            record,
            partition: 0,
        });
        events.push(Event::Acked { record, offset: -1 });
    }
    let report = check(events, Vec::new());
    assert!(report.counts.contains(&(Kind::Lost, 1_000)));
    assert_eq!(report.findings.len(), 100);
}
