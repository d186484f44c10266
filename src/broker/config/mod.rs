//! The broker's settings: compiled-in defaults, then a file, the environment and flags over them.
//! Knows what each setting may hold, and nothing of what the broker does with it.

pub mod fault;
pub mod layers;
pub mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

pub use fault::{Fault, Faults, Origin};
pub use layers::{Effective, Flag, Sources};

/// `config/corelog.toml`: every setting with its default, unit and reason.
pub const DEFAULTS: &str = include_str!("../../../config/corelog.toml");

/// What the broker runs by. `config/corelog.toml` says what each field means and why it has the
/// default that it has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Who this broker is.
    pub broker: BrokerSettings,
    /// Where clients connect.
    pub listener: ListenerSettings,
    /// How many cores it uses, and how.
    pub shards: ShardSettings,
    /// Where it keeps things.
    pub data: DataSettings,
    /// Each shard's write-ahead log.
    pub wal: WalSettings,
    /// Each shard's memory for records, and the disk's reserve.
    pub storage: StorageSettings,
    /// When old records are looked for.
    pub retention: RetentionSettings,
    /// What compaction may use.
    pub cleaner: CleanerSettings,
    /// Limits on what clients send.
    pub network: NetworkSettings,
    /// Limits on what they are sent.
    pub fetch: FetchSettings,
    /// Topics that do not say otherwise.
    pub topics: TopicSettings,
    /// Consumer groups.
    pub groups: GroupSettings,
    /// What groups have committed.
    pub offsets: OffsetSettings,
    /// Defaults of topic configs by the broker's names for them; only those that somebody has set.
    pub kafka: BTreeMap<String, String>,
}

/// `[broker]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerSettings {
    /// Kafka's `node.id`; not negative.
    pub node_id: i32,
    /// Kafka's `broker.rack`; empty when it has none.
    pub rack: String,
}

/// `[listener]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerSettings {
    /// The address to listen on.
    #[serde(deserialize_with = "listen_address")]
    pub listen: SocketAddr,
    /// The address that clients are told; none means the one that each connected to.
    #[serde(deserialize_with = "advertised_address")]
    pub advertise: Option<HostPort>,
}

/// A host, by name or number, and a port, as clients are told them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The host, without brackets.
    pub host: String,
    /// The port, not 0.
    pub port: u16,
}

/// `[shards]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardSettings {
    /// How many; 0 for one per core. [`Settings::shard_count`] resolves it.
    pub count: u16,
    /// Microseconds of looking for work before sleeping.
    pub spin_before_park_us: u64,
    /// Submissions that fit into a ring at once; a power of two.
    pub ring_entries: u32,
}

/// `[data]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSettings {
    /// The data directories; the first one holds the metadata.
    #[serde(rename = "dir", deserialize_with = "directories")]
    pub dirs: Vec<PathBuf>,
}

/// `[wal]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalSettings {
    /// Bytes of one extent; a multiple of 4096.
    pub extent_bytes: u64,
    /// Bytes kept per shard, at most; at least two extents.
    pub bytes_max: u64,
    /// Bytes of records gathered into one commit.
    pub commit_bytes_max: usize,
    /// Queued bytes of one partition from which on they may go straight to its segment.
    pub bypass_bytes_min: usize,
    /// Bytes waiting for the disk from which on produce requests wait.
    pub backlog_bytes_max: usize,
}

/// `[storage]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageSettings {
    /// Bytes of memory per shard for the newest records.
    pub tail_cache_bytes: usize,
    /// Free bytes on the disk below which produce is refused; 0 for never.
    pub disk_reserve_bytes: u64,
}

/// `[retention]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionSettings {
    /// Milliseconds between two looks at which segments may go.
    pub check_interval_ms: u64,
}

/// `[cleaner]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CleanerSettings {
    /// Bytes of memory for keys, over all shards.
    pub dedupe_buffer_bytes: usize,
    /// Bytes read and written a second, over all shards.
    pub io_bytes_per_second_max: u64,
    /// Milliseconds between two looks when nothing is to be cleaned.
    pub backoff_ms: u64,
}

/// `[network]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSettings {
    /// The largest request, in bytes.
    pub socket_request_max_bytes: usize,
    /// Bytes of memory per shard for requests; at least `socket_request_max_bytes`.
    pub request_memory_bytes: usize,
    /// Bytes of records per shard in replies that are not sent yet.
    pub reply_memory_bytes: usize,
    /// Milliseconds for a connection's first request to be there.
    pub first_frame_wait_ms: u64,
    /// Milliseconds for a request, once begun, to be complete.
    pub frame_wait_ms: u64,
    /// Milliseconds that a connection may be idle.
    pub connections_max_idle_ms: u64,
    /// Connections at once.
    pub max_connections: usize,
    /// Connections at once from one address.
    pub max_connections_per_ip: usize,
    /// Milliseconds that a stopping broker waits for replies it owes.
    pub drain_wait_ms: u64,
}

/// `[fetch]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FetchSettings {
    /// Bytes of one response, at most.
    pub max_bytes: usize,
    /// Incremental fetch sessions per shard.
    pub sessions_max: usize,
}

/// `[topics]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicSettings {
    /// Partitions of a topic created without a number.
    pub num_partitions: i32,
    /// Whether asking for an unknown topic may create it.
    pub auto_create_topics_enable: bool,
    /// Whether topics can be deleted.
    pub delete_topic_enable: bool,
    /// Partitions over all topics.
    pub partitions_max: usize,
}

/// `[groups]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSettings {
    /// Milliseconds that an empty group waits for more members.
    pub initial_rebalance_delay_ms: u64,
    /// Milliseconds of the shortest session.
    pub min_session_timeout_ms: i32,
    /// Milliseconds of the longest session.
    pub max_session_timeout_ms: i32,
    /// Members of one group.
    pub max_size: usize,
    /// Bytes of memory per shard for groups.
    pub memory_bytes: usize,
    /// Milliseconds of silence after which a consumer by the new protocol counts as gone.
    pub consumer_session_timeout_ms: i32,
    /// Milliseconds after which it is to be heard again.
    pub consumer_heartbeat_interval_ms: i32,
    /// Milliseconds before which a group's partitions are not shared out again.
    pub consumer_assignment_interval_ms: i32,
    /// Milliseconds of the shortest session timeout that a group may have of its own.
    pub consumer_min_session_timeout_ms: i32,
    /// Milliseconds of the longest session timeout that a group may have of its own.
    pub consumer_max_session_timeout_ms: i32,
    /// Milliseconds of the shortest heartbeat interval that a group may have of its own.
    pub consumer_min_heartbeat_interval_ms: i32,
    /// Milliseconds of the longest heartbeat interval that a group may have of its own.
    pub consumer_max_heartbeat_interval_ms: i32,
    /// Milliseconds of the shortest assignment interval that a group may have of its own.
    pub consumer_min_assignment_interval_ms: i32,
    /// Milliseconds of the longest assignment interval that a group may have of its own.
    pub consumer_max_assignment_interval_ms: i32,
    /// Consumers of one group.
    pub consumer_max_size: usize,
    /// The assignors that consumers may ask for, the first of them for those that do not ask.
    pub consumer_assignors: String,
    /// Which way a group that has members may change its protocol.
    pub consumer_migration_policy: String,
}

/// `[offsets]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OffsetSettings {
    /// Partitions of the topic that holds them.
    pub topic_num_partitions: i32,
    /// Bytes of one segment of it.
    pub topic_segment_bytes: u32,
    /// Minutes that they are kept.
    pub retention_minutes: i32,
    /// Milliseconds between two looks for expired ones.
    pub retention_check_interval_ms: u64,
    /// Bytes that may be remembered beside one.
    pub metadata_max_bytes: usize,
}

impl Settings {
    /// The compiled-in defaults.
    pub fn defaults() -> Self {
        let effective = Effective::load(&Sources::default());
        let settings = effective.and_then(|effective| effective.settings());
        settings.unwrap_or_else(|faults| panic!("the compiled-in defaults are wrong: {faults}"))
    }

    /// How many shards to run: as many as set, or one per core.
    pub fn shard_count(&self) -> usize {
        match usize::from(self.shards.count) {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        }
    }

    /// Of [`Settings::statics`], those about groups.
    fn group_statics(&self) -> impl Iterator<Item = (String, String)> {
        let (groups, offsets) = (&self.groups, &self.offsets);
        let own = [
            (
                "group.initial.rebalance.delay.ms",
                groups.initial_rebalance_delay_ms.to_string(),
            ),
            (
                "group.min.session.timeout.ms",
                groups.min_session_timeout_ms.to_string(),
            ),
            (
                "group.max.session.timeout.ms",
                groups.max_session_timeout_ms.to_string(),
            ),
            ("group.max.size", groups.max_size.to_string()),
            (
                "offsets.topic.num.partitions",
                offsets.topic_num_partitions.to_string(),
            ),
            (
                "offsets.topic.segment.bytes",
                offsets.topic_segment_bytes.to_string(),
            ),
            ("offsets.topic.replication.factor", "1".to_owned()),
            (
                "offsets.retention.minutes",
                offsets.retention_minutes.to_string(),
            ),
            (
                "offsets.retention.check.interval.ms",
                offsets.retention_check_interval_ms.to_string(),
            ),
            (
                "offset.metadata.max.bytes",
                offsets.metadata_max_bytes.to_string(),
            ),
        ];
        own.into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .chain(self.consumer_statics())
    }

    /// The same about groups by the new consumer protocol.
    fn consumer_statics(&self) -> impl Iterator<Item = (String, String)> {
        let groups = &self.groups;
        let own = [
            (
                "group.consumer.session.timeout.ms",
                groups.consumer_session_timeout_ms.to_string(),
            ),
            (
                "group.consumer.heartbeat.interval.ms",
                groups.consumer_heartbeat_interval_ms.to_string(),
            ),
            (
                "group.consumer.assignment.interval.ms",
                groups.consumer_assignment_interval_ms.to_string(),
            ),
            (
                "group.consumer.min.session.timeout.ms",
                groups.consumer_min_session_timeout_ms.to_string(),
            ),
            (
                "group.consumer.max.session.timeout.ms",
                groups.consumer_max_session_timeout_ms.to_string(),
            ),
            (
                "group.consumer.min.heartbeat.interval.ms",
                groups.consumer_min_heartbeat_interval_ms.to_string(),
            ),
            (
                "group.consumer.max.heartbeat.interval.ms",
                groups.consumer_max_heartbeat_interval_ms.to_string(),
            ),
            (
                "group.consumer.min.assignment.interval.ms",
                groups.consumer_min_assignment_interval_ms.to_string(),
            ),
            (
                "group.consumer.max.assignment.interval.ms",
                groups.consumer_max_assignment_interval_ms.to_string(),
            ),
            (
                "group.consumer.max.size",
                groups.consumer_max_size.to_string(),
            ),
            (
                "group.consumer.assignors",
                groups.consumer_assignors.clone(),
            ),
            (
                "group.consumer.migration.policy",
                groups.consumer_migration_policy.clone(),
            ),
        ];
        own.into_iter()
            .map(|(name, value)| (name.to_owned(), value))
    }

    /// How long an idle shard looks for work before it sleeps, if at all.
    pub fn spin_before_park(&self) -> Option<Duration> {
        let micros = self.shards.spin_before_park_us;
        (micros > 0).then(|| Duration::from_micros(micros))
    }

    /// The settings by Kafka's names, as DescribeConfigs shows them of the broker's file: the
    /// defaults of topic configs that somebody has set, and the broker's own settings.
    pub fn statics(&self) -> BTreeMap<String, String> {
        let mut statics = self.kafka.clone();
        let advertised = match &self.listener.advertise {
            Some(address) => format!("PLAINTEXT://{address}"),
            None => String::new(),
        };
        let (network, topics) = (&self.network, &self.topics);
        let own = [
            ("node.id", self.broker.node_id.to_string()),
            ("broker.id", self.broker.node_id.to_string()),
            ("broker.rack", self.broker.rack.clone()),
            ("listeners", format!("PLAINTEXT://{}", self.listener.listen)),
            ("advertised.listeners", advertised),
            ("log.dirs", self.data.listed()),
            ("num.partitions", topics.num_partitions.to_string()),
            ("default.replication.factor", "1".to_owned()),
            (
                "auto.create.topics.enable",
                topics.auto_create_topics_enable.to_string(),
            ),
            (
                "delete.topic.enable",
                topics.delete_topic_enable.to_string(),
            ),
            (
                "socket.request.max.bytes",
                network.socket_request_max_bytes.to_string(),
            ),
            (
                "connections.max.idle.ms",
                network.connections_max_idle_ms.to_string(),
            ),
            ("max.connections", network.max_connections.to_string()),
            (
                "max.connections.per.ip",
                network.max_connections_per_ip.to_string(),
            ),
            ("fetch.max.bytes", self.fetch.max_bytes.to_string()),
            (
                "log.retention.check.interval.ms",
                self.retention.check_interval_ms.to_string(),
            ),
            (
                "log.cleaner.dedupe.buffer.size",
                self.cleaner.dedupe_buffer_bytes.to_string(),
            ),
            (
                "log.cleaner.io.max.bytes.per.second",
                self.cleaner.io_bytes_per_second_max.to_string(),
            ),
            (
                "log.cleaner.backoff.ms",
                self.cleaner.backoff_ms.to_string(),
            ),
            (
                "max.incremental.fetch.session.cache.slots",
                self.fetch.sessions_max.to_string(),
            ),
        ];
        statics.extend(own.map(|(name, value)| (name.to_owned(), value)));
        statics.extend(self.group_statics());
        statics
    }
}

impl DataSettings {
    /// The directory of the metadata, as in Kafka the first one.
    pub fn first(&self) -> &Path {
        // A rule refuses an empty list.
        self.dirs.first().map_or(Path::new("."), PathBuf::as_path)
    }

    /// All of them as they are set: with commas between them.
    pub fn listed(&self) -> String {
        let names = self.dirs.iter().map(|path| path.display().to_string());
        names.collect::<Vec<_>>().join(",")
    }
}

impl HostPort {
    /// Reads `HOST:PORT`, with an IPv6 host in brackets.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wanted = || format!("`{text}` is not HOST:PORT, as in \"localhost:9092\"");
        let (host, port) = text.rsplit_once(':').ok_or_else(wanted)?;
        let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        if host.is_empty() || (bare.is_none() && host.contains([':', '/', ' '])) {
            return Err(wanted());
        }
        let port = port
            .parse()
            .map_err(|_| format!("`{port}` is not a port: a number from 1 to 65535"))?;
        let host = bare.unwrap_or(host).to_owned();
        Ok(Self { host, port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

/// The address to listen on that `HOST:PORT` names. Of a name with several addresses an IPv4 one is
/// taken first, since a client that is told `localhost` tries that in any case.
pub(crate) fn resolve_listen(text: &str) -> Result<SocketAddr, String> {
    let named = HostPort::parse(text)?;
    let found = (named.host.as_str(), named.port).to_socket_addrs();
    let found: Vec<SocketAddr> = found
        .map_err(|error| format!("the host of `{text}` cannot be resolved: {error}"))?
        .collect();
    let first = found.iter().find(|address| address.is_ipv4());
    first
        .or(found.first())
        .copied()
        .ok_or_else(|| format!("the host of `{text}` has no address"))
}

/// The address to advertise, if one is set.
pub(crate) fn parse_advertise(text: &str) -> Result<Option<HostPort>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let address = HostPort::parse(text)?;
    if address.port == 0 {
        return Err("clients cannot connect to port 0".to_owned());
    }
    if ["0.0.0.0", "::"].contains(&address.host.as_str()) {
        let host = &address.host;
        return Err(format!(
            "clients cannot connect to {host}; leave it empty to tell each the address it used"
        ));
    }
    Ok(Some(address))
}

/// The directories that a list names: one, or several with commas between them, as in Kafka.
pub(crate) fn parse_directories(list: &str) -> Result<Vec<PathBuf>, String> {
    let mut found: Vec<PathBuf> = Vec::new();
    for name in list.split(',').map(str::trim) {
        if name.is_empty() {
            return Err(match list.trim().is_empty() {
                true => "must not be empty".to_owned(),
                false => {
                    format!("`{list}` has nothing between two commas, or before or behind one")
                }
            });
        }
        let path = PathBuf::from(name);
        // By components: `a//b/` is `a/b`.
        if found
            .iter()
            .any(|other| other.components().eq(path.components()))
        {
            return Err(format!("`{name}` is named twice"));
        }
        found.push(path);
    }
    Ok(found)
}

fn directories<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
    parse_directories(&String::deserialize(from)?).map_err(D::Error::custom)
}

fn listen_address<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    resolve_listen(&String::deserialize(from)?).map_err(D::Error::custom)
}

fn advertised_address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<HostPort>, D::Error> {
    parse_advertise(&String::deserialize(from)?).map_err(D::Error::custom)
}
