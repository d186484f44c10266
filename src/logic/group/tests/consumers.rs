//! Promises of groups by the new consumer protocol (KIP-848).

pub mod client;
mod pace;
mod random;

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use wire::ErrorCode;
use wire::group_records::{ConsumerRecord, GroupRecord};

use self::client::{Client, REBALANCE_TIMEOUT_MS, count};
use super::super::AppendError;
use super::super::request::{ConsumerHeartbeat, Identity, Leave, Refusal, Reply, Request};
use super::harness::*;

/// A topic of six partitions.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.topic("t", 6);
    bench
}

fn client(id: &str) -> Client {
    Client::new(id, &["t"])
}

/// Everybody is heard in turn until nothing moves.
fn settle(bench: &mut Bench, clients: &mut [&mut Client]) {
    for _ in 0..6 {
        for client in clients.iter_mut() {
            client.beat(bench).expect("a member");
        }
    }
}

fn described(bench: &mut Bench) -> (&'static str, i32) {
    let token = bench.ask(Request::DescribeConsumers(GROUP.into()));
    match bench.answer(token) {
        Some(Reply::DescribeConsumers(Ok(group))) => (group.state, group.epoch),
        other => panic!("no description: {other:?}"),
    }
}

#[test]
fn a_lone_member_is_given_all_by_its_first_heartbeat() {
    let mut bench = bench();
    let mut a = client("a");
    a.beat(&mut bench).expect("joins");
    assert_eq!((a.epoch, count(&a.owned)), (1, 6));
    assert_eq!(described(&mut bench), ("Stable", 1));
    let quiet = a.beat(&mut bench).expect("lives");
    assert_eq!(quiet.assignment, None, "nothing is news");
    assert_eq!(quiet.heartbeat_interval_ms, 500);
}

#[test]
fn a_partition_is_given_only_when_its_owner_has_given_it_back() {
    let mut bench = bench();
    let (mut a, mut b) = (client("a"), client("b"));
    a.beat(&mut bench).expect("joins");
    b.beat(&mut bench).expect("joins");
    assert_eq!((b.epoch, count(&b.owned)), (2, 0), "all are still a's");
    let told = a.ask(&mut bench).expect("lives");
    assert_eq!(told.epoch, 1, "it has to give back before it moves on");
    assert_eq!(told.assignment.as_ref().map(count), Some(3));
    b.beat(&mut bench).expect("lives");
    assert_eq!(count(&b.owned), 0, "told is not yet given back");
    assert_eq!(described(&mut bench).0, "Reconciling");
    a.heed(&told);
    a.beat(&mut bench).expect("has given back");
    assert_eq!(a.epoch, 2);
    b.beat(&mut bench).expect("lives");
    assert_eq!(count(&b.owned), 3);
    assert_eq!(described(&mut bench), ("Stable", 2));
}

#[test]
fn nothing_is_answered_before_the_log_has_it_and_a_failed_append_is_as_if_nothing_had_been() {
    let mut bench = bench();
    bench.prompt = false;
    let mut a = client("a");
    let first = a.send(&mut bench);
    assert_eq!(bench.answer(first), None);
    let second = client("b").send(&mut bench);
    bench.fail_one(AppendError::Unavailable);
    for token in [first, second] {
        let Some(Reply::ConsumerHeartbeat(Err(refusal))) = bench.answer(token) else {
            panic!("no refusal");
        };
        assert_eq!(refusal.error, ErrorCode::CoordinatorNotAvailable);
    }
    assert_eq!(
        bench.coordinator.consumers(0, GROUP),
        None,
        "no trace of it"
    );
    bench.prompt = true;
    a.beat(&mut bench).expect("joins");
    assert_eq!((a.epoch, count(&a.owned)), (1, 6));
}

#[test]
fn members_that_come_while_the_log_is_busy_are_let_in_by_one_epoch() {
    let mut bench = bench();
    bench.prompt = false;
    let mut clients: Vec<Client> = ["a", "b", "c", "d"].map(client).into();
    let tokens: Vec<_> = clients.iter_mut().map(|it| it.send(&mut bench)).collect();
    bench.commit_all();
    for (client, token) in clients.iter_mut().zip(tokens) {
        client.hear(&mut bench, token).expect("joins");
    }
    let epochs: Vec<i32> = clients.iter().map(|it| it.epoch).collect();
    assert_eq!(epochs, [1, 2, 2, 2]);
}

#[test]
fn a_member_that_leaves_or_falls_silent_makes_room_and_is_unknown_from_then_on() {
    let mut bench = bench();
    let (mut a, mut b, mut c) = (client("a"), client("b"), client("c"));
    settle(&mut bench, &mut [&mut a, &mut b, &mut c]);
    assert_eq!([&a, &b, &c].map(|it| count(&it.owned)), [2; 3]);
    c.leave(&mut bench, -1).expect("leaves");
    settle(&mut bench, &mut [&mut a, &mut b]);
    assert_eq!([&a, &b].map(|it| count(&it.owned)), [3; 2]);
    bench.pass(SESSION_MS / 2);
    a.beat(&mut bench).expect("lives");
    bench.pass(SESSION_MS / 2);
    settle(&mut bench, &mut [&mut a]);
    assert_eq!(count(&a.owned), 6, "b was silent for a session");
    let error = b.beat(&mut bench).expect_err("is out");
    assert_eq!(error, ErrorCode::UnknownMemberId);
    let epoch = a.epoch;
    a.leave(&mut bench, -1).expect("leaves");
    assert_eq!(described(&mut bench), ("Empty", epoch + 1));
}

#[test]
fn who_does_not_give_back_within_its_rebalance_timeout_is_out() {
    let mut bench = bench();
    let (mut a, mut b) = (client("a"), client("b"));
    settle(&mut bench, &mut [&mut a]);
    b.beat(&mut bench).expect("joins");
    for _ in 0..REBALANCE_TIMEOUT_MS / 1_000 {
        a.ask(&mut bench).expect("lives, and keeps what it has");
        b.beat(&mut bench).expect("lives");
        assert_eq!(count(&b.owned), 0);
        bench.pass(1_000);
    }
    let error = a.ask(&mut bench).expect_err("is out");
    assert_eq!(error, ErrorCode::UnknownMemberId);
    b.beat(&mut bench).expect("lives");
    assert_eq!(count(&b.owned), 6);
}

#[test]
fn epochs_fence_but_a_lost_answer_does_not() {
    let mut bench = bench();
    let mut a = client("a");
    settle(&mut bench, &mut [&mut a]);
    bench.topic("t", 8);
    let before = (a.epoch, a.owned.clone());
    a.beat(&mut bench).expect("moves on");
    let after = (a.epoch, a.owned.clone());
    assert_eq!((after.0, count(&after.1)), (before.0 + 1, 8));
    (a.epoch, a.owned) = before;
    a.says_all = true;
    a.beat(&mut bench).expect("its answer was lost");
    assert_eq!((a.epoch, a.owned.clone()), after);
    for wrong in [after.0 - 1, after.0 + 1] {
        // The epoch before with partitions that are not its own, and one that is yet to come.
        a.epoch = wrong;
        a.owned.entry([b'x'; 16]).or_default().insert(0);
        let error = a.beat(&mut bench).expect_err("is fenced");
        assert_eq!(error, ErrorCode::FencedMemberEpoch, "{wrong}");
    }
    let mut stranger = client("s");
    stranger.epoch = 1;
    let error = stranger.beat(&mut bench).expect_err("never joined");
    assert_eq!(error, ErrorCode::UnknownMemberId);
}

#[test]
fn commits_count_in_the_present_epoch_alone() {
    let mut bench = bench();
    let (mut a, mut b) = (client("a"), client("b"));
    settle(&mut bench, &mut [&mut a]);
    let old = a.epoch;
    settle(&mut bench, &mut [&mut a, &mut b]);
    let mut commit = |id: &str, epoch| {
        let token = bench.commit(id, epoch, 5);
        bench.committed(token)
    };
    assert_eq!(commit("a", old), ErrorCode::StaleMemberEpoch);
    assert_eq!(commit("a", a.epoch + 1), ErrorCode::StaleMemberEpoch);
    assert_eq!(commit("", -1), ErrorCode::UnknownMemberId);
    assert_eq!(commit("a", a.epoch), ErrorCode::None);
    a.leave(&mut bench, -1).expect("leaves");
    let late = bench.commit("a", a.epoch, 6);
    assert_eq!(bench.committed(late), ErrorCode::UnknownMemberId);
    b.leave(&mut bench, -1).expect("leaves");
    let from_outside = bench.commit("", -1, 7);
    assert_eq!(bench.committed(from_outside), ErrorCode::None);
    assert_eq!(bench.offset(), Some(7));
}

#[test]
fn a_static_member_that_comes_back_has_what_it_had_and_nobody_takes_its_place_meanwhile() {
    let mut bench = bench();
    let (mut a, mut b) = (client("a"), client("b"));
    b.instance_id = Some("i".into());
    settle(&mut bench, &mut [&mut a, &mut b]);
    let (epoch, had) = (b.epoch, b.owned.clone());
    let mut thief = client("thief");
    thief.instance_id = Some("i".into());
    let error = thief.beat(&mut bench).expect_err("the place is taken");
    assert_eq!(error, ErrorCode::UnreleasedInstanceId);
    b.leave(&mut bench, -2).expect("is away for a while");
    settle(&mut bench, &mut [&mut a]);
    assert_eq!((a.epoch, count(&a.owned)), (epoch, 3), "nothing has moved");
    let mut again = client("again");
    again.instance_id = Some("i".into());
    again.beat(&mut bench).expect("is back");
    assert_eq!((again.epoch, &again.owned), (epoch, &had));
    let error = b.beat(&mut bench).expect_err("is another now");
    assert_eq!(error, ErrorCode::FencedInstanceId);
    again.leave(&mut bench, -2).expect("is away again");
    bench.pass(SESSION_MS / 2);
    a.beat(&mut bench).expect("lives");
    bench.pass(SESSION_MS / 2);
    settle(&mut bench, &mut [&mut a]);
    assert_eq!(count(&a.owned), 6, "its session is over");
}

#[test]
fn topics_that_come_grow_and_go_move_the_group() {
    let mut bench = bench();
    let mut a = Client::new("a", &["t", "u"]);
    settle(&mut bench, &mut [&mut a]);
    assert_eq!((a.epoch, count(&a.owned)), (1, 6));
    bench.topic("other", 3);
    settle(&mut bench, &mut [&mut a]);
    assert_eq!(a.epoch, 1, "nobody reads that one");
    bench.topic("u", 2);
    settle(&mut bench, &mut [&mut a]);
    assert_eq!((a.epoch, count(&a.owned)), (2, 8));
    bench.topic("u", 4);
    settle(&mut bench, &mut [&mut a]);
    assert_eq!((a.epoch, count(&a.owned)), (3, 10));
    bench.delete_topic("t");
    settle(&mut bench, &mut [&mut a]);
    assert_eq!((a.epoch, count(&a.owned)), (4, 4));
}

#[test]
fn what_changed_while_the_coordinator_was_away_is_seen_when_it_is_back() {
    let mut bench = bench();
    let mut a = client("a");
    settle(&mut bench, &mut [&mut a]);
    bench.reload();
    settle(&mut bench, &mut [&mut a]);
    assert_eq!(a.epoch, 1, "nothing has changed");
    bench.topics.get_mut("t").expect("is there").1 = 7;
    bench.reload();
    settle(&mut bench, &mut [&mut a]);
    assert_eq!((a.epoch, count(&a.owned)), (2, 7));
}

#[test]
fn a_regular_expression_stands_for_whole_names_and_for_topics_to_come() {
    let mut bench = bench();
    bench.topic("ax", 1);
    bench.topic("bax", 1);
    let mut a = Client::new("a", &[]);
    a.topic_regex = Some("a.|t".into());
    settle(&mut bench, &mut [&mut a]);
    assert_eq!(a.topics(), ["ax", "t"]);
    bench.topic("c1", 1);
    settle(&mut bench, &mut [&mut a]);
    assert_eq!(a.epoch, 1);
    a.topic_regex = Some("c.*".into());
    a.says_all = true;
    settle(&mut bench, &mut [&mut a]);
    assert_eq!(a.topics(), ["c1"]);
    bench.topic("cat", 2);
    bench.topic("dog", 2);
    settle(&mut bench, &mut [&mut a]);
    assert_eq!(a.topics(), ["c1", "cat"]);
    let last = bench.log.iter().rev().find_map(|record| match record {
        GroupRecord::Consumer {
            record: ConsumerRecord::RegularExpression(regex, value),
            ..
        } => Some((regex.clone(), value.clone())),
        _ => None,
    });
    let (regex, value) = last.expect("it is in the log");
    assert_eq!(regex, "c.*");
    assert_eq!(value.expect("resolved").topics, ["c1", "cat"]);
    let mut b = client("b");
    b.topic_regex = Some("a)|(b".into());
    let error = b.beat(&mut bench).expect_err("is no expression");
    assert_eq!(error, ErrorCode::InvalidRegularExpression);
}

/// A heartbeat that joins, with something wrong about it.
fn wrong(change: impl FnOnce(&mut ConsumerHeartbeat)) -> ConsumerHeartbeat {
    let mut request = client("a").request();
    change(&mut request);
    request
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let invalid = ErrorCode::InvalidRequest;
    let cases = [
        (wrong(|it| it.rebalance_timeout_ms = -1), invalid),
        (wrong(|it| it.owned = None), invalid),
        (wrong(|it| it.topic_names = None), invalid),
        (wrong(|it| it.member_id = String::new()), invalid),
        (wrong(|it| it.instance_id = Some(String::new())), invalid),
        (wrong(|it| it.epoch = -3), invalid),
        (wrong(|it| it.epoch = -2), invalid),
        (
            wrong(|it| it.server_assignor = Some("sticky".into())),
            ErrorCode::UnsupportedAssignor,
        ),
        (wrong(|it| it.epoch = 4), ErrorCode::GroupIdNotFound),
    ];
    let mut bench = bench();
    for (request, expected) in cases {
        let token = bench.ask(Request::ConsumerHeartbeat(request.clone()));
        let Some(Reply::ConsumerHeartbeat(Err(refusal))) = bench.answer(token) else {
            panic!("{request:?} was let in");
        };
        assert_eq!(refusal.error, expected, "{request:?}");
    }
}

#[test]
fn each_text_that_a_member_sends_counts_as_memory() {
    let bytes = |change: fn(&mut ConsumerHeartbeat)| {
        let mut bench = bench();
        bench.ask(Request::ConsumerHeartbeat(wrong(change)));
        bench.coordinator.bytes()
    };
    let plain = bytes(|_| ());
    let texts: [fn(&mut ConsumerHeartbeat); 4] = [
        |it| it.rack_id = Some("r".repeat(10_000)),
        |it| it.instance_id = Some("i".repeat(10_000)),
        |it| it.client_id = "c".repeat(10_000),
        |it| it.client_host = "h".repeat(10_000),
    ];
    for text in texts {
        assert!(bytes(text) >= plain + 10_000);
    }
}

#[test]
fn a_group_takes_as_many_members_as_it_may_have() {
    let mut few = settings();
    few.consumer.size_max = 1;
    let mut bench = Bench::with(few);
    bench.topic("t", 1);
    let mut a = client("a");
    a.beat(&mut bench).expect("joins");
    let error = client("b").beat(&mut bench).expect_err("is one too many");
    assert_eq!(error, ErrorCode::GroupMaxSizeReached);
    a.beat(&mut bench).expect("is in");
}

#[test]
fn an_operator_removes_members_and_deletes_what_is_empty() {
    let mut bench = bench();
    let (mut a, mut b) = (client("a"), client("b"));
    b.instance_id = Some("i".into());
    settle(&mut bench, &mut [&mut a, &mut b]);
    let delete = |bench: &mut Bench| {
        let token = bench.ask(Request::Delete(GROUP.into()));
        bench.answer(token)
    };
    let non_empty = Some(Reply::Delete(ErrorCode::NonEmptyGroup));
    assert_eq!(delete(&mut bench), non_empty);
    let by_instance = identity("", Some("i"));
    let token = bench.ask(Request::Leave(Leave {
        group: GROUP.into(),
        members: vec![
            by_instance.clone(),
            by_instance,
            Identity::default(),
            identity("a", None),
        ],
    }));
    let unknown = ErrorCode::UnknownMemberId;
    let expected = vec![ErrorCode::None, unknown, unknown, ErrorCode::None];
    assert_eq!(bench.answer(token), Some(Reply::Leave(Ok(expected))));
    let token = bench.commit("", -1, 3);
    assert_eq!(bench.committed(token), ErrorCode::None);
    assert_eq!(delete(&mut bench), Some(Reply::Delete(ErrorCode::None)));
    assert_eq!(bench.offset(), None);
    bench.reload();
    assert_eq!(bench.coordinator.list().0, []);
}

#[test]
fn a_group_that_is_not_there_is_told_apart_from_one_of_the_other_kind() {
    let mut bench = bench();
    let refusal = |bench: &mut Bench| {
        let token = bench.ask(Request::DescribeConsumers(GROUP.into()));
        match bench.answer(token) {
            Some(Reply::DescribeConsumers(Err(refusal))) => refusal,
            other => panic!("no refusal: {other:?}"),
        }
    };
    let says = |text| Refusal::new(ErrorCode::GroupIdNotFound, text);
    let missing = says(format!("Group {GROUP} not found."));
    assert_eq!(refusal(&mut bench), missing);
    bench.commit("", -1, 5);
    bench.commit_all();
    let classic = says(format!("Group {GROUP} is not a consumer group."));
    assert_eq!(refusal(&mut bench), classic);
}

#[test]
fn an_empty_group_changes_its_kind_and_keeps_its_offsets() {
    let mut bench = bench();
    let (ids, generation) = bench.stable(1);
    let token = bench.commit(&ids[0], generation, 9);
    assert_eq!(bench.committed(token), ErrorCode::None);
    let mut a = client("a");
    let error = a.beat(&mut bench).expect_err("has classic members");
    assert_eq!(error, ErrorCode::GroupIdNotFound);
    bench.leave(&[(&ids[0], None)]);
    a.beat(&mut bench).expect("joins");
    assert_eq!((a.epoch, bench.offset()), (1, Some(9)));
    bench.reload();
    a.beat(&mut bench).expect("is still a member");
    let refused = bench.join("", None);
    let refused = bench.joined(refused).error;
    assert_eq!(refused, Some(ErrorCode::InconsistentGroupProtocol));
    a.leave(&mut bench, -1).expect("leaves");
    bench.stable(1);
    assert_eq!(bench.offset(), Some(9));
    bench.reload();
    assert_eq!(bench.state(), "Stable", "it is a classic one again");
}

#[test]
fn a_group_whose_end_the_log_does_not_take_is_what_it_was() {
    let mut bench = bench();
    let mut a = client("a");
    a.beat(&mut bench).expect("joins");
    a.leave(&mut bench, -1).expect("leaves");
    bench.prompt = false;
    bench.pass(settings().retention_check_interval_ms);
    let early = bench.join("", None);
    bench.fail_one(AppendError::Unavailable);
    let early = bench.joined(early).error;
    assert_eq!(early, Some(ErrorCode::CoordinatorNotAvailable));
    bench.prompt = true;
    let mut b = client("b");
    b.beat(&mut bench).expect("joins");
    assert_eq!(b.epoch, 3, "epochs go on from where they were");
}

#[test]
fn a_change_of_kind_that_the_log_does_not_take_leaves_the_group_and_its_epoch_as_they_were() {
    let mut bench = bench();
    let mut a = client("a");
    a.beat(&mut bench).expect("joins");
    a.leave(&mut bench, -1).expect("leaves");
    bench.prompt = false;
    let first = bench.join("", None);
    bench.fail_one(AppendError::Unavailable);
    let refused = bench.joined(first).error;
    assert_eq!(refused, Some(ErrorCode::CoordinatorNotAvailable));
    bench.prompt = true;
    let mut b = client("b");
    b.beat(&mut bench).expect("joins");
    assert_eq!(b.epoch, 3, "epochs go on from where they were");
    b.leave(&mut bench, -1).expect("leaves");
    let token = bench.ask(Request::Delete(GROUP.into()));
    assert_eq!(bench.answer(token), Some(Reply::Delete(ErrorCode::None)));
    bench.reload();
    assert_eq!(bench.coordinator.list().0, []);
}

#[test]
fn a_member_that_has_something_else_than_it_was_told_is_told_again() {
    let mut bench = bench();
    let (mut a, mut b) = (client("a"), client("b"));
    a.beat(&mut bench).expect("joins");
    b.beat(&mut bench).expect("joins");
    let lost = a.ask(&mut bench).expect("lives");
    assert_eq!(lost.assignment.as_ref().map(count), Some(3));
    let again = a.ask(&mut bench).expect("lives");
    assert_eq!(again.assignment, lost.assignment);
}

#[test]
fn offsets_of_topics_that_members_read_stay_and_an_empty_group_is_forgotten_in_time() {
    let mut bench = bench();
    let mut a = client("a");
    settle(&mut bench, &mut [&mut a]);
    let token = bench.commit("a", a.epoch, 5);
    assert_eq!(bench.committed(token), ErrorCode::None);
    let delete = Request::DeleteOffsets(GROUP.into(), vec![("t".into(), vec![0])]);
    let token = bench.ask(delete);
    let subscribed = vec![vec![ErrorCode::GroupSubscribedToTopic]];
    let refused = Some(Reply::DeleteOffsets(Ok(subscribed)));
    assert_eq!(bench.answer(token), refused);
    let retention_ms = settings().retention_ms.unsigned_abs();
    for _ in 0..2 * retention_ms / (SESSION_MS / 2) {
        bench.pass(SESSION_MS / 2);
        a.beat(&mut bench).expect("lives");
    }
    assert_eq!(bench.offset(), Some(5), "it is read");
    a.leave(&mut bench, -1).expect("leaves");
    bench.pass(settings().retention_check_interval_ms);
    assert_eq!(bench.offset(), None, "nobody has committed for long");
    assert_eq!(bench.coordinator.list().0, []);
    bench.reload();
    assert_eq!(bench.coordinator.list().0, []);
}
