//! The range assignor: per topic, consecutive partitions for each member. Knows nothing of other topics.

use super::{Assignment, Member, PartitionCounts, TopicPartition};

pub(super) fn assign(counts: &PartitionCounts, members: &[&Member]) -> Assignment {
    let mut given: Assignment = members
        .iter()
        .map(|member| (member.id.clone(), Vec::new()))
        .collect();
    for (topic, &count) in counts {
        let subscribed = members
            .iter()
            .filter(|member| member.topics.contains(topic));
        let subscribed: Vec<&&Member> = subscribed.collect();
        let Ok(readers) = i32::try_from(subscribed.len()) else {
            continue;
        };
        if readers == 0 {
            continue;
        }
        let (each, more) = (count / readers, count % readers);
        let mut next = 0;
        for (index, member) in (0..).zip(subscribed) {
            let end = next + each + i32::from(index < more);
            let partitions = (next..end).map(|it| TopicPartition::new(topic.clone(), it));
            given
                .entry(member.id.clone())
                .or_default()
                .extend(partitions);
            next = end;
        }
    }
    given
}
