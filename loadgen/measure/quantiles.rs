//! A histogram in a form to print and to keep: a few quantiles, and the curve through all of them.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The quantiles that are printed, and what they are called.
pub const PRINTED: &[(&str, f64)] = &[
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// Steps of the curve for each halving of the distance to 1.
const CURVE_TICKS: u32 = 6;

/// Times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// How many times there are; all else is 0 when there are none.
    pub count: u64,
    /// The shortest.
    pub min: u64,
    /// Half are not longer.
    pub p50: u64,
    /// As the names say.
    pub p90: u64,
    /// As the names say.
    pub p99: u64,
    /// As the names say.
    pub p999: u64,
    /// As the names say.
    pub p9999: u64,
    /// The longest.
    pub max: u64,
    /// Quantiles with their times, up to the longest, at quantile 1.
    pub curve: Vec<(f64, u64)>,
}

impl Quantiles {
    /// The quantiles of a histogram.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile);
        let mut curve: Vec<(f64, u64)> = histogram
            .iter_quantiles(CURVE_TICKS)
            .map(|step| (step.quantile(), step.value_iterated_to()))
            .collect();
        curve.dedup_by_key(|(quantile, _)| *quantile);
        Self {
            count: histogram.len(),
            min: histogram.min(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: histogram.max(),
            curve,
        }
    }

    /// The quantiles in the order of [`PRINTED`], then the maximum.
    pub fn printed(&self) -> [u64; 6] {
        [
            self.p50, self.p90, self.p99, self.p999, self.p9999, self.max,
        ]
    }
}

/// A time as people read it: three digits and a unit.
pub fn duration_text(ns: u64) -> String {
    let ns = ns as f64;
    let (value, unit) = match ns {
        _ if ns < 1e3 => (ns, "ns"),
        _ if ns < 1e6 => (ns / 1e3, "us"),
        _ if ns < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let digits = match value {
        _ if value < 10.0 => 2,
        _ if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure;

    #[test]
    fn the_curve_ends_at_the_maximum() {
        let mut histogram = measure::histogram();
        for ns in 1..=100_000_u64 {
            measure::record(&mut histogram, ns * 1_000);
        }
        let quantiles = Quantiles::of(&histogram);
        let off = quantiles.p99 as f64 / 99_000_000.0;
        assert!((off - 1.0).abs() < 0.002, "{off}");
        let (last, longest) = quantiles.curve.last().copied().expect("a curve");
        assert!((last - 1.0).abs() < 1e-9);
        assert!(longest >= 100_000_000);
        assert!(quantiles.curve.is_sorted_by_key(|(quantile, _)| *quantile));
    }

    #[test]
    fn nothing_has_no_quantiles() {
        assert_eq!(Quantiles::of(&measure::histogram()), Quantiles::default());
    }

    #[test]
    fn times_have_three_digits_and_a_unit() {
        assert_eq!(duration_text(950), "950 ns");
        assert_eq!(duration_text(1_234_000), "1.23 ms");
        assert_eq!(duration_text(45_600), "45.6 us");
        assert_eq!(duration_text(3_000_000_000), "3.00 s");
    }
}
