//! Until when what is expected of members. Knows nothing of what is expected.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::ids::Instant;

/// At most one moment for each member.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    by_member: BTreeMap<String, Instant>,
    /// The same, in the order of time.
    in_order: BTreeSet<(Instant, String)>,
}

impl Deadlines {
    pub(super) fn set(&mut self, member: &str, until: Instant) {
        self.remove(member);
        self.by_member.insert(member.into(), until);
        self.in_order.insert((until, member.into()));
    }

    /// Sets a moment unless one stands.
    pub(super) fn begin(&mut self, member: &str, until: Instant) {
        if !self.contains(member) {
            self.set(member, until);
        }
    }

    pub(super) fn remove(&mut self, member: &str) {
        if let Some((member, until)) = self.by_member.remove_entry(member) {
            self.in_order.remove(&(until, member));
        }
    }

    pub(super) fn contains(&self, member: &str) -> bool {
        self.by_member.contains_key(member)
    }

    pub(super) fn first(&self) -> Option<Instant> {
        self.in_order.first().map(|(until, _)| *until)
    }

    /// Whose moment has come.
    pub(super) fn due(&self, now: Instant) -> Vec<String> {
        let due = self.in_order.iter().take_while(|(until, _)| *until <= now);
        due.map(|(_, member)| member.clone()).collect()
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.by_member.retain(|member, _| keep(member));
        self.in_order.retain(|(_, member)| keep(member));
    }

    /// Puts off what would come before this moment.
    pub(super) fn not_before(&mut self, moment: Instant) {
        for member in self.due(moment) {
            self.set(&member, moment);
        }
    }
}
