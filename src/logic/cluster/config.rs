//! Topic configs: what each is called, may hold and defaults to, and what a topic's configs resolve
//! to. Knows nothing of who set them or of the wire.

mod table;
mod value;

pub mod units;

pub mod group;

mod broker;
mod describe;

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub use describe::{
    Described, Source, Synonym, describe_broker, describe_broker_defaults, describe_topic,
};
pub use table::{Config, NO_EFFECT, TABLE};
pub use value::{Kind, VALUE_BYTES_MAX};
use wire::compression::Compression;
use wire::folding::Folding;

use super::image::{Image, Topic};
use crate::partition::leader::{Durability, Rules};

/// Of a value that is refused, so many characters are shown.
const SHOWN_CHARS_MAX: usize = 200;

/// Configs by name.
pub type Configs = BTreeMap<String, String>;

/// The config of this name, or Kafka's complaint.
pub fn find(name: &str) -> Result<&'static Config, String> {
    TABLE
        .iter()
        .find(|config| config.name == name)
        .ok_or_else(|| format!("Unknown topic config name: {name}"))
}

/// The topic config whose default this broker config is.
pub fn find_by_broker_name(name: &str) -> Option<&'static Config> {
    TABLE.iter().find(|config| config.broker_name == Some(name))
}

/// Whether brokers know a setting of this name that only their file can change.
pub fn is_broker_setting(name: &str) -> bool {
    broker::find(name).is_some() || units::find(name).is_some()
}

/// Checks a value for a topic config and returns it as it is kept.
pub fn validate(name: &str, value: &str) -> Result<String, String> {
    check(name, find(name)?.kind, value)
}

fn check(name: &str, kind: Kind, value: &str) -> Result<String, String> {
    kind.check(value.trim()).map_err(|problem| {
        // The complaint goes back to whoever sent the value: not all of a megabyte.
        let shown: String = value.chars().take(SHOWN_CHARS_MAX).collect();
        format!("Invalid value {shown} for configuration {name}: {problem}")
    })
}

/// What is wrong with a topic's configs taken together, each being allowed by itself.
pub fn check_together(resolved: &Resolved<'_>) -> Result<(), String> {
    if resolved.get("remote.storage.enable") == "true" {
        return Err(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be \
                    configured with remote log storage."
                .into(),
        );
    }
    let least = resolved.number("min.compaction.lag.ms");
    let most = resolved.number("max.compaction.lag.ms");
    if least > most {
        return Err(format!(
            "conflict topic config setting min.compaction.lag.ms ({least}) > \
             max.compaction.lag.ms ({most})"
        ));
    }
    Ok(())
}

/// A topic's configs after all sources: the topic's own, then the broker's, then the default.
pub struct Resolved<'a> {
    image: &'a Image,
    statics: &'a Configs,
    broker: i32,
    topic: Option<&'a Topic>,
}

impl<'a> Resolved<'a> {
    /// Resolves for one topic, or for none: what a topic without configs would get. `statics` are
    /// the broker's settings from its file, by the brokers' names for them.
    pub fn new(
        image: &'a Image,
        statics: &'a Configs,
        broker: i32,
        topic: Option<&'a Topic>,
    ) -> Self {
        Self {
            image,
            statics,
            broker,
            topic,
        }
    }

    /// The value of a config in the table: from the first source that has one which is allowed. Others
    /// can only come from a file or an older version, and are passed over.
    pub fn get(&self, name: &str) -> Cow<'a, str> {
        let config = TABLE.iter().find(|config| config.name == name);
        let config = config.expect("only configs in the table are asked for");
        let sources = sources(self.image, self.statics, self.broker, self.topic, config);
        sources
            .into_iter()
            .next()
            .map_or(Cow::Borrowed(config.default), |found| found.in_ms())
    }

    /// A whole number. What is in the table or was validated is one.
    pub fn number(&self, name: &str) -> i64 {
        self.get(name).parse().unwrap_or(0)
    }

    /// Whether `cleanup.policy` holds this word.
    pub fn has_policy(&self, word: &str) -> bool {
        self.get("cleanup.policy")
            .split(',')
            .any(|it| it.trim() == word)
    }

    /// The codec in which batches are written and its level; none for the one in which a producer sends them.
    pub fn folding(&self) -> Option<Folding> {
        let level = |name| i32::try_from(self.number(name)).unwrap_or(0);
        match &*self.get("compression.type") {
            "uncompressed" => Some(Compression::None.into()),
            "gzip" => {
                let level = level("compression.gzip.level");
                Some(Folding::at_level(Compression::Gzip, level))
            }
            "snappy" => Some(Compression::Snappy.into()),
            "lz4" => {
                let level = level("compression.lz4.level");
                Some(Folding::at_level(Compression::Lz4, level))
            }
            "zstd" => {
                let level = level("compression.zstd.level");
                Some(Folding::at_level(Compression::Zstd, level))
            }
            _ => None,
        }
    }

    /// What the leader of one of the topic's partitions applies.
    pub fn rules(&self) -> Rules {
        let clamp = |name| u32::try_from(self.number(name)).unwrap_or(u32::MAX);
        Rules {
            message_bytes_max: clamp("max.message.bytes"),
            compacted: self.has_policy("compact"),
            append_time: self.get("message.timestamp.type") == "LogAppendTime",
            timestamp_before_ms_max: self.number("message.timestamp.before.max.ms"),
            timestamp_after_ms_max: self.number("message.timestamp.after.max.ms"),
            in_sync_min: clamp("min.insync.replicas"),
            durability: match &*self.get("durability") {
                "replicated" => Durability::Replicated,
                _ => Durability::Flush,
            },
            flush_records_max: self.number("flush.messages"),
            flush_ms_max: self.number("flush.ms"),
        }
    }
}

/// One place where a config has an allowed value.
struct Found<'a> {
    source: Source,
    /// The config's name there.
    name: &'static str,
    /// Its value there, in the unit of that name.
    value: &'a str,
    coarser: Option<&'static units::Coarser>,
}

impl<'a> Found<'a> {
    /// The value in the config's own unit.
    fn in_ms(&self) -> Cow<'a, str> {
        let converted = self.coarser.and_then(|coarser| coarser.in_ms(self.value));
        converted.unwrap_or(Cow::Borrowed(self.value))
    }
}

/// Where a config has an allowed value, the winning place first. The default is not among them.
fn sources<'a>(
    image: &'a Image,
    statics: &'a Configs,
    broker: i32,
    topic: Option<&'a Topic>,
    config: &'static Config,
) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    let mut look = |configs: Option<&'a Configs>, source, name: Option<&'static str>| {
        let entry = configs
            .zip(name)
            .and_then(|(configs, name)| Some((name, configs.get(name)?)));
        if let Some((name, value)) = entry
            && config.kind.check(value).is_ok()
        {
            found.push(Found {
                source,
                name,
                value,
                coarser: None,
            });
        }
    };
    look(
        topic.map(|topic| &topic.configs),
        Source::DynamicTopic,
        Some(config.name),
    );
    look(
        image.broker_configs(broker),
        Source::DynamicBroker,
        config.broker_name,
    );
    look(
        Some(image.broker_defaults()),
        Source::DynamicDefaultBroker,
        config.broker_name,
    );
    look(Some(statics), Source::StaticBroker, config.broker_name);
    let coarser = units::COARSER
        .iter()
        .filter(|coarser| config.broker_name == Some(coarser.of));
    found.extend(coarser.filter_map(|coarser| {
        let value = statics.get(coarser.name)?;
        coarser.in_ms(value)?;
        Some(Found {
            source: Source::StaticBroker,
            name: coarser.name,
            value,
            coarser: Some(coarser),
        })
    }));
    found
}

/// Applies APPEND or SUBTRACT to a list config's value.
pub fn edit_list(name: &str, current: &str, edit: &str, append: bool) -> Result<String, String> {
    if !find(name)?.kind.is_list() {
        return Err(format!(
            "Config value append or subtract is not allowed for config key: {name}, because its \
             type is not a list"
        ));
    }
    let mut kept = value::items(current);
    for item in value::items(edit) {
        if !append {
            kept.retain(|known| *known != item);
        } else if !kept.contains(&item) {
            kept.push(item);
        }
    }
    Ok(kept.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_passes_its_own_check() {
        for config in TABLE {
            assert_eq!(
                config.kind.check(config.default),
                Ok(config.default.into()),
                "{}",
                config.name
            );
        }
    }

    #[test]
    fn names_are_unique_and_sorted() {
        for pair in TABLE.windows(2) {
            assert!(
                pair[0].name < pair[1].name,
                "{} before {}",
                pair[0].name,
                pair[1].name
            );
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        for (name, value) in [
            ("segment.bytes", "1048575"),
            ("segment.bytes", "2147483648"),
            ("retention.ms", "-2"),
            ("retention.ms", "soon"),
            ("cleanup.policy", "shred"),
            ("min.cleanable.dirty.ratio", "1.1"),
            ("unclean.leader.election.enable", "yes"),
            ("compression.type", "rar"),
            ("min.insync.replicas", "0"),
            ("durability", "memory"),
        ] {
            assert!(validate(name, value).is_err(), "{name}={value}");
        }
        assert_eq!(
            validate("nope", "1"),
            Err("Unknown topic config name: nope".into())
        );
        assert_eq!(
            validate("cleanup.policy", "compact, delete"),
            Ok("compact,delete".into())
        );
    }

    #[test]
    fn a_topic_value_wins_over_the_broker_which_wins_over_the_default() {
        let mut image = Image::default();
        let mut statics = Configs::new();
        let get = |image: &Image, statics: &Configs| {
            Resolved::new(image, statics, 1, image.topic_by_name("t")).number("retention.ms")
        };
        use super::super::Record;
        let id = crate::ids::TopicId([1; 16]);
        let assignments = alloc::vec![alloc::vec![1]];
        image.replay(&Record::TopicCreated {
            id,
            name: "t".into(),
            assignments,
        });
        assert_eq!(get(&image, &statics), 604_800_000);
        statics.insert("log.retention.ms".into(), "5".into());
        assert_eq!(get(&image, &statics), 5);
        let set = |broker, value: &str| Record::BrokerConfigSet {
            broker,
            key: "log.retention.ms".into(),
            value: Some(value.into()),
        };
        image.replay(&set(None, "6"));
        assert_eq!(get(&image, &statics), 6);
        image.replay(&set(Some(1), "7"));
        assert_eq!(get(&image, &statics), 7);
        let value = Some("8".into());
        image.replay(&Record::TopicConfigSet {
            id,
            key: "retention.ms".into(),
            value,
        });
        assert_eq!(get(&image, &statics), 8);
    }

    #[test]
    fn a_codec_has_its_own_level_and_producer_none() {
        let image = Image::default();
        let with = |configs: &[(&str, &str)]| {
            let own = |(name, value): &(&str, &str)| ((*name).into(), (*value).into());
            let statics: Configs = configs.iter().map(own).collect();
            Resolved::new(&image, &statics, 1, None).folding()
        };
        let levels = [
            ("compression.gzip.level", "3"),
            ("compression.lz4.level", "4"),
            ("compression.zstd.level", "-5"),
        ];
        for (word, compression, default, set) in [
            ("uncompressed", Compression::None, 0, 0),
            ("gzip", Compression::Gzip, -1, 3),
            ("snappy", Compression::Snappy, 0, 0),
            ("lz4", Compression::Lz4, 9, 4),
            ("zstd", Compression::Zstd, 3, -5),
        ] {
            let word = ("compression.type", word);
            let at = |level| Some(Folding::at_level(compression, level));
            assert_eq!(with(&[word]), at(default), "{word:?}");
            assert_eq!(with(&[word]), Some(compression.into()), "{word:?}");
            let [gzip, lz4, zstd] = levels;
            assert_eq!(with(&[word, gzip, lz4, zstd]), at(set), "{word:?}");
        }
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("compression.type", "producer"), levels[0]]), None);
    }

    #[test]
    fn the_finest_unit_that_is_set_wins() {
        let image = Image::default();
        let mut statics = Configs::new();
        let get =
            |statics: &Configs| Resolved::new(&image, statics, 1, None).number("retention.ms");
        for (name, value, expected) in [
            ("log.retention.hours", "2", 7_200_000),
            ("log.retention.minutes", "3", 180_000),
            ("log.retention.ms", "5", 5),
        ] {
            statics.insert(name.into(), value.into());
            assert_eq!(get(&statics), expected, "{name}");
        }
    }

    #[test]
    fn a_value_that_is_not_allowed_is_passed_over() {
        let image = Image::default();
        let mut statics = Configs::new();
        statics.insert("log.segment.bytes".into(), "lots".into());
        let resolved = Resolved::new(&image, &statics, 1, None);
        assert_eq!(resolved.number("segment.bytes"), 1 << 30);
    }

    #[test]
    fn values_are_kept_in_one_form() {
        for (name, value, kept) in [
            ("preallocate", "TRUE", "true"),
            ("retention.ms", " +07 ", "7"),
            ("cleanup.policy", " delete ,compact,", "delete,compact"),
            (
                "leader.replication.throttled.replicas",
                "0:1, 1:1",
                "0:1,1:1",
            ),
            ("leader.replication.throttled.replicas", "*", "*"),
            ("follower.replication.throttled.replicas", "", ""),
            ("compression.gzip.level", "-1", "-1"),
            ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
        ] {
            assert_eq!(validate(name, value), Ok(kept.into()), "{name}={value}");
        }
    }

    #[test]
    fn complaints_name_value_config_and_reason_and_are_short() {
        assert_eq!(
            validate("compression.gzip.level", "0"),
            Err(
                "Invalid value 0 for configuration compression.gzip.level: Value must be between \
                 1 and 9 or equal to -1"
                    .into()
            )
        );
        let huge = "9".repeat(VALUE_BYTES_MAX + 1);
        let complaint = validate("leader.replication.throttled.replicas", &huge).unwrap_err();
        assert!(complaint.len() < 400, "{complaint}");
    }

    #[test]
    fn lists_are_edited_by_item_and_nothing_else_is() {
        assert_eq!(
            edit_list("cleanup.policy", "delete", "compact", true),
            Ok("delete,compact".into())
        );
        assert_eq!(
            edit_list("cleanup.policy", "delete,compact", "delete", false),
            Ok("compact".into())
        );
        assert!(edit_list("retention.ms", "1", "2", true).is_err());
    }
}
