//! A producer's settings.

use std::time::Duration;

use wire::Compression;

use super::{Properties, Reader, cluster};
use crate::{ClusterConfig, Error};

/// Above this a broker's window of batches per producer does not reach.
const IDEMPOTENT_IN_FLIGHT_MAX: usize = 5;
const INT_MAX: i64 = i32::MAX as i64;

/// Who must have a record before it counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// Nobody: nothing is promised, offsets are unknown.
    None,
    /// The leader.
    Leader,
    /// Every in-sync replica.
    All,
}

impl Acks {
    /// As the protocol says it.
    pub fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// Settings of a producer, with the defaults of Kafka 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerConfig {
    /// What all clients have: among others `request.timeout.ms` and `retry.backoff.ms`.
    pub cluster: ClusterConfig,
    /// `acks`.
    pub acks: Acks,
    /// `batch.size`: bytes at which a batch is full.
    pub batch_size: usize,
    /// `linger.ms`: how long a batch that is not full waits for more records.
    pub linger: Duration,
    /// `buffer.memory`: bytes of records that may wait for brokers.
    pub buffer_memory: usize,
    /// `max.block.ms`: how long a send may wait for metadata and memory.
    pub max_block: Duration,
    /// `max.in.flight.requests.per.connection`.
    pub max_in_flight: usize,
    /// `max.request.size`: bytes of a request, and of a record before compression.
    pub max_request_size: usize,
    /// `retries`: how often a batch may be sent again.
    pub retries: u32,
    /// `delivery.timeout.ms`: when a record's fate is decided at the latest.
    pub delivery_timeout: Duration,
    /// `compression.type`.
    pub compression: Compression,
    /// `enable.idempotence`: each record once and in order, retries or not.
    pub enable_idempotence: bool,
    /// `partitioner.ignore.keys`: records with a key are spread like those without.
    pub partitioner_ignore_keys: bool,
}

impl ProducerConfig {
    /// The defaults, for the brokers of `bootstrap` (`host:port`, comma separated).
    pub fn to(bootstrap: &str) -> Self {
        Self {
            cluster: ClusterConfig::to(bootstrap),
            acks: Acks::All,
            batch_size: 16_384,
            linger: Duration::from_millis(5),
            buffer_memory: 32 << 20,
            max_block: Duration::from_secs(60),
            max_in_flight: 5,
            max_request_size: 1 << 20,
            retries: i32::MAX.unsigned_abs(),
            delivery_timeout: Duration::from_secs(120),
            compression: Compression::None,
            enable_idempotence: true,
            partitioner_ignore_keys: false,
        }
    }

    /// From properties by Kafka's names.
    ///
    /// # Errors
    /// With all that is unknown or wrong.
    pub fn from_properties(given: &Properties) -> Result<Self, Error> {
        let mut reader = Reader::new(given);
        let mut config = Self::read(&mut reader);
        // KIP-679: idempotence is the default, and gives way to what rules it out.
        if !reader.is_given("enable.idempotence") && !config.idempotence_faults().is_empty() {
            config.enable_idempotence = false;
        }
        for fault in config.faults() {
            reader.fault(fault);
        }
        reader.finish(config)
    }

    /// What is wrong with settings that do not fit each other.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.enable_idempotence {
            faults.extend(self.idempotence_faults());
        }
        let least = self.linger + self.cluster.request_timeout;
        if self.delivery_timeout < least {
            faults.push(format!(
                "delivery.timeout.ms: must be at least linger.ms + request.timeout.ms ({})",
                least.as_millis()
            ));
        }
        faults
    }

    fn idempotence_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.acks != Acks::All {
            faults.push("acks: enable.idempotence needs all".to_owned());
        }
        if self.retries == 0 {
            faults.push("retries: enable.idempotence needs at least 1".to_owned());
        }
        if self.max_in_flight > IDEMPOTENT_IN_FLIGHT_MAX {
            faults.push(format!(
                "max.in.flight.requests.per.connection: enable.idempotence allows \
                 {IDEMPOTENT_IN_FLIGHT_MAX} at most"
            ));
        }
        faults
    }

    fn read(reader: &mut Reader<'_>) -> Self {
        let default = Self::to("");
        let acks = [
            ("all", Acks::All),
            ("-1", Acks::All),
            ("1", Acks::Leader),
            ("0", Acks::None),
        ];
        let codecs = [
            ("none", Compression::None),
            ("gzip", Compression::Gzip),
            ("snappy", Compression::Snappy),
            ("lz4", Compression::Lz4),
            ("zstd", Compression::Zstd),
        ];
        let in_flight = "max.in.flight.requests.per.connection";
        let retries = reader.integer("retries", i64::from(default.retries), 0..=INT_MAX);
        let linger = reader.millis("linger.ms", default.linger, 0);
        let cluster = cluster::read(reader);
        // Kafka lets an unset delivery timeout grow with what it must cover.
        let delivery_timeout = default
            .delivery_timeout
            .max(linger + cluster.request_timeout);
        Self {
            cluster,
            acks: reader.choice("acks", default.acks, &acks),
            batch_size: reader.size("batch.size", default.batch_size, 0..=INT_MAX),
            linger,
            buffer_memory: reader.size("buffer.memory", default.buffer_memory, 0..=i64::MAX),
            max_block: reader.millis("max.block.ms", default.max_block, 0),
            max_in_flight: reader.size(in_flight, default.max_in_flight, 1..=INT_MAX),
            max_request_size: reader.size(
                "max.request.size",
                default.max_request_size,
                0..=INT_MAX,
            ),
            retries: u32::try_from(retries).unwrap_or(default.retries),
            delivery_timeout: reader.millis("delivery.timeout.ms", delivery_timeout, 0),
            compression: reader.choice("compression.type", default.compression, &codecs),
            enable_idempotence: reader.flag("enable.idempotence", default.enable_idempotence),
            partitioner_ignore_keys: reader.flag("partitioner.ignore.keys", false),
        }
    }
}
