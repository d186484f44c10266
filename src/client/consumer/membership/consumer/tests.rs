//! What a member does in a group by the consumer protocol, step by step, against a coordinator that the
//! test plays.

use wire::ErrorCode;

use super::*;
use crate::cluster::Backoff;
use crate::consumer::partition::TopicPartition;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const BIRDS: KafkaUuid = KafkaUuid::from_parts(7, 1);
const FISH: KafkaUuid = KafkaUuid::from_parts(7, 2);

fn partitions(topic: KafkaUuid, partitions: &[i32]) -> ByTopicId {
    ByTopicId::from([(topic, partitions.iter().copied().collect::<BTreeSet<i32>>())])
}

fn birds(partitions: &[i32]) -> Vec<TopicPartition> {
    let partitions = partitions.iter();
    partitions
        .map(|it| TopicPartition::new("birds", *it))
        .collect()
}

fn heard(epoch: i32, assignment: Option<ByTopicId>) -> Heard {
    Heard {
        epoch,
        interval: ms(5_000),
        assignment,
    }
}

/// A member and its clock.
struct Script {
    member: ConsumerMember,
    now: Instant,
}

impl Script {
    fn new(instance_id: Option<&str>) -> Self {
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
        Self {
            member: ConsumerMember::new(config, "me".into(), now),
            now,
        }
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

    /// Up to the first heartbeat.
    fn joining(&mut self) -> Heartbeat {
        let mut effects = self.on(Event::Rejoin);
        effects.extend(self.on(Event::Polled));
        let find = effects.iter().find_map(|effect| match effect {
            Effect::FindCoordinator(attempt) => Some(*attempt),
            _ => None,
        });
        let find = find.expect("it looks for the coordinator");
        assert!(effects.contains(&LOST), "{effects:?}");
        assert_eq!(self.on(Event::Prepared), [], "whom to ask is not known");
        the_heartbeat(&self.on(Event::CoordinatorFound(find, Ok(7))))
    }

    /// Answers a heartbeat.
    fn answer(&mut self, heartbeat: &Heartbeat, answer: Result<Heard, ErrorCode>) -> Vec<Effect> {
        self.on(Event::Heard(heartbeat.attempt, answer))
    }

    fn name(&mut self, topic: KafkaUuid, name: &str) -> Vec<Effect> {
        self.on(Event::Named(vec![(topic, name.into())]))
    }

    /// A member in epoch 1 with two partitions, which it has acknowledged.
    fn joined(&mut self) {
        let heartbeat = self.joining();
        let given = Some(partitions(BIRDS, &[0, 1]));
        let effects = self.answer(&heartbeat, Ok(heard(1, given)));
        assert_eq!(effects, [Effect::NameTopics]);
        assert_eq!(self.name(BIRDS, "birds"), [Effect::Assign(birds(&[0, 1]))]);
        let heartbeat = the_heartbeat(&self.on(Event::Assigned { revoked: false }));
        assert_eq!(heartbeat.owned, Some(partitions(BIRDS, &[0, 1])));
        assert_eq!(self.answer(&heartbeat, Ok(heard(1, None))), []);
    }

    /// The heartbeat that is due after the interval.
    fn heartbeat(&mut self) -> Heartbeat {
        the_heartbeat(&self.alive_after(ms(5_000)))
    }
}

const LOST: Effect = Effect::Prepare { lost: true };

fn the_heartbeat(effects: &[Effect]) -> Heartbeat {
    match effects {
        [Effect::ConsumerHeartbeat(heartbeat)] => heartbeat.clone(),
        _ => panic!("one heartbeat: {effects:?}"),
    }
}

#[test]
fn nothing_is_asked_before_the_first_poll() {
    let mut script = Script::new(None);
    assert!(!script.on(Event::Rejoin).contains(&LOST));
    assert!(script.on(Event::Polled).contains(&LOST));
}

#[test]
fn a_member_joins_in_epoch_0_with_nothing_and_has_its_own_id() {
    let heartbeat = Script::new(None).joining();
    assert_eq!((heartbeat.epoch, &*heartbeat.member_id), (0, "me"));
    assert_eq!(heartbeat.owned, Some(ByTopicId::new()));
}

#[test]
fn heartbeats_go_out_when_the_coordinator_said_and_say_only_what_is_new() {
    let mut script = Script::new(None);
    script.joined();
    assert_eq!(script.alive_after(ms(4_999)), []);
    let due = script.member.next_tick(script.now);
    assert_eq!(due, Some(script.now + ms(1)));
    let heartbeat = the_heartbeat(&script.alive_after(ms(1)));
    assert_eq!((heartbeat.epoch, &heartbeat.owned), (1, &None));
    assert_eq!(script.alive_after(ms(9_000)), [], "the last is unanswered");
    assert_eq!(script.answer(&heartbeat, Ok(heard(1, None))), []);
    let effects = script.on(Event::Rejoin);
    let heartbeat = the_heartbeat(&effects);
    assert!(heartbeat.owned.is_some(), "another subscription is news");
}

#[test]
fn what_is_taken_away_is_acknowledged_when_it_is_revoked_and_not_before() {
    let mut script = Script::new(None);
    script.joined();
    let heartbeat = script.heartbeat();
    let less = Some(partitions(BIRDS, &[1]));
    let effects = script.answer(&heartbeat, Ok(heard(1, less)));
    assert_eq!(effects, [Effect::Assign(birds(&[1]))]);
    let meanwhile = script.heartbeat();
    assert_eq!(meanwhile.owned, None);
    assert_eq!(script.answer(&meanwhile, Ok(heard(1, None))), []);
    // Whatever else it has to say, it still has both.
    let meanwhile = the_heartbeat(&script.on(Event::Rejoin));
    assert_eq!(meanwhile.owned, Some(partitions(BIRDS, &[0, 1])));
    assert_eq!(script.answer(&meanwhile, Ok(heard(1, None))), []);
    let acknowledged = the_heartbeat(&script.on(Event::Assigned { revoked: true }));
    assert_eq!(acknowledged.owned, Some(partitions(BIRDS, &[1])));
    let more = Some(partitions(BIRDS, &[1, 2]));
    let effects = script.answer(&acknowledged, Ok(heard(2, more)));
    assert_eq!(effects, [Effect::Assign(birds(&[1, 2]))]);
    assert_eq!(script.member.identity().1, 2);
}

#[test]
fn another_assignment_waits_until_the_application_has_the_one_before() {
    let mut script = Script::new(None);
    script.joined();
    let heartbeat = script.heartbeat();
    let first = Some(partitions(BIRDS, &[1]));
    script.answer(&heartbeat, Ok(heard(1, first)));
    let heartbeat = script.heartbeat();
    let second = Some(partitions(BIRDS, &[1, 5]));
    assert_eq!(script.answer(&heartbeat, Ok(heard(2, second))), []);
    let effects = script.on(Event::Assigned { revoked: true });
    assert_eq!(effects[0], Effect::Assign(birds(&[1, 5])));
    let heartbeat = the_heartbeat(&effects[1..]);
    assert_eq!(heartbeat.owned, Some(partitions(BIRDS, &[1])));
}

#[test]
fn having_nothing_is_told_once() {
    let mut script = Script::new(None);
    let heartbeat = script.joining();
    let nothing = || Some(ByTopicId::new());
    let effects = script.answer(&heartbeat, Ok(heard(1, nothing())));
    assert_eq!(effects, [Effect::Assign(Vec::new())]);
    let heartbeat = the_heartbeat(&script.on(Event::Assigned { revoked: false }));
    assert_eq!(script.answer(&heartbeat, Ok(heard(1, nothing()))), []);
}

#[test]
fn what_has_no_name_yet_does_not_hold_up_what_has() {
    let mut script = Script::new(None);
    script.joined();
    let heartbeat = script.heartbeat();
    let mut both = partitions(BIRDS, &[1]);
    both.extend(partitions(FISH, &[0]));
    let effects = script.answer(&heartbeat, Ok(heard(1, Some(both.clone()))));
    assert_eq!(effects, [Effect::NameTopics]);
    assert_eq!(script.member.nameless(), BTreeSet::from([FISH]));
    let effects = script.on(Event::Named(Vec::new()));
    assert_eq!(effects, [Effect::Assign(birds(&[1]))]);
    let heartbeat = the_heartbeat(&script.on(Event::Assigned { revoked: true }));
    assert_eq!(heartbeat.owned, Some(partitions(BIRDS, &[1])));
    script.answer(&heartbeat, Ok(heard(1, None)));
    let all = [birds(&[1]), vec![TopicPartition::new("fish", 0)]].concat();
    assert_eq!(script.name(FISH, "fish"), [Effect::Assign(all)]);
    let heartbeat = the_heartbeat(&script.on(Event::Assigned { revoked: false }));
    assert_eq!(heartbeat.owned, Some(both));
}

#[test]
fn a_topic_that_was_made_again_is_given_up_before_it_is_taken() {
    let mut script = Script::new(None);
    script.joined();
    let heartbeat = script.heartbeat();
    let again = Some(partitions(FISH, &[0, 1]));
    script.answer(&heartbeat, Ok(heard(1, again)));
    assert_eq!(
        script.name(FISH, "birds"),
        [Effect::Assign(Vec::new())],
        "the old topic's partitions go"
    );
    let effects = script.on(Event::Assigned { revoked: true });
    assert_eq!(effects[0], Effect::Assign(birds(&[0, 1])));
}

#[test]
fn a_member_that_is_fenced_loses_all_and_joins_anew_under_the_same_id() {
    for code in [
        ErrorCode::FencedMemberEpoch,
        ErrorCode::UnknownMemberId,
        ErrorCode::GroupIdNotFound,
    ] {
        let mut script = Script::new(None);
        script.joined();
        let heartbeat = script.heartbeat();
        assert_eq!(script.answer(&heartbeat, Err(code)), [LOST], "{code:?}");
        assert_eq!(script.member.identity().1, NO_GENERATION);
        let heartbeat = the_heartbeat(&script.on(Event::Prepared));
        assert_eq!((heartbeat.epoch, &*heartbeat.member_id), (0, "me"));
        assert_eq!(heartbeat.owned, Some(ByTopicId::new()));
    }
}

#[test]
fn what_the_application_was_being_given_when_the_member_was_fenced_is_void() {
    let mut script = Script::new(None);
    script.joined();
    let heartbeat = script.heartbeat();
    script.answer(&heartbeat, Ok(heard(1, Some(partitions(BIRDS, &[1])))));
    let heartbeat = script.heartbeat();
    script.answer(&heartbeat, Err(ErrorCode::FencedMemberEpoch));
    assert_eq!(script.on(Event::Assigned { revoked: true }), []);
    let heartbeat = the_heartbeat(&script.on(Event::Prepared));
    assert_eq!(heartbeat.owned, Some(ByTopicId::new()));
}

#[test]
fn who_joins_and_is_taken_for_an_earlier_life_tries_again_after_a_pause() {
    let mut script = Script::new(None);
    let heartbeat = script.joining();
    let answer = Err(ErrorCode::FencedMemberEpoch);
    assert_eq!(script.answer(&heartbeat, answer), []);
    assert_eq!(script.alive_after(ms(99)), []);
    assert_eq!(the_heartbeat(&script.alive_after(ms(1))).epoch, 0);
}

#[test]
fn what_cannot_succeed_is_not_repeated() {
    for code in [
        ErrorCode::GroupIdNotFound,
        ErrorCode::UnreleasedInstanceId,
        ErrorCode::FencedInstanceId,
        ErrorCode::UnsupportedAssignor,
        ErrorCode::GroupMaxSizeReached,
        ErrorCode::GroupAuthorizationFailed,
        ErrorCode::InvalidRequest,
        ErrorCode::UnsupportedVersion,
    ] {
        let mut script = Script::new(None);
        let heartbeat = script.joining();
        let effects = script.answer(&heartbeat, Err(code));
        assert_eq!(effects, [Effect::Refused(code)]);
        assert_eq!(script.alive_after(ms(60_000)), [], "{code:?}");
    }
}

#[test]
fn a_coordinator_that_loads_is_asked_again_after_a_pause() {
    let mut script = Script::new(None);
    script.joined();
    let heartbeat = script.heartbeat();
    let answer = Err(ErrorCode::CoordinatorLoadInProgress);
    assert_eq!(script.answer(&heartbeat, answer), []);
    assert_eq!(script.alive_after(ms(99)), []);
    let again = the_heartbeat(&script.alive_after(ms(1)));
    let all = Some(partitions(BIRDS, &[0, 1]));
    assert_eq!(
        (again.epoch, again.owned),
        (1, all),
        "it may know nothing yet"
    );
}

#[test]
fn a_coordinator_that_moved_is_looked_for_and_told_everything() {
    for code in [
        ErrorCode::NotCoordinator,
        ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NetworkException,
    ] {
        let mut script = Script::new(None);
        script.joined();
        let heartbeat = script.heartbeat();
        assert_eq!(script.answer(&heartbeat, Err(code)), []);
        let effects = script.alive_after(ms(100));
        let [Effect::FindCoordinator(attempt)] = effects[..] else {
            panic!("{code:?}: {effects:?}");
        };
        let effects = script.on(Event::CoordinatorFound(attempt, Ok(8)));
        let heartbeat = the_heartbeat(&effects);
        assert_eq!((heartbeat.coordinator, heartbeat.epoch), (8, 1));
        assert_eq!(heartbeat.owned, Some(partitions(BIRDS, &[0, 1])));
    }
}

#[test]
fn a_commit_in_a_stale_epoch_asks_for_the_epoch_at_once() {
    let mut script = Script::new(None);
    script.joined();
    let old = Event::CommitFailed(0, ErrorCode::StaleMemberEpoch);
    assert_eq!(script.on(old), [], "an earlier epoch's");
    let stale = Event::CommitFailed(1, ErrorCode::StaleMemberEpoch);
    let heartbeat = the_heartbeat(&script.on(stale));
    script.answer(&heartbeat, Ok(heard(2, None)));
    assert_eq!(script.member.identity().1, 2);
}

#[test]
fn a_commit_may_be_the_first_to_hear_that_the_member_is_out() {
    let mut script = Script::new(None);
    script.joined();
    let out = Event::CommitFailed(1, ErrorCode::UnknownMemberId);
    assert_eq!(script.on(out), [LOST]);
}

#[test]
fn who_does_not_poll_leaves_and_comes_back_with_the_next_poll() {
    let mut script = Script::new(None);
    script.joined();
    assert_eq!(the_heartbeat(&script.after(ms(300_000))).epoch, -1);
    assert_eq!(script.after(ms(60_000)), []);
    assert_eq!(script.on(Event::Polled), [LOST]);
    assert_eq!(the_heartbeat(&script.on(Event::Prepared)).epoch, 0);
}

#[test]
fn a_static_member_leaves_for_a_while_and_others_for_good() {
    for (instance_id, epoch) in [(None, -1), (Some("static-1"), -2)] {
        let mut script = Script::new(instance_id);
        script.joined();
        let effects = script.on(Event::Leave("closed"));
        assert_eq!(the_heartbeat(&effects).epoch, epoch);
        assert_eq!(script.member.identity(), ("".into(), NO_GENERATION));
        assert_eq!(script.alive_after(ms(60_000)), []);
    }
}

#[test]
fn an_answer_to_a_heartbeat_before_the_member_left_changes_nothing() {
    let mut script = Script::new(None);
    script.joined();
    let heartbeat = script.heartbeat();
    script.on(Event::Leave("unsubscribed"));
    let late = Ok(heard(3, Some(partitions(BIRDS, &[4]))));
    assert_eq!(script.answer(&heartbeat, late), []);
    assert_eq!(script.member.identity().1, NO_GENERATION);
}
