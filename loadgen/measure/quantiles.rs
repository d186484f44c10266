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

/// Times in nanoseconds. The quantiles are of all records that were due: those without a time have a longer
/// one than all others, and a quantile that lies among them is not known (`null`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// How many times there are; nothing else is known when there are none.
    pub count: u64,
    /// The shortest.
    pub min: u64,
    /// Half are not longer.
    pub p50: Option<u64>,
    /// As the names say.
    pub p90: Option<u64>,
    /// As the names say.
    pub p99: Option<u64>,
    /// As the names say.
    pub p999: Option<u64>,
    /// As the names say.
    pub p9999: Option<u64>,
    /// The longest.
    pub max: Option<u64>,
    /// Quantiles with their times, up to the longest that is known, at quantile 1 if all have one.
    pub curve: Vec<(f64, u64)>,
}

impl Quantiles {
    /// The quantiles of so many due records, of which those in the histogram have a time.
    pub fn of(histogram: &Histogram<u64>, due: u64) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let known = histogram.len() as f64 / due.max(histogram.len()) as f64;
        let at = |quantile: f64| {
            (quantile <= known).then(|| histogram.value_at_quantile(quantile / known))
        };
        let mut curve: Vec<(f64, u64)> = histogram
            .iter_quantiles(CURVE_TICKS)
            .map(|step| (step.quantile() * known, step.value_iterated_to()))
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
            max: (known >= 1.0).then(|| histogram.max()),
            curve,
        }
    }

    /// The quantiles in the order of [`PRINTED`], then the maximum.
    pub fn printed(&self) -> [Option<u64>; 6] {
        [
            self.p50, self.p90, self.p99, self.p999, self.p9999, self.max,
        ]
    }
}

/// A quantile as people read it: `-` when it is not known.
pub fn quantile_text(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), duration_text)
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
        let quantiles = Quantiles::of(&histogram, 100_000);
        let off = quantiles.p99.expect("all have a time") as f64 / 99_000_000.0;
        assert!((off - 1.0).abs() < 0.002, "{off}");
        let (last, longest) = quantiles.curve.last().copied().expect("a curve");
        assert!((last - 1.0).abs() < 1e-9);
        assert!(longest >= 100_000_000);
        assert!(quantiles.curve.is_sorted_by_key(|(quantile, _)| *quantile));
    }

    #[test]
    fn quantiles_are_of_all_that_was_due_and_not_of_what_was_answered() {
        let mut histogram = measure::histogram();
        for ms in 1..=1_000_u64 {
            measure::record(&mut histogram, ms * 1_000_000);
        }
        // Of 1,250 due records, 1,000 were answered: the 625th has half of all before it.
        let most = Quantiles::of(&histogram, 1_250);
        let p50 = most.p50.expect("known") as f64 / 625e6;
        assert!((p50 - 1.0).abs() < 0.002, "{p50}");
        assert_eq!([most.p90, most.p99, most.max], [None; 3]);
        assert!(most.curve.iter().all(|(quantile, _)| *quantile <= 0.8));
        // A quantile is known up to the last answer, and its field is there when it is not.
        let half = Quantiles::of(&histogram, 2_000);
        assert_eq!(half.p50, Some(histogram.max()));
        let document = serde_json::to_value(&half).expect("plain data");
        assert_eq!(document.get("p90"), Some(&serde_json::Value::Null));
        assert_eq!(quantile_text(half.p90), "-");
    }

    #[test]
    fn nothing_has_no_quantiles() {
        let nothing = Quantiles::of(&measure::histogram(), 1_000);
        assert_eq!(nothing, Quantiles::default());
    }

    #[test]
    fn times_have_three_digits_and_a_unit() {
        assert_eq!(duration_text(950), "950 ns");
        assert_eq!(duration_text(1_234_000), "1.23 ms");
        assert_eq!(duration_text(45_600), "45.6 us");
        assert_eq!(duration_text(3_000_000_000), "3.00 s");
    }
}
