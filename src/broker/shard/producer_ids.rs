//! The producer ids that one shard may hand out. Knows nothing of where blocks come from.

use std::cell::RefCell;
use std::ops::Range;

/// A part of a block of ids.
#[derive(Default)]
pub struct ProducerIds {
    left: RefCell<Range<i64>>,
}

impl ProducerIds {
    /// An id that nobody else gets, if any is left.
    pub fn take(&self) -> Option<i64> {
        self.left.borrow_mut().next()
    }

    /// Hands out these from now on. What was left of an earlier block is never handed out.
    pub fn refill(&self, ids: Range<i64>) {
        *self.left.borrow_mut() = ids;
    }
}
