//! Drives brokers with requests of known shape and prints what each request has cost them. Run it by
//! `benches/cost/run`. Knows the broker as a process only.
#![forbid(unsafe_code)]

#[path = "../../tests/broker/address.rs"]
mod address;
mod broker;
mod load;
mod meter;
mod trace;

use std::time::Duration;

use broker::Broker;
use load::{LOADS, Load, Plan};
use meter::Reading;
use trace::{Calls, Trace};

/// Requests before the first measured one: buffers have grown and extents exist by then.
const WARM_UP: u64 = 300;

/// What one request has cost.
struct Cost {
    name: &'static str,
    median: Duration,
    used: Reading,
    calls: Calls,
    counted: u64,
    traced: u64,
}

#[tokio::main]
async fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let mut costs = Vec::new();
    for plan in LOADS.iter().filter(|plan| plan.name.contains(&only)) {
        costs.push(measure(plan).await);
        eprintln!("measured: {}", plan.name);
    }
    print_table(&costs);
}

/// Counts first, without a tracer that slows the broker down, then traces the same load.
async fn measure(plan: &'static Plan) -> Cost {
    let mut broker = Broker::start(plan.shards, plan.environment).await;
    let mut load = Load::prepare(plan, &mut broker).await;
    load.drive(WARM_UP).await;
    let before = meter::read(&mut broker);
    let mut times = load.drive(plan.requests).await;
    let used = meter::read(&mut broker).since(&before);
    let trace = Trace::attach(broker.id());
    let traced = load.drive(plan.requests / 4).await.len() as u64;
    let calls = trace.detach();
    times.sort();
    Cost {
        name: plan.name,
        median: times[times.len() / 2],
        used,
        calls,
        counted: times.len() as u64,
        traced,
    }
}

fn print_table(costs: &[Cost]) {
    println!(
        "| load | median | CPU | system calls | allocations | allocated | wake-ups | kernel workers' |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for cost in costs {
        let per = |count: u64| count as f64 / cost.counted as f64;
        println!(
            "| {} | {:.0} us | {:.0} us | {} | {:.1} | {:.1} KiB | {:.2} | {:.2} |",
            cost.name,
            cost.median.as_secs_f64() * 1e6,
            per(cost.used.cpu_nanos) / 1e3,
            cost.calls.per(cost.traced),
            per(cost.used.allocations),
            per(cost.used.allocated_bytes) / 1024.0,
            per(cost.used.wake_ups),
            per(cost.used.worker_wake_ups),
        );
    }
}
