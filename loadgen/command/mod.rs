//! The command line: what can be asked of `loadgen`. Knows the words, and hands the work over.

mod assemble;
mod compare;
mod control;
mod exit;
mod report;
mod run;
mod search;
mod terminal;
mod verify;
mod versus;
mod workloads;

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::workload::table::SETTINGS;

/// What stands behind the help.
const EXAMPLES: &str = "Examples:
  loadgen run steady                         a measurement, open loop
  loadgen run bulk-64k --duration 10s        closed loop; any setting is a flag
  loadgen search steady --bound 'p99 <= 10ms'
  loadgen verify --duration 60s
  loadgen versus --quick                     corelog and Apache Kafka, side by side
  loadgen report loadgen-results/* -o report.html
  loadgen compare RESULT OTHER

Exit codes: 0 ok, 1 failed, 2 usage, 3 cannot connect, 4 not found or conflict, 6 the bound was not
held or the run is invalid, 7 verification found faults, 8 partial";

/// The whole command line.
pub fn command() -> Command {
    let workload = Arg::new("workload").value_name("WORKLOAD").help(
        "A named workload (see `loadgen workloads`), a TOML file, or an OpenMessaging YAML file",
    );
    Command::new("loadgen")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Load generator for any Kafka-compatible broker")
        .max_term_width(100)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(EXAMPLES)
        .subcommand(
            loading(Command::new("run").about("Run a workload and measure"))
                .arg(workload.clone().default_value("steady"))
                .arg(option(
                    "output",
                    'o',
                    "DIR",
                    "Where the result goes, a directory of its own",
                )),
        )
        .subcommand(
            loading(Command::new("search").about("Find the highest rate that holds a bound"))
                .arg(workload.clone().default_value("steady"))
                .arg(
                    option(
                        "bound",
                        None,
                        "BOUND",
                        "What must hold: `p99 <= 10ms` or `end-to-end p99.9 <= 50ms`",
                    )
                    .default_value("p99 <= 10ms"),
                )
                .arg(option("start", None, "RATE", "The first rate").default_value("1k/s")),
        )
        .subcommand(
            loading(
                Command::new("verify")
                    .about("Check that what is acknowledged is kept, once, in order, whole"),
            )
            .arg(option(
                "history",
                None,
                "FILE",
                "Write every event to this file, as JSON lines",
            ))
            .arg(
                option("replay", None, "FILE", "Check a history file again instead")
                    .exclusive(true),
            ),
        )
        .subcommand(versus::arguments(Command::new("versus").about(
            "Compare corelog and Apache Kafka on this machine, in turn, at equal guarantees",
        )))
        .subcommands(reading())
        .subcommands(controls())
}

/// The commands that read results and workloads.
fn reading() -> [Command; 3] {
    [
        Command::new("report")
            .about("Make one HTML file from one or more results, side by side")
            .arg(paths(
                "RESULT",
                "Results: directories written by run, or folders of them",
            ))
            .arg(option("output", 'o', "FILE", "The HTML file").default_value("report.html")),
        Command::new("compare")
            .about("Compare two results, or two folders of repeated runs")
            .arg(paths("RESULT", "Two results").num_args(2)),
        Command::new("workloads")
            .about("List the named workloads, or print one")
            .arg(Arg::new("name").value_name("NAME")),
    ]
}

/// What the generator is itself measured and checked against.
fn controls() -> [Command; 2] {
    [
        Command::new("null-broker")
                .about("Serve as a broker that answers at once and keeps nothing on disk, to measure the generator")
                .arg(option("listen", None, "HOST:PORT", "Where").default_value("127.0.0.1:19092")),
        Command::new("proxy")
                .about("Stand before a broker and harm what is acknowledged, to see that verify finds it")
                .arg(option("listen", None, "HOST:PORT", "Where").default_value("127.0.0.1:19093"))
                .arg(brokers("HOST:PORT", "The broker that it stands before"))
                .arg(option("harm", None, "HARM", "drop, duplicate, reorder or flip").required(true))
                .arg(
                    option("every", None, "N", "Harm every N-th batch")
                        .value_parser(value_parser!(u64).range(1..))
                        .default_value("100"),
                ),
    ]
}

fn option(
    name: &'static str,
    short: impl Into<Option<char>>,
    value: &'static str,
    help: &'static str,
) -> Arg {
    let arg = Arg::new(name).long(name).value_name(value).help(help);
    match short.into() {
        Some(short) => arg.short(short),
        None => arg,
    }
}

fn paths(name: &'static str, help: &'static str) -> Arg {
    Arg::new("results")
        .value_name(name)
        .help(help)
        .required(true)
        .num_args(1..)
        .value_parser(value_parser!(std::path::PathBuf))
}

fn brokers(value: &'static str, help: &'static str) -> Arg {
    option("brokers", 'b', value, help)
        .alias("bootstrap")
        .env("CORELOG_BROKERS")
        .default_value("127.0.0.1:9092")
}

/// What all commands have that send load: the broker, and every setting as a flag.
fn loading(command: Command) -> Command {
    let command = command
        .arg(brokers(
            "HOST:PORT,...",
            "Some of the cluster's brokers; `null` for a null broker in this process",
        ))
        .arg(
            option(
                "broker-pid",
                None,
                "PID",
                "The broker's process, whose CPU and memory are watched",
            )
            .value_parser(value_parser!(u32)),
        )
        .arg(option(
            "name",
            None,
            "NAME",
            "What the result is called in reports",
        ))
        .arg(
            Arg::new("quiet")
                .long("quiet")
                .short('q')
                .action(ArgAction::SetTrue)
                .help("Print no progress and no summary"),
        );
    settings(command, &[])
}

/// Adds the settings of workloads as flags, all but some.
fn settings(command: Command, without: &[&str]) -> Command {
    let settings = SETTINGS
        .iter()
        .filter(|setting| !without.contains(&setting.key));
    settings.fold(command, |command, setting| {
        let arg = Arg::new(setting.key)
            .long(setting.key)
            .value_name(setting.form)
            .help(setting.help)
            .help_heading("Settings of the workload")
            .action(if setting.is_table() {
                ArgAction::Append
            } else {
                ArgAction::Set
            });
        command.arg(arg)
    })
}

/// Reads this process's command line and does what it asks.
pub fn main() -> ExitCode {
    let matches = command().get_matches();
    let done = match matches.subcommand() {
        Some(("run", given)) => run::run(given),
        Some(("search", given)) => search::search(given),
        Some(("verify", given)) => verify::verify(given),
        Some(("versus", given)) => versus::versus(given),
        Some(("report", given)) => report::report(given),
        Some(("compare", given)) => compare::compare(given),
        Some(("null-broker", given)) => control::null_broker(given),
        Some(("proxy", given)) => control::proxy(given),
        Some(("workloads", given)) => workloads::workloads(given),
        _ => unreachable!("the command line requires one of them"),
    };
    match done {
        Ok(code) => code,
        Err(failure) => failure.tell(),
    }
}

/// The settings that were given by flags.
fn flags(given: &ArgMatches) -> Vec<(String, String)> {
    let mut flags = Vec::new();
    for setting in SETTINGS {
        // A command need not have them all.
        let values = given.try_get_many::<String>(setting.key).ok().flatten();
        for value in values.into_iter().flatten() {
            flags.push((setting.key.to_owned(), value.clone()));
        }
    }
    flags
}

fn text<'a>(given: &'a ArgMatches, name: &str) -> &'a str {
    given.get_one::<String>(name).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn a_null_broker_is_offered_where_it_is_taken() {
        let commands = command();
        for (name, takes) in [
            ("run", true),
            ("search", true),
            ("verify", true),
            ("proxy", false),
        ] {
            let command = commands.find_subcommand(name).expect(name);
            let mut arguments = command.get_arguments();
            let brokers = arguments.find(|it| it.get_id() == "brokers");
            let help = brokers.and_then(|it| it.get_help()).expect(name);
            assert_eq!(help.to_string().contains("`null`"), takes, "{name}");
        }
    }

    #[test]
    fn every_setting_is_a_flag() {
        let line =
            "loadgen run steady --rate 5k/s --producer-config linger.ms=1 --producer-config acks=1";
        let matches = command()
            .try_get_matches_from(line.split(' '))
            .expect("right");
        let (_, given) = matches.subcommand().expect("run");
        let expected = [
            ("rate", "5k/s"),
            ("producer-config", "linger.ms=1"),
            ("producer-config", "acks=1"),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(flags(given), expected);
    }
}
