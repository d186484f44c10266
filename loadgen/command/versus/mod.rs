//! `loadgen versus`.

mod choice;

use std::fs;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ArgMatches;

use super::assemble::Target;
use super::exit::{Failure, PARTIAL};
use super::{run, terminal};
use crate::machine::{disk, environment};
use crate::report;
use crate::versus::contender::Broker;
use crate::versus::sections::sections;
use crate::versus::table;
use crate::versus::trial::{Contender, Load, Tier, Trial, weaker_rate};
use crate::view::{bytes_text, count_text};
use crate::workload::layers;
use choice::Choice;

pub use choice::arguments;

/// Open loops are sent for at least this rate: below it there is nothing to measure.
const RATE_MIN: f64 = 1.0;

pub fn versus(given: &ArgMatches) -> Result<ExitCode, Failure> {
    let choice = Choice::read(given)?;
    let mut comparison = Comparison {
        interrupted: terminal::interruption(),
        machine: machine(&choice),
        choice,
        trials: Vec::new(),
    };
    eprintln!("{}", comparison.machine);
    for workload in comparison.choice.workloads.clone() {
        for tier in comparison.choice.tiers.clone() {
            comparison.closed(&workload, tier)?;
            comparison.open(&workload, tier)?;
        }
    }
    if comparison.trials.is_empty() {
        return Err(Failure::failed("interrupted before anything was measured"));
    }
    let table = table::table(&table::rows(&comparison.trials)).markdown();
    terminal::print(&format!("{}\n\n{table}", comparison.machine));
    let output = comparison.choice.output.display();
    terminal::print(&format!("\n{:<12}{output}\n", "result"));
    Ok(match comparison.is_interrupted() {
        true => ExitCode::from(PARTIAL),
        false => ExitCode::SUCCESS,
    })
}

/// A comparison under way.
struct Comparison {
    choice: Choice,
    machine: String,
    trials: Vec<Trial>,
    interrupted: Arc<AtomicBool>,
}

impl Comparison {
    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// What both take at most.
    fn closed(&mut self, workload: &str, tier: Tier) -> Result<(), Failure> {
        for repeat in 1..=self.choice.repeats {
            for contender in Contender::order(repeat) {
                self.session(workload, tier, contender, repeat, &[(Load::Closed, None)])?;
            }
        }
        Ok(())
    }

    /// Both at shares of what the weaker one takes: the same rates for both, in all repeats.
    fn open(&mut self, workload: &str, tier: Tier) -> Result<(), Failure> {
        let Some(most) = weaker_rate(&self.trials, workload, tier) else {
            return Ok(());
        };
        let load = |percent: &u32| {
            let rate = (most * f64::from(*percent) / 100.0).max(RATE_MIN);
            (Load::Open(*percent), Some(rate))
        };
        let loads: Vec<_> = self.choice.shares.iter().map(load).collect();
        for repeat in 1..=self.choice.repeats {
            for contender in Contender::order(repeat) {
                self.session(workload, tier, contender, repeat, &loads)?;
            }
        }
        Ok(())
    }

    /// One broker's life: started on an empty directory, warmed up, measured, stopped.
    fn session(
        &mut self,
        workload: &str,
        tier: Tier,
        contender: Contender,
        repeat: u32,
        loads: &[(Load, Option<f64>)],
    ) -> Result<(), Failure> {
        if self.is_interrupted() {
            return Ok(());
        }
        let started = self.choice.programs.start(contender, tier);
        let broker = started.map_err(Failure::failed)?;
        let lengths = self.choice.lengths;
        let warm_up = self.choice.flags(None, lengths.broker_warm_up);
        self.measure(workload, &warm_up, &broker, "warm-up")?;
        for (load, rate) in loads {
            // What was left to be written must not be written at the next run's expense.
            rustix::fs::sync();
            let length = match load {
                Load::Closed => lengths.closed,
                Load::Open(_) => lengths.open,
            };
            let flags = self.choice.flags(*rate, length);
            let measured = self.measure(workload, &flags, &broker, contender.name())?;
            if self.is_interrupted() {
                return Ok(());
            }
            let (result, outcome) = measured;
            let trial = Trial {
                workload: result.workload.clone(),
                tier,
                load: *load,
                repeat,
                contender,
                result,
            };
            eprintln!("{}", progress(&trial));
            self.keep(trial, &outcome)
                .map_err(|error| self.choice.cannot_write(&error))?;
        }
        Ok(())
    }

    fn measure(
        &self,
        workload: &str,
        flags: &[(String, String)],
        broker: &Broker,
        name: &str,
    ) -> Result<(crate::results::RunResult, crate::engine::Outcome), Failure> {
        let loaded = layers::load(workload, flags)?;
        let target = Target {
            brokers: broker.address.clone(),
            pid: broker.pid(),
        };
        run::measure(&loaded, &target, name, self.choice.quiet, &self.interrupted)
    }

    /// Writes all that is known after each trial, so that an interrupted comparison leaves what it has.
    fn keep(&mut self, trial: Trial, outcome: &crate::engine::Outcome) -> io::Result<()> {
        let output = &self.choice.output;
        let directory = output
            .join(&trial.workload)
            .join(trial.tier.name())
            .join(trial.load.name())
            .join(trial.contender.name())
            .join(trial.repeat.to_string());
        run::write(&directory, &trial.result, outcome)?;
        self.trials.push(trial);
        let rows = table::rows(&self.trials);
        let table = table::table(&rows);
        let text = format!("{}\n\n{}", self.machine, table.markdown());
        fs::write(output.join("table.md"), text)?;
        let figures = serde_json::to_string_pretty(&rows).map_err(io::Error::other)?;
        fs::write(output.join("table.json"), figures + "\n")?;
        let page = report::comparison(&self.choice.title, &table, &sections(&self.trials));
        fs::write(output.join("report.html"), page)
    }
}

fn progress(trial: &Trial) -> String {
    let (counts, produce) = (&trial.result.counts, trial.result.latency.produce.printed());
    let time = |at: usize| crate::measure::quantiles::quantile_text(produce[at]);
    let times = match trial.load {
        Load::Closed => String::new(),
        Load::Open(_) => format!(", p50 {}, p99 {}, p99.9 {}", time(0), time(2), time(3)),
    };
    let invalid = match trial.result.invalid.is_empty() {
        true => "",
        false => ", INVALID",
    };
    format!(
        "{}, {}, {}, repeat {}: {} {}/s, {}/s{times}{invalid}",
        trial.workload,
        trial.tier.name(),
        trial.load.name(),
        trial.repeat,
        trial.contender.name(),
        count_text(counts.acked_per_second),
        bytes_text(counts.acked_bytes_per_second),
    )
}

/// What the figures depend on, in one line.
fn machine(choice: &Choice) -> String {
    let machine = environment::environment();
    let data = &choice.programs.data;
    let flush = fs::create_dir_all(data).and_then(|()| disk::flush_time(data));
    let flush = flush.map_or("unknown".to_owned(), |time| {
        crate::measure::quantiles::duration_text(time.as_nanos() as u64)
    });
    let cores = match &*choice.programs.cores {
        [] => "brokers and load share all cores".to_owned(),
        cores => format!("brokers on cores {cores:?}"),
    };
    format!(
        "{}; {} cores of {}, {}; {}; {}, appending and flushing 4 KiB takes {flush}; {cores}",
        choice.title,
        machine.cores,
        machine.cpu,
        bytes_text(machine.memory_bytes as f64),
        machine.kernel,
        disk::file_system(data).unwrap_or_else(|| "unknown file system".to_owned()),
    )
}
