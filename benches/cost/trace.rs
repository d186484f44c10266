//! Counts a process's system calls with strace. Knows nothing of what the process does.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// Calls that happen less often than once in so many requests are added up.
const RARE: f64 = 0.1;

/// cachestat(2), for an strace that is older than it.
const CACHESTAT: &str = "syscall_0x1c3";

/// A tracer at work.
pub struct Trace {
    tracer: Child,
    /// Held open, or the tracer's last words would end it.
    _says: BufReader<ChildStderr>,
    log: PathBuf,
}

impl Trace {
    /// Attaches to all threads of a process; they are traced when this returns.
    pub fn attach(process: u32) -> Self {
        let log = std::env::temp_dir().join(format!("cost-trace-{}", std::process::id()));
        let mut tracer = Command::new("strace")
            .args(["-f", "-p", &process.to_string(), "-o"])
            .arg(&log)
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace is installed");
        let mut says = BufReader::new(tracer.stderr.take().expect("piped"));
        let mut line = String::new();
        says.read_line(&mut line).expect("strace speaks");
        assert!(line.contains("attached"), "strace cannot trace: {line}");
        Self {
            tracer,
            _says: says,
            log,
        }
    }

    /// Lets the process go and returns what was counted.
    pub fn detach(mut self) -> Calls {
        let id = i32::try_from(self.tracer.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("a process"), Signal::INT).expect("strace runs");
        self.tracer.wait().expect("strace ends");
        let log = std::fs::read_to_string(&self.log).expect("a log");
        let _ = std::fs::remove_file(&self.log);
        let mut counts = BTreeMap::new();
        for name in log.lines().filter_map(call) {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
        Calls(counts.into_iter().collect())
    }
}

/// The call that a line of the log begins: `thread name(arguments) = result`, or the part of it
/// before `<unfinished ...>`. The summary of `strace -c` leaves out calls that strace cannot name.
fn call(line: &str) -> Option<&str> {
    let (_, call) = line.split_once(' ')?;
    let (name, _) = call.trim_start().split_once('(')?;
    let known = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match name {
        CACHESTAT => Some("cachestat"),
        name => known.then_some(name),
    }
}

/// System calls by name, the most frequent first.
pub struct Calls(Vec<(String, u64)>);

impl Calls {
    /// How many per request, in words.
    pub fn per(&self, requests: u64) -> String {
        let mut calls: Vec<(&str, f64)> = self
            .0
            .iter()
            .map(|(name, count)| (name.as_str(), *count as f64 / requests as f64))
            .collect();
        calls.sort_by(|one, other| other.1.total_cmp(&one.1));
        let total: f64 = calls.iter().map(|(_, count)| count).sum();
        let rare: f64 = calls
            .iter()
            .map(|(_, count)| count)
            .filter(|it| **it < RARE)
            .sum();
        let often = calls.iter().filter(|(_, count)| *count >= RARE);
        let mut parts: Vec<String> = often
            .map(|(name, count)| format!("{name} {count:.1}"))
            .collect();
        if rare > 0.0 {
            parts.push(format!("others {rare:.1}"));
        }
        format!("{total:.1}: {}", parts.join(", "))
    }
}
