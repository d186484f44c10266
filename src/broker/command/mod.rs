//! The command line: what can be asked of `corelog`, and the settings that follow from it. Knows
//! nothing of how a broker runs; it is handed the function that runs one.

pub mod banner;
pub mod check;
pub mod machine;

mod cluster;
mod config;
mod consume;
mod dump;
mod generate;
mod group;
mod produce;
mod topic;
mod verify;

mod connect;
mod exit;
mod lines;
mod moment;
mod output;
mod text;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::config::{Effective, Faults, Flag, Settings, Sources};
use crate::start_error::StartError;

/// The exit code of wrong settings, the same as that of a wrong command line.
const EXIT_USAGE: u8 = 2;

/// A log broker that speaks Kafka's protocol.
#[derive(Debug, Parser)]
#[command(name = "corelog", version, about, max_term_width = 100)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a broker, by default on 127.0.0.1:9092 with its data in ./corelog-data.
    Serve(Overrides),
    /// Say what this machine is like for a broker, and what to do about it. Exits 1 if none can run.
    ///
    /// With --data, also read all files of that directory, or of those directories, and check that they are
    /// whole. Exits 7 if something is lost or damaged.
    Check(CheckArguments),
    /// Settings: what is in force for this broker, and what topics and brokers are set to.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Topics: make, list, look at, change and delete them.
    #[command(subcommand)]
    Topic(topic::TopicCommand),
    /// Write lines as records to a topic.
    Produce(Box<produce::Produce>),
    /// Print records of a topic.
    Consume(Box<consume::Consume>),
    /// Groups: list them, look at them, see how far they are, reset and delete them.
    #[command(subcommand)]
    Group(group::GroupCommand),
    /// A cluster: who is in it, and whether all is well.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// The files of a data directory: print and check them.
    Dump(dump::Dump),
    /// Print what makes a shell complete this command line.
    Completions(generate::Completions),
    /// Print the man page, or write one for each command.
    Man(generate::Man),
}

/// What to check.
#[derive(Debug, Args)]
pub struct CheckArguments {
    #[command(flatten)]
    overrides: Overrides,
    /// Also remove damaged files that are caches: indexes and checkpoints, which the broker makes again. Needs
    /// the broker to be stopped.
    #[arg(long)]
    repair: bool,
}

/// What to do about settings.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the settings in force, in the form that --config takes.
    Show {
        /// Say beside each where its value comes from.
        #[arg(long)]
        origin: bool,
        /// What lies over the defaults.
        #[command(flatten)]
        overrides: Overrides,
    },
    /// Print configs of a topic, a broker or a group: those that somebody set, or all.
    Describe(config::Describe),
    /// Set configs of a topic, a broker or a group, all or none.
    Set(config::Set),
    /// Set configs of a topic, a broker or a group back to their defaults, all or none.
    Delete(config::Delete),
}

/// Settings from the command line. Every other one is set by file or environment.
#[derive(Clone, Debug, Default, Args)]
pub struct Overrides {
    /// A file with settings; `corelog config show` prints one with all of them.
    #[arg(long, value_name = "FILE", env = "CORELOG_CONFIG")]
    config: Option<PathBuf>,
    /// The data directory, or several with commas between them.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The address to listen on.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// The address that clients are told, if not the one that each connected to.
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// How many shards to run; 0 for one per core.
    #[arg(long, value_name = "N")]
    shards: Option<String>,
}

impl Overrides {
    /// The settings in force, each with its origin.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn load(&self) -> Result<Effective, Faults> {
        Effective::load(&Sources::read(self.config.as_deref(), self.flags())?)
    }

    /// The settings in force.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn settings(&self) -> Result<Settings, Faults> {
        self.load()?.settings()
    }

    fn flags(&self) -> Vec<Flag> {
        let data = self.data.as_deref().map(Path::to_string_lossy);
        let flags = [
            ("--data", "data", "dir", data.map(String::from)),
            ("--listen", "listener", "listen", self.listen.clone()),
            (
                "--advertise",
                "listener",
                "advertise",
                self.advertise.clone(),
            ),
            ("--shards", "shards", "count", self.shards.clone()),
        ];
        let given = flags.into_iter().filter_map(|(name, section, key, value)| {
            Some(Flag {
                name,
                section,
                key,
                value: value?,
            })
        });
        given.collect()
    }
}

/// Reads this process's command line; a wrong one ends the process with help.
pub fn parse() -> Command {
    Line::parse().command
}

/// Does what was asked, running a broker by `serve`.
pub fn run(command: Command, serve: fn(Settings) -> Result<(), StartError>) -> ExitCode {
    match command {
        Command::Serve(overrides) => match overrides.settings() {
            Err(faults) => refuse(&faults.into()),
            Ok(settings) => match serve(settings) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => refuse(&error),
            },
        },
        Command::Check(it) => match it.overrides.settings() {
            Err(faults) => refuse(&faults.into()),
            Ok(settings) => run_check(&it, &settings),
        },
        Command::Config(ConfigCommand::Show { origin, overrides }) => match overrides.load() {
            Err(faults) => refuse(&faults.into()),
            Ok(effective) => {
                print(&effective.show(origin));
                ExitCode::SUCCESS
            }
        },
        Command::Config(ConfigCommand::Describe(it)) => end(config::describe(&it)),
        Command::Config(ConfigCommand::Set(it)) => end(config::set(&it)),
        Command::Config(ConfigCommand::Delete(it)) => end(config::delete(&it)),
        Command::Topic(it) => end(topic::run(&it)),
        Command::Group(it) => end(group::run(&it)),
        Command::Produce(it) => end(produce::run(&it)),
        Command::Consume(it) => end(consume::run(&it)),
        Command::Completions(it) => end(generate::completions(&it, Line::command())),
        Command::Man(it) => end(generate::man(&it, Line::command())),
        Command::Cluster(it) => end(cluster::run(&it)),
        Command::Dump(dump) => end(dump::run(&dump)),
    }
}

fn run_check(asked: &CheckArguments, settings: &Settings) -> ExitCode {
    let findings = check::check(settings);
    for finding in &findings {
        print(&format!("{finding}\n"));
    }
    let files = match asked.overrides.data.is_some() || asked.repair {
        true => end(verify::run(&settings.data.dirs, asked.repair)),
        false => ExitCode::SUCCESS,
    };
    match check::can_run(&findings) {
        true => files,
        false => ExitCode::FAILURE,
    }
}

/// Ends a command that is a client or reads files.
fn end(ended: Result<exit::Ending, exit::Failure>) -> ExitCode {
    match ended {
        Ok(ending) => ending.into(),
        Err(failure) => {
            output::complain(&failure);
            failure.ending.into()
        }
    }
}

fn refuse(error: &StartError) -> ExitCode {
    match error {
        StartError::Settings(faults) => {
            let count = faults.0.len();
            let settings = if count == 1 { "setting" } else { "settings" };
            eprintln!("corelog: {count} wrong {settings}:\n{faults}");
            ExitCode::from(EXIT_USAGE)
        }
        error => {
            eprintln!("corelog: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) {
    // A reader that has gone away, such as `head`, is no fault of ours.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Command {
        let line = Line::try_parse_from(line.split(' '));
        line.unwrap_or_else(|error| panic!("{error}")).command
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Line::command().debug_assert();
    }

    #[test]
    fn flags_of_serve_become_settings() {
        let line = "corelog serve --data /d --listen 127.0.0.1:7 --advertise h:8 --shards 3";
        let Command::Serve(overrides) = parsed(line) else {
            panic!("serve was asked for");
        };
        let settings = overrides.settings().expect("all are right");
        assert_eq!(settings.data.dirs, [Path::new("/d")]);
        assert_eq!(settings.listener.listen.to_string(), "127.0.0.1:7");
        let advertised = settings
            .listener
            .advertise
            .as_ref()
            .map(ToString::to_string);
        assert_eq!(advertised.as_deref(), Some("h:8"));
        assert_eq!(settings.shard_count(), 3);
    }

    #[test]
    fn all_wrong_flags_are_told_at_once() {
        let Command::Serve(overrides) = parsed("corelog serve --listen nowhere --shards two")
        else {
            panic!("serve was asked for");
        };
        let faults = overrides
            .settings()
            .expect_err("both are wrong")
            .to_string();
        assert!(
            faults.contains("--listen") && faults.contains("--shards"),
            "{faults}"
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_told() {
        let Command::Check(check) = parsed("corelog check --config /no/such.toml") else {
            panic!("check was asked for");
        };
        let faults = check.overrides.settings().expect_err("no file").to_string();
        assert!(
            faults.starts_with("flag --config: /no/such.toml cannot be read"),
            "{faults}"
        );
    }
}
