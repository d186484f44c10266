//! The bound that a rate must hold, and whether a run held it. Pure.

use std::fmt;

use super::Held;
use crate::measure::backlog;
use crate::measure::quantiles::duration_text;
use crate::results::RunResult;
use crate::workload::quantity;

/// A bound on one quantile of one latency.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Which latency.
    pub latency: Latency,
    /// Which quantile, between 0 and 1.
    pub quantile: f64,
    /// The longest allowed time.
    pub most_ns: u64,
}

/// A latency that can be bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Until the acknowledgement.
    Produce,
    /// Until a consumer has the record.
    EndToEnd,
}

/// What is written for a [`Bound`].
pub const FORM: &str = "`p99 <= 10ms` or `end-to-end p99.9 <= 50ms`";

/// Less than this share of the due records acknowledged in time means that the rate was not kept.
const KEPT_SHARE_MIN: f64 = 0.99;
/// A backlog may grow by this share of the rate before it counts as growing.
const GROWTH_SHARE_MAX: f64 = 0.01;
/// A backlog of less than what is due in this many seconds comes and goes: it is not held against a rate.
const BACKLOG_SECONDS_FREE: f64 = 0.1;

impl Bound {
    /// Reads a bound.
    ///
    /// # Errors
    /// What would be right instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("a bound is {FORM}, not {text:?}");
        let (left, right) = text.split_once("<=").ok_or_else(wrong)?;
        let (latency, quantile) = match left.trim().split_once(char::is_whitespace) {
            None => (Latency::Produce, left.trim()),
            Some(("produce", quantile)) => (Latency::Produce, quantile.trim()),
            Some(("end-to-end", quantile)) => (Latency::EndToEnd, quantile.trim()),
            Some(_) => return Err(wrong()),
        };
        let percent = quantile
            .strip_prefix('p')
            .and_then(|it| it.parse::<f64>().ok());
        let percent = percent.filter(|percent| (0.0..100.0).contains(percent));
        let most = quantity::time(right)?;
        Ok(Self {
            latency,
            quantile: percent.ok_or_else(wrong)? / 100.0,
            most_ns: u64::try_from(most.as_nanos()).map_err(|_| wrong())?,
        })
    }

    /// Whether a run held the bound, and the words for it.
    pub fn judge(&self, run: &RunResult) -> (Held, String) {
        let quantiles = match self.latency {
            Latency::Produce => &run.latency.produce,
            Latency::EndToEnd => &run.latency.end_to_end,
        };
        let found_ns = quantiles
            .curve
            .iter()
            .find(|(quantile, _)| *quantile >= self.quantile)
            .map(|(_, ns)| *ns);
        let found = found_ns.map_or("fewer got there at all".to_owned(), duration_text);
        let kept = run.counts.acked as f64 / run.counts.due.max(1) as f64;
        let backlogs: Vec<u64> = run.measured().iter().map(|it| it.backlog).collect();
        let growth = backlog::growth_per_second(&backlogs);
        // The smaller of the last two: one second may have ended in the middle of a pause.
        let backlog = backlogs.iter().rev().take(2).min().copied();
        let backlog = backlog.unwrap_or(0) as f64;
        let rate = run.counts.due as f64 / run.measured_seconds.max(1e-9);
        let broken = if quantiles.count == 0 {
            Some("nothing was measured".to_owned())
        } else if run.counts.failed > 0 {
            Some(format!("{} records failed", run.counts.failed))
        } else if found_ns.is_none_or(|ns| ns > self.most_ns) {
            Some(format!("{self}: {found}"))
        } else if kept < KEPT_SHARE_MIN {
            let percent = kept * 100.0;
            Some(format!(
                "{percent:.1} % of the due records were acknowledged"
            ))
        } else if growth > rate * GROWTH_SHARE_MAX && backlog > rate * BACKLOG_SECONDS_FREE {
            Some(format!("the backlog grew by {growth:.0} records/s"))
        } else {
            None
        };
        match broken {
            // Lateness of the generator only adds to a latency: what is within the bound is within it.
            None => (Held::Yes, format!("{self}: {found}")),
            Some(words) if run.invalid.is_empty() => (Held::No, words),
            Some(_) => (Held::Invalid, run.invalid.join("; ")),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let latency = match self.latency {
            Latency::Produce => "produce",
            Latency::EndToEnd => "end-to-end",
        };
        let percent = self.quantile * 100.0;
        let percent = (percent * 1e6).round() / 1e6;
        write!(
            out,
            "{latency} p{percent} <= {}",
            duration_text(self.most_ns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::quantiles::Quantiles;
    use crate::results::{Latencies, Second, Totals};

    /// A run of ten seconds at 1,000/s with every record at 5 ms.
    fn run() -> RunResult {
        RunResult {
            measured_seconds: 10.0,
            counts: Totals {
                due: 10_000,
                acked: 10_000,
                ..Totals::default()
            },
            latency: Latencies {
                produce: Quantiles {
                    count: 10_000,
                    curve: vec![(0.5, 5_000_000), (1.0, 5_000_000)],
                    ..Quantiles::default()
                },
                ..Latencies::default()
            },
            seconds: vec![Second::default(); 10],
            ..RunResult::default()
        }
    }

    fn held(run: &RunResult) -> Held {
        Bound::parse("p99 <= 10ms").expect("a bound").judge(run).0
    }

    #[test]
    fn a_bound_reads_as_it_is_spoken() {
        let bound = Bound::parse("end-to-end p99.9 <= 50ms").expect("a bound");
        assert_eq!(bound.latency, Latency::EndToEnd);
        assert_eq!(bound.to_string(), "end-to-end p99.9 <= 50.0 ms");
        assert!(Bound::parse("p99 < 10ms").is_err());
        assert!(Bound::parse("p99 <= 10").is_err());
        assert!(Bound::parse("p101 <= 10ms").is_err());
    }

    #[test]
    fn a_run_within_the_bound_holds() {
        assert_eq!(held(&run()), Held::Yes);
    }

    #[test]
    fn a_slow_an_incomplete_and_a_failing_run_do_not_hold() {
        let mut slow = run();
        slow.latency.produce.curve = vec![(0.5, 5_000_000), (1.0, 50_000_000)];
        assert_eq!(held(&slow), Held::No);
        let mut unanswered = run();
        unanswered.latency.produce.curve = vec![(0.5, 5_000_000), (0.98, 5_000_000)];
        assert_eq!(held(&unanswered), Held::No);
        let mut incomplete = run();
        incomplete.counts.acked = 9_000;
        assert_eq!(held(&incomplete), Held::No);
        let mut failing = run();
        failing.counts.failed = 1;
        assert_eq!(held(&failing), Held::No);
    }

    #[test]
    fn a_growing_backlog_does_not_hold_though_every_latency_does() {
        let mut growing = run();
        for (at, second) in growing.seconds.iter_mut().enumerate() {
            second.backlog = 50 * at as u64;
        }
        assert_eq!(held(&growing), Held::No);
        // What is waited for after the measured time shrinks, whatever it did before.
        growing.seconds.push(Second::default());
        assert_eq!(held(&growing), Held::No);
    }

    #[test]
    fn a_backlog_that_was_caught_in_a_pause_at_the_end_is_not_growing() {
        let mut paused = run();
        for (at, second) in paused.seconds.iter_mut().enumerate() {
            second.backlog = if at == 9 { 500 } else { 5 };
        }
        assert_eq!(held(&paused), Held::Yes);
    }

    #[test]
    fn an_invalid_run_that_is_slow_says_nothing_of_the_broker() {
        let mut invalid = run();
        invalid.invalid = vec!["late".to_owned()];
        assert_eq!(held(&invalid), Held::Yes, "lateness made it no quicker");
        invalid.latency.produce.curve = vec![(0.5, 5_000_000), (1.0, 50_000_000)];
        assert_eq!(held(&invalid), Held::Invalid);
    }
}
