//! Produce requests for scatter sends: the record batches go out from the buffers in which they were
//! built. Knows nothing of batches.

use bytes::{BufMut, Bytes, BytesMut};

use crate::fetch::{compact, put_unsigned_varint};
use crate::header::{self, RequestHeader};
use crate::messages::produce_request::{
    PartitionProduceData, ProduceRequestData, TopicProduceData,
};
use crate::{ApiKey, KafkaString, WireError};

const FIRST_FLEXIBLE_VERSION: i16 = 9;
/// From this version on a topic is named by its id alone.
pub const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 13;

/// Encodes a Produce request frame, with its length, as pieces to be sent in their order. Records are
/// not copied. Unknown tagged fields are left out: clients have none.
pub fn frame(
    version: i16,
    correlation_id: i32,
    client_id: Option<KafkaString>,
    request: &ProduceRequestData,
) -> Result<Vec<Bytes>, WireError> {
    let body = request.encoded_len(version)?;
    let mut scatter = Scatter {
        version,
        out: BytesMut::with_capacity(256),
        parts: Vec::new(),
    };
    scatter.out.put_i32(0);
    let header = RequestHeader {
        api_key: ApiKey::Produce as i16,
        api_version: version,
        correlation_id,
        client_id,
    };
    header::encode(&header, &mut scatter.out)?;
    crate::request::set_length(&mut scatter.out, body)?;
    scatter.request(request)?;
    if !scatter.out.is_empty() {
        scatter.parts.push(scatter.out.freeze());
    }
    Ok(scatter.parts)
}

struct Scatter {
    version: i16,
    /// What goes out before the next records.
    out: BytesMut,
    parts: Vec<Bytes>,
}

impl Scatter {
    fn request(&mut self, request: &ProduceRequestData) -> Result<(), WireError> {
        match &request.transactional_id {
            Some(id) => self.string(id)?,
            None if self.flexible() => self.out.put_u8(0),
            None => self.out.put_i16(-1),
        }
        self.out.put_i16(request.acks);
        self.out.put_i32(request.timeout_ms);
        self.length(request.topic_data.len())?;
        for topic in &request.topic_data {
            self.topic(topic)?;
        }
        self.no_tags();
        Ok(())
    }

    fn topic(&mut self, topic: &TopicProduceData) -> Result<(), WireError> {
        if self.version >= FIRST_VERSION_WITH_TOPIC_IDS {
            self.out.put_slice(&topic.topic_id.to_bytes());
        } else {
            self.string(&topic.name)?;
        }
        self.length(topic.partition_data.len())?;
        for partition in &topic.partition_data {
            self.partition(partition)?;
        }
        self.no_tags();
        Ok(())
    }

    fn partition(&mut self, partition: &PartitionProduceData) -> Result<(), WireError> {
        self.out.put_i32(partition.index);
        match &partition.records {
            Some(records) => {
                self.length(records.len())?;
                self.parts.push(self.out.split().freeze());
                self.parts.push(records.clone());
            }
            None if self.flexible() => self.out.put_u8(0),
            None => self.out.put_i32(-1),
        }
        self.no_tags();
        Ok(())
    }

    fn string(&mut self, string: &KafkaString) -> Result<(), WireError> {
        if self.flexible() {
            put_unsigned_varint(&mut self.out, compact(string.len())?);
        } else {
            let length = i16::try_from(string.len()).map_err(|_| WireError::TooLarge)?;
            self.out.put_i16(length);
        }
        self.out.put_slice(string.as_bytes());
        Ok(())
    }

    fn length(&mut self, length: usize) -> Result<(), WireError> {
        if self.flexible() {
            put_unsigned_varint(&mut self.out, compact(length)?);
        } else {
            let length = i32::try_from(length).map_err(|_| WireError::TooLarge)?;
            self.out.put_i32(length);
        }
        Ok(())
    }

    fn no_tags(&mut self) {
        if self.flexible() {
            self.out.put_u8(0);
        }
    }

    fn flexible(&self) -> bool {
        self.version >= FIRST_FLEXIBLE_VERSION
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KafkaUuid;
    use crate::request::Request;

    fn request(version: i16) -> ProduceRequestData {
        let partition = |index, records| {
            PartitionProduceData::default()
                .with_index(index)
                .with_records(records)
        };
        let mut topic = TopicProduceData::default().with_partition_data(vec![
            partition(0, Some(Bytes::from(vec![7; 300]))),
            partition(3, None),
            partition(4, Some(Bytes::new())),
        ]);
        if version >= FIRST_VERSION_WITH_TOPIC_IDS {
            topic.topic_id = KafkaUuid::from_parts(1, 2);
        } else {
            topic.name = KafkaString::from_static("t");
        }
        ProduceRequestData::default()
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![topic.clone(), topic])
    }

    #[test]
    fn the_pieces_add_up_to_what_the_codec_writes_and_records_are_not_copied() {
        for version in 3..=13 {
            let mut request = request(version);
            if version % 2 == 0 {
                request.transactional_id = Some(KafkaString::from_static("x"));
            }
            let client_id = Some(KafkaString::from_static("me"));
            let pieces = frame(version, 9, client_id.clone(), &request).expect("encodes");
            let whole = Request::Produce(request.clone())
                .encode(version, 9, client_id)
                .expect("encodes");
            assert_eq!(pieces.concat(), whole, "version {version}");
            let records = request.topic_data[0].partition_data[0].records.as_ref();
            assert!(
                pieces
                    .iter()
                    .any(|piece| Some(piece.as_ptr()) == records.map(|it| it.as_ptr())),
                "version {version}"
            );
        }
    }
}
