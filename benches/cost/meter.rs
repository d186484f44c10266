//! What a broker has used so far, from its allocator and from procfs. Knows nothing of requests.

use std::fs;
use std::path::Path;

use crate::broker::Broker;

/// Sums since the broker started.
#[derive(Clone, Copy, Default)]
pub struct Reading {
    /// Allocations and growths of one.
    pub allocations: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// How often a shard's thread has slept and was woken.
    pub wake_ups: u64,
    /// The same for the kernel threads that carry out what a ring cannot do at once.
    pub worker_wake_ups: u64,
    /// Processor time of both.
    pub cpu_nanos: u64,
}

impl Reading {
    /// What was used from an earlier reading to this one.
    pub fn since(self, earlier: &Self) -> Self {
        Self {
            allocations: self.allocations - earlier.allocations,
            allocated_bytes: self.allocated_bytes - earlier.allocated_bytes,
            wake_ups: self.wake_ups - earlier.wake_ups,
            // Workers that were idle for long have ended, and their counts with them.
            worker_wake_ups: self.worker_wake_ups.saturating_sub(earlier.worker_wake_ups),
            cpu_nanos: self.cpu_nanos.saturating_sub(earlier.cpu_nanos),
        }
    }
}

/// Reads all of it. The thread that answers for the allocator is not counted.
pub fn read(broker: &mut Broker) -> Reading {
    let mut reading = Reading::default();
    (reading.allocations, reading.allocated_bytes) = broker.allocated();
    let tasks = format!("/proc/{}/task", broker.id());
    for task in fs::read_dir(tasks).expect("the broker runs").flatten() {
        let path = task.path();
        let name = text(&path, "comm");
        if name.starts_with("shard-") {
            reading.wake_ups += sleeps(&path);
        } else if name.starts_with("iou-") {
            reading.worker_wake_ups += sleeps(&path);
        } else {
            continue;
        }
        let schedule = text(&path, "schedstat");
        let ran = schedule.split(' ').next().map(str::parse::<u64>);
        reading.cpu_nanos += ran.and_then(Result::ok).unwrap_or(0);
    }
    reading
}

/// How often a task has given up its core to wait.
fn sleeps(task: &Path) -> u64 {
    let status = text(task, "status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

/// A file of procfs; empty when the task has just ended.
fn text(task: &Path, file: &str) -> String {
    fs::read_to_string(task.join(file)).unwrap_or_default()
}
