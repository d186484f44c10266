//! Bugs that a simulation puts into groups to prove that it finds them. Here every answer is a constant no,
//! and nothing is left of the question; in the simulation `tests/simulation/groups/bugs.rs` takes this
//! module's place. Knows nothing of what is asked.

/// A member of an old generation or epoch may commit.
pub const fn accepts_old_commits() -> bool {
    false
}

/// A heartbeat does not put off the end of its member's session.
pub const fn leaves_session_timers() -> bool {
    false
}

/// A static member's old id is as good as its new one.
pub const fn skips_static_fencing() -> bool {
    false
}

/// While a partition loads, a commit is passed over that is the last record of a read of the log.
pub const fn loses_ends_of_replay() -> bool {
    false
}

/// A partition is given away before its owner has given it back.
pub const fn gives_what_is_not_free() -> bool {
    false
}

/// Offsets expire even of topics that members read.
pub const fn expires_in_live_groups() -> bool {
    false
}

/// What a leader has shared out counts for the generation after its own, too.
pub const fn applies_old_assignments() -> bool {
    false
}

/// A group that is deleted keeps the offsets that were on their way to the log.
pub const fn misses_tombstones() -> bool {
    false
}
