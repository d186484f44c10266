//! Which of the commits found in a write-ahead log count: the longest chain without a hole, and
//! whether what lies beyond a hole proves that something durable was lost (invariant 27). Knows
//! neither extents nor frames.

use alloc::vec::Vec;

use core::ops::RangeInclusive;

/// One whole, valid commit that was found, wherever it lay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its number; commits of one log are numbered without holes.
    pub sequence: u64,
    /// Every commit up to this number was durable when this one was written.
    pub durable: u64,
    /// The lowest number still needed when this one was written.
    pub needed: u64,
    /// The generation of the extent where it lay.
    pub generation: u64,
}

/// What to make of the commits found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Positions in the list of commits found, in commit order: what recovery replays.
    pub replay: Vec<usize>,
    /// Numbers that were durable and are not there. Empty for an undamaged log.
    pub lost: Vec<RangeInclusive<u64>>,
}

/// Orders the commits found.
///
/// The newest commit by number says which numbers are needed. The chain ends at the first hole, unless a
/// later commit says that the hole had been durable: then something was lost, the hole is
/// declared, and the chain goes on for those partitions that it does not touch.
pub fn order(found: &[Found]) -> Chain {
    let mut by_sequence: Vec<usize> = (0..found.len()).collect();
    // Of two with one number, the one in the newer generation of an extent counts.
    by_sequence.sort_by_key(|at| {
        (
            found[*at].sequence,
            core::cmp::Reverse(found[*at].generation),
        )
    });
    by_sequence.dedup_by_key(|at| found[*at].sequence);
    let Some(newest) = by_sequence.last() else {
        return Chain::default();
    };
    let needed = found[*newest].needed;
    let durable = by_sequence
        .iter()
        .map(|at| found[*at].durable)
        .max()
        .unwrap_or(0);
    let mut chain = Chain::default();
    let mut expected = needed;
    for at in by_sequence
        .into_iter()
        .skip_while(|at| found[*at].sequence < needed)
    {
        let sequence = found[at].sequence;
        if sequence > expected {
            if expected > durable {
                break;
            }
            let last_lost = durable.min(sequence - 1);
            chain.lost.push(expected..=last_lost);
            if last_lost < sequence - 1 {
                break;
            }
        }
        chain.replay.push(at);
        // Nothing follows the last number; only a forged or broken log has it.
        let Some(next) = sequence.checked_add(1) else {
            return chain;
        };
        expected = next;
    }
    if expected <= durable && chain.lost.last().is_none_or(|lost| *lost.end() < durable) {
        chain.lost.push(expected..=durable);
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn commits(sequences: &[u64], durable: u64, needed: u64) -> Vec<Found> {
        let one = |sequence: &u64| Found {
            sequence: *sequence,
            durable: durable.min(sequence - 1),
            needed: needed.min(*sequence),
            generation: 1,
        };
        sequences.iter().map(one).collect()
    }

    fn sequences(found: &[Found]) -> (Vec<u64>, Vec<RangeInclusive<u64>>) {
        let chain = order(found);
        (
            chain.replay.iter().map(|at| found[*at].sequence).collect(),
            chain.lost,
        )
    }

    #[test]
    fn a_whole_log_is_replayed_from_the_first_needed_commit() {
        let found = commits(&[4, 5, 2, 3, 1], 4, 3);
        assert_eq!(sequences(&found), (vec![3, 4, 5], vec![]));
        assert_eq!(sequences(&[]), (vec![], vec![]));
    }

    #[test]
    fn what_was_not_flushed_ends_at_the_first_hole() {
        let found = commits(&[1, 2, 3, 5, 6], 3, 1);
        assert_eq!(sequences(&found), (vec![1, 2, 3], vec![]));
    }

    #[test]
    fn a_hole_in_what_was_durable_is_declared_and_passed() {
        let found = commits(&[1, 2, 5, 6], 5, 1);
        assert_eq!(sequences(&found), (vec![1, 2, 5, 6], vec![3..=4]));
    }

    #[test]
    fn a_durable_hole_that_runs_into_an_unflushed_one_ends_the_chain() {
        let found = commits(&[1, 2, 6], 3, 1);
        assert_eq!(sequences(&found), (vec![1, 2], vec![3..=3]));
    }

    #[test]
    fn a_stale_commit_of_an_older_generation_does_not_count() {
        let mut found = commits(&[1, 2, 3], 2, 1);
        found.push(Found {
            sequence: 2,
            durable: 1,
            needed: 1,
            generation: 0,
        });
        assert_eq!(order(&found).replay, [0, 1, 2]);
        found.push(Found {
            sequence: 3,
            durable: 1,
            needed: 1,
            generation: 5,
        });
        assert_eq!(order(&found).replay, [0, 1, 4]);
    }

    #[test]
    fn a_missing_first_needed_commit_that_was_durable_is_damage() {
        let found = commits(&[3, 4], 3, 2);
        assert_eq!(sequences(&found), (vec![3, 4], vec![2..=2]));
    }

    #[test]
    fn the_last_number_there_is_ends_the_chain() {
        let mut found = commits(&[1, 2], 1, 1);
        found.push(Found {
            sequence: u64::MAX,
            durable: u64::MAX,
            needed: 2,
            generation: 1,
        });
        assert_eq!(
            sequences(&found),
            (vec![2, u64::MAX], vec![3..=u64::MAX - 1])
        );
    }
}
