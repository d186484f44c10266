//! Bugs that can be put into groups, one at a time, to see that each is found. Knows which one the coordinators
//! of this thread have; where each is, groups know. In the broker every answer is no (`src/logic/bugs.rs`, which
//! says what each is).

use std::cell::Cell;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    OldCommitAccepted,
    SessionTimerNotReset,
    StaticFencingSkipped,
    CommitLostInReload,
    TwoOwnersInOneEpoch,
    OffsetExpiredInLiveGroup,
    OldAssignmentApplied,
    TombstoneMissed,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::OldCommitAccepted,
        Self::SessionTimerNotReset,
        Self::StaticFencingSkipped,
        Self::CommitLostInReload,
        Self::TwoOwnersInOneEpoch,
        Self::OffsetExpiredInLiveGroup,
        Self::OldAssignmentApplied,
        Self::TombstoneMissed,
    ];
}

thread_local! {
    static PUT_IN: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// From now on the coordinators of this thread have this bug, or none.
pub fn put_in(bug: Option<Bug>) {
    PUT_IN.set(bug);
}

fn is_in(bug: Bug) -> bool {
    PUT_IN.get() == Some(bug)
}

pub fn accepts_old_commits() -> bool {
    is_in(Bug::OldCommitAccepted)
}

pub fn leaves_session_timers() -> bool {
    is_in(Bug::SessionTimerNotReset)
}

pub fn skips_static_fencing() -> bool {
    is_in(Bug::StaticFencingSkipped)
}

pub fn loses_ends_of_replay() -> bool {
    is_in(Bug::CommitLostInReload)
}

pub fn gives_what_is_not_free() -> bool {
    is_in(Bug::TwoOwnersInOneEpoch)
}

pub fn expires_in_live_groups() -> bool {
    is_in(Bug::OffsetExpiredInLiveGroup)
}

pub fn applies_old_assignments() -> bool {
    is_in(Bug::OldAssignmentApplied)
}

pub fn misses_tombstones() -> bool {
    is_in(Bug::TombstoneMissed)
}
