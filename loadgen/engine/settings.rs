//! The clients' settings: those of the library, from a workload and Kafka's property names. Knows nothing of
//! what settings do.

use client::{ConsumerConfig, Error, ProducerConfig, Properties, Transport};

use crate::workload::{Configs, Workload};

/// How the clients call themselves.
const CLIENT_ID: &str = "loadgen";
/// `max.request.size` when nobody says otherwise, unless values are larger.
const REQUEST_BYTES: usize = 1 << 20;
/// What a record and its batch take beyond the value, at most.
const OVERHEAD_BYTES: usize = 1024;

/// The settings of a workload's clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// Of producers.
    pub producer: ProducerConfig,
    /// Of consumers.
    pub consumer: ConsumerConfig,
}

impl ClientSettings {
    /// The settings of a workload's clients, for the brokers of `bootstrap`.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn new(bootstrap: &str, workload: &Workload) -> Result<Self, Vec<String>> {
        let mut producer = properties(bootstrap, &workload.producer_config);
        let own = [
            ("acks", workload.acks.as_str()),
            ("compression.type", &workload.compression),
        ];
        for (name, value) in own {
            producer.insert(name.to_owned(), value.to_owned());
        }
        let needed = REQUEST_BYTES.max(workload.payload_size.largest() + OVERHEAD_BYTES);
        let size = producer.entry("max.request.size".to_owned());
        size.or_insert_with(|| needed.to_string());
        let mut consumer = properties(bootstrap, &workload.consumer_config);
        // A run reads all of its topics, also what came before a consumer had its partitions.
        let reset = consumer.entry("auto.offset.reset".to_owned());
        reset.or_insert_with(|| "earliest".to_owned());
        let producer = ProducerConfig::from_properties(&producer);
        let consumer = ConsumerConfig::from_properties(&consumer);
        match (producer, consumer) {
            (Ok(mut producer), Ok(consumer)) => {
                producer.cluster.allow_auto_create_topics = false;
                Ok(Self { producer, consumer })
            }
            (producer, consumer) => {
                let mut faults = said("producer-config", producer.err());
                faults.extend(said("consumer-config", consumer.err()));
                Err(faults)
            }
        }
    }

    /// The same, for brokers that are reached in another way.
    #[must_use]
    pub fn through(mut self, transport: &Transport) -> Self {
        self.producer.cluster.transport = transport.clone();
        self.consumer.cluster.transport = transport.clone();
        self
    }
}

fn properties(bootstrap: &str, configs: &Configs) -> Properties {
    let mut properties = configs.clone();
    let own = [("bootstrap.servers", bootstrap), ("client.id", CLIENT_ID)];
    for (name, value) in own {
        let entry = properties.entry(name.to_owned());
        entry.or_insert_with(|| value.to_owned());
    }
    properties
}

/// What is wrong, each with the setting that it was written in.
fn said(setting: &str, error: Option<Error>) -> Vec<String> {
    match error {
        None => Vec::new(),
        Some(Error::Config(faults)) => {
            let faults = faults.into_iter();
            faults.map(|fault| format!("{setting}: {fault}")).collect()
        }
        Some(error) => vec![format!("{setting}: {error}")],
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::workload::layers;

    #[test]
    fn all_wrong_configs_are_said_at_once_with_the_nearest_name() {
        let mut workload = layers::defaults();
        let set = |configs: &mut Configs, name: &str, value: &str| {
            configs.insert(name.to_owned(), value.to_owned());
        };
        set(&mut workload.producer_config, "lingerms", "5");
        set(&mut workload.producer_config, "batch.size", "huge");
        set(&mut workload.consumer_config, "fetch.min.bytes", "few");
        let faults = ClientSettings::new("localhost:9092", &workload).expect_err("wrong");
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(
            faults[0].starts_with("producer-config: batch.size"),
            "{faults:?}"
        );
        assert!(faults[1].contains("linger.ms"), "{faults:?}");
        assert!(
            faults[2].starts_with("consumer-config: fetch.min.bytes"),
            "{faults:?}"
        );
    }

    #[test]
    fn a_workloads_own_settings_reach_the_clients() {
        let flags = [
            ("acks", "1"),
            ("compression", "lz4"),
            ("payload-size", "2MiB"),
        ];
        let flags = flags.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let loaded = layers::load("steady", &flags).unwrap_or_else(|faults| panic!("{faults}"));
        let settings = ClientSettings::new("localhost:9092", &loaded.workload).expect("right");
        assert_eq!(settings.producer.acks, client::properties::Acks::Leader);
        assert_eq!(settings.producer.compression, wire::Compression::Lz4);
        assert!(settings.producer.max_request_size > 2 << 20);
        assert_eq!(settings.producer.linger, Duration::from_millis(5));
        assert_eq!(settings.consumer.cluster.client_id, "loadgen");
    }
}
