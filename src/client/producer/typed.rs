//! A producer of keys and values: serializers before a producer of bytes.

use super::{Delivery, Header, Producer, ProducerRecord, RecordMetadata, Serializer};
use crate::Error;

/// A producer whose keys and values are turned into bytes by `K` and `V`.
#[derive(Clone)]
pub struct TypedProducer<K, V> {
    producer: Producer,
    key: K,
    value: V,
}

impl<K, V> TypedProducer<K, V> {
    /// Serializers before a producer.
    pub fn new(producer: Producer, key: K, value: V) -> Self {
        Self {
            producer,
            key,
            value,
        }
    }

    /// The producer behind the serializers.
    pub fn producer(&self) -> &Producer {
        &self.producer
    }

    /// As [`Producer::send`]. Without `key` the record has none.
    ///
    /// # Errors
    /// As [`Producer::send`], and when a serializer fails.
    pub async fn send<A: ?Sized, B: ?Sized>(
        &self,
        topic: &str,
        key: Option<&A>,
        value: &B,
        headers: Vec<Header>,
    ) -> Result<Delivery, Error>
    where
        K: Serializer<A>,
        V: Serializer<B>,
    {
        let key = match key {
            Some(key) => self.key.serialize(topic, key)?,
            None => None,
        };
        let record = ProducerRecord {
            key,
            value: self.value.serialize(topic, value)?,
            headers,
            ..ProducerRecord::to(topic)
        };
        self.producer.send(record).await
    }

    /// As [`Producer::send_and_wait`].
    ///
    /// # Errors
    /// As [`TypedProducer::send`], and when the record is not acknowledged.
    pub async fn send_and_wait<A: ?Sized, B: ?Sized>(
        &self,
        topic: &str,
        key: Option<&A>,
        value: &B,
    ) -> Result<RecordMetadata, Error>
    where
        K: Serializer<A>,
        V: Serializer<B>,
    {
        self.send(topic, key, value, Vec::new()).await?.await
    }
}
