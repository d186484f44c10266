//! What a run sends and reads: the settings of a workload in their typed form. Knows nothing of where
//! they were written (see `layers`) and nothing of how they are carried out.

pub mod fault;
pub mod keys;
pub mod layers;
pub mod named;
pub mod openmessaging;
pub mod payload;
pub mod quantity;
pub mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use keys::KeyChoice;
use payload::SizeChoice;

/// Kafka configs by Kafka's names.
pub type Configs = BTreeMap<String, String>;

/// A workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// One line for people.
    pub description: String,
    /// What all that is drawn is drawn from.
    pub seed: u64,

    /// What the topics' names begin with.
    pub topic_prefix: String,
    /// How many topics.
    pub topics: u32,
    /// How many partitions each topic has.
    pub partitions: i32,
    /// The replication factor; -1 for the broker's default.
    pub replication_factor: i16,
    /// The topics' configs.
    pub topic_config: Configs,
    /// Whether the topics stay when the run is over.
    pub keep_topics: bool,

    /// How many producers.
    pub producers: u32,
    /// Whose acknowledgement is waited for.
    pub acks: Acks,
    /// `compression.type`.
    pub compression: String,
    /// The producers' further configs.
    pub producer_config: Configs,
    /// How large values are.
    pub payload_size: SizeChoice,
    /// How much of them a compressor can remove, between 0 and 1.
    pub compressibility: f64,
    /// Which keys records have.
    pub keys: KeyChoice,
    /// Records per second of all producers together; `None` sends as fast as acknowledgements come
    /// (closed loop).
    pub rate: Option<f64>,
    /// When records are due.
    pub arrivals: Arrivals,
    /// In a closed loop: how many records of each producer may be unacknowledged.
    pub in_flight: u32,

    /// How many groups read everything.
    pub groups: u32,
    /// How many consumers each group has; its partitions are dealt out among them.
    pub consumers: u32,
    /// Who deals them out.
    pub group_protocol: GroupProtocol,
    /// The consumers' further configs.
    pub consumer_config: Configs,
    /// How much is produced before consumers start; 0 for consumers that follow.
    pub backlog_bytes: u64,

    /// How long the part before the measured one is.
    pub warm_up: Duration,
    /// How long is measured.
    pub duration: Duration,
    /// How long acknowledgements and consumers are waited for at the end.
    pub drain: Duration,
    /// How many threads; 0 for one per core.
    pub threads: u32,
}

/// A producer's `acks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// Nobody's.
    None,
    /// The leader's.
    Leader,
    /// Every in-sync replica's.
    All,
}

/// How the consumers of a group share the partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// The generator deals them out, the same on any broker: nothing joins, commits or rebalances.
    None,
    /// The broker's coordinator does, by JoinGroup and SyncGroup; offsets are committed.
    Classic,
}

/// When records are due, in an open loop. The rate is the workload's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// At equal distances.
    Constant,
    /// At random, independently of each other.
    Poisson,
    /// At a rate that grows evenly over the measured time, from this one.
    Ramp { from: f64 },
    /// At equal distances, and every `every`, for `length`, at another rate.
    Spike {
        rate: f64,
        every: Duration,
        length: Duration,
    },
}

impl Acks {
    /// As Kafka writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "0",
            Self::Leader => "1",
            Self::All => "all",
        }
    }
}

impl Workload {
    /// The names of a run's topics: new ones for each run.
    pub fn topic_names(&self, run: u64) -> Vec<String> {
        let name = |topic| format!("{}-{run:016x}-{topic}", self.topic_prefix);
        (0..self.topics).map(name).collect()
    }

    /// Whether producers compress their batches.
    pub fn is_compressed(&self) -> bool {
        self.compression != "none"
    }

    /// How many groups read everything: none without consumers.
    pub fn reading_groups(&self) -> u64 {
        match self.consumers {
            0 => 0,
            _ => u64::from(self.groups),
        }
    }

    /// Whether the generator waits for acknowledgements before it sends more.
    pub fn is_closed_loop(&self) -> bool {
        self.rate.is_none()
    }
}
