//! Broker settings that Kafka's users know beyond the defaults of topic configs: set in the broker's
//! file and only shown here. Knows nothing of which of them this broker reads.

use super::value::Kind;

/// One setting of a broker's file.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Kafka's name for it.
    pub name: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// What holds in Kafka when nobody sets it; none where that depends on the machine.
    pub default: Option<&'static str>,
    /// What it means, in a sentence.
    pub doc: &'static str,
}

const TEXT: Kind = Kind::Text(&[]);
const LIST: Kind = Kind::List(&[]);
const COUNT: Kind = Kind::Int(1, i32::MAX);
const ANY_INT: Kind = Kind::Int(i32::MIN, i32::MAX);
const MS: Kind = Kind::Long(0, i64::MAX);
const MS_INT: Kind = Kind::Int(0, i32::MAX);

const fn setting(
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    doc: &'static str,
) -> Setting {
    Setting {
        name,
        kind,
        default,
        doc,
    }
}

/// The setting of this name.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// Every such setting, by name.
pub const SETTINGS: &[Setting] = &[
    setting(
        "advertised.listeners",
        TEXT,
        None,
        "The addresses that clients are told to connect to.",
    ),
    setting(
        "auto.create.topics.enable",
        Kind::Boolean,
        Some("true"),
        "Whether asking for an unknown topic's metadata may create it.",
    ),
    setting(
        "broker.id",
        ANY_INT,
        None,
        "This broker's number; the same as node.id.",
    ),
    setting("broker.rack", TEXT, None, "Where this broker stands."),
    setting(
        "connections.max.idle.ms",
        MS,
        Some("600000"),
        "A connection on which nothing happens for so long is closed.",
    ),
    setting(
        "controller.quorum.bootstrap.servers",
        LIST,
        None,
        "Where to find the controllers at the start.",
    ),
    setting(
        "default.replication.factor",
        COUNT,
        Some("1"),
        "Replicas of a topic that does not say how many.",
    ),
    setting(
        "delete.topic.enable",
        Kind::Boolean,
        Some("true"),
        "Whether topics may be deleted.",
    ),
    setting(
        "fetch.max.bytes",
        Kind::Int(1024, i32::MAX),
        Some("57671680"),
        "What a fetch returns at most, in bytes, whatever the client asks.",
    ),
    setting(
        "group.consumer.assignment.interval.ms",
        MS_INT,
        Some("1000"),
        "Partitions of a new-protocol group are not shared out again before so long.",
    ),
    setting(
        "group.consumer.heartbeat.interval.ms",
        COUNT,
        Some("5000"),
        "How often members of new-protocol groups report.",
    ),
    setting(
        "group.consumer.max.assignment.interval.ms",
        MS_INT,
        Some("15000"),
        "The longest assignment interval that a new-protocol group may have of its own.",
    ),
    setting(
        "group.consumer.max.heartbeat.interval.ms",
        COUNT,
        Some("15000"),
        "The longest heartbeat interval that a new-protocol group may have of its own.",
    ),
    setting(
        "group.consumer.max.session.timeout.ms",
        COUNT,
        Some("60000"),
        "The longest session timeout that a new-protocol group may have of its own.",
    ),
    setting(
        "group.consumer.min.assignment.interval.ms",
        MS_INT,
        Some("0"),
        "The shortest assignment interval that a new-protocol group may have of its own.",
    ),
    setting(
        "group.consumer.min.heartbeat.interval.ms",
        COUNT,
        Some("5000"),
        "The shortest heartbeat interval that a new-protocol group may have of its own.",
    ),
    setting(
        "group.consumer.min.session.timeout.ms",
        COUNT,
        Some("45000"),
        "The shortest session timeout that a new-protocol group may have of its own.",
    ),
    setting(
        "group.consumer.session.timeout.ms",
        COUNT,
        Some("45000"),
        "When a silent member of a new-protocol group counts as gone.",
    ),
    setting(
        "group.initial.rebalance.delay.ms",
        MS_INT,
        Some("3000"),
        "How long an empty group waits for more members before its first assignment.",
    ),
    setting(
        "group.max.session.timeout.ms",
        COUNT,
        Some("1800000"),
        "The longest session timeout that a member may ask for.",
    ),
    setting(
        "group.min.session.timeout.ms",
        COUNT,
        Some("6000"),
        "The shortest session timeout that a member may ask for.",
    ),
    setting(
        "inter.broker.listener.name",
        TEXT,
        None,
        "The listener on which brokers talk to each other.",
    ),
    setting(
        "listener.security.protocol.map",
        TEXT,
        None,
        "Which security protocol each listener speaks.",
    ),
    setting("listeners", LIST, None, "The addresses to listen on."),
    setting(
        "log.cleaner.backoff.ms",
        MS,
        Some("15000"),
        "The cleaner's pause when nothing is to be cleaned.",
    ),
    setting(
        "log.cleaner.dedupe.buffer.size",
        Kind::Long(0, i64::MAX),
        Some("134217728"),
        "Memory in which cleaning keeps the newest offset of each key, in bytes.",
    ),
    setting(
        "log.cleaner.io.max.bytes.per.second",
        Kind::Double(0.0, f64::MAX),
        Some("1.7976931348623157E308"),
        "What cleaning reads and writes a second at most, in bytes.",
    ),
    setting("log.dirs", LIST, None, "Where data is kept."),
    setting(
        "log.retention.check.interval.ms",
        Kind::Long(1, i64::MAX),
        Some("300000"),
        "Milliseconds between two looks at which segments retention no longer keeps.",
    ),
    setting(
        "max.connection.creation.rate",
        COUNT,
        Some("2147483647"),
        "New connections a second, at most.",
    ),
    setting(
        "max.connections",
        MS_INT,
        Some("2147483647"),
        "Connections at once, at most.",
    ),
    setting(
        "max.connections.per.ip",
        MS_INT,
        Some("2147483647"),
        "Connections at once from one address, at most.",
    ),
    setting(
        "max.incremental.fetch.session.cache.slots",
        MS_INT,
        Some("1000"),
        "Incremental fetch sessions, at most.",
    ),
    setting(
        "node.id",
        Kind::Int(0, i32::MAX),
        None,
        "This broker's number.",
    ),
    setting(
        "num.partitions",
        COUNT,
        Some("1"),
        "Partitions of a topic that does not say how many.",
    ),
    setting(
        "num.recovery.threads.per.data.dir",
        COUNT,
        Some("2"),
        "Threads that recover logs at the start.",
    ),
    setting(
        "offsets.retention.minutes",
        COUNT,
        Some("10080"),
        "How long an empty group's committed offsets are kept.",
    ),
    setting(
        "offsets.topic.num.partitions",
        COUNT,
        Some("50"),
        "Partitions of the topic that holds committed offsets.",
    ),
    setting(
        "offsets.topic.replication.factor",
        COUNT,
        Some("3"),
        "Replicas of the topic that holds committed offsets.",
    ),
    setting(
        "process.roles",
        LIST,
        None,
        "Whether this process is a broker, a controller or both.",
    ),
    setting(
        "producer.id.expiration.ms",
        COUNT,
        Some("86400000"),
        "A producer that appends nothing for so long is forgotten by the partition.",
    ),
    setting(
        "replica.lag.time.max.ms",
        COUNT,
        Some("30000"),
        "A follower that has not caught up for so long leaves the in-sync set.",
    ),
    setting(
        "socket.request.max.bytes",
        COUNT,
        Some("104857600"),
        "The largest request that is read, in bytes.",
    ),
    setting(
        "transaction.max.timeout.ms",
        COUNT,
        Some("900000"),
        "The longest timeout that a transaction may ask for.",
    ),
    setting(
        "transaction.state.log.min.isr",
        COUNT,
        Some("2"),
        "min.insync.replicas of the topic that holds transactions.",
    ),
    setting(
        "transaction.state.log.num.partitions",
        COUNT,
        Some("50"),
        "Partitions of the topic that holds transactions.",
    ),
    setting(
        "transaction.state.log.replication.factor",
        COUNT,
        Some("3"),
        "Replicas of the topic that holds transactions.",
    ),
    setting(
        "transactional.id.expiration.ms",
        COUNT,
        Some("604800000"),
        "A transactional id unused for so long is forgotten.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_defaults_allowed() {
        for pair in SETTINGS.windows(2) {
            assert!(
                pair[0].name < pair[1].name,
                "{} before {}",
                pair[0].name,
                pair[1].name
            );
        }
        for setting in SETTINGS {
            assert!(
                super::super::find_by_broker_name(setting.name).is_none(),
                "{}",
                setting.name
            );
            if let Some(default) = setting.default {
                assert_eq!(
                    setting.kind.check(default),
                    Ok(default.into()),
                    "{}",
                    setting.name
                );
            }
        }
    }
}
