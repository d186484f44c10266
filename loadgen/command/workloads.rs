//! `loadgen workloads`.

use std::process::ExitCode;

use clap::ArgMatches;

use super::exit::Failure;
use super::{terminal, text};
use crate::workload::{layers, named};

pub fn workloads(given: &ArgMatches) -> Result<ExitCode, Failure> {
    let name = text(given, "name");
    if name.is_empty() {
        for (name, _) in named::ALL {
            let loaded = layers::load(name, &[])?;
            terminal::print(&format!("{name:<18}{}\n", loaded.workload.description));
        }
        return Ok(ExitCode::SUCCESS);
    }
    // What is in force, in the form that a workload's file has.
    let loaded = layers::load(name, &[])?;
    let (mut plain, mut tables) = (String::new(), String::new());
    let mut table = "";
    for entry in &loaded.entries {
        match entry
            .value
            .split_once('=')
            .filter(|_| entry.key.ends_with("-config"))
        {
            None => plain.push_str(&format!("{} = {:?}\n", entry.key, entry.value)),
            Some((config, value)) => {
                if entry.key != table {
                    table = &entry.key;
                    tables.push_str(&format!("\n[{table}]\n"));
                }
                tables.push_str(&format!("{config:?} = {value:?}\n"));
            }
        }
    }
    terminal::print(&(plain + &tables));
    Ok(ExitCode::SUCCESS)
}
