//! From what a member has to what it is to have, one assignment after the other. Knows nothing of
//! heartbeats.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::KafkaUuid;

use super::super::ByTopicId;
use crate::consumer::partition::TopicPartition;

#[derive(Debug, Default)]
pub(super) struct Reconciliation {
    /// What the coordinator gave last; `None` until it does.
    target: Option<ByTopicId>,
    /// What the application has; `None` until it was given something, or nothing.
    owned: Option<ByTopicId>,
    /// What the application is being given. Until that is done it has what it had.
    under_way: Option<ByTopicId>,
    /// Names of topics of all these, as far as they are known.
    names: BTreeMap<KafkaUuid, Arc<str>>,
}

impl Reconciliation {
    /// The coordinator gave this.
    pub(super) fn aim(&mut self, target: ByTopicId) {
        self.target = Some(target);
    }

    pub(super) fn named(&mut self, names: Vec<(KafkaUuid, Arc<str>)>) {
        self.names.extend(names);
    }

    /// Topics of the target whose names are not known.
    pub(super) fn nameless(&self) -> BTreeSet<KafkaUuid> {
        let target = self.target.iter().flat_map(BTreeMap::keys);
        let nameless = target.filter(|id| !self.names.contains_key(*id));
        nameless.copied().collect()
    }

    /// What the application is to be given now, all of it; `None` while it is being given something, or
    /// has all that it can have.
    pub(super) fn step(&mut self) -> Option<Vec<TopicPartition>> {
        if self.under_way.is_some() {
            return None;
        }
        let target = self.target.as_ref()?;
        let can_have = target.iter().filter(|(id, _)| self.can_have(id));
        let next: ByTopicId = can_have.map(|(id, it)| (*id, it.clone())).collect();
        let is_news = match &self.owned {
            Some(owned) => *owned != next,
            // That the member has nothing is news the first time, unless only names are missing.
            None => !next.is_empty() || target.is_empty(),
        };
        if !is_news {
            return None;
        }
        let mut given = Vec::new();
        for (id, partitions) in &next {
            let name = self.names.get(id)?;
            let partitions = partitions.iter();
            given.extend(partitions.map(|it| TopicPartition::new(name.clone(), *it)));
        }
        self.under_way = Some(next);
        Some(given)
    }

    /// Whether the topic has a name, which no topic that the member has still bears: one that was
    /// deleted and made again is another, of which nothing has been read.
    fn can_have(&self, id: &KafkaUuid) -> bool {
        let Some(name) = self.names.get(id) else {
            return false;
        };
        let mut owned = self.owned.iter().flat_map(BTreeMap::keys);
        !owned.any(|other| other != id && self.names.get(other) == Some(name))
    }

    /// The application has what the last step gave. False when there was none.
    pub(super) fn done(&mut self) -> bool {
        let Some(given) = self.under_way.take() else {
            return false;
        };
        self.owned = Some(given);
        let (target, owned) = (&self.target, &self.owned);
        self.names.retain(|id, _| {
            let mut known = [target, owned].into_iter().flatten();
            known.any(|partitions| partitions.contains_key(id))
        });
        true
    }

    /// What the member has, as far as the coordinator is concerned.
    pub(super) fn owned(&self) -> ByTopicId {
        self.owned.clone().unwrap_or_default()
    }
}
