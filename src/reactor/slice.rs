//! How long a task that could go on for ever runs before others are let in. Knows nothing of what it does.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A turn of a long task. Letting others in costs microseconds; they wait for so long at most.
const SLICE: Duration = Duration::from_micros(100);

/// A long task's share of the turns.
pub struct Slice {
    until: Cell<Instant>,
}

impl Slice {
    /// Begins one.
    #[expect(clippy::new_without_default, reason = "it looks at the clock")]
    pub fn new() -> Self {
        Self {
            until: Cell::new(Instant::now() + SLICE),
        }
    }

    /// Called often: lets others in once the task has run for long enough.
    pub async fn pass(&self) {
        if Instant::now() >= self.until.get() {
            crate::yield_now().await;
            self.until.set(Instant::now() + SLICE);
        }
    }
}
