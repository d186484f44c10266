//! So many bytes a second for cleaning (`log.cleaner.io.max.bytes.per.second`), reads and writes
//! together. Knows nothing of what is read.

use std::cell::Cell;
use std::time::Duration;

/// What may be used ahead of time, so that not each small read sleeps.
const AHEAD: Duration = Duration::from_millis(100);

/// The budget.
pub struct Budget {
    bytes_per_second: u64,
    /// When all that was used is paid for, in nanoseconds of the monotonic clock.
    paid_at: Cell<u64>,
}

impl Budget {
    /// A budget of so many bytes a second.
    pub fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second: bytes_per_second.max(1),
            paid_at: Cell::new(0),
        }
    }

    /// Uses bytes, and waits when too many were used.
    pub async fn spend(&self, bytes: usize) {
        let now = reactor::timer::monotonic_nanos();
        let wait = self.due(now, bytes as u64);
        if !wait.is_zero() {
            reactor::timer::sleep(wait).await;
        }
    }

    /// How long to wait after using bytes now.
    fn due(&self, now: u64, bytes: u64) -> Duration {
        let cost = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let paid_at = self.paid_at.get().max(now).saturating_add(cost);
        self.paid_at.set(paid_at);
        Duration::from_nanos(paid_at - now).saturating_sub(AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_beyond_the_budget_is_waited_for() {
        let budget = Budget::new(1_000);
        let ms = |now_ms: u64, bytes| budget.due(now_ms * 1_000_000, bytes).as_millis();
        assert_eq!(ms(0, 100), 0);
        assert_eq!(ms(0, 400), 400);
        assert_eq!(ms(500, 1_000), 900);
        assert_eq!(ms(60_000, 100), 0, "what was not used is not saved up");
        assert_eq!(Budget::new(u64::MAX).due(0, 1 << 40), Duration::ZERO);
    }
}
