//! Bugs that the simulation puts into storage to prove that it finds them: those that a faulty disk cannot
//! stand for. Here every answer is a constant no, and nothing is left of the question; in the simulation
//! `tests/simulation/bugs.rs` takes this module's place. Knows nothing of what is asked.

/// An extent that is used again keeps its generation: old commits in it pass for new ones.
pub const fn reuses_generations() -> bool {
    false
}

/// A tombstone goes with the next cleaning.
pub const fn forgets_tombstones() -> bool {
    false
}

/// Cleaning goes on past the last stable offset.
pub const fn cleans_past_stable() -> bool {
    false
}

/// The index is asked for the offset after the wanted one.
pub const fn looks_one_off() -> bool {
    false
}

/// A write-ahead log is given up once it is read.
pub const fn recovers_once() -> bool {
    false
}
