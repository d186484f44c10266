//! "Something changed, look again" between tasks of one core. Knows nothing of what changed.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Tasks wait for the next call of [`Signal::notify`].
#[derive(Default)]
pub struct Signal {
    count: Cell<u64>,
    wakers: RefCell<Vec<Waker>>,
}

impl Signal {
    /// Wakes everybody who waits.
    pub fn notify(&self) {
        self.count.set(self.count.get() + 1);
        for waker in self.wakers.take() {
            waker.wake();
        }
    }

    /// Waits until `done` says so, looking again after each notification.
    pub async fn until(&self, mut done: impl FnMut() -> bool) {
        let mut seen = None;
        poll_fn(|context| {
            if done() {
                return Poll::Ready(());
            }
            if seen != Some(self.count.get()) {
                seen = Some(self.count.get());
                self.wakers.borrow_mut().push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Waits for the next notification.
    pub async fn until_notified(&self) {
        let seen = self.count.get();
        self.until(|| self.count.get() != seen).await;
    }
}
