//! The broker as a process: started, measured from outside, stopped. Knows nothing of what it serves.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::Connection;

const START_MAX: Duration = Duration::from_secs(20);
/// What a stopping broker says before the number of its late turns.
const LATE_TURNS: &str = "turns later than 100 ms: ";

/// What the broker's process holds, and what it has used since its start.
#[derive(Clone, Debug)]
pub struct Usage {
    /// Resident memory.
    pub resident_kib: u64,
    /// Open file descriptors.
    pub descriptors: usize,
    /// Processor time, in clock ticks of 10 ms.
    pub cpu_ticks: u64,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "resident {} KiB, {} descriptors, {:.1} s of CPU",
            self.resident_kib,
            self.descriptors,
            self.cpu_ticks as f64 / 100.0,
        )
    }
}

/// A broker with two shards in a directory of its own.
pub struct Broker {
    process: Child,
    /// Where it listens.
    pub address: SocketAddr,
    data: PathBuf,
}

impl Broker {
    /// Starts one and waits until it answers.
    pub async fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = port.expect("a free port");
        let data = std::env::temp_dir().join(format!("corelog-soak-{}", std::process::id()));
        let process = Command::new(env!("CARGO_BIN_EXE_corelog"))
            .args(["serve", "--shards", "2", "--listen", &address.to_string()])
            .arg("--data")
            .arg(&data)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the broker starts");
        let mut broker = Self {
            process,
            address,
            data,
        };
        let begun = Instant::now();
        loop {
            if let Ok(mut connection) = Connection::connect(address).await
                && connection.api_versions().await.is_ok()
            {
                return broker;
            }
            broker.assert_alive();
            assert!(begun.elapsed() < START_MAX, "the broker does not answer");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Fails when the broker has ended by itself.
    pub fn assert_alive(&mut self) {
        let ended = self.process.try_wait().expect("a child");
        assert!(ended.is_none(), "the broker ended: {ended:?}");
    }

    /// What it holds and has used.
    pub fn usage(&self) -> Usage {
        let proc = PathBuf::from(format!("/proc/{}", self.process.id()));
        let status = std::fs::read_to_string(proc.join("status")).expect("it runs");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|it| it.split_whitespace().next());
        let stat = std::fs::read_to_string(proc.join("stat")).expect("it runs");
        // The fields after the name in parentheses: user and system time are the 12th and 13th.
        let fields = stat.rsplit(')').next().expect("fields");
        let ticks = fields.split_whitespace().skip(11).take(2);
        Usage {
            resident_kib: resident.and_then(|it| it.parse().ok()).expect("a number"),
            descriptors: std::fs::read_dir(proc.join("fd")).expect("it runs").count(),
            cpu_ticks: ticks.filter_map(|it| it.parse::<u64>().ok()).sum(),
        }
    }

    /// Stops it and returns how many turns of its shards were late.
    pub fn stop(mut self) -> u64 {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        assert!(
            sent.expect("kill runs").success(),
            "the broker had ended by itself"
        );
        let said = BufReader::new(self.process.stderr.take().expect("piped"));
        let lines = said.lines().map_while(Result::ok);
        let counts = lines.filter_map(|line| {
            let (_, count) = line.split_once(LATE_TURNS)?;
            count.parse().ok()
        });
        counts
            .last()
            .expect("a stopping broker says how many turns were late")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}
