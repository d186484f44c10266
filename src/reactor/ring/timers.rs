//! The timers of one executor, by deadline. Knows nothing of who fires them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// The timers that have not fired, the soonest first.
#[derive(Default)]
pub(crate) struct Timers {
    waiting: RefCell<BTreeMap<(Instant, u64), Waker>>,
    next_id: Cell<u64>,
}

impl Timers {
    /// The soonest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.waiting.borrow().keys().next().map(|(at, _)| *at)
    }

    /// Wakes the tasks whose deadlines have come.
    pub(crate) fn fire(&self, now: Instant) {
        while let Some(waker) = self.pop_due(now) {
            waker.wake();
        }
    }

    fn pop_due(&self, now: Instant) -> Option<Waker> {
        let mut waiting = self.waiting.borrow_mut();
        let first = waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}

/// Waits for a deadline.
pub(crate) struct Sleep {
    timers: Rc<Timers>,
    key: (Instant, u64),
}

impl Sleep {
    /// A wait until `deadline`.
    pub(crate) fn new(timers: Rc<Timers>, deadline: Instant) -> Self {
        let id = timers.next_id.get();
        timers.next_id.set(id + 1);
        Self {
            timers,
            key: (deadline, id),
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.key.0 {
            return Poll::Ready(());
        }
        let mut waiting = self.timers.waiting.borrow_mut();
        waiting.insert(self.key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        // Outside the borrow: dropping a waker may drop a task, and that another timer.
        let waker = self.timers.waiting.borrow_mut().remove(&self.key);
        drop(waker);
    }
}
