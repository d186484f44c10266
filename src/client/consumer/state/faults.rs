//! Errors that wait for a poll to return them. Knows nothing of how they come about.

use std::collections::{BTreeSet, VecDeque};

use super::TopicPartition;
use crate::Error;

/// What an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum About {
    Partition(TopicPartition),
    /// The look-up of committed offsets, whichever partitions it is for.
    Committed,
    Group,
}

/// Errors, oldest first, one at most about each thing: what fails again and again while nobody polls takes
/// no more memory, and is told once.
#[derive(Debug, Default)]
pub(super) struct Faults(VecDeque<(About, Error)>);

impl Faults {
    /// Adds an error. It takes the place of an earlier one about the same.
    pub(super) fn push(&mut self, about: About, error: Error) {
        match self.0.iter_mut().find(|(known, _)| *known == about) {
            Some((_, known)) => *known = error,
            None => self.0.push_back((about, error)),
        }
    }

    pub(super) fn pop(&mut self) -> Option<Error> {
        self.0.pop_front().map(|(_, error)| error)
    }

    /// The application has gone on with the partition, whatever was wrong with it.
    pub(super) fn forget(&mut self, partition: &TopicPartition) {
        let is_other = |about: &About| !matches!(about, About::Partition(at) if at == partition);
        self.0.retain(|(about, _)| is_other(about));
    }

    /// Only these partitions are assigned any more.
    pub(super) fn keep(&mut self, assigned: &BTreeSet<TopicPartition>) {
        let is_kept = |about: &About| match about {
            About::Partition(at) => assigned.contains(at),
            About::Committed | About::Group => true,
        };
        self.0.retain(|(about, _)| is_kept(about));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(partition: i32) -> About {
        About::Partition(TopicPartition::new("t", partition))
    }

    fn error(reason: &str) -> Error {
        Error::Invalid {
            reason: reason.to_owned(),
        }
    }

    fn all(mut faults: Faults) -> Vec<String> {
        std::iter::from_fn(|| faults.pop())
            .map(|error| error.to_string())
            .collect()
    }

    #[test]
    fn of_many_errors_about_the_same_the_last_one_is_told_once() {
        let mut faults = Faults::default();
        for number in 0..3 {
            faults.push(about(0), error(&format!("a{number}")));
            faults.push(about(1), error(&format!("b{number}")));
            faults.push(About::Group, error(&format!("g{number}")));
        }
        assert_eq!(all(faults), ["a2", "b2", "g2"]);
    }

    #[test]
    fn what_is_about_a_partition_goes_with_it() {
        let mut faults = Faults::default();
        for partition in 0..3 {
            faults.push(about(partition), error(&partition.to_string()));
        }
        faults.push(About::Committed, error("committed"));
        faults.forget(&TopicPartition::new("t", 1));
        faults.keep(&BTreeSet::from([
            TopicPartition::new("t", 1),
            TopicPartition::new("t", 2),
        ]));
        assert_eq!(all(faults), ["2", "committed"]);
    }
}
