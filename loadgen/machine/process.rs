//! CPU time and memory of a process, and CPU time of our own threads, as the kernel counts them.

use std::fs;
use std::io;
use std::time::Duration;

/// What a process has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// CPU time of all its threads, since it began.
    pub cpu: Duration,
    /// Its resident memory now, if it has memory of its own.
    pub rss_bytes: Option<u64>,
}

/// What the process of this id has used; `None` when there is no such process, or it may not be seen.
pub fn used(pid: u32) -> Option<Used> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = ticks(&stat)?;
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    let per_second = rustix::param::clock_ticks_per_second();
    Some(Used {
        cpu: Duration::from_secs_f64(ticks as f64 / per_second as f64),
        rss_bytes: Some(pages * rustix::param::page_size() as u64),
    })
}

/// User and system time in clock ticks: the 14th and 15th field, counted behind the name, which may hold
/// anything.
fn ticks(stat: &str) -> Option<u64> {
    let behind = &stat[stat.rfind(')')? + 1..];
    let mut fields = behind.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// CPU time of all threads that this process has or had.
pub fn own_cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

/// The id of the calling thread.
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// CPU time of a thread of this process.
///
/// # Errors
/// When there is no such thread.
pub fn thread_cpu(id: i32) -> io::Result<Duration> {
    let text = fs::read_to_string(format!("/proc/self/task/{id}/schedstat"))?;
    let ns = text
        .split_whitespace()
        .next()
        .and_then(|text| text.parse().ok());
    ns.map(Duration::from_nanos)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_strange_name_is_counted() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 30 12 13 14 15 16";
        assert_eq!(ticks(stat), Some(42));
    }

    #[test]
    fn this_process_uses_memory_and_this_thread_time() {
        let found = used(std::process::id()).expect("we run");
        assert!(found.rss_bytes > Some(100_000));
        assert!(own_cpu() > Duration::ZERO);
        let before = thread_cpu(thread_id()).expect("we run");
        let mut sum = 0_u64;
        while thread_cpu(thread_id()).expect("we run") == before {
            sum = sum.wrapping_add(std::hint::black_box(1));
        }
        assert!(sum > 0);
    }
}
