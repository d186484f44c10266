//! What the assignors promise, over random groups and by cases. Knows nothing of their insides.

use super::protocol::Malformed;
use super::*;

/// A linear congruential generator: the same groups from the same seed.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }
}

fn topic(index: usize) -> Arc<str> {
    Arc::from(format!("topic-{index}"))
}

fn member(id: usize, topics: &[usize]) -> Member {
    Member {
        id: Arc::from(format!("member-{id:03}")),
        instance_id: None,
        topics: topics.iter().map(|&it| topic(it)).collect(),
        owned: Vec::new(),
        generation: NO_GENERATION,
    }
}

fn counts(counts: &[i32]) -> PartitionCounts {
    (0..)
        .zip(counts)
        .map(|(index, &count)| (topic(index), count))
        .collect()
}

/// Topics, and members that all subscribe to all of them or each to some.
fn random_group(choices: &mut Choices, uniform: bool) -> (PartitionCounts, Vec<Member>) {
    let topics = 1 + choices.below(6);
    let partitions: Vec<i32> = (0..topics).map(|_| choices.below(12) as i32).collect();
    let members = 1 + choices.below(8);
    let members = (0..members).map(|id| {
        let wanted: Vec<usize> = (0..topics)
            .filter(|_| uniform || choices.below(2) == 0)
            .collect();
        member(id, &wanted)
    });
    let members = members.collect();
    (counts(&partitions), members)
}

fn own(members: &mut [Member], given: &Assignment, generation: i32) {
    for member in members {
        member.owned = given.get(&member.id).cloned().unwrap_or_default();
        member.generation = generation;
    }
}

fn check_each_partition_once(counts: &PartitionCounts, members: &[Member], given: &Assignment) {
    let mut seen = BTreeSet::new();
    for member in members {
        for partition in &given[&member.id] {
            assert!(
                member.topics.contains(&partition.topic),
                "{partition} unasked"
            );
            assert!(seen.insert(partition.clone()), "{partition} twice");
        }
    }
    let expected = counts
        .iter()
        .filter(|(topic, _)| members.iter().any(|member| member.topics.contains(*topic)))
        .map(|(_, &count)| usize::try_from(count).expect("positive"))
        .sum::<usize>();
    assert_eq!(seen.len(), expected, "a partition is read by nobody");
}

/// Kafka's condition: no single move may even the load out.
fn check_no_move_helps(members: &[Member], given: &Assignment) {
    for from in members {
        for to in members {
            let more = given[&from.id].len() > given[&to.id].len() + 1;
            let movable = given[&from.id]
                .iter()
                .any(|it| to.topics.contains(&it.topic));
            assert!(
                !(more && movable),
                "{} should give to {}: {given:?}",
                from.id,
                to.id
            );
        }
    }
}

fn moved(before: &Assignment, after: &Assignment) -> usize {
    let kept = |(id, owned): (&Arc<str>, &Vec<TopicPartition>)| {
        let now = after.get(id).map_or(&[][..], Vec::as_slice);
        owned.iter().filter(|it| !now.contains(it)).count()
    };
    before.iter().map(kept).sum()
}

#[test]
fn every_partition_is_read_by_exactly_one_member_that_asked_for_it() {
    for seed in 0..500 {
        println!("seed {seed}");
        let mut choices = Choices(seed);
        let (counts, mut members) = random_group(&mut choices, seed % 2 == 0);
        for assignor in [Assignor::Range, Assignor::RoundRobin, Assignor::Sticky] {
            for generation in 1..4 {
                let given = assignor.assign(&counts, &members);
                check_each_partition_once(&counts, &members, &given);
                own(&mut members, &given, generation);
            }
        }
    }
}

#[test]
fn the_sticky_assignment_is_balanced_and_stays_when_nothing_changed() {
    for seed in 0..500 {
        println!("seed {seed}");
        let mut choices = Choices(seed);
        let (counts, mut members) = random_group(&mut choices, seed % 2 == 0);
        let first = Assignor::Sticky.assign(&counts, &members);
        check_no_move_helps(&members, &first);
        own(&mut members, &first, 1);
        let again = Assignor::Sticky.assign(&counts, &members);
        assert_eq!(first, again, "moved without a reason");
    }
}

#[test]
fn with_equal_subscriptions_a_leaver_s_partitions_move_and_no_others() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut choices = Choices(seed);
        let (counts, mut members) = random_group(&mut choices, true);
        let first = Assignor::Sticky.assign(&counts, &members);
        own(&mut members, &first, 1);
        let gone = members.remove(choices.below(members.len()));
        if members.is_empty() {
            continue;
        }
        let second = Assignor::Sticky.assign(&counts, &members);
        check_each_partition_once(&counts, &members, &second);
        check_no_move_helps(&members, &second);
        let mut stayed = first.clone();
        stayed.remove(&gone.id);
        assert_eq!(
            moved(&stayed, &second),
            0,
            "those who stay keep all they had"
        );
    }
}

#[test]
fn with_equal_subscriptions_a_joiner_gets_its_share_and_nothing_else_moves() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut choices = Choices(seed);
        let (counts, mut members) = random_group(&mut choices, true);
        let first = Assignor::Sticky.assign(&counts, &members);
        own(&mut members, &first, 1);
        let mut joiner = member(999, &[]);
        joiner.topics = members[0].topics.clone();
        members.push(joiner.clone());
        let second = Assignor::Sticky.assign(&counts, &members);
        check_each_partition_once(&counts, &members, &second);
        check_no_move_helps(&members, &second);
        assert_eq!(moved(&first, &second), second[&joiner.id].len());
    }
}

#[test]
fn a_cooperative_partition_has_one_owner_at_every_step_and_two_rebalances_suffice() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut choices = Choices(seed);
        let (counts, mut members) = random_group(&mut choices, seed % 2 == 0);
        let first = Assignor::CooperativeSticky.assign(&counts, &members);
        own(&mut members, &first, 1);
        let mut joiner = member(999, &[0, 1, 2]);
        joiner.topics.retain(|topic| counts.contains_key(topic));
        members.push(joiner);
        members.remove(choices.below(members.len() - 1));
        let second = Assignor::CooperativeSticky.assign(&counts, &members);
        for member in &members {
            for partition in &second[&member.id] {
                let mut others = members.iter().filter(|it| it.id != member.id);
                assert!(
                    !others.any(|it| it.owned.contains(partition)),
                    "{partition} is owned"
                );
            }
        }
        own(&mut members, &second, 2);
        let third = Assignor::CooperativeSticky.assign(&counts, &members);
        check_each_partition_once(&counts, &members, &third);
        check_no_move_helps(&members, &third);
        assert_eq!(moved(&second, &third), 0, "the second rebalance only gives");
    }
}

#[test]
fn a_chain_of_moves_evens_out_what_no_single_move_can() {
    let counts = counts(&[3, 3]);
    let mut members = vec![member(0, &[0]), member(1, &[0, 1]), member(2, &[1])];
    let held = |topic_index: usize, partitions: std::ops::Range<i32>| {
        partitions.map(move |it| TopicPartition::new(topic(topic_index), it))
    };
    members[0].owned = held(0, 0..3).collect();
    members[1].owned = held(1, 0..2).collect();
    members[2].owned = held(1, 2..3).collect();
    members.iter_mut().for_each(|member| member.generation = 1);
    let given = Assignor::Sticky.assign(&counts, &members);
    let loads: Vec<usize> = given.values().map(Vec::len).collect();
    assert_eq!(loads, [2, 2, 2]);
}

#[test]
fn the_newest_claim_to_a_partition_wins_and_equal_claims_cancel() {
    let counts = counts(&[2]);
    let mut members = vec![member(0, &[0]), member(1, &[0])];
    let partition = |number| TopicPartition::new(topic(0), number);
    members[0].owned = vec![partition(0), partition(1)];
    members[0].generation = 3;
    members[1].owned = vec![partition(0)];
    members[1].generation = 4;
    let given = Assignor::Sticky.assign(&counts, &members);
    assert_eq!(given["member-001"], [partition(0)]);
    members[1].owned = vec![partition(0), partition(1)];
    members[1].generation = 3;
    let given = Assignor::Sticky.assign(&counts, &members);
    check_each_partition_once(&counts, &members, &given);
}

#[test]
fn range_gives_consecutive_partitions_and_the_first_ones_more() {
    let members = vec![member(1, &[0, 1]), member(0, &[0, 1])];
    let given = Assignor::Range.assign(&counts(&[3, 3]), &members);
    let numbers = |id: &str| -> Vec<String> { given[id].iter().map(ToString::to_string).collect() };
    assert_eq!(
        numbers("member-000"),
        ["topic-0-0", "topic-0-1", "topic-1-0", "topic-1-1"]
    );
    assert_eq!(numbers("member-001"), ["topic-0-2", "topic-1-2"]);
}

#[test]
fn round_robin_deals_out_in_turn_and_passes_over_who_did_not_subscribe() {
    let members = vec![member(0, &[0]), member(1, &[0, 1]), member(2, &[0, 1, 2])];
    let given = Assignor::RoundRobin.assign(&counts(&[1, 2, 3]), &members);
    let numbers = |id: &str| -> Vec<String> { given[id].iter().map(ToString::to_string).collect() };
    assert_eq!(numbers("member-000"), ["topic-0-0"]);
    assert_eq!(numbers("member-001"), ["topic-1-0"]);
    assert_eq!(
        numbers("member-002"),
        ["topic-1-1", "topic-2-0", "topic-2-1", "topic-2-2"]
    );
}

#[test]
fn static_members_come_first_by_instance_id_whatever_their_member_ids() {
    let mut members = vec![member(0, &[0]), member(1, &[0]), member(2, &[0])];
    members[2].instance_id = Some("a".into());
    members[1].instance_id = Some("b".into());
    let given = Assignor::Range.assign(&counts(&[3]), &members);
    let first = |id: &str| given[id][0].partition;
    assert_eq!(
        (
            first("member-002"),
            first("member-001"),
            first("member-000")
        ),
        (0, 1, 2)
    );
}

#[test]
fn a_subscription_reads_back_and_is_java_s_bytes() {
    let subscription = Subscription {
        topics: ["b".into(), "a".into()].into(),
        user_data: Some(Bytes::from_static(b"u")),
        owned: vec![TopicPartition::new("a", 1), TopicPartition::new("a", 0)],
        generation: 7,
        rack: None,
    };
    let bytes = subscription.encode();
    // Version 3; topics; user data; owned partitions; generation; no rack.
    let expected = b"\0\x03\0\0\0\x02\0\x01a\0\x01b\0\0\0\x01u\0\0\0\x01\0\x01a\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\x07\xff\xff";
    assert_eq!(&bytes[..], expected);
    let back = Subscription::decode(bytes).expect("our own");
    assert_eq!((back.topics, back.generation), (subscription.topics, 7));
    assert_eq!(
        back.owned,
        [TopicPartition::new("a", 0), TopicPartition::new("a", 1)]
    );
}

#[test]
fn older_and_newer_versions_of_a_subscription_are_read() {
    let oldest = Bytes::from_static(b"\0\0\0\0\0\x01\0\x01a\xff\xff\xff\xff");
    let read = Subscription::decode(oldest).expect("version 0");
    assert_eq!((read.topics.len(), read.generation), (1, NO_GENERATION));
    let newer = Bytes::from_static(
        b"\0\x09\0\0\0\x01\0\x01a\xff\xff\xff\xff\0\0\0\0\0\0\0\x05\xff\xffmore",
    );
    assert_eq!(
        Subscription::decode(newer).expect("version 9").generation,
        5
    );
    assert_eq!(Subscription::decode(Bytes::new()), Err(Malformed));
    assert_eq!(
        Subscription::decode(Bytes::from_static(b"\0\x03\xff")),
        Err(Malformed)
    );
}

#[test]
fn an_assignment_reads_back_and_nothing_is_nothing() {
    let given = vec![TopicPartition::new("a", 0), TopicPartition::new("b", 3)];
    assert_eq!(decode_assignment(encode_assignment(&given)), Ok(given));
    assert_eq!(decode_assignment(Bytes::new()), Ok(Vec::new()));
    assert_eq!(decode_assignment(Bytes::from_static(b"\0")), Err(Malformed));
}

#[test]
fn the_sticky_assignors_find_their_user_data_again_and_survive_foreign_bytes() {
    let owned = vec![TopicPartition::new("a", 0), TopicPartition::new("a", 2)];
    let subscription = |user_data| Subscription {
        topics: BTreeSet::new(),
        user_data,
        owned: Vec::new(),
        generation: NO_GENERATION,
        rack: None,
    };
    let data = Assignor::Sticky.user_data(&owned, 9);
    let whole = data.clone().expect("the sticky one has user data");
    assert_eq!(
        &whole[..],
        b"\0\0\0\x01\0\x01a\0\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\x09"
    );
    let member = Assignor::Sticky.member("m".into(), None, subscription(data));
    assert_eq!((member.owned, member.generation), (owned.clone(), 9));
    for end in 0..whole.len() {
        let cut = Some(whole.slice(..end));
        let member = Assignor::Sticky.member("m".into(), None, subscription(cut));
        assert_eq!(member.generation, NO_GENERATION, "{end}");
    }
    let data = Assignor::CooperativeSticky.user_data(&owned, 9);
    let member = Assignor::CooperativeSticky.member("m".into(), None, subscription(data));
    assert_eq!(member.generation, 9);
}
