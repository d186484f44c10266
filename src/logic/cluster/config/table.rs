//! The one table of topic configs, with Kafka 4's names and defaults. Knows nothing of their effect.

use alloc::format;
use alloc::string::String;

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

impl Config {
    /// What it means, and whether that is so here.
    pub fn documentation(&self) -> String {
        let Self { doc, effect, .. } = self;
        if *effect {
            (*doc).into()
        } else {
            format!("{doc} ({NO_EFFECT})")
        }
    }
}

/// What the documentation says of a config that corelog only keeps and shows.
pub const NO_EFFECT: &str = "accepted, no effect in corelog";

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
    doc: &'static str,
) -> Config {
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
        "What happens to old data: delete, by retention.ms and retention.bytes; compact, by which the newest \
         record of each key stays and records without a key are refused.",
    ),
    acts(
        "compression.gzip.level",
        "compression.gzip.level",
        "-1",
        Kind::GzipLevel,
        "How hard gzip tries where compression.type has the broker write it: 1 (fast) to 9; -1 means 6.",
    ),
    acts(
        "compression.lz4.level",
        "compression.lz4.level",
        "9",
        Kind::Int(1, 17),
        "How hard lz4 tries where compression.type has the broker write it: 9, the default, is its fast \
         compressor; 1 to 8 and 10 to 17 are its thorough one, which has no more to try above 12.",
    ),
    acts(
        "compression.type",
        "compression.type",
        "producer",
        Kind::Text(CODECS),
        "The codec in which batches are kept: a batch that comes in another one is unfolded and compressed \
         anew, with that codec's level. With producer batches stay as they are sent.",
    ),
    acts(
        "compression.zstd.level",
        "compression.zstd.level",
        "3",
        Kind::Int(-131_072, 22),
        "How hard zstd tries where compression.type has the broker write it: up to 22; below 0 it is \
         faster than at 1.",
    ),
    acts(
        "delete.retention.ms",
        "log.cleaner.delete.retention.ms",
        "86400000",
        Kind::Long(0, MAX),
        "How long a compacted topic keeps the markers of deleted keys, in milliseconds.",
    ),
    acts(
        "durability",
        "log.durability",
        "flush",
        Kind::Text(&["flush", "replicated"]),
        "When acks=all is answered: flush, when every in-sync replica has written and flushed; \
         replicated, when every one has written and a flush follows within 100 ms.",
    ),
    acts(
        "file.delete.delay.ms",
        "log.segment.delete.delay.ms",
        "60000",
        Kind::Long(0, MAX),
        "How long a deleted segment's file stays on disk, in milliseconds.",
    ),
    acts(
        "flush.messages",
        "log.flush.interval.messages",
        FOREVER,
        Kind::Long(1, MAX),
        "The log is flushed at least once in so many records.",
    ),
    acts(
        "flush.ms",
        "log.flush.interval.ms",
        FOREVER,
        Kind::Long(0, MAX),
        "A record is flushed after this many milliseconds at the latest; after 100 in any case.",
    ),
    kept(
        "follower.replication.throttled.replicas",
        None,
        "",
        Kind::Replicas,
        "Replicas, as partition:broker or *, whose copying is slowed on the follower's \
         side.",
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
        Kind::Replicas,
        "Replicas, as partition:broker or *, whose copying is slowed on the leader's \
         side.",
    ),
    kept(
        "local.retention.bytes",
        Some("log.local.retention.bytes"),
        "-2",
        Kind::Long(-2, MAX),
        "How many bytes of a partition stay on local disk when older data lies in \
         remote storage; -2 means retention.bytes.",
    ),
    kept(
        "local.retention.ms",
        Some("log.local.retention.ms"),
        "-2",
        Kind::Long(-2, MAX),
        "How long data stays on local disk when older data lies in remote storage; -2 \
         means retention.ms.",
    ),
    acts(
        "max.compaction.lag.ms",
        "log.cleaner.max.compaction.lag.ms",
        FOREVER,
        Kind::Long(1, MAX),
        "After this many milliseconds a record is compacted whatever the share of old \
         data.",
    ),
    acts(
        "max.message.bytes",
        "message.max.bytes",
        "1048588",
        Kind::Int(0, i32::MAX),
        "The largest record batch that is accepted, in bytes: as sent, and in the codec of compression.type.",
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
    acts(
        "min.cleanable.dirty.ratio",
        "log.cleaner.min.cleanable.ratio",
        "0.5",
        Kind::Double(0.0, 1.0),
        "The share of a log that must be uncompacted before it is compacted.",
    ),
    acts(
        "min.compaction.lag.ms",
        "log.cleaner.min.compaction.lag.ms",
        "0",
        Kind::Long(0, MAX),
        "For this many milliseconds a record is not compacted.",
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
        "Whether a new segment's file gets its full size at once. Corelog always does \
         its own way.",
    ),
    kept(
        "remote.log.copy.disable",
        None,
        "false",
        Kind::Boolean,
        "Whether data is no longer copied to remote storage.",
    ),
    kept(
        "remote.log.delete.on.disable",
        None,
        "false",
        Kind::Boolean,
        "Whether remote data is deleted when remote storage is switched off.",
    ),
    kept(
        "remote.storage.enable",
        None,
        "false",
        Kind::Boolean,
        "Whether old segments move to remote storage. Corelog has none, so only false \
         is accepted.",
    ),
    acts(
        "retention.bytes",
        "log.retention.bytes",
        "-1",
        Kind::Long(-1, MAX),
        "When a partition holds more bytes than this, its oldest segments are deleted; \
         -1 means no limit.",
    ),
    acts(
        "retention.ms",
        "log.retention.ms",
        "604800000",
        Kind::Long(-1, MAX),
        "Segments whose newest record is older than this many milliseconds are deleted; \
         -1 means never.",
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
        "Whether a replica that lacks committed records may lead when no other is left.",
    ),
];
