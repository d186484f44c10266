//! `loadgen report`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgMatches;

use super::exit::Failure;
use super::{terminal, text};
use crate::report;
use crate::results::{self, RunResult};

pub fn report(given: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut runs = Vec::new();
    for path in given.get_many::<PathBuf>("results").into_iter().flatten() {
        for path in results::find(path).map_err(Failure::not_found)? {
            runs.push(RunResult::read(&path).map_err(Failure::failed)?);
        }
    }
    let output = Path::new(text(given, "output"));
    std::fs::write(output, report::page(&runs)).map_err(|error| {
        let output = output.display();
        Failure::failed(format!(
            "{output} cannot be written: {error}; choose another with --output"
        ))
    })?;
    terminal::print(&format!("{}\n", output.display()));
    Ok(ExitCode::SUCCESS)
}
