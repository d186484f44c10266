//! What a run leaves behind: one JSON document and the histograms of every second as an HdrHistogram log, in
//! a directory of their own. Knows nothing of how they came about.

pub mod hlog;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::measure::quantiles::Quantiles;

/// The form of the document; readers refuse later ones.
pub const FORMAT: u32 = 1;
/// The document's name in a result's directory.
pub const DOCUMENT: &str = "result.json";
/// The histogram log's name in a result's directory.
pub const HISTOGRAMS: &str = "latency.hlog";

/// All that is known of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// [`FORMAT`].
    pub format: u32,
    /// What it is called in reports: the workload's name, or what the user called it.
    pub name: String,
    /// The workload's name.
    pub workload: String,
    /// Every setting in force, in order: key, value, where it was written.
    pub settings: Vec<(String, String, String)>,
    /// Whether acknowledgements were waited for before more was sent.
    pub closed_loop: bool,
    /// When it began, as UTC in ISO 8601.
    pub started: String,
    /// Length of the measured time.
    pub measured_seconds: f64,
    /// Why the run is invalid; empty when it is valid.
    pub invalid: Vec<String>,
    /// What else a reader must know.
    pub warnings: Vec<String>,
    /// The machine that the generator ran on.
    pub environment: Environment,
    /// The broker that was measured.
    pub broker: Broker,
    /// Sums over the measured time.
    pub counts: Totals,
    /// Times of the records that were due in the measured time.
    pub latency: Latencies,
    /// The measured time and the draining behind it, second by second.
    pub seconds: Vec<Second>,
    /// What the generator itself used.
    pub generator: Usage,
    /// What went wrong, by message, and how often.
    pub errors: Vec<(String, u64)>,
}

/// The machine that the generator ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Its kernel.
    pub kernel: String,
    /// Its processor.
    pub cpu: String,
    /// How many cores the generator may use.
    pub cores: usize,
    /// Its memory.
    pub memory_bytes: u64,
    /// Version of the generator.
    pub loadgen: String,
}

/// The broker that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Broker {
    /// What was connected to.
    pub bootstrap: String,
    /// Its cluster's id.
    pub cluster_id: String,
    /// How many brokers the cluster has.
    pub brokers: usize,
    /// What it is, as far as it tells.
    pub kind: String,
    /// What an acknowledgement of this run meant, in words.
    pub durability: String,
    /// The configs that follow from, by Kafka's names.
    pub configs: Vec<(String, String)>,
    /// The process that was watched, when one was given.
    pub pid: Option<u32>,
    /// Its CPU time in the measured time.
    pub cpu_seconds: Option<f64>,
    /// Its largest resident memory in the measured time.
    pub rss_bytes_max: Option<u64>,
}

/// Sums over the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Records that became due.
    pub due: u64,
    /// Of these, the acknowledged.
    pub acked: u64,
    /// Records that failed.
    pub failed: u64,
    /// Acknowledgements per second within the measured time.
    pub acked_per_second: f64,
    /// Bytes of keys and values acknowledged per second within the measured time.
    pub acked_bytes_per_second: f64,
    /// Records read per second within the measured time, by all groups.
    pub consumed_per_second: f64,
    /// Their bytes.
    pub consumed_bytes_per_second: f64,
}

/// The series of times, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    /// Due until acknowledged.
    pub produce: Quantiles,
    /// Due until read.
    pub end_to_end: Quantiles,
    /// Due until its producer came to it.
    pub send_delay: Quantiles,
    /// The generator's own part of that.
    pub lateness: Quantiles,
}

/// One second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Second {
    /// When it ended, in seconds since the measured time began.
    pub at: f64,
    /// Records that became due.
    pub due: u64,
    /// Records acknowledged.
    pub acked: u64,
    /// Their bytes.
    pub acked_bytes: u64,
    /// Records read, by all groups.
    pub consumed: u64,
    /// Records that failed.
    pub failed: u64,
    /// What waited at its end: due and not acknowledged, or acknowledged and not yet read by all groups.
    pub backlog: u64,
    /// Produce latency of records acknowledged in it: p50, p99, p99.9 and the longest.
    pub produce: [u64; 4],
    /// End-to-end latency of records read in it, the same.
    pub end_to_end: [u64; 4],
    /// How much of one core the broker's process used, 1 for all of it.
    pub broker_cpu: Option<f64>,
    /// Its resident memory at the end.
    pub broker_rss_bytes: Option<u64>,
}

/// What the generator itself used in the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// CPU time of its whole process, without a null broker in it.
    pub cpu_seconds: f64,
    /// Share of its core that each thread used.
    pub thread_cpu: Vec<f64>,
}

impl RunResult {
    /// The seconds of the measured time, without the draining behind it.
    pub fn measured(&self) -> &[Second] {
        let measured = self.measured_seconds.ceil() as usize;
        &self.seconds[..measured.min(self.seconds.len())]
    }

    /// CPU time of the generator, in parts of one core, for each 500 MB/s that it moved in both directions.
    pub fn generator_cores_per_500_mb(&self) -> Option<f64> {
        let moved = self.counts.acked_bytes_per_second + self.counts.consumed_bytes_per_second;
        let cores = self.generator.cpu_seconds / self.measured_seconds;
        (moved > 0.0 && self.measured_seconds > 0.0).then(|| cores / (moved / 500e6))
    }

    /// Writes the document into a directory, whole or not at all.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
        text.push('\n');
        let half = directory.join("result.json.part");
        fs::write(&half, text)?;
        fs::rename(half, directory.join(DOCUMENT))
    }

    /// Reads a result: its directory, or its document.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn read(path: &Path) -> Result<Self, String> {
        let document = if path.is_dir() {
            path.join(DOCUMENT)
        } else {
            path.to_owned()
        };
        let name = document.display();
        let text = fs::read_to_string(&document)
            .map_err(|error| format!("{name} cannot be read: {error}"))?;
        let value: serde_json::Value = serde_json::from_str(&text)
            .map_err(|error| format!("{name} is no result of a run: {error}"))?;
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(format) => {
                return Err(format!(
                    "{name} is of format {format}; this loadgen reads format {FORMAT}: run it again"
                ));
            }
            None => return Err(format!("{name} is no result of a run")),
        }
        serde_json::from_value(value).map_err(|error| format!("{name}: {error}"))
    }
}

/// Every result below these paths: a result itself, or a directory of results.
///
/// # Errors
/// When a path holds none.
pub fn find(path: &Path) -> Result<Vec<PathBuf>, String> {
    if path.is_file() || path.join(DOCUMENT).is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|entry| entry.join(DOCUMENT).is_file())
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(format!("{} holds no result of a run", path.display()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_as_it_was_written() {
        let directory = std::env::temp_dir().join(format!("loadgen-result-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let result = RunResult {
            format: FORMAT,
            name: "steady".to_owned(),
            seconds: vec![Second::default(); 3],
            ..RunResult::default()
        };
        result.write(&directory).expect("written");
        assert_eq!(RunResult::read(&directory), Ok(result.clone()));
        let later = RunResult {
            format: 99,
            ..result
        };
        later.write(&directory).expect("written");
        let refused = RunResult::read(&directory).expect_err("too new");
        assert!(refused.contains("format 99"), "{refused}");
        fs::remove_dir_all(&directory).expect("removed");
    }
}
