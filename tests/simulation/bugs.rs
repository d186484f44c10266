//! What storage asks of `crate::bugs`, answered by the machine that it runs on. In the broker every answer
//! is no (`src/broker/bugs.rs`, which says what each is).

use reactor::bug::{Bug, is_in};

pub fn reuses_generations() -> bool {
    is_in(Bug::ReuseWithoutGeneration)
}

pub fn forgets_tombstones() -> bool {
    is_in(Bug::TombstoneTooEarly)
}

pub fn cleans_past_stable() -> bool {
    is_in(Bug::CompactionPastStable)
}

pub fn looks_one_off() -> bool {
    is_in(Bug::IndexOffByOne)
}

pub fn recovers_once() -> bool {
    is_in(Bug::RecoveryNotIdempotent)
}
