//! Ends real brokers under load, by kill -9, by SIGTERM and by a power cut, and checks what they
//! acknowledged. Knows which proofs there are and which are asked for.
//!
//! | argument | meaning |
//! |---|---|
//! | `--power-cuts N` | so many power cuts and nothing else; 2 in the gate (root, /dev/fuse, mkfs.ext4, mkfs.xfs) |
//! | a word | only proofs with it in their names |
//!
//! `CORELOG_CRASH_ROUNDS` sets how often a broker is killed (4; 50 for the whole proof), `CORELOG_CRASH_SEED`
//! repeats a run's choices.

#[path = "block/mod.rs"]
mod block;
mod broker;
#[path = "crash/calibration.rs"]
mod calibration;
#[path = "crash/choices.rs"]
mod choices;
#[path = "crash/device.rs"]
mod device;
#[path = "crash/directory.rs"]
mod directory;
#[path = "crash/disk.rs"]
mod disk;
#[path = "crash/killed.rs"]
mod killed;
#[path = "crash/load.rs"]
mod load;
#[path = "crash/power.rs"]
mod power;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

use broker::number;

/// In the gate.
const POWER_CUTS: u64 = 2;
/// What cargo's users pass to every test, followed by a value.
const WITH_VALUE: &[&str] = &["--test-threads", "--color", "--format", "--skip"];

type Proof = (&'static str, fn());

const PROOFS: &[Proof] = &[
    (
        "kill_9_loses_nothing_acknowledged_and_duplicates_nothing",
        killed::kill_9_loses_nothing_acknowledged_and_duplicates_nothing,
    ),
    (
        "sigterm_under_load_stops_in_time_and_loses_nothing",
        killed::sigterm_under_load_stops_in_time_and_loses_nothing,
    ),
    (
        "the_disk_forgets_what_no_flush_has_covered",
        calibration::the_disk_forgets_what_no_flush_has_covered,
    ),
    (
        "a_disk_that_fails_takes_only_its_own_partitions_offline",
        directory::a_disk_that_fails_takes_only_its_own_partitions_offline,
    ),
    ("a_power_cut_loses_nothing_acknowledged", || {
        power::a_power_cut_loses_nothing_acknowledged(POWER_CUTS)
    }),
    (
        "without_flushes_a_power_cut_is_seen_to_lose_records",
        power::without_flushes_a_power_cut_is_seen_to_lose_records,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [serve, mountpoint, bytes] = &arguments[..]
        && serve == disk::SERVE
    {
        let bytes = bytes.parse().expect("bytes");
        device::serve(mountpoint.as_ref(), bytes).expect("a device");
        return ExitCode::SUCCESS;
    }
    let (mut words, mut cuts) = (Vec::new(), None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--power-cuts" {
            let Some(number) = rest.next().and_then(|it| it.parse().ok()) else {
                eprintln!("--power-cuts is followed by a number; see tests/crash.rs");
                return ExitCode::from(2);
            };
            cuts = Some(number);
        } else if WITH_VALUE.contains(&argument.as_str()) {
            rest.next();
        } else if !argument.starts_with('-') {
            words.push(argument.as_str());
        }
    }
    let well = match cuts {
        Some(cuts) => holds("power cuts", || {
            power::a_power_cut_loses_nothing_acknowledged(cuts);
        }),
        None => run(&words),
    };
    ExitCode::from(u8::from(!well))
}

/// Runs the proofs with one of the words in their names; whether all hold.
fn run(words: &[&str]) -> bool {
    let asked = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let wanted = PROOFS.iter().filter(|(name, _)| asked(name));
    wanted.fold(true, |well, (name, proof)| holds(name, proof) && well)
}

fn holds(name: &str, proof: impl FnOnce() + std::panic::UnwindSafe) -> bool {
    let begun = Instant::now();
    let well = catch_unwind(proof).is_ok();
    let verdict = if well { "ok" } else { "FAILED" };
    println!("{name}: {verdict}, {:.1} s", begun.elapsed().as_secs_f64());
    well
}

/// What all choices of this run come from.
fn seed() -> u64 {
    let seed = number("CORELOG_CRASH_SEED", u64::from(std::process::id()));
    println!("CORELOG_CRASH_SEED={seed}");
    seed
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}
