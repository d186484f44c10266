//! What a member does in a group by the classic protocol, step by step, against a coordinator that the
//! test plays.

use std::collections::BTreeSet;

use wire::ErrorCode;

use super::*;
use crate::cluster::Backoff;
use crate::consumer::assignors::encode_assignment;
use crate::consumer::partition::TopicPartition;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A member and its clock.
struct Script {
    member: ClassicMember,
    now: Instant,
}

impl Script {
    fn new(instance_id: Option<&str>, assignors: &[Assignor]) -> Self {
        let now = Instant::now();
        let config = GroupConfig {
            instance_id: instance_id.map(Into::into),
            max_poll_interval: ms(300_000),
            retry_backoff: Backoff {
                initial: ms(100),
                max: ms(1_000),
            },
            jitter: 0.5,
        };
        let classic = ClassicConfig {
            session_timeout: ms(45_000),
            heartbeat_interval: ms(3_000),
            assignors: assignors.to_vec(),
        };
        Self {
            member: ClassicMember::new(config, classic, now),
            now,
        }
    }

    fn eager() -> Self {
        Self::new(None, &[Assignor::Range])
    }

    fn on(&mut self, event: Event) -> Vec<Effect> {
        self.member.handle(event, self.now)
    }

    fn after(&mut self, wait: Duration) -> Vec<Effect> {
        self.now += wait;
        self.on(Event::Tick)
    }

    /// Polls while time passes, as an application that is alive does.
    fn alive_after(&mut self, wait: Duration) -> Vec<Effect> {
        self.now += wait;
        self.on(Event::Polled)
    }

    /// Up to the JoinGroup that is sent; returns its attempt and member id.
    fn joining(&mut self) -> (Attempt, Arc<str>) {
        let mut effects = self.on(Event::Rejoin);
        effects.extend(self.on(Event::Polled));
        assert!(
            effects.contains(&Effect::Prepare { lost: true }),
            "{effects:?}"
        );
        let find = effects.iter().find_map(|effect| match effect {
            Effect::FindCoordinator(attempt) => Some(*attempt),
            _ => None,
        });
        let find = find.expect("it looks for the coordinator");
        let effects = self.on(Event::Prepared);
        assert_eq!(effects, [], "the coordinator is not known");
        join_of(&self.on(Event::CoordinatorFound(find, Ok(7))))
    }

    /// Joined as a follower, with an assignment.
    fn stable(&mut self) {
        let (attempt, _) = self.joining();
        let effects = self.on(Event::Joined(attempt, Ok(follower("me", 1))));
        let attempt = sync_of(&effects);
        let given = vec![TopicPartition::new("t", 0)];
        let answer = Ok(encode_assignment(&given));
        let effects = self.on(Event::Synced(attempt, answer));
        assert_eq!(effects, [Effect::Assign(given)]);
    }

    /// The heartbeat that is due after its interval.
    fn heartbeat(&mut self) -> Attempt {
        let effects = self.alive_after(ms(3_000));
        match &effects[..] {
            [Effect::Heartbeat { attempt, .. }] => *attempt,
            _ => panic!("one heartbeat: {effects:?}"),
        }
    }
}

fn join_of(effects: &[Effect]) -> (Attempt, Arc<str>) {
    let join = effects.iter().find_map(|effect| match effect {
        Effect::Join {
            attempt, member_id, ..
        } => Some((*attempt, member_id.clone())),
        _ => None,
    });
    join.unwrap_or_else(|| panic!("a JoinGroup: {effects:?}"))
}

fn sync_of(effects: &[Effect]) -> Attempt {
    match effects {
        [Effect::Sync { attempt, .. }] => *attempt,
        _ => panic!("a SyncGroup: {effects:?}"),
    }
}

fn follower(member_id: &str, generation: i32) -> Joined {
    Joined {
        generation,
        member_id: member_id.into(),
        leader_id: "other".into(),
        protocol: "range".into(),
        ..Joined::default()
    }
}

fn finds(effects: &[Effect]) -> bool {
    effects
        .iter()
        .any(|it| matches!(it, Effect::FindCoordinator(_)))
}

#[test]
fn nothing_is_asked_before_the_first_poll() {
    let mut script = Script::eager();
    assert!(
        !script
            .on(Event::Rejoin)
            .contains(&Effect::Prepare { lost: true })
    );
    assert!(
        script
            .on(Event::Polled)
            .contains(&Effect::Prepare { lost: true })
    );
}

#[test]
fn a_member_gets_its_id_first_and_joins_with_it() {
    let mut script = Script::eager();
    let (attempt, member_id) = script.joining();
    assert_eq!(&*member_id, "");
    let required = Err((ErrorCode::MemberIdRequired, "me".into()));
    let (attempt, member_id) = join_of(&script.on(Event::Joined(attempt, required)));
    assert_eq!(&*member_id, "me");
    let effects = script.on(Event::Joined(attempt, Ok(follower("me", 1))));
    assert!(matches!(
        &effects[..],
        [Effect::Sync { generation: 1, assignments, .. }] if assignments.is_empty()
    ));
}

#[test]
fn the_leader_assigns_what_it_counts() {
    let mut script = Script::eager();
    let (attempt, _) = script.joining();
    let subscription = Subscription {
        topics: ["t".into()].into(),
        user_data: None,
        owned: Vec::new(),
        generation: NO_GENERATION,
        rack: None,
    };
    let member = |id: &str| JoinedMember {
        id: id.into(),
        instance_id: None,
        metadata: subscription.encode(),
    };
    let joined = Joined {
        leader_id: "me".into(),
        members: vec![member("me"), member("other")],
        ..follower("me", 3)
    };
    let effects = script.on(Event::Joined(attempt, Ok(joined)));
    let [Effect::CountPartitions(attempt, topics)] = &effects[..] else {
        panic!("it counts: {effects:?}");
    };
    assert_eq!(topics, &BTreeSet::from(["t".into()]));
    let counts = PartitionCounts::from([("t".into(), 3)]);
    let effects = script.on(Event::Counted(*attempt, counts.clone()));
    let [Effect::Sync { assignments, .. }] = &effects[..] else {
        panic!("it sends what it made: {effects:?}");
    };
    let given = |partitions: std::ops::Range<i32>| {
        let given: Vec<_> = partitions.map(|it| TopicPartition::new("t", it)).collect();
        encode_assignment(&given)
    };
    assert_eq!(
        assignments[..],
        [("me".into(), given(0..2)), ("other".into(), given(2..3))]
    );
    assert_eq!(script.member.counted(), Some(&counts));
}

#[test]
fn heartbeats_go_out_at_their_interval_one_at_a_time() {
    let mut script = Script::eager();
    script.stable();
    assert_eq!(script.alive_after(ms(2_999)), []);
    let due = script
        .member
        .next_tick(script.now)
        .expect("a heartbeat is due");
    assert_eq!(due, script.now + ms(1));
    script.now = due;
    let effects = script.on(Event::Tick);
    let [Effect::Heartbeat { attempt, .. }] = effects[..] else {
        panic!("a heartbeat: {effects:?}");
    };
    assert_eq!(script.alive_after(ms(10_000)), [], "the last is unanswered");
    let effects = script.on(Event::HeartbeatAnswered(attempt, Ok(())));
    assert!(
        matches!(effects[..], [Effect::Heartbeat { .. }]),
        "the next is due"
    );
}

#[test]
fn a_rebalance_is_prepared_before_it_is_joined() {
    let mut script = Script::eager();
    script.stable();
    let attempt = script.heartbeat();
    let answer = Err(ErrorCode::RebalanceInProgress);
    let effects = script.on(Event::HeartbeatAnswered(attempt, answer));
    assert_eq!(effects, [Effect::Prepare { lost: false }]);
    let attempt = script.heartbeat();
    let answer = Err(ErrorCode::RebalanceInProgress);
    assert_eq!(script.on(Event::HeartbeatAnswered(attempt, answer)), []);
    let effects = script.on(Event::Prepared);
    assert_eq!(&*join_of(&effects).1, "me");
    let behind = script.alive_after(ms(10_000));
    assert_eq!(behind, [], "a heartbeat would wait behind the JoinGroup");
}

#[test]
fn a_member_that_the_coordinator_does_not_know_loses_all_and_joins_anew() {
    for (code, member_id) in [
        (ErrorCode::UnknownMemberId, ""),
        (ErrorCode::IllegalGeneration, "me"),
    ] {
        let mut script = Script::eager();
        script.stable();
        let attempt = script.heartbeat();
        let effects = script.on(Event::HeartbeatAnswered(attempt, Err(code)));
        assert_eq!(effects, [Effect::Prepare { lost: true }], "{code:?}");
        assert_eq!(script.member.identity().1, NO_GENERATION);
        let effects = script.on(Event::Prepared);
        assert_eq!(&*join_of(&effects).1, member_id, "{code:?}");
    }
}

#[test]
fn a_fenced_member_stops_for_good() {
    let mut script = Script::new(Some("static-1"), &[Assignor::Range]);
    script.stable();
    let attempt = script.heartbeat();
    let answer = Err(ErrorCode::FencedInstanceId);
    let effects = script.on(Event::HeartbeatAnswered(attempt, answer));
    assert_eq!(effects, [Effect::Refused(ErrorCode::FencedInstanceId)]);
    assert_eq!(script.alive_after(ms(60_000)), []);
}

#[test]
fn a_join_that_cannot_succeed_is_not_repeated() {
    for code in [
        ErrorCode::InconsistentGroupProtocol,
        ErrorCode::InvalidSessionTimeout,
        ErrorCode::InvalidGroupId,
        ErrorCode::GroupAuthorizationFailed,
        ErrorCode::GroupMaxSizeReached,
        ErrorCode::FencedInstanceId,
        ErrorCode::UnsupportedVersion,
    ] {
        let mut script = Script::eager();
        let (attempt, _) = script.joining();
        let effects = script.on(Event::Joined(attempt, Err((code, "".into()))));
        assert_eq!(effects, [Effect::Refused(code)]);
        assert_eq!(script.alive_after(ms(60_000)), [], "{code:?}");
    }
}

#[test]
fn a_search_for_the_coordinator_that_cannot_succeed_is_not_repeated() {
    for code in [
        ErrorCode::GroupAuthorizationFailed,
        ErrorCode::InvalidGroupId,
        ErrorCode::UnsupportedVersion,
    ] {
        let mut script = Script::eager();
        let mut effects = script.on(Event::Rejoin);
        effects.extend(script.on(Event::Polled));
        let [Effect::FindCoordinator(attempt), ..] = effects[..] else {
            panic!("{effects:?}");
        };
        let effects = script.on(Event::CoordinatorFound(attempt, Err(code)));
        assert_eq!(effects, [Effect::Refused(code)]);
        assert_eq!(script.alive_after(ms(60_000)), [], "{code:?}");
    }
}

#[test]
fn a_coordinator_that_loads_is_asked_again_after_a_pause() {
    let mut script = Script::eager();
    let (attempt, _) = script.joining();
    let answer = Err((ErrorCode::CoordinatorLoadInProgress, "".into()));
    assert_eq!(script.on(Event::Joined(attempt, answer)), []);
    assert_eq!(script.alive_after(ms(99)), []);
    join_of(&script.alive_after(ms(1)));
}

#[test]
fn a_moved_coordinator_is_looked_for_and_the_join_repeated() {
    for code in [
        ErrorCode::NotCoordinator,
        ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NetworkException,
    ] {
        let mut script = Script::eager();
        let (attempt, _) = script.joining();
        assert_eq!(
            script.on(Event::Joined(attempt, Err((code, "".into())))),
            []
        );
        let effects = script.alive_after(ms(100));
        let [Effect::FindCoordinator(attempt)] = effects[..] else {
            panic!("{code:?}: {effects:?}");
        };
        join_of(&script.on(Event::CoordinatorFound(attempt, Ok(8))));
    }
}

#[test]
fn a_sync_that_comes_too_late_joins_again() {
    let mut script = Script::eager();
    let (attempt, _) = script.joining();
    let effects = script.on(Event::Joined(attempt, Ok(follower("me", 1))));
    let answer = Err(ErrorCode::RebalanceInProgress);
    let effects = script.on(Event::Synced(sync_of(&effects), answer));
    assert_eq!(&*join_of(&effects).1, "me");
}

#[test]
fn without_a_heard_heartbeat_the_coordinator_is_looked_for_again() {
    let mut script = Script::eager();
    script.stable();
    let attempt = script.heartbeat();
    let effects = script.alive_after(ms(45_000));
    assert!(finds(&effects), "{effects:?}");
    let late = script.on(Event::HeartbeatAnswered(
        attempt,
        Err(ErrorCode::UnknownMemberId),
    ));
    assert_eq!(late, [], "an answer to a heartbeat of before");
}

#[test]
fn who_does_not_poll_leaves_and_comes_back_with_the_next_poll() {
    let mut script = Script::eager();
    script.stable();
    let effects = script.after(ms(300_000));
    assert!(
        effects
            .iter()
            .any(|it| matches!(it, Effect::LeaveGroup { .. })),
        "{effects:?}"
    );
    let later = script.after(ms(60_000));
    assert!(
        !later.contains(&Effect::Prepare { lost: true }),
        "{later:?}"
    );
    let effects = script.on(Event::Polled);
    assert!(
        effects.contains(&Effect::Prepare { lost: true }),
        "{effects:?}"
    );
}

#[test]
fn a_member_that_leaves_says_so_unless_it_is_static() {
    let mut script = Script::eager();
    script.stable();
    let effects = script.on(Event::Leave("closed"));
    assert!(
        matches!(effects[..], [Effect::LeaveGroup { .. }]),
        "{effects:?}"
    );
    let mut script = Script::new(Some("static-1"), &[Assignor::Range]);
    script.stable();
    assert_eq!(script.on(Event::Leave("closed")), []);
}

#[test]
fn a_changed_subscription_during_a_join_is_joined_again_afterwards() {
    let mut script = Script::eager();
    let (attempt, _) = script.joining();
    assert_eq!(script.on(Event::Rejoin), []);
    let effects = script.on(Event::Joined(attempt, Ok(follower("me", 1))));
    let effects = script.on(Event::Synced(sync_of(&effects), Ok(Bytes::new())));
    assert_eq!(
        effects,
        [Effect::Assign(Vec::new()), Effect::Prepare { lost: false }]
    );
}

#[test]
fn a_failed_commit_tells_of_the_membership_only_if_it_is_of_this_generation() {
    let mut script = Script::eager();
    script.stable();
    let old = Event::CommitFailed(0, ErrorCode::UnknownMemberId);
    assert_eq!(script.on(old), []);
    let now = Event::CommitFailed(1, ErrorCode::RebalanceInProgress);
    assert_eq!(script.on(now), [Effect::Prepare { lost: false }]);
}

#[test]
fn only_a_list_of_cooperative_assignors_keeps_partitions_in_a_rebalance() {
    let both = [Assignor::Range, Assignor::CooperativeSticky];
    assert!(!Script::new(None, &both).member.is_cooperative());
    assert!(Script::new(None, &both[1..]).member.is_cooperative());
}

#[test]
fn what_is_revoked_for_an_assignment_makes_the_group_rebalance_once_more() {
    let mut script = Script::new(None, &[Assignor::CooperativeSticky]);
    script.stable();
    assert_eq!(script.on(Event::Assigned { revoked: false }), []);
    let effects = script.on(Event::Assigned { revoked: true });
    assert_eq!(effects, [Effect::Prepare { lost: false }]);
}
