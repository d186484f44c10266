//! Sharing out: who reads which partitions in the end. Knows nothing of what members have meanwhile.

mod range;
mod uniform;

#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use wire::group_records::{Assignment, TopicUuid};

use super::settings::Assignor;

/// A member that partitions are shared out to.
pub(super) struct Taker<'a> {
    /// Its id.
    pub(super) id: &'a str,
    /// Its own name for itself, if it is a static member.
    pub(super) instance: Option<&'a str>,
    /// The topics that it reads.
    pub(super) topics: BTreeSet<TopicUuid>,
    /// What it was to have before.
    pub(super) before: Option<&'a Assignment>,
}

/// How many partitions each topic has.
pub(super) type Sizes = BTreeMap<TopicUuid, i32>;

/// What each member is to have, in the order of the members, which is by id.
pub(super) fn assign(assignor: Assignor, takers: &[Taker<'_>], sizes: &Sizes) -> Vec<Assignment> {
    match assignor {
        Assignor::Uniform => uniform::assign(takers, sizes),
        Assignor::Range => range::assign(takers, sizes),
    }
}

/// The places of those who read a topic.
fn readers(takers: &[Taker<'_>], topic: TopicUuid) -> Vec<usize> {
    let all = takers.iter().enumerate();
    let reading = all.filter(|(_, taker)| taker.topics.contains(&topic));
    reading.map(|(place, _)| place).collect()
}
