//! Promises of committed offsets.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use wire::ErrorCode;

use super::super::request::{Commit, CommitItem, Join, Request};
use super::super::{AppendError, Event, Reply};
use super::harness::*;

#[test]
fn a_commit_is_answered_and_seen_once_the_log_has_it() {
    let mut bench = Bench::new();
    bench.prompt = false;
    let token = bench.commit("", -1, 5);
    assert_eq!((bench.answer(token), bench.offset()), (None, None));
    bench.commit_all();
    assert_eq!(bench.committed(token), ErrorCode::None);
    assert_eq!(bench.offset(), Some(5));
    let token = bench.commit("", -1, 6);
    bench.fail_one(AppendError::NotLeader);
    assert_eq!(bench.committed(token), ErrorCode::NotCoordinator);
    assert_eq!(bench.offset(), Some(5));
}

#[test]
fn invariant_25_commits_count_only_from_the_current_generation() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable(2);
    for (member, generation, expected) in [
        (&*ids[0], generation, ErrorCode::None),
        (&ids[0], generation - 1, ErrorCode::IllegalGeneration),
        (&ids[0], -1, ErrorCode::IllegalGeneration),
        ("stranger", generation, ErrorCode::UnknownMemberId),
        ("", -1, ErrorCode::UnknownMemberId),
    ] {
        let token = bench.commit(member, generation, 1);
        assert_eq!(bench.committed(token), expected, "{member} {generation}");
    }
    let newcomer = bench.join("", None);
    let token = bench.commit(&ids[0], generation, 2);
    assert_eq!(bench.committed(token), ErrorCode::None, "it may finish");
    let again = [bench.join(&ids[0], None), bench.join(&ids[1], None)];
    let next = bench.joined(newcomer).generation;
    let token = bench.commit(&ids[0], generation, 3);
    assert_eq!(bench.committed(token), ErrorCode::IllegalGeneration);
    let token = bench.commit(&ids[0], next, 3);
    assert_eq!(bench.committed(token), ErrorCode::RebalanceInProgress);
    assert_eq!(again.map(|it| bench.joined(it).generation), [next; 2]);
    assert_eq!(bench.offset(), Some(2));
}

#[test]
fn invariant_17_a_fetch_gives_what_is_committed_or_says_why_not() {
    let mut bench = Bench::new();
    assert_eq!(bench.offset(), None, "nothing is committed");
    let token = bench.commit("", -1, 5);
    assert_eq!(bench.committed(token), ErrorCode::None);
    let all = bench.ask(all_offsets());
    let Some(Reply::FetchOffsets(Ok(all))) = bench.answer(all) else {
        panic!("no answer");
    };
    let found = all[0].1[0].1.as_ref().expect("committed");
    assert_eq!((found.offset, &*found.metadata), (5, "so far"));
    bench.step(Event::Unload(0));
    bench.step(Event::Load(0));
    let loading = bench.ask(all_offsets());
    let error = Reply::FetchOffsets(Err(ErrorCode::CoordinatorLoadInProgress));
    assert_eq!(bench.answer(loading), Some(error));
}

#[test]
fn a_member_of_a_group_that_is_gone_is_told_in_words_that_it_knows() {
    let mut bench = Bench::new();
    let token = bench.commit("m", 3, 1);
    assert_eq!(bench.committed(token), ErrorCode::GroupIdNotFound);
    let token = bench.ask(Request::Commit(Commit {
        unknown_group: ErrorCode::IllegalGeneration,
        ..commit("m", 3, 1)
    }));
    assert_eq!(bench.committed(token), ErrorCode::IllegalGeneration);
}

#[test]
fn what_a_client_remembers_beside_an_offset_is_bounded() {
    let mut bench = Bench::new();
    let mut request = commit("", -1, 1);
    request.offsets[0].metadata = "x".repeat(101);
    let token = bench.ask(Request::Commit(request));
    assert_eq!(bench.committed(token), ErrorCode::OffsetMetadataTooLarge);
}

#[test]
fn a_group_that_never_had_members_forgets_by_the_age_of_commits() {
    let mut bench = Bench::new();
    let token = bench.commit("", -1, 1);
    assert_eq!(bench.committed(token), ErrorCode::None);
    bench.pass(999_999);
    assert_eq!(bench.offset(), Some(1));
    bench.pass(20_000);
    assert_eq!((bench.offset(), bench.state()), (None, "Dead"));
    bench.reload();
    assert_eq!(bench.offset(), None, "the tombstones are in the log");
}

#[test]
fn a_group_with_members_keeps_its_offsets_and_an_empty_one_from_when_it_became_so() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable(1);
    let token = bench.commit(&ids[0], generation, 1);
    assert_eq!(bench.committed(token), ErrorCode::None);
    for _ in 0..500 {
        bench.pass(5_000);
        assert_eq!(bench.heartbeat(&ids[0], generation), ErrorCode::None);
    }
    assert_eq!(bench.offset(), Some(1), "a living group forgets nothing");
    bench.leave(&[(&ids[0], None)]);
    bench.pass(990_000);
    assert_eq!(bench.offset(), Some(1));
    bench.pass(30_000);
    assert_eq!(bench.offset(), None);
}

#[test]
fn a_living_group_of_consumers_forgets_only_topics_that_it_does_not_read() {
    let mut bench = Bench::new();
    let subscription = b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff";
    let token = bench.ask(Request::Join(Join {
        protocols: vec![("range".into(), Bytes::from_static(subscription))],
        ..join("", None)
    }));
    bench.pass(DELAY_MS);
    let id = bench.joined(token).member_id;
    bench.sync(&id, 1, &[(&id, "p")]);
    let mut request = commit(&id, 1, 5);
    request.offsets.push(CommitItem {
        topic: "other".into(),
        ..request.offsets[0].clone()
    });
    let token = bench.ask(Request::Commit(request));
    assert_eq!(bench.committed(token), ErrorCode::None);
    for _ in 0..210 {
        bench.pass(5_000);
        assert_eq!(bench.heartbeat(&id, 1), ErrorCode::None);
    }
    let all = bench.ask(all_offsets());
    let Some(Reply::FetchOffsets(Ok(all))) = bench.answer(all) else {
        panic!("no answer");
    };
    let topics: Vec<&str> = all.iter().map(|(topic, _)| &**topic).collect();
    assert_eq!(topics, ["t"]);
}

#[test]
fn only_an_empty_group_is_deleted_and_nothing_of_it_comes_back() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable(1);
    let token = bench.commit(&ids[0], generation, 1);
    assert_eq!(bench.committed(token), ErrorCode::None);
    let token = bench.ask(Request::Delete(GROUP.into()));
    assert_eq!(
        bench.answer(token),
        Some(Reply::Delete(ErrorCode::NonEmptyGroup))
    );
    bench.leave(&[(&ids[0], None)]);
    bench.prompt = false;
    let late = bench.commit("", -1, 2);
    let token = bench.ask(Request::Delete(GROUP.into()));
    bench.commit_all();
    assert_eq!(bench.committed(late), ErrorCode::None);
    assert_eq!(bench.answer(token), Some(Reply::Delete(ErrorCode::None)));
    bench.prompt = true;
    assert_eq!((bench.state(), bench.offset()), ("Dead", None));
    bench.reload();
    assert_eq!((bench.state(), bench.offset()), ("Dead", None));
    let token = bench.ask(Request::Delete(GROUP.into()));
    assert_eq!(
        bench.answer(token),
        Some(Reply::Delete(ErrorCode::GroupIdNotFound))
    );
}

#[test]
fn what_is_committed_while_a_group_is_being_deleted_ages_from_its_commit() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable(1);
    let token = bench.commit(&ids[0], generation, 1);
    assert_eq!(bench.committed(token), ErrorCode::None);
    bench.leave(&[(&ids[0], None)]);
    let retention_ms = settings().retention_ms.unsigned_abs();
    bench.pass(retention_ms / 2);
    bench.prompt = false;
    let deleted = bench.ask(Request::Delete(GROUP.into()));
    let late = bench.commit("", -1, 2);
    bench.commit_all();
    bench.prompt = true;
    assert_eq!(bench.answer(deleted), Some(Reply::Delete(ErrorCode::None)));
    assert_eq!(bench.committed(late), ErrorCode::None);
    let sweep_ms = settings().retention_check_interval_ms;
    bench.pass(retention_ms / 2 + 2 * sweep_ms);
    assert_eq!(bench.offset(), Some(2), "the group that was empty is gone");
    bench.pass(retention_ms / 2);
    assert_eq!(bench.offset(), None);
}

#[test]
fn offsets_are_deleted_but_not_of_topics_that_members_may_read() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable(1);
    let token = bench.commit(&ids[0], generation, 1);
    assert_eq!(bench.committed(token), ErrorCode::None);
    let wanted = vec![("t".into(), vec![0, 1])];
    let token = bench.ask(Request::DeleteOffsets(GROUP.into(), wanted.clone()));
    let read = vec![vec![ErrorCode::GroupSubscribedToTopic; 2]];
    assert_eq!(bench.answer(token), Some(Reply::DeleteOffsets(Ok(read))));
    bench.leave(&[(&ids[0], None)]);
    let token = bench.ask(Request::DeleteOffsets(GROUP.into(), wanted));
    let done = vec![vec![ErrorCode::None; 2]];
    assert_eq!(bench.answer(token), Some(Reply::DeleteOffsets(Ok(done))));
    assert_eq!(bench.offset(), None);
}

#[test]
fn a_deleted_topic_takes_its_offsets_with_it() {
    let mut bench = Bench::new();
    let token = bench.commit("", -1, 1);
    assert_eq!(bench.committed(token), ErrorCode::None);
    bench.step(Event::TopicDeleted("other".into()));
    assert_eq!(bench.offset(), Some(1));
    bench.step(Event::TopicDeleted("t".into()));
    assert_eq!(bench.offset(), None);
    bench.reload();
    assert_eq!(bench.offset(), None);
}

#[test]
fn a_topic_that_is_deleted_while_its_groups_load_takes_its_offsets_with_it() {
    let mut bench = Bench::new();
    let token = bench.commit("", -1, 1);
    assert_eq!(bench.committed(token), ErrorCode::None);
    bench.step(Event::Unload(0));
    bench.step(Event::Load(0));
    bench.step(Event::TopicDeleted("t".into()));
    bench.step(Event::Replay(0, bench.log.clone()));
    bench.step(Event::Loaded(0));
    assert_eq!(bench.offset(), None);
    bench.reload();
    assert_eq!(bench.offset(), None, "the tombstones are in the log");
}

#[test]
fn a_commit_too_large_for_one_append_is_refused_when_a_part_of_it_is() {
    const ITEMS: i32 = 8_000;
    let mut bench = Bench::new();
    bench.prompt = false;
    let mut request = commit("", -1, 1);
    request.offsets = (0..ITEMS)
        .map(|partition| CommitItem {
            partition,
            ..request.offsets[0].clone()
        })
        .collect();
    let token = bench.ask(Request::Commit(request));
    assert_eq!(bench.pending.len(), 2);
    bench.fail_one(AppendError::TooLarge);
    bench.commit_one();
    let Some(Reply::Commit(errors)) = bench.answer(token) else {
        panic!("no answer");
    };
    let refused = vec![ErrorCode::InvalidCommitOffsetSize; ITEMS as usize];
    assert_eq!(errors, refused);
}

#[test]
fn nothing_expires_by_a_clock_that_may_have_been_set() {
    let mut bench = Bench::new();
    let token = bench.commit("", -1, 1);
    assert_eq!(bench.committed(token), ErrorCode::None);
    bench.coordinator.believe_clock(false);
    bench.pass(1_020_000);
    assert_eq!(bench.offset(), Some(1));
    bench.coordinator.believe_clock(true);
    bench.pass(20_000);
    assert_eq!(bench.offset(), None);
}
