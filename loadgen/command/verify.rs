//! `loadgen verify`.

use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;

use super::assemble::{self, Target};
use super::exit::{FAULTS, Failure};
use super::terminal::{self, Screen};
use super::{flags, text};
use crate::engine::verification;
use crate::verify::checker::{Checker, Report};
use crate::verify::history::{self, History};
use crate::view::{count_text, summary};
use crate::workload::layers;

pub fn verify(given: &ArgMatches) -> Result<ExitCode, Failure> {
    match text(given, "replay") {
        "" => live(given),
        file => replay(Path::new(file)),
    }
}

fn live(given: &ArgMatches) -> Result<ExitCode, Failure> {
    let loaded = layers::load("verify", &flags(given))?;
    if loaded.workload.is_closed_loop() || loaded.workload.topics > 1 {
        return Err(Failure::usage("verify needs a rate and one topic"));
    }
    let plan = assemble::plan(&loaded, &Target::given(given))?;
    let history = match text(given, "history") {
        "" => None,
        file => Some(History::create(Path::new(file)).map_err(|error| {
            Failure::failed(format!(
                "{file} cannot be written: {error}; choose another with --history"
            ))
        })?),
    };
    let mut screen = Screen::new(given.get_flag("quiet"));
    let interrupted = terminal::interruption();
    let verified = verification::verify(plan, history, &interrupted, &mut |standing| {
        let count = |count: u64| count_text(count as f64);
        screen.show(&[format!(
            "verify  {} sent, {} acknowledged, {} failed, {} read",
            count(standing.sent),
            count(standing.acked),
            count(standing.failed),
            count(standing.read)
        )]);
    });
    screen.clear();
    let verified = verified?;
    let broker = &verified.broker;
    terminal::print(&format!(
        "{} at {}; an acknowledgement means: {}\n",
        broker.kind, broker.bootstrap, broker.durability
    ));
    if !verified.troubles.is_empty() {
        let kinds = verified.troubles.iter();
        let kinds: Vec<String> = kinds
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        terminal::print(&format!(
            "errors that were gone through: {}\n",
            kinds.join(", ")
        ));
    }
    if verified.report.sent == 0 {
        return Err(Failure::failed(
            "no producer could send anything; look at the broker's log",
        ));
    }
    Ok(tell(&verified.report))
}

fn replay(file: &Path) -> Result<ExitCode, Failure> {
    let name = file.display();
    let cannot = |error: &dyn std::fmt::Display| Failure::not_found(format!("{name}: {error}"));
    let mut checker = Checker::default();
    for event in history::read(file).map_err(|error| cannot(&error))? {
        checker.take(event.map_err(|error| cannot(&error))?);
    }
    Ok(tell(&checker.finish()))
}

fn tell(report: &Report) -> ExitCode {
    terminal::print(&summary::verification(report, terminal::paint()));
    if report.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAULTS)
    }
}
