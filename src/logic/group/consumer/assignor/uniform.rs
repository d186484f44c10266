//! `uniform`: everybody gets as many partitions as the others, and keeps what it had as far as that goes.
//! With different subscriptions no member has two more than another that could take one of them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use wire::group_records::{Assignment, TopicUuid};

use super::{Sizes, Taker, readers};

/// One topic while it is shared out.
struct Topic {
    id: TopicUuid,
    /// The places of those who read it.
    readers: Vec<usize>,
    /// Who has which of its partitions.
    held: BTreeMap<usize, Vec<i32>>,
    /// Those that nobody has.
    free: Vec<i32>,
}

/// What each member is to have.
pub(super) fn assign(takers: &[Taker<'_>], sizes: &Sizes) -> Vec<Assignment> {
    let mut topics: Vec<Topic> = sizes
        .iter()
        .map(|(id, partitions)| Topic::as_before(*id, *partitions, takers))
        .collect();
    // How many partitions each member has.
    let mut loads = vec![0; takers.len()];
    for topic in &topics {
        for (place, partitions) in &topic.held {
            loads[*place] += partitions.len();
        }
    }
    // Topics of few readers first: those who read others as well are filled up by them later.
    topics.sort_by_key(|topic| (topic.readers.len(), topic.id));
    for topic in &mut topics {
        topic.hand_out(&mut loads);
    }
    // Each move makes the sum of the squares of the loads smaller, so that this ends.
    let mut any = true;
    while any {
        any = false;
        for topic in &mut topics {
            any |= topic.level(&mut loads);
        }
    }
    let mut assignments = vec![Assignment::new(); takers.len()];
    for topic in topics {
        for (place, partitions) in topic.held {
            assignments[place].insert(topic.id, partitions.into_iter().collect());
        }
    }
    assignments
}

impl Topic {
    /// Everybody keeps what it had, if it may still have it.
    fn as_before(id: TopicUuid, partitions: i32, takers: &[Taker<'_>]) -> Self {
        let readers = readers(takers, id);
        let mut free: BTreeSet<i32> = (0..partitions).collect();
        let mut held = BTreeMap::new();
        for place in &readers {
            let before = takers[*place].before.and_then(|it| it.get(&id));
            let kept = before.into_iter().flatten().filter(|it| free.remove(it));
            let kept: Vec<i32> = kept.copied().collect();
            if !kept.is_empty() {
                held.insert(*place, kept);
            }
        }
        Self {
            id,
            readers,
            held,
            free: free.into_iter().collect(),
        }
    }

    /// Gives what is free to those who have least.
    fn hand_out(&mut self, loads: &mut [usize]) {
        let mut by_load = ranked(&self.readers, loads);
        for partition in self.free.drain(..) {
            let Some((load, place)) = by_load.pop_first() else {
                return;
            };
            loads[place] = load + 1;
            by_load.insert((load + 1, place));
            self.held.entry(place).or_default().push(partition);
        }
    }

    /// Moves partitions from those who have most to those who have least; says whether it has.
    fn level(&mut self, loads: &mut [usize]) -> bool {
        let mut takers = ranked(&self.readers, loads);
        let givers: Vec<usize> = self.held.keys().copied().collect();
        let mut givers = ranked(&givers, loads);
        let mut any = false;
        while let (Some(least), Some(most)) = (takers.first().copied(), givers.last().copied()) {
            let ((low, to), (high, from)) = (least, most);
            if high <= low + 1 {
                break;
            }
            let Some(partition) = self.held.get_mut(&from).and_then(Vec::pop) else {
                break;
            };
            any = true;
            (loads[to], loads[from]) = (low + 1, high - 1);
            self.held.entry(to).or_default().push(partition);
            for rank in [least, most] {
                takers.remove(&rank);
                givers.remove(&rank);
            }
            takers.extend([(low + 1, to), (high - 1, from)]);
            givers.insert((low + 1, to));
            if self.held.get(&from).is_some_and(Vec::is_empty) {
                self.held.remove(&from);
            } else {
                givers.insert((high - 1, from));
            }
        }
        any
    }
}

/// Members by how many partitions they have.
fn ranked(places: &[usize], loads: &[usize]) -> BTreeSet<(usize, usize)> {
    places.iter().map(|place| (loads[*place], *place)).collect()
}
