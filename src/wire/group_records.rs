//! What the topic `__consumer_offsets` holds: keys and values of committed offsets and of groups, in
//! Kafka's own formats. Knows nothing of what the records add up to.

mod consumer;
mod fields;
#[cfg(test)]
mod tests;

use bytes::{BufMut, Bytes, BytesMut};

pub use consumer::{
    Assignment, ClassicValue, ConsumerRecord, ConsumerValue, CurrentValue, MemberState,
    MetadataValue, RegularExpressionValue, TargetMetadataValue, TopicUuid,
};
pub use fields::Malformed;
use fields::{Fields, put_bytes, put_nullable, put_string};

/// Versions of keys, which tell what a record is about. Others belong to other kinds of groups.
const OFFSET_KEY_LEGACY: i16 = 0;
const OFFSET_KEY: i16 = 1;
const GROUP_KEY: i16 = 2;

/// An offset's value as Kafka has written it since 2.1.
const OFFSET_VALUE: i16 = 3;
/// The version that alone can say when the offset expires, for clients that ask for it.
const OFFSET_VALUE_WITH_EXPIRY: i16 = 1;
/// The versions of both values that are read; the last one is flexible (KIP-482).
const VALUE_VERSION_MAX: i16 = 4;
const FIRST_FLEXIBLE_VALUE: i16 = 4;
/// A group's value as Kafka has written it since 2.3.
const GROUP_VALUE: i16 = 3;

/// One record of the topic. A value of `None` is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRecord {
    /// How far a group has read a partition.
    Offset {
        /// The group's id.
        group: String,
        /// The topic's name.
        topic: String,
        /// The partition's index.
        partition: i32,
        /// What was committed.
        value: Option<OffsetValue>,
    },
    /// A group by the classic protocol with its members, as of its last assignment.
    Group {
        /// The group's id.
        group: String,
        /// Its state.
        value: Option<GroupValue>,
    },
    /// A part of a group by the new consumer protocol (KIP-848).
    Consumer {
        /// The group's id.
        group: String,
        /// Which part, and what it is.
        record: ConsumerRecord,
    },
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetValue {
    /// The next offset to read.
    pub offset: i64,
    /// The leader epoch of the last record read, or -1 (KIP-320).
    pub leader_epoch: i32,
    /// Whatever the client wants to remember.
    pub metadata: String,
    /// When it was committed, in milliseconds since 1970.
    pub commit_timestamp: i64,
    /// When it expires whatever happens, or -1: what OffsetCommit versions 2 to 4 can ask for.
    pub expire_timestamp: i64,
}

/// A group as of its last assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupValue {
    /// What kind of group: "consumer", "connect" or another.
    pub protocol_type: String,
    /// The generation.
    pub generation: i32,
    /// The protocol that all members share; none in an empty group.
    pub protocol: Option<String>,
    /// The leader's member id; none in an empty group.
    pub leader: Option<String>,
    /// When the group came into this state, in milliseconds since 1970, or -1.
    pub state_timestamp: i64,
    /// Its members.
    pub members: Vec<MemberValue>,
}

/// A member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberValue {
    /// Its id, given by the coordinator.
    pub member_id: String,
    /// Its own name for itself, if it is a static member (KIP-345).
    pub instance_id: Option<String>,
    /// Its client's id.
    pub client_id: String,
    /// Its client's address.
    pub client_host: String,
    /// Milliseconds that a rebalance waits for it.
    pub rebalance_timeout_ms: i32,
    /// Milliseconds of silence after which it counts as gone.
    pub session_timeout_ms: i32,
    /// What it has said of itself under the group's protocol.
    pub subscription: Bytes,
    /// What it was given.
    pub assignment: Bytes,
}

impl GroupRecord {
    /// The id of the group that it is about.
    pub fn group(&self) -> &str {
        match self {
            Self::Offset { group, .. }
            | Self::Group { group, .. }
            | Self::Consumer { group, .. } => group,
        }
    }

    /// The record's key. `None` when a name is longer than the format can say.
    pub fn encode_key(&self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        match self {
            Self::Offset {
                group,
                topic,
                partition,
                ..
            } => {
                out.put_i16(OFFSET_KEY);
                put_string(&mut out, group)?;
                put_string(&mut out, topic)?;
                out.put_i32(*partition);
            }
            Self::Group { group, .. } => {
                out.put_i16(GROUP_KEY);
                put_string(&mut out, group)?;
            }
            Self::Consumer { group, record } => record.encode_key(group, &mut out)?,
        }
        Some(out.freeze())
    }

    /// The record's value, which a tombstone has not. `None` when a text is longer than the format can
    /// say.
    pub fn encode_value(&self) -> Option<Option<Bytes>> {
        let mut out = BytesMut::new();
        match self {
            Self::Offset {
                value: Some(value), ..
            } => value.encode(&mut out)?,
            Self::Group {
                value: Some(value), ..
            } => value.encode(&mut out)?,
            Self::Offset { value: None, .. } | Self::Group { value: None, .. } => {
                return Some(None);
            }
            Self::Consumer { record, .. } if record.is_tombstone() => return Some(None),
            Self::Consumer { record, .. } => record.encode_value(&mut out),
        }
        Some(Some(out.freeze()))
    }

    /// Reads a record. `Ok(None)` is one about something that is not known here.
    ///
    /// # Errors
    /// The bytes are not what Kafka writes.
    pub fn decode(key: &Bytes, value: Option<&Bytes>) -> Result<Option<Self>, Malformed> {
        let mut key = Fields::new(key);
        let kind = key.i16()?;
        let record = match kind {
            OFFSET_KEY_LEGACY | OFFSET_KEY => Self::Offset {
                group: key.string()?,
                topic: key.string()?,
                partition: key.i32()?,
                value: value.map(OffsetValue::decode).transpose()?,
            },
            GROUP_KEY => Self::Group {
                group: key.string()?,
                value: value.map(GroupValue::decode).transpose()?,
            },
            _ => {
                let value = value.map(Fields::new);
                let found = ConsumerRecord::decode(kind, &mut key, value)?;
                return Ok(found.map(|(group, record)| Self::Consumer { group, record }));
            }
        };
        Ok(Some(record))
    }
}

impl OffsetValue {
    fn encode(&self, out: &mut BytesMut) -> Option<()> {
        let expires = self.expire_timestamp >= 0;
        out.put_i16(if expires {
            OFFSET_VALUE_WITH_EXPIRY
        } else {
            OFFSET_VALUE
        });
        out.put_i64(self.offset);
        if !expires {
            out.put_i32(self.leader_epoch);
        }
        put_string(out, &self.metadata)?;
        out.put_i64(self.commit_timestamp);
        if expires {
            out.put_i64(self.expire_timestamp);
        }
        Some(())
    }

    fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut from = Fields::new(bytes);
        let version = from.version(VALUE_VERSION_MAX, FIRST_FLEXIBLE_VALUE)?;
        let offset = from.i64()?;
        let leader_epoch = if version >= 3 { from.i32()? } else { -1 };
        let metadata = from.string()?;
        let commit_timestamp = from.i64()?;
        let expires = version == OFFSET_VALUE_WITH_EXPIRY;
        Ok(Self {
            offset,
            leader_epoch,
            metadata,
            commit_timestamp,
            expire_timestamp: if expires { from.i64()? } else { -1 },
        })
    }
}

impl GroupValue {
    fn encode(&self, out: &mut BytesMut) -> Option<()> {
        out.put_i16(GROUP_VALUE);
        put_string(out, &self.protocol_type)?;
        out.put_i32(self.generation);
        put_nullable(out, self.protocol.as_deref())?;
        put_nullable(out, self.leader.as_deref())?;
        out.put_i64(self.state_timestamp);
        out.put_i32(i32::try_from(self.members.len()).ok()?);
        self.members.iter().try_for_each(|it| it.encode(out))
    }

    fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut from = Fields::new(bytes);
        let version = from.version(VALUE_VERSION_MAX, FIRST_FLEXIBLE_VALUE)?;
        let protocol_type = from.string()?;
        let generation = from.i32()?;
        let protocol = from.nullable_string()?;
        let leader = from.nullable_string()?;
        let state_timestamp = if version >= 2 { from.i64()? } else { -1 };
        let members = from.array(|from| MemberValue::decode(from, version))?;
        Ok(Self {
            protocol_type,
            generation,
            protocol,
            leader,
            state_timestamp,
            members,
        })
    }
}

impl MemberValue {
    fn encode(&self, out: &mut BytesMut) -> Option<()> {
        put_string(out, &self.member_id)?;
        put_nullable(out, self.instance_id.as_deref())?;
        put_string(out, &self.client_id)?;
        put_string(out, &self.client_host)?;
        out.put_i32(self.rebalance_timeout_ms);
        out.put_i32(self.session_timeout_ms);
        put_bytes(out, &self.subscription)?;
        put_bytes(out, &self.assignment)
    }

    fn decode(from: &mut Fields, version: i16) -> Result<Self, Malformed> {
        let member_id = from.string()?;
        let instance_id = if version >= 3 {
            from.nullable_string()?
        } else {
            None
        };
        let client_id = from.string()?;
        let client_host = from.string()?;
        let rebalance_timeout_ms = (version >= 1).then(|| from.i32()).transpose()?;
        let session_timeout_ms = from.i32()?;
        let member = Self {
            member_id,
            instance_id,
            client_id,
            client_host,
            // Before there was a rebalance timeout the session's was it.
            rebalance_timeout_ms: rebalance_timeout_ms.unwrap_or(session_timeout_ms),
            session_timeout_ms,
            subscription: from.bytes()?,
            assignment: from.bytes()?,
        };
        from.tags()?;
        Ok(member)
    }
}
