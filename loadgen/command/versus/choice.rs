//! What is to be compared, and for how long, as the command line says.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::time::{Duration, SystemTime};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::super::exit::Failure;
use super::super::{flags, option, run, settings, text};
use crate::machine::date;
use crate::versus::contender::Programs;
use crate::versus::jars::Jars;
use crate::versus::trial::Tier;
use crate::workload::quantity;

/// The settings of a workload that a comparison sets itself.
const OWN: &[&str] = &["description", "rate", "duration", "warm-up", "keep-topics"];
/// Of a run, unmeasured, once the broker is warm: connections and first batches.
const SETTLE: Duration = Duration::from_secs(2);
const QUICK_SETTLE: Duration = Duration::from_secs(1);

/// The lengths of the parts of a comparison: flag, default, value with `--quick`, what it is.
const LENGTHS: &[(&str, &str, &str, &str)] = &[
    (
        "broker-warm-up",
        "20s",
        "2s",
        "How long a broker that was just started is loaded before anything is measured",
    ),
    ("closed", "15s", "3s", "How long a closed loop is measured"),
    ("open", "30s", "3s", "How long an open loop is measured"),
];

/// How long each part takes.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// Of a fresh broker.
    pub broker_warm_up: Duration,
    /// Of a closed loop.
    pub closed: Duration,
    /// Of an open loop.
    pub open: Duration,
    settle: Duration,
}

/// What is to be compared.
#[derive(Debug)]
pub struct Choice {
    /// Workloads by name or file.
    pub workloads: Vec<String>,
    /// At these guarantees.
    pub tiers: Vec<Tier>,
    /// Open loops at these percentages.
    pub shares: Vec<u32>,
    /// Pairs of runs of each.
    pub repeats: u32,
    /// How long each part takes.
    pub lengths: Lengths,
    /// The brokers.
    pub programs: Programs,
    /// Both with their versions.
    pub title: String,
    /// Where results go.
    pub output: PathBuf,
    /// Whether to show nothing meanwhile.
    pub quiet: bool,
    settings: Vec<(String, String)>,
}

/// The command's arguments.
pub fn arguments(command: Command) -> Command {
    let workloads = Arg::new("workloads")
        .value_name("WORKLOAD")
        .help("Named workloads or files, one after the other")
        .num_args(1..)
        .default_value("steady");
    let repeats = option("repeats", None, "N", "Pairs of runs of each")
        .value_parser(value_parser!(u32).range(1..=1_000))
        .default_value("5");
    let command = command
        .arg(workloads)
        .arg(option("corelog", None, "FILE", "corelog's binary; the one beside this program when not given"))
        .arg(option("kafka", None, "VERSION", "Apache Kafka's version; the newest 4.x when not given").default_value(""))
        .arg(option("jars", None, "DIR", "A directory with Kafka's jars, instead of fetching them by Maven"))
        .arg(option("work", None, "DIR", "Where the brokers' data, their logs and the jars are").default_value("loadgen-versus"))
        .arg(option("output", 'o', "DIR", "Where the results go, a directory of its own"))
        .arg(repeats)
        .arg(option("tiers", None, "TIER,...", "Guarantees: flushed (on disk before it is acknowledged), written (no flush is waited for)").default_value("flushed,written"))
        .arg(option("shares", None, "PERCENT,...", "Open loops, in percent of what the weaker one takes").default_value("25,50,75"))
        .arg(option("cores", None, "N,...", "The cores that brokers may use; all when not given").default_value(""))
        .arg(flag("quick", None, "A first look: one repeat of seconds each, below two minutes for one workload"))
        .arg(flag("quiet", 'q', "Print no progress"));
    let command = LENGTHS
        .iter()
        .fold(command, |command, (name, default, quick, help)| {
            let help = format!("{help} [default: {default}, quick: {quick}]");
            let arg = Arg::new(*name).long(*name).value_name("TIME").help(help);
            command.arg(arg)
        });
    settings(command, OWN)
}

fn flag(name: &'static str, short: impl Into<Option<char>>, help: &'static str) -> Arg {
    let arg = Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help);
    match short.into() {
        Some(short) => arg.short(short),
        None => arg,
    }
}

impl Choice {
    /// Reads the command line, fetches the jars and looks both brokers up.
    ///
    /// # Errors
    /// When something is wrong or missing.
    pub fn read(given: &ArgMatches) -> Result<Self, Failure> {
        let quick = given.get_flag("quick");
        let length = |name: &str| length(given, name, quick).map_err(Failure::usage);
        let lengths = Lengths {
            broker_warm_up: length("broker-warm-up")?,
            closed: length("closed")?,
            open: length("open")?,
            settle: if quick { QUICK_SETTLE } else { SETTLE },
        };
        let tiers = list(text(given, "tiers"), Tier::named, "flushed or written")?;
        let shares = list(text(given, "shares"), percentage, "a percentage, 1 to 100")?;
        let cores = list(
            text(given, "cores"),
            |core| core.parse().ok(),
            "a core's number",
        )?;
        let repeats = given.get_one("repeats").copied().unwrap_or(1);
        let work = PathBuf::from(text(given, "work"));
        let corelog = corelog(text(given, "corelog"));
        let corelog_version = version(&corelog)?;
        let kafka = match text(given, "jars") {
            "" => Jars::fetch(&work.join("jars"), text(given, "kafka")),
            directory => Jars::of(Path::new(directory)),
        };
        let kafka = kafka.map_err(Failure::failed)?;
        let now = date::iso(SystemTime::now()).replace([':', '-'], "");
        let output = match text(given, "output") {
            "" => PathBuf::from(run::RESULTS).join(format!("versus-{now}")),
            output => PathBuf::from(output),
        };
        let workloads = given.get_many::<String>("workloads").into_iter().flatten();
        Ok(Self {
            workloads: workloads.cloned().collect(),
            tiers,
            shares,
            repeats: if quick { 1 } else { repeats },
            lengths,
            title: format!("{corelog_version} and Apache Kafka {}", kafka.version),
            programs: Programs {
                corelog,
                kafka,
                data: work.join("data"),
                logs: work.join("logs"),
                cores,
            },
            output,
            quiet: given.get_flag("quiet"),
            settings: flags(given),
        })
    }

    /// The settings of one run. Topics stay: the broker's directory goes as a whole.
    pub fn flags(&self, rate: Option<f64>, length: Duration) -> Vec<(String, String)> {
        let rate = rate.map_or("max".to_owned(), |rate| format!("{rate:.3}"));
        let ms = |time: Duration| format!("{}ms", time.as_millis());
        let own = [
            ("rate", rate),
            ("duration", ms(length)),
            ("warm-up", ms(self.lengths.settle)),
            ("keep-topics", "true".to_owned()),
        ];
        let own = own.map(|(key, value)| (key.to_owned(), value));
        self.settings.iter().cloned().chain(own).collect()
    }

    /// Why results cannot be kept.
    pub fn cannot_write(&self, error: &io::Error) -> Failure {
        let output = self.output.display();
        Failure::failed(format!(
            "the results cannot be written to {output}: {error}; choose another place with --output"
        ))
    }
}

fn length(given: &ArgMatches, name: &str, quick: bool) -> Result<Duration, String> {
    let defaults = LENGTHS.iter().find(|(it, ..)| *it == name);
    let default = defaults.map_or(
        "",
        |(_, default, short, _)| if quick { short } else { default },
    );
    match text(given, name) {
        "" => quantity::time(default),
        time => quantity::time(time).map_err(|expected| format!("--{name} {expected}")),
    }
}

/// The words of a list, each read.
fn list<T>(
    words: &str,
    read: impl Fn(&str) -> Option<T>,
    expected: &str,
) -> Result<Vec<T>, Failure> {
    let words = words
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty());
    words
        .map(|word| read(word).ok_or_else(|| Failure::usage(format!("{word:?} is not {expected}"))))
        .collect()
}

fn percentage(word: &str) -> Option<u32> {
    word.parse()
        .ok()
        .filter(|percent| (1..=100).contains(percent))
}

/// corelog's binary: as given, or beside this one, or wherever the shell finds it.
fn corelog(given: &str) -> PathBuf {
    if !given.is_empty() {
        return PathBuf::from(given);
    }
    let beside = env::current_exe().map(|own| own.with_file_name("corelog"));
    match beside {
        Ok(beside) if beside.is_file() => beside,
        _ => PathBuf::from("corelog"),
    }
}

fn version(corelog: &Path) -> Result<String, Failure> {
    let name = corelog.display();
    let asked = Program::new(corelog).arg("--version").output();
    let asked = asked.map_err(|error| {
        Failure::failed(format!(
            "{name} cannot be started: {error}; build it (cargo build --release) or name it with --corelog"
        ))
    })?;
    let words = String::from_utf8_lossy(&asked.stdout);
    Ok(words.lines().next().unwrap_or("corelog").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_whole_or_refused_by_the_word_that_is_wrong() {
        assert_eq!(list("25, 75", percentage, "").ok(), Some(vec![25, 75]));
        assert_eq!(list("", percentage, "").ok(), Some(vec![]));
        assert!(list("25,101", percentage, "a percentage").is_err());
        assert_eq!(
            list("written", Tier::named, "").ok(),
            Some(vec![Tier::Written])
        );
    }
}
