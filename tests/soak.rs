//! A broker under steady load for as long as one likes: no turn later than 100 ms, but for want of a core on
//! a machine that does other things too; memory and file descriptors flat. Knows the broker as a process
//! and a client only.
//!
//! `CORELOG_SOAK_SECONDS` sets how long (5; a soak worth its name takes 7200), on a release build:
//! `CORELOG_SOAK_SECONDS=7200 cargo test --release --test soak -- --nocapture`. The first part of it
//! finds out how much the broker takes, the rest runs at half of that. What a short run finds is
//! printed only: a test that fails when the machine is busy is worth nothing.

mod broker;
#[path = "soak/load.rs"]
mod load;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use broker::{Broker, DataDir};
use load::{Load, Pace};

/// A run from this length on is judged.
const JUDGED: Duration = Duration::from_secs(600);
/// Samples in a whole run, at most one a second.
const SAMPLES: u32 = 240;
/// Memory may end higher than it was after the first quarter by this part of it.
const RESIDENT_GROWTH_MAX: f64 = 1.10;
/// Descriptors come and go with connections and segments.
const DESCRIPTOR_SLACK: usize = 64;

#[test]
fn a_broker_at_half_load_stays_as_it_is() {
    let seconds =
        std::env::var("CORELOG_SOAK_SECONDS").map_or(5, |it| it.parse().expect("seconds"));
    let duration = Duration::from_secs(seconds);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(soak(duration));
}

async fn soak(duration: Duration) {
    let data = DataDir::new("soak");
    let mut broker = Broker::start_heard(&data, 2).await;
    let load = Arc::new(Load::new(broker.address));
    load.prepare().await;
    let tasks = load.clone().start();

    let calibration = (duration / 10).min(Duration::from_secs(20));
    tokio::time::sleep(calibration / 4).await;
    let (begun, before) = (Instant::now(), load.bytes_produced());
    tokio::time::sleep(calibration / 4 * 3).await;
    let rate = (load.bytes_produced() - before) as f64 / begun.elapsed().as_secs_f64();
    load.pace(Pace::BytesPerSecond(rate / 2.0));
    println!(
        "takes {:.0} MiB/s, goes on at {:.0}",
        mib(rate),
        mib(rate / 2.0)
    );

    let every = (duration / SAMPLES).max(Duration::from_secs(1));
    let mut samples = Vec::new();
    let (begun, mut at, mut bytes) = (Instant::now(), Instant::now(), load.bytes_produced());
    while begun.elapsed() + calibration < duration {
        tokio::time::sleep(every).await;
        broker.assert_alive();
        let usage = Usage::of(&broker);
        let now = load.bytes_produced();
        let rate = (now - bytes) as f64 / at.elapsed().as_secs_f64();
        println!(
            "{:>5} s  {:>6.1} MiB/s  slowest answer {:>6.1} ms  {usage}",
            begun.elapsed().as_secs(),
            mib(rate),
            load.take_slowest().as_secs_f64() * 1e3,
        );
        samples.push(usage);
        (at, bytes) = (Instant::now(), now);
    }
    load.stop();
    for task in tasks {
        task.await.expect("a client that goes on to the end");
    }
    let said = broker.terminate_heard();
    let told = said.lines().find_map(late_turns_told);
    let (late_turns, starved) = told.expect("a stopping broker says how many turns were late");
    println!(
        "{}, late turns {late_turns}, and {starved} for want of a core",
        load.summary()
    );
    judge(&samples, late_turns, duration);
    assert!(load.read.load(Ordering::Relaxed) > 0, "consumers read");
}

/// What the broker's process holds, and what it has used since its start.
struct Usage {
    resident_kib: u64,
    descriptors: usize,
    processor: Duration,
}

impl Usage {
    fn of(broker: &Broker) -> Self {
        Self {
            resident_kib: broker.resident_kib(),
            descriptors: broker.open_files(),
            processor: broker.processor_time(),
        }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "resident {} KiB, {} descriptors, {:.1} s of CPU",
            self.resident_kib,
            self.descriptors,
            self.processor.as_secs_f64(),
        )
    }
}

fn late_turns_told(line: &str) -> Option<(u64, u64)> {
    let (_, counts) = line.split_once("turns later than 100 ms: ")?;
    let (own, starved) = counts.split_once(", and ")?;
    let starved = starved.strip_suffix(" for want of a core")?;
    Some((own.parse().ok()?, starved.parse().ok()?))
}

/// Flat means: no higher in the last quarter than in the second, but for what comes and goes.
fn judge(samples: &[Usage], late_turns: u64, duration: Duration) {
    let quarter = samples.len() / 4;
    if quarter == 0 {
        return;
    }
    let resident = |part: &[Usage]| part.iter().map(|it| it.resident_kib).max().unwrap_or(0) as f64;
    let open = |part: &[Usage]| part.iter().map(|it| it.descriptors).max().unwrap_or(0);
    let (early, late) = (
        &samples[quarter..2 * quarter],
        &samples[samples.len() - quarter..],
    );
    println!(
        "resident {:.0} KiB in the second quarter, {:.0} in the last; descriptors {} and {}",
        resident(early),
        resident(late),
        open(early),
        open(late),
    );
    if duration < JUDGED {
        return;
    }
    assert_eq!(late_turns, 0, "turns later than 100 ms");
    assert!(
        resident(late) <= resident(early) * RESIDENT_GROWTH_MAX,
        "memory is flat"
    );
    assert!(
        open(late) <= open(early) + DESCRIPTOR_SLACK,
        "descriptors are flat"
    );
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}
