//! Groups with simulated members, seed by seed: `cargo test --test group_simulation -- --seeds 5000`. Without
//! arguments it is a short run for the gate.
//!
//! | argument | meaning |
//! |---|---|
//! | `--seeds N` | so many seeds, from `--from` on (0), each twice |
//! | `--seed N` | this one alone, all that passes between clients, coordinators and the log shown |
//! | `--bugs N` | which of N seeds is the first to find each bug that is put in |

mod classic;
mod client;
mod consumer;
mod faults;
mod log;
mod oracle;
mod scene;
mod story;
mod trace;
mod view;

#[path = "../reactor/random.rs"]
mod random;

use std::panic::{catch_unwind, set_hook, take_hook};
use std::process::ExitCode;

use simulated_groups::bugs::Bug;
use story::{Outcome, Plan, live};

const SEEDS: u64 = 200;
/// Of so many seeds one is lived through twice in the gate, to see that it is the same story; otherwise all.
const TWICE: u64 = 16;
/// After so many seeds it is said how far it has come.
const PROGRESS: u64 = 500;
/// Of what a bug was found by, so much is shown.
const SAID_CHARS: usize = 110;

/// What is asked for.
struct Wanted {
    from: u64,
    seeds: u64,
    /// Of so many seeds one is lived through twice.
    twice: u64,
    aloud: bool,
    bugs: u64,
}

fn main() -> ExitCode {
    let wanted = match wanted() {
        Ok(wanted) => wanted,
        Err(argument) => {
            eprintln!(
                "{argument} is followed by a number; see tests/simulation/groups/simulation.rs"
            );
            return ExitCode::from(2);
        }
    };
    let well = if wanted.bugs > 0 {
        find_bugs(wanted.bugs)
    } else {
        run(&wanted)
    };
    ExitCode::from(u8::from(!well))
}

fn wanted() -> Result<Wanted, String> {
    let mut wanted = Wanted {
        from: 0,
        seeds: SEEDS,
        twice: TWICE,
        aloud: false,
        bugs: 0,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let place = match argument.as_str() {
            "--seeds" => {
                wanted.twice = 1;
                &mut wanted.seeds
            }
            "--from" => &mut wanted.from,
            "--bugs" => &mut wanted.bugs,
            "--seed" => {
                (wanted.seeds, wanted.aloud) = (1, true);
                &mut wanted.from
            }
            // What cargo and its users pass to every test.
            _ => continue,
        };
        let number = arguments.next().and_then(|it| it.parse().ok());
        *place = number.ok_or(argument)?;
    }
    Ok(wanted)
}

/// Lives through seeds and says what they came to; whether all went well.
fn run(wanted: &Wanted) -> bool {
    let mut failed: u64 = 0;
    let mut all = Vec::new();
    for seed in wanted.from..wanted.from + wanted.seeds {
        let plan = Plan {
            seed,
            bug: None,
            aloud: wanted.aloud,
        };
        let lived = catch_unwind(|| {
            let outcome = live(plan);
            if seed.is_multiple_of(wanted.twice) && !plan.aloud {
                assert_eq!(live(plan), outcome, "the same seed is the same story");
            }
            outcome
        });
        match lived {
            Ok(outcome) => all.push(outcome),
            Err(_) => {
                eprintln!(
                    "seed {seed} failed: cargo test --test group_simulation -- --seed {seed}"
                );
                failed += 1;
            }
        }
        let done = seed - wanted.from + 1;
        if done.is_multiple_of(PROGRESS) {
            println!("{done} of {} seeds, {failed} failed", wanted.seeds);
        }
    }
    sum_up(&all, failed);
    failed == 0
}

fn sum_up(all: &[Outcome], failed: u64) {
    let sum = |part: fn(&Outcome) -> u64| all.iter().map(part).sum::<u64>();
    println!(
        "{} seeds, {failed} failed: {} requests, {} records, {} commits acknowledged, {} crashes and {} moves of \
         the coordinator, {} offsets expired, {} groups deleted",
        all.len() as u64 + failed,
        sum(|it| it.requests),
        sum(|it| it.records),
        sum(|it| it.acknowledged),
        sum(|it| it.crashes),
        sum(|it| it.moves),
        sum(|it| it.expired),
        sum(|it| it.deleted),
    );
}

/// Prints which seed is the first to find each bug.
fn find_bugs(seeds: u64) -> bool {
    // Failing is what is wanted.
    let hook = take_hook();
    set_hook(Box::new(|_| ()));
    let mut all = true;
    println!("| bug | first seed that finds it | by |");
    println!("|---|---|---|");
    for bug in Bug::ALL {
        let found = (0..seeds).find_map(|seed| {
            let plan = Plan {
                seed,
                bug: Some(bug),
                aloud: false,
            };
            let said = catch_unwind(|| live(plan)).err()?;
            Some((
                seed,
                said.downcast::<String>()
                    .map_or_else(|_| String::new(), |it| *it),
            ))
        });
        all &= found.is_some();
        let (seed, said) = found.map_or(("none".to_owned(), String::new()), |(seed, said)| {
            (seed.to_string(), said.chars().take(SAID_CHARS).collect())
        });
        println!("| {bug:?} | {seed} | {} |", said.replace('\n', " "));
    }
    set_hook(hook);
    all
}
