//! Which broker coordinates the group, how it is found, and when it may be asked again after a failure.
//! Pure. Knows nothing of what it is asked.

use std::time::Instant;

use wire::ErrorCode;

use super::{Answer, Attempt, Effect};
use crate::cluster::Backoff;
use crate::error::code_is_retriable;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coordinator {
    Unknown,
    Searched(Attempt),
    Known(i32),
}

/// The search for the coordinator, and the attempts to get something from it.
#[derive(Debug)]
pub(super) struct Search {
    coordinator: Coordinator,
    /// Commits need a coordinator, too, of consumers that are in no group.
    is_wanted: bool,
    last_attempt: Attempt,
    failures: u32,
    not_before: Option<Instant>,
    backoff: Backoff,
    jitter: f64,
}

impl Search {
    pub(super) fn new(backoff: Backoff, jitter: f64) -> Self {
        Self {
            coordinator: Coordinator::Unknown,
            is_wanted: false,
            last_attempt: 0,
            failures: 0,
            not_before: None,
            backoff,
            jitter,
        }
    }

    /// Node id of the coordinator, while it is known.
    pub(super) fn node(&self) -> Option<i32> {
        match self.coordinator {
            Coordinator::Known(node) => Some(node),
            Coordinator::Unknown | Coordinator::Searched(_) => None,
        }
    }

    /// Until when nothing is asked, because something failed.
    pub(super) fn not_before(&self) -> Option<Instant> {
        self.not_before
    }

    /// A name for the next request.
    pub(super) fn attempt(&mut self) -> Attempt {
        self.last_attempt += 1;
        self.last_attempt
    }

    /// Somebody needs to know the coordinator, member or not.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Whom to ask now, if that is known and nothing has failed just before. Searches for it when it
    /// is `needed`.
    pub(super) fn ask(
        &mut self,
        needed: bool,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) -> Option<i32> {
        if self.not_before.is_some_and(|at| at > now) {
            return None;
        }
        if self.coordinator == Coordinator::Unknown && (needed || self.is_wanted) {
            let attempt = self.attempt();
            self.coordinator = Coordinator::Searched(attempt);
            effects.push(Effect::FindCoordinator(attempt));
        }
        self.node()
    }

    /// The answer to a search. An error is returned when another search would not help.
    pub(super) fn found(
        &mut self,
        attempt: Attempt,
        answer: Answer<i32>,
        now: Instant,
    ) -> Answer<()> {
        if self.coordinator != Coordinator::Searched(attempt) {
            return Ok(());
        }
        match answer {
            Ok(node) => {
                self.is_wanted = false;
                self.coordinator = Coordinator::Known(node);
                self.succeeded();
            }
            Err(code) if code_is_retriable(code) => {
                self.coordinator = Coordinator::Unknown;
                self.back_off(now);
            }
            Err(code) => {
                self.coordinator = Coordinator::Unknown;
                self.is_wanted = false;
                return Err(code);
            }
        }
        Ok(())
    }

    /// It is another by now, or cannot be reached.
    pub(super) fn forget(&mut self) {
        self.coordinator = Coordinator::Unknown;
    }

    pub(super) fn back_off(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + self.backoff.after(self.failures, self.jitter));
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.not_before = None;
    }
}

/// Whether a code says that another broker coordinates, or that this one cannot be reached.
pub(super) fn is_elsewhere(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotCoordinator
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::RequestTimedOut
            | ErrorCode::NetworkException
    )
}
