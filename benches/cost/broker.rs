//! A broker as a process of its own, with a counting allocator and a data directory that goes with
//! it. Knows nothing of what it is asked.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use client::direct::Connection;
use rustix::process::{Pid, Signal, kill_process};

use crate::address::free_address;

const START_MAX: Duration = Duration::from_secs(20);

/// A running broker; dropping it kills it and removes its data.
pub struct Broker {
    process: Child,
    says: BufReader<ChildStdout>,
    address: SocketAddr,
    data: PathBuf,
    /// The connection that showed that it answers: the first, so on the first shard.
    first: Option<Connection>,
}

impl Broker {
    /// Starts one beside this program's own file and waits until it answers.
    pub async fn start(shards: usize, environment: &[(&str, &str)]) -> Self {
        let program = std::env::current_exe().expect("this program's file");
        let directory = program.parent().expect("a directory");
        let data = directory.join(format!("cost-data-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&data);
        let address = free_address();
        let mut process = Command::new(directory.join("counted"))
            .arg("serve")
            .args(["--listen", &address.to_string()])
            .args(["--shards", &shards.to_string()])
            .arg("--data")
            .arg(&data)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the counted broker is built");
        let says = BufReader::new(process.stdout.take().expect("piped"));
        let mut broker = Self {
            process,
            says,
            address,
            data,
            first: None,
        };
        let begun = Instant::now();
        while broker.first.is_none() {
            assert!(begun.elapsed() < START_MAX, "the broker does not answer");
            tokio::time::sleep(Duration::from_millis(2)).await;
            broker.first = Connection::connect(address).await.ok();
        }
        broker
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// A connection; they go to the shards in turn.
    pub async fn connect(&mut self) -> Connection {
        match self.first.take() {
            Some(first) => first,
            None => Connection::connect(self.address).await.expect("connects"),
        }
    }

    /// Allocations so far, and their bytes.
    pub fn allocated(&mut self) -> (u64, u64) {
        let id = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("a process"), Signal::USR1).expect("it runs");
        let mut line = String::new();
        self.says.read_line(&mut line).expect("it answers");
        let (times, bytes) = line.trim().split_once(' ').expect("two numbers");
        let number = |text: &str| text.parse().expect("a number");
        (number(times), number(bytes))
    }

    /// The first segment of the only partition.
    pub fn first_segment(&self) -> PathBuf {
        let logs = std::fs::read_dir(self.data.join("logs")).expect("logs");
        let mut paths = logs.map(|log| log.expect("readable").path());
        let log = paths.next().expect("a log");
        log.join(Path::new("00000000000000000000.log"))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}
