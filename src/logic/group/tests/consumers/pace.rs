//! Promises about how soon partitions are shared out, and how soon members hear of it.

use alloc::vec::Vec;

use super::super::super::{AppendError, Event, Times};
use super::super::harness::*;
use super::client::{Client, count};
use super::{client, described, settle};

const INTERVAL_MS: u64 = 1_000;
const HEARTBEAT_MS: i32 = 5_000;

/// A coordinator with Kafka's defaults, but for sessions; a topic of six partitions.
fn bench() -> Bench {
    let mut settings = settings();
    settings.consumer.times = Times {
        heartbeat_interval_ms: HEARTBEAT_MS,
        assignment_interval_ms: INTERVAL_MS,
        ..settings.consumer.times
    };
    let mut bench = Bench::with(settings);
    bench.topic("t", 6);
    bench
}

/// Everybody beats as often as it is asked to, until nobody is asked back soon; says after how long.
fn live_until_calm(bench: &mut Bench, clients: &mut [&mut Client]) -> u64 {
    let begun_ms = bench.now_ms;
    let mut due_ms: Vec<u64> = clients.iter().map(|_| begun_ms).collect();
    let mut calm = 0;
    while calm < 2 * clients.len() {
        let (place, at_ms) = (0..)
            .zip(due_ms.clone())
            .min_by_key(|it| it.1)
            .expect("some");
        bench.pass(at_ms - bench.now_ms);
        let before = clients[place].owned.clone();
        let reply = clients[place].beat(bench).expect("a member");
        let given = clients[place].owned != before;
        calm = if !given && reply.heartbeat_interval_ms == HEARTBEAT_MS {
            calm + 1
        } else {
            0
        };
        let in_ms = if given {
            0
        } else {
            reply.heartbeat_interval_ms as u64
        };
        due_ms[place] = at_ms + in_ms;
        assert!(at_ms < begun_ms + 60_000, "it does not settle");
    }
    bench.now_ms - begun_ms
}

#[test]
fn partitions_are_shared_out_at_once_and_then_once_an_interval() {
    let mut bench = bench();
    let (mut a, mut b, mut c) = (client("a"), client("b"), client("c"));
    a.beat(&mut bench).expect("joins");
    assert_eq!((a.epoch, count(&a.owned)), (1, 6));
    bench.pass(INTERVAL_MS / 2);
    b.beat(&mut bench).expect("joins");
    c.beat(&mut bench).expect("joins");
    assert_eq!(described(&mut bench), ("Assigning", 3));
    assert_eq!(
        (b.epoch, count(&b.owned)),
        (1, 0),
        "in the epoch that was shared out"
    );
    a.beat(&mut bench).expect("lives");
    assert_eq!(count(&a.owned), 6);
    bench.pass(INTERVAL_MS / 2);
    assert_eq!(
        described(&mut bench),
        ("Reconciling", 3),
        "nobody need ask for it"
    );
    settle(&mut bench, &mut [&mut a, &mut b, &mut c]);
    assert_eq!(
        [&a, &b, &c].map(|it| (it.epoch, count(&it.owned))),
        [(3, 2); 3]
    );
    bench.pass(INTERVAL_MS);
    let mut d = client("d");
    d.beat(&mut bench).expect("joins");
    assert_eq!((d.epoch, described(&mut bench)), (4, ("Reconciling", 4)));
}

#[test]
fn a_group_that_starts_at_once_is_shared_out_long_before_the_next_regular_heartbeat() {
    let mut bench = bench();
    let mut clients: Vec<Client> = ["a", "b", "c"].map(client).into();
    let mut members: Vec<&mut Client> = clients.iter_mut().collect();
    live_until_calm(&mut bench, &mut members);
    let shared_out_at_ms = clients.iter().map(|it| count(&it.owned));
    assert!(shared_out_at_ms.eq([2; 3]));
    let mut bench = self::bench();
    let mut clients: Vec<Client> = ["a", "b", "c"].map(client).into();
    for client in &mut clients {
        let reply = client.beat(&mut bench).expect("joins");
        let back_ms = reply.heartbeat_interval_ms;
        assert!((1..=INTERVAL_MS as i32).contains(&back_ms), "{back_ms}");
    }
    bench.pass(INTERVAL_MS);
    let [a, b, c] = &mut clients[..] else {
        unreachable!("three were made");
    };
    // Who gives back is heard again by itself; who waits is asked back soon, and less and less often.
    assert_eq!(
        b.beat(&mut bench).expect("lives").heartbeat_interval_ms,
        250
    );
    let told = a.beat(&mut bench).expect("lives");
    assert_eq!(told.assignment.as_ref().map(count), Some(2));
    a.beat(&mut bench).expect("has given back");
    bench.pass(250);
    b.beat(&mut bench).expect("lives");
    assert_eq!(count(&b.owned), 2);
    c.beat(&mut bench).expect("lives");
    assert_eq!(count(&c.owned), 2);
}

#[test]
fn who_waits_for_a_member_that_takes_its_time_is_asked_back_less_and_less_often() {
    let mut bench = bench();
    let (mut a, mut b) = (client("a"), client("b"));
    a.beat(&mut bench).expect("joins");
    bench.pass(INTERVAL_MS);
    let mut waits_ms = Vec::new();
    for _ in 0..8 {
        // It is told to give back, and does not.
        a.ask(&mut bench).expect("lives");
        let reply = b.beat(&mut bench).expect("lives");
        waits_ms.push(reply.heartbeat_interval_ms);
        bench.pass(reply.heartbeat_interval_ms as u64 / 4);
    }
    assert!(waits_ms.is_sorted(), "{waits_ms:?}");
    bench.pass(3_000);
    a.ask(&mut bench).expect("lives");
    assert!(b.beat(&mut bench).expect("lives").heartbeat_interval_ms > 1_500);
}

#[test]
fn a_group_in_peace_beats_at_the_regular_pace() {
    let mut bench = bench();
    let (mut a, mut b) = (client("a"), client("b"));
    live_until_calm(&mut bench, &mut [&mut a, &mut b]);
    for client in [&mut a, &mut b] {
        let reply = client.beat(&mut bench).expect("lives");
        assert_eq!(reply.heartbeat_interval_ms, HEARTBEAT_MS);
    }
}

#[test]
fn a_groups_own_durations_hold_for_it_alone_from_its_members_next_heartbeats_on() {
    let mut bench = bench();
    let own = Times {
        session_timeout_ms: 2 * SESSION_MS,
        heartbeat_interval_ms: 300,
        assignment_interval_ms: 0,
    };
    let (mut a, mut b) = (client("a"), client("b"));
    a.beat(&mut bench).expect("joins");
    bench.step(Event::GroupConfigured("another".into(), Some(own)));
    bench.pass(INTERVAL_MS);
    assert_eq!(
        a.beat(&mut bench).expect("lives").heartbeat_interval_ms,
        HEARTBEAT_MS
    );
    bench.step(Event::GroupConfigured(GROUP.into(), Some(own)));
    assert_eq!(
        a.beat(&mut bench).expect("lives").heartbeat_interval_ms,
        300
    );
    b.beat(&mut bench).expect("joins");
    client("c").beat(&mut bench).expect("joins");
    assert_eq!(
        described(&mut bench),
        ("Reconciling", 3),
        "shared out without delay"
    );
    bench.pass(2 * SESSION_MS - 1);
    a.beat(&mut bench).expect("its session is longer");
    bench.step(Event::GroupConfigured(GROUP.into(), None));
    a.beat(&mut bench).expect("lives");
    bench.pass(SESSION_MS);
    a.beat(&mut bench)
        .expect_err("its session is as long as any");
}

#[test]
fn a_member_that_reads_other_topics_is_shared_out_to_without_delay() {
    let mut bench = bench();
    bench.topic("u", 2);
    let mut a = client("a");
    a.beat(&mut bench).expect("joins");
    (a.topic_names, a.says_all) = (["u".into()].into(), true);
    a.beat(&mut bench).expect("reads another topic");
    assert_eq!(a.topics(), [""; 0], "none that it does not read");
    a.beat(&mut bench).expect("lives");
    assert_eq!(a.topics(), ["u"]);
}

#[test]
fn what_was_put_off_is_shared_out_by_the_next_coordinator_and_after_a_failed_append() {
    let mut bench = bench();
    let (mut a, mut b) = (client("a"), client("b"));
    a.beat(&mut bench).expect("joins");
    b.beat(&mut bench).expect("joins");
    assert_eq!(described(&mut bench).0, "Assigning");
    bench.prompt = false;
    bench.pass(INTERVAL_MS);
    bench.fail_one(AppendError::Unavailable);
    assert_eq!(described(&mut bench).0, "Assigning");
    bench.prompt = true;
    let mut other = Bench::with(settings());
    (other.log, other.topics) = (bench.log.clone(), bench.topics.clone());
    other.reload();
    b.ask(&mut other).expect("lives");
    assert_eq!(described(&mut other).0, "Reconciling");
    b.beat(&mut bench).expect("lives");
    assert_eq!(
        described(&mut bench).0,
        "Reconciling",
        "without another interval"
    );
    settle(&mut bench, &mut [&mut a, &mut b]);
    assert_eq!([&a, &b].map(|it| count(&it.owned)), [3; 2]);
}

#[test]
fn a_group_that_was_left_by_all_gives_the_next_member_all_at_once() {
    let mut bench = bench();
    let (mut a, mut b) = (client("a"), client("b"));
    a.beat(&mut bench).expect("joins");
    a.leave(&mut bench, -1).expect("leaves");
    b.beat(&mut bench).expect("joins");
    assert_eq!(count(&b.owned), 6);
}
