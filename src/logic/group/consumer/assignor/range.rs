//! `range`: of each topic everybody gets neighbouring partitions. Members that read the same topics get
//! the same partitions of topics of one size, so that they can be joined.

use alloc::vec;
use alloc::vec::Vec;

use wire::group_records::Assignment;

use super::{Sizes, Taker, readers};

/// What each member is to have.
pub(super) fn assign(takers: &[Taker<'_>], sizes: &Sizes) -> Vec<Assignment> {
    let mut assignments = vec![Assignment::new(); takers.len()];
    for (topic, partitions) in sizes {
        let mut readers = readers(takers, *topic);
        // Static members first, by the ids that outlive their processes: their shares stay.
        readers.sort_by_key(|place| {
            let Taker { id, instance, .. } = takers[*place];
            (instance.is_none(), instance, id)
        });
        let Ok(count) = i32::try_from(readers.len()) else {
            continue;
        };
        if count == 0 {
            continue;
        }
        let (each, extra) = (partitions / count, partitions % count);
        let mut next = 0;
        for (rank, place) in (0..).zip(readers) {
            let end = next + each + i32::from(rank < extra);
            if next < end {
                assignments[place].insert(*topic, (next..end).collect());
            }
            next = end;
        }
    }
    assignments
}
