//! When metadata is fetched: on demand, by age, and not in a hurry when it does not help. Pure: the
//! moment and the jitter are passed in.

use std::time::{Duration, Instant};

use super::backoff::{Attempts, Backoff};

/// The schedule of one cluster's metadata.
#[derive(Debug)]
pub(super) struct Schedule {
    max_age: Duration,
    backoff: Backoff,
    fetched: Option<Instant>,
    /// Fetches in a row that failed or told nothing new.
    attempts: Attempts,
    /// The highest ticket that was given out.
    asked: u64,
    /// The ticket up to which demands are met.
    met: u64,
}

impl Schedule {
    pub(super) fn new(max_age: Duration, backoff: Backoff) -> Self {
        Self {
            max_age,
            backoff,
            fetched: None,
            attempts: Attempts::default(),
            asked: 0,
            met: 0,
        }
    }

    /// Demands a fetch that begins after this call; the ticket tells when it is met.
    pub(super) fn demand(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    /// Demands a fetch about topics never asked for: it does not wait for the backoff of others.
    pub(super) fn demand_for_new_topics(&mut self) -> u64 {
        self.attempts.succeeded();
        self.demand()
    }

    /// When the next fetch is to begin; `None` while nobody wants one.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        if self.asked > self.met {
            return Some(now + self.attempts.wait(now));
        }
        let aged = self.fetched.map(|at| at + self.max_age)?;
        Some(aged.max(now + self.attempts.wait(now)))
    }

    /// A fetch begins: returns the tickets that it will meet.
    pub(super) fn begin(&self) -> u64 {
        self.asked
    }

    /// A fetch that [`Schedule::begin`] gave `tickets` ended well. `news` is whether it told
    /// something new: when it does not, those who still ask have to wait.
    pub(super) fn fetched(&mut self, tickets: u64, news: bool, now: Instant, random: f64) {
        self.met = self.met.max(tickets);
        self.fetched = Some(now);
        if news {
            self.attempts.succeeded();
        } else {
            self.attempts.failed(now, self.backoff, random);
        }
    }

    /// A fetch failed: those who asked are told, and metadata is as old as before.
    pub(super) fn failed(&mut self, tickets: u64, now: Instant, random: f64) {
        self.met = self.met.max(tickets);
        self.attempts.failed(now, self.backoff, random);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn schedule() -> Schedule {
        let backoff = Backoff {
            initial: ms(100),
            max: ms(1_000),
        };
        Schedule::new(ms(300_000), backoff)
    }

    #[test]
    fn metadata_is_fetched_on_demand_then_by_age() {
        let now = Instant::now();
        let mut schedule = schedule();
        assert_eq!(schedule.next(now), None, "nobody asked");
        assert_eq!(schedule.demand(), 1);
        assert_eq!(schedule.next(now), Some(now));
        let tickets = schedule.begin();
        schedule.fetched(tickets, true, now, 0.5);
        assert_eq!(schedule.next(now), Some(now + ms(300_000)));
    }

    #[test]
    fn a_demand_during_a_fetch_is_not_met_by_it() {
        let now = Instant::now();
        let mut schedule = schedule();
        schedule.demand();
        let tickets = schedule.begin();
        schedule.demand();
        schedule.fetched(tickets, true, now, 0.5);
        assert_eq!(schedule.next(now), Some(now), "the second demand stands");
    }

    #[test]
    fn who_asks_again_and_again_without_news_waits_longer_and_longer() {
        let now = Instant::now();
        let mut schedule = schedule();
        for expected in [100, 200, 400] {
            schedule.demand();
            schedule.fetched(schedule.begin(), false, now, 0.5);
            schedule.demand();
            assert_eq!(schedule.next(now), Some(now + ms(expected)));
        }
        schedule.demand_for_new_topics();
        assert_eq!(schedule.next(now), Some(now), "a new topic does not wait");
    }

    #[test]
    fn after_a_failure_the_next_fetch_waits_for_the_backoff_and_a_new_demand_or_the_age() {
        let now = Instant::now();
        let mut schedule = schedule();
        schedule.demand();
        schedule.failed(schedule.begin(), now, 0.5);
        assert_eq!(schedule.next(now), None, "those who asked were told");
        schedule.demand();
        assert_eq!(schedule.next(now), Some(now + ms(100)));
    }
}
