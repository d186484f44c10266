//! What the members are told on their command line. Knows nothing of what they do.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// By which protocol the members speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// JoinGroup, SyncGroup, Heartbeat; one member shares out.
    Classic,
    /// ConsumerGroupHeartbeat (KIP-848); the coordinator shares out.
    Consumer,
}

/// Members of many groups, each on a connection of its own. SIGUSR1 begins and ends a storm, SIGUSR2 prints
/// the figures since the last line, SIGTERM ends it.
#[derive(Debug, Parser)]
pub struct Options {
    /// The broker.
    #[arg(long)]
    pub broker: SocketAddr,
    /// By which protocol the members speak.
    #[arg(long, value_enum)]
    pub protocol: Protocol,
    /// How many groups.
    #[arg(long, default_value_t = 1_000)]
    pub groups: usize,
    /// Members of each.
    #[arg(long, default_value_t = 10)]
    pub members: usize,
    /// Partitions of the topic that all groups read.
    #[arg(long, default_value_t = 10)]
    pub partitions: i32,
    /// The topic.
    #[arg(long, default_value = "groups")]
    pub topic: String,
    /// In a storm, milliseconds from one gust to the next.
    #[arg(long, default_value_t = 10)]
    pub gust_every_ms: u64,
    /// In how many groups a gust makes a member leave and join again.
    #[arg(long, default_value_t = 1)]
    pub gust_groups: usize,
    /// Ends by itself after so many seconds.
    #[arg(long, default_value_t = 600)]
    pub seconds_max: u64,
    /// What is random follows from it.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Options {
    /// A group's id.
    pub fn group(&self, number: usize) -> String {
        format!("group-{number}")
    }

    /// From one gust to the next.
    pub fn gust_every(&self) -> Duration {
        Duration::from_millis(self.gust_every_ms.max(1))
    }
}
