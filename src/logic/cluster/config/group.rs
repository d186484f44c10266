//! Configs of consumer groups (KIP-848): what each may hold, between which of the brokers' bounds (KIP-1240), and
//! what holds for a group. Knows nothing of what groups do with them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::describe::{Described, Source, Synonym};
use super::{Configs, Kind, check};
use crate::cluster::image::Image;

/// One config of a group. All of them are durations in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct GroupConfig {
    /// Kafka's name for it.
    pub name: &'static str,
    /// The broker's setting that holds for groups that have none of their own.
    pub broker_name: &'static str,
    /// The broker's settings between which a group's own must be.
    pub bounds: [&'static str; 2],
    /// What these hold when the broker's file says nothing, as in Kafka: the default and the bounds.
    defaults: [i64; 3],
    doc: &'static str,
}

/// `consumer.session.timeout.ms`.
pub const SESSION_TIMEOUT_MS: &GroupConfig = &TABLE[2];
/// `consumer.heartbeat.interval.ms`.
pub const HEARTBEAT_INTERVAL_MS: &GroupConfig = &TABLE[1];
/// `consumer.assignment.interval.ms`.
pub const ASSIGNMENT_INTERVAL_MS: &GroupConfig = &TABLE[0];

/// Every config of a group, by name.
pub const TABLE: [GroupConfig; 3] = [
    GroupConfig {
        name: "consumer.assignment.interval.ms",
        broker_name: "group.consumer.assignment.interval.ms",
        bounds: [
            "group.consumer.min.assignment.interval.ms",
            "group.consumer.max.assignment.interval.ms",
        ],
        defaults: [1_000, 0, 15_000],
        doc: "Partitions of the group are not shared out again before so long.",
    },
    GroupConfig {
        name: "consumer.heartbeat.interval.ms",
        broker_name: "group.consumer.heartbeat.interval.ms",
        bounds: [
            "group.consumer.min.heartbeat.interval.ms",
            "group.consumer.max.heartbeat.interval.ms",
        ],
        defaults: [5_000, 5_000, 15_000],
        doc: "How often the group's members report. While partitions are shared out they are asked to sooner.",
    },
    GroupConfig {
        name: "consumer.session.timeout.ms",
        broker_name: "group.consumer.session.timeout.ms",
        bounds: [
            "group.consumer.min.session.timeout.ms",
            "group.consumer.max.session.timeout.ms",
        ],
        defaults: [45_000, 45_000, 60_000],
        doc: "When a silent member of the group counts as gone.",
    },
];

/// The config of this name, or Kafka's complaint.
pub fn find(name: &str) -> Result<&'static GroupConfig, String> {
    let found = TABLE.iter().find(|config| config.name == name);
    found.ok_or_else(|| format!("Unknown group config name: {name}"))
}

impl GroupConfig {
    /// Checks a value and returns it as it is kept.
    pub fn validate(&self, statics: &Configs, value: &str) -> Result<String, String> {
        let kept = check(self.name, Kind::Int(i32::MIN, i32::MAX), value)?;
        let [least, most] = self.bounds(statics);
        match kept.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(kept),
            _ => Err(format!(
                "{} must be in the range {least} to {most} inclusive.",
                self.name
            )),
        }
    }

    /// What holds for a group: its own value, or the broker's. One that was set under other bounds is moved
    /// into those of today.
    pub fn value(&self, image: &Image, statics: &Configs, group: &str) -> i64 {
        let own = image.group_configs(group).and_then(|it| it.get(self.name));
        self.effective(own, statics)
    }

    /// The same of a group whose own value would be this one.
    fn effective(&self, own: Option<&String>, statics: &Configs) -> i64 {
        match own.and_then(|it| it.parse::<i64>().ok()) {
            Some(own) => {
                let [least, most] = self.bounds(statics);
                own.min(most).max(least)
            }
            None => self.of_broker(statics),
        }
    }

    fn of_broker(&self, statics: &Configs) -> i64 {
        number(statics, self.broker_name, self.defaults[0])
    }

    fn bounds(&self, statics: &Configs) -> [i64; 2] {
        let [_, least, most] = self.defaults;
        let defaults = [least, most];
        core::array::from_fn(|place| number(statics, self.bounds[place], defaults[place]))
    }

    fn describe(&self, image: &Image, statics: &Configs, group: &str) -> Described {
        let mut synonyms = Vec::new();
        let mut add = |source, name: &str, value: String| {
            let name = name.into();
            synonyms.push(Synonym {
                name,
                value,
                source,
            });
        };
        if image
            .group_configs(group)
            .is_some_and(|it| it.contains_key(self.name))
        {
            let value = self.value(image, statics, group).to_string();
            add(Source::DynamicGroup, self.name, value);
        }
        let (broker, default) = (self.of_broker(statics), self.defaults[0]);
        if broker != default {
            add(Source::StaticBroker, self.broker_name, broker.to_string());
        }
        add(Source::Default, self.broker_name, default.to_string());
        Described {
            name: self.name.into(),
            value: synonyms[0].value.clone(),
            source: synonyms[0].source,
            synonyms,
            kind: Kind::Int(0, 0).code(),
            doc: self.doc.into(),
            read_only: false,
        }
    }
}

fn number(statics: &Configs, name: &str, default: i64) -> i64 {
    let set = statics.get(name).and_then(|it| it.parse().ok());
    set.unwrap_or(default)
}

/// What is wrong with a group's own configs taken together, each being allowed by itself.
pub fn check_together(own: &Configs, statics: &Configs) -> Result<(), String> {
    let value = |config: &GroupConfig| config.effective(own.get(config.name), statics);
    let (session, interval) = (value(SESSION_TIMEOUT_MS), value(HEARTBEAT_INTERVAL_MS));
    if session > interval {
        return Ok(());
    }
    let (longer, shorter) = (SESSION_TIMEOUT_MS.name, HEARTBEAT_INTERVAL_MS.name);
    Err(format!(
        "{longer} ({session}) must be greater than {shorter} ({interval})"
    ))
}

/// Every config of a group, which need not be there.
pub fn describe_group(image: &Image, statics: &Configs, group: &str) -> Vec<Described> {
    let all = TABLE.iter();
    all.map(|it| it.describe(image, statics, group)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Record;

    fn image(value: &str) -> Image {
        let mut image = Image::default();
        image.replay(&Record::GroupConfigSet {
            group: "g".into(),
            key: HEARTBEAT_INTERVAL_MS.name.into(),
            value: Some(value.into()),
        });
        image
    }

    fn statics(least: &str) -> Configs {
        let [name, _] = HEARTBEAT_INTERVAL_MS.bounds;
        Configs::from([(name.into(), least.into())])
    }

    #[test]
    fn the_names_are_those_of_the_table() {
        for pair in TABLE.windows(2) {
            assert!(pair[0].name < pair[1].name);
        }
        assert_eq!(SESSION_TIMEOUT_MS.name, "consumer.session.timeout.ms");
        assert_eq!(HEARTBEAT_INTERVAL_MS.name, "consumer.heartbeat.interval.ms");
        assert_eq!(
            ASSIGNMENT_INTERVAL_MS.name,
            "consumer.assignment.interval.ms"
        );
    }

    #[test]
    fn a_value_is_a_number_between_the_brokers_bounds() {
        let validate = |value| HEARTBEAT_INTERVAL_MS.validate(&Configs::new(), value);
        assert_eq!(validate(" 5000"), Ok("5000".into()));
        assert_eq!(validate("15000"), Ok("15000".into()));
        for outside in ["4999", "15001", "-1"] {
            assert_eq!(
                validate(outside),
                Err(
                    "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive."
                        .into()
                )
            );
        }
        for odd in ["soon", "", "99999999999"] {
            assert!(validate(odd).is_err(), "{odd}");
        }
        let narrow = HEARTBEAT_INTERVAL_MS.validate(&statics("100"), "100");
        assert_eq!(narrow, Ok("100".into()));
    }

    #[test]
    fn what_was_set_under_other_bounds_is_moved_into_those_of_today() {
        let value = |least| HEARTBEAT_INTERVAL_MS.value(&image("200"), &statics(least), "g");
        assert_eq!((value("100"), value("7000")), (200, 7_000));
        let other = HEARTBEAT_INTERVAL_MS.value(&image("200"), &statics("100"), "h");
        assert_eq!(other, 5_000, "another group's is not its own");
    }

    #[test]
    fn a_group_shows_its_own_value_before_the_brokers() {
        let mut statics = statics("100");
        statics.insert(HEARTBEAT_INTERVAL_MS.broker_name.into(), "6000".into());
        let all = describe_group(&image("200"), &statics, "g");
        let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, TABLE.map(|it| it.name));
        let synonyms = all[1]
            .synonyms
            .iter()
            .map(|it| (it.source, it.value.as_str()));
        let synonyms: Vec<_> = synonyms.collect();
        assert_eq!(
            synonyms,
            [
                (Source::DynamicGroup, "200"),
                (Source::StaticBroker, "6000"),
                (Source::Default, "5000")
            ]
        );
        assert_eq!(
            (all[1].value.as_str(), all[1].source),
            ("200", Source::DynamicGroup)
        );
        assert_eq!(all[0].source, Source::Default);
    }
}
