//! A consumer's settings.

use std::time::Duration;

use super::{Properties, Reader, cluster};
use crate::{ClusterConfig, Error};

/// Where to start without a committed offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoOffsetReset {
    /// At the first record.
    Earliest,
    /// Behind the last record.
    Latest,
    /// Nowhere: that is an error.
    None,
    /// At the first record that is no older than this (`by_duration:PT..`, KIP-1106).
    ByDuration(Duration),
}

/// Which records of transactions are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    /// All.
    ReadUncommitted,
    /// Those of transactions that committed.
    ReadCommitted,
}

impl IsolationLevel {
    /// As the protocol says it.
    pub fn code(self) -> i8 {
        match self {
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
        }
    }
}

/// How the members of a group come to their partitions (`group.protocol`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// One of the members assigns.
    Classic,
    /// The coordinator does, step by step (KIP-848).
    Consumer,
}

/// Settings of a consumer, with the defaults of Kafka 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerConfig {
    /// What all clients have: among others `request.timeout.ms` and `retry.backoff.ms`.
    pub cluster: ClusterConfig,
    /// `group.id`; without one there are no subscriptions and no commits.
    pub group_id: Option<String>,
    /// `group.instance.id`: makes a static member.
    pub group_instance_id: Option<String>,
    /// `group.protocol`.
    pub group_protocol: GroupProtocol,
    /// `group.remote.assignor`: the coordinator's assignor, by name, with `group.protocol=consumer`.
    pub group_remote_assignor: Option<String>,
    /// `client.rack`: to fetch from the nearest replica.
    pub client_rack: String,
    /// `enable.auto.commit`.
    pub enable_auto_commit: bool,
    /// `auto.commit.interval.ms`.
    pub auto_commit_interval: Duration,
    /// `auto.offset.reset`.
    pub auto_offset_reset: AutoOffsetReset,
    /// `isolation.level`.
    pub isolation_level: IsolationLevel,
    /// `max.poll.records`.
    pub max_poll_records: usize,
    /// `max.poll.interval.ms`: a member that polls less often leaves the group.
    pub max_poll_interval: Duration,
    /// `session.timeout.ms`; this and the next two only with `group.protocol=classic`.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// `partition.assignment.strategy`: assignors by name, the preferred one first.
    pub partition_assignment_strategy: Vec<String>,
    /// `fetch.min.bytes`.
    pub fetch_min_bytes: usize,
    /// `fetch.max.wait.ms`.
    pub fetch_max_wait: Duration,
    /// `fetch.max.bytes`.
    pub fetch_max_bytes: usize,
    /// `max.partition.fetch.bytes`.
    pub max_partition_fetch_bytes: usize,
    /// `check.crcs`.
    pub check_crcs: bool,
    /// `default.api.timeout.ms`: how long a call may take, all its attempts together.
    pub default_api_timeout: Duration,
    /// `exclude.internal.topics`: patterns do not match the brokers' own topics.
    pub exclude_internal_topics: bool,
}

/// The assignors by the names that the protocol gives them, and Kafka's class names for them.
const ASSIGNORS: [(&str, &str); 4] = [
    ("range", "RangeAssignor"),
    ("roundrobin", "RoundRobinAssignor"),
    ("sticky", "StickyAssignor"),
    ("cooperative-sticky", "CooperativeStickyAssignor"),
];

impl ConsumerConfig {
    /// The defaults, for the brokers of `bootstrap` (`host:port`, comma separated).
    pub fn to(bootstrap: &str) -> Self {
        Self {
            cluster: ClusterConfig::to(bootstrap),
            group_id: None,
            group_instance_id: None,
            group_protocol: GroupProtocol::Classic,
            group_remote_assignor: None,
            client_rack: String::new(),
            enable_auto_commit: true,
            auto_commit_interval: Duration::from_secs(5),
            auto_offset_reset: AutoOffsetReset::Latest,
            isolation_level: IsolationLevel::ReadUncommitted,
            max_poll_records: 500,
            max_poll_interval: Duration::from_secs(300),
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(3),
            partition_assignment_strategy: vec!["range".into(), "cooperative-sticky".into()],
            fetch_min_bytes: 1,
            fetch_max_wait: Duration::from_millis(500),
            fetch_max_bytes: 50 << 20,
            max_partition_fetch_bytes: 1 << 20,
            check_crcs: true,
            default_api_timeout: Duration::from_secs(60),
            exclude_internal_topics: true,
        }
    }

    /// From properties by Kafka's names.
    ///
    /// # Errors
    /// With all that is unknown or wrong.
    pub fn from_properties(given: &Properties) -> Result<Self, Error> {
        let mut reader = Reader::new(given);
        let config = Self::read(&mut reader);
        refuse_settings_of_the_other(&mut reader, config.group_protocol);
        let is_classic = config.group_protocol == GroupProtocol::Classic;
        if is_classic && config.heartbeat_interval >= config.session_timeout {
            reader.fault("heartbeat.interval.ms: must be below session.timeout.ms");
        }
        reader.finish(config)
    }

    fn read(reader: &mut Reader<'_>) -> Self {
        const INT_MAX: i64 = i32::MAX as i64;
        let default = Self::to("");
        let levels = [
            ("read_uncommitted", IsolationLevel::ReadUncommitted),
            ("read_committed", IsolationLevel::ReadCommitted),
        ];
        let protocols = [
            ("classic", GroupProtocol::Classic),
            ("consumer", GroupProtocol::Consumer),
        ];
        let name = |text: Option<&str>| text.filter(|it| !it.is_empty()).map(str::to_owned);
        Self {
            cluster: cluster::read(reader),
            group_id: name(reader.text("group.id")),
            group_instance_id: name(reader.text("group.instance.id")),
            group_protocol: reader.choice("group.protocol", default.group_protocol, &protocols),
            group_remote_assignor: name(reader.text("group.remote.assignor")),
            client_rack: name(reader.text("client.rack")).unwrap_or_default(),
            enable_auto_commit: reader.flag("enable.auto.commit", default.enable_auto_commit),
            auto_commit_interval: reader.millis(
                "auto.commit.interval.ms",
                default.auto_commit_interval,
                0,
            ),
            auto_offset_reset: reader.parsed(
                "auto.offset.reset",
                default.auto_offset_reset,
                "one of earliest, latest, none, by_duration:<ISO 8601>",
                offset_reset,
            ),
            isolation_level: reader.choice("isolation.level", default.isolation_level, &levels),
            max_poll_records: reader.size(
                "max.poll.records",
                default.max_poll_records,
                1..=INT_MAX,
            ),
            max_poll_interval: reader.millis("max.poll.interval.ms", default.max_poll_interval, 1),
            session_timeout: reader.millis("session.timeout.ms", default.session_timeout, 1),
            heartbeat_interval: reader.millis(
                "heartbeat.interval.ms",
                default.heartbeat_interval,
                1,
            ),
            partition_assignment_strategy: reader.parsed(
                "partition.assignment.strategy",
                default.partition_assignment_strategy,
                "some of range, roundrobin, sticky, cooperative-sticky",
                assignors,
            ),
            fetch_min_bytes: reader.size("fetch.min.bytes", default.fetch_min_bytes, 0..=INT_MAX),
            fetch_max_wait: reader.millis("fetch.max.wait.ms", default.fetch_max_wait, 0),
            fetch_max_bytes: reader.size("fetch.max.bytes", default.fetch_max_bytes, 0..=INT_MAX),
            max_partition_fetch_bytes: reader.size(
                "max.partition.fetch.bytes",
                default.max_partition_fetch_bytes,
                0..=INT_MAX,
            ),
            check_crcs: reader.flag("check.crcs", default.check_crcs),
            default_api_timeout: reader.millis(
                "default.api.timeout.ms",
                default.default_api_timeout,
                0,
            ),
            exclude_internal_topics: reader.flag("exclude.internal.topics", true),
        }
    }
}

/// Settings of the other protocol would change nothing: they are refused, as Kafka's client does.
fn refuse_settings_of_the_other(reader: &mut Reader<'_>, protocol: GroupProtocol) {
    match protocol {
        GroupProtocol::Classic => {
            if reader.is_given("group.remote.assignor") {
                reader.fault("group.remote.assignor: group.protocol=classic has members assign");
            }
        }
        GroupProtocol::Consumer => {
            for (name, whose) in [
                ("session.timeout.ms", "group.consumer.session.timeout.ms"),
                (
                    "heartbeat.interval.ms",
                    "group.consumer.heartbeat.interval.ms",
                ),
                ("partition.assignment.strategy", "group.consumer.assignors"),
            ] {
                if reader.is_given(name) {
                    let fault = format!(
                        "{name}: group.protocol=consumer leaves it to the brokers' {whose}"
                    );
                    reader.fault(fault);
                }
            }
        }
    }
}

fn offset_reset(text: &str) -> Option<AutoOffsetReset> {
    match text.to_ascii_lowercase().as_str() {
        "earliest" => Some(AutoOffsetReset::Earliest),
        "latest" => Some(AutoOffsetReset::Latest),
        "none" => Some(AutoOffsetReset::None),
        other => other
            .strip_prefix("by_duration:")
            .and_then(iso_duration)
            .map(AutoOffsetReset::ByDuration),
    }
}

/// ISO 8601 as Java reads it: `P1DT2H3M4.5S`, lower case here.
fn iso_duration(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('p')?;
    let (days, time) = text.split_once('t').unwrap_or((text, ""));
    let mut seconds = 0.0;
    let mut parts = 0;
    for (part, units) in [
        (days, &[('d', 86_400.0)][..]),
        (time, &[('h', 3_600.0), ('m', 60.0), ('s', 1.0)]),
    ] {
        let mut rest = part;
        for (unit, factor) in units {
            if let Some((number, behind)) = rest.split_once(*unit) {
                seconds += number.parse::<f64>().ok()? * factor;
                rest = behind;
                parts += 1;
            }
        }
        if !rest.is_empty() {
            return None;
        }
    }
    (parts > 0).then(|| Duration::try_from_secs_f64(seconds).ok())?
}

fn assignors(text: &str) -> Option<Vec<String>> {
    let one = |name: &str| {
        let class = name.rsplit('.').next().unwrap_or(name);
        let found = ASSIGNORS
            .iter()
            .find(|(short, long)| *short == name || *long == class);
        found.map(|(short, _)| (*short).to_owned())
    };
    text.split(',').map(|name| one(name.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_other_group_protocol_needs_is_refused() {
        let read = |given: &[(&str, &str)]| {
            let all = [("bootstrap.servers", "a:1")].iter().chain(given);
            let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            ConsumerConfig::from_properties(&all.map(pair).collect())
        };
        let config = read(&[
            ("group.protocol", "consumer"),
            ("group.remote.assignor", "range"),
        ]);
        let config = config.expect("valid");
        assert_eq!(config.group_protocol, GroupProtocol::Consumer);
        assert_eq!(config.group_remote_assignor.as_deref(), Some("range"));
        let refused = |given: &[(&str, &str)]| match read(given) {
            Err(Error::Config(faults)) => faults,
            other => panic!("accepted: {other:?}"),
        };
        assert_eq!(
            refused(&[
                ("group.protocol", "CONSUMER"),
                ("session.timeout.ms", "6000"),
                ("heartbeat.interval.ms", "300"),
                ("partition.assignment.strategy", "range"),
            ]),
            [
                "session.timeout.ms: group.protocol=consumer leaves it to the brokers' \
                 group.consumer.session.timeout.ms",
                "heartbeat.interval.ms: group.protocol=consumer leaves it to the brokers' \
                 group.consumer.heartbeat.interval.ms",
                "partition.assignment.strategy: group.protocol=consumer leaves it to the brokers' \
                 group.consumer.assignors",
            ]
        );
        assert_eq!(
            refused(&[("group.remote.assignor", "uniform")]),
            ["group.remote.assignor: group.protocol=classic has members assign"]
        );
    }

    #[test]
    fn durations_and_assignors_are_read_as_kafka_writes_them() {
        for (text, seconds) in [("pt1h30m", 5_400.0), ("p1d", 86_400.0), ("pt0.5s", 0.5)] {
            assert_eq!(iso_duration(text).map(|it| it.as_secs_f64()), Some(seconds));
        }
        for wrong in ["", "p", "pt", "1h", "pt1x", "pt-1s"] {
            assert_eq!(iso_duration(wrong), None, "{wrong}");
        }
        let java = "org.apache.kafka.clients.consumer.StickyAssignor, range";
        assert_eq!(assignors(java), Some(vec!["sticky".into(), "range".into()]));
        assert_eq!(assignors("nearest"), None);
    }
}
