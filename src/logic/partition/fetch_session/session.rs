//! One fetch session: its partitions in turn, and what its client was last told of each. Knows nothing
//! of other sessions or of who may have one.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{INITIAL_EPOCH, PartitionKey, Returned, Wanted, epoch_after};
use crate::ids::{Instant, Offset};

#[derive(Debug)]
pub(super) struct Session {
    pub(super) topic_ids: bool,
    /// What the next request must carry.
    pub(super) epoch: i32,
    pub(super) created: Instant,
    /// created <= used.
    pub(super) used: Instant,
    /// By turn.
    partitions: BTreeMap<u64, Cached>,
    /// Each partition's turn; the same partitions as above.
    turns: BTreeMap<PartitionKey, u64>,
    /// Above every turn in use.
    next_turn: u64,
}

#[derive(Debug)]
struct Cached {
    wanted: Wanted,
    /// What the client was last told; none before the first answer and after an error, so that the
    /// next answer shows the partition.
    told: Option<Told>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    high_watermark: Offset,
    last_stable: Offset,
    log_start: Offset,
}

impl Told {
    fn new(returned: &Returned) -> Option<Self> {
        let Returned {
            failed,
            high_watermark,
            last_stable,
            log_start,
            ..
        } = *returned;
        (!failed).then_some(Self {
            high_watermark,
            last_stable,
            log_start,
        })
    }
}

impl Session {
    /// The session after its first, full answer.
    pub(super) fn new(
        now: Instant,
        topic_ids: bool,
        wanted: Vec<Wanted>,
        returned: &[Returned],
    ) -> Self {
        let mut session = Self {
            topic_ids,
            epoch: epoch_after(INITIAL_EPOCH),
            created: now,
            used: now,
            partitions: BTreeMap::new(),
            turns: BTreeMap::new(),
            next_turn: 0,
        };
        let keys: Vec<_> = wanted.iter().map(|wanted| wanted.key.clone()).collect();
        session.update(wanted, &[]);
        for (key, returned) in keys.iter().zip(returned) {
            session.show(key, returned);
        }
        session
    }

    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Adds or changes `wanted`, then drops `forgotten`.
    pub(super) fn update(&mut self, wanted: Vec<Wanted>, forgotten: &[PartitionKey]) {
        for wanted in wanted {
            let known = self.turns.get(&wanted.key);
            match known.and_then(|turn| self.partitions.get_mut(turn)) {
                Some(cached) => cached.wanted = wanted,
                None => self.append(Cached { wanted, told: None }),
            }
        }
        for key in forgotten {
            if let Some(turn) = self.turns.remove(key) {
                self.partitions.remove(&turn);
            }
        }
        assert_eq!(
            self.partitions.len(),
            self.turns.len(),
            "a partition has one turn"
        );
    }

    fn append(&mut self, cached: Cached) {
        self.turns.insert(cached.wanted.key.clone(), self.next_turn);
        self.partitions.insert(self.next_turn, cached);
        self.next_turn += 1;
    }

    /// All partitions, in turn.
    pub(super) fn wanted(&self) -> Vec<Wanted> {
        self.partitions
            .values()
            .map(|cached| cached.wanted.clone())
            .collect()
    }

    /// Whether an incremental answer shows the partition: it has records, an error, or marks other
    /// than those last told. One with records goes to the end, so that the rest have their turn
    /// when an answer is full.
    pub(super) fn show(&mut self, key: &PartitionKey, returned: &Returned) -> bool {
        let Some(turn) = self.turns.get(key).copied() else {
            return true;
        };
        let Some(cached) = self.partitions.get_mut(&turn) else {
            return true;
        };
        let told = Told::new(returned);
        let shown = returned.bytes > 0 || told.is_none() || told != cached.told;
        cached.told = told;
        if returned.bytes > 0
            && let Some(cached) = self.partitions.remove(&turn)
        {
            self.append(cached);
        }
        shown
    }
}

/// A full request that names a partition twice means the last one, in the first one's place.
pub(super) fn without_repeats(wanted: Vec<Wanted>) -> Vec<Wanted> {
    let mut places: BTreeMap<PartitionKey, usize> = BTreeMap::new();
    let mut kept: Vec<Wanted> = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        match places.get(&wanted.key) {
            Some(place) => kept[*place] = wanted,
            None => {
                places.insert(wanted.key.clone(), kept.len());
                kept.push(wanted);
            }
        }
    }
    kept
}
