//! Ratios of a comparison with their spread, as Markdown and as a table of a page. Pure.

use serde::Serialize;

use super::trial::{Contender, Load, Tier, Trial, median};
use crate::measure::quantiles::duration_text;
use crate::report::Table;
use crate::results::RunResult;
use crate::view::{bytes_text, count_text};

/// A quantile is told when at least this many records lie beyond it.
const RECORDS_BEYOND_MIN: f64 = 10.0;
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// One workload at one guarantee and load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The workload's name.
    pub workload: String,
    /// The guarantee.
    pub tier: Tier,
    /// The load.
    pub load: Load,
    /// How many pairs it is from.
    pub pairs: usize,
    /// How many of the runs are invalid: there the generator was the limit.
    pub invalid: usize,
    /// One for each of [`COLUMNS`]; `None` where there is nothing to tell.
    pub cells: Vec<Option<Cell>>,
}

/// Medians of both contenders, and corelog's value in parts of Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// corelog's median.
    pub corelog: f64,
    /// Kafka's median.
    pub kafka: f64,
    /// Median of the pairs' ratios.
    pub ratio: f64,
    /// Smallest and largest of the pairs' ratios.
    pub spread: (f64, f64),
}

/// A column: what stands in it, and how it is written.
pub struct Column {
    title: &'static str,
    of: fn(&RunResult) -> Option<f64>,
    text: fn(f64) -> String,
}

/// What is compared.
pub const COLUMNS: &[Column] = &[
    Column {
        title: "records/s",
        of: |run| Some(run.counts.acked_per_second),
        text: count_text,
    },
    Column {
        title: "p50",
        of: |run| quantile(run, 0.5, run.latency.produce.p50),
        text: time,
    },
    Column {
        title: "p99",
        of: |run| quantile(run, 0.99, run.latency.produce.p99),
        text: time,
    },
    Column {
        title: "p99.9",
        of: |run| quantile(run, 0.999, run.latency.produce.p999),
        text: time,
    },
    Column {
        title: "p99.99",
        of: |run| quantile(run, 0.9999, run.latency.produce.p9999),
        text: time,
    },
    Column {
        title: "CPU s/GiB",
        of: |run| {
            let gib = run.counts.acked_bytes_per_second * run.measured_seconds / GIB;
            run.broker.cpu_seconds.map(|seconds| seconds / gib)
        },
        text: |seconds| format!("{seconds:.2}"),
    },
    Column {
        title: "RSS",
        of: |run| run.broker.rss_bytes_max.map(|bytes| bytes as f64),
        text: bytes_text,
    },
];

fn time(ns: f64) -> String {
    duration_text(ns as u64)
}

/// The times of a closed loop follow from its rate, and are left out.
fn quantile(run: &RunResult, quantile: f64, ns: Option<u64>) -> Option<f64> {
    let beyond = run.latency.produce.count as f64 * (1.0 - quantile);
    let is_told = !run.closed_loop && beyond >= RECORDS_BEYOND_MIN;
    ns.filter(|_| is_told).map(|ns| ns as f64)
}

/// The rows, in the order in which they were measured first.
pub fn rows(trials: &[Trial]) -> Vec<Row> {
    let key = |trial: &Trial| (trial.workload.clone(), trial.tier, trial.load);
    let mut keys = Vec::new();
    for trial in trials {
        if !keys.contains(&key(trial)) {
            keys.push(key(trial));
        }
    }
    let mut rows = Vec::new();
    for (workload, tier, load) in keys {
        let of =
            |trial: &&Trial| trial.workload == workload && trial.tier == tier && trial.load == load;
        let trials: Vec<&Trial> = trials.iter().filter(of).collect();
        let pairs = pairs(&trials);
        let invalid = |run: &&RunResult| !run.invalid.is_empty();
        let cells = COLUMNS.iter().map(|column| cell(&pairs, column.of));
        rows.push(Row {
            workload,
            tier,
            load,
            pairs: pairs.len(),
            invalid: trials
                .iter()
                .map(|trial| &trial.result)
                .filter(invalid)
                .count(),
            cells: cells.collect(),
        });
    }
    // Closed loops come first in time for all; by name they stand with their open loops.
    rows.sort_by_key(|row| (row.workload.clone(), row.tier, row.load));
    rows
}

/// corelog's and Kafka's run of each repeat that has both.
fn pairs<'a>(trials: &[&'a Trial]) -> Vec<(&'a RunResult, &'a RunResult)> {
    let of = |contender, repeat| {
        let mut trials = trials.iter();
        let found = trials.find(|it| it.contender == contender && it.repeat == repeat);
        found.map(|trial| &trial.result)
    };
    let mut repeats: Vec<u32> = trials.iter().map(|trial| trial.repeat).collect();
    repeats.sort_unstable();
    repeats.dedup();
    repeats
        .into_iter()
        .filter_map(|repeat| of(Contender::Corelog, repeat).zip(of(Contender::Kafka, repeat)))
        .collect()
}

/// Of all pairs or of none: where a contender left too much unanswered for a value, the other pairs would
/// tell of its better runs.
fn cell(pairs: &[(&RunResult, &RunResult)], of: fn(&RunResult) -> Option<f64>) -> Option<Cell> {
    let values: Option<Vec<(f64, f64)>> = pairs
        .iter()
        .map(|(corelog, kafka)| of(corelog).zip(of(kafka)))
        .collect();
    let mut values = values?;
    values.retain(|(_, kafka)| *kafka > 0.0);
    let ratios = || values.iter().map(|(corelog, kafka)| corelog / kafka);
    Some(Cell {
        corelog: median(values.iter().map(|(corelog, _)| *corelog).collect())?,
        kafka: median(values.iter().map(|(_, kafka)| *kafka).collect())?,
        ratio: median(ratios().collect())?,
        spread: (
            ratios().fold(f64::INFINITY, f64::min),
            ratios().fold(0.0, f64::max),
        ),
    })
}

/// The rows as a table of text.
pub fn table(rows: &[Row]) -> Table {
    let mut head = vec!["workload, tier".to_owned(), "load".to_owned()];
    head.extend(COLUMNS.iter().map(|column| column.title.to_owned()));
    let body = rows.iter().map(|row| {
        let marked = if row.invalid > 0 { " (!)" } else { "" };
        let mut cells = vec![
            format!("{}, {}", row.workload, row.tier.name()),
            format!("{}{marked}", row.load.name()),
        ];
        cells.extend(row.cells.iter().zip(COLUMNS).map(|(cell, column)| {
            cell.map_or("-".to_owned(), |cell| cell_text(&cell, column.text))
        }));
        cells
    });
    Table {
        head,
        body: body.collect(),
        notes: notes(rows),
    }
}

/// `1.24 ms : 3.10 ms = 0.40 (0.38-0.44)`, without the spread of a single pair.
fn cell_text(cell: &Cell, text: fn(f64) -> String) -> String {
    let (low, high) = cell.spread;
    let spread = if low < high {
        format!(" ({low:.2}-{high:.2})")
    } else {
        String::new()
    };
    let (corelog, kafka) = (text(cell.corelog), text(cell.kafka));
    format!("{corelog} : {kafka} = {:.2}{spread}", cell.ratio)
}

fn notes(rows: &[Row]) -> Vec<String> {
    let pairs = rows.iter().map(|row| row.pairs);
    let pairs = (pairs.clone().min().unwrap_or(0), pairs.max().unwrap_or(0));
    let pairs = match pairs {
        (1, 1) => "one pair of runs each: there is no spread".to_owned(),
        (least, most) if least == most => format!("{most} pairs of runs each"),
        (least, most) => format!("{least} to {most} pairs of runs each"),
    };
    let mut notes = vec![
        format!(
            "Each cell is corelog : Kafka = ratio (smallest-largest ratio of the pairs), medians; {pairs}. Latency \
             is from when a record was due until its acknowledgement, of all that were due: where too few were \
             acknowledged for a quantile, there is none."
        ),
        "open-N sends N % of what the weaker of the two took in the closed loop.".to_owned(),
    ];
    if rows.iter().any(|row| row.invalid > 0) {
        notes.push(
            "(!) In at least one of the runs the generator was the limit: see the report."
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::trial::tests::closed;
    use super::*;

    fn open(contender: Contender, repeat: u32, p99: u64, count: u64) -> Trial {
        let mut trial = closed(contender, repeat, 100.0);
        trial.load = Load::Open(50);
        trial.result.closed_loop = false;
        trial.result.latency.produce.count = count;
        trial.result.latency.produce.p99 = Some(p99);
        trial.result.latency.produce.p999 = Some(p99);
        trial
    }

    #[test]
    fn ratios_are_of_pairs_and_their_spread_is_shown() {
        let (corelog, kafka) = (Contender::Corelog, Contender::Kafka);
        let mut trials = Vec::new();
        for (repeat, ours, theirs) in [(1, 30.0, 10.0), (2, 20.0, 20.0), (3, 80.0, 40.0)] {
            trials.push(closed(corelog, repeat, ours));
            trials.push(closed(kafka, repeat, theirs));
        }
        // A repeat that was interrupted has no pair.
        trials.push(closed(corelog, 4, 1.0));
        let rows = rows(&trials);
        let cell = rows[0].cells[0].expect("rates");
        assert_eq!((cell.corelog, cell.kafka), (30.0, 20.0));
        assert_eq!((cell.ratio, cell.spread), (2.0, (1.0, 3.0)));
        let table = table(&rows);
        assert_eq!(table.body[0][2], "30 : 20 = 2.00 (1.00-3.00)");
        assert!(table.notes[0].contains("3 pairs"), "{:?}", table.notes);
    }

    #[test]
    fn quantiles_with_too_few_records_beyond_them_and_times_of_closed_loops_are_left_out() {
        let (corelog, kafka) = (Contender::Corelog, Contender::Kafka);
        let of = |first: Trial, second: Trial| rows(&[first, second]).remove(0).cells;
        let enough = of(
            open(corelog, 1, 1_000_000, 1_000),
            open(kafka, 1, 4_000_000, 1_000),
        );
        assert_eq!(enough[2].expect("p99").ratio, 0.25);
        assert_eq!(enough[3], None, "one record lies beyond p99.9");
        let few = of(
            open(corelog, 1, 1_000_000, 999),
            open(kafka, 1, 4_000_000, 1_000),
        );
        assert_eq!(few[2], None);
        let closed = of(closed(corelog, 1, 1.0), closed(kafka, 1, 1.0));
        assert_eq!(closed[1], None);
    }

    #[test]
    fn a_quantile_that_one_run_left_unanswered_is_not_told_of_the_others() {
        let of = |contender, repeat| open(contender, repeat, 1_000_000, 1_000);
        let (corelog, kafka) = (Contender::Corelog, Contender::Kafka);
        let mut trials = [of(corelog, 1), of(kafka, 1), of(corelog, 2), of(kafka, 2)];
        assert!(rows(&trials)[0].cells[2].is_some());
        trials[3].result.latency.produce.p99 = None;
        let rows = rows(&trials);
        assert_eq!(rows[0].cells[2], None);
        assert_eq!(table(&rows).body[0][4], "-");
    }

    #[test]
    fn a_row_with_an_invalid_run_is_marked() {
        let mut trials = [Contender::Corelog, Contender::Kafka].map(|it| closed(it, 1, 1.0));
        trials[1].result.invalid = vec!["late".to_owned()];
        let table = table(&rows(&trials));
        assert_eq!(table.body[0][1], "closed (!)");
        assert!(table.notes.iter().any(|note| note.starts_with("(!)")));
    }
}
