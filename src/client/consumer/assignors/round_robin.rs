//! The round robin assignor: all partitions of all topics dealt out in turn. Knows nothing of the past.

use super::{Assignment, Member, PartitionCounts, TopicPartition};

pub(super) fn assign(counts: &PartitionCounts, members: &[&Member]) -> Assignment {
    let mut given: Assignment = members
        .iter()
        .map(|member| (member.id.clone(), Vec::new()))
        .collect();
    let mut turn = members.iter().cycle();
    for (topic, &count) in counts {
        if !members.iter().any(|member| member.topics.contains(topic)) {
            continue;
        }
        for partition in 0..count {
            // Whoever did not subscribe to the topic is passed over and loses the turn.
            if let Some(member) = turn.find(|member| member.topics.contains(topic)) {
                let partition = TopicPartition::new(topic.clone(), partition);
                given.entry(member.id.clone()).or_default().push(partition);
            }
        }
    }
    given
}
