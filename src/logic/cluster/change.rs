//! Requests that change metadata: each is checked against the image and becomes records, or an error
//! with its reason. Knows nothing of who asks or how records become durable.

mod configs;
#[cfg(test)]
mod tests;

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

pub use configs::{Edit, Resource, edit_configs, replace_configs};

use super::image::{Image, Topic};
use super::record::Record;
use crate::group::OFFSETS_TOPIC;
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

/// Whether a topic is the broker's own: clients read it but neither write nor cut it.
pub fn is_internal(name: &str) -> bool {
    name == OFFSETS_TOPIC
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
    if let Some(known) = image
        .topics()
        .find(|known| collide(&known.name, &topic.name))
    {
        let (name, known) = (&topic.name, &known.name);
        return refuse(
            Code::InvalidTopic,
            format!("Topic '{name}' collides with existing topic: {known}"),
        );
    }
    let assignments = if topic.assignments.is_empty() {
        automatic(limits, topic)?
    } else {
        manual(limits, topic)?
    };
    room_for(image, limits, assignments.len())?;
    let mut records = vec![Record::TopicCreated {
        id,
        name: topic.name.clone(),
        assignments,
    }];
    records.extend(configs::of_new_topic(limits, topic, id)?);
    Ok(records)
}

/// Metrics write '.' as '_', so two topics that differ only there would share theirs.
fn collide(one: &str, other: &str) -> bool {
    let alike = |pair: (u8, u8)| match pair {
        (b'.' | b'_', b'.' | b'_') => true,
        (one, other) => one == other,
    };
    one.len() == other.len() && one.bytes().zip(other.bytes()).all(alike)
}

fn automatic(limits: &Limits, topic: &NewTopic) -> Result<Vec<Vec<i32>>, Refused> {
    if !matches!(topic.replication_factor, -1 | 1) {
        let factor = topic.replication_factor;
        return refuse(
            Code::InvalidReplicationFactor,
            if factor < 1 {
                "Replication factor must be larger than 0, or -1 to use the default value.".into()
            } else {
                format!(
                    "Unable to replicate the partition {factor} time(s): The target replication \
                     factor of {factor} cannot be reached because only 1 broker(s) are registered."
                )
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
            "Number of partitions was set to an invalid non-positive value.",
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
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let message = format!(
            "Found multiple manual partition assignments for partition {}",
            pair[0].0
        );
        return refuse(Code::InvalidAssignment, message);
    }
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
    let stranger = replicas.iter().find(|replica| **replica != limits.broker);
    let message = match (replicas, stranger) {
        ([], _) => "The manual partition assignment includes an empty replica list.".into(),
        (_, Some(stranger)) => format!(
            "The manual partition assignment includes broker {stranger}, but no such broker is \
             registered."
        ),
        ([_], None) => return Ok(()),
        ([broker, ..], None) => {
            format!("The manual partition assignment includes the broker {broker} more than once.")
        }
    };
    refuse(Code::InvalidAssignment, message)
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
    if is_internal(name) {
        // Where each group is follows from the count: with another one none would be found again.
        return refuse(
            Code::InvalidRequest,
            format!("The partitions of the internal topic {name} cannot change."),
        );
    }
    let now = topic.partitions.len();
    let count = match usize::try_from(count) {
        Ok(count) if count > now => count,
        Ok(count) if count == now => {
            let message = format!("Topic already has {now} partition(s).");
            return refuse(Code::InvalidPartitions, message);
        }
        _ => {
            let message = format!(
                "The topic {name} currently has {now} partition(s); {count} would not be an \
                 increase."
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
                format!(
                    "Attempted to add {added} additional partition(s), but only {given} \
                     assignment(s) were specified."
                ),
            );
        }
    };
    Ok(vec![Record::PartitionsAdded {
        id: topic.id,
        assignments,
    }])
}

/// The first producer id of a fresh block, and the record that hands it out. The 63 bits last longer
/// than any disk; at their end the last block repeats rather than wraps.
pub fn allocate_producer_ids(image: &Image) -> (i64, Record) {
    let first = image.next_producer_id().min(i64::MAX - PRODUCER_ID_BLOCK);
    let next = first + PRODUCER_ID_BLOCK;
    (first, Record::ProducerIdsAllocated { next })
}
