//! Promises of joining, syncing, living and leaving.

use alloc::string::String;
use alloc::vec;

use bytes::Bytes;
use wire::ErrorCode;

use super::super::request::{Join, Request};
use super::super::{AppendError, Event, Settings};
use super::harness::*;

/// A group of one member, whose first generation has begun.
fn lone() -> (Bench, String) {
    let mut bench = Bench::new();
    let token = bench.join("", None);
    bench.pass(DELAY_MS);
    let id = bench.joined(token).member_id;
    (bench, id)
}

#[test]
fn an_empty_group_waits_for_more_members_and_the_wait_grows_while_they_come() {
    let mut bench = Bench::new();
    let first = bench.join("", None);
    bench.pass(DELAY_MS - 1);
    let second = bench.join("", None);
    bench.pass(DELAY_MS);
    assert_eq!(bench.answer(first), None, "the second has made it longer");
    bench.pass(1);
    let (first, second) = (bench.joined(first), bench.joined(second));
    assert_eq!((first.error, first.generation), (None, 1));
    assert_eq!(first.leader, second.leader);
    let mut told = [first.members.len(), second.members.len()];
    told.sort_unstable();
    assert_eq!(told, [0, 2], "only the leader is told who there is");
}

#[test]
fn a_client_must_come_back_with_the_id_that_it_was_given() {
    let mut bench = Bench::new();
    let asked = bench.ask(Request::Join(Join {
        id_required: true,
        ..join("", None)
    }));
    let given = bench.joined(asked);
    assert_eq!(given.error, Some(ErrorCode::MemberIdRequired));
    assert!(
        given.member_id.starts_with("client-"),
        "{}",
        given.member_id
    );
    let joined = bench.join(&given.member_id, None);
    bench.pass(DELAY_MS);
    assert_eq!(bench.joined(joined).member_id, given.member_id);
    let stranger = bench.join("stranger", None);
    let stranger = bench.joined(stranger);
    assert_eq!(stranger.error, Some(ErrorCode::UnknownMemberId));
}

#[test]
fn an_id_that_a_nameless_member_was_given_is_nobody_elses() {
    let mut bench = Bench::new();
    let named = bench.join("", Some("i"));
    let asked = bench.ask(Request::Join(Join {
        id_required: true,
        ..join("", None)
    }));
    let given = bench.joined(asked).member_id;
    let mixed = bench.join(&given, Some("i"));
    assert_eq!(bench.joined(mixed).error, Some(ErrorCode::UnknownMemberId));
    let right = bench.join(&given, None);
    bench.pass(2 * DELAY_MS);
    assert_eq!(bench.joined(named).error, None);
    assert_eq!(bench.joined(right).member_id, given);
}

#[test]
fn a_new_member_that_asks_again_may_still_wait_longer_than_its_session() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable(1);
    let asked = bench.ask(Request::Join(Join {
        id_required: true,
        ..join("", None)
    }));
    let id = bench.joined(asked).member_id;
    let first = bench.join(&id, None);
    let again = bench.join(&id, None);
    let lost = bench.joined(first).error;
    assert_eq!(lost, Some(ErrorCode::RebalanceInProgress));
    for _ in 0..4 {
        bench.pass(SESSION_MS / 2);
        let error = bench.heartbeat(&ids[0], generation);
        assert_eq!(error, ErrorCode::RebalanceInProgress);
    }
    let old = bench.join(&ids[0], None);
    assert_eq!(bench.joined(old).members.len(), 2);
    assert_eq!(bench.joined(again).error, None);
}

#[test]
fn members_get_what_the_leader_gives_once_the_log_has_it() {
    let mut bench = Bench::new();
    let tokens = [bench.join("", None), bench.join("", None)];
    bench.pass(2 * DELAY_MS);
    let [one, two] = tokens.map(|token| bench.joined(token));
    let (leader, other) = if one.members.is_empty() {
        (two, one)
    } else {
        (one, two)
    };
    bench.prompt = false;
    let waits = bench.sync(&other.member_id, 1, &[]);
    let gives = [(&*leader.member_id, "a"), (&*other.member_id, "b")];
    let gave = bench.sync(&leader.member_id, 1, &gives);
    assert_eq!((bench.answer(waits), bench.answer(gave)), (None, None));
    let again = bench.sync(&leader.member_id, 1, &[(&leader.member_id, "b")]);
    assert_eq!(bench.pending.len(), 1, "one assignment a generation");
    assert_eq!(bench.synced(gave), Err(ErrorCode::RebalanceInProgress));
    bench.commit_all();
    assert_eq!(bench.synced(waits).unwrap().assignment, b"b"[..]);
    assert_eq!(bench.synced(again).unwrap().assignment, b"a"[..]);
    assert_eq!(bench.state(), "Stable");
}

#[test]
fn an_assignment_that_the_log_does_not_take_is_nobody_s() {
    let (mut bench, id) = lone();
    bench.prompt = false;
    let token = bench.sync(&id, 1, &[(&id, "a")]);
    bench.fail_one(AppendError::NotLeader);
    assert_eq!(bench.synced(token), Err(ErrorCode::NotCoordinator));
    assert_eq!(bench.state(), "PreparingRebalance");
}

#[test]
fn an_assignment_of_a_generation_that_is_over_reaches_nobody() {
    let (mut bench, id) = lone();
    bench.prompt = false;
    let gave = bench.sync(&id, 1, &[(&id, "a")]);
    let newcomer = bench.join("", None);
    assert_eq!(bench.synced(gave), Err(ErrorCode::RebalanceInProgress));
    bench.commit_all();
    assert_eq!(bench.state(), "PreparingRebalance");
    let rejoined = bench.join(&id, None);
    assert_eq!(bench.joined(rejoined).generation, 2);
    assert_eq!(bench.joined(newcomer).generation, 2);
}

#[test]
fn a_silent_member_is_out_and_a_living_one_stays() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable(2);
    for _ in 0..5 {
        bench.pass(SESSION_MS / 2);
        let _ = bench.heartbeat(&ids[0], generation);
    }
    assert_eq!(bench.state(), "PreparingRebalance");
    let error = bench.heartbeat(&ids[0], generation);
    assert_eq!(error, ErrorCode::RebalanceInProgress);
    let error = bench.heartbeat(&ids[1], generation);
    assert_eq!(error, ErrorCode::UnknownMemberId);
    let token = bench.join(&ids[0], None);
    let reply = bench.joined(token);
    assert_eq!((reply.generation, reply.members.len()), (generation + 1, 1));
}

#[test]
fn who_does_not_join_again_in_time_is_out() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable(2);
    let newcomer = bench.join("", None);
    let stays = bench.join(&ids[1], None);
    for _ in 0..(REBALANCE_MS / SESSION_MS) * 2 {
        let _ = bench.heartbeat(&ids[0], generation);
        bench.pass(SESSION_MS / 2);
    }
    let reply = bench.joined(newcomer);
    assert_eq!(bench.joined(stays).generation, generation + 1);
    assert_eq!(reply.generation, generation + 1);
    let error = bench.heartbeat(&ids[0], generation);
    assert_eq!(error, ErrorCode::UnknownMemberId);
}

#[test]
fn who_joins_and_never_asks_for_its_assignment_is_out() {
    let mut bench = Bench::new();
    let tokens = [bench.join("", None), bench.join("", None)];
    bench.pass(2 * DELAY_MS);
    let [one, two] = tokens.map(|token| bench.joined(token));
    let (leader, other) = if one.members.is_empty() {
        (two, one)
    } else {
        (one, two)
    };
    let gave = bench.sync(&leader.member_id, 1, &[(&leader.member_id, "a")]);
    assert!(bench.synced(gave).is_ok());
    for _ in 0..(REBALANCE_MS / SESSION_MS) * 2 {
        let _ = bench.heartbeat(&leader.member_id, 1);
        let _ = bench.heartbeat(&other.member_id, 1);
        bench.pass(SESSION_MS / 2);
    }
    let error = bench.heartbeat(&other.member_id, 1);
    assert_eq!(error, ErrorCode::UnknownMemberId);
}

#[test]
fn the_last_to_leave_leaves_an_empty_group_behind() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable(2);
    assert_eq!(bench.leave(&[(&ids[0], None)]), [ErrorCode::None]);
    let token = bench.join(&ids[1], None);
    assert_eq!(bench.joined(token).generation, generation + 1);
    let left = bench.leave(&[(&ids[1], None), ("stranger", None)]);
    assert_eq!(left, [ErrorCode::None, ErrorCode::UnknownMemberId]);
    assert_eq!(bench.state(), "Empty");
    bench.reload();
    assert_eq!(bench.state(), "Empty");
}

#[test]
fn a_static_member_comes_back_without_a_rebalance_and_its_old_id_is_fenced() {
    let mut bench = Bench::new();
    let token = bench.join("", Some("i"));
    bench.pass(DELAY_MS);
    let old = bench.joined(token).member_id;
    bench.sync(&old, 1, &[(&old, "a")]);
    bench.prompt = false;
    let token = bench.join("", Some("i"));
    assert_eq!(bench.answer(token), None, "the log does not know it yet");
    bench.commit_all();
    let back = bench.joined(token);
    assert_eq!((back.error, back.generation), (None, 1));
    assert!(back.skip_assignment, "the assignment stands");
    assert_ne!(back.member_id, old);
    let fenced = bench.join(&old, Some("i"));
    assert_eq!(
        bench.joined(fenced).error,
        Some(ErrorCode::FencedInstanceId)
    );
    let token = bench.sync(&back.member_id, 1, &[]);
    assert_eq!(bench.synced(token).unwrap().assignment, b"a"[..]);
    bench.prompt = true;
    bench.reload();
    assert_eq!(bench.heartbeat(&back.member_id, 1), ErrorCode::None);
    assert_eq!(bench.leave(&[("", Some("i"))]), [ErrorCode::None]);
}

#[test]
fn a_static_member_of_an_old_client_does_not_think_that_it_leads() {
    let mut bench = Bench::new();
    let token = bench.join("", Some("i"));
    bench.pass(DELAY_MS);
    let old = bench.joined(token).member_id;
    bench.sync(&old, 1, &[(&old, "a")]);
    let token = bench.ask(Request::Join(Join {
        can_skip_assignment: false,
        random: [9; 16],
        ..join("", Some("i"))
    }));
    let back = bench.joined(token);
    assert_eq!((back.skip_assignment, back.leader), (false, old));
    assert_eq!(back.members, []);
}

#[test]
fn the_protocol_is_the_one_with_the_most_votes_among_those_that_all_can_follow() {
    let mut bench = Bench::new();
    let lists: [&[&str]; 3] = [&["a", "b", "c"], &["c", "b"], &["c", "b", "a"]];
    let mut tokens = vec![];
    for (place, list) in lists.iter().enumerate() {
        let protocols = list
            .iter()
            .map(|it| ((*it).into(), Bytes::from_static(b"x")));
        tokens.push(bench.ask(Request::Join(Join {
            protocols: protocols.collect(),
            random: [place as u8; 16],
            ..join("", None)
        })));
    }
    let alien = bench.ask(Request::Join(Join {
        protocols: vec![("d".into(), Bytes::new())],
        ..join("", None)
    }));
    let alien = bench.joined(alien).error;
    assert_eq!(alien, Some(ErrorCode::InconsistentGroupProtocol));
    bench.pass(REBALANCE_MS);
    for token in tokens {
        assert_eq!(bench.joined(token).protocol.as_deref(), Some("c"));
    }
}

#[test]
fn a_group_takes_no_more_members_than_it_may() {
    let mut bench = Bench::with(Settings {
        size_max: 2,
        ..settings()
    });
    bench.stable(2);
    let token = bench.join("", None);
    assert_eq!(
        bench.joined(token).error,
        Some(ErrorCode::GroupMaxSizeReached)
    );
}

#[test]
fn when_memory_is_used_up_new_members_are_refused_and_known_ones_work_on() {
    let mut bench = Bench::with(Settings {
        memory_bytes_max: 2_000,
        ..settings()
    });
    let (ids, generation) = bench.stable(1);
    while bench.coordinator.bytes() < 2_000 {
        let token = bench.ask(Request::Join(Join {
            id_required: true,
            random: [bench.coordinator.bytes() as u8; 16],
            ..join("", None)
        }));
        let _ = bench.joined(token);
    }
    let token = bench.join("", None);
    assert_eq!(
        bench.joined(token).error,
        Some(ErrorCode::GroupMaxSizeReached)
    );
    assert_eq!(bench.heartbeat(&ids[0], generation), ErrorCode::None);
}

#[test]
fn a_partition_that_loads_or_is_elsewhere_says_so() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable(1);
    let waits = bench.join("", None);
    bench.step(Event::Unload(0));
    assert_eq!(bench.joined(waits).error, Some(ErrorCode::NotCoordinator));
    let error = bench.heartbeat(&ids[0], generation);
    assert_eq!(error, ErrorCode::NotCoordinator);
    assert_eq!(
        (bench.coordinator.bytes(), bench.coordinator.wake_at()),
        (0, None)
    );
    bench.step(Event::Load(0));
    let error = bench.heartbeat(&ids[0], generation);
    assert_eq!(error, ErrorCode::CoordinatorLoadInProgress);
    bench.step(Event::Replay(0, bench.log.clone()));
    bench.step(Event::Loaded(0));
    assert_eq!(bench.heartbeat(&ids[0], generation), ErrorCode::None);
}
