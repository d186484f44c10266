//! Runs against the null broker: everything that was due is sent, acknowledged, read and counted.

use std::sync::atomic::AtomicBool;

use loadgen::engine::settings::ClientSettings;
use loadgen::engine::{self, Outcome, Plan};
use loadgen::measure::Sample;
use loadgen::null_broker::NullBroker;
use loadgen::workload::layers;

const RETAIN_BYTES: usize = 256 << 20;

fn try_run(
    workload: &str,
    settings: &[(&str, &str)],
    number: u64,
) -> Result<Outcome, client::Error> {
    let broker = NullBroker::start(([127, 0, 0, 1], 0).into(), RETAIN_BYTES).expect("listens");
    let short = [("duration", "2s"), ("warm-up", "500ms")];
    let flags: Vec<(String, String)> = short
        .iter()
        .chain(settings)
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let loaded = layers::load(workload, &flags).unwrap_or_else(|faults| panic!("{faults}"));
    let workload = loaded.workload;
    let plan = Plan {
        topics: workload.topic_names(number),
        clients: ClientSettings::new(&broker.address.to_string(), &workload).expect("right"),
        workload,
        run: number,
        broker_pid: None,
    };
    engine::run(plan, &AtomicBool::new(false), &mut |_| {})
}

fn run(workload: &str, settings: &[(&str, &str)], number: u64) -> Outcome {
    let outcome = try_run(workload, settings, number).expect("it runs");
    assert_eq!(outcome.errors, []);
    outcome
}

fn total(outcome: &Outcome) -> Sample {
    let mut total = Sample::default();
    for sample in &outcome.samples {
        total.merge(sample);
    }
    total
}

#[test]
fn every_record_that_was_due_is_acknowledged_and_read_by_each_group() {
    let outcome = run("fan-out", &[("rate", "2k/s"), ("groups", "3")], 1);
    assert_eq!(outcome.due, 4_000);
    let total = total(&outcome);
    assert_eq!(total.produce.len(), 4_000);
    assert_eq!(total.lateness.len(), 4_000);
    assert_eq!(total.end_to_end.len(), 12_000);
    assert_eq!(outcome.seconds.last().map(|last| last.backlog), Some(0));
}

#[test]
fn a_closed_loop_sends_as_acknowledgements_come() {
    let outcome = run("bulk-64k", &[("in-flight", "8"), ("producers", "2")], 2);
    let total = total(&outcome);
    assert!(total.produce.len() > 20, "{}", total.produce.len());
    assert_eq!(total.lateness.len(), 0, "a closed loop is never late");
    assert_eq!(outcome.due, total.produce.len());
}

#[test]
fn consumers_catch_up_with_a_backlog() {
    let settings = [("backlog", "8MiB"), ("rate", "500/s"), ("drain", "20s")];
    let outcome = run("catch-up", &settings, 3);
    assert_eq!(outcome.due, 1_000);
    assert_eq!(total(&outcome).end_to_end.len(), 1_000);
    assert_eq!(outcome.seconds.last().map(|last| last.backlog), Some(0));
}

#[test]
fn a_run_whose_clients_cannot_start_fails_and_says_which() {
    let producers = ("producer-config", "max.block.ms=0");
    let consumers = ("consumer-config", "default.api.timeout.ms=0");
    let cases = [
        (producers, "0", "; producer "),
        (producers, "1MiB", "; producer "),
        (consumers, "0", "; a consumer: "),
        (consumers, "1MiB", "; a consumer: "),
    ];
    for (impatient, backlog, who) in cases {
        let settings = [impatient, ("backlog", backlog)];
        let said = try_run("steady", &settings, 4).expect_err(who).to_string();
        assert!(said.contains(&format!("could not start{who}")), "{said}");
    }
}
