//! What a broker costs that has nothing to do: 1,000 connections, 1,000 partitions, no request. Knows
//! the broker as a process with a port.
//!
//! `CORELOG_IDLE_SECONDS` sets for how long it is watched (3). From 60 on the promised bounds are
//! asserted, for a release build:
//! `CORELOG_IDLE_SECONDS=60 cargo test --release --test idle -- --nocapture`

mod broker;

use std::time::{Duration, Instant};

use broker::{Broker, DataDir, number, raise_open_files};
use client::direct::Connection;

const CONNECTIONS: usize = 1_000;
const PARTITIONS: i32 = 1_000;
/// From here on a run is a measurement.
const MEASURED_SECONDS_MIN: u64 = 60;
/// Of one core, in percent: the promise, and what even a busy machine and a debug build keep.
const PROCESSOR_PERCENT_MAX: f64 = 0.5;
const PROCESSOR_PERCENT_GATE_MAX: f64 = 10.0;
const RESIDENT_KIB_MAX: u64 = 150 << 10;
const RESIDENT_KIB_GATE_MAX: u64 = 400 << 10;
/// What creation leaves to be done behind it is done by then.
const SETTLE_MAX: Duration = Duration::from_secs(20);

/// Waits until the broker uses little for a second: the end of what is written behind.
async fn settle(broker: &Broker) {
    let begun = Instant::now();
    let mut before = broker.processor_time();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = broker.processor_time();
        if now.saturating_sub(before) < Duration::from_millis(20) || begun.elapsed() > SETTLE_MAX {
            return;
        }
        before = now;
    }
}

#[tokio::test]
async fn a_broker_without_requests_rests() {
    raise_open_files();
    let seconds: u64 = number("CORELOG_IDLE_SECONDS", 3);
    let data = DataDir::new("idle");
    let mut broker = Broker::start(&data, 2).await;
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS {
        let connected = Connection::connect(broker.address).await;
        let mut connection = connected.expect("connects");
        connection.api_versions().await.expect("is answered");
        idle.push(connection);
    }
    let created = idle[0].create_topic("idle", PARTITIONS, &[]).await;
    created.expect("the topic is created");
    settle(&broker).await;

    let (begun, before) = (Instant::now(), broker.processor_time());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (watched, after) = (begun.elapsed(), broker.processor_time());
    let used = after.saturating_sub(before);
    let percent = 100.0 * used.as_secs_f64() / watched.as_secs_f64();
    let resident = broker.resident_kib();
    println!(
        "{CONNECTIONS} connections, {PARTITIONS} partitions: {percent:.3} % of a core in {watched:?}, \
         {resident} KiB resident, {} open files",
        broker.open_files()
    );
    broker.assert_alive();
    for connection in &mut idle {
        let answer = connection.api_versions().await;
        answer.expect("an idle connection is still answered");
    }
    let (percent_max, resident_max) = match seconds >= MEASURED_SECONDS_MIN {
        true => (PROCESSOR_PERCENT_MAX, RESIDENT_KIB_MAX),
        false => (PROCESSOR_PERCENT_GATE_MAX, RESIDENT_KIB_GATE_MAX),
    };
    assert!(percent < percent_max, "{percent:.3} % of a core at rest");
    assert!(resident < resident_max, "{resident} KiB at rest");
}
