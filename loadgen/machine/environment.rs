//! The machine that a run was made on, as a reader of its result wants to know it.

use std::fs;
use std::thread;

use crate::results::Environment;

/// This machine.
pub fn environment() -> Environment {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let release = read("/proc/sys/kernel/osrelease");
    Environment {
        kernel: format!("Linux {}", release.trim()),
        cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
        cores: thread::available_parallelism().map_or(1, Into::into),
        memory_bytes: field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok())
            .map_or(0, |kib| kib * 1024),
        loadgen: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The first value of `name : value` lines.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_cores_and_memory() {
        let found = environment();
        assert!(found.kernel.len() > "Linux ".len());
        assert!(found.cores > 0 && found.memory_bytes > 0);
    }
}
