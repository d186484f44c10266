//! Promises of groups that change their protocol while they have members, both ways, with members of both
//! kinds meanwhile.

mod client;
mod random;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use wire::ErrorCode;
use wire::group_records::{ConsumerRecord, GroupRecord, GroupValue, MemberValue};

use self::client::{Classic, PARTITIONS, Stage, TOPIC, subscription};
use super::super::consumer::MigrationPolicy;
use super::super::request::{ConsumerDescription, Join, Leave, ListedGroup, Reply, Request};
use super::super::turn::batches;
use super::super::{AppendError, Settings};
use super::consumers::client::{Client, count};
use super::harness::*;

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.topic(TOPIC, PARTITIONS);
    bench
}

fn client(id: &str) -> Client {
    Client::new(id, &[TOPIC])
}

/// Everybody does what comes next, again and again, until nothing moves; no two ever have one partition.
fn settle(bench: &mut Bench, classics: &mut [&mut Classic], clients: &mut [&mut Client]) {
    for _ in 0..30 {
        for member in classics.iter_mut() {
            member.act(bench).expect("goes on");
        }
        for client in clients.iter_mut() {
            client.beat(bench).expect("is a member");
        }
        bench.pass(300);
        assert_no_two_have_one(classics, clients);
    }
    let shared = classics.iter().map(|it| it.owned.len()).sum::<usize>();
    let shared = shared + clients.iter().map(|it| count(&it.owned)).sum::<usize>();
    assert_eq!(shared, PARTITIONS as usize, "all is shared out");
    assert!(classics.iter().all(|it| it.stage == Stage::Member));
}

fn assert_no_two_have_one(classics: &[&mut Classic], clients: &[&mut Client]) {
    let mut owners: BTreeMap<i32, &str> = BTreeMap::new();
    let by_classic = classics
        .iter()
        .flat_map(|it| it.owned.iter().map(|index| (*index, &*it.id)));
    let by_client = clients.iter().flat_map(|it| {
        let owned = it.owned.values().flatten();
        owned.map(|index| (*index, &*it.id))
    });
    for (index, owner) in by_classic.chain(by_client) {
        let other = owners.insert(index, owner);
        assert_eq!(other, None, "{index} is {owner}'s too");
    }
}

fn shares(classics: &[&Classic], clients: &[&Client]) -> Vec<usize> {
    let classics = classics.iter().map(|it| it.owned.len());
    classics
        .chain(clients.iter().map(|it| count(&it.owned)))
        .collect()
}

/// A stable group of two members by the classic protocol.
fn pair(bench: &mut Bench) -> (Classic, Classic) {
    let (mut a, mut b) = (Classic::new(), Classic::new());
    settle(bench, &mut [&mut a, &mut b], &mut []);
    assert_eq!(shares(&[&a, &b], &[]), [3, 3]);
    (a, b)
}

/// The same, and one by the new protocol.
fn mixed(bench: &mut Bench) -> (Classic, Classic, Client) {
    let (mut a, mut b) = pair(bench);
    let mut c = client("c");
    settle(bench, &mut [&mut a, &mut b], &mut [&mut c]);
    assert_eq!(shares(&[&a, &b], &[&c]), [2, 2, 2]);
    (a, b, c)
}

fn listed(bench: &Bench) -> (&'static str, &'static str) {
    let (groups, _) = bench.coordinator.list();
    let [
        ListedGroup {
            group_type, state, ..
        },
    ] = &groups[..]
    else {
        panic!("not one group: {groups:?}");
    };
    (group_type, state)
}

fn described(bench: &mut Bench) -> Result<ConsumerDescription, ErrorCode> {
    let token = bench.ask(Request::DescribeConsumers(GROUP.into()));
    match bench.answer(token) {
        Some(Reply::DescribeConsumers(reply)) => reply.map_err(|it| it.error),
        other => panic!("no description: {other:?}"),
    }
}

fn committed(bench: &mut Bench, id: &str, epoch: i32, offset: i64) -> ErrorCode {
    let token = bench.commit(id, epoch, offset);
    bench.committed(token)
}

#[test]
fn a_member_by_the_new_protocol_makes_a_group_of_consumers_of_those_by_the_classic_one() {
    let mut bench = bench();
    let (mut a, mut b) = pair(&mut bench);
    let generation = a.generation;
    let mut c = client("c");
    c.beat(&mut bench).expect("joins");
    assert_eq!(c.epoch, generation + 1, "epochs go on from generations");
    assert_eq!(count(&c.owned), 0, "all is still the others'");
    assert_eq!(listed(&bench), ("consumer", "Reconciling"));
    assert_eq!(bench.state(), "Dead", "it is no classic group");
    let group = described(&mut bench).expect("is a consumer group");
    assert_eq!(group.epoch, generation + 1);
    let classic = |id: &str| {
        let mut members = group.members.iter();
        let member = members.find(|it| it.member_id == id).expect("a member");
        let classic = member.said.classic.as_ref();
        (
            member.epoch,
            count(&member.assigned),
            classic.map(|it| it.session_timeout_ms),
        )
    };
    assert_eq!(classic(&a.id), (generation, 3, Some(SESSION_MS as i32)));
    assert_eq!(classic("c"), (generation + 1, 0, None));
    assert_eq!(a.heartbeat(&mut bench), ErrorCode::RebalanceInProgress);
    settle(&mut bench, &mut [&mut a, &mut b], &mut [&mut c]);
    assert_eq!(shares(&[&a, &b], &[&c]), [2, 2, 2]);
    assert_eq!((a.generation, b.generation), (c.epoch, c.epoch));
    assert_eq!(a.heartbeat(&mut bench), ErrorCode::None);
    assert_eq!(listed(&bench), ("consumer", "Stable"));
}

#[test]
fn cooperative_members_give_back_only_what_others_get() {
    let mut bench = bench();
    let (mut a, mut b) = (Classic::cooperative(), Classic::cooperative());
    settle(&mut bench, &mut [&mut a, &mut b], &mut []);
    let before = [a.owned.clone(), b.owned.clone()];
    let mut c = client("c");
    settle(&mut bench, &mut [&mut a, &mut b], &mut [&mut c]);
    assert_eq!(shares(&[&a, &b], &[&c]), [2, 2, 2]);
    assert!(a.owned.is_subset(&before[0]) && b.owned.is_subset(&before[1]));
    c.leave(&mut bench, -1).expect("leaves");
    settle(&mut bench, &mut [&mut a, &mut b], &mut []);
    assert_eq!(shares(&[&a, &b], &[]), [3, 3]);
}

#[test]
fn what_a_member_is_still_to_give_back_is_nobody_else_s_over_a_change() {
    let mut bench = bench();
    let (mut a, mut b) = (Classic::cooperative(), Classic::cooperative());
    settle(&mut bench, &mut [&mut a, &mut b], &mut []);
    let mut c = client("c");
    c.beat(&mut bench).expect("joins");
    a.act(&mut bench).expect("is told to join again");
    a.act(&mut bench).expect("joins");
    assert_eq!((a.stage, a.owned.len()), (Stage::Joined, 3));
    c.leave(&mut bench, -1).expect("leaves");
    assert_eq!(listed(&bench).0, "classic");
    let mut d = client("d");
    for _ in 0..4 {
        d.beat(&mut bench).expect("is a member");
        assert_no_two_have_one(&[&mut a, &mut b], &[&mut d]);
    }
}

#[test]
fn what_a_member_has_still_though_it_was_not_given_it_again_is_nobody_else_s_over_a_change() {
    let mut bench = bench();
    let (mut a, mut b) = (Classic::cooperative(), Classic::cooperative());
    settle(&mut bench, &mut [&mut a, &mut b], &mut []);
    // A generation in which nobody is given anything, which a does not hear of.
    let request = a.join_request(0);
    let joins = bench.ask(Request::Join(request));
    b.act(&mut bench).expect("is told to join again");
    b.act(&mut bench).expect("joins");
    let generation = bench.joined(joins).generation;
    bench.sync(&a.id, generation, &[]);
    bench.sync(&b.id, generation, &[]);
    assert_eq!(bench.state(), "Stable");
    let mut c = client("c");
    for _ in 0..4 {
        c.beat(&mut bench).expect("is a member");
        assert_no_two_have_one(&[&mut a], &[&mut c]);
    }
}

#[test]
fn when_the_last_member_by_the_new_protocol_leaves_the_others_go_on_by_the_classic_one() {
    let mut bench = bench();
    let (mut a, mut b, mut c) = mixed(&mut bench);
    let epoch = c.epoch;
    c.leave(&mut bench, -1).expect("leaves");
    assert_eq!(listed(&bench), ("classic", "PreparingRebalance"));
    let told = a.heartbeat(&mut bench);
    assert_eq!(told, ErrorCode::RebalanceInProgress, "not fenced: {epoch}");
    settle(&mut bench, &mut [&mut a, &mut b], &mut []);
    assert_eq!(shares(&[&a, &b], &[]), [3, 3]);
    assert_eq!(a.generation, epoch + 1, "generations go on from epochs");
    assert_eq!(bench.state(), "Stable");
    let error = described(&mut bench).expect_err("is no consumer group");
    assert_eq!(error, ErrorCode::GroupIdNotFound);
    bench.reload();
    assert_eq!(
        (listed(&bench), bench.state()),
        (("classic", "Stable"), "Stable")
    );
    assert_eq!(a.heartbeat(&mut bench), ErrorCode::None);
}

#[test]
fn when_the_last_member_by_the_new_protocol_falls_silent_the_others_go_on_by_the_classic_one() {
    let mut bench = bench();
    let (mut a, mut b, _silent) = mixed(&mut bench);
    for _ in 0..SESSION_MS / 1_000 + 1 {
        bench.pass(1_000);
        a.act(&mut bench).expect("lives");
        b.act(&mut bench).expect("lives");
    }
    assert_eq!(listed(&bench).0, "classic");
    settle(&mut bench, &mut [&mut a, &mut b], &mut []);
    assert_eq!(shares(&[&a, &b], &[]), [3, 3]);
}

#[test]
fn no_commit_is_lost_on_the_way_and_back_and_late_ones_do_not_count() {
    let mut bench = bench();
    let (mut a, mut b) = pair(&mut bench);
    let (id, old) = (a.id.clone(), a.generation);
    assert_eq!(committed(&mut bench, &id, old, 1), ErrorCode::None);
    let mut c = client("c");
    c.beat(&mut bench).expect("joins");
    let before_it_joins_again = committed(&mut bench, &id, old, 2);
    assert_eq!(before_it_joins_again, ErrorCode::None, "its own still");
    settle(&mut bench, &mut [&mut a, &mut b], &mut [&mut c]);
    let late = committed(&mut bench, &id, old, 3);
    assert_eq!(late, ErrorCode::IllegalGeneration);
    assert_eq!(committed(&mut bench, &id, a.generation, 4), ErrorCode::None);
    bench.reload();
    assert_eq!(bench.offset(), Some(4));
    let epoch = a.generation;
    c.leave(&mut bench, -1).expect("leaves");
    assert_eq!(committed(&mut bench, &id, epoch, 5), ErrorCode::None);
    settle(&mut bench, &mut [&mut a, &mut b], &mut []);
    let late = committed(&mut bench, &id, epoch, 6);
    assert_eq!(late, ErrorCode::IllegalGeneration);
    bench.reload();
    assert_eq!(bench.offset(), Some(5));
}

#[test]
fn a_group_on_its_way_is_what_the_log_says_after_a_reload() {
    let mut bench = bench();
    let (mut a, mut b) = pair(&mut bench);
    let mut c = client("c");
    c.beat(&mut bench).expect("joins");
    bench.reload();
    settle(&mut bench, &mut [&mut a, &mut b], &mut [&mut c]);
    bench.reload();
    assert_eq!(a.heartbeat(&mut bench), ErrorCode::None);
    assert_eq!(listed(&bench), ("consumer", "Stable"));
    // Sessions are still their own: twice as long as those of the new protocol.
    let join = Join {
        session_timeout_ms: 2 * SESSION_MS as i32,
        ..b.join_request(0)
    };
    bench.ask(Request::Join(join));
    bench.reload();
    bench.pass(SESSION_MS / 2);
    c.beat(&mut bench).expect("lives");
    bench.pass(SESSION_MS / 2);
    let group = described(&mut bench).expect("has members");
    let mut ids: Vec<&str> = group.members.iter().map(|it| &*it.member_id).collect();
    ids.sort_unstable_by_key(|id| *id != b.id);
    assert_eq!(ids, [&*b.id, "c"], "a was silent for a session");
}

#[test]
fn nothing_of_a_change_is_told_before_the_log_has_it() {
    let mut bench = bench();
    let (a, _b) = pair(&mut bench);
    bench.prompt = false;
    let mut c = client("c");
    let joins = c.send(&mut bench);
    assert_eq!(bench.answer(joins), None);
    assert_eq!(
        (listed(&bench), bench.state()),
        (("classic", "Stable"), "Stable")
    );
    let late = bench.commit(&a.id, a.generation, 7);
    bench.commit_all();
    c.hear(&mut bench, joins).expect("joins");
    assert_eq!(bench.committed(late), ErrorCode::None);
    assert_eq!(listed(&bench).0, "consumer");
    bench.prompt = true;
    let (mut a, mut b) = (a, _b);
    settle(&mut bench, &mut [&mut a, &mut b], &mut [&mut c]);
    bench.prompt = false;
    let goodbye = bench.ask(Request::Leave(Leave {
        group: GROUP.into(),
        members: vec![identity("c", None)],
    }));
    assert_eq!(bench.answer(goodbye), None);
    assert_eq!(listed(&bench), ("consumer", "Stable"));
    bench.commit_all();
    assert_eq!(listed(&bench), ("classic", "PreparingRebalance"));
}

#[test]
fn a_change_that_the_log_does_not_take_leaves_the_group_as_it_was() {
    let mut bench = bench();
    let (mut a, mut b) = pair(&mut bench);
    bench.prompt = false;
    let mut c = client("c");
    let joins = c.send(&mut bench);
    bench.fail_one(AppendError::Unavailable);
    let refused = c.hear(&mut bench, joins).expect_err("is refused");
    assert_eq!(refused, ErrorCode::CoordinatorNotAvailable);
    assert_eq!(
        (listed(&bench), bench.state()),
        (("classic", "Stable"), "Stable")
    );
    assert_eq!(a.heartbeat(&mut bench), ErrorCode::None);
    bench.prompt = true;
    settle(&mut bench, &mut [&mut a, &mut b], &mut [&mut c]);
    let epoch = c.epoch;
    bench.prompt = false;
    let goodbye = bench.ask(Request::Leave(Leave {
        group: GROUP.into(),
        members: vec![identity("c", None)],
    }));
    bench.fail_one(AppendError::Unavailable);
    let refused = Reply::Leave(Err(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(bench.answer(goodbye), Some(refused));
    bench.prompt = true;
    assert_eq!(listed(&bench), ("consumer", "Stable"));
    assert_eq!(a.heartbeat(&mut bench), ErrorCode::None);
    settle(&mut bench, &mut [&mut a, &mut b], &mut [&mut c]);
    assert_eq!(c.epoch, epoch, "nothing has moved");
    bench.reload();
    assert_eq!(listed(&bench), ("consumer", "Stable"));
}

#[test]
fn no_member_s_time_runs_out_while_a_change_is_on_its_way_to_the_log() {
    let mut bench = bench();
    let (mut a, mut b) = pair(&mut bench);
    bench.prompt = false;
    let mut c = client("c");
    let joins = c.send(&mut bench);
    bench.pass(3 * SESSION_MS);
    assert_eq!(bench.pending.len(), 1, "nothing else is decided meanwhile");
    bench.fail_one(AppendError::Unavailable);
    c.hear(&mut bench, joins).expect_err("is refused");
    bench.pass(SESSION_MS - 1);
    for member in [&a, &b] {
        let told = member.heartbeat(&mut bench);
        assert_eq!(told, ErrorCode::None, "its session begins anew");
    }
    bench.prompt = true;
    settle(&mut bench, &mut [&mut a, &mut b], &mut [&mut c]);
    bench.prompt = false;
    bench.ask(Request::Leave(Leave {
        group: GROUP.into(),
        members: vec![identity("c", None)],
    }));
    bench.pass(3 * SESSION_MS);
    assert_eq!(bench.pending.len(), 1, "nothing else is decided meanwhile");
    bench.commit_all();
    bench.pass(SESSION_MS - 1);
    for member in [&a, &b] {
        let told = member.heartbeat(&mut bench);
        assert_eq!(told, ErrorCode::RebalanceInProgress, "and here");
    }
    assert_eq!(listed(&bench), ("classic", "PreparingRebalance"));
}

#[test]
fn whoever_waits_for_a_rebalance_joins_the_group_of_consumers_instead() {
    let mut bench = bench();
    let (mut a, mut b) = pair(&mut bench);
    let mut d = Classic::new();
    d.act(&mut bench).expect("is given an id");
    d.act(&mut bench).expect("waits for the others");
    let mut c = client("c");
    bench.prompt = false;
    let joins = c.send(&mut bench);
    d.hear(&mut bench).expect("is not answered");
    assert!(matches!(d.stage, Stage::Joining(_)), "{:?}", d.stage);
    bench.prompt = true;
    bench.commit_all();
    c.hear(&mut bench, joins).expect("joins");
    d.hear(&mut bench).expect("is told to join again");
    assert_eq!(d.stage, Stage::Out);
    let clients = &mut [&mut c];
    settle(&mut bench, &mut [&mut a, &mut b, &mut d], clients);
    let group = described(&mut bench).expect("has members");
    assert_eq!(group.members.len(), 4, "{group:?}");
}

#[test]
fn a_group_changes_its_protocol_only_as_the_policy_allows() {
    let with = |migration| {
        let mut settings = settings();
        settings.consumer.migration = migration;
        settings
    };
    for (policy, up, down) in [
        (MigrationPolicy::Disabled, false, false),
        (MigrationPolicy::Upgrade, true, false),
        (MigrationPolicy::Downgrade, false, true),
        (MigrationPolicy::Bidirectional, true, true),
    ] {
        let mut bench = Bench::with(with(policy));
        bench.topic(TOPIC, PARTITIONS);
        pair(&mut bench);
        let joined = client("c").beat(&mut bench);
        assert_eq!(joined.is_ok(), up, "{policy:?}: {joined:?}");
        let mut bench = super::migration::bench();
        let (a, _, mut c) = mixed(&mut bench);
        bench.reload_with(with(policy));
        c.leave(&mut bench, -1).expect("leaves");
        let group_type = if down { "classic" } else { "consumer" };
        assert_eq!(listed(&bench).0, group_type, "{policy:?}");
        let told = a.heartbeat(&mut bench);
        assert_eq!(told, ErrorCode::RebalanceInProgress, "{policy:?}");
    }
}

/// A stable group of one member that joined so and was given that; then one by the new protocol would join.
fn refused(settings: Settings, change: impl FnOnce(&mut Join), gives: &str) -> Option<ErrorCode> {
    let mut bench = Bench::with(settings);
    bench.topic(TOPIC, PARTITIONS);
    let mut request = Classic::new().join_request(0);
    change(&mut request);
    let token = bench.ask(Request::Join(request));
    bench.pass(2 * DELAY_MS);
    let joined = bench.joined(token);
    bench.sync(
        &joined.member_id,
        joined.generation,
        &[(&joined.member_id, gives)],
    );
    assert_eq!(bench.state(), "Stable");
    let result = client("c").beat(&mut bench);
    let kept = if result.is_ok() { "Dead" } else { "Stable" };
    assert_eq!(bench.state(), kept);
    result.err()
}

#[test]
fn only_consumers_whose_words_can_be_read_become_members_of_a_group_of_consumers() {
    let not_found = Some(ErrorCode::GroupIdNotFound);
    let nothing = "\0\0\0\0\0\0\0\0\0\0";
    assert_eq!(refused(settings(), |_| (), nothing), None);
    assert_eq!(refused(settings(), |_| (), ""), None);
    assert_eq!(refused(settings(), |_| (), "what?"), not_found);
    let more = "\0\0\0\0\0\0\0\0\0\x01x";
    assert_eq!(refused(settings(), |_| (), more), not_found, "user data");
    let unreadable = |it: &mut Join| it.protocols[0].1 = Bytes::from_static(b"what?");
    assert_eq!(refused(settings(), unreadable, nothing), not_found);
    let workers = |it: &mut Join| it.protocol_type = "connect".into();
    assert_eq!(refused(settings(), workers, nothing), not_found);
    let mut few = settings();
    few.consumer.size_max = 0;
    assert_eq!(refused(few, |_| (), nothing), not_found);
    let mut few = settings();
    few.consumer.size_max = 1;
    let full = Some(ErrorCode::GroupMaxSizeReached);
    assert_eq!(refused(few, |_| (), nothing), full, "no room for one more");
}

#[test]
fn a_group_with_more_members_than_a_classic_one_may_have_stays_one_of_consumers() {
    let mut bench = bench();
    let (mut a, mut b, mut c) = mixed(&mut bench);
    let mut few = settings();
    few.size_max = 1;
    bench.reload_with(few);
    c.leave(&mut bench, -1).expect("leaves");
    settle(&mut bench, &mut [&mut a, &mut b], &mut []);
    assert_eq!(listed(&bench), ("consumer", "Stable"));
    bench.leave(&[(&a.id, None)]);
    assert_eq!(listed(&bench).0, "classic", "there is room for one");
    settle(&mut bench, &mut [&mut b], &mut []);
}

#[test]
fn a_static_member_takes_its_place_by_the_other_protocol_and_keeps_what_it_has() {
    let mut bench = bench();
    let (mut a, mut b) = (Classic::static_one("i"), Classic::new());
    settle(&mut bench, &mut [&mut a, &mut b], &mut []);
    let mut c = client("c");
    c.instance_id = Some("i".into());
    settle(&mut bench, &mut [&mut b], &mut [&mut c]);
    assert_eq!(shares(&[&b], &[&c]), [3, 3]);
    let error = a.heartbeat(&mut bench);
    assert_eq!(error, ErrorCode::FencedInstanceId, "it is another now");
    let mut again = Classic::static_one("i");
    again.act(&mut bench).expect("takes its place");
    assert_eq!(listed(&bench).0, "classic", "nobody is left by the new one");
    settle(&mut bench, &mut [&mut b, &mut again], &mut []);
    assert_eq!(shares(&[&b, &again], &[]), [3, 3]);
    let error = c.beat(&mut bench).expect_err("is no member");
    assert_eq!(error, ErrorCode::GroupIdNotFound);
}

#[test]
fn who_does_not_join_again_or_does_not_ask_for_what_it_has_in_time_is_out() {
    let mut bench = bench();
    let (mut a, mut b) = pair(&mut bench);
    let mut c = client("c");
    c.beat(&mut bench).expect("joins");
    b.act(&mut bench).expect("is told to join again");
    b.act(&mut bench).expect("joins, and asks for nothing");
    assert_eq!(b.stage, Stage::Joined);
    for _ in 0..REBALANCE_MS / 5_000 {
        let told = a.heartbeat(&mut bench);
        assert_eq!(told, ErrorCode::RebalanceInProgress, "and does not");
        let beats = b.heartbeat(&mut bench);
        assert_ne!(beats, ErrorCode::UnknownMemberId);
        c.beat(&mut bench).expect("lives");
        bench.pass(5_000);
    }
    let group = described(&mut bench).expect("has members");
    let ids: Vec<&str> = group.members.iter().map(|it| &*it.member_id).collect();
    assert_eq!(ids, ["c"]);
    settle(&mut bench, &mut [], &mut [&mut c]);
    let error = a.act(&mut bench).expect_err("is out");
    assert_eq!(error, ErrorCode::UnknownMemberId);
}

#[test]
fn a_member_by_the_classic_protocol_joins_a_group_of_consumers_only_with_words_that_all_know() {
    let mut bench = bench();
    let (a, _b, _c) = mixed(&mut bench);
    let mut join = |change: &dyn Fn(&mut Join)| {
        let mut request = Classic::new().join_request(0);
        change(&mut request);
        let token = bench.ask(Request::Join(request));
        bench.joined(token)
    };
    let inconsistent = Some(ErrorCode::InconsistentGroupProtocol);
    let workers = join(&|it| it.protocol_type = "connect".into());
    assert_eq!(workers.error, inconsistent);
    let stranger = join(&|it| it.protocols[0].0 = "sticky".into());
    assert_eq!(stranger.error, inconsistent);
    let unreadable = join(&|it| it.protocols[0].1 = Bytes::from_static(b"what?"));
    assert_eq!(unreadable.error, inconsistent);
    let thief = join(&|it| it.identity.member_id = "c".into());
    assert_eq!(
        thief.error,
        Some(ErrorCode::UnknownMemberId),
        "another's id"
    );
    let lost = join(&|it| it.identity = identity("x", Some("i")));
    assert_eq!(lost.error, Some(ErrorCode::UnknownMemberId));
    let careful = join(&|it| it.id_required = true);
    assert_eq!(careful.error, Some(ErrorCode::MemberIdRequired));
    let came_back = join(&|it| it.identity.member_id.clone_from(&careful.member_id));
    assert_eq!(
        (came_back.error, came_back.member_id),
        (None, careful.member_id)
    );
    assert_eq!(came_back.generation, a.generation + 1);
    assert_eq!(came_back.protocol.as_deref(), Some("range"));
    assert!(came_back.members.is_empty(), "nobody leads");
}

#[test]
fn what_members_read_by_the_classic_protocol_is_shared_out_like_all_else() {
    let mut bench = bench();
    bench.topic("u", 2);
    let (mut a, mut b, mut c) = mixed(&mut bench);
    let epoch = c.epoch;
    let nothing = Default::default();
    let reads_both = Join {
        protocols: vec![("range".into(), subscription(&["u", TOPIC], &nothing))],
        ..a.join_request(0)
    };
    let token = bench.ask(Request::Join(reads_both));
    assert_eq!(bench.joined(token).generation, epoch + 1, "reads more");
    let group = described(&mut bench).expect("has members");
    let member = group.members.iter().find(|it| it.member_id == a.id);
    let member = member.expect("a member");
    assert_eq!(member.said.topic_names, [TOPIC, "u"]);
    let of_u = member.target.iter().find(|(topic, _)| topic[0] == b'u');
    assert_eq!(of_u.map(|it| it.1.len()), Some(2), "u is only its own");
    // Grows while it is a mixed group: members by the classic protocol are told.
    a.stage = Stage::Out;
    settle(&mut bench, &mut [&mut a, &mut b], &mut [&mut c]);
    bench.topic(TOPIC, PARTITIONS + 1);
    assert_eq!(b.heartbeat(&mut bench), ErrorCode::RebalanceInProgress);
}

#[test]
fn an_id_that_was_given_to_a_client_does_not_keep_a_group_classic() {
    let mut bench = bench();
    let asked = bench.ask(Request::Join(Join {
        id_required: true,
        ..Classic::new().join_request(0)
    }));
    let given = bench.joined(asked).member_id;
    let mut c = client("c");
    c.beat(&mut bench).expect("joins");
    let mut late = Classic::new();
    late.id.clone_from(&given);
    settle(&mut bench, &mut [&mut late], &mut [&mut c]);
    assert_eq!((shares(&[&late], &[&c]), late.id), (vec![3, 3], given));
}

#[test]
fn the_log_of_a_change_reads_as_kafka_s() {
    let mut bench = bench();
    let (_, _, mut c) = mixed(&mut bench);
    let kinds = |records: &[GroupRecord]| -> String {
        let letter = |record: &GroupRecord| match record {
            GroupRecord::Group { value: None, .. } => 'g',
            GroupRecord::Group { .. } => 'G',
            GroupRecord::Consumer { record, .. } => match record {
                ConsumerRecord::Metadata(None) => 'e',
                ConsumerRecord::Metadata(_) => 'E',
                ConsumerRecord::Member(_, None) => 'm',
                ConsumerRecord::Member(..) => 'M',
                ConsumerRecord::TargetMetadata(None) => 't',
                _ => '.',
            },
            GroupRecord::Offset { .. } => 'o',
        };
        records.iter().map(letter).collect()
    };
    let way = kinds(&bench.log);
    assert!(way.starts_with("GgE."), "the tombstone comes first: {way}");
    let before = bench.log.len();
    c.leave(&mut bench, -1).expect("leaves");
    let back = kinds(&bench.log[before..]);
    assert_eq!(back, "..m..m..mteG", "the group comes last");
}

#[test]
fn the_epoch_is_in_each_of_the_batches_by_which_a_large_group_changes() {
    let mut many = settings();
    many.size_max = 100;
    many.memory_bytes_max = 1 << 30;
    let mut bench = Bench::with(many.clone());
    bench.topic(TOPIC, PARTITIONS);
    let mut tokens = Vec::new();
    for number in 0..60 {
        let mut request = Classic::new().join_request(number);
        let long = "x".repeat(20_000);
        request.protocols[0].1 = subscription(&[TOPIC, &long], &Default::default());
        tokens.push(bench.ask(Request::Join(request)));
    }
    bench.pass(2 * DELAY_MS);
    let joined = bench.joined(tokens[0]);
    for token in tokens.drain(1..) {
        let joined = bench.joined(token);
        bench.sync(&joined.member_id, joined.generation, &[]);
    }
    bench.sync(&joined.member_id, joined.generation, &[]);
    bench.prompt = false;
    let mut c = client("c");
    c.send(&mut bench);
    bench.commit_one();
    assert!(!bench.pending.is_empty(), "there are several batches");
    // The coordinator dies between two of them.
    bench.reload_with(many);
    bench.prompt = true;
    assert_eq!(listed(&bench).0, "consumer");
    c.beat(&mut bench).expect("joins");
    assert!(c.epoch > joined.generation, "{}", c.epoch);
}

#[test]
fn a_large_group_that_becomes_classic_takes_its_epoch_along_in_the_same_batch() {
    let group = String::from(GROUP);
    let consumer = |record| GroupRecord::Consumer {
        group: group.clone(),
        record,
    };
    let members = (0..4).map(|number| {
        let id = "x".repeat(120_000 + number);
        consumer(ConsumerRecord::Member(id, None))
    });
    let value = GroupValue {
        members: vec![MemberValue {
            subscription: vec![0; 300_000].into(),
            ..MemberValue::default()
        }],
        ..GroupValue::default()
    };
    let last = [
        consumer(ConsumerRecord::Metadata(None)),
        GroupRecord::Group {
            group: group.clone(),
            value: Some(value),
        },
    ];
    let batches = batches(members.chain(last.clone()).collect());
    let end = batches.last().expect("there are some");
    assert!(end.ends_with(&last), "the epoch is in no batch of its own");
}
