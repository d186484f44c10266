//! `loadgen compare`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgMatches;

use super::exit::Failure;
use super::terminal;
use crate::compare::{self, Measured};
use crate::results::{self, HISTOGRAMS, RunResult, hlog};
use crate::view::summary;

pub fn compare(given: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut paths = given.get_many::<PathBuf>("results").into_iter().flatten();
    let (Some(first), Some(second)) = (paths.next(), paths.next()) else {
        return Err(Failure::usage("two results are compared"));
    };
    let (first, second) = (side(first)?, side(second)?);
    let caveats = compare::caveats(&first, &second);
    let lines = compare::compare(&first, &second);
    let names = (&*first[0].result.name, &*second[0].result.name);
    let text = summary::comparison(names, &caveats, &lines, terminal::paint());
    terminal::print(&text);
    Ok(ExitCode::SUCCESS)
}

fn side(path: &Path) -> Result<Vec<Measured>, Failure> {
    let found = results::find(path).map_err(Failure::not_found)?;
    let measured = found.iter().map(|path| {
        let result = RunResult::read(path).map_err(Failure::failed)?;
        let log = path.join(HISTOGRAMS);
        let series = |name| hlog::read(&log, name).map_err(Failure::not_found);
        Ok(Measured {
            produce: series("produce")?,
            end_to_end: series("end-to-end")?,
            result,
        })
    });
    measured.collect()
}
