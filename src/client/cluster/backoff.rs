//! Exponential backoff (KIP-580). Pure: the moment and the jitter are passed in.

use std::time::{Duration, Instant};

/// How far jitter moves a wait, both ways.
pub const JITTER: f64 = 0.2;

/// The shortest and the longest wait between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub initial: Duration,
    /// What the wait, doubled with each failure, does not exceed (but for jitter).
    pub max: Duration,
}

impl Backoff {
    /// The wait after so many failures in a row; `random` in 0..1 spreads it by [`JITTER`].
    pub fn after(&self, failures: u32, random: f64) -> Duration {
        if failures == 0 {
            return Duration::ZERO;
        }
        let doublings = i32::try_from(failures - 1).unwrap_or(i32::MAX).min(63);
        let wait = self.initial.as_secs_f64() * 2_f64.powi(doublings);
        let wait = wait.min(self.max.max(self.initial).as_secs_f64());
        Duration::from_secs_f64(wait * (1.0 + JITTER * (2.0 * random.clamp(0.0, 1.0) - 1.0)))
    }
}

/// When something that failed may be tried again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attempts {
    failures: u32,
    not_before: Option<Instant>,
}

impl Attempts {
    /// How long to wait from now on.
    pub fn wait(&self, now: Instant) -> Duration {
        self.not_before
            .map_or(Duration::ZERO, |at| at.saturating_duration_since(now))
    }

    /// Notes a failure.
    pub fn failed(&mut self, now: Instant, backoff: Backoff, random: f64) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + backoff.after(self.failures, random));
    }

    /// Notes a success: the next failure is the first again.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

/// A number in 0..1, for jitter: the one source of randomness of the client's shells.
pub fn random() -> f64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let bits = RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        initial: Duration::from_millis(50),
        max: Duration::from_millis(1_000),
    };

    #[test]
    fn the_wait_doubles_up_to_its_maximum() {
        let waits: Vec<u128> = (0..8)
            .map(|failures| BACKOFF.after(failures, 0.5).as_millis())
            .collect();
        assert_eq!(waits, [0, 50, 100, 200, 400, 800, 1_000, 1_000]);
    }

    #[test]
    fn jitter_moves_the_wait_by_a_fifth() {
        assert_eq!(BACKOFF.after(1, 0.0), Duration::from_millis(40));
        assert_eq!(BACKOFF.after(1, 1.0), Duration::from_millis(60));
        assert_eq!(BACKOFF.after(u32::MAX, 1.0), Duration::from_millis(1_200));
    }

    #[test]
    fn an_attempt_waits_from_the_last_failure_on_and_not_after_a_success() {
        let start = Instant::now();
        let mut attempts = Attempts::default();
        assert_eq!(attempts.wait(start), Duration::ZERO);
        attempts.failed(start, BACKOFF, 0.5);
        attempts.failed(start, BACKOFF, 0.5);
        let later = start + Duration::from_millis(30);
        assert_eq!(attempts.wait(later), Duration::from_millis(70));
        attempts.succeeded();
        assert_eq!(attempts.wait(start), Duration::ZERO);
    }
}
