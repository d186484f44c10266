//! Verification against a broker that keeps everything, and against one behind a proxy that harms what was
//! acknowledged: each harm is found and named.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use loadgen::engine::settings::ClientSettings;
use loadgen::engine::watched::Watched;
use loadgen::engine::{Plan, verification};
use loadgen::null_broker::NullBroker;
use loadgen::proxy::{Harm, Proxy};
use loadgen::verify::checker::Report;
use loadgen::verify::finding::Kind;
use loadgen::workload::layers;

const ANYWHERE: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
const RETAIN_BYTES: usize = 1 << 30;

fn broker() -> SocketAddr {
    let broker = NullBroker::start(ANYWHERE.into(), RETAIN_BYTES);
    let address = broker.expect("listens somewhere").address;
    address.parse().expect("an address")
}

fn verify(broker: SocketAddr, run: u64) -> Report {
    let settings = [
        ("duration", "2s"),
        ("rate", "4k/s"),
        ("producers", "4"),
        ("partitions", "4"),
        ("producer-config", "linger.ms=20"),
    ];
    let flags = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let loaded = layers::load("verify", &flags).unwrap_or_else(|faults| panic!("{faults}"));
    let workload = loaded.workload;
    let plan = Plan {
        topics: workload.topic_names(run),
        clients: ClientSettings::new(&broker.to_string(), &workload).expect("right"),
        workload,
        run,
        watched: Watched::Nothing,
    };
    let never = AtomicBool::new(false);
    let verified = verification::verify(plan, None, &never, &mut |_| {});
    verified.expect("the broker is there").report
}

fn harmed(harm: Harm, run: u64) -> Report {
    let proxy = Proxy::start(ANYWHERE.into(), broker(), harm, 10).expect("listens somewhere");
    let report = verify(proxy.address, run);
    assert!(
        proxy.harmed() > 0,
        "batches of several records went through"
    );
    report
}

/// How many findings of a kind there are.
fn count(report: &Report, kind: Kind) -> u64 {
    let found = report.counts.iter().find(|(it, _)| *it == kind);
    found.map_or(0, |(_, count)| *count)
}

#[test]
fn a_broker_that_keeps_everything_has_no_fault() {
    let report = verify(broker(), 1);
    assert!(report.is_clean(), "{:#?}", report.findings);
    assert_eq!(report.sent, 8_000);
    assert_eq!((report.acked, report.read), (report.sent, report.sent));
}

#[test]
fn a_dropped_record_is_lost() {
    assert!(count(&harmed(Harm::Drop, 2), Kind::Lost) > 0);
}

#[test]
fn a_duplicated_record_is_duplicated() {
    assert!(count(&harmed(Harm::Duplicate, 3), Kind::Duplicated) > 0);
}

#[test]
fn a_record_before_its_place_is_reordered() {
    let report = harmed(Harm::Reorder, 4);
    assert!(count(&report, Kind::Reordered) > 0);
    assert_eq!(count(&report, Kind::Lost), 0, "{:#?}", report.findings);
}

#[test]
fn a_flipped_bit_is_corrupt() {
    let report = harmed(Harm::Flip, 5);
    assert!(count(&report, Kind::Corrupt) > 0);
    assert_eq!(count(&report, Kind::Lost), 0, "{:#?}", report.findings);
}
