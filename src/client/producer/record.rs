//! Records on their way to a topic, and what is known of them once they are there.

use std::sync::Arc;

use bytes::Bytes;

/// A record to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerRecord {
    /// Where to.
    pub topic: Arc<str>,
    /// `None` leaves the choice to the partitioner.
    pub partition: Option<i32>,
    /// Milliseconds since 1970; `None` takes the moment of sending.
    pub timestamp: Option<i64>,
    /// Null and empty differ.
    pub key: Option<Bytes>,
    /// Null is a tombstone.
    pub value: Option<Bytes>,
    /// In this order; keys may repeat.
    pub headers: Vec<Header>,
}

/// A header of a record (KIP-82).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub key: String,
    /// Null and empty differ.
    pub value: Option<Bytes>,
}

impl ProducerRecord {
    /// A record for a topic, with neither key nor value.
    pub fn to(topic: impl Into<Arc<str>>) -> Self {
        Self {
            topic: topic.into(),
            ..Self::default()
        }
    }

    /// With a key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// With a value.
    #[must_use]
    pub fn value(mut self, value: impl Into<Bytes>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// For this partition.
    #[must_use]
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// With a timestamp, in milliseconds since 1970.
    #[must_use]
    pub fn timestamp(mut self, timestamp: i64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// With one more header.
    #[must_use]
    pub fn header(mut self, key: &str, value: Option<Bytes>) -> Self {
        let key = key.to_owned();
        self.headers.push(Header { key, value });
        self
    }
}

/// A record to be sent whose bytes are borrowed: they are copied once, into the batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordView<'a> {
    /// Where to.
    pub topic: &'a str,
    /// `None` leaves the choice to the partitioner.
    pub partition: Option<i32>,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// Null and empty differ.
    pub key: Option<&'a [u8]>,
    /// Null is a tombstone.
    pub value: Option<&'a [u8]>,
    /// In this order; keys may repeat.
    pub headers: &'a [(&'a [u8], Option<&'a [u8]>)],
}

/// Where a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// Its offset; `None` with `acks=0`, where no broker says.
    pub offset: Option<i64>,
    /// Milliseconds since 1970: the producer's, or the broker's where the topic says so.
    pub timestamp: i64,
}
