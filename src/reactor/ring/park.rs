//! When a core has nothing to do, and how it waits. Knows nothing of what it waits for.
//!
//! glommio runs the tasks, but its own way to sleep costs some ten system calls and a membarrier per
//! wake-up, and can miss tasks that became ready in between. So it never sleeps: a task that is always
//! ready, the parker, runs after all others that are, and once none of them has run since its last
//! turn it waits in the ring itself, in the system call that also submits what is queued. Only while
//! nothing but the background is ready it waits for that to run: always ready it would use up what the
//! background leaves to the others, and there are none.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Ring;
use crate::late::{LateTurns, Turn, Watch};
use crate::tasks;

/// Submissions and completions wait this long at most while tasks keep each other busy: until then
/// they are gathered, and the ring is entered once for all of them.
const GATHER_MAX: Duration = Duration::from_micros(100);
/// The ring is entered when so many submissions are queued.
const GATHER_SUBMISSIONS_MAX: usize = 64;
/// A sleep ends after this at the latest.
const SLEEP_MAX: Duration = Duration::from_secs(1);

pub(crate) struct Parker {
    ring: Rc<Ring>,
    /// How long to look for work before sleeping.
    spin: Duration,
    watch: Watch,
    /// When the ring was entered last.
    entered: Instant,
    /// When something was last seen to happen.
    active: Instant,
}

impl Parker {
    pub(crate) fn new(ring: Rc<Ring>, spin: Option<Duration>, late_turns: Arc<LateTurns>) -> Self {
        let now = Instant::now();
        Self {
            ring,
            spin: spin.unwrap_or_default(),
            watch: Watch::new(late_turns, now),
            entered: now,
            active: now,
        }
    }

    /// Runs until the ring is finished.
    pub(crate) async fn run(mut self) {
        let (mut polls, mut turn) = (tasks::polls(), Turn::at(Instant::now()));
        while !self.ring.is_quiet_for_ever() {
            // Behind every task that is ready now.
            glommio::executor().yield_task_queue_now().await;
            let now = Instant::now();
            self.watch.turn(&turn, now);
            // Tasks are made ready by other tasks and by this one. If none has run since this one made
            // the last ones ready, none is.
            let ran = std::mem::replace(&mut polls, tasks::polls()) != polls;
            if ran {
                self.active = now;
            }
            let background = tasks::background_is_ready();
            let busy = ran || background;
            if !busy && now.duration_since(self.active) >= self.spin {
                self.sleep(now);
            } else if !ran || now.duration_since(self.entered) >= GATHER_MAX || self.is_full() {
                self.look(now);
            }
            turn = Turn {
                // What submitting takes is part of the turn, what sleeping takes is not.
                begun: self.entered.max(now),
                submitted: Instant::now(),
            };
            tasks::measure_from(turn.submitted);
            if background && !ran {
                // What this task runs meanwhile would be taken from the background's share.
                tasks::until_one_ran().await;
            }
        }
    }

    fn is_full(&self) -> bool {
        self.ring.queued() >= GATHER_SUBMISSIONS_MAX
    }

    /// Submits and lands without waiting.
    fn look(&mut self, now: Instant) {
        self.entered = now;
        if self.ring.has_work() {
            self.ring.enter(None);
            self.ring.land();
        }
        self.ring.bells().answer();
        self.ring.timers().fire(now);
    }

    /// Submits and waits for a completion, a bell or a timer.
    fn sleep(&mut self, now: Instant) {
        let until = self.ring.timers().next();
        let wait = until.map_or(SLEEP_MAX, |at| at.saturating_duration_since(now));
        let wait = wait.min(SLEEP_MAX);
        if wait.is_zero() || !self.ring.bells().fall_asleep() {
            return self.look(now);
        }
        self.ring.enter(Some(wait));
        self.ring.bells().wake_up();
        self.entered = Instant::now();
        let slept = self.entered.duration_since(now);
        self.watch.sleep(slept.saturating_sub(wait), self.entered);
        self.ring.land();
        self.ring.bells().answer();
        self.ring.timers().fire(self.entered);
    }
}
