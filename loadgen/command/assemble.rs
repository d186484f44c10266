//! A plan from what was written, and a result from what came of it.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::ArgMatches;

use super::control::RETAIN_BYTES;
use super::exit::Failure;
use super::text;
use crate::engine::settings::ClientSettings;
use crate::engine::watched::Watched;
use crate::engine::{Outcome, Plan};
use crate::machine::{date, environment};
use crate::measure::Sample;
use crate::measure::quantiles::Quantiles;
use crate::measure::verdict;
use crate::null_broker::NullBroker;
use crate::results::{FORMAT, Latencies, RunResult, Totals, Usage};
use crate::workload::layers::Loaded;
use crate::workload::{GroupProtocol, Workload};

/// What load is sent to.
#[derive(Clone, Debug)]
pub struct Target {
    /// Some of the cluster's brokers, or `null`.
    pub brokers: String,
    /// The process whose CPU and memory are watched.
    pub pid: Option<u32>,
}

impl Target {
    /// As the command line says.
    pub fn given(given: &ArgMatches) -> Self {
        Self {
            brokers: text(given, "brokers").to_owned(),
            pid: given.get_one("broker-pid").copied(),
        }
    }
}

/// The plan of a workload.
///
/// # Errors
/// When configs of the clients are wrong.
pub fn plan(loaded: &Loaded, target: &Target) -> Result<Plan, Failure> {
    let workload = loaded.workload.clone();
    let settings = |brokers: &str| {
        ClientSettings::new(brokers, &workload).map_err(|faults| Failure::usage(faults.join("\n")))
    };
    let (clients, watched) = match &*target.brokers {
        "null" => {
            let broker = null_broker(&workload)?;
            let clients = settings(&broker.address)?.through(&broker.transport);
            (clients, Watched::Null(broker))
        }
        brokers => (
            settings(brokers)?,
            target.pid.map_or(Watched::Nothing, Watched::Process),
        ),
    };
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let run = since.as_nanos() as u64 ^ u64::from(std::process::id()) << 48;
    Ok(Plan {
        topics: workload.topic_names(run),
        watched,
        workload,
        run,
        clients,
    })
}

/// A null broker of this process, reached without sockets.
fn null_broker(workload: &Workload) -> Result<NullBroker, Failure> {
    if workload.group_protocol != GroupProtocol::None && workload.reading_groups() > 0 {
        return Err(Failure::usage(
            "the null broker coordinates no groups; use --group-protocol none".to_owned(),
        ));
    }
    NullBroker::in_memory(RETAIN_BYTES)
        .map_err(|error| Failure::failed(format!("the null broker cannot be started: {error}")))
}

/// The result of a run.
pub fn result(loaded: &Loaded, name: &str, outcome: &Outcome) -> RunResult {
    let mut total = Sample::default();
    for sample in &outcome.samples {
        total.merge(sample);
    }
    let workload = &loaded.workload;
    let measured = outcome.measured.as_secs_f64();
    let reasons = verdict::judge(&total, outcome.due, &outcome.thread_cpu);
    let settings = loaded.entries.iter().map(|entry| {
        let origin = entry.origin.to_string();
        (entry.key.clone(), entry.value.clone(), origin)
    });
    RunResult {
        format: FORMAT,
        name: name.to_owned(),
        workload: loaded.name.clone(),
        settings: settings.collect(),
        closed_loop: workload.is_closed_loop(),
        started: date::iso(outcome.started),
        measured_seconds: measured,
        invalid: reasons.iter().map(ToString::to_string).collect(),
        warnings: warnings(loaded, outcome, &total),
        environment: environment::environment(),
        broker: outcome.broker.clone(),
        counts: totals(outcome, &total, measured),
        latency: Latencies {
            produce: Quantiles::of(&total.produce, outcome.due),
            end_to_end: Quantiles::of(&total.end_to_end, outcome.due * workload.reading_groups()),
            send_delay: Quantiles::of(&total.send_delay, outcome.due),
            lateness: Quantiles::of(&total.lateness, outcome.due),
        },
        seconds: outcome.seconds.clone(),
        generator: Usage {
            cpu_seconds: outcome.cpu.as_secs_f64(),
            thread_cpu: outcome.thread_cpu.clone(),
        },
        errors: outcome.errors.clone(),
    }
}

/// Rates are of the measured time, not of the draining behind it.
fn totals(outcome: &Outcome, total: &Sample, measured: f64) -> Totals {
    let within = outcome.samples.iter().take(measured.ceil() as usize);
    let mut counts = crate::measure::Counts::default();
    for sample in within {
        counts.add(&sample.counts);
    }
    let per_second = |count: u64| count as f64 / measured.max(1e-9);
    Totals {
        due: outcome.due,
        acked: total.produce.len(),
        failed: total.counts.failed,
        acked_per_second: per_second(counts.acked),
        acked_bytes_per_second: per_second(counts.acked_bytes),
        consumed_per_second: per_second(counts.consumed),
        consumed_bytes_per_second: per_second(counts.consumed_bytes),
    }
}

fn warnings(loaded: &Loaded, outcome: &Outcome, total: &Sample) -> Vec<String> {
    let mut warnings = Vec::new();
    if outcome.interrupted {
        warnings.push("it was interrupted: the measured time is shorter than asked for".to_owned());
    }
    let drain = loaded.workload.drain.as_secs_f64();
    let acked = total.produce.len();
    let missing = outcome.due.saturating_sub(acked + total.counts.failed);
    if missing > 0 {
        warnings.push(format!(
            "{missing} of {} due records were neither acknowledged nor refused {drain:.0} s after the end; \
             they count as longer than any time, and a quantile among them is unknown",
            outcome.due
        ));
    }
    let groups = loaded.workload.reading_groups();
    let unread = (acked * groups).saturating_sub(total.end_to_end.len());
    if unread > 0 {
        warnings.push(format!(
            "{unread} of {} readings of acknowledged records were not done {drain:.0} s after the end; they \
             count likewise",
            acked * groups
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measure::record;
    use crate::results::Broker;
    use crate::workload::layers;

    /// What came of a second in which so many records were due, of which 500 took 1 ms and the others were
    /// not acknowledged; these 500 were read.
    fn outcome(due: u64) -> Outcome {
        let mut sample = Sample::default();
        for _ in 0..500 {
            record(&mut sample.produce, 1_000_000);
            record(&mut sample.end_to_end, 1_000_000);
        }
        Outcome {
            started: UNIX_EPOCH,
            measured: Duration::from_secs(1),
            samples: vec![sample],
            seconds: Vec::new(),
            due,
            thread_cpu: Vec::new(),
            cpu: Duration::ZERO,
            errors: Vec::new(),
            broker: Broker::default(),
            interrupted: false,
        }
    }

    #[test]
    fn records_that_were_due_and_not_acknowledged_are_in_the_quantiles_and_in_a_warning() {
        let loaded = layers::load("steady", &[]).unwrap_or_else(|faults| panic!("{faults}"));
        let all = result(&loaded, "all", &outcome(500));
        assert_eq!(all.warnings, Vec::<String>::new());
        assert!(all.latency.produce.p999.is_some());
        let mut overloaded = outcome(2_000);
        overloaded.samples[0].counts.failed = 100;
        let result = result(&loaded, "overloaded", &overloaded);
        assert_eq!((result.counts.due, result.counts.acked), (2_000, 500));
        let (produce, end_to_end) = (result.latency.produce, result.latency.end_to_end);
        assert_eq!(
            (produce.count, produce.p50, produce.p999),
            (500, None, None)
        );
        assert_eq!((end_to_end.count, end_to_end.p50), (500, None));
        let begin = "1400 of 2000 due records were neither acknowledged nor refused";
        assert!(
            result.warnings[0].starts_with(begin),
            "{:?}",
            result.warnings
        );
    }

    #[test]
    fn acknowledged_records_that_a_group_did_not_read_are_in_a_warning() {
        let flags = [("groups".to_owned(), "2".to_owned())];
        let loaded = layers::load("steady", &flags).unwrap_or_else(|faults| panic!("{faults}"));
        let result = result(&loaded, "unread", &outcome(500));
        let begin = "500 of 1000 readings of acknowledged records";
        assert!(
            result.warnings[0].starts_with(begin),
            "{:?}",
            result.warnings
        );
        assert!(result.latency.end_to_end.p50.is_some());
        assert_eq!(result.latency.end_to_end.p90, None);
    }
}
