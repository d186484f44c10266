//! The one table of topic configs, with Kafka 4's names and defaults. Knows nothing of their effect.

use super::value::Kind;

/// One topic config.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Its name on a topic.
    pub name: &'static str,
    /// The broker's name for the default of all topics.
    pub broker_name: Option<&'static str>,
    /// What holds when nobody sets it.
    pub default: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// Whether it changes what corelog does. The others are kept and shown.
    pub effect: bool,
    /// What it means, in a sentence.
    pub doc: &'static str,
}

const MAX: i64 = i64::MAX;
const CODECS: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
const FOREVER: &str = "9223372036854775807";

/// A config that corelog acts on.
const fn acts(
    name: &'static str,
    broker_name: &'static str,
    default: &'static str,
    kind: Kind,
    doc: &'static str,
) -> Config {
    Config {
        name,
        broker_name: Some(broker_name),
        default,
        kind,
        effect: true,
        doc,
    }
}

/// A config that corelog keeps and shows.
const fn kept(
    name: &'static str,
    broker_name: Option<&'static str>,
    default: &'static str,
    kind: Kind,
) -> Config {
    let doc = "accepted, no effect in corelog";
    Config {
        name,
        broker_name,
        default,
        kind,
        effect: false,
        doc,
    }
}

/// Every topic config, by name.
pub const TABLE: &[Config] = &[
    acts(
        "cleanup.policy",
        "log.cleanup.policy",
        "delete",
        Kind::List(&["delete", "compact"]),
        "What happens to old data. With compact, records without a key are refused; nothing is \
         deleted or compacted yet.",
    ),
    kept(
        "compression.gzip.level",
        Some("compression.gzip.level"),
        "-1",
        Kind::Int(-1, 9),
    ),
    kept(
        "compression.lz4.level",
        Some("compression.lz4.level"),
        "9",
        Kind::Int(1, 17),
    ),
    kept(
        "compression.type",
        Some("compression.type"),
        "producer",
        Kind::Text(CODECS),
    ),
    kept(
        "compression.zstd.level",
        Some("compression.zstd.level"),
        "3",
        Kind::Int(-131_072, 22),
    ),
    kept(
        "delete.retention.ms",
        Some("log.cleaner.delete.retention.ms"),
        "86400000",
        Kind::Long(0, MAX),
    ),
    acts(
        "durability",
        "log.durability",
        "flush",
        Kind::Text(&["flush", "replicated"]),
        "When acks=all is answered: flush, when every in-sync replica has written and flushed; \
         replicated, when every one has written and a flush follows within 100 ms.",
    ),
    kept(
        "file.delete.delay.ms",
        Some("log.segment.delete.delay.ms"),
        "60000",
        Kind::Long(0, MAX),
    ),
    kept(
        "flush.messages",
        Some("log.flush.interval.messages"),
        FOREVER,
        Kind::Long(1, MAX),
    ),
    kept(
        "flush.ms",
        Some("log.flush.interval.ms"),
        FOREVER,
        Kind::Long(0, MAX),
    ),
    kept(
        "follower.replication.throttled.replicas",
        None,
        "",
        Kind::List(&[]),
    ),
    acts(
        "index.interval.bytes",
        "log.index.interval.bytes",
        "4096",
        Kind::Int(0, i32::MAX),
        "A segment's offset and time indexes get an entry about every so many bytes.",
    ),
    kept(
        "leader.replication.throttled.replicas",
        None,
        "",
        Kind::List(&[]),
    ),
    kept(
        "local.retention.bytes",
        Some("log.local.retention.bytes"),
        "-2",
        Kind::Long(-2, MAX),
    ),
    kept(
        "local.retention.ms",
        Some("log.local.retention.ms"),
        "-2",
        Kind::Long(-2, MAX),
    ),
    kept(
        "max.compaction.lag.ms",
        Some("log.cleaner.max.compaction.lag.ms"),
        FOREVER,
        Kind::Long(1, MAX),
    ),
    acts(
        "max.message.bytes",
        "message.max.bytes",
        "1048588",
        Kind::Int(0, i32::MAX),
        "The largest record batch that is accepted, as sent, in bytes.",
    ),
    acts(
        "message.timestamp.after.max.ms",
        "log.message.timestamp.after.max.ms",
        "3600000",
        Kind::Long(0, MAX),
        "How far a record's timestamp may be ahead of the broker's clock, under CreateTime.",
    ),
    acts(
        "message.timestamp.before.max.ms",
        "log.message.timestamp.before.max.ms",
        FOREVER,
        Kind::Long(0, MAX),
        "How far a record's timestamp may be behind the broker's clock, under CreateTime.",
    ),
    acts(
        "message.timestamp.type",
        "log.message.timestamp.type",
        "CreateTime",
        Kind::Text(&["CreateTime", "LogAppendTime"]),
        "Whether records keep the producer's timestamp or get the broker's.",
    ),
    kept(
        "min.cleanable.dirty.ratio",
        Some("log.cleaner.min.cleanable.ratio"),
        "0.5",
        Kind::Double(0.0, 1.0),
    ),
    kept(
        "min.compaction.lag.ms",
        Some("log.cleaner.min.compaction.lag.ms"),
        "0",
        Kind::Long(0, MAX),
    ),
    acts(
        "min.insync.replicas",
        "min.insync.replicas",
        "1",
        Kind::Int(1, i32::MAX),
        "With fewer in-sync replicas than this, acks=all is refused.",
    ),
    kept(
        "preallocate",
        Some("log.preallocate"),
        "false",
        Kind::Boolean,
    ),
    kept("remote.log.copy.disable", None, "false", Kind::Boolean),
    kept("remote.log.delete.on.disable", None, "false", Kind::Boolean),
    kept("remote.storage.enable", None, "false", Kind::Boolean),
    kept(
        "retention.bytes",
        Some("log.retention.bytes"),
        "-1",
        Kind::Long(-1, MAX),
    ),
    kept(
        "retention.ms",
        Some("log.retention.ms"),
        "604800000",
        Kind::Long(-1, MAX),
    ),
    acts(
        "segment.bytes",
        "log.segment.bytes",
        "1073741824",
        Kind::Int(1_048_576, i32::MAX),
        "A segment that would grow above this many bytes is sealed and the next one begins.",
    ),
    acts(
        "segment.index.bytes",
        "log.index.size.max.bytes",
        "10485760",
        Kind::Int(4, i32::MAX),
        "A segment whose index would grow above this many bytes is sealed.",
    ),
    acts(
        "segment.jitter.ms",
        "log.roll.jitter.ms",
        "0",
        Kind::Long(0, MAX),
        "Up to this much earlier than segment.ms a segment is sealed, so that not all are at once.",
    ),
    acts(
        "segment.ms",
        "log.roll.ms",
        "604800000",
        Kind::Long(1, MAX),
        "A segment older than this is sealed at the next append, in milliseconds.",
    ),
    kept(
        "unclean.leader.election.enable",
        Some("unclean.leader.election.enable"),
        "false",
        Kind::Boolean,
    ),
];
