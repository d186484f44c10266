//! `loadgen search`.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::ArgMatches;

use super::assemble::Target;
use super::exit::{Failure, NOT_HELD, PARTIAL};
use super::{flags, run, terminal, text};
use crate::search::bound::Bound;
use crate::search::{Ask, Held, Outcome, Purpose, Search};
use crate::view::count_text;
use crate::workload::{layers, quantity};

/// The lengths of one run of a search, unless they are given.
const LENGTHS: &[(&str, &str)] = &[("duration", "10s"), ("warm-up", "3s"), ("drain", "5s")];

pub fn search(given: &ArgMatches) -> Result<ExitCode, Failure> {
    let bound = Bound::parse(text(given, "bound")).map_err(Failure::usage)?;
    let start = quantity::rate(text(given, "start")).map_err(Failure::usage)?;
    let interrupted = terminal::interruption();
    let quiet = given.get_flag("quiet");
    let target = Target::given(given);
    let mut search = Search::new(start);
    loop {
        let (rate, purpose) = match search.ask() {
            Ask::Done(outcome) => return Ok(tell(&bound, outcome)),
            Ask::Run { rate, purpose } => (rate, purpose),
        };
        let loaded = layers::load(text(given, "workload"), &with_rate(given, rate))?;
        let name = format!("{} at {}/s", loaded.name, count_text(rate));
        let (result, _) = run::measure(&loaded, &target, &name, quiet, &interrupted)?;
        if interrupted.load(Ordering::Relaxed) {
            eprintln!("loadgen: interrupted; nothing was found");
            return Ok(ExitCode::from(PARTIAL));
        }
        let (held, words) = bound.judge(&result);
        if !quiet {
            let number = search.trials() + 1;
            let held = match held {
                Held::Yes => "held",
                Held::No => "not held",
                Held::Invalid => "INVALID",
            };
            let purpose = match purpose {
                Purpose::Step => "step",
                Purpose::Bisect => "bisect",
                Purpose::Confirm(_) => "confirm",
            };
            let rate = count_text(rate);
            eprintln!("{number:>3}  {purpose:<8}{rate:>8}/s  {held:<9}{words}");
        }
        search.answer(held);
    }
}

fn with_rate(given: &ArgMatches, rate: f64) -> Vec<(String, String)> {
    let mut flags = flags(given);
    flags.retain(|(key, _)| key != "rate");
    for (key, value) in LENGTHS {
        if !flags.iter().any(|(name, _)| name == key) {
            flags.push(((*key).to_owned(), (*value).to_owned()));
        }
    }
    flags.push(("rate".to_owned(), format!("{rate:.3}")));
    flags
}

fn tell(bound: &Bound, outcome: Outcome) -> ExitCode {
    let rate = |rate: f64| format!("{}/s", count_text(rate));
    let best = |best: Option<f64>| best.map_or("none".to_owned(), rate);
    let (words, code) = match outcome {
        Outcome::Found { rate: found } => {
            let found = rate(found);
            (
                format!("{found} is the highest rate that holds {bound}"),
                ExitCode::SUCCESS,
            )
        }
        Outcome::Nothing => (format!("no rate holds {bound}"), ExitCode::from(NOT_HELD)),
        Outcome::GaveUp { best: held } => {
            let held = best(held);
            let words =
                format!("the runs contradict each other; the highest rate that held is {held}");
            (words, ExitCode::from(PARTIAL))
        }
        Outcome::GeneratorLimit { best: held } => {
            let held = best(held);
            let words = format!(
                "the generator was the limit; the highest rate that held {bound} is {held}"
            );
            (words, ExitCode::from(PARTIAL))
        }
    };
    terminal::print(&format!("{words}\n"));
    code
}
