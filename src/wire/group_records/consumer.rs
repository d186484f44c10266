//! Records of groups by the new consumer protocol (KIP-848): keys 3 and 5 to 8, and 16. Key 4, which
//! Kafka wrote before 4.1, is passed over. Knows nothing of what the records add up to.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut, Bytes, BytesMut};

use super::fields::{
    Fields, Malformed, put_array, put_compact, put_compact_bytes, put_compact_nullable, put_count,
    put_no_tags, put_string, put_tag,
};

const METADATA_KEY: i16 = 3;
const MEMBER_KEY: i16 = 5;
const TARGET_METADATA_KEY: i16 = 6;
const TARGET_KEY: i16 = 7;
const CURRENT_KEY: i16 = 8;
const REGULAR_EXPRESSION_KEY: i16 = 16;

/// All values are of this version, which is flexible (KIP-482).
const VALUE: i16 = 0;
/// Fields that came after version 0 was fixed, by their tags.
const METADATA_HASH_TAG: u32 = 0;
const TARGET_TIMESTAMP_TAG: u32 = 0;
const CLASSIC_TAG: u32 = 0;
/// A structure that may be missing begins with one of these.
const MISSING: u8 = 0;
const PRESENT: u8 = 1;

/// A topic's id as it stands on the wire.
pub type TopicUuid = [u8; 16];

/// Partitions by topic. No topic is without partitions.
pub type Assignment = BTreeMap<TopicUuid, BTreeSet<i32>>;

/// One record of a group of consumers. A value of `None` is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerRecord {
    /// The group itself.
    Metadata(Option<MetadataValue>),
    /// What a member has said of itself: its id, and that.
    Member(String, Option<ConsumerValue>),
    /// Which epoch of the group the targets are of.
    TargetMetadata(Option<TargetMetadataValue>),
    /// What a member is to have in the end.
    Target(String, Option<Assignment>),
    /// What a member has.
    Current(String, Option<CurrentValue>),
    /// The topics that a regular expression stands for.
    RegularExpression(String, Option<RegularExpressionValue>),
}

/// A group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetadataValue {
    /// Counts changes of members, subscriptions and topics.
    pub epoch: i32,
    /// Tells one state of the subscribed topics from another; 0 without any (KIP-1101).
    pub metadata_hash: i64,
}

/// What a member has said of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerValue {
    /// Its own name for itself, if it is a static member.
    pub instance_id: Option<String>,
    /// Where it runs.
    pub rack_id: Option<String>,
    /// Its client's id.
    pub client_id: String,
    /// Its client's address.
    pub client_host: String,
    /// Topics that it has subscribed to by name, sorted.
    pub topic_names: Vec<String>,
    /// The regular expression that it has subscribed by.
    pub topic_regex: Option<String>,
    /// Milliseconds that it has for giving partitions back.
    pub rebalance_timeout_ms: i32,
    /// The assignor that it asks for.
    pub server_assignor: Option<String>,
    /// What else is known of a member that speaks the classic protocol.
    pub classic: Option<ClassicValue>,
}

/// What a member by the classic protocol has said when it joined, in a group of consumers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassicValue {
    /// Milliseconds of silence after which it counts as gone.
    pub session_timeout_ms: i32,
    /// The protocols that it can follow, best first, and what it says under each.
    pub protocols: Vec<(String, Bytes)>,
}

/// Of which epoch the targets are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetMetadataValue {
    /// The group's epoch when they were worked out.
    pub epoch: i32,
    /// When that was, in milliseconds since 1970, or 0 (KIP-1263).
    pub timestamp: i64,
}

/// Where a member is on the way from what it has to its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberState {
    /// It has its target of its epoch.
    #[default]
    Stable,
    /// It has to give partitions back first.
    UnrevokedPartitions,
    /// It waits for partitions that others have to give back.
    UnreleasedPartitions,
    /// A state of a later version.
    Unknown,
}

/// What a member has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurrentValue {
    /// Its epoch: 0 joins, -2 is a static member that is away.
    pub epoch: i32,
    /// The one before, which it may still say when an answer was lost.
    pub previous_epoch: i32,
    /// Where it is on its way.
    pub state: MemberState,
    /// What it may read.
    pub assigned: Assignment,
    /// What it has to give back.
    pub pending_revocation: Assignment,
}

/// The topics that a regular expression stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegularExpressionValue {
    /// Their names, sorted.
    pub topics: Vec<String>,
    /// The version of the metadata that they were found in.
    pub version: i64,
    /// When, in milliseconds since 1970.
    pub timestamp: i64,
}

impl ConsumerRecord {
    /// Whether it takes something away.
    pub fn is_tombstone(&self) -> bool {
        match self {
            Self::Metadata(value) => value.is_none(),
            Self::Member(_, value) => value.is_none(),
            Self::TargetMetadata(value) => value.is_none(),
            Self::Target(_, value) => value.is_none(),
            Self::Current(_, value) => value.is_none(),
            Self::RegularExpression(_, value) => value.is_none(),
        }
    }

    /// Bytes of texts and lists in it, about.
    pub fn size(&self) -> usize {
        let of = |assignment: &Assignment| -> usize {
            assignment.values().map(|it| 16 + 4 * it.len()).sum()
        };
        let texts = |texts: &[String]| -> usize { texts.iter().map(|it| 2 + it.len()).sum() };
        match self {
            Self::Metadata(_) | Self::TargetMetadata(_) => 0,
            Self::Member(id, value) => {
                id.len()
                    + value.as_ref().map_or(0, |it| {
                        let regex = it.topic_regex.as_ref().map_or(0, String::len);
                        let client = it.client_id.len() + it.client_host.len();
                        let classic = it.classic.as_ref().map_or(0, ClassicValue::size);
                        texts(&it.topic_names) + regex + client + classic
                    })
            }
            Self::Target(id, value) => id.len() + value.as_ref().map_or(0, of),
            Self::Current(id, value) => {
                let value = value.as_ref();
                let both = value.map_or(0, |it| of(&it.assigned) + of(&it.pending_revocation));
                id.len() + both
            }
            Self::RegularExpression(regex, value) => {
                regex.len() + value.as_ref().map_or(0, |it| texts(&it.topics))
            }
        }
    }

    pub(super) fn encode_key(&self, group: &str, out: &mut BytesMut) -> Option<()> {
        let (key, more) = match self {
            Self::Metadata(_) => (METADATA_KEY, None),
            Self::TargetMetadata(_) => (TARGET_METADATA_KEY, None),
            Self::Member(id, _) => (MEMBER_KEY, Some(id)),
            Self::Target(id, _) => (TARGET_KEY, Some(id)),
            Self::Current(id, _) => (CURRENT_KEY, Some(id)),
            Self::RegularExpression(regex, _) => (REGULAR_EXPRESSION_KEY, Some(regex)),
        };
        out.put_i16(key);
        put_string(out, group)?;
        more.map_or(Some(()), |more| put_string(out, more))
    }

    /// Writes a value that is no tombstone.
    pub(super) fn encode_value(&self, out: &mut BytesMut) {
        out.put_i16(VALUE);
        match self {
            Self::Metadata(Some(value)) => value.encode(out),
            Self::Member(_, Some(value)) => value.encode(out),
            Self::TargetMetadata(Some(value)) => value.encode(out),
            Self::Target(_, Some(value)) => put_assignment(out, value),
            Self::Current(_, Some(value)) => value.encode(out),
            Self::RegularExpression(_, Some(value)) => value.encode(out),
            _ => return,
        }
        let writes_tags = matches!(
            self,
            Self::Metadata(_) | Self::TargetMetadata(_) | Self::Member(..)
        );
        if !writes_tags {
            put_no_tags(out);
        }
    }

    /// Reads a record of which the kind is read already. `Ok(None)` is one of another kind.
    pub(super) fn decode(
        kind: i16,
        key: &mut Fields,
        value: Option<Fields>,
    ) -> Result<Option<(String, Self)>, Malformed> {
        fn read<T>(
            value: Option<Fields>,
            decode: fn(&mut Fields) -> Result<T, Malformed>,
        ) -> Result<Option<T>, Malformed> {
            let Some(mut value) = value else {
                return Ok(None);
            };
            value.version(VALUE, VALUE)?;
            decode(&mut value).map(Some)
        }
        let known = [
            METADATA_KEY,
            MEMBER_KEY,
            TARGET_METADATA_KEY,
            TARGET_KEY,
            CURRENT_KEY,
            REGULAR_EXPRESSION_KEY,
        ];
        if !known.contains(&kind) {
            return Ok(None);
        }
        let group = key.string()?;
        let record = match kind {
            METADATA_KEY => Self::Metadata(read(value, MetadataValue::decode)?),
            MEMBER_KEY => Self::Member(key.string()?, read(value, ConsumerValue::decode)?),
            TARGET_METADATA_KEY => Self::TargetMetadata(read(value, TargetMetadataValue::decode)?),
            TARGET_KEY => Self::Target(key.string()?, read(value, target)?),
            CURRENT_KEY => Self::Current(key.string()?, read(value, CurrentValue::decode)?),
            _ => {
                let regex = key.string()?;
                Self::RegularExpression(regex, read(value, RegularExpressionValue::decode)?)
            }
        };
        Ok(Some((group, record)))
    }
}

impl MetadataValue {
    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.epoch);
        put_optional(out, METADATA_HASH_TAG, self.metadata_hash);
    }

    fn decode(from: &mut Fields) -> Result<Self, Malformed> {
        Ok(Self {
            epoch: from.i32()?,
            metadata_hash: optional(from, METADATA_HASH_TAG)?,
        })
    }
}

impl TargetMetadataValue {
    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.epoch);
        put_optional(out, TARGET_TIMESTAMP_TAG, self.timestamp);
    }

    fn decode(from: &mut Fields) -> Result<Self, Malformed> {
        Ok(Self {
            epoch: from.i32()?,
            timestamp: optional(from, TARGET_TIMESTAMP_TAG)?,
        })
    }
}

impl ConsumerValue {
    fn encode(&self, out: &mut BytesMut) {
        put_compact_nullable(out, self.instance_id.as_deref());
        put_compact_nullable(out, self.rack_id.as_deref());
        put_compact(out, &self.client_id);
        put_compact(out, &self.client_host);
        put_array(out, &self.topic_names, |out, it| put_compact(out, it));
        put_compact_nullable(out, self.topic_regex.as_deref());
        out.put_i32(self.rebalance_timeout_ms);
        put_compact_nullable(out, self.server_assignor.as_deref());
        // Kafka takes a member without this field for one by the classic protocol: it must be said
        // that there is none.
        let mut classic = BytesMut::new();
        match &self.classic {
            None => classic.put_u8(MISSING),
            Some(value) => {
                classic.put_u8(PRESENT);
                value.encode(&mut classic);
            }
        }
        put_tag(out, CLASSIC_TAG, &classic);
    }

    fn decode(from: &mut Fields) -> Result<Self, Malformed> {
        let mut value = Self {
            instance_id: from.nullable_string()?,
            rack_id: from.nullable_string()?,
            client_id: from.string()?,
            client_host: from.string()?,
            topic_names: from.array(Fields::string)?,
            topic_regex: from.nullable_string()?,
            rebalance_timeout_ms: from.i32()?,
            server_assignor: from.nullable_string()?,
            classic: None,
        };
        if let Some(mut classic) = from.tag(CLASSIC_TAG)?
            && classic.i8()? != MISSING.cast_signed()
        {
            value.classic = Some(ClassicValue::decode(&mut classic)?);
        }
        Ok(value)
    }
}

impl ClassicValue {
    /// Bytes of texts in it, about.
    pub fn size(&self) -> usize {
        let protocols = self.protocols.iter();
        protocols.map(|(name, said)| name.len() + said.len()).sum()
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.session_timeout_ms);
        put_array(out, &self.protocols, |out, (name, said)| {
            put_compact(out, name);
            put_compact_bytes(out, said);
            put_no_tags(out);
        });
        put_no_tags(out);
    }

    fn decode(from: &mut Fields) -> Result<Self, Malformed> {
        let session_timeout_ms = from.i32()?;
        let protocols = from.array(|from| {
            let protocol = (from.string()?, from.bytes()?);
            from.tags()?;
            Ok(protocol)
        })?;
        from.tags()?;
        Ok(Self {
            session_timeout_ms,
            protocols,
        })
    }
}

impl CurrentValue {
    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.epoch);
        out.put_i32(self.previous_epoch);
        out.put_i8(match self.state {
            MemberState::Stable => 0,
            MemberState::UnrevokedPartitions => 1,
            MemberState::UnreleasedPartitions => 2,
            MemberState::Unknown => 127,
        });
        put_assignment(out, &self.assigned);
        put_assignment(out, &self.pending_revocation);
    }

    fn decode(from: &mut Fields) -> Result<Self, Malformed> {
        let value = Self {
            epoch: from.i32()?,
            previous_epoch: from.i32()?,
            state: match from.i8()? {
                0 => MemberState::Stable,
                1 => MemberState::UnrevokedPartitions,
                2 => MemberState::UnreleasedPartitions,
                _ => MemberState::Unknown,
            },
            assigned: assignment(from)?,
            pending_revocation: assignment(from)?,
        };
        from.tags()?;
        Ok(value)
    }
}

impl RegularExpressionValue {
    fn encode(&self, out: &mut BytesMut) {
        put_array(out, &self.topics, |out, it| put_compact(out, it));
        out.put_i64(self.version);
        out.put_i64(self.timestamp);
    }

    fn decode(from: &mut Fields) -> Result<Self, Malformed> {
        let value = Self {
            topics: from.array(Fields::string)?,
            version: from.i64()?,
            timestamp: from.i64()?,
        };
        from.tags()?;
        Ok(value)
    }
}

/// The tagged fields of a value that has one, which is left out where it says nothing.
fn put_optional(out: &mut BytesMut, tag: u32, value: i64) {
    match value {
        0 => put_no_tags(out),
        value => put_tag(out, tag, &value.to_be_bytes()),
    }
}

fn optional(from: &mut Fields, tag: u32) -> Result<i64, Malformed> {
    match from.tag(tag)? {
        Some(mut value) => value.i64(),
        None => Ok(0),
    }
}

fn put_assignment(out: &mut BytesMut, assignment: &Assignment) {
    put_count(out, assignment.len());
    for (topic, partitions) in assignment {
        out.put_slice(topic);
        put_array(out, partitions, |out, index| out.put_i32(*index));
        put_no_tags(out);
    }
}

fn target(from: &mut Fields) -> Result<Assignment, Malformed> {
    let assignment = assignment(from)?;
    from.tags()?;
    Ok(assignment)
}

fn assignment(from: &mut Fields) -> Result<Assignment, Malformed> {
    let topics = from.array(|from| {
        let topic = from.uuid()?;
        let partitions: Vec<i32> = from.array(Fields::i32)?;
        from.tags()?;
        Ok((topic, partitions))
    })?;
    let mut found = Assignment::new();
    for (topic, partitions) in topics {
        if !partitions.is_empty() {
            found.entry(topic).or_default().extend(partitions);
        }
    }
    Ok(found)
}
