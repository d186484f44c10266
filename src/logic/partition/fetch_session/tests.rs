//! Promises of fetch sessions. Knows no log: what partitions return is made up.

use super::*;

const NOW: Instant = Instant(0);
const ID: i32 = 77;

fn key(index: i32) -> PartitionKey {
    PartitionKey {
        topic: TopicKey::Name("t".into()),
        index,
    }
}

fn wanted(index: i32) -> Wanted {
    Wanted {
        key: key(index),
        offset: Offset(0),
        bytes_max: 1024,
        current_epoch: None,
        last_fetched_epoch: None,
    }
}

fn request(session_id: i32, epoch: i32, indexes: &[i32]) -> Request {
    let wanted = indexes.iter().map(|index| wanted(*index)).collect();
    Request {
        session_id,
        epoch,
        topic_ids: false,
        wanted,
        forgotten: Vec::new(),
    }
}

fn quiet(high_watermark: i64) -> Returned {
    Returned {
        failed: false,
        bytes: 0,
        high_watermark: Offset(high_watermark),
        last_stable: Offset(high_watermark),
        log_start: Offset(0),
    }
}

fn indexes(fetch: &Fetch) -> Vec<i32> {
    fetch.wanted.iter().map(|wanted| wanted.key.index).collect()
}

/// Sessions with one session of these partitions, all quiet at watermark 5.
fn with_session(partitions: &[i32]) -> Sessions {
    let mut sessions = Sessions::default();
    begin_session(&mut sessions, NOW, ID, partitions);
    sessions
}

fn begin_session(sessions: &mut Sessions, now: Instant, id: i32, partitions: &[i32]) -> i32 {
    let fetch = sessions.begin(now, request(0, 0, partitions)).unwrap();
    let returned = vec![quiet(5); partitions.len()];
    sessions
        .finish(now, fetch, &returned, id)
        .unwrap()
        .session_id
}

#[test]
fn a_first_fetch_shows_everything_and_begins_a_session() {
    let mut sessions = Sessions::default();
    let fetch = sessions.begin(NOW, request(0, 0, &[2, 0, 1])).unwrap();
    assert_eq!(indexes(&fetch), [2, 0, 1]);
    let answer = sessions.finish(NOW, fetch, &[quiet(5); 3], ID).unwrap();
    assert_eq!(
        answer,
        Answer {
            session_id: ID,
            shown: vec![true; 3]
        }
    );
    assert_eq!((sessions.len(), sessions.partition_count()), (1, 3));
}

#[test]
fn an_incremental_fetch_reads_all_and_shows_only_what_changed() {
    let mut sessions = with_session(&[0, 1, 2, 3, 4, 5]);
    let fetch = sessions.begin(NOW, request(ID, 1, &[])).unwrap();
    assert_eq!(indexes(&fetch), [0, 1, 2, 3, 4, 5]);
    let returned = [
        quiet(5),
        Returned {
            bytes: 9,
            ..quiet(5)
        },
        quiet(6),
        Returned {
            log_start: Offset(1),
            ..quiet(5)
        },
        Returned {
            failed: true,
            ..quiet(5)
        },
        Returned {
            last_stable: Offset(4),
            ..quiet(5)
        },
    ];
    let answer = sessions.finish(NOW, fetch, &returned, 1).unwrap();
    assert_eq!(answer.session_id, ID);
    assert_eq!(answer.shown, [false, true, true, true, true, true]);
    // The same marks again are no news, but for the partition that had an error.
    let fetch = sessions.begin(NOW, request(ID, 2, &[])).unwrap();
    assert_eq!(indexes(&fetch), [0, 2, 3, 4, 5, 1]);
    let returned = [
        quiet(5),
        quiet(6),
        Returned {
            log_start: Offset(1),
            ..quiet(5)
        },
        quiet(5),
        Returned {
            last_stable: Offset(4),
            ..quiet(5)
        },
        quiet(5),
    ];
    let answer = sessions.finish(NOW, fetch, &returned, 1).unwrap();
    assert_eq!(answer.shown, [false, false, false, true, false, false]);
}

#[test]
fn an_error_is_shown_each_time() {
    let mut sessions = with_session(&[0]);
    for epoch in 1..4 {
        let fetch = sessions.begin(NOW, request(ID, epoch, &[])).unwrap();
        let failed = Returned {
            failed: true,
            ..quiet(-1)
        };
        assert_eq!(
            sessions.finish(NOW, fetch, &[failed], 1).unwrap().shown,
            [true]
        );
    }
}

#[test]
fn every_partition_with_records_gets_its_turn_when_answers_hold_only_one() {
    let mut sessions = with_session(&[0, 1, 2]);
    let mut served = Vec::new();
    for epoch in 1..7 {
        let fetch = sessions.begin(NOW, request(ID, epoch, &[])).unwrap();
        served.push(fetch.wanted[0].key.index);
        let mut returned = vec![quiet(5); 3];
        returned[0].bytes = 1;
        sessions.finish(NOW, fetch, &returned, 1).unwrap();
    }
    assert_eq!(served, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn partitions_are_added_changed_and_forgotten() {
    let mut sessions = with_session(&[0, 1]);
    let mut change = request(ID, 1, &[2]);
    change.wanted.push(Wanted {
        offset: Offset(9),
        ..wanted(1)
    });
    change.forgotten = vec![key(0), key(99)];
    let fetch = sessions.begin(NOW, change).unwrap();
    assert_eq!(indexes(&fetch), [1, 2]);
    assert_eq!(fetch.wanted[0].offset, Offset(9));
    assert_eq!(sessions.partition_count(), 2);
    let answer = sessions.finish(NOW, fetch, &[quiet(5); 2], 1).unwrap();
    assert_eq!(
        answer.shown,
        [false, true],
        "a new partition is shown, a changed request is no news"
    );
}

#[test]
fn wrong_epochs_and_unknown_sessions_are_told_apart() {
    let mut sessions = with_session(&[0]);
    let error = |sessions: &mut Sessions, id, epoch| {
        sessions
            .begin(NOW, request(id, epoch, &[]))
            .map(|_| ())
            .unwrap_err()
    };
    assert_eq!(error(&mut sessions, ID, 2), SessionError::InvalidEpoch);
    assert_eq!(error(&mut sessions, ID, -5), SessionError::InvalidEpoch);
    assert_eq!(error(&mut sessions, ID + 1, 1), SessionError::IdNotFound);
    assert_eq!(
        error(&mut sessions, NO_SESSION, 1),
        SessionError::IdNotFound
    );
    assert!(
        sessions.begin(NOW, request(ID, 1, &[])).is_ok(),
        "the session outlives the errors"
    );
    assert_eq!(error(&mut sessions, ID, 1), SessionError::InvalidEpoch);
}

#[test]
fn a_request_refused_for_its_epoch_changes_no_partitions() {
    let mut sessions = with_session(&[0]);
    assert!(sessions.begin(NOW, request(ID, 9, &[1, 2])).is_err());
    let fetch = sessions.begin(NOW, request(ID, 1, &[])).unwrap();
    assert_eq!(indexes(&fetch), [0]);
}

#[test]
fn a_session_keeps_to_names_or_ids() {
    let mut sessions = with_session(&[0]);
    let by_id = Request {
        topic_ids: true,
        ..request(ID, 1, &[])
    };
    assert_eq!(
        sessions.begin(NOW, by_id).unwrap_err(),
        SessionError::TopicId
    );
}

#[test]
fn a_final_epoch_ends_the_session_and_answers_in_full() {
    let mut sessions = with_session(&[0, 1]);
    let fetch = sessions.begin(NOW, request(ID, -1, &[0])).unwrap();
    let answer = sessions.finish(NOW, fetch, &[quiet(5)], 1).unwrap();
    assert_eq!(
        answer,
        Answer {
            session_id: NO_SESSION,
            shown: vec![true]
        }
    );
    assert!(sessions.is_empty());
    assert_eq!(sessions.partition_count(), 0);
}

#[test]
fn a_first_epoch_with_an_old_session_replaces_it() {
    let mut sessions = with_session(&[0, 1]);
    let fetch = sessions.begin(NOW, request(ID, 0, &[0])).unwrap();
    assert!(sessions.is_empty());
    let answer = sessions.finish(NOW, fetch, &[quiet(5)], ID + 1).unwrap();
    assert_eq!((answer.session_id, sessions.len()), (ID + 1, 1));
}

#[test]
fn a_session_that_loses_its_last_partition_ends() {
    let mut sessions = with_session(&[0]);
    let forget = Request {
        forgotten: vec![key(0)],
        ..request(ID, 1, &[])
    };
    let fetch = sessions.begin(NOW, forget).unwrap();
    let answer = sessions.finish(NOW, fetch, &[], 1).unwrap();
    assert_eq!((answer.session_id, sessions.len()), (NO_SESSION, 0));
}

#[test]
fn a_fetch_of_nothing_gets_no_session() {
    let mut sessions = Sessions::default();
    assert_eq!(begin_session(&mut sessions, NOW, ID, &[]), NO_SESSION);
}

#[test]
fn an_id_that_is_taken_or_not_positive_means_no_session() {
    let mut sessions = with_session(&[0]);
    for id in [ID, 0, -3] {
        assert_eq!(begin_session(&mut sessions, NOW, id, &[1]), NO_SESSION);
    }
    assert_eq!(sessions.partition_count(), 1);
}

#[test]
fn a_partition_named_twice_in_a_full_fetch_is_read_once_as_last_named() {
    let mut sessions = Sessions::default();
    let mut twice = request(0, -1, &[0, 1]);
    twice.wanted.push(Wanted {
        offset: Offset(3),
        ..wanted(0)
    });
    let fetch = sessions.begin(NOW, twice).unwrap();
    assert_eq!(indexes(&fetch), [0, 1]);
    assert_eq!(fetch.wanted[0].offset, Offset(3));
}

#[test]
fn epochs_wrap_to_one() {
    let mut sessions = with_session(&[0]);
    sessions.sessions.get_mut(&ID).unwrap().epoch = i32::MAX;
    assert!(sessions.begin(NOW, request(ID, i32::MAX, &[])).is_ok());
    assert!(sessions.begin(NOW, request(ID, 1, &[])).is_ok());
}

#[test]
fn two_requests_at_once_cannot_both_advance_a_session() {
    let mut sessions = with_session(&[0]);
    let first = sessions.begin(NOW, request(ID, 1, &[])).unwrap();
    let second = sessions.begin(NOW, request(ID, 2, &[])).unwrap();
    let error = sessions.finish(NOW, first, &[quiet(6)], 1).unwrap_err();
    assert_eq!(error, SessionError::InvalidEpoch);
    assert_eq!(
        sessions.finish(NOW, second, &[quiet(6)], 1).unwrap().shown,
        [true]
    );
}

#[test]
fn a_full_cache_keeps_fresh_sessions_and_evicts_the_longest_unused() {
    let limits = Limits {
        sessions_max: 2,
        ..Limits::default()
    };
    let mut sessions = Sessions::new(limits);
    begin_session(&mut sessions, NOW, 1, &[0]);
    begin_session(&mut sessions, NOW.plus_ms(1), 2, &[0]);
    assert_eq!(
        begin_session(&mut sessions, NOW.plus_ms(2), 3, &[0, 1]),
        NO_SESSION
    );
    sessions.begin(NOW.plus_ms(3), request(1, 1, &[])).unwrap();
    let later = NOW.plus_ms(EVICTION_MS + 1);
    assert_eq!(begin_session(&mut sessions, later, 3, &[0]), 3);
    let gone = sessions.begin(later, request(2, 1, &[])).unwrap_err();
    assert_eq!(gone, SessionError::IdNotFound);
    assert!(sessions.begin(later, request(1, 2, &[])).is_ok());
}

#[test]
fn a_larger_session_takes_the_place_of_a_smaller_settled_one() {
    let limits = Limits {
        sessions_max: 1,
        ..Limits::default()
    };
    let mut sessions = Sessions::new(limits);
    begin_session(&mut sessions, NOW, 1, &[0, 1]);
    let later = NOW.plus_ms(EVICTION_MS);
    sessions.begin(later, request(1, 1, &[])).unwrap();
    assert_eq!(begin_session(&mut sessions, later, 2, &[0, 1]), NO_SESSION);
    assert_eq!(begin_session(&mut sessions, later, 3, &[0, 1, 2]), 3);
}

#[test]
fn a_session_evicted_during_its_fetch_still_answers_and_is_then_unknown() {
    let mut sessions = with_session(&[0]);
    let fetch = sessions.begin(NOW, request(ID, 1, &[])).unwrap();
    sessions.remove(ID);
    let answer = sessions.finish(NOW, fetch, &[quiet(5)], 1).unwrap();
    assert_eq!(
        answer,
        Answer {
            session_id: ID,
            shown: vec![true]
        }
    );
    assert!(sessions.begin(NOW, request(ID, 2, &[])).is_err());
}

#[test]
fn partitions_over_all_sessions_are_bounded() {
    let limits = Limits {
        partitions_max: 3,
        ..Limits::default()
    };
    let mut sessions = Sessions::new(limits);
    begin_session(&mut sessions, NOW, 1, &[0, 1]);
    assert_eq!(begin_session(&mut sessions, NOW, 2, &[0, 1]), NO_SESSION);
    assert_eq!(begin_session(&mut sessions, NOW, 2, &[0]), 2);
    let grow = sessions.begin(NOW, request(1, 1, &[5, 6])).unwrap_err();
    assert_eq!(grow, SessionError::IdNotFound);
    assert_eq!((sessions.len(), sessions.partition_count()), (1, 1));
}

#[test]
fn no_slots_means_no_sessions() {
    let mut sessions = Sessions::new(Limits {
        sessions_max: 0,
        ..Limits::default()
    });
    assert_eq!(begin_session(&mut sessions, NOW, ID, &[0]), NO_SESSION);
}
