//! Requests that change metadata: each is checked against the image and becomes records, or an error
//! with its reason. Knows nothing of who asks or how records become durable.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::config::{self, Configs, Resolved};
use super::image::{Image, Topic};
use super::record::Record;
use crate::ids::TopicId;

/// Producer ids handed out at once.
pub const PRODUCER_ID_BLOCK: i64 = 1000;
/// A topic name's length in bytes, at most (Kafka's limit: it names a directory).
const NAME_BYTES_MAX: usize = 249;

/// What is allowed and what holds by default.
#[derive(Clone, Debug)]
pub struct Limits {
    /// This broker, the only one.
    pub broker: i32,
    /// `num.partitions`: for a topic that does not say.
    pub partitions_default: i32,
    /// Partitions over all topics, at most.
    pub partitions_max: usize,
    /// `delete.topic.enable`.
    pub delete_enabled: bool,
}

/// Why a change was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which of Kafka's errors.
    pub code: Code,
    /// Why, for people.
    pub message: String,
}

/// Kafka's errors for metadata changes; the shell has their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// INVALID_TOPIC_EXCEPTION.
    InvalidTopic,
    /// TOPIC_ALREADY_EXISTS.
    TopicExists,
    /// UNKNOWN_TOPIC_OR_PARTITION.
    UnknownTopic,
    /// UNKNOWN_TOPIC_ID.
    UnknownTopicId,
    /// INVALID_PARTITIONS.
    InvalidPartitions,
    /// INVALID_REPLICATION_FACTOR.
    InvalidReplicationFactor,
    /// INVALID_REPLICA_ASSIGNMENT.
    InvalidAssignment,
    /// INVALID_CONFIG.
    InvalidConfig,
    /// INVALID_REQUEST.
    InvalidRequest,
    /// POLICY_VIOLATION.
    Policy,
    /// TOPIC_DELETION_DISABLED.
    DeletionDisabled,
}

fn refuse<T>(code: Code, message: impl Into<String>) -> Result<T, Refused> {
    Err(Refused {
        code,
        message: message.into(),
    })
}

/// A topic that somebody wants.
#[derive(Clone, Debug)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; -1 for the default. Ignored with assignments.
    pub partitions: i32,
    /// How many replicas; -1 for the default. Ignored with assignments.
    pub replication_factor: i16,
    /// Which brokers hold which partition; empty to leave it to the controller.
    pub assignments: Vec<(i32, Vec<i32>)>,
    /// Its configs; `None` means the default.
    pub configs: Vec<(String, Option<String>)>,
}

/// Checks a topic's name.
pub fn check_name(name: &str) -> Result<(), Refused> {
    let invalid = |why: &str| refuse(Code::InvalidTopic, format!("Topic name is invalid: {why}"));
    match name {
        "" => return invalid("the empty string is not allowed"),
        "." | ".." => return invalid("'.' and '..' are not allowed"),
        _ => {}
    }
    if name.len() > NAME_BYTES_MAX {
        return invalid(&format!("it is longer than {NAME_BYTES_MAX} characters"));
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !name.chars().all(legal) {
        return invalid("only ASCII letters and digits, '.', '_' and '-' are allowed");
    }
    Ok(())
}

/// The records that create a topic under `id`.
pub fn create_topic(
    image: &Image,
    limits: &Limits,
    topic: &NewTopic,
    id: TopicId,
) -> Result<Vec<Record>, Refused> {
    check_name(&topic.name)?;
    if image.topic_by_name(&topic.name).is_some() {
        return refuse(
            Code::TopicExists,
            format!("Topic '{}' already exists.", topic.name),
        );
    }
    let same_metric = |known: &&Topic| {
        known.name.len() == topic.name.len()
            && known.name.replace('.', "_") == topic.name.replace('.', "_")
    };
    if let Some(known) = image.topics().find(same_metric) {
        let (name, known) = (&topic.name, &known.name);
        return refuse(
            Code::InvalidTopic,
            format!("Topic '{name}' collides with existing topic: {known}"),
        );
    }
    let assignments = if topic.assignments.is_empty() {
        automatic(image, limits, topic)?
    } else {
        manual(limits, topic)?
    };
    room_for(image, limits, assignments.len())?;
    let mut records = vec![Record::TopicCreated {
        id,
        name: topic.name.clone(),
        assignments,
    }];
    let mut seen = BTreeSet::new();
    for (key, value) in &topic.configs {
        if !seen.insert(key) {
            let message = format!("Config {key} is given more than once.");
            return refuse(Code::InvalidConfig, message);
        }
        match value {
            Some(value) => records.push(set_topic_config(id, key, value)?),
            None => drop(config::find(key).map_err(invalid_config)?),
        }
    }
    Ok(records)
}

fn automatic(image: &Image, limits: &Limits, topic: &NewTopic) -> Result<Vec<Vec<i32>>, Refused> {
    let _ = image;
    if !matches!(topic.replication_factor, -1 | 1) {
        let factor = topic.replication_factor;
        return refuse(
            Code::InvalidReplicationFactor,
            if factor < 1 {
                "Replication factor must be larger than 0, or -1 to use the default value.".into()
            } else {
                format!("Replication factor: {factor} larger than available brokers: 1.")
            },
        );
    }
    let partitions = match topic.partitions {
        -1 => limits.partitions_default,
        partitions => partitions,
    };
    match usize::try_from(partitions) {
        Ok(partitions) if partitions > 0 => {
            within_policy(limits, partitions)?;
            Ok(vec![vec![limits.broker]; partitions])
        }
        _ => refuse(
            Code::InvalidPartitions,
            "Number of partitions must be larger than 0, or -1 to use the default value.",
        ),
    }
}

fn manual(limits: &Limits, topic: &NewTopic) -> Result<Vec<Vec<i32>>, Refused> {
    if topic.partitions != -1 || topic.replication_factor != -1 {
        return refuse(
            Code::InvalidRequest,
            "With an assignment, the number of partitions and the replication factor must be -1.",
        );
    }
    let mut sorted = topic.assignments.clone();
    sorted.sort_by_key(|(index, _)| *index);
    for (place, (index, replicas)) in sorted.iter().enumerate() {
        if usize::try_from(*index) != Ok(place) {
            return refuse(
                Code::InvalidAssignment,
                "partitions should be a consecutive 0-based integer sequence",
            );
        }
        check_replicas(limits, replicas)?;
    }
    Ok(sorted.into_iter().map(|(_, replicas)| replicas).collect())
}

fn check_replicas(limits: &Limits, replicas: &[i32]) -> Result<(), Refused> {
    if replicas == [limits.broker] {
        return Ok(());
    }
    let broker = limits.broker;
    refuse(
        Code::InvalidAssignment,
        format!("The assignment {replicas:?} must name the only broker, {broker}, once."),
    )
}

fn within_policy(limits: &Limits, partitions: usize) -> Result<(), Refused> {
    if partitions <= limits.partitions_max {
        return Ok(());
    }
    let most = limits.partitions_max;
    refuse(
        Code::Policy,
        format!("At most {most} partitions are allowed in all."),
    )
}

fn room_for(image: &Image, limits: &Limits, partitions: usize) -> Result<(), Refused> {
    within_policy(limits, image.partition_count() + partitions)
}

fn invalid_config(message: String) -> Refused {
    Refused {
        code: Code::InvalidConfig,
        message,
    }
}

fn set_topic_config(id: TopicId, key: &str, value: &str) -> Result<Record, Refused> {
    let value = config::validate(key, value).map_err(invalid_config)?;
    Ok(Record::TopicConfigSet {
        id,
        key: key.into(),
        value: Some(value),
    })
}

/// How a topic is named in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicName {
    /// By name.
    Name(String),
    /// By id.
    Id(TopicId),
}

/// The topic that is meant.
pub fn find<'a>(image: &'a Image, topic: &TopicName) -> Result<&'a Topic, Refused> {
    match topic {
        TopicName::Name(name) => image.topic_by_name(name).ok_or_else(|| Refused {
            code: Code::UnknownTopic,
            message: format!("The topic '{name}' does not exist."),
        }),
        TopicName::Id(id) => image.topic(*id).ok_or_else(|| Refused {
            code: Code::UnknownTopicId,
            message: "This server does not host this topic ID.".into(),
        }),
    }
}

/// The records that delete a topic.
pub fn delete_topic(
    image: &Image,
    limits: &Limits,
    topic: &TopicName,
) -> Result<Vec<Record>, Refused> {
    if !limits.delete_enabled {
        return refuse(
            Code::DeletionDisabled,
            "delete.topic.enable is false on this broker.",
        );
    }
    Ok(vec![Record::TopicDeleted {
        id: find(image, topic)?.id,
    }])
}

/// The records that give a topic `count` partitions in all.
pub fn create_partitions(
    image: &Image,
    limits: &Limits,
    name: &str,
    count: i32,
    assignments: Option<&[Vec<i32>]>,
) -> Result<Vec<Record>, Refused> {
    let topic = find(image, &TopicName::Name(name.into()))?;
    let now = topic.partitions.len();
    let count = match usize::try_from(count) {
        Ok(count) if count > now => count,
        _ => {
            let message = format!(
                "Topic currently has {now} partitions, which is not less than the requested {count}."
            );
            return refuse(Code::InvalidPartitions, message);
        }
    };
    let added = count - now;
    room_for(image, limits, added)?;
    let assignments = match assignments {
        None => vec![vec![limits.broker]; added],
        Some(given) if given.len() == added => {
            given
                .iter()
                .try_for_each(|replicas| check_replicas(limits, replicas))?;
            given.to_vec()
        }
        Some(given) => {
            let given = given.len();
            return refuse(
                Code::InvalidAssignment,
                format!("{added} partitions are added but {given} assignments are given."),
            );
        }
    };
    Ok(vec![Record::PartitionsAdded {
        id: topic.id,
        assignments,
    }])
}

/// What a config change is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A topic by name.
    Topic(String),
    /// One broker, or the default of all.
    Broker(Option<i32>),
}

/// One edit of IncrementalAlterConfigs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// SET.
    Set(String),
    /// DELETE: back to the default.
    Delete,
    /// APPEND to a list.
    Append(String),
    /// SUBTRACT from a list.
    Subtract(String),
}

/// The records of IncrementalAlterConfigs: each config named is edited, all others stay.
pub fn edit_configs(
    image: &Image,
    limits: &Limits,
    statics: &Configs,
    resource: &Resource,
    edits: &[(String, Edit)],
) -> Result<Vec<Record>, Refused> {
    let mut seen = BTreeSet::new();
    let mut records = Vec::with_capacity(edits.len());
    for (key, edit) in edits {
        if !seen.insert(key) {
            let message = format!("Error due to duplicate config keys: {key}");
            return refuse(Code::InvalidRequest, message);
        }
        records.push(match resource {
            Resource::Topic(name) => {
                let topic = find(image, &TopicName::Name(name.clone()))?;
                let resolved = Resolved::new(image, statics, limits.broker, Some(topic));
                let value = edited(key, edit, |key| resolved.get(key).to_string())?;
                Record::TopicConfigSet {
                    id: topic.id,
                    key: key.clone(),
                    value,
                }
            }
            Resource::Broker(broker) => {
                check_broker(limits, *broker)?;
                let topic_key = topic_config_of_broker(key)?;
                let resolved = Resolved::new(image, statics, limits.broker, None);
                let value = edited(topic_key, edit, |key| resolved.get(key).to_string())?;
                Record::BrokerConfigSet {
                    broker: *broker,
                    key: key.clone(),
                    value,
                }
            }
        });
    }
    if let (Resource::Topic(name), true) = (resource, edits.is_empty()) {
        find(image, &TopicName::Name(name.clone()))?;
    }
    Ok(records)
}

fn edited(
    key: &str,
    edit: &Edit,
    current: impl Fn(&str) -> String,
) -> Result<Option<String>, Refused> {
    config::find(key).map_err(invalid_config)?;
    let value = match edit {
        Edit::Delete => return Ok(None),
        Edit::Set(value) => value.clone(),
        Edit::Append(value) => {
            config::edit_list(key, &current(key), value, true).map_err(invalid_config)?
        }
        Edit::Subtract(value) => {
            config::edit_list(key, &current(key), value, false).map_err(invalid_config)?
        }
    };
    config::validate(key, &value)
        .map(Some)
        .map_err(invalid_config)
}

fn check_broker(limits: &Limits, broker: Option<i32>) -> Result<(), Refused> {
    match broker {
        Some(broker) if broker != limits.broker => {
            let us = limits.broker;
            refuse(
                Code::InvalidRequest,
                format!("Unexpected broker id, expected {us}, but received {broker}"),
            )
        }
        _ => Ok(()),
    }
}

/// The topic config whose default a broker config is.
fn topic_config_of_broker(key: &str) -> Result<&'static str, Refused> {
    let of_broker = |config: &&config::Config| config.broker_name == Some(key);
    match config::TABLE.iter().find(of_broker) {
        Some(config) => Ok(config.name),
        None => refuse(
            Code::InvalidConfig,
            format!(
                "Cannot update broker config {key}: it is unknown, or set in the broker's file."
            ),
        ),
    }
}

/// The records of AlterConfigs: a resource has these configs and no others.
pub fn replace_configs(
    image: &Image,
    limits: &Limits,
    statics: &Configs,
    resource: &Resource,
    configs: &[(String, Option<String>)],
) -> Result<Vec<Record>, Refused> {
    let now: Vec<String> = match resource {
        Resource::Topic(name) => {
            let topic = find(image, &TopicName::Name(name.clone()))?;
            topic.configs.keys().cloned().collect()
        }
        Resource::Broker(Some(broker)) => {
            let configs = image.broker_configs(*broker);
            configs
                .into_iter()
                .flat_map(|configs| configs.keys().cloned())
                .collect()
        }
        Resource::Broker(None) => image.broker_defaults().keys().cloned().collect(),
    };
    let set = |(key, value): &(String, Option<String>)| {
        (key.clone(), value.clone().map_or(Edit::Delete, Edit::Set))
    };
    let mut edits: Vec<(String, Edit)> = configs.iter().map(set).collect();
    for key in now {
        if !configs.iter().any(|(named, _)| *named == key) {
            edits.push((key, Edit::Delete));
        }
    }
    edit_configs(image, limits, statics, resource, &edits)
}

/// The first producer id of a fresh block, and the record that hands it out.
pub fn allocate_producer_ids(image: &Image) -> (i64, Record) {
    let first = image.next_producer_id();
    (
        first,
        Record::ProducerIdsAllocated {
            next: first + PRODUCER_ID_BLOCK,
        },
    )
}
