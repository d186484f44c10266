//! Whether a run measured the broker or the generator. Pure.
//!
//! The rule: a run is invalid when the generator's own lateness (the time from when a record was due until
//! its producer came to it, without waiting for the client's buffer) is at p50, p99 or p99.9 more than 1 ms
//! and more than a tenth of the produce latency there, for then that much of the figure is not the broker's; or when a
//! thread of the generator used nine tenths of its core or more, for then the broker was not the
//! limit of what was sent; or when nothing that was due in the measured time was acknowledged. Both quantiles
//! are of all records that were due: one that its producer never came to, or that was never acknowledged, counts
//! as the longest of those that are known.

use std::fmt;

use hdrhistogram::Histogram;

use super::Sample;
use super::quantiles::duration_text;

/// Lateness up to here is never held against a run: it is what waking a thread may take.
const LATENESS_NS_FREE: u64 = 1_000_000;
/// The share of a latency that may be the generator's.
const LATENESS_SHARE_MAX: f64 = 0.1;
/// The share of its core that a thread may use.
const THREAD_CPU_SHARE_MAX: f64 = 0.9;

/// Why a run is invalid.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The generator was late by `late_ns` where the latency was `latency_ns`.
    Late {
        /// The quantile's name.
        quantile: &'static str,
        /// The generator's own lateness there.
        late_ns: u64,
        /// The produce latency there.
        latency_ns: u64,
    },
    /// A thread used this share of its core.
    Busy {
        /// Which thread, counted from 0.
        thread: usize,
        /// How much of its core, 1 for all of it.
        share: f64,
    },
    /// Nothing that was due in the measured time was acknowledged, so nothing was measured.
    Empty,
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late {
                quantile,
                late_ns,
                latency_ns,
            } => write!(
                out,
                "at {quantile} the generator itself was late by {}, more than a tenth of the produce latency \
                 there ({}); give it more cores or a lower rate",
                duration_text(*late_ns),
                duration_text(*latency_ns)
            ),
            Self::Busy { thread, share } => write!(
                out,
                "thread {thread} of the generator used {:.0} % of its core; give it more threads or larger \
                 batches",
                share * 100.0
            ),
            Self::Empty => write!(
                out,
                "nothing that was due in the measured time was acknowledged"
            ),
        }
    }
}

/// Why the run is invalid; empty when it is valid. `due` records were due in the measured time, and each thread
/// used its share of `thread_cpu` of its core.
pub fn judge(total: &Sample, due: u64, thread_cpu: &[f64]) -> Vec<Reason> {
    if total.produce.is_empty() {
        return vec![Reason::Empty];
    }
    let quantiles = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
    let late = quantiles.into_iter().filter_map(|(quantile, at)| {
        let late_ns = of_due(&total.lateness, due, at);
        let latency_ns = of_due(&total.produce, due, at);
        let share = late_ns as f64 / latency_ns.max(1) as f64;
        let is_late = late_ns > LATENESS_NS_FREE && share > LATENESS_SHARE_MAX;
        is_late.then_some(Reason::Late {
            quantile,
            late_ns,
            latency_ns,
        })
    });
    let busy = thread_cpu
        .iter()
        .enumerate()
        .filter(|(_, share)| **share >= THREAD_CPU_SHARE_MAX)
        .map(|(thread, share)| Reason::Busy {
            thread,
            share: *share,
        });
    late.chain(busy).collect()
}

/// A quantile of all records that were due.
fn of_due(times: &Histogram<u64>, due: u64, quantile: f64) -> u64 {
    let known = times.len().max(1) as f64 / due.max(times.len()).max(1) as f64;
    times.value_at_quantile((quantile / known).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::record;

    const MS: u64 = 1_000_000;
    const DUE: u64 = 10_000;

    /// A run in which `of_ten_thousand` records were late by `late_ns` and took `latency_ns`; the others
    /// took 5 ms.
    fn run(of_ten_thousand: u64, late_ns: u64, latency_ns: u64) -> Sample {
        let mut sample = Sample::default();
        for number in 0..DUE {
            let (late, latency) = if number < of_ten_thousand {
                (late_ns, latency_ns)
            } else {
                (0, 5 * MS)
            };
            record(&mut sample.lateness, late);
            record(&mut sample.produce, latency);
        }
        sample
    }

    #[test]
    fn a_punctual_generator_makes_a_valid_run_however_slow_the_broker_is() {
        assert_eq!(judge(&run(500, 0, 3_000 * MS), DUE, &[0.4]), []);
    }

    #[test]
    fn lateness_that_makes_up_the_latency_makes_the_run_invalid() {
        let reasons = judge(&run(200, 20 * MS, 25 * MS), DUE, &[0.4]);
        assert!(
            matches!(
                reasons[0],
                Reason::Late {
                    quantile: "p99",
                    ..
                }
            ),
            "{reasons:?}"
        );
        let few = judge(&run(20, 20 * MS, 25 * MS), DUE, &[0.4]);
        assert!(
            matches!(
                few[..],
                [Reason::Late {
                    quantile: "p99.9",
                    ..
                }]
            ),
            "{few:?}"
        );
    }

    #[test]
    fn lateness_that_is_small_beside_the_latency_is_forgiven() {
        assert_eq!(judge(&run(200, 20 * MS, 2_000 * MS), DUE, &[]), []);
        assert_eq!(judge(&run(200, MS / 2, 2 * MS), DUE, &[]), []);
    }

    #[test]
    fn both_are_judged_by_all_records_that_were_due() {
        // Half of the due records were not acknowledged: at p50 of them all the latency is at its longest, not
        // the 5 ms of those that were.
        let mut stalled = run(200, 0, 3_000 * MS);
        (0..DUE).for_each(|_| record(&mut stalled.lateness, 2 * MS));
        assert_eq!(judge(&stalled, 2 * DUE, &[]), []);
        // The producer came to half of them, and was late where it came to the last.
        let unreached = run(200, 400 * MS, 405 * MS);
        let reasons = judge(&unreached, 2 * DUE, &[]);
        let Reason::Late {
            quantile, late_ns, ..
        } = reasons[0]
        else {
            panic!("{reasons:?}");
        };
        assert!(quantile == "p50" && late_ns >= 399 * MS, "{reasons:?}");
    }

    #[test]
    fn a_thread_without_idle_time_makes_the_run_invalid() {
        let reasons = judge(&run(0, 0, 0), DUE, &[0.2, 0.97]);
        assert_eq!(
            reasons,
            [Reason::Busy {
                thread: 1,
                share: 0.97
            }]
        );
    }

    #[test]
    fn a_run_without_an_acknowledgement_is_invalid() {
        assert_eq!(judge(&Sample::default(), DUE, &[]), [Reason::Empty]);
    }
}
