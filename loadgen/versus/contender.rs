//! Starts corelog, or Apache Kafka as one node, on an empty directory at a guarantee, and waits until it
//! serves. Knows no load.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use client::{Cluster, ClusterConfig};

use super::child::Child;
use super::jars::Jars;
use super::trial::{Contender, Tier};

/// How long a broker may take to serve.
const START_WAIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);
/// The heaps of Kafka's own scripts, for brokers and for tools.
const BROKER_HEAP: &[&str] = &["-Xmx1G", "-Xms1G"];
const TOOL_HEAP: &[&str] = &["-Xmx256M"];
/// An id for clusters that live for minutes.
const CLUSTER_ID: &str = "corelogVersusCluster0A";

/// What both are started from.
#[derive(Clone, Debug)]
pub struct Programs {
    /// corelog's binary.
    pub corelog: PathBuf,
    /// Kafka's jars.
    pub kafka: Jars,
    /// Where brokers keep their data, one after the other; emptied before and after each.
    pub data: PathBuf,
    /// Where their words go.
    pub logs: PathBuf,
    /// The cores that brokers may use; all of ours when there are none.
    pub cores: Vec<usize>,
}

/// A broker that serves. It ends, and its data goes, with the handle.
#[derive(Debug)]
pub struct Broker {
    child: Option<Child>,
    data: PathBuf,
    /// Where it listens.
    pub address: String,
}

impl Broker {
    /// Its process id.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::pid)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // First the broker, then what it writes to.
        drop(self.child.take());
        let _ = fs::remove_dir_all(&self.data);
    }
}

impl Programs {
    /// Starts one of them.
    ///
    /// # Errors
    /// When it does not serve in time, in words that say where its log is.
    pub fn start(&self, contender: Contender, tier: Tier) -> Result<Broker, String> {
        let port = free_port().map_err(|error| format!("no port is free: {error}"))?;
        let name = format!("{}-{}.log", contender.name(), tier.name());
        let log = self.logs.join(name);
        let child = self.prepare().and_then(|()| {
            let mut command = match contender {
                Contender::Corelog => self.corelog(tier, port),
                Contender::Kafka => self.kafka(tier, port, &log)?,
            };
            Child::start(&mut command, &self.cores, &log)
        });
        let name = contender.name();
        let child = child.map_err(|error| format!("{name} cannot be started: {error}"))?;
        let mut broker = Broker {
            child: Some(child),
            data: self.data.clone(),
            address: format!("{}:{port}", Ipv4Addr::LOCALHOST),
        };
        broker.wait_until_it_serves(name)?;
        Ok(broker)
    }

    fn prepare(&self) -> io::Result<()> {
        let _ = fs::remove_dir_all(&self.data);
        fs::create_dir_all(&self.data)?;
        fs::create_dir_all(&self.logs)
    }

    /// With its defaults: a shard per core.
    fn corelog(&self, tier: Tier, port: u16) -> Command {
        let durability = match tier {
            Tier::Flushed => "flush",
            Tier::Written => "replicated",
        };
        let mut command = Command::new(&self.corelog);
        command.arg("serve").arg("--data").arg(&self.data);
        command.args(["--listen", &format!("{}:{port}", Ipv4Addr::LOCALHOST)]);
        command.env("CORELOG_KAFKA__LOG_DURABILITY", durability);
        command
    }

    fn kafka(&self, tier: Tier, port: u16, log: &Path) -> io::Result<Command> {
        let file = self.data.join("server.properties");
        fs::write(&file, properties(tier, port, free_port()?, &self.data))?;
        let mut format = self.kafka.java(TOOL_HEAP, "kafka.tools.StorageTool");
        format
            .args(["format", "--cluster-id", CLUSTER_ID, "-c"])
            .arg(&file);
        let formatted = Child::start(&mut format, &self.cores, log)?.wait()?;
        if !formatted.success() {
            let words = format!("its storage was not formatted, see {}", log.display());
            return Err(io::Error::other(words));
        }
        let mut command = self.kafka.java(BROKER_HEAP, "kafka.Kafka");
        command.arg(file);
        Ok(command)
    }
}

impl Broker {
    fn wait_until_it_serves(&mut self, name: &str) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let deadline = Instant::now() + START_WAIT;
        let child = self.child.as_mut().expect("it was just started");
        runtime.block_on(async {
            let cluster = Cluster::new(ClusterConfig::to(&self.address));
            loop {
                // A broker that is starting may listen, and not yet name itself as one.
                let metadata = tokio::time::timeout(START_WAIT, cluster.refresh()).await;
                if let Ok(Ok(metadata)) = metadata
                    && !metadata.brokers.is_empty()
                {
                    return Ok(());
                }
                let log = child.log().display().to_string();
                if let Ok(Some(status)) = child.ended() {
                    return Err(format!(
                        "{name} ended at its start ({status}); its log is {log}"
                    ));
                }
                if Instant::now() > deadline {
                    return Err(format!("{name} does not serve; its log is {log}"));
                }
                tokio::time::sleep(LOOK).await;
            }
        })
    }
}

/// One node that is broker and controller. The thread and buffer settings are those of the file that Kafka
/// ships; all else is its default, but for what the guarantee needs.
fn properties(tier: Tier, port: u16, controller_port: u16, data: &Path) -> String {
    let host = Ipv4Addr::LOCALHOST;
    let logs = data.join("logs").display().to_string();
    let voters = format!("1@{host}:{controller_port}");
    let listeners = format!("PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}");
    let mut properties = vec![
        ("process.roles", "broker,controller"),
        ("node.id", "1"),
        ("controller.quorum.voters", &voters),
        ("listeners", &listeners),
        ("controller.listener.names", "CONTROLLER"),
        ("log.dirs", &logs),
        ("num.network.threads", "3"),
        ("num.io.threads", "8"),
        ("socket.send.buffer.bytes", "102400"),
        ("socket.receive.buffer.bytes", "102400"),
        ("offsets.topic.replication.factor", "1"),
    ];
    if tier == Tier::Flushed {
        // Each append is flushed before it is answered. The default leaves flushing to the kernel.
        properties.push(("log.flush.interval.messages", "1"));
    }
    properties
        .iter()
        .fold(String::new(), |mut text, (key, value)| {
            // Writing to text does not fail.
            let _ = writeln!(text, "{key}={value}");
            text
        })
}

fn free_port() -> io::Result<u16> {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(probe.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kafka_flushes_each_append_in_the_flushed_tier_alone() {
        let of = |tier| properties(tier, 1, 2, Path::new("data"));
        let flushes = "log.flush.interval.messages=1\n";
        assert!(of(Tier::Flushed).ends_with(flushes));
        assert!(!of(Tier::Written).contains("log.flush"));
        assert!(of(Tier::Written).contains("log.dirs=data/logs\n"));
    }
}
