//! Storage on a simulated machine, seed by seed: `cargo test --test simulation -- --seeds 2000`. Without
//! arguments it is a short run for the gate.
//!
//! | argument | meaning |
//! |---|---|
//! | `--seeds N` | so many seeds, from `--from` on (0), each twice |
//! | `--seed N` | this one alone, every disk operation shown |
//! | `--sweep N` | so many seeds, each once for every disk operation of its first life, which fails |
//! | `--operation N` | with `--seed`: this operation of its only life fails, as in a sweep |
//! | `--bugs N` | which of N seeds is the first to find each bug that is put in |

mod background;
mod ghost;
mod kept;
mod policy;
mod producing;
mod reading;
mod shard;
mod story;

use std::collections::BTreeMap;
use std::panic::{catch_unwind, set_hook};
use std::process::ExitCode;

use reactor::bug::Bug;
use story::{Outcome, Plan, live};

const SEEDS: u64 = 200;
/// Of so many seeds one is lived through twice in the gate, to see that it is the same story; otherwise all.
const TWICE: u64 = 16;
/// A sweep ends after so many failures: more say nothing new.
const FAILURES_MAX: u64 = 20;
const LIVES: u64 = 4;
/// Of what a bug was found by, so much is shown.
const SAID_CHARS: usize = 110;
/// What is asked for.
struct Wanted {
    from: u64,
    seeds: u64,
    /// Of so many seeds one is lived through twice.
    twice: u64,
    tell: bool,
    sweep: u64,
    /// Of the one seed's life this operation fails; 0: as the seed decides.
    operation: u64,
    bugs: u64,
}

fn main() -> ExitCode {
    let wanted = match wanted() {
        Ok(wanted) => wanted,
        Err(argument) => {
            eprintln!("{argument} is followed by a number; see tests/simulation/simulation.rs");
            return ExitCode::from(2);
        }
    };
    let well = if wanted.bugs > 0 {
        find_bugs(wanted.bugs)
    } else if wanted.sweep > 0 {
        sweep(wanted.from, wanted.sweep)
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
        tell: false,
        sweep: 0,
        operation: 0,
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
            "--sweep" => &mut wanted.sweep,
            "--operation" => &mut wanted.operation,
            "--bugs" => &mut wanted.bugs,
            "--seed" => {
                (wanted.seeds, wanted.tell) = (1, true);
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

fn plan(seed: u64) -> Plan {
    Plan {
        seed,
        lives: LIVES,
        bug: None,
        fail_at: None,
        tell: false,
    }
}

/// One life, in which this operation fails.
fn swept(seed: u64, operation: u64) -> Plan {
    Plan {
        lives: 1,
        fail_at: Some(operation),
        ..plan(seed)
    }
}

/// Lives through seeds and says what they came to; whether all went well.
fn run(wanted: &Wanted) -> bool {
    let mut failed = 0;
    let mut all = Vec::new();
    for seed in wanted.from..wanted.from + wanted.seeds {
        let tell = wanted.tell;
        let plan = match wanted.operation {
            0 => plan(seed),
            operation => swept(seed, operation),
        };
        let plan = Plan { tell, ..plan };
        let lived = catch_unwind(|| {
            let outcome = live(plan);
            if seed % wanted.twice == 0 && !tell {
                assert_eq!(live(plan), outcome, "the same seed is the same story");
            }
            outcome
        });
        match lived {
            Ok(outcome) => all.push(outcome),
            Err(_) => {
                eprintln!("seed {seed} failed: cargo test --test simulation -- --seed {seed}");
                failed += 1;
            }
        }
    }
    sum_up(&all, failed);
    failed == 0
}

fn sum_up(all: &[Outcome], failed: usize) {
    let sum = |part: fn(&Outcome) -> u64| all.iter().map(part).sum::<u64>();
    println!(
        "{} seeds, {failed} failed: {} disk operations, {} power cuts, {} lives ended by a failed operation, \
         {} reads gone wrong",
        all.len() + failed,
        sum(|it| it.operations),
        sum(|it| it.power_cuts),
        sum(|it| it.failures),
        sum(|it| it.misreads),
    );
    println!(
        "{} batches left; retention took {} segments, {} cleanings {} bytes, {} logs were deleted",
        sum(|it| it.appended),
        sum(|it| it.retained),
        sum(|it| it.cleanings),
        sum(|it| it.cleaned_bytes),
        sum(|it| it.deleted),
    );
    let mut cut_at = BTreeMap::<&str, u64>::new();
    for (kind, times) in all.iter().flat_map(|it| &it.cut_at) {
        *cut_at.entry(kind).or_default() += times;
    }
    let kinds: Vec<_> = cut_at
        .iter()
        .map(|(kind, times)| format!("{kind} {times}"))
        .collect();
    println!("the power went at: {}", kinds.join(", "));
}

/// Fails each disk operation of a seed's first life in turn.
fn sweep(from: u64, seeds: u64) -> bool {
    let (mut lives, mut failed) = (0, 0);
    for seed in from..from + seeds {
        for operation in 1.. {
            lives += 1;
            match catch_unwind(|| live(swept(seed, operation))) {
                // The life was over before.
                Ok(outcome) if outcome.first_life < operation => break,
                Ok(_) => {}
                Err(_) => {
                    eprintln!(
                        "seed {seed} failed: cargo test --test simulation -- --seed {seed} --operation {operation}"
                    );
                    failed += 1;
                    if failed > FAILURES_MAX {
                        return false;
                    }
                }
            }
        }
    }
    println!(
        "{seeds} seeds, {lives} failed operations: {failed} times something was not as it must be"
    );
    failed == 0
}

/// Prints which seed is the first to find each bug.
fn find_bugs(seeds: u64) -> bool {
    // Failing is what is wanted.
    set_hook(Box::new(|_| ()));
    let mut all = true;
    println!("| bug | first seed that finds it | by |");
    println!("|---|---|---|");
    for bug in Bug::ALL {
        let found = (0..seeds).find_map(|seed| {
            let plan = Plan {
                bug: Some(bug),
                ..plan(seed)
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
        println!("| {:?} | {seed} | {} |", bug, said.replace('\n', " "));
    }
    all
}
