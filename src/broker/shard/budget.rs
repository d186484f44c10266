//! Memory for requests, reserved before a body is read, and for the replies to them. Knows nothing of
//! what the bytes mean.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Memory of one kind of one shard, in bytes. A reservation that does not fit waits its turn, which
/// stops the connection from being read: back-pressure instead of an error.
pub struct Budget {
    limit: usize,
    /// used <= limit, but for one reservation that alone is above it and for what was taken unasked.
    used: Cell<usize>,
    waiting: RefCell<VecDeque<Waker>>,
}

/// Reserved bytes, given back when dropped.
pub struct Reserved {
    budget: Rc<Budget>,
    bytes: usize,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Rc<Self> {
        Rc::new(Self {
            limit,
            used: Cell::new(0),
            waiting: RefCell::new(VecDeque::new()),
        })
    }

    /// Bytes reserved now.
    pub fn used(&self) -> usize {
        self.used.get()
    }

    /// Bytes that are free.
    pub fn left(&self) -> usize {
        self.limit.saturating_sub(self.used.get())
    }

    /// Counts bytes that are held already, fit or not. Who takes looks at [`Budget::left`] before it
    /// comes to hold more.
    pub fn take(self: &Rc<Self>, bytes: usize) -> Reserved {
        self.used.set(self.used.get() + bytes);
        Reserved {
            budget: self.clone(),
            bytes,
        }
    }

    /// Waits until `bytes` fit. A request above the whole limit is let through alone, so that it is
    /// slow instead of stuck.
    pub async fn reserve(self: &Rc<Self>, bytes: usize) -> Reserved {
        poll_fn(|context| {
            let used = self.used.get();
            if used == 0 || used + bytes <= self.limit {
                self.used.set(used + bytes);
                Poll::Ready(())
            } else {
                self.waiting.borrow_mut().push_back(context.waker().clone());
                Poll::Pending
            }
        })
        .await;
        Reserved {
            budget: self.clone(),
            bytes,
        }
    }
}

impl Reserved {
    /// How many.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back all but so many.
    pub fn shrink_to(&mut self, bytes: usize) {
        let freed = self.bytes.saturating_sub(bytes);
        self.bytes -= freed;
        self.free(freed);
    }

    fn free(&self, bytes: usize) {
        self.budget.used.set(self.budget.used.get() - bytes);
        // All of them: a small request may fit where a large one does not.
        for waker in self.budget.waiting.take() {
            waker.wake();
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.free(self.bytes);
    }
}
