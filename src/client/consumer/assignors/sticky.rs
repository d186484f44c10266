//! The sticky assignment: balanced first, then as few moves as possible. Knows nothing of bytes.
//!
//! Each member keeps what it owns, what nobody owns goes to the least loaded, and then partitions
//! move along shortest chains of members (A gives to B, which gives to C) from a more loaded one to
//! one with at least two fewer, until no such chain is left. That is the most even assignment that
//! the subscriptions allow; when all subscribe to the same topics each chain is one move.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::{Assignment, Member, PartitionCounts, TopicPartition};

type MemberIndex = usize;
type TopicIndex = usize;

struct Topic {
    name: Arc<str>,
    subscribers: Vec<MemberIndex>,
    /// Who had each partition before, if exactly one member says so at the newest generation.
    previous: Vec<Option<MemberIndex>>,
}

struct Balance {
    topics: Vec<Topic>,
    /// Per member: the partitions that it holds, by topic. No empty sets.
    held: Vec<BTreeMap<TopicIndex, BTreeSet<i32>>>,
    /// Per member: how many partitions it holds in all.
    load: Vec<usize>,
}

/// One step of a chain: a partition of `topic` goes from one member to another.
#[derive(Clone, Copy)]
struct Step {
    from: MemberIndex,
    to: MemberIndex,
    topic: TopicIndex,
}

/// `members` in the order of their ids, which breaks ties.
pub(super) fn assign(counts: &PartitionCounts, members: &[&Member]) -> Assignment {
    let mut balance = Balance::new(counts, members);
    balance.keep_and_fill();
    while let Some(chain) = balance.chain() {
        for step in chain {
            balance.take(step);
        }
    }
    balance.assignment(members)
}

/// Takes partitions out of `given` that another member still owns: it has to revoke them first.
pub(super) fn hold_back_what_others_own(given: &mut Assignment, members: &[&Member]) {
    let mut owners: BTreeMap<&TopicPartition, BTreeSet<&str>> = BTreeMap::new();
    for member in members {
        for partition in &member.owned {
            owners.entry(partition).or_default().insert(&member.id);
        }
    }
    for (member, partitions) in given {
        partitions.retain(|partition| {
            owners
                .get(partition)
                .is_none_or(|owners| owners.contains(&**member))
        });
    }
}

impl Balance {
    fn new(counts: &PartitionCounts, members: &[&Member]) -> Self {
        let claims = newest_claims(members);
        let topic = |(name, &count): (&Arc<str>, &i32)| {
            let subscribers: Vec<MemberIndex> = (0..members.len())
                .filter(|&member| members[member].topics.contains(name))
                .collect();
            let previous = (0..count).map(|partition| {
                let claim = claims.get(&TopicPartition::new(name.clone(), partition));
                claim
                    .copied()
                    .flatten()
                    .filter(|member| subscribers.contains(member))
            });
            Topic {
                name: name.clone(),
                previous: previous.collect(),
                subscribers,
            }
        };
        Self {
            topics: counts.iter().map(topic).collect(),
            held: vec![BTreeMap::new(); members.len()],
            load: vec![0; members.len()],
        }
    }

    /// Everybody keeps what it owns; the rest goes one by one to the least loaded.
    fn keep_and_fill(&mut self) {
        let mut free = Vec::new();
        for topic in 0..self.topics.len() {
            for index in 0..self.topics[topic].previous.len() {
                let partition = partition_number(index);
                match self.topics[topic].previous[index] {
                    Some(member) => self.put(member, topic, partition),
                    None => free.push((topic, partition)),
                }
            }
        }
        // Topics with few subscribers first, since those have the least choice.
        free.sort_by_key(|&(topic, partition)| {
            (self.topics[topic].subscribers.len(), topic, partition)
        });
        for (topic, partition) in free {
            let subscribers = self.topics[topic].subscribers.iter();
            if let Some(&least) = subscribers.min_by_key(|&&member| self.load[member]) {
                self.put(least, topic, partition);
            }
        }
    }

    fn put(&mut self, member: MemberIndex, topic: TopicIndex, partition: i32) {
        self.held[member]
            .entry(topic)
            .or_default()
            .insert(partition);
        self.load[member] += 1;
    }

    /// The shortest chain from the most loaded member that has one to the least loaded it leads to.
    fn chain(&self) -> Option<Vec<Step>> {
        let mut sources: Vec<MemberIndex> = (0..self.load.len()).collect();
        sources.sort_by_key(|&member| (std::cmp::Reverse(self.load[member]), member));
        sources
            .into_iter()
            .find_map(|source| self.chain_from(source))
    }

    fn chain_from(&self, source: MemberIndex) -> Option<Vec<Step>> {
        let enough = self.load[source].checked_sub(2)?;
        let mut reached: Vec<Option<Step>> = vec![None; self.load.len()];
        let mut topics_seen = vec![false; self.topics.len()];
        let mut level = VecDeque::from([source]);
        while !level.is_empty() {
            let mut next_level = VecDeque::new();
            for from in level {
                for &topic in self.held[from].keys() {
                    if std::mem::replace(&mut topics_seen[topic], true) {
                        continue;
                    }
                    for &to in &self.topics[topic].subscribers {
                        if to != source && reached[to].is_none() {
                            reached[to] = Some(Step { from, to, topic });
                            next_level.push_back(to);
                        }
                    }
                }
            }
            let ends = next_level.iter().copied();
            let end = ends.min_by_key(|&member| (self.load[member], member));
            if let Some(end) = end.filter(|&end| self.load[end] <= enough) {
                return Some(steps_back(&reached, source, end));
            }
            level = next_level;
        }
        None
    }

    /// Moves one partition: rather one that the receiver had before, or that the giver had not.
    fn take(&mut self, step: Step) {
        let previous = &self.topics[step.topic].previous;
        let Some(held) = self.held[step.from].get_mut(&step.topic) else {
            return;
        };
        let chosen = held.iter().copied().min_by_key(|&partition| {
            let before = usize::try_from(partition)
                .ok()
                .and_then(|index| previous.get(index).copied().flatten());
            let rank = match before {
                Some(member) if member == step.to => 0,
                Some(member) if member == step.from => 2,
                _ => 1,
            };
            (rank, std::cmp::Reverse(partition))
        });
        let Some(partition) = chosen else { return };
        held.remove(&partition);
        if held.is_empty() {
            self.held[step.from].remove(&step.topic);
        }
        self.load[step.from] -= 1;
        self.put(step.to, step.topic, partition);
    }

    fn assignment(self, members: &[&Member]) -> Assignment {
        let mut given = Assignment::new();
        for (member, held) in members.iter().zip(&self.held) {
            let partitions = held.iter().flat_map(|(&topic, partitions)| {
                let name = &self.topics[topic].name;
                partitions
                    .iter()
                    .map(|&partition| TopicPartition::new(name.clone(), partition))
            });
            given.insert(member.id.clone(), partitions.collect());
        }
        given
    }
}

/// Who owned each partition at the newest generation that anybody claims it for. Two claims at the
/// same generation cannot both be true, so neither counts.
fn newest_claims(members: &[&Member]) -> BTreeMap<TopicPartition, Option<MemberIndex>> {
    let mut newest: BTreeMap<TopicPartition, (i32, Option<MemberIndex>)> = BTreeMap::new();
    for (index, member) in members.iter().enumerate() {
        let owned: BTreeSet<&TopicPartition> = member.owned.iter().collect();
        for partition in owned {
            let claim = (member.generation, Some(index));
            match newest.get_mut(partition) {
                None => {
                    newest.insert(partition.clone(), claim);
                }
                Some(other) if other.0 < member.generation => *other = claim,
                Some(other) if other.0 == member.generation => other.1 = None,
                Some(_) => {}
            }
        }
    }
    newest
        .into_iter()
        .map(|(partition, (_, member))| (partition, member))
        .collect()
}

/// The chain's steps, its last first: each receiver then gives away something it had before, and
/// nothing moves twice.
fn steps_back(reached: &[Option<Step>], source: MemberIndex, end: MemberIndex) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut at = end;
    while let Some(step) = reached[at] {
        steps.push(step);
        if step.from == source {
            break;
        }
        at = step.from;
    }
    steps
}

fn partition_number(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}
