//! `loadgen run`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::ArgMatches;

use super::assemble::{self, Target};
use super::exit::{Failure, NOT_HELD, PARTIAL};
use super::terminal::{self, Screen};
use super::{flags, text};
use crate::engine::{self, Outcome};
use crate::results::{HISTOGRAMS, RunResult, hlog};
use crate::view::live::Live;
use crate::view::summary;
use crate::workload::layers::{self, Loaded};

/// Where results go when nobody says otherwise.
pub const RESULTS: &str = "loadgen-results";

pub fn run(given: &ArgMatches) -> Result<ExitCode, Failure> {
    let loaded = layers::load(text(given, "workload"), &flags(given))?;
    let name = match text(given, "name") {
        "" => loaded.name.clone(),
        name => name.to_owned(),
    };
    let quiet = given.get_flag("quiet");
    let interrupted = terminal::interruption();
    let (result, outcome) = measure(&loaded, &Target::given(given), &name, quiet, &interrupted)?;
    let directory = directory(given, &result);
    write(&directory, &result, &outcome).map_err(|error| {
        let directory = directory.display();
        Failure::failed(format!(
            "the result cannot be written to {directory}: {error}; choose another place with --output"
        ))
    })?;
    if !quiet {
        terminal::print(&summary::run(&result, terminal::paint()));
    }
    terminal::print(&format!("{:<12}{}\n", "result", directory.display()));
    Ok(if !result.invalid.is_empty() {
        ExitCode::from(NOT_HELD)
    } else if result.counts.failed > 0
        || result.counts.acked < result.counts.due
        || outcome.interrupted
    {
        ExitCode::from(PARTIAL)
    } else {
        ExitCode::SUCCESS
    })
}

/// One run, shown while it goes on.
pub fn measure(
    loaded: &Loaded,
    target: &Target,
    name: &str,
    quiet: bool,
    interrupted: &AtomicBool,
) -> Result<(RunResult, Outcome), Failure> {
    let plan = assemble::plan(loaded, target)?;
    let mut screen = Screen::new(quiet);
    let seconds = plan.workload.duration.as_secs_f64();
    let mut live = Live::new(name, seconds, screen.paint());
    let outcome = engine::run(plan, interrupted, &mut |progress| {
        screen.show(&live.lines(progress));
    });
    screen.clear();
    let outcome = outcome?;
    Ok((assemble::result(loaded, name, &outcome), outcome))
}

fn directory(given: &ArgMatches, result: &RunResult) -> PathBuf {
    match text(given, "output") {
        "" => {
            let at = result.started.replace([':', '-'], "");
            PathBuf::from(RESULTS).join(format!("{}-{at}", result.name.replace(['/', ' '], "-")))
        }
        output => PathBuf::from(output),
    }
}

/// Writes a result into a directory of its own.
pub fn write(directory: &Path, result: &RunResult, outcome: &Outcome) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    hlog::write(
        &directory.join(HISTOGRAMS),
        outcome.started,
        &outcome.samples,
    )?;
    result.write(directory)
}
