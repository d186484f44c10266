//! A storm of rebalances: at each gust members of some groups are told to leave and to join again. Knows
//! nothing of how they do.

use std::rc::Rc;

use tokio::sync::Notify;

use crate::options::Options;
use crate::random::Random;

/// Whom a gust can reach.
pub struct Storm {
    /// By group: its members' ears.
    members: Vec<Vec<Rc<Notify>>>,
    random: Random,
    groups_per_gust: usize,
}

impl Storm {
    /// No gust yet.
    pub fn new(members: Vec<Vec<Rc<Notify>>>, options: &Options) -> Self {
        let groups_per_gust = options.gust_groups.min(members.len());
        Self {
            members,
            random: Random::new(options.seed),
            groups_per_gust,
        }
    }

    /// Tells one member of each of some neighbouring groups. Who has been told and has not left yet is not told
    /// twice.
    pub fn gust(&mut self) {
        let first = self.random.below(self.members.len());
        for number in first..first + self.groups_per_gust {
            let group = &self.members[number % self.members.len()];
            group[self.random.below(group.len())].notify_one();
        }
    }
}
