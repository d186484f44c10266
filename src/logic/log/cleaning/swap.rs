//! The order in which a cleaned segment takes the place of those that it was made of, so that a crash
//! between any two steps leaves either all of the old ones or the new one. Touches no disk.
//!
//! The list of those replaced, made durable in one step, is what decides: without it the new files are
//! thrown away at the next start, with it the steps after it are done again.

use alloc::vec::Vec;

use crate::ids::Offset;

/// The files of a segment that cleaning writes, the log last: it is what tells a finished swap.
pub const ENDINGS: [&str; 3] = ["index", "timeindex", "log"];
/// What a file's name ends in while it is being written.
pub const CLEANED: &str = "cleaned";
/// What it ends in until the old ones are gone. Alone, the name of the list of those replaced.
pub const SWAP: &str = "swap";

/// One step. Files are named by base offset and ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A file that is complete and flushed gets its next name: `.cleaned` to `.swap`.
    Ready(&'static str),
    /// The directory's entries are flushed.
    Flush,
    /// The list of those replaced is written, durably.
    Decide,
    /// Readers find the new segment from here on.
    Switch,
    /// An old segment's files go.
    Retire(Offset),
    /// A file gets its final name: `.swap` to none.
    Settle(&'static str),
    /// The list is removed.
    Forget,
}

/// The steps for one cleaned segment, from its files being written and flushed on.
pub fn steps(replaced: &[Offset]) -> Vec<Step> {
    let mut steps = Vec::with_capacity(replaced.len() + 12);
    steps.extend(ENDINGS.map(Step::Ready));
    steps.extend([Step::Flush, Step::Decide, Step::Switch]);
    steps.extend(replaced.iter().copied().map(Step::Retire));
    steps.extend(ENDINGS.map(Step::Settle));
    // Flushed at last, so that the list cannot come back beside the files of a later cleaning.
    steps.extend([Step::Flush, Step::Forget, Step::Flush]);
    steps
}

/// What is left to do at a start that finds a list of those replaced.
pub fn rest(replaced: &[Offset], log_is_settled: bool) -> Vec<Step> {
    let base = replaced.first();
    let old = replaced
        .iter()
        .filter(|old| !log_is_settled || Some(*old) != base);
    let mut steps: Vec<Step> = old.copied().map(Step::Retire).collect();
    if !log_is_settled {
        steps.extend(ENDINGS.map(Step::Settle));
    }
    steps.extend([Step::Flush, Step::Forget, Step::Flush]);
    steps
}

/// The list as its file holds it.
pub fn encode(replaced: &[Offset]) -> Vec<u8> {
    replaced
        .iter()
        .flat_map(|base| base.0.to_le_bytes())
        .collect()
}

/// Reads it back; `None` when it cannot be one.
pub fn decode(bytes: &[u8]) -> Option<Vec<Offset>> {
    let (bases, rest) = bytes.as_chunks::<8>();
    let bases: Vec<Offset> = bases
        .iter()
        .map(|base| Offset(i64::from_le_bytes(*base)))
        .collect();
    let rises = bases.windows(2).all(|pair| pair[0] < pair[1]);
    (rest.is_empty() && rises && bases.first()?.0 >= 0).then_some(bases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_old_goes_before_the_decision_is_durable() {
        let steps = steps(&[Offset(0), Offset(10)]);
        let at = |wanted: Step| steps.iter().position(|step| *step == wanted);
        let decided = at(Step::Decide);
        assert!(at(Step::Ready("log")) < at(Step::Flush) && at(Step::Flush) < decided);
        assert!(decided < at(Step::Switch) && at(Step::Switch) < at(Step::Retire(Offset(0))));
        assert!(at(Step::Retire(Offset(10))) < at(Step::Settle("index")));
        assert!(at(Step::Settle("timeindex")) < at(Step::Settle("log")));
    }

    #[test]
    fn a_settled_segment_is_not_retired_with_those_it_replaced() {
        let replaced = [Offset(0), Offset(10)];
        assert!(rest(&replaced, false).contains(&Step::Retire(Offset(0))));
        assert!(!rest(&replaced, true).contains(&Step::Retire(Offset(0))));
        assert!(rest(&replaced, true).contains(&Step::Retire(Offset(10))));
    }

    #[test]
    fn the_list_reads_back() {
        let replaced = [Offset(3), Offset(10)];
        assert_eq!(decode(&encode(&replaced)), Some(replaced.to_vec()));
        assert_eq!(decode(&[1; 9]), None);
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&encode(&[Offset(3), Offset(3)])), None);
    }
}
