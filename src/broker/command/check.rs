//! `corelog check`: what this machine is like for a broker, line by line, with what to do about it.
//! Changes nothing, and needs no broker.

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use reactor::probe::Probe;

use super::machine;
use crate::config::Settings;
use crate::start_error::Bytes;

/// A flush that takes longer than this decides how fast acknowledgements are.
const FLUSH_SLOW: Duration = Duration::from_millis(10);
/// Reading a good clock takes a fraction of this.
const CLOCK_SLOW: Duration = Duration::from_nanos(500);
/// 2024-01-01: no machine's clock is right and before it.
const WALL_CLOCK_LEAST: Duration = Duration::from_secs(1_704_067_200);

/// How well one thing is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As well as it can be.
    Ok,
    /// It works, and would be better so.
    Slow(String),
    /// Nothing works before this is done.
    CannotRun(String),
}

/// One line of the report.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was looked at.
    pub subject: &'static str,
    /// What was found.
    pub found: String,
    /// How well that is.
    pub verdict: Verdict,
}

/// Looks at everything. `settings` say which directory, how many shards, and how large their rings.
pub fn check(settings: &Settings) -> Vec<Finding> {
    let shards = settings.shard_count() as u64;
    // First of all, so that few open files are reported as such and not as a ring that failed.
    let open_files_had = machine::raise_open_files();
    let probe = reactor::probe::probe();
    let mut findings = vec![
        kernel(&probe),
        uring(&probe),
        locked_memory(&probe, shards, settings.shards.ring_entries),
        open_files(shards, open_files_had),
    ];
    for directory in &settings.data.dirs {
        findings.extend(disk(settings, directory));
    }
    findings.push(clock());
    findings.push(wall_clock());
    findings
}

/// Whether a broker can run here.
pub fn can_run(findings: &[Finding]) -> bool {
    let fatal = |finding: &Finding| matches!(finding.verdict, Verdict::CannotRun(_));
    !findings.iter().any(fatal)
}

fn kernel(probe: &Probe) -> Finding {
    let verdict = match machine::kernel_version(&probe.kernel) {
        Some(version) if version < machine::KERNEL_LEAST => {
            Verdict::CannotRun(machine::kernel_remedy(&probe.kernel))
        }
        _ if !probe.cachestat => Verdict::Slow(
            "boot 6.5 or newer, where it can be asked cheaply what is in the page cache".to_owned(),
        ),
        _ => Verdict::Ok,
    };
    Finding {
        subject: "kernel",
        found: format!("Linux {}", probe.kernel),
        verdict,
    }
}

fn uring(probe: &Probe) -> Finding {
    let (found, verdict) = match (&probe.io_uring, machine::missing_operations(probe)) {
        (Err(refusal), _) => ("none", Verdict::CannotRun(refusal.to_string())),
        (Ok(()), Some(remedy)) => ("some operations", Verdict::CannotRun(remedy)),
        (Ok(()), None) => ("a ring, and every operation that is used", Verdict::Ok),
    };
    Finding {
        subject: "io_uring",
        found: found.to_owned(),
        verdict,
    }
}

fn locked_memory(probe: &Probe, shards: u64, ring_entries: u32) -> Finding {
    let need = machine::locked_memory_need(shards, ring_entries);
    let remedy = "raise it with `ulimit -l`, or LimitMEMLOCK=infinity in a systemd unit";
    let verdict = if probe.memlock_suffices(need.total()) {
        Verdict::Ok
    } else if probe.memlock_suffices(need.rings) {
        Verdict::Slow(format!("no registered buffers; {remedy}"))
    } else {
        Verdict::CannotRun(format!("{remedy}, or run fewer shards with --shards"))
    };
    Finding {
        subject: "locked memory",
        found: machine::compare(probe.memlock_limit, need),
        verdict,
    }
}

fn open_files(shards: u64, had: u64) -> Finding {
    let need = machine::open_files_need(shards);
    let remedy = "raise it with `ulimit -n 65536`, or LimitNOFILE=65536 in a systemd unit";
    let verdict = if had >= machine::FILES_COMFORTABLE.max(need) {
        Verdict::Ok
    } else if had >= need {
        Verdict::Slow(format!("few connections and partitions fit; {remedy}"))
    } else {
        Verdict::CannotRun(remedy.to_owned())
    };
    Finding {
        subject: "open files",
        found: format!("{need} needed and those of connections and partitions, {had} had"),
        verdict,
    }
}

fn disk(settings: &Settings, wanted: &Path) -> Vec<Finding> {
    let directory = &machine::existing(wanted);
    let remedy = "choose a directory on a local ext4 or XFS with --data";
    let failed = |subject, error: std::io::Error| Finding {
        subject,
        found: format!("{}: {error}", directory.display()),
        verdict: Verdict::CannotRun(match error.kind() {
            std::io::ErrorKind::StorageFull => "free space there, or use --data".to_owned(),
            _ => "choose a directory that this user can write with --data".to_owned(),
        }),
    };
    let mut findings = Vec::new();
    findings.push(match machine::file_system(directory) {
        Err(error) => failed("file system", error),
        Ok(found) => {
            // A directory that is there has its log extents already.
            let need = machine::space_need(settings, !wanted.is_dir());
            let verdict = if found.free < need {
                Verdict::CannotRun(format!("free {} there, or use --data", Bytes(need)))
            } else if machine::is_volatile(&found.kind) {
                Verdict::Slow(format!("it is memory, and does not last; {remedy}"))
            } else if !["ext4", "xfs", "btrfs"].contains(&found.kind.as_str()) {
                Verdict::Slow(format!("not one that was measured; {remedy}"))
            } else {
                Verdict::Ok
            };
            Finding {
                subject: "file system",
                found: format!(
                    "{} at {}, {} free",
                    found.kind,
                    found.mount.display(),
                    Bytes(found.free)
                ),
                verdict,
            }
        }
    });
    findings.push(match reactor::probe::direct_io_alignment(directory) {
        Err(error) => failed("direct I/O", error),
        Ok(found) => direct_io(found, remedy),
    });
    findings.push(match reactor::probe::flush_cost(directory) {
        Err(error) => failed("disk flush", error),
        Ok(cost) => Finding {
            subject: "disk flush",
            found: format!("{:.2} ms for 4 KiB (median)", cost.as_secs_f64() * 1e3),
            verdict: match cost > FLUSH_SLOW {
                true => Verdict::Slow(
                    "acks=all waits this long; use a disk with power-loss protection".to_owned(),
                ),
                false => Verdict::Ok,
            },
        },
    });
    findings
}

fn direct_io(alignment: Option<u32>, remedy: &str) -> Finding {
    let (found, verdict) = match alignment {
        Some(bytes) if bytes <= 4096 => (format!("works, aligned to {bytes} bytes"), Verdict::Ok),
        Some(bytes) => (
            format!("wants blocks of {bytes} bytes"),
            Verdict::Slow(format!("blocks of 4096 are used; {remedy}")),
        ),
        None => (
            "none".to_owned(),
            Verdict::Slow(format!("writes go through the page cache; {remedy}")),
        ),
    };
    let subject = "direct I/O";
    Finding {
        subject,
        found,
        verdict,
    }
}

fn clock() -> Finding {
    let source = machine::clock_source().unwrap_or_else(|| "unknown source".to_owned());
    let cost = machine::clock_cost();
    Finding {
        subject: "clock",
        found: format!("{source}, {} ns a reading", cost.as_nanos()),
        verdict: match cost > CLOCK_SLOW {
            true => Verdict::Slow(
                "each request reads it; boot with clocksource=tsc if the processor has a steady one"
                    .to_owned(),
            ),
            false => Verdict::Ok,
        },
    }
}

fn wall_clock() -> Finding {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    Finding {
        subject: "time of day",
        found: format!("{} s since 1970", since.as_secs()),
        verdict: match since < WALL_CLOCK_LEAST {
            true => Verdict::Slow(
                "it is wrong, and records would be dated by it; run an NTP client".to_owned(),
            ),
            false => Verdict::Ok,
        },
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subject,
            found,
            verdict,
        } = self;
        write!(out, "{subject:<14} {found:<58} ")?;
        match verdict {
            Verdict::Ok => write!(out, "ok"),
            Verdict::Slow(remedy) => write!(out, "slow: {remedy}"),
            Verdict::CannotRun(remedy) => write!(out, "cannot run: {remedy}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_of_the_promise_is_reported() {
        let mut settings = Settings::defaults();
        let nothing = std::env::temp_dir().join("corelog-check-of-nothing/there");
        settings.data.dirs = vec![nothing.clone()];
        let findings = check(&settings);
        let subjects: Vec<&str> = findings.iter().map(|finding| finding.subject).collect();
        let wanted = [
            "kernel",
            "io_uring",
            "locked memory",
            "open files",
            "file system",
            "direct I/O",
            "disk flush",
            "clock",
            "time of day",
        ];
        assert_eq!(subjects, wanted);
        assert!(!nothing.exists(), "a check makes nothing");
    }

    #[test]
    fn one_finding_that_cannot_run_decides_and_shows_its_remedy() {
        let finding = |verdict| Finding {
            subject: "kernel",
            found: "5.4".to_owned(),
            verdict,
        };
        let slow = finding(Verdict::Slow("wait".into()));
        let fatal = finding(Verdict::CannotRun("boot another".into()));
        assert!(can_run(&[slow.clone(), finding(Verdict::Ok)]));
        assert!(!can_run(&[slow.clone(), fatal.clone()]));
        assert!(slow.to_string().ends_with("slow: wait"));
        assert!(fatal.to_string().ends_with("cannot run: boot another"));
    }

    #[test]
    fn refused_direct_io_is_slow_and_not_fatal() {
        let finding = direct_io(None, "move");
        assert!(matches!(finding.verdict, Verdict::Slow(_)));
    }
}
