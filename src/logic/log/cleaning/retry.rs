//! When a log whose cleaning failed is cleaned again. Knows nothing of why it failed.

use crate::ids::Instant;

/// The first pause after a failure; each further one takes twice as long as the one before.
const PAUSE_MS_MIN: u64 = 60_000;
/// The longest pause: a log must not grow for long because a disk was bad for a moment.
const PAUSE_MS_MAX: u64 = 3_600_000;

/// How often the cleaning of a log has failed in a row, and until when it is left alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retry {
    failures: u32,
    until: Instant,
}

impl Retry {
    /// Whether it may be cleaned.
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// For how many milliseconds it is left alone yet.
    pub fn pause_ms(&self, now: Instant) -> u64 {
        self.until.0.saturating_sub(now.0).div_ceil(1_000_000)
    }

    /// After one more failure.
    #[must_use]
    pub fn failed(self, now: Instant) -> Self {
        let factor = 1_u64.checked_shl(self.failures).unwrap_or(u64::MAX);
        let pause_ms = PAUSE_MS_MIN.saturating_mul(factor).min(PAUSE_MS_MAX);
        Self {
            failures: self.failures.saturating_add(1),
            until: now.plus_ms(pause_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_log_that_cannot_be_cleaned_is_tried_again_ever_more_seldom_but_always_within_an_hour() {
        let (mut retry, mut now) = (Retry::default(), Instant(0));
        assert!(retry.is_due(now));
        let mut pauses = Vec::new();
        for _ in 0..80 {
            retry = retry.failed(now);
            let pause_ms = retry.pause_ms(now);
            assert!(!retry.is_due(now.plus_ms(pause_ms - 1)));
            now = now.plus_ms(pause_ms);
            assert!(retry.is_due(now));
            assert_eq!(retry.pause_ms(now), 0);
            pauses.push(pause_ms / 60_000);
        }
        assert_eq!(pauses[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(pauses[79], 60);
    }
}
