//! Runs against the null broker: everything that was due is sent, acknowledged, read and counted.

use std::sync::atomic::AtomicBool;

use loadgen::engine::settings::ClientSettings;
use loadgen::engine::watched::Watched;
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
    let broker = NullBroker::in_memory(RETAIN_BYTES).expect("starts");
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
        clients: ClientSettings::new(&broker.address, &workload)
            .expect("right")
            .through(&broker.transport),
        workload,
        run: number,
        watched: Watched::Null(broker),
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
fn a_second_counts_what_became_due_though_no_producer_has_come_to_it() {
    // More than any generator sends: most of it waits where nobody has handed it over.
    let rate = [("rate", "50M/s"), ("producers", "1"), ("consumers", "0")];
    let lengths = [("duration", "1s"), ("warm-up", "0s"), ("drain", "1ms")];
    let outcome = run("steady", &[&rate[..], &lengths].concat(), 5);
    let first = &outcome.seconds[0];
    let waiting = outcome.due - first.acked;
    assert!(outcome.due >= 49_999_999, "{}", outcome.due);
    assert!(first.backlog.abs_diff(waiting) < 1_000_000, "{first:?}");
}

#[test]
fn a_group_that_nobody_coordinates_fails_at_once() {
    let began = std::time::Instant::now();
    let settings = [("group-protocol", "classic")];
    let said = try_run("steady", &settings, 6).expect_err("no coordinator");
    assert!(said.to_string().contains("UNSUPPORTED_VERSION"), "{said}");
    assert!(
        began.elapsed().as_secs() < 15,
        "it does not wait to the end"
    );
}

#[test]
fn what_a_null_broker_costs_is_told_apart() {
    let outcome = run("steady", &[], 7);
    let broker = outcome.broker.cpu_seconds.expect("it is watched");
    assert!(broker > 0.0 && outcome.cpu.as_secs_f64() > 0.0);
    let threads: f64 = outcome.thread_cpu.iter().sum();
    let generator = outcome.cpu.as_secs_f64();
    assert!(
        generator >= threads * 0.9,
        "{generator} s in all, {threads} in threads"
    );
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
