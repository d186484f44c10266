//! What each setting may hold, by itself and beside others. Knows nothing of files or of flags.

use logic::cluster::config::{TABLE, units};
use logic::group::{Assignor, MigrationPolicy};
use toml::Value;

use super::{parse_advertise, parse_directories, resolve_listen};

/// What a setting may hold.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// Any text.
    Text,
    /// Names of assignors.
    Assignors,
    /// The name of a migration policy.
    MigrationPolicy,
    /// Paths with commas between them, one at least.
    Paths,
    /// An address to listen on.
    Listen,
    /// An address to advertise, or nothing.
    Advertise,
    /// `true` or `false`.
    Boolean,
    /// A whole number in these bounds.
    Number(i64, i64),
    /// A power of two in these bounds.
    PowerOfTwo(i64, i64),
    /// A multiple of the first in the bounds that follow.
    Multiple(i64, i64, i64),
}

const I32_MAX: i64 = i32::MAX as i64;
const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
const DAY_MS: i64 = 86_400_000;

/// Every setting outside `[kafka]`, whose rules are the topic configs' own.
pub const RULES: &[(&str, &str, Rule)] = &[
    ("broker", "node_id", Rule::Number(0, I32_MAX)),
    ("broker", "rack", Rule::Text),
    ("listener", "listen", Rule::Listen),
    ("listener", "advertise", Rule::Advertise),
    ("shards", "count", Rule::Number(0, 1024)),
    ("shards", "spin_before_park_us", Rule::Number(0, 1_000_000)),
    ("shards", "ring_entries", Rule::PowerOfTwo(64, 32_768)),
    ("data", "dir", Rule::Paths),
    ("wal", "extent_bytes", Rule::Multiple(4096, MIB, 4 * GIB)),
    ("wal", "bytes_max", Rule::Number(2 * MIB, 1024 * GIB)),
    ("wal", "commit_bytes_max", Rule::Number(4096, 64 * MIB)),
    ("wal", "bypass_bytes_min", Rule::Number(4096, 1024 * GIB)),
    ("wal", "backlog_bytes_max", Rule::Number(MIB, 1024 * GIB)),
    ("storage", "tail_cache_bytes", Rule::Number(MIB, 1024 * GIB)),
    (
        "storage",
        "disk_reserve_bytes",
        Rule::Number(0, 1024 * 1024 * GIB),
    ),
    (
        "retention",
        "check_interval_ms",
        Rule::Number(1, 365 * DAY_MS),
    ),
    (
        "cleaner",
        "dedupe_buffer_bytes",
        Rule::Number(MIB, 1024 * GIB),
    ),
    (
        "cleaner",
        "io_bytes_per_second_max",
        Rule::Number(1024, i64::MAX),
    ),
    ("cleaner", "backoff_ms", Rule::Number(1, DAY_MS)),
    (
        "network",
        "socket_request_max_bytes",
        Rule::Number(1024, I32_MAX),
    ),
    (
        "network",
        "request_memory_bytes",
        Rule::Number(1024, 1024 * GIB),
    ),
    (
        "network",
        "reply_memory_bytes",
        Rule::Number(1024, 1024 * GIB),
    ),
    ("network", "first_frame_wait_ms", Rule::Number(1, DAY_MS)),
    ("network", "frame_wait_ms", Rule::Number(1, DAY_MS)),
    (
        "network",
        "connections_max_idle_ms",
        Rule::Number(1, 365 * DAY_MS),
    ),
    ("network", "max_connections", Rule::Number(1, I32_MAX)),
    (
        "network",
        "max_connections_per_ip",
        Rule::Number(0, I32_MAX),
    ),
    ("network", "drain_wait_ms", Rule::Number(0, DAY_MS)),
    ("fetch", "max_bytes", Rule::Number(1024, I32_MAX)),
    ("fetch", "sessions_max", Rule::Number(0, 1_000_000)),
    ("topics", "num_partitions", Rule::Number(1, 1_000_000)),
    ("topics", "auto_create_topics_enable", Rule::Boolean),
    ("topics", "delete_topic_enable", Rule::Boolean),
    ("topics", "partitions_max", Rule::Number(1, 10_000_000)),
    (
        "groups",
        "initial_rebalance_delay_ms",
        Rule::Number(0, I32_MAX),
    ),
    ("groups", "min_session_timeout_ms", Rule::Number(1, I32_MAX)),
    ("groups", "max_session_timeout_ms", Rule::Number(1, I32_MAX)),
    ("groups", "max_size", Rule::Number(1, I32_MAX)),
    ("groups", "memory_bytes", Rule::Number(MIB, 1024 * GIB)),
    (
        "groups",
        "consumer_session_timeout_ms",
        Rule::Number(1, I32_MAX),
    ),
    (
        "groups",
        "consumer_heartbeat_interval_ms",
        Rule::Number(1, I32_MAX),
    ),
    (
        "groups",
        "consumer_assignment_interval_ms",
        Rule::Number(0, I32_MAX),
    ),
    (
        "groups",
        "consumer_min_session_timeout_ms",
        Rule::Number(1, I32_MAX),
    ),
    (
        "groups",
        "consumer_max_session_timeout_ms",
        Rule::Number(1, I32_MAX),
    ),
    (
        "groups",
        "consumer_min_heartbeat_interval_ms",
        Rule::Number(1, I32_MAX),
    ),
    (
        "groups",
        "consumer_max_heartbeat_interval_ms",
        Rule::Number(1, I32_MAX),
    ),
    (
        "groups",
        "consumer_min_assignment_interval_ms",
        Rule::Number(0, I32_MAX),
    ),
    (
        "groups",
        "consumer_max_assignment_interval_ms",
        Rule::Number(0, I32_MAX),
    ),
    ("groups", "consumer_max_size", Rule::Number(1, I32_MAX)),
    ("groups", "consumer_assignors", Rule::Assignors),
    ("groups", "consumer_migration_policy", Rule::MigrationPolicy),
    ("offsets", "topic_num_partitions", Rule::Number(1, 10_000)),
    ("offsets", "topic_segment_bytes", Rule::Number(MIB, I32_MAX)),
    ("offsets", "retention_minutes", Rule::Number(1, I32_MAX)),
    (
        "offsets",
        "retention_check_interval_ms",
        Rule::Number(1, 365 * DAY_MS),
    ),
    ("offsets", "metadata_max_bytes", Rule::Number(0, 32_767)),
];

/// Kafka's names for settings that have a section of their own.
pub const ALIASES: &[(&str, &str, &str)] = &[
    ("node.id", "broker", "node_id"),
    ("broker.rack", "broker", "rack"),
    ("log.dir", "data", "dir"),
    ("log.dirs", "data", "dir"),
    ("num.partitions", "topics", "num_partitions"),
    (
        "auto.create.topics.enable",
        "topics",
        "auto_create_topics_enable",
    ),
    ("delete.topic.enable", "topics", "delete_topic_enable"),
    (
        "socket.request.max.bytes",
        "network",
        "socket_request_max_bytes",
    ),
    (
        "connections.max.idle.ms",
        "network",
        "connections_max_idle_ms",
    ),
    ("max.connections", "network", "max_connections"),
    (
        "max.connections.per.ip",
        "network",
        "max_connections_per_ip",
    ),
    (
        "log.retention.check.interval.ms",
        "retention",
        "check_interval_ms",
    ),
    (
        "log.cleaner.dedupe.buffer.size",
        "cleaner",
        "dedupe_buffer_bytes",
    ),
    (
        "log.cleaner.io.max.bytes.per.second",
        "cleaner",
        "io_bytes_per_second_max",
    ),
    ("log.cleaner.backoff.ms", "cleaner", "backoff_ms"),
    ("fetch.max.bytes", "fetch", "max_bytes"),
    (
        "max.incremental.fetch.session.cache.slots",
        "fetch",
        "sessions_max",
    ),
    (
        "group.initial.rebalance.delay.ms",
        "groups",
        "initial_rebalance_delay_ms",
    ),
    (
        "group.min.session.timeout.ms",
        "groups",
        "min_session_timeout_ms",
    ),
    (
        "group.max.session.timeout.ms",
        "groups",
        "max_session_timeout_ms",
    ),
    ("group.max.size", "groups", "max_size"),
    (
        "group.consumer.session.timeout.ms",
        "groups",
        "consumer_session_timeout_ms",
    ),
    (
        "group.consumer.heartbeat.interval.ms",
        "groups",
        "consumer_heartbeat_interval_ms",
    ),
    (
        "group.consumer.assignment.interval.ms",
        "groups",
        "consumer_assignment_interval_ms",
    ),
    (
        "group.consumer.min.session.timeout.ms",
        "groups",
        "consumer_min_session_timeout_ms",
    ),
    (
        "group.consumer.max.session.timeout.ms",
        "groups",
        "consumer_max_session_timeout_ms",
    ),
    (
        "group.consumer.min.heartbeat.interval.ms",
        "groups",
        "consumer_min_heartbeat_interval_ms",
    ),
    (
        "group.consumer.max.heartbeat.interval.ms",
        "groups",
        "consumer_max_heartbeat_interval_ms",
    ),
    (
        "group.consumer.min.assignment.interval.ms",
        "groups",
        "consumer_min_assignment_interval_ms",
    ),
    (
        "group.consumer.max.assignment.interval.ms",
        "groups",
        "consumer_max_assignment_interval_ms",
    ),
    ("group.consumer.max.size", "groups", "consumer_max_size"),
    ("group.consumer.assignors", "groups", "consumer_assignors"),
    (
        "group.consumer.migration.policy",
        "groups",
        "consumer_migration_policy",
    ),
    (
        "offsets.topic.num.partitions",
        "offsets",
        "topic_num_partitions",
    ),
    (
        "offsets.topic.segment.bytes",
        "offsets",
        "topic_segment_bytes",
    ),
    ("offsets.retention.minutes", "offsets", "retention_minutes"),
    (
        "offsets.retention.check.interval.ms",
        "offsets",
        "retention_check_interval_ms",
    ),
    ("offset.metadata.max.bytes", "offsets", "metadata_max_bytes"),
];

/// The rule of a setting outside `[kafka]`.
pub fn find(section: &str, key: &str) -> Option<Rule> {
    let found = RULES.iter().find(|rule| (rule.0, rule.1) == (section, key));
    found.map(|rule| rule.2)
}

impl Rule {
    /// Reads the text of a flag or of an environment variable.
    pub fn read(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Text
            | Self::Paths
            | Self::Listen
            | Self::Advertise
            | Self::Assignors
            | Self::MigrationPolicy => Ok(Value::String(text.to_owned())),
            Self::Boolean => match text.to_ascii_lowercase().as_str() {
                "true" => Ok(Value::Boolean(true)),
                "false" => Ok(Value::Boolean(false)),
                _ => Err(format!("`{text}` is neither true nor false")),
            },
            Self::Number(..) | Self::PowerOfTwo(..) | Self::Multiple(..) => text
                .replace('_', "")
                .parse()
                .map(Value::Integer)
                .map_err(|_| format!("`{text}` is not a whole number")),
        }
    }

    /// What is wrong with a value, if anything.
    pub fn check(self, value: &Value) -> Result<(), String> {
        match (self, value) {
            (Self::Text, Value::String(_)) | (Self::Boolean, Value::Boolean(_)) => Ok(()),
            (Self::Paths, Value::String(text)) => parse_directories(text).map(drop),
            (Self::Assignors, Value::String(text)) => assignors(text).map(drop),
            (Self::MigrationPolicy, Value::String(text)) => migration_policy(text),
            (Self::Listen, Value::String(text)) => resolve_listen(text).map(drop),
            (Self::Advertise, Value::String(text)) => parse_advertise(text).map(drop),
            (Self::Number(least, most), Value::Integer(number)) => bounded(*number, least, most),
            (Self::PowerOfTwo(least, most), Value::Integer(number)) => {
                bounded(*number, least, most)?;
                let power = u64::try_from(*number).is_ok_and(u64::is_power_of_two);
                let problem = || format!("{number} is not a power of two");
                power.then_some(()).ok_or_else(problem)
            }
            (Self::Multiple(of, least, most), Value::Integer(number)) => {
                bounded(*number, least, most)?;
                let problem = || format!("{number} is not a multiple of {of}");
                (number % of == 0).then_some(()).ok_or_else(problem)
            }
            (rule, value) => Err(format!("must be {}, not {}", rule.kind(), described(value))),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Text | Self::MigrationPolicy => "a text in quotes",
            Self::Paths => "a path in quotes, or several with commas between them",
            Self::Listen | Self::Advertise => "\"HOST:PORT\"",
            Self::Assignors => "names with commas between them, in quotes",
            Self::Boolean => "true or false",
            Self::Number(..) | Self::PowerOfTwo(..) | Self::Multiple(..) => "a whole number",
        }
    }
}

/// A topic config's default as it is kept, or what is wrong with it. `name` is the broker's.
pub fn check_topic_default(name: &str, text: &str) -> Result<String, String> {
    if let Some(coarser) = units::find(name) {
        return coarser.check(text);
    }
    let found = TABLE.iter().find(|config| config.broker_name == Some(name));
    let config = found.ok_or_else(|| "no topic config has this default".to_owned())?;
    let problem = |problem| format!("`{text}` will not do: {problem}");
    config.kind.check(text.trim()).map_err(problem)
}

/// What is wrong between settings that are right by themselves: each by the setting to blame.
/// `number` gives a setting's value.
pub fn check_together(
    number: impl Fn(&str, &str) -> i64,
) -> Vec<(&'static str, &'static str, String)> {
    let mut faults = Vec::new();
    let (extent, wal) = (number("wal", "extent_bytes"), number("wal", "bytes_max"));
    if wal < 2 * extent {
        let least = 2 * extent;
        let message = format!("{wal} is less than two extents of wal.extent_bytes: {least}");
        faults.push(("wal", "bytes_max", message));
    }
    let interval = number("groups", "consumer_heartbeat_interval_ms");
    let session = number("groups", "consumer_session_timeout_ms");
    if session <= interval {
        let message = format!(
            "{session} is not longer than groups.consumer_heartbeat_interval_ms, {interval}, so that \
             every consumer would be put out"
        );
        faults.push(("groups", "consumer_session_timeout_ms", message));
    }
    for (least, most) in [
        (
            "consumer_min_session_timeout_ms",
            "consumer_max_session_timeout_ms",
        ),
        (
            "consumer_min_heartbeat_interval_ms",
            "consumer_max_heartbeat_interval_ms",
        ),
        (
            "consumer_min_assignment_interval_ms",
            "consumer_max_assignment_interval_ms",
        ),
    ] {
        let (floor, ceiling) = (number("groups", least), number("groups", most));
        if floor > ceiling {
            let message = format!("{ceiling} is less than groups.{least}, {floor}");
            faults.push(("groups", most, message));
        }
    }
    let request = number("network", "socket_request_max_bytes");
    let memory = number("network", "request_memory_bytes");
    if memory < request {
        let message = format!(
            "{memory} holds no request of network.socket_request_max_bytes, {request}, so that a \
             connection could wait for ever"
        );
        faults.push(("network", "request_memory_bytes", message));
    }
    faults
}

/// The assignors that a list names.
pub fn assignors(list: &str) -> Result<Vec<Assignor>, String> {
    let one = |name: &str| {
        let found = Assignor::named(name.trim());
        found.ok_or_else(|| {
            let known = Assignor::ALL.map(Assignor::name).join(" and ");
            format!("`{}` is no assignor: there are {known}", name.trim())
        })
    };
    list.split(',').map(one).collect()
}

fn migration_policy(name: &str) -> Result<(), String> {
    let known = || {
        let known = MigrationPolicy::ALL.map(MigrationPolicy::name).join(", ");
        format!("`{name}` is no migration policy: there are {known}")
    };
    MigrationPolicy::named(name).map(drop).ok_or_else(known)
}

fn bounded(number: i64, least: i64, most: i64) -> Result<(), String> {
    if (least..=most).contains(&number) {
        Ok(())
    } else {
        Err(format!("{number} is not within {least} and {most}"))
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the text \"{text}\""),
        Value::Array(_) => "a list".to_owned(),
        Value::Table(_) => "a table".to_owned(),
        other => other.to_string(),
    }
}
