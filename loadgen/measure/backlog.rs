//! Whether what waits (records due and not acknowledged, records acknowledged and not read) grows over
//! a run. Pure.

/// The growth of a backlog in records per second: the slope of the line of least squares through its
/// values, one per second. The first half is left out, for a run may begin with a burst.
pub fn growth_per_second(backlog: &[u64]) -> f64 {
    let half = &backlog[backlog.len() / 2..];
    if half.len() < 2 {
        return 0.0;
    }
    let count = half.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let mean = half.iter().map(|value| *value as f64).sum::<f64>() / count;
    let (mut joint, mut spread) = (0.0, 0.0);
    for (second, value) in half.iter().enumerate() {
        let away = second as f64 - middle;
        joint += away * (*value as f64 - mean);
        spread += away * away;
    }
    joint / spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_that_grows_evenly_grows_by_its_slope() {
        let growing: Vec<u64> = (0..20).map(|second| 500 + 30 * second).collect();
        assert!((growth_per_second(&growing) - 30.0).abs() < 1e-9);
    }

    #[test]
    fn a_backlog_that_only_jitters_does_not_grow() {
        let jitter: Vec<u64> = (0..20).map(|second| 500 + 30 * (second % 2)).collect();
        assert!(growth_per_second(&jitter).abs() < 5.0);
        assert!(growth_per_second(&[]).abs() < 1e-9);
    }
}
