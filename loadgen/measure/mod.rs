//! What is counted and timed while a run goes on. Samples are merged, never averaged. Knows nothing
//! of who sends and who reads.

pub mod backlog;
pub mod quantiles;
pub mod verdict;

use hdrhistogram::Histogram;

/// The shortest time that is told from a shorter one.
const LATENCY_NS_MIN: u64 = 1_000;
/// The longest time that is told from a longer one; longer ones count as this.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// How many digits of a time are kept.
const DIGITS: u8 = 3;

/// An empty histogram of times in nanoseconds.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, DIGITS)
        .expect("the bounds are constants that it takes")
}

/// How many of what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records that became due: by their schedule, or where there is none when they were handed over.
    pub due: u64,
    /// Of the latter, those in the measured time.
    pub due_measured: u64,
    /// Records acknowledged, and their values' bytes.
    pub acked: u64,
    /// Bytes of their keys and values.
    pub acked_bytes: u64,
    /// Records that failed: refused by the broker, or not acknowledged in time.
    pub failed: u64,
    /// Records read by consumers, of all groups.
    pub consumed: u64,
    /// Bytes of their keys and values.
    pub consumed_bytes: u64,
}

/// What one stretch of time, or one thread, or all of them together, has seen.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Everything, the warm-up too.
    pub counts: Counts,
    /// From when a record was due until it was acknowledged, of records due in the measured time. In a
    /// closed loop a record is due when it is handed over.
    pub produce: Histogram<u64>,
    /// From when a record was due until a consumer had it, of records due in the measured time.
    pub end_to_end: Histogram<u64>,
    /// From when a record was due until its producer came to it, of the same records. Its own wait for the
    /// client's buffer is in the delay of those behind it.
    pub send_delay: Histogram<u64>,
    /// The part of the send delay that was not waiting for the client's buffer: the generator's own.
    pub lateness: Histogram<u64>,
}

/// The series of times, by name.
pub const SERIES: [&str; 4] = ["produce", "end-to-end", "send-delay", "lateness"];

impl Default for Sample {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            produce: histogram(),
            end_to_end: histogram(),
            send_delay: histogram(),
            lateness: histogram(),
        }
    }
}

impl Counts {
    /// Adds others.
    pub fn add(&mut self, more: &Self) {
        self.due += more.due;
        self.due_measured += more.due_measured;
        self.acked += more.acked;
        self.acked_bytes += more.acked_bytes;
        self.failed += more.failed;
        self.consumed += more.consumed;
        self.consumed_bytes += more.consumed_bytes;
    }
}

impl Sample {
    /// Adds what another has seen.
    pub fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.produce += &other.produce;
        self.end_to_end += &other.end_to_end;
        self.send_delay += &other.send_delay;
        self.lateness += &other.lateness;
    }

    /// The histograms in the order of [`SERIES`].
    pub fn series(&self) -> [&Histogram<u64>; 4] {
        [
            &self.produce,
            &self.end_to_end,
            &self.send_delay,
            &self.lateness,
        ]
    }
}

/// Adds a time to a histogram; one beyond its range counts as the longest.
pub fn record(histogram: &mut Histogram<u64>, ns: u64) {
    histogram.saturating_record(ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_samples_have_the_quantiles_of_all_their_records() {
        // Half the records take 1 ms and half 100 ms; the mean of both samples' medians would be 50 ms.
        let (mut quick, mut slow) = (Sample::default(), Sample::default());
        for _ in 0..1_000 {
            record(&mut quick.produce, 1_000_000);
            record(&mut slow.produce, 100_000_000);
        }
        quick.counts.acked = 1_000;
        slow.counts.acked = 1_000;
        quick.merge(&slow);
        assert_eq!(quick.counts.acked, 2_000);
        assert!(quick.produce.value_at_quantile(0.5) < 1_010_000);
        assert!(quick.produce.value_at_quantile(0.51) > 99_000_000);
    }

    #[test]
    fn a_time_beyond_the_range_counts_as_the_longest() {
        let mut sample = Sample::default();
        record(&mut sample.produce, u64::MAX);
        assert_eq!(sample.produce.len(), 1);
        assert!(sample.produce.max() >= LATENCY_NS_MAX);
    }
}
