//! A program that runs while its handle lives, on chosen cores, with its output in a file. Knows nothing of
//! what it does.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How long a program may take to end when it is asked to.
const STOP_WAIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// A running program.
#[derive(Debug)]
pub struct Child {
    process: Process,
    log: PathBuf,
}

impl Child {
    /// Starts a program. It may use `cores`, or all that this process may when there are none.
    ///
    /// # Errors
    /// When it cannot be started, or the file not be written.
    pub fn start(command: &mut Command, cores: &[usize], log: &Path) -> io::Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        Ok(Self {
            process: on_cores(cores, || command.spawn())?,
            log: log.to_owned(),
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Where its output is.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait()
    }
}

/// Whatever happens, it does not outlive us: it is asked to end, and made to when it does not.
impl Drop for Child {
    fn drop(&mut self) {
        let pid = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw);
        let deadline = Instant::now() + STOP_WAIT;
        if let (Ok(None), Some(pid)) = (self.process.try_wait(), pid) {
            // It may have ended just now.
            let _ = kill_process(pid, Signal::TERM);
        }
        while let Ok(None) = self.process.try_wait() {
            if Instant::now() > deadline {
                let _ = self.process.kill();
                let _ = self.process.wait();
                return;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Programs inherit the cores of the thread that starts them.
fn on_cores<T>(cores: &[usize], start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if cores.is_empty() {
        return start();
    }
    let mut wanted = CpuSet::new();
    for core in cores.iter().filter(|core| **core < CpuSet::MAX_CPU) {
        wanted.set(*core);
    }
    let ours = sched_getaffinity(None)?;
    sched_setaffinity(None, &wanted)?;
    let started = start();
    sched_setaffinity(None, &ours)?;
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_ends_with_its_handle_and_its_words_are_kept() {
        let log = std::env::temp_dir().join(format!("loadgen-child-{}", std::process::id()));
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "trap 'echo asked; exit' TERM; echo up; while :; do sleep 0.01; done",
        ]);
        let mut child = Child::start(&mut shell, &[0], &log).expect("started");
        let pid = i32::try_from(child.pid()).ok().and_then(Pid::from_raw);
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        while said() != "up\n" {
            assert!(child.ended().expect("known").is_none());
            thread::yield_now();
        }
        drop(child);
        assert_eq!(said(), "up\nasked\n");
        assert!(kill_process(pid.expect("a pid"), Signal::TERM).is_err());
        std::fs::remove_file(log).expect("removed");
    }
}
