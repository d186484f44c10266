//! Fetch responses for scatter sends: everything but the record bytes. Knows nothing of where the
//! record bytes come from.

use bytes::{BufMut, Bytes, BytesMut};

use crate::messages::fetch_response::{FetchResponseData, FetchableTopicResponse, PartitionData};
use crate::request::set_length;
use crate::{ApiKey, RawTaggedField, WireError, header};

/// One piece of a frame, in the order of sending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Bytes encoded here.
    Bytes(Bytes),
    /// The record bytes of this partition, counted over all topics in their order.
    Records(usize),
}

const FIRST_FLEXIBLE_VERSION: i16 = 12;
const FIRST_VERSION_WITH_SESSIONS: i16 = 7;
const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 13;

/// Encodes a Fetch response frame around records that are sent from elsewhere.
///
/// `records_len` holds the number of record bytes of each partition, in order; a partition with
/// none gets a zero-length field (never null: clients fail on it), and no [`Part::Records`]. What
/// is in `records` of the partitions is not looked at. Null `aborted_transactions` stay null: that
/// is Kafka's answer to read_uncommitted.
///
/// # Panics
/// When `records_len` does not have one entry per partition: that is the caller's mistake.
pub fn frame(
    version: i16,
    correlation_id: i32,
    response: &FetchResponseData,
    records_len: &[usize],
) -> Result<Vec<Part>, WireError> {
    let partitions: usize = response
        .responses
        .iter()
        .map(|topic| topic.partitions.len())
        .sum();
    assert_eq!(partitions, records_len.len(), "one length per partition");
    let mut scatter = Scatter {
        version,
        parts: Vec::with_capacity(1 + 2 * partitions),
        out: BytesMut::with_capacity(64 + 64 * partitions),
        marks: Vec::with_capacity(partitions),
    };
    scatter.out.put_i32(0);
    header::encode_response(
        ApiKey::Fetch as i16,
        version,
        correlation_id,
        &mut scatter.out,
    );
    scatter.response(response, records_len)?;
    set_length(&mut scatter.out, records_len.iter().sum())?;
    Ok(scatter.split())
}

/// The frame so far in one buffer, and where record bytes interrupt it.
struct Scatter {
    version: i16,
    out: BytesMut,
    /// Position in `out` before which the records of a partition go. Ascending.
    marks: Vec<(usize, usize)>,
    parts: Vec<Part>,
}

impl Scatter {
    fn response(
        &mut self,
        response: &FetchResponseData,
        records_len: &[usize],
    ) -> Result<(), WireError> {
        self.out.put_i32(response.throttle_time_ms);
        if self.version >= FIRST_VERSION_WITH_SESSIONS {
            self.out.put_i16(response.error_code);
            self.out.put_i32(response.session_id);
        }
        self.array_length(response.responses.len())?;
        let mut first = 0;
        for topic in &response.responses {
            let records_len = &records_len[first..first + topic.partitions.len()];
            self.topic(topic, first, records_len)?;
            first += topic.partitions.len();
        }
        let mut tags = response._unknown_tagged_fields.clone();
        if self.version >= 16 && !response.node_endpoints.is_empty() {
            let mut data = BytesMut::new();
            put_unsigned_varint(&mut data, compact(response.node_endpoints.len())?);
            for endpoint in &response.node_endpoints {
                endpoint.write(&mut data, self.version)?;
            }
            tags.push(tag(0, data));
        }
        self.tags(tags)
    }

    fn topic(
        &mut self,
        topic: &FetchableTopicResponse,
        first: usize,
        records_len: &[usize],
    ) -> Result<(), WireError> {
        if self.version >= FIRST_VERSION_WITH_TOPIC_IDS {
            self.out.put_slice(&topic.topic_id.to_bytes());
        } else if self.flexible() {
            put_unsigned_varint(&mut self.out, compact(topic.topic.len())?);
            self.out.put_slice(topic.topic.as_bytes());
        } else {
            let length = i16::try_from(topic.topic.len()).map_err(|_| WireError::TooLarge)?;
            self.out.put_i16(length);
            self.out.put_slice(topic.topic.as_bytes());
        }
        self.array_length(topic.partitions.len())?;
        for (i, (partition, &length)) in topic.partitions.iter().zip(records_len).enumerate() {
            self.partition(partition, first + i, length)?;
        }
        self.tags(topic._unknown_tagged_fields.clone())
    }

    fn partition(
        &mut self,
        data: &PartitionData,
        index: usize,
        records_len: usize,
    ) -> Result<(), WireError> {
        self.out.put_i32(data.partition_index);
        self.out.put_i16(data.error_code);
        self.out.put_i64(data.high_watermark);
        self.out.put_i64(data.last_stable_offset);
        if self.version >= 5 {
            self.out.put_i64(data.log_start_offset);
        }
        self.aborted_transactions(data)?;
        if self.version >= 11 {
            self.out.put_i32(data.preferred_read_replica);
        }
        if self.flexible() {
            put_unsigned_varint(&mut self.out, compact(records_len)?);
        } else {
            let length = i32::try_from(records_len).map_err(|_| WireError::TooLarge)?;
            self.out.put_i32(length);
        }
        if records_len > 0 {
            self.marks.push((self.out.len(), index));
        }
        self.partition_tags(data)
    }

    fn aborted_transactions(&mut self, data: &PartitionData) -> Result<(), WireError> {
        match &data.aborted_transactions {
            Some(aborted) => {
                self.array_length(aborted.len())?;
                for transaction in aborted {
                    transaction.write(&mut self.out, self.version)?;
                }
            }
            None if self.flexible() => self.out.put_u8(0),
            None => self.out.put_i32(-1),
        }
        Ok(())
    }

    fn partition_tags(&mut self, data: &PartitionData) -> Result<(), WireError> {
        let mut tags = data._unknown_tagged_fields.clone();
        if data.diverging_epoch != Default::default() {
            let mut out = BytesMut::new();
            data.diverging_epoch.write(&mut out, self.version)?;
            tags.push(tag(0, out));
        }
        if data.current_leader != Default::default() {
            let mut out = BytesMut::new();
            data.current_leader.write(&mut out, self.version)?;
            tags.push(tag(1, out));
        }
        if data.snapshot_id != Default::default() {
            let mut out = BytesMut::new();
            data.snapshot_id.write(&mut out, self.version)?;
            tags.push(tag(2, out));
        }
        self.tags(tags)
    }

    fn tags(&mut self, mut tags: Vec<RawTaggedField>) -> Result<(), WireError> {
        if !self.flexible() {
            return Ok(());
        }
        tags.sort_by_key(|field| field.tag);
        let count = u32::try_from(tags.len()).map_err(|_| WireError::TooLarge)?;
        put_unsigned_varint(&mut self.out, count);
        for field in tags {
            put_unsigned_varint(&mut self.out, field.tag);
            let length = u32::try_from(field.data.len()).map_err(|_| WireError::TooLarge)?;
            put_unsigned_varint(&mut self.out, length);
            self.out.put_slice(&field.data);
        }
        Ok(())
    }

    fn array_length(&mut self, length: usize) -> Result<(), WireError> {
        if self.flexible() {
            put_unsigned_varint(&mut self.out, compact(length)?);
        } else {
            let length = i32::try_from(length).map_err(|_| WireError::TooLarge)?;
            self.out.put_i32(length);
        }
        Ok(())
    }

    fn flexible(&self) -> bool {
        self.version >= FIRST_FLEXIBLE_VERSION
    }

    fn split(self) -> Vec<Part> {
        let mut parts = self.parts;
        let whole = self.out.freeze();
        let mut from = 0;
        for (at, index) in self.marks {
            parts.push(Part::Bytes(whole.slice(from..at)));
            parts.push(Part::Records(index));
            from = at;
        }
        if from < whole.len() {
            parts.push(Part::Bytes(whole.slice(from..)));
        }
        parts
    }
}

fn tag(tag: u32, data: BytesMut) -> RawTaggedField {
    RawTaggedField {
        tag,
        data: data.freeze(),
    }
}

/// Lengths in flexible versions are one more than what they count (0 is null).
pub(crate) fn compact(length: usize) -> Result<u32, WireError> {
    i32::try_from(length)
        .map(|length| length.unsigned_abs() + 1)
        .map_err(|_| WireError::TooLarge)
}

pub(crate) fn put_unsigned_varint(out: &mut BytesMut, mut value: u32) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::fetch_response::{
        AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch, NodeEndpoint,
    };
    use crate::response::{self, Response};
    use crate::{KafkaString, KafkaUuid};

    fn topic(partitions: Vec<PartitionData>) -> FetchableTopicResponse {
        FetchableTopicResponse::default()
            .with_topic(KafkaString::from_static("orders"))
            .with_topic_id(KafkaUuid::from_parts(3, 4))
            .with_partitions(partitions)
    }

    fn partition(index: i32, records: &'static [u8]) -> PartitionData {
        PartitionData::default()
            .with_partition_index(index)
            .with_high_watermark(1 << 40)
            .with_aborted_transactions(Some(Vec::new()))
            .with_records(Some(Bytes::from_static(records)))
    }

    fn example(version: i16) -> FetchResponseData {
        let leader = LeaderIdAndEpoch::default().with_leader_id(2);
        let endpoint = NodeEndpoint::default().with_host(KafkaString::from_static("b2"));
        let aborted = AbortedTransaction::default()
            .with_producer_id(9)
            .with_first_offset(11);
        let mut data = FetchResponseData::default().with_responses(vec![
            topic(vec![
                partition(0, &[7; 300]),
                partition(1, b"")
                    .with_error_code(6)
                    .with_current_leader(leader),
                partition(2, b"xy").with_aborted_transactions(None),
            ]),
            topic(vec![]),
            topic(vec![
                partition(5, b"z").with_aborted_transactions(Some(vec![aborted])),
                partition(6, b"").with_diverging_epoch(EpochEndOffset::default().with_epoch(4)),
            ]),
        ]);
        if version >= 7 {
            data.session_id = 77;
        }
        data.node_endpoints = vec![endpoint];
        data
    }

    fn gathered(parts: &[Part], records: &[Bytes]) -> Vec<u8> {
        let mut all = Vec::new();
        for part in parts {
            match part {
                Part::Bytes(bytes) => all.extend_from_slice(bytes),
                Part::Records(index) => all.extend_from_slice(&records[*index]),
            }
        }
        all
    }

    #[test]
    fn the_scattered_frame_gathers_to_the_codec_s_own_bytes_in_every_version() {
        for version in 4..=18 {
            let data = example(version);
            let records: Vec<Bytes> = data
                .responses
                .iter()
                .flat_map(|topic| &topic.partitions)
                .filter_map(|partition| partition.records.clone())
                .collect();
            let lengths: Vec<usize> = records.iter().map(Bytes::len).collect();
            let parts = frame(version, 42, &data, &lengths).expect("encodes");
            let whole = response::encode(version, 42, &Response::Fetch(data)).expect("encodes");
            assert_eq!(gathered(&parts, &records), whole, "version {version}");
        }
    }

    #[test]
    fn an_empty_partition_has_a_zero_length_field_and_no_part() {
        let mut data =
            FetchResponseData::default().with_responses(vec![topic(vec![partition(0, b"")])]);
        data.responses[0].partitions[0].records = None;
        for version in 4..=18 {
            let parts = frame(version, 1, &data, &[0]).expect("encodes");
            let [Part::Bytes(bytes)] = &parts[..] else {
                panic!("one part: {parts:?}");
            };
            let (_, body) =
                response::decode_response(1, version, bytes.slice(4..)).expect("header");
            let Ok(Response::Fetch(back)) = Response::decode(1, version, body) else {
                panic!("does not decode");
            };
            assert_eq!(back.responses[0].partitions[0].records, Some(Bytes::new()));
        }
    }
}
