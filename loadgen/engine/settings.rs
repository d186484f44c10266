//! The clients' settings, from a workload and Kafka's property names. All that is wrong is said at once.
//! Knows nothing of what settings do.

use std::time::Duration;

use client::ClusterConfig;
use wire::Compression;

use crate::workload::fault::nearest;
use crate::workload::{Acks, Configs, Workload};

/// How records are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderSettings {
    /// `acks` as the protocol has it.
    pub acks: i16,
    /// `compression.type`.
    pub compression: Compression,
    /// `batch.size`.
    pub batch_bytes: usize,
    /// `linger.ms`.
    pub linger: Duration,
    /// `buffer.memory`.
    pub buffer_bytes: usize,
    /// `max.in.flight.requests.per.connection`.
    pub in_flight_max: usize,
    /// `max.request.size`.
    pub request_bytes_max: usize,
    /// `request.timeout.ms`.
    pub request_timeout: Duration,
    /// `delivery.timeout.ms`.
    pub delivery_timeout: Duration,
}

/// How records are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderSettings {
    /// `fetch.min.bytes`.
    pub min_bytes: i32,
    /// `fetch.max.wait.ms`.
    pub max_wait: Duration,
    /// `fetch.max.bytes`.
    pub max_bytes: i32,
    /// `max.partition.fetch.bytes`.
    pub partition_bytes_max: i32,
    /// `request.timeout.ms`.
    pub request_timeout: Duration,
}

/// Both, and what both have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// Of producers and consumers.
    pub cluster: ClusterConfig,
    /// Of producers.
    pub sender: SenderSettings,
    /// Of consumers.
    pub reader: ReaderSettings,
}

/// Takes configs one by one and keeps what is wrong.
struct Configured<'a> {
    setting: &'static str,
    given: &'a Configs,
    known: Vec<&'static str>,
    faults: Vec<String>,
}

impl<'a> Configured<'a> {
    fn new(setting: &'static str, given: &'a Configs) -> Self {
        Self {
            setting,
            given,
            known: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn number(&mut self, name: &'static str, default: u64, least: u64, most: u64) -> u64 {
        self.known.push(name);
        let Some(text) = self.given.get(name) else {
            return default;
        };
        match text.parse() {
            Ok(value) if (least..=most).contains(&value) => value,
            _ => {
                let setting = self.setting;
                self.faults.push(format!(
                    "{setting}: {name}: must be a number between {least} and {most}, not {text:?}"
                ));
                default
            }
        }
    }

    fn millis(&mut self, name: &'static str, default: u64) -> Duration {
        Duration::from_millis(self.number(name, default, 0, i32::MAX as u64))
    }

    fn bytes(&mut self, name: &'static str, default: u64) -> u64 {
        self.number(name, default, 1, i32::MAX as u64)
    }

    fn finish(mut self) -> Vec<String> {
        for name in self.given.keys() {
            if self.known.contains(&name.as_str()) {
                continue;
            }
            let near = nearest(name, self.known.iter().copied());
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            let setting = self.setting;
            self.faults
                .push(format!("{setting}: unknown config `{name}`{near}"));
        }
        self.faults
    }
}

impl ClientSettings {
    /// The settings of a workload's clients.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn new(bootstrap: &str, workload: &Workload) -> Result<Self, Vec<String>> {
        let mut producer = Configured::new("producer-config", &workload.producer_config);
        let sender = sender(&mut producer, workload);
        let mut consumer = Configured::new("consumer-config", &workload.consumer_config);
        let reader = reader(&mut consumer);
        let mut faults = producer.finish();
        faults.extend(consumer.finish());
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut cluster = ClusterConfig::to(bootstrap);
        "loadgen".clone_into(&mut cluster.client_id);
        cluster.allow_auto_create_topics = false;
        cluster.request_timeout = sender.request_timeout;
        Ok(Self {
            cluster,
            sender,
            reader,
        })
    }
}

fn sender(configs: &mut Configured<'_>, workload: &Workload) -> SenderSettings {
    let largest = workload.payload_size.largest() as u64;
    let in_flight = "max.in.flight.requests.per.connection";
    SenderSettings {
        acks: match workload.acks {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        },
        compression: match workload.compression.as_str() {
            "gzip" => Compression::Gzip,
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            _ => Compression::None,
        },
        batch_bytes: configs.bytes("batch.size", 16_384) as usize,
        linger: configs.millis("linger.ms", 5),
        buffer_bytes: configs.bytes("buffer.memory", 32 << 20) as usize,
        in_flight_max: configs.number(in_flight, 5, 1, 1_000) as usize,
        request_bytes_max: configs.bytes("max.request.size", (1 << 20).max(largest + 1_024))
            as usize,
        request_timeout: configs.millis("request.timeout.ms", 30_000),
        delivery_timeout: configs.millis("delivery.timeout.ms", 120_000),
    }
}

fn reader(configs: &mut Configured<'_>) -> ReaderSettings {
    let bytes = |value: u64| i32::try_from(value).unwrap_or(i32::MAX);
    ReaderSettings {
        min_bytes: bytes(configs.bytes("fetch.min.bytes", 1)),
        max_wait: configs.millis("fetch.max.wait.ms", 500),
        max_bytes: bytes(configs.bytes("fetch.max.bytes", 50 << 20)),
        partition_bytes_max: bytes(configs.bytes("max.partition.fetch.bytes", 1 << 20)),
        request_timeout: configs.millis("request.timeout.ms", 30_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::layers;

    #[test]
    fn all_wrong_configs_are_said_at_once_with_the_nearest_name() {
        let mut workload = layers::defaults();
        let configs = [("lingerms", "5"), ("batch.size", "huge")];
        for (name, value) in configs {
            workload
                .producer_config
                .insert(name.to_owned(), value.to_owned());
        }
        let faults = ClientSettings::new("localhost:9092", &workload).expect_err("wrong");
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(
            faults[0].starts_with("producer-config: batch.size: must be"),
            "{faults:?}"
        );
        assert!(
            faults[1].ends_with("did you mean `linger.ms`?"),
            "{faults:?}"
        );
    }

    #[test]
    fn configs_have_kafkas_defaults() {
        let settings = ClientSettings::new("localhost:9092", &layers::defaults()).expect("right");
        assert_eq!(settings.sender.batch_bytes, 16_384);
        assert_eq!(settings.sender.linger, Duration::from_millis(5));
        assert_eq!(settings.reader.max_wait, Duration::from_millis(500));
    }
}
