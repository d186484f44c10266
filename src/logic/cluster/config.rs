//! Topic configs: what each is called, may hold and defaults to, and what a topic's configs resolve
//! to. Knows nothing of who set them or of the wire.

mod describe;
mod table;
mod value;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

pub use describe::{Described, Source, Synonym, describe_broker, describe_topic};
pub use table::{Config, TABLE};
pub use value::Kind;

use super::image::{Image, Topic};
use crate::partition::leader::{Durability, Rules};

/// Configs by name.
pub type Configs = BTreeMap<String, String>;

/// The config of this name, or Kafka's complaint.
pub fn find(name: &str) -> Result<&'static Config, String> {
    TABLE
        .iter()
        .find(|config| config.name == name)
        .ok_or_else(|| format!("Unknown topic config name: {name}"))
}

/// Checks a value for a topic config and returns it as it is kept.
pub fn validate(name: &str, value: &str) -> Result<String, String> {
    let config = find(name)?;
    config
        .kind
        .check(value.trim())
        .map_err(|problem| format!("Invalid value {value} for configuration {name}: {problem}"))
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

    /// The value of a config in the table.
    pub fn get(&self, name: &str) -> &'a str {
        let config = TABLE.iter().find(|config| config.name == name);
        let config = config.expect("only configs in the table are asked for");
        self.topic
            .and_then(|topic| topic.configs.get(name))
            .or_else(|| self.from_broker(config))
            .map_or(config.default, String::as_str)
    }

    fn from_broker(&self, config: &Config) -> Option<&'a String> {
        let synonym = config.broker_name?;
        self.image
            .broker_configs(self.broker)
            .and_then(|configs| configs.get(synonym))
            .or_else(|| self.image.broker_defaults().get(synonym))
            .or_else(|| self.statics.get(synonym))
    }

    /// A whole number. What is in the table or was validated is one.
    pub fn number(&self, name: &str) -> i64 {
        self.get(name).parse().unwrap_or(0)
    }

    /// What the leader of one of the topic's partitions applies.
    pub fn rules(&self) -> Rules {
        let clamp = |name| u32::try_from(self.number(name)).unwrap_or(u32::MAX);
        Rules {
            message_bytes_max: clamp("max.message.bytes"),
            compacted: self
                .get("cleanup.policy")
                .split(',')
                .any(|it| it.trim() == "compact"),
            append_time: self.get("message.timestamp.type") == "LogAppendTime",
            timestamp_before_ms_max: self.number("message.timestamp.before.max.ms"),
            timestamp_after_ms_max: self.number("message.timestamp.after.max.ms"),
            in_sync_min: clamp("min.insync.replicas"),
            durability: match self.get("durability") {
                "replicated" => Durability::Replicated,
                _ => Durability::Flush,
            },
        }
    }
}

/// Applies APPEND or SUBTRACT to a list config's value.
pub fn edit_list(name: &str, current: &str, edit: &str, append: bool) -> Result<String, String> {
    let config = find(name)?;
    if !matches!(config.kind, Kind::List(_)) {
        return Err(format!(
            "Config value append or subtract is not allowed for config key: {name}, because its \
             type is not a list"
        ));
    }
    let mut items: alloc::vec::Vec<&str> = current
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .collect();
    for item in edit.split(',').map(str::trim) {
        items.retain(|known| *known != item);
        if append {
            items.push(item);
        }
    }
    Ok(items.join(",").to_string())
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
