//! Config changes: checked against the table and the image, each becomes a record. Knows nothing of
//! what a config does.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Code, Limits, NewTopic, Refused, TopicName, find, refuse};
use crate::cluster::config::{self, Configs, Resolved};
use crate::cluster::image::{Image, Topic};
use crate::cluster::record::Record;
use crate::ids::TopicId;

/// What a config change is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A topic by name.
    Topic(String),
    /// One broker, or the default of all.
    Broker(Option<i32>),
    /// A consumer group by its id. There need not be one.
    Group(String),
}

/// So many groups may have configs of their own: they are not forgotten with their groups.
const GROUPS_MAX: usize = 10_000;
/// A group that has configs has an id of so many bytes, at most.
const GROUP_ID_BYTES_MAX: usize = 4_096;

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

/// The configs that a topic is created with, as records.
pub(super) fn of_new_topic(
    limits: &Limits,
    topic: &NewTopic,
    id: TopicId,
) -> Result<Vec<Record>, Refused> {
    no_repeats(topic.configs.iter().map(|(key, _)| key))?;
    let mut configs = Configs::new();
    for (key, value) in &topic.configs {
        match value {
            Some(value) => {
                let value = config::validate(key, value).map_err(invalid_config)?;
                configs.insert(key.clone(), value);
            }
            None => drop(config::find(key).map_err(invalid_config)?),
        }
    }
    let record = |(key, value): (&String, &String)| {
        let (key, value) = (key.clone(), Some(value.clone()));
        Record::TopicConfigSet { id, key, value }
    };
    let records = configs.iter().map(record).collect();
    let name = topic.name.clone();
    let created = Topic {
        id,
        name,
        partitions: Vec::new(),
        configs,
    };
    check_together(&Image::default(), limits, &Configs::new(), &created)?;
    Ok(records)
}

fn check_together(
    image: &Image,
    limits: &Limits,
    statics: &Configs,
    topic: &Topic,
) -> Result<(), Refused> {
    let resolved = Resolved::new(image, statics, limits.broker, Some(topic));
    config::check_together(&resolved).map_err(invalid_config)
}

/// The records of IncrementalAlterConfigs: each config named is edited, all others stay.
pub fn edit_configs(
    image: &Image,
    limits: &Limits,
    statics: &Configs,
    resource: &Resource,
    edits: &[(String, Edit)],
) -> Result<Vec<Record>, Refused> {
    no_repeats(edits.iter().map(|(key, _)| key))?;
    match resource {
        Resource::Topic(name) => {
            let topic = find(image, &TopicName::Name(name.clone()))?;
            edit_topic(image, limits, statics, topic, edits)
        }
        Resource::Broker(broker) => edit_broker(image, limits, statics, *broker, edits),
        Resource::Group(group) => edit_group(image, statics, group, edits),
    }
}

fn edit_group(
    image: &Image,
    statics: &Configs,
    group: &str,
    edits: &[(String, Edit)],
) -> Result<Vec<Record>, Refused> {
    if group.is_empty() {
        let message = "Default group resources are not allowed.";
        return refuse(Code::InvalidRequest, message);
    }
    if group.len() > GROUP_ID_BYTES_MAX {
        let message = format!("The group's id is longer than {GROUP_ID_BYTES_MAX} bytes.");
        return refuse(Code::InvalidRequest, message);
    }
    let is_new = image.group_configs(group).is_none();
    if is_new && image.configured_groups().len() >= GROUPS_MAX {
        let message = format!("At most {GROUPS_MAX} groups may have configs.");
        return refuse(Code::Policy, message);
    }
    let mut after = image.group_configs(group).cloned().unwrap_or_default();
    let mut records = Vec::with_capacity(edits.len());
    for (key, edit) in edits {
        let value = match edit {
            // As in Kafka, whatever its name.
            Edit::Delete => None,
            Edit::Set(value) => {
                let config = config::group::find(key).map_err(invalid_config)?;
                Some(config.validate(statics, value).map_err(invalid_config)?)
            }
            Edit::Append(_) | Edit::Subtract(_) => {
                let what = match edit {
                    Edit::Append(_) => "APPEND",
                    _ => "SUBTRACT",
                };
                let message = format!("Can't {what} to key {key} because its type is not LIST.");
                return refuse(Code::InvalidConfig, message);
            }
        };
        let before = match &value {
            Some(value) => after.insert(key.clone(), value.clone()),
            None => after.remove(key),
        };
        if before != value {
            let (group, key) = (group.into(), key.clone());
            records.push(Record::GroupConfigSet { group, key, value });
        }
    }
    config::group::check_together(&after, statics).map_err(invalid_config)?;
    Ok(records)
}

fn edit_topic(
    image: &Image,
    limits: &Limits,
    statics: &Configs,
    topic: &Topic,
    edits: &[(String, Edit)],
) -> Result<Vec<Record>, Refused> {
    let resolved = Resolved::new(image, statics, limits.broker, Some(topic));
    let mut after = topic.clone();
    let mut records = Vec::with_capacity(edits.len());
    for (key, edit) in edits {
        // What is set can be unset even if an older version set it under a name that is gone.
        let value = match edit {
            Edit::Delete if topic.configs.contains_key(key) => None,
            edit => edited(key, edit, &resolved)?,
        };
        match &value {
            Some(value) => after.configs.insert(key.clone(), value.clone()),
            None => after.configs.remove(key),
        };
        records.push(Record::TopicConfigSet {
            id: topic.id,
            key: key.clone(),
            value,
        });
    }
    check_together(image, limits, statics, &after)?;
    Ok(records)
}

fn edit_broker(
    image: &Image,
    limits: &Limits,
    statics: &Configs,
    broker: Option<i32>,
    edits: &[(String, Edit)],
) -> Result<Vec<Record>, Refused> {
    check_broker(limits, broker)?;
    let set = match broker {
        Some(broker) => image.broker_configs(broker),
        None => Some(image.broker_defaults()),
    };
    let resolved = Resolved::new(image, statics, limits.broker, None);
    let record = |(key, edit): &(String, Edit)| {
        let is_set = set.is_some_and(|configs| configs.contains_key(key));
        let value = match edit {
            Edit::Delete if is_set => None,
            edit => edited(topic_config_of_broker(key)?, edit, &resolved)?,
        };
        Ok(Record::BrokerConfigSet {
            broker,
            key: key.clone(),
            value,
        })
    };
    edits.iter().map(record).collect()
}

/// The topic config's value after the edit.
fn edited(key: &str, edit: &Edit, resolved: &Resolved<'_>) -> Result<Option<String>, Refused> {
    config::find(key).map_err(invalid_config)?;
    let listed = |edit: &str, append| {
        config::edit_list(key, &resolved.get(key), edit, append).map_err(invalid_config)
    };
    let value = match edit {
        Edit::Delete => return Ok(None),
        Edit::Set(value) => value.clone(),
        Edit::Append(value) => listed(value, true)?,
        Edit::Subtract(value) => listed(value, false)?,
    };
    config::validate(key, &value)
        .map(Some)
        .map_err(invalid_config)
}

fn invalid_config(message: String) -> Refused {
    Refused {
        code: Code::InvalidConfig,
        message,
    }
}

fn no_repeats<'a>(keys: impl Iterator<Item = &'a String>) -> Result<(), Refused> {
    let mut seen = BTreeSet::new();
    for key in keys {
        if !seen.insert(key) {
            let message = format!("Error due to duplicate config keys: {key}");
            return refuse(Code::InvalidRequest, message);
        }
    }
    Ok(())
}

fn check_broker(limits: &Limits, broker: Option<i32>) -> Result<(), Refused> {
    match broker {
        Some(broker) if broker != limits.broker => {
            let message = format!(
                "Unexpected broker id, expected {} or empty string, but received {broker}",
                limits.broker
            );
            refuse(Code::InvalidRequest, message)
        }
        _ => Ok(()),
    }
}

/// The topic config whose default a broker config is.
fn topic_config_of_broker(key: &str) -> Result<&'static str, Refused> {
    if let Some(config) = config::find_by_broker_name(key) {
        return Ok(config.name);
    }
    let message = if config::is_broker_setting(key) {
        format!("Cannot update these configs dynamically: {key}")
    } else {
        format!("Unknown broker config name: {key}")
    };
    refuse(Code::InvalidConfig, message)
}

/// The records of AlterConfigs: a resource has these configs and no others.
pub fn replace_configs(
    image: &Image,
    limits: &Limits,
    statics: &Configs,
    resource: &Resource,
    configs: &[(String, Option<String>)],
) -> Result<Vec<Record>, Refused> {
    let set = match resource {
        Resource::Topic(name) => Some(&find(image, &TopicName::Name(name.clone()))?.configs),
        Resource::Broker(Some(broker)) => image.broker_configs(*broker),
        Resource::Broker(None) => Some(image.broker_defaults()),
        Resource::Group(group) => image.group_configs(group),
    };
    let edit = |(key, value): &(String, Option<String>)| {
        (key.clone(), value.clone().map_or(Edit::Delete, Edit::Set))
    };
    let named: BTreeSet<&String> = configs.iter().map(|(key, _)| key).collect();
    let others = set
        .into_iter()
        .flat_map(|set| set.keys())
        .filter(|key| !named.contains(key));
    let others = others.map(|key| (key.to_string(), Edit::Delete));
    let edits: Vec<_> = configs.iter().map(edit).chain(others).collect();
    edit_configs(image, limits, statics, resource, &edits)
}
