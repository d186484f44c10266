//! Configs as tools show them: value, where it comes from, what else is set. Knows nothing of the
//! wire but the numbers that Kafka gives to sources.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Config, Configs, TABLE};
use crate::cluster::image::{Image, Topic};

/// Where a config's value comes from, by DescribeConfigs' numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i8)]
pub enum Source {
    /// Set on the topic.
    DynamicTopic = 1,
    /// Set on this broker.
    DynamicBroker = 2,
    /// Set for all brokers.
    DynamicDefaultBroker = 3,
    /// From the broker's configuration file.
    StaticBroker = 4,
    /// Set by nobody.
    Default = 5,
}

/// One place where a config has a value, in the order in which they are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synonym {
    /// The config's name there.
    pub name: String,
    /// Its value there.
    pub value: String,
    /// Where.
    pub source: Source,
}

/// One config with all that a tool shows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where the value comes from.
    pub source: Source,
    /// All values that it has, the winning one first.
    pub synonyms: Vec<Synonym>,
    /// Its kind, by DescribeConfigs' numbers.
    pub kind: i8,
    /// What it means.
    pub doc: String,
    /// Whether it can only be set in the broker's file.
    pub read_only: bool,
}

impl Described {
    fn from_synonyms(name: &str, synonyms: Vec<Synonym>, config: &Config) -> Self {
        let first = synonyms.first().expect("the default is always among them");
        Self {
            name: name.to_string(),
            value: first.value.clone(),
            source: first.source,
            kind: config.kind.code(),
            doc: config.doc.to_string(),
            read_only: false,
            synonyms,
        }
    }
}

/// Every config of a topic.
pub fn describe_topic(
    image: &Image,
    statics: &Configs,
    broker: i32,
    topic: &Topic,
) -> Vec<Described> {
    let describe = |config: &Config| {
        let mut synonyms = Vec::new();
        if let Some(value) = topic.configs.get(config.name) {
            let source = Source::DynamicTopic;
            synonyms.push(Synonym {
                name: config.name.into(),
                value: value.clone(),
                source,
            });
        }
        push_broker_synonyms(&mut synonyms, image, statics, broker, config);
        Described::from_synonyms(config.name, synonyms, config)
    };
    TABLE.iter().map(describe).collect()
}

/// Every config of a broker: the defaults of topic configs by the broker's names for them, which can
/// be changed while it runs, then the settings of its file, which cannot.
pub fn describe_broker(image: &Image, statics: &Configs, broker: i32) -> Vec<Described> {
    let describe = |config: &Config| {
        let name = config.broker_name?;
        let mut synonyms = Vec::new();
        push_broker_synonyms(&mut synonyms, image, statics, broker, config);
        Some(Described::from_synonyms(name, synonyms, config))
    };
    let mut described: Vec<Described> = TABLE.iter().filter_map(describe).collect();
    for (name, value) in statics {
        if described.iter().any(|known| known.name == *name) {
            continue;
        }
        let (name, value, source) = (name.clone(), value.clone(), Source::StaticBroker);
        let synonym = Synonym {
            name: name.clone(),
            value: value.clone(),
            source,
        };
        described.push(Described {
            name,
            value,
            source,
            synonyms: alloc::vec![synonym],
            kind: super::Kind::Text(&[]).code(),
            doc: String::new(),
            read_only: true,
        });
    }
    described
}

fn push_broker_synonyms(
    synonyms: &mut Vec<Synonym>,
    image: &Image,
    statics: &Configs,
    broker: i32,
    config: &Config,
) {
    let default_name = config.broker_name.unwrap_or(config.name);
    if let Some(name) = config.broker_name {
        let places = [
            (image.broker_configs(broker), Source::DynamicBroker),
            (Some(image.broker_defaults()), Source::DynamicDefaultBroker),
            (Some(statics), Source::StaticBroker),
        ];
        for (configs, source) in places {
            if let Some(value) = configs.and_then(|configs| configs.get(name)) {
                synonyms.push(Synonym {
                    name: name.into(),
                    value: value.clone(),
                    source,
                });
            }
        }
    }
    let (name, value) = (default_name.into(), config.default.into());
    synonyms.push(Synonym {
        name,
        value,
        source: Source::Default,
    });
}
