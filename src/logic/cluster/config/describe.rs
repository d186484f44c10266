//! Configs as tools show them: value, where it comes from, what else is set. Knows nothing of the
//! wire but the numbers that Kafka gives to sources.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::broker::{SETTINGS, Setting};
use super::{Config, Configs, Found, Kind, NO_EFFECT, TABLE, find_by_broker_name, sources, units};
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
    /// Set on the group.
    DynamicGroup = 8,
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

/// Every config of a topic.
pub fn describe_topic(
    image: &Image,
    statics: &Configs,
    broker: i32,
    topic: &Topic,
) -> Vec<Described> {
    let describe = |config: &'static Config| {
        described(
            config.name,
            sources(image, statics, broker, Some(topic), config),
            config,
        )
    };
    TABLE.iter().map(describe).collect()
}

/// Every config of a broker: the defaults of topic configs by the broker's names for them, which can
/// be changed while it runs, then the settings of its file, which cannot. `statics` should hold every
/// setting that the broker reads; others are shown with Kafka's default, and as without effect.
pub fn describe_broker(image: &Image, statics: &Configs, broker: i32) -> Vec<Described> {
    let describe = |config: &'static Config| {
        let sources = sources(image, statics, broker, None, config);
        Some(described(config.broker_name?, sources, config))
    };
    let mut all: Vec<Described> = TABLE.iter().filter_map(describe).collect();
    all.extend(
        SETTINGS
            .iter()
            .filter_map(|setting| described_setting(statics, setting)),
    );
    all.extend(units::COARSER.iter().filter_map(|coarser| {
        let value = statics.get(coarser.name)?;
        let doc = format!("{} in a coarser unit, where that is not set.", coarser.of);
        let source = Source::StaticBroker;
        Some(read_only(coarser.name, value, source, coarser.kind, doc))
    }));
    let unknown =
        |name: &str| find_by_broker_name(name).is_none() && !super::is_broker_setting(name);
    let others = statics.iter().filter(|(name, _)| unknown(name));
    all.extend(others.map(|(name, value)| {
        let kind = Kind::Text(&[]);
        read_only(name, value, Source::StaticBroker, kind, String::new())
    }));
    all
}

/// What is set for all brokers and can be changed while they run.
pub fn describe_broker_defaults(image: &Image) -> Vec<Described> {
    let describe = |(name, value): (&String, &String)| {
        let config = find_by_broker_name(name)?;
        let set = Found {
            source: Source::DynamicDefaultBroker,
            name: config.broker_name?,
            value,
            coarser: None,
        };
        let mut described = described(name, vec![set], config);
        described.synonyms.truncate(1);
        Some(described)
    };
    image
        .broker_defaults()
        .iter()
        .filter_map(describe)
        .collect()
}

fn described(name: &str, mut sources: Vec<Found<'_>>, config: &Config) -> Described {
    // The broker's settings hold its defaults too, which nobody has set.
    let is_default = |found: &Found<'_>| found.in_ms() == config.default;
    sources.retain(|found| found.source != Source::StaticBroker || !is_default(found));
    let default = Found {
        source: Source::Default,
        name: config.broker_name.unwrap_or(config.name),
        value: config.default,
        coarser: None,
    };
    let winner = sources.first().unwrap_or(&default);
    let (value, source) = (winner.in_ms().into_owned(), winner.source);
    let synonyms = sources.iter().chain([&default]).map(|found| Synonym {
        name: found.name.into(),
        value: found.value.into(),
        source: found.source,
    });
    Described {
        name: name.into(),
        value,
        source,
        kind: config.kind.code(),
        doc: config.documentation(),
        read_only: false,
        synonyms: synonyms.collect(),
    }
}

fn described_setting(statics: &Configs, setting: &Setting) -> Option<Described> {
    let Setting {
        name,
        kind,
        default,
        doc,
    } = *setting;
    match (statics.get(name), default) {
        (Some(value), default) => {
            let source = match default {
                Some(default) if default == value => Source::Default,
                _ => Source::StaticBroker,
            };
            Some(read_only(name, value, source, kind, doc.into()))
        }
        (None, Some(default)) => {
            let doc = format!("{doc} ({NO_EFFECT})");
            Some(read_only(name, default, Source::Default, kind, doc))
        }
        (None, None) => None,
    }
}

fn read_only(name: &str, value: &str, source: Source, kind: Kind, doc: String) -> Described {
    let synonym = Synonym {
        name: name.into(),
        value: value.into(),
        source,
    };
    Described {
        name: name.into(),
        value: value.into(),
        source,
        synonyms: vec![synonym],
        kind: kind.code(),
        doc,
        read_only: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Record;
    use crate::ids::TopicId;

    const ID: TopicId = TopicId([1; 16]);

    fn image() -> Image {
        let mut image = Image::default();
        let (name, assignments) = ("t".into(), vec![vec![1]]);
        image.replay(&Record::TopicCreated {
            id: ID,
            name,
            assignments,
        });
        image
    }

    fn find(all: &[Described], name: &str) -> Described {
        let found: Vec<_> = all.iter().filter(|one| one.name == name).collect();
        assert_eq!(found.len(), 1, "{name} once");
        found[0].clone()
    }

    #[test]
    fn a_topic_shows_every_config_with_value_source_synonyms_type_and_doc() {
        let (mut image, mut statics) = (image(), Configs::new());
        statics.insert("log.retention.ms".into(), "4".into());
        for (broker, value) in [(None, "3"), (Some(1), "2")] {
            let (key, value) = ("log.retention.ms".into(), Some(value.into()));
            image.replay(&Record::BrokerConfigSet { broker, key, value });
        }
        let (key, value) = ("retention.ms".into(), Some("1".into()));
        image.replay(&Record::TopicConfigSet { id: ID, key, value });
        let all = describe_topic(&image, &statics, 1, image.topic(ID).unwrap());
        assert_eq!(all.len(), TABLE.len());
        assert!(all.iter().all(|one| !one.doc.is_empty() && !one.read_only));
        let retention = find(&all, "retention.ms");
        assert_eq!(
            (retention.value.as_str(), retention.source),
            ("1", Source::DynamicTopic)
        );
        assert_eq!(retention.kind, 5);
        let synonyms: Vec<_> = retention
            .synonyms
            .iter()
            .map(|one| (one.source, &*one.value))
            .collect();
        assert_eq!(
            synonyms,
            [
                (Source::DynamicTopic, "1"),
                (Source::DynamicBroker, "2"),
                (Source::DynamicDefaultBroker, "3"),
                (Source::StaticBroker, "4"),
                (Source::Default, "604800000"),
            ]
        );
        assert_eq!(retention.synonyms[0].name, "retention.ms");
        assert!(
            retention.synonyms[1..]
                .iter()
                .all(|one| one.name == "log.retention.ms")
        );
    }

    #[test]
    fn a_config_without_effect_says_so_and_one_with_effect_does_not() {
        let image = image();
        let all = describe_topic(&image, &Configs::new(), 1, image.topic(ID).unwrap());
        for (config, described) in TABLE.iter().zip(&all) {
            assert_eq!(
                described.doc.contains(NO_EFFECT),
                !config.effect,
                "{}",
                config.name
            );
        }
    }

    #[test]
    fn a_broker_shows_its_changeable_defaults_and_its_file() {
        let (mut image, mut statics) = (image(), Configs::new());
        statics.insert("num.partitions".into(), "3".into());
        statics.insert("message.max.bytes".into(), "7".into());
        statics.insert("corelog.shards".into(), "2".into());
        statics.insert("log.segment.bytes".into(), "1073741824".into());
        let (key, value) = ("log.retention.ms".into(), Some("9".into()));
        image.replay(&Record::BrokerConfigSet {
            broker: None,
            key,
            value,
        });
        let all = describe_broker(&image, &statics, 1);
        let brief = |name| {
            let found = find(&all, name);
            (found.value, found.source, found.read_only)
        };
        assert_eq!(
            brief("num.partitions"),
            ("3".into(), Source::StaticBroker, true)
        );
        assert_eq!(
            brief("message.max.bytes"),
            ("7".into(), Source::StaticBroker, false)
        );
        assert_eq!(
            brief("corelog.shards"),
            ("2".into(), Source::StaticBroker, true)
        );
        assert_eq!(
            brief("log.retention.ms"),
            ("9".into(), Source::DynamicDefaultBroker, false)
        );
        assert_eq!(
            brief("log.segment.bytes"),
            ("1073741824".into(), Source::Default, false)
        );
        assert!(
            find(&all, "offsets.retention.minutes")
                .doc
                .contains(NO_EFFECT)
        );
        assert!(
            all.iter().all(|one| one.name != "log.dirs"),
            "unset and without a default"
        );
        let defaults = describe_broker_defaults(&image);
        assert_eq!(defaults.len(), 1);
        assert_eq!(defaults[0].synonyms.len(), 1);
    }

    #[test]
    fn a_coarser_unit_is_a_synonym_in_its_own_unit() {
        let (image, mut statics) = (image(), Configs::new());
        statics.insert("log.retention.hours".into(), "24".into());
        let all = describe_topic(&image, &statics, 1, image.topic(ID).unwrap());
        let retention = find(&all, "retention.ms");
        assert_eq!(
            (&*retention.value, retention.source),
            ("86400000", Source::StaticBroker)
        );
        let first = &retention.synonyms[0];
        assert_eq!((&*first.name, &*first.value), ("log.retention.hours", "24"));
        let all = describe_broker(&image, &statics, 1);
        assert!(find(&all, "log.retention.hours").read_only);
        assert_eq!(find(&all, "log.retention.ms").value, "86400000");
    }

    #[test]
    fn every_config_with_a_brokers_name_is_shown_once_per_broker() {
        let all = describe_broker(&image(), &Configs::new(), 1);
        for config in TABLE {
            if let Some(name) = config.broker_name {
                find(&all, name);
            }
        }
    }
}
