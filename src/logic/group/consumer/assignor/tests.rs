//! Promises of the assignors.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::*;

const T: TopicUuid = [1; 16];
const U: TopicUuid = [2; 16];

struct Member {
    id: String,
    instance: Option<String>,
    topics: BTreeSet<TopicUuid>,
    has: Assignment,
}

fn members(count: usize, topics: &[TopicUuid]) -> Vec<Member> {
    let member = |number| Member {
        id: format!("m{number}"),
        instance: None,
        topics: topics.iter().copied().collect(),
        has: Assignment::new(),
    };
    (0..count).map(member).collect()
}

/// Shares out, and remembers it.
fn share(assignor: Assignor, members: &mut [Member], sizes: &[(TopicUuid, i32)]) {
    let takers: Vec<Taker<'_>> = members
        .iter()
        .map(|it| Taker {
            id: &it.id,
            instance: it.instance.as_deref(),
            topics: it.topics.clone(),
            before: Some(&it.has),
        })
        .collect();
    let sizes: Sizes = sizes.iter().copied().collect();
    let assignments = assign(assignor, &takers, &sizes);
    let mut left: BTreeSet<(TopicUuid, i32)> = sizes
        .iter()
        .flat_map(|(topic, count)| (0..*count).map(|index| (*topic, index)))
        .collect();
    for (member, assignment) in members.iter_mut().zip(assignments) {
        for (topic, partitions) in &assignment {
            assert!(
                member.topics.contains(topic),
                "nobody gets what it does not read"
            );
            assert!(!partitions.is_empty());
            for index in partitions {
                assert!(left.remove(&(*topic, *index)), "one owner of {index}");
            }
        }
        member.has = assignment;
    }
    let read: BTreeSet<TopicUuid> = members.iter().flat_map(|it| it.topics.clone()).collect();
    left.retain(|(topic, _)| read.contains(topic));
    assert!(left.is_empty(), "nobody has {left:?}");
}

fn counts(members: &[Member]) -> Vec<usize> {
    let count = |it: &Member| it.has.values().map(|it| it.len()).sum();
    members.iter().map(count).collect()
}

fn moved(before: &[Assignment], members: &[Member]) -> usize {
    let pairs = before.iter().zip(members);
    let gone = pairs.map(|(before, now)| {
        let mut gone = 0;
        for (topic, partitions) in before {
            let now = now.has.get(topic).cloned().unwrap_or_default();
            gone += partitions.difference(&now).count();
        }
        gone
    });
    gone.sum()
}

#[test]
fn uniform_gives_everybody_as_much_and_moves_as_little_as_it_can() {
    let mut group = members(3, &[T, U]);
    let sizes = [(T, 7), (U, 4)];
    share(Assignor::Uniform, &mut group, &sizes);
    assert_eq!(counts(&group), [4, 4, 3]);
    let before: Vec<Assignment> = group.iter().map(|it| it.has.clone()).collect();
    share(Assignor::Uniform, &mut group, &sizes);
    assert_eq!(moved(&before, &group), 0, "nothing has changed");
    group.extend(members(4, &[T, U]).pop());
    share(Assignor::Uniform, &mut group, &sizes);
    let mut loads = counts(&group);
    loads.sort_unstable();
    assert_eq!(loads, [2, 3, 3, 3]);
    assert_eq!(
        moved(&before, &group),
        2,
        "what the new one gets, and no more"
    );
    let before: Vec<Assignment> = group[1..].iter().map(|it| it.has.clone()).collect();
    group.remove(0);
    share(Assignor::Uniform, &mut group, &sizes);
    assert_eq!(
        moved(&before, &group),
        0,
        "those who stay keep what they have"
    );
}

#[test]
fn uniform_leaves_nobody_with_two_more_than_another() {
    let mut group = members(1, &[T]);
    share(Assignor::Uniform, &mut group, &[(T, 2)]);
    group.extend(members(2, &[T]).pop());
    share(Assignor::Uniform, &mut group, &[(T, 2)]);
    assert_eq!(counts(&group), [1, 1]);
}

#[test]
fn uniform_evens_out_what_different_subscriptions_allow() {
    let mut group = members(4, &[T, U]);
    group[0].topics.remove(&U);
    group[1].topics.remove(&T);
    share(Assignor::Uniform, &mut group, &[(T, 2), (U, 10)]);
    let loads = counts(&group);
    assert_eq!(
        loads[0], 2,
        "the few of its topic are for who reads no other"
    );
    assert_eq!(loads[1..].iter().max(), Some(&4));
    // The topic is gone, and with it what was had of it.
    share(Assignor::Uniform, &mut group, &[(U, 10)]);
    assert_eq!(counts(&group)[0], 0);
}

#[test]
fn range_gives_neighbours_and_the_same_ones_of_topics_alike() {
    let mut group = members(3, &[T, U]);
    group[2].instance = Some("a".into());
    share(Assignor::Range, &mut group, &[(T, 7), (U, 7)]);
    let of = |member: &Member, topic| -> Vec<i32> { member.has[&topic].iter().copied().collect() };
    for topic in [T, U] {
        assert_eq!(of(&group[2], topic), [0, 1, 2], "static members come first");
        assert_eq!(of(&group[0], topic), [3, 4]);
        assert_eq!(of(&group[1], topic), [5, 6]);
    }
    share(Assignor::Range, &mut group, &[(T, 2)]);
    assert_eq!(counts(&group), [1, 0, 1]);
}

#[test]
fn a_thousand_members_share_a_thousand_partitions() {
    let mut group = members(1_000, &[T]);
    for assignor in Assignor::ALL {
        share(assignor, &mut group, &[(T, 1_000)]);
        assert!(counts(&group).iter().all(|it| *it == 1));
    }
}
