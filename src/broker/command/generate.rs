//! `corelog completions` and `corelog man`: what shells and `man` want to know, from the command
//! line's own description. Knows no command by name.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use super::exit::{Ending, Failure, written};

/// Print what makes a shell complete this command line.
///
/// For example in ~/.bashrc: source <(corelog completions bash)
#[derive(Clone, Debug, Args)]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

/// Print the man page, or write one for each command.
#[derive(Clone, Debug, Args)]
pub struct Man {
    /// Where to write corelog.1, corelog-topic.1 and the others; without it, corelog.1 is printed.
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Prints completions for a command line.
///
/// # Errors
/// Those of standard output.
pub fn completions(completions: &Completions, mut line: Command) -> Result<Ending, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut line, "corelog", &mut script);
    written(io::stdout().write_all(&script))?;
    Ok(Ending::Done)
}

/// Prints or writes man pages of a command line.
///
/// # Errors
/// Those of standard output or of the files.
pub fn man(man: &Man, line: Command) -> Result<Ending, Failure> {
    match &man.directory {
        None => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(line).render(&mut page);
            written(rendered.and_then(|()| io::stdout().write_all(&page)))?;
        }
        Some(directory) => {
            let made = fs::create_dir_all(directory);
            let all = made.and_then(|()| clap_mangen::generate_to(line, directory));
            all.map_err(|error| {
                let what = format!("cannot write to {}: {error}", directory.display());
                Failure::new(
                    Ending::Failed,
                    what,
                    "Name a directory that you may write to.",
                )
            })?;
        }
    }
    Ok(Ending::Done)
}
