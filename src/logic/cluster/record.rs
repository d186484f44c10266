//! The metadata records and their bytes. Knows nothing of what a record does.

use alloc::string::String;
use alloc::vec::Vec;

use crate::ids::TopicId;

/// One change of the cluster's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A topic exists from now on.
    TopicCreated {
        /// Its id.
        id: TopicId,
        /// Its name.
        name: String,
        /// The replicas of each partition, the preferred leader first.
        assignments: Vec<Vec<i32>>,
    },
    /// A topic and all it held are gone.
    TopicDeleted {
        /// Its id.
        id: TopicId,
    },
    /// A topic has more partitions.
    PartitionsAdded {
        /// Its id.
        id: TopicId,
        /// The replicas of each new partition.
        assignments: Vec<Vec<i32>>,
    },
    /// A topic's config is set, or unset by `None`.
    TopicConfigSet {
        /// Its id.
        id: TopicId,
        /// The config's name.
        key: String,
        /// The config's value.
        value: Option<String>,
    },
    /// A broker's config is set, or unset by `None`; without a broker it is the default of all.
    BrokerConfigSet {
        /// The broker's node id.
        broker: Option<i32>,
        /// The config's name.
        key: String,
        /// The config's value.
        value: Option<String>,
    },
    /// A group's config is set, or unset by `None`. There need not be such a group.
    GroupConfigSet {
        /// The group's id.
        group: String,
        /// The config's name.
        key: String,
        /// The config's value.
        value: Option<String>,
    },
    /// Producer ids below this one have been handed out in blocks.
    ProducerIdsAllocated {
        /// The first id not handed out.
        next: i64,
    },
}

/// Bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordError;

const TOPIC_CREATED: u8 = 1;
const TOPIC_DELETED: u8 = 2;
const PARTITIONS_ADDED: u8 = 3;
const TOPIC_CONFIG_SET: u8 = 4;
const BROKER_CONFIG_SET: u8 = 5;
const PRODUCER_IDS_ALLOCATED: u8 = 6;
const GROUP_CONFIG_SET: u8 = 7;

impl Record {
    /// Appends the record's bytes: a kind, then its fields, integers big endian, strings and lists
    /// behind their length. The kind is also the version: a new layout gets a new kind, and what a
    /// kind once meant it means for ever.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::TopicCreated {
                id,
                name,
                assignments,
            } => {
                out.push(TOPIC_CREATED);
                out.extend_from_slice(&id.0);
                put_string(out, name);
                put_assignments(out, assignments);
            }
            Self::TopicDeleted { id } => {
                out.push(TOPIC_DELETED);
                out.extend_from_slice(&id.0);
            }
            Self::PartitionsAdded { id, assignments } => {
                out.push(PARTITIONS_ADDED);
                out.extend_from_slice(&id.0);
                put_assignments(out, assignments);
            }
            Self::TopicConfigSet { id, key, value } => {
                out.push(TOPIC_CONFIG_SET);
                out.extend_from_slice(&id.0);
                put_string(out, key);
                put_option(out, value.as_deref());
            }
            Self::BrokerConfigSet { broker, key, value } => {
                out.push(BROKER_CONFIG_SET);
                out.push(u8::from(broker.is_some()));
                out.extend_from_slice(&broker.unwrap_or_default().to_be_bytes());
                put_string(out, key);
                put_option(out, value.as_deref());
            }
            Self::GroupConfigSet { group, key, value } => {
                out.push(GROUP_CONFIG_SET);
                put_string(out, group);
                put_string(out, key);
                put_option(out, value.as_deref());
            }
            Self::ProducerIdsAllocated { next } => {
                out.push(PRODUCER_IDS_ALLOCATED);
                out.extend_from_slice(&next.to_be_bytes());
            }
        }
    }

    /// Takes one record off the front of `bytes`.
    pub fn decode(bytes: &mut &[u8]) -> Result<Self, RecordError> {
        let [kind] = take(bytes)?;
        match kind {
            TOPIC_CREATED => Ok(Self::TopicCreated {
                id: TopicId(take(bytes)?),
                name: take_string(bytes)?,
                assignments: take_assignments(bytes)?,
            }),
            TOPIC_DELETED => Ok(Self::TopicDeleted {
                id: TopicId(take(bytes)?),
            }),
            PARTITIONS_ADDED => Ok(Self::PartitionsAdded {
                id: TopicId(take(bytes)?),
                assignments: take_assignments(bytes)?,
            }),
            TOPIC_CONFIG_SET => Ok(Self::TopicConfigSet {
                id: TopicId(take(bytes)?),
                key: take_string(bytes)?,
                value: take_option(bytes)?,
            }),
            BROKER_CONFIG_SET => {
                let broker = match (take_flag(bytes)?, i32::from_be_bytes(take(bytes)?)) {
                    (true, broker) => Some(broker),
                    (false, 0) => None,
                    (false, _) => return Err(RecordError),
                };
                Ok(Self::BrokerConfigSet {
                    broker,
                    key: take_string(bytes)?,
                    value: take_option(bytes)?,
                })
            }
            GROUP_CONFIG_SET => Ok(Self::GroupConfigSet {
                group: take_string(bytes)?,
                key: take_string(bytes)?,
                value: take_option(bytes)?,
            }),
            PRODUCER_IDS_ALLOCATED => Ok(Self::ProducerIdsAllocated {
                next: i64::from_be_bytes(take(bytes)?),
            }),
            _ => Err(RecordError),
        }
    }
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).expect("metadata is shorter than 4 GiB");
    out.extend_from_slice(&length.to_be_bytes());
}

fn put_string(out: &mut Vec<u8>, string: &str) {
    put_length(out, string.len());
    out.extend_from_slice(string.as_bytes());
}

fn put_option(out: &mut Vec<u8>, string: Option<&str>) {
    out.push(u8::from(string.is_some()));
    put_string(out, string.unwrap_or_default());
}

fn put_assignments(out: &mut Vec<u8>, assignments: &[Vec<i32>]) {
    put_length(out, assignments.len());
    for replicas in assignments {
        put_length(out, replicas.len());
        for replica in replicas {
            out.extend_from_slice(&replica.to_be_bytes());
        }
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], RecordError> {
    let (piece, rest) = bytes.split_first_chunk::<N>().ok_or(RecordError)?;
    *bytes = rest;
    Ok(*piece)
}

/// A length, refused when even the smallest elements would not fit into what is left.
fn take_length(bytes: &mut &[u8], element_bytes_min: usize) -> Result<usize, RecordError> {
    let length = u32::from_be_bytes(take(bytes)?);
    let length = usize::try_from(length).map_err(|_| RecordError)?;
    if length > bytes.len() / element_bytes_min {
        Err(RecordError)
    } else {
        Ok(length)
    }
}

fn take_string(bytes: &mut &[u8]) -> Result<String, RecordError> {
    let length = take_length(bytes, 1)?;
    let (string, rest) = bytes.split_at(length);
    *bytes = rest;
    core::str::from_utf8(string)
        .map(String::from)
        .map_err(|_| RecordError)
}

fn take_flag(bytes: &mut &[u8]) -> Result<bool, RecordError> {
    match take(bytes)? {
        [0] => Ok(false),
        [1] => Ok(true),
        _ => Err(RecordError),
    }
}

fn take_option(bytes: &mut &[u8]) -> Result<Option<String>, RecordError> {
    match (take_flag(bytes)?, take_string(bytes)?) {
        (true, string) => Ok(Some(string)),
        (false, string) if string.is_empty() => Ok(None),
        (false, _) => Err(RecordError),
    }
}

fn take_assignments(bytes: &mut &[u8]) -> Result<Vec<Vec<i32>>, RecordError> {
    let partitions = take_length(bytes, 4)?;
    let mut assignments = Vec::with_capacity(partitions);
    for _ in 0..partitions {
        let replicas = take_length(bytes, 4)?;
        if replicas == 0 {
            return Err(RecordError);
        }
        let replicas = (0..replicas).map(|_| Ok(i32::from_be_bytes(take(bytes)?)));
        assignments.push(replicas.collect::<Result<_, RecordError>>()?);
    }
    Ok(assignments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn samples() -> Vec<Record> {
        let id = TopicId([9; 16]);
        let value = Some(String::from("compact"));
        vec![
            Record::TopicCreated {
                id,
                name: "a.b".into(),
                assignments: vec![vec![1], vec![1, 2]],
            },
            Record::PartitionsAdded {
                id,
                assignments: vec![vec![1]],
            },
            Record::TopicConfigSet {
                id,
                key: "cleanup.policy".into(),
                value,
            },
            Record::TopicConfigSet {
                id,
                key: "cleanup.policy".into(),
                value: None,
            },
            Record::BrokerConfigSet {
                broker: Some(1),
                key: "k".into(),
                value: Some("".into()),
            },
            Record::BrokerConfigSet {
                broker: None,
                key: "k".into(),
                value: None,
            },
            Record::GroupConfigSet {
                group: "g".into(),
                key: "k".into(),
                value: Some("1".into()),
            },
            Record::ProducerIdsAllocated { next: 1000 },
            Record::TopicDeleted { id },
        ]
    }

    #[test]
    fn records_come_back_as_they_were() {
        let mut bytes = Vec::new();
        samples()
            .iter()
            .for_each(|record| record.encode(&mut bytes));
        let mut rest = &bytes[..];
        for record in samples() {
            assert_eq!(Record::decode(&mut rest), Ok(record));
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn a_partition_without_replicas_is_no_record() {
        let mut bytes = Vec::new();
        let id = TopicId([9; 16]);
        let assignments = vec![vec![]];
        Record::PartitionsAdded { id, assignments }.encode(&mut bytes);
        assert_eq!(Record::decode(&mut &bytes[..]), Err(RecordError));
    }

    #[test]
    fn a_length_beyond_the_bytes_is_refused_before_anything_is_reserved() {
        let mut bytes = vec![PARTITIONS_ADDED];
        bytes.extend_from_slice(&[9; 16]);
        bytes.extend_from_slice(&u32::MAX.to_be_bytes());
        bytes.extend_from_slice(&[0; 16]);
        assert_eq!(Record::decode(&mut &bytes[..]), Err(RecordError));
    }

    #[test]
    fn what_decodes_encodes_to_the_same_bytes() {
        for record in samples() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut changed = bytes.clone();
                    changed[at] ^= 1 << bit;
                    let mut rest = &changed[..];
                    if let Ok(decoded) = Record::decode(&mut rest) {
                        let mut again = Vec::new();
                        decoded.encode(&mut again);
                        assert_eq!(again, changed[..changed.len() - rest.len()], "{decoded:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn cut_and_changed_bytes_are_an_error_or_another_record_and_never_a_panic() {
        for record in samples() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            for cut in 0..bytes.len() {
                assert_eq!(Record::decode(&mut &bytes[..cut]), Err(RecordError));
                let mut changed = bytes.clone();
                changed[cut] ^= 0xff;
                let _ = Record::decode(&mut &changed[..]);
            }
        }
    }
}
