//! What the broker says when it is ready: what it is, where, on what, and what to try next. Shows
//! what it is given, and finds out nothing.

use std::fmt;
use std::net::SocketAddr;

use super::machine::{Disk, Machine, Volume};
use crate::config::{HostPort, Settings};
use crate::data_dir::Identity;
use crate::start_error::Bytes;

/// All that a start says.
#[derive(Clone, Debug)]
pub struct Banner {
    /// This program's version.
    pub version: &'static str,
    /// Where it listens; the port is the real one when 0 was asked for.
    pub listen: SocketAddr,
    /// What clients are told; none for the address that each connected to.
    pub advertise: Option<HostPort>,
    /// The data directories as they are set.
    pub data: String,
    /// Whose they are.
    pub identity: Identity,
    /// Shards that run.
    pub shards: usize,
    /// The machine they run on.
    pub machine: Machine,
    /// `log.durability`: what acks=all means for topics that do not say otherwise.
    pub durability: String,
    /// What was found on disk and how long that took, in words.
    pub recovery: String,
}

impl Banner {
    /// Of a broker that is about to answer on `listen`.
    pub fn new(
        settings: &Settings,
        identity: &Identity,
        machine: Machine,
        listen: SocketAddr,
        recovery: String,
    ) -> Self {
        let durability = settings.kafka.get("log.durability");
        Self {
            version: env!("CARGO_PKG_VERSION"),
            listen,
            advertise: settings.listener.advertise.clone(),
            data: settings.data.listed(),
            identity: identity.clone(),
            shards: settings.shard_count(),
            machine,
            durability: durability.map_or("flush", String::as_str).to_owned(),
            recovery,
        }
    }

    /// An address that a client on this machine can connect to.
    fn local(&self) -> SocketAddr {
        let mut address = self.listen;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        address
    }
}

impl fmt::Display for Banner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        let advertised = match &self.advertise {
            Some(address) => address.to_string(),
            None => "the address each client connected to".to_owned(),
        };
        let direct = direct_io(&machine.disks);
        let buffers = if machine.registered_buffers {
            "on"
        } else {
            "off"
        };
        let meaning = match self.durability.as_str() {
            "flush" => "acks=all is answered when written and flushed",
            _ => "acks=all is answered when written; a flush follows within 100 ms",
        };
        writeln!(out, "corelog {}", self.version)?;
        writeln!(out, "  listener    {}", self.listen)?;
        writeln!(out, "  advertised  {advertised}")?;
        for disk in &machine.disks {
            writeln!(out, "  data        {}", told(disk))?;
        }
        let identity = &self.identity;
        let (node, cluster) = (identity.node_id, &identity.cluster_id);
        writeln!(out, "  identity    node {node} of cluster {cluster}")?;
        writeln!(out, "  shards      {}", self.shards)?;
        writeln!(out, "  io_uring    on, Linux {}", machine.kernel)?;
        writeln!(out, "  direct I/O  {direct}; registered buffers {buffers}")?;
        writeln!(out, "  durability  {}: {meaning}", self.durability)?;
        writeln!(out, "  recovery    {}", self.recovery)?;
        for warning in &machine.warnings {
            writeln!(out, "  warning     {warning}")?;
        }
        let local = self.local();
        writeln!(out, "try next:")?;
        writeln!(out, "  echo hello | kcat -P -b {local} -t first")?;
        writeln!(out, "  kcat -C -b {local} -t first -o beginning -e")?;
        writeln!(out, "  corelog check --data {}", self.data)
    }
}

fn told(disk: &Disk) -> String {
    let directory = disk.directory.display();
    match &disk.found {
        Ok(Volume { file_system, .. }) => {
            let (kind, free) = (&file_system.kind, Bytes(file_system.free));
            format!("{directory}: {kind}, {free} free")
        }
        Err(_) => format!("{directory}: offline"),
    }
}

/// How all data directories are written to.
fn direct_io(disks: &[Disk]) -> String {
    let online = disks.iter().filter_map(|disk| disk.found.as_ref().ok());
    let blocks = online.map(|volume| volume.direct_io);
    // The largest block; and none at all is worse.
    match blocks.min_by_key(|bytes| bytes.map(std::cmp::Reverse)) {
        Some(Some(bytes)) => format!("on, blocks of {bytes} bytes"),
        _ if disks.len() > 1 => "off: a file system of these has none".to_owned(),
        _ => "off: this file system has none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::machine::FileSystem;

    fn disk(directory: &str, direct_io: Option<u32>) -> Disk {
        let file_system = FileSystem {
            kind: "ext4".into(),
            mount: "/".into(),
            free: 3 << 30,
        };
        let directory = directory.into();
        let found = Ok(Volume {
            file_system,
            direct_io,
        });
        Disk { directory, found }
    }

    fn banner() -> Banner {
        Banner {
            version: "1.2.3",
            listen: SocketAddr::from(([0, 0, 0, 0], 9092)),
            advertise: None,
            data: "./corelog-data".into(),
            identity: Identity {
                cluster_id: "AAECAwQFBgcICQoLDA0ODw".into(),
                node_id: 1,
                directory_id: String::new(),
            },
            shards: 2,
            machine: Machine {
                kernel: "6.18.1".into(),
                disks: vec![disk("./corelog-data", Some(512))],
                registered_buffers: true,
                open_files: 65_536,
                warnings: vec!["beware".into()],
            },
            durability: "flush".into(),
            recovery: "nothing to recover".into(),
        }
    }

    #[test]
    fn it_says_all_that_is_promised() {
        let wanted = "corelog 1.2.3\n  listener    0.0.0.0:9092\n  \
            advertised  the address each client connected to\n  \
            data        ./corelog-data: ext4, 3 GiB free\n  \
            identity    node 1 of cluster AAECAwQFBgcICQoLDA0ODw\n  shards      2\n  \
            io_uring    on, Linux 6.18.1\n  \
            direct I/O  on, blocks of 512 bytes; registered buffers on\n  \
            durability  flush: acks=all is answered when written and flushed\n  \
            recovery    nothing to recover\n  warning     beware\ntry next:\n  \
            echo hello | kcat -P -b 127.0.0.1:9092 -t first\n  \
            kcat -C -b 127.0.0.1:9092 -t first -o beginning -e\n  \
            corelog check --data ./corelog-data\n";
        assert_eq!(banner().to_string(), wanted);
    }

    #[test]
    fn what_is_off_is_said_to_be_off() {
        let mut banner = banner();
        banner.machine.disks = vec![disk("a", None)];
        banner.machine.registered_buffers = false;
        banner.advertise = HostPort::parse("kafka.example:9").ok();
        let text = banner.to_string();
        assert!(text.contains("off: this file system has none; registered buffers off"));
        assert!(text.contains("advertised  kafka.example:9\n"));
    }

    #[test]
    fn every_data_directory_has_its_line_and_an_offline_one_says_so() {
        let mut banner = banner();
        banner.data = "a,b,c".into();
        let offline = Disk {
            directory: "c".into(),
            found: Err("no such device".into()),
        };
        banner.machine.disks = vec![disk("a", Some(512)), disk("b", Some(4096)), offline];
        let text = banner.to_string();
        assert!(text.contains("  data        a: ext4, 3 GiB free\n  data        b: ext4"));
        assert!(text.contains("  data        c: offline\n"));
        assert!(text.contains("direct I/O  on, blocks of 4096 bytes;"));
        assert!(text.contains("corelog check --data a,b,c\n"));
        banner.machine.disks.push(disk("d", None));
        assert!(
            banner
                .to_string()
                .contains("direct I/O  off: a file system of these")
        );
    }
}
