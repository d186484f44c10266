//! Two sides compared: ratios with intervals, and "no difference" where the interval holds none. Pure;
//! what is drawn at random is drawn from a fixed seed, so that the same results compare the same.
//!
//! The intervals come from the bootstrap: seconds of a run are drawn in blocks (neighbouring seconds are alike),
//! runs of a side are drawn too when there are several, and each drawing's ratio is one value of which
//! the middle 95 % are the interval. From a single run on each side, an interval says how steady the runs
//! were in themselves, and not what another run would give; that is said with it.

use fastrand::Rng;
use hdrhistogram::Histogram;

use crate::measure;
use crate::results::RunResult;

/// How many drawings there are.
const DRAWINGS: usize = 400;
/// How many neighbouring seconds are drawn together.
const BLOCK_SECONDS: usize = 5;
/// The share of drawings outside the interval, on each side.
const TAIL: f64 = 0.025;
/// Ratios nearer to 1 than this are no difference whatever the interval: clocks, caches and neighbours
/// on the machine make as much.
const RATIO_NEGLIGIBLE: f64 = 0.02;
const SEED: u64 = 1;

/// One run with the histograms of its seconds.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its document.
    pub result: RunResult,
    /// Produce latency, second by second.
    pub produce: Vec<Histogram<u64>>,
    /// End-to-end latency, second by second.
    pub end_to_end: Vec<Histogram<u64>>,
}

/// One line of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What is compared.
    pub what: String,
    /// On the first side, and on the second.
    pub values: (f64, f64),
    /// Whether the values are times in nanoseconds.
    pub is_time: bool,
    /// The second side's value in parts of the first's.
    pub ratio: f64,
    /// The interval of the ratio.
    pub interval: (f64, f64),
}

impl Line {
    /// Whether the sides differ.
    pub fn differs(&self) -> bool {
        let (low, high) = self.interval;
        let apart = low > 1.0 || high < 1.0;
        apart && (self.ratio - 1.0).abs() > RATIO_NEGLIGIBLE
    }
}

/// The quantiles that are compared.
const QUANTILES: &[(&str, f64)] = &[
    ("p50", 0.5),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];
/// A quantile is compared when at least this many records lie beyond it on each side.
const RECORDS_BEYOND_MIN: f64 = 10.0;

/// Compares two sides, each of one or more runs of the same workload.
pub fn compare(first: &[Measured], second: &[Measured]) -> Vec<Line> {
    let mut lines = Vec::new();
    let rate = |run: &Measured, seconds: &[usize]| {
        let acked = seconds.iter().filter_map(|at| run.result.seconds.get(*at));
        acked.map(|second| second.acked as f64).sum::<f64>() / seconds.len().max(1) as f64
    };
    lines.extend(throughput(first, second, &rate));
    type Series = fn(&Measured) -> &[Histogram<u64>];
    let series: [(&str, Series); 2] = [
        ("produce", |run| &run.produce),
        ("end-to-end", |run| &run.end_to_end),
    ];
    for (name, series) in series {
        lines.extend(latencies(name, first, second, series));
    }
    lines
}

fn throughput(
    first: &[Measured],
    second: &[Measured],
    rate: &dyn Fn(&Measured, &[usize]) -> f64,
) -> Option<Line> {
    let mean = |drawn: &[Draw<'_>]| {
        let rates = drawn.iter().map(|draw| rate(draw.run, &draw.seconds));
        rates.sum::<f64>() / drawn.len().max(1) as f64
    };
    let whole = (mean(&all(first)), mean(&all(second)));
    let mut rng = Rng::with_seed(SEED);
    let ratios = (0..DRAWINGS).map(|_| {
        let first = mean(&draw(first, &mut rng));
        mean(&draw(second, &mut rng)) / first
    });
    line(
        "acknowledged records/s".to_owned(),
        whole,
        false,
        ratios.collect(),
    )
}

fn latencies(
    name: &str,
    first: &[Measured],
    second: &[Measured],
    series: fn(&Measured) -> &[Histogram<u64>],
) -> Vec<Line> {
    let merged = |drawn: &[Draw<'_>]| {
        let mut sum = measure::histogram();
        for draw in drawn {
            let seconds = series(draw.run);
            for second in draw.seconds.iter().filter_map(|at| seconds.get(*at)) {
                sum += second;
            }
        }
        sum
    };
    let whole = (merged(&all(first)), merged(&all(second)));
    let least = whole.0.len().min(whole.1.len()) as f64;
    let compared: Vec<_> = QUANTILES
        .iter()
        .filter(|(_, quantile)| least * (1.0 - quantile) >= RECORDS_BEYOND_MIN)
        .collect();
    if compared.is_empty() {
        return Vec::new();
    }
    let mut rng = Rng::with_seed(SEED);
    let mut ratios = vec![Vec::new(); compared.len()];
    for _ in 0..DRAWINGS {
        let first = merged(&draw(first, &mut rng));
        let second = merged(&draw(second, &mut rng));
        for ((_, quantile), ratios) in compared.iter().zip(&mut ratios) {
            let at = |side: &Histogram<u64>| side.value_at_quantile(*quantile) as f64;
            ratios.push(at(&second) / at(&first));
        }
    }
    let lines = compared
        .iter()
        .zip(ratios)
        .filter_map(|(compared, ratios)| {
            let (quantile_name, quantile) = compared;
            let at = |side: &Histogram<u64>| side.value_at_quantile(*quantile) as f64;
            let values = (at(&whole.0), at(&whole.1));
            line(format!("{name} {quantile_name}"), values, true, ratios)
        });
    lines.collect()
}

fn line(what: String, values: (f64, f64), is_time: bool, mut ratios: Vec<f64>) -> Option<Line> {
    ratios.retain(|ratio| ratio.is_finite());
    if values.0 <= 0.0 || ratios.is_empty() {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share).round() as usize];
    Some(Line {
        what,
        values,
        is_time,
        ratio: values.1 / values.0,
        interval: (at(TAIL), at(1.0 - TAIL)),
    })
}

/// A run and which of its seconds were drawn.
struct Draw<'a> {
    run: &'a Measured,
    seconds: Vec<usize>,
}

fn all(runs: &[Measured]) -> Vec<Draw<'_>> {
    let whole = |run| Draw {
        run,
        seconds: (0..measured_seconds(run)).collect(),
    };
    runs.iter().map(whole).collect()
}

/// The seconds of the measured time: what was acknowledged later stands behind them.
fn measured_seconds(run: &Measured) -> usize {
    let measured = run.result.measured_seconds as usize;
    measured.min(run.result.seconds.len())
}

fn draw<'a>(runs: &'a [Measured], rng: &mut Rng) -> Vec<Draw<'a>> {
    let one = |_| {
        let run = &runs[rng.usize(0..runs.len())];
        let length = measured_seconds(run);
        let block = BLOCK_SECONDS.min(length.max(1));
        let mut seconds = Vec::with_capacity(length + block);
        while seconds.len() < length {
            let begin = rng.usize(0..=length - block);
            seconds.extend(begin..begin + block);
        }
        seconds.truncate(length);
        Draw { run, seconds }
    };
    (0..runs.len()).map(one).collect()
}

/// What a reader must know before the lines: what is not alike on both sides.
pub fn caveats(first: &[Measured], second: &[Measured]) -> Vec<String> {
    let mut caveats = Vec::new();
    let (one, other) = (&first[0].result, &second[0].result);
    for run in first.iter().chain(second) {
        if !run.result.invalid.is_empty() {
            let why = run.result.invalid.join("; ");
            caveats.push(format!("{} is INVALID: {why}", run.result.name));
        }
        let counts = &run.result.counts;
        if counts.acked < counts.due {
            caveats.push(format!(
                "of {} due records of {}, {} were acknowledged: its latencies here are of these alone",
                counts.due, run.result.name, counts.acked
            ));
        }
    }
    if one.closed_loop != other.closed_loop {
        caveats.push(
            "one side is a closed loop and the other an open one: latencies do not compare"
                .to_owned(),
        );
    }
    if one.broker.durability != other.broker.durability {
        caveats.push(format!(
            "an acknowledgement does not mean the same: {} beside {}",
            one.broker.durability, other.broker.durability
        ));
    }
    for (key, value, _) in &one.settings {
        let theirs = other.settings.iter().find(|(name, ..)| name == key);
        if let Some((_, theirs, _)) = theirs.filter(|(_, theirs, _)| theirs != value) {
            caveats.push(format!("{key} differs: {value} beside {theirs}"));
        }
    }
    if first.len() == 1 || second.len() == 1 {
        caveats.push(
            "a side has one run: its interval says how steady that run was, not what another would give"
                .to_owned(),
        );
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::record;
    use crate::results::Second;

    /// A run of 30 s at 1,000/s whose latencies are log-normal around a median, with a seed.
    fn run(median_ms: f64, seed: u64) -> Measured {
        let mut rng = Rng::with_seed(seed);
        let mut produce = vec![measure::histogram(); 30];
        for second in &mut produce {
            for _ in 0..1_000 {
                let spread: f64 = (0..6).map(|_| rng.f64() - 0.5).sum();
                record(second, (median_ms * 1e6 * spread.exp()) as u64);
            }
        }
        let second = |_| Second {
            acked: 990 + rng.u64(0..20),
            ..Second::default()
        };
        let result = RunResult {
            name: format!("{median_ms} ms"),
            measured_seconds: 30.0,
            seconds: (0..30).map(second).collect(),
            ..RunResult::default()
        };
        Measured {
            result,
            produce,
            end_to_end: Vec::new(),
        }
    }

    fn find<'a>(lines: &'a [Line], what: &str) -> &'a Line {
        lines.iter().find(|line| line.what == what).expect(what)
    }

    #[test]
    fn two_runs_of_the_same_are_no_difference() {
        for line in compare(&[run(5.0, 1)], &[run(5.0, 2)]) {
            assert!(!line.differs(), "{line:?}");
        }
    }

    #[test]
    fn a_broker_that_is_slower_by_a_third_is_found_to_be() {
        let lines = compare(&[run(3.0, 1)], &[run(4.0, 2)]);
        for what in ["produce p50", "produce p99"] {
            let line = find(&lines, what);
            assert!(line.differs(), "{line:?}");
            assert!((line.ratio - 4.0 / 3.0).abs() < 0.1, "{line:?}");
            let (low, high) = line.interval;
            assert!(low < line.ratio && line.ratio < high, "{line:?}");
        }
        assert!(!find(&lines, "acknowledged records/s").differs());
    }

    #[test]
    fn runs_that_differ_among_themselves_make_the_interval_wide() {
        let mixed = [run(3.0, 1), run(6.0, 2), run(4.0, 3)];
        let lines = compare(&mixed, &[run(4.2, 4), run(5.0, 5), run(3.0, 6)]);
        assert!(!find(&lines, "produce p50").differs(), "{lines:#?}");
    }

    #[test]
    fn a_quantile_with_too_few_records_beyond_it_is_not_compared() {
        let lines = compare(&[run(3.0, 1)], &[run(4.0, 2)]);
        // 30,000 records leave three beyond p99.99.
        assert!(lines.iter().all(|line| line.what != "produce p99.99"));
    }

    #[test]
    fn what_is_not_alike_is_said() {
        let (mut one, mut other) = (run(3.0, 1), run(3.0, 2));
        one.result.broker.durability = "flushed".to_owned();
        other.result.broker.durability = "in memory".to_owned();
        other.result.invalid = vec!["late".to_owned()];
        (other.result.counts.due, other.result.counts.acked) = (30_000, 20_000);
        let said = caveats(&[one], &[other]).join("\n");
        assert!(
            said.contains("of 30000 due records of 3 ms, 20000"),
            "{said}"
        );
        assert!(said.contains("INVALID: late"), "{said}");
        assert!(said.contains("flushed beside in memory"), "{said}");
        assert!(said.contains("has one run"), "{said}");
    }
}
