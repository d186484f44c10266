//! A broker as a process: started on a free port, waited for, looked at through /proc, ended. Knows the
//! program's flags and nothing of what a test asks it.
#![allow(dead_code, reason = "each test needs some of it")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::direct::Connection;

#[path = "address.rs"]
mod address;
#[path = "filling.rs"]
pub mod filling;

use address::free_address;

/// How long a broker may take until its first answer, on any machine and under any load.
pub const START_MAX: Duration = Duration::from_secs(20);
/// How long one answer may take while a broker starts.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// A running broker. Killed with its owner; its data stays.
pub struct Broker {
    process: Child,
    /// Reads what it says, if anybody wants to hear it.
    hearing: Option<JoinHandle<String>>,
    /// Where it listens.
    pub address: SocketAddr,
    /// From the start of the process to its first answer.
    pub answered_after: Duration,
}

impl Broker {
    /// Starts a broker with its default settings and waits until it answers.
    pub async fn start(data: &Path, shards: usize) -> Self {
        Self::start_with(data, shards, &[]).await
    }

    /// Likewise, with settings by their names in the environment.
    pub async fn start_with(data: &Path, shards: usize, settings: &[(&str, &str)]) -> Self {
        Self::launch(data, shards, settings, Stdio::null()).await
    }

    /// Starts one whose words are printed as it says them; [`Broker::terminate_heard`] gives them all.
    pub async fn start_heard(data: &Path, shards: usize) -> Self {
        Self::launch(data, shards, &[], Stdio::piped()).await
    }

    async fn launch(data: &Path, shards: usize, settings: &[(&str, &str)], stderr: Stdio) -> Self {
        let address = free_address();
        let begun = Instant::now();
        let mut process = Command::new(env!("CARGO_BIN_EXE_corelog"))
            .args(["serve", "--listen", &address.to_string()])
            .args(["--shards", &shards.to_string()])
            .arg("--data")
            .arg(data)
            .envs(settings.iter().copied())
            .stderr(stderr)
            .spawn()
            .expect("the broker starts");
        let stderr = process.stderr.take();
        let mut broker = Self {
            process,
            hearing: stderr.map(|stderr| std::thread::spawn(|| hear(stderr))),
            address,
            answered_after: Duration::ZERO,
        };
        while !answers(address).await {
            broker.assert_alive();
            assert!(begun.elapsed() < START_MAX, "the broker does not answer");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        broker.answered_after = begun.elapsed();
        broker
    }

    /// Ends the test when the broker has ended.
    pub fn assert_alive(&mut self) {
        let ended = self.process.try_wait().expect("a child");
        assert!(ended.is_none(), "the broker ended: {ended:?}");
    }

    /// Ends it as `kill -9` does.
    pub fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// Ends it by SIGTERM, which must be a success; returns how long that took.
    pub fn terminate(mut self) -> Duration {
        self.end_by_signal()
    }

    /// Likewise; returns all that it has said.
    pub fn terminate_heard(mut self) -> String {
        self.end_by_signal();
        let hearing = self.hearing.take();
        let hearing = hearing.expect("it was heard from its start");
        hearing.join().expect("it spoke text")
    }

    fn end_by_signal(&mut self) -> Duration {
        let begun = Instant::now();
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        assert!(
            sent.expect("kill runs").success(),
            "the broker had ended by itself"
        );
        let status = self.process.wait().expect("it ends");
        assert!(
            status.success(),
            "a stop by SIGTERM is no failure: {status}"
        );
        begun.elapsed()
    }

    /// Resident memory in KiB.
    pub fn resident_kib(&self) -> u64 {
        field(&self.proc("status"), "VmRSS:")
    }

    /// Bytes that it has read: by calls, from memory or disk, and from the disk, by whatever way.
    pub fn bytes_read(&self) -> (u64, u64) {
        let io = self.proc("io");
        (field(&io, "rchar:"), field(&io, "read_bytes:"))
    }

    /// Open file descriptors.
    pub fn open_files(&self) -> usize {
        let open = fs::read_dir(self.proc_path("fd"));
        open.expect("it runs").count()
    }

    /// Lets it have only so many descriptors open from now on.
    pub fn limit_open_files(&self, files: u64) {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let pid = Pid::from_child(&self.process);
        let limit = Rlimit {
            current: Some(files),
            maximum: Some(files),
        };
        prlimit(Some(pid), Resource::Nofile, limit).expect("a limit of one's own child");
    }

    /// Processor time that all of its threads have used, the kernel's workers for it included.
    pub fn processor_time(&self) -> Duration {
        let threads = fs::read_dir(self.proc_path("task")).expect("it runs");
        let used = threads.map(|thread| {
            let path = thread.expect("it runs").path().join("schedstat");
            // A thread may end in between.
            let line = fs::read_to_string(path).unwrap_or_default();
            let nanos = line
                .split_whitespace()
                .next()
                .and_then(|it| it.parse().ok());
            Duration::from_nanos(nanos.unwrap_or(0))
        });
        used.sum()
    }

    fn proc(&self, name: &str) -> String {
        fs::read_to_string(self.proc_path(name)).expect("it runs")
    }

    fn proc_path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.process.id()))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether a new client gets its first answer in time.
pub async fn answers(address: SocketAddr) -> bool {
    let asked = tokio::time::timeout(ANSWER_MAX, async {
        let mut connection = Connection::connect(address).await.ok()?;
        connection.api_versions().await.ok()
    });
    matches!(asked.await, Ok(Some(_)))
}

/// Prints each line when it comes; returns them all.
fn hear(stderr: ChildStderr) -> String {
    let mut said = String::new();
    for line in BufReader::new(stderr).lines() {
        let line = line.expect("text");
        println!("broker: {line}");
        said.push_str(&line);
        said.push('\n');
    }
    said
}

/// The number behind a name in a file of /proc.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|it| it.parse().ok())
        .expect("/proc has the number")
}

/// A data directory that vanishes with its owner, unless the test fails: then it is kept to be looked at.
pub struct DataDir(PathBuf);

impl DataDir {
    /// One that no other test has.
    pub fn new(name: &str) -> Self {
        let name = format!("corelog-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl std::ops::Deref for DataDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the broker's data is kept in {}", self.0.display());
        } else {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// A number from the environment.
pub fn number<T: std::str::FromStr>(name: &str, default: T) -> T {
    let given = std::env::var(name).ok();
    given.and_then(|it| it.parse().ok()).unwrap_or(default)
}

/// Raises this process's limit on open files, and that of brokers started from now on, as far as
/// allowed; returns it.
pub fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("a limit may be raised to its maximum");
    limit.maximum.unwrap_or(u64::MAX)
}
