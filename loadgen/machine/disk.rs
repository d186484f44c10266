//! What a directory's disk is: its file system, and what a flush costs there. Knows nothing of brokers.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a flush is timed.
const PROBES: usize = 100;
/// What is appended before each.
const APPENDED: [u8; 4096] = [0; 4096];

/// The type of the file system that holds a directory: that of the longest mount point that its path
/// begins with.
pub fn file_system(directory: &Path) -> Option<String> {
    let directory = fs::canonicalize(directory).ok()?;
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let holding = mounts.filter(|(point, _)| directory.starts_with(point));
    let longest = holding.max_by_key(|(point, _)| point.len());
    longest.map(|(_, kind)| kind.to_owned())
}

/// The median time of appending 4 KiB and flushing it, as a broker without any preparation would.
///
/// # Errors
/// When the disk does not take it.
pub fn flush_time(directory: &Path) -> io::Result<Duration> {
    let path = directory.join("flush-probe");
    let mut file = File::create(&path)?;
    let mut times = Vec::with_capacity(PROBES);
    for _ in 0..PROBES {
        let begin = Instant::now();
        file.write_all(&APPENDED)?;
        file.sync_data()?;
        times.push(begin.elapsed());
    }
    fs::remove_file(path)?;
    times.sort_unstable();
    Ok(times[PROBES / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_a_file_system_and_a_flush_takes_time() {
        let directory = std::env::temp_dir();
        assert!(file_system(&directory).is_some());
        assert!(flush_time(&directory).expect("it can be written to") > Duration::ZERO);
    }
}
