//! What is printed when a run, a verification or a comparison is over. Pure.

use super::{Paint, bytes_text, count_text};
use crate::compare::Line;
use crate::measure::quantiles::{PRINTED, Quantiles, duration_text, quantile_text};
use crate::results::RunResult;
use crate::verify::checker::Report;

/// Width of a column of figures.
const COLUMN: usize = 10;
/// Bytes per second from which on the generator's cost per byte is told.
const TELLING_BYTES: f64 = 50e6;
/// Findings printed of a verification; the history has all.
const FINDINGS_PRINTED: usize = 20;

/// A run.
pub fn run(run: &RunResult, paint: Paint) -> String {
    let mut lines = Vec::new();
    let label = |text: &str| format!("{text:<12}");
    let valid = if run.invalid.is_empty() {
        String::new()
    } else {
        format!("  {}", paint.bad("INVALID"))
    };
    lines.push(format!("{}{valid}", paint.strong(&run.name)));
    for reason in &run.invalid {
        lines.push(format!("{}{reason}", label("invalid")));
    }
    for warning in &run.warnings {
        lines.push(format!("{}{warning}", label("note")));
    }
    let broker = &run.broker;
    lines.push(format!(
        "{}{} at {}",
        label("broker"),
        broker.kind,
        broker.bootstrap
    ));
    lines.push(format!(
        "{}an acknowledgement means: {}",
        label("durability"),
        broker.durability
    ));
    let counts = &run.counts;
    lines.push(format!(
        "{}{} due in the measured time, {} of them acknowledged",
        label("records"),
        counts.due,
        counts.acked
    ));
    lines.push(format!(
        "{}{} records/s, {}/s acknowledged; {} records/s, {}/s read; {} failed",
        label("throughput"),
        count_text(counts.acked_per_second),
        bytes_text(counts.acked_bytes_per_second),
        count_text(counts.consumed_per_second),
        bytes_text(counts.consumed_bytes_per_second),
        counts.failed
    ));
    lines.extend(latencies(run, paint));
    lines.push(format!("{}{}", label("generator"), generator(run)));
    if let Some(cpu) = broker.cpu_seconds {
        let gib = counts.acked_bytes_per_second * run.measured_seconds / (1024.0 * 1024.0 * 1024.0);
        let per = cpu / gib.max(1e-9);
        let (what, rss) = match broker.rss_bytes_max {
            Some(rss) => ("process", format!(", {} resident", bytes_text(rss as f64))),
            None => ("null broker", " beside the generator".to_owned()),
        };
        lines.push(format!("{}{per:.2} CPU-seconds/GiB{rss}", label(what)));
    }
    for (error, count) in &run.errors {
        lines.push(format!("{}{count} x {error}", paint.bad(&label("error"))));
    }
    lines.join("\n") + "\n"
}

fn latencies(run: &RunResult, paint: Paint) -> Vec<String> {
    let title = if run.closed_loop {
        "service time"
    } else {
        "latency"
    };
    let names = PRINTED.iter().map(|(name, _)| *name).chain(["max"]);
    let heads: String = names.map(|name| format!("{name:>COLUMN$}")).collect();
    let mut lines = vec![paint.quiet(&format!("{title:<12}{heads}"))];
    let rows: [(&str, &Quantiles); 4] = [
        ("produce", &run.latency.produce),
        ("end-to-end", &run.latency.end_to_end),
        ("send delay", &run.latency.send_delay),
        ("lateness", &run.latency.lateness),
    ];
    for (name, quantiles) in rows.iter().filter(|(_, quantiles)| quantiles.count > 0) {
        let figures = quantiles.printed().map(quantile_text);
        let figures: String = figures
            .iter()
            .map(|text| format!("{text:>COLUMN$}"))
            .collect();
        lines.push(format!("{name:<12}{figures}"));
    }
    if run.closed_loop {
        let note =
            "closed loop: the rate follows the broker, so waiting is left out of these times";
        lines.push(paint.quiet(&format!("{:<12}{note}", "")));
    }
    lines
}

fn generator(run: &RunResult) -> String {
    let shares = run.generator.thread_cpu.iter();
    let shares: Vec<String> = shares
        .map(|share| format!("{:.0} %", share * 100.0))
        .collect();
    // Where little is moved, waking up is all that there is to pay, and scales with nothing.
    let moved = run.counts.acked_bytes_per_second + run.counts.consumed_bytes_per_second;
    let per = run
        .generator_cores_per_500_mb()
        .filter(|_| moved >= TELLING_BYTES);
    let per = per.map_or(String::new(), |cores| {
        format!("; {cores:.2} cores per 500 MB/s")
    });
    format!("threads used {} of a core{per}", shares.join(", "))
}

/// A comparison. `names` are the sides'.
pub fn comparison(names: (&str, &str), caveats: &[String], lines: &[Line], paint: Paint) -> String {
    let mut text = String::new();
    for caveat in caveats {
        text.push_str(&format!("{} {caveat}\n", paint.quiet("note:")));
    }
    let head = format!(
        "{:<24}{:>12}{:>12}{:>8}   95 % interval",
        "", names.0, names.1, "ratio"
    );
    text.push_str(&format!("{}\n", paint.quiet(&head)));
    for line in lines {
        let figure = |value: f64| {
            if line.is_time {
                duration_text(value as u64)
            } else {
                count_text(value)
            }
        };
        let (low, high) = line.interval;
        let verdict = if line.differs() {
            paint.strong(&format!("{:.2}", line.ratio))
        } else {
            "no difference".to_owned()
        };
        text.push_str(&format!(
            "{:<24}{:>12}{:>12}{:>8.2}   {low:.2} to {high:.2}   {verdict}\n",
            line.what,
            figure(line.values.0),
            figure(line.values.1),
            line.ratio,
        ));
    }
    text
}

/// A verification.
pub fn verification(report: &Report, paint: Paint) -> String {
    let mut text = format!(
        "{} sent, {} acknowledged, {} refused, {} ambiguous ({} of them stored), {} read\n",
        report.sent,
        report.acked,
        report.refused,
        report.ambiguous,
        report.ambiguous_stored,
        report.read
    );
    let counts: Vec<String> = report
        .counts
        .iter()
        .map(|(kind, count)| {
            let text = format!("{} {count}", kind.as_str());
            if *count > 0 { paint.bad(&text) } else { text }
        })
        .collect();
    text.push_str(&counts.join(", "));
    text.push('\n');
    for finding in report.findings.iter().take(FINDINGS_PRINTED) {
        text.push_str(&format!("  {finding}\n"));
    }
    let more = report.findings.len().saturating_sub(FINDINGS_PRINTED);
    if more > 0 {
        text.push_str(&format!("  and {more} more\n"));
    }
    for (partition, offset, record) in report.ambiguous_records.iter().take(FINDINGS_PRINTED) {
        let stored = if *offset < 0 {
            "not stored".to_owned()
        } else {
            format!("stored at offset {offset}")
        };
        text.push_str(&format!(
            "  ambiguous  partition {partition}, {record}: {stored}\n"
        ));
    }
    let verdict = if report.is_clean() {
        "no fault".to_owned()
    } else {
        paint.bad("FAULTS FOUND")
    };
    text.push_str(&format!("{verdict}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_how_many_were_due_and_which_quantiles_are_not_known() {
        let mut result = RunResult::default();
        (result.counts.due, result.counts.acked) = (2_000, 1_000);
        result.latency.produce.count = 1_000;
        result.latency.produce.p50 = Some(3_000_000);
        let text = run(&result, Paint { is_on: false });
        let records = "records     2000 due in the measured time, 1000 of them acknowledged\n";
        assert!(text.contains(records), "{text}");
        let dashes = format!("{:>COLUMN$}", "-").repeat(5);
        let produce = format!("produce     {:>COLUMN$}{dashes}\n", "3.00 ms");
        assert!(text.contains(&produce), "{text}");
    }
}
