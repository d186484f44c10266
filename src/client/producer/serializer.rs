//! Values to bytes, as Kafka's serializers write them.

use std::marker::PhantomData;

use bytes::Bytes;
use serde::Serialize;

use crate::Error;

/// Turns keys or values into bytes.
pub trait Serializer<T: ?Sized>: Send + Sync {
    /// The bytes; `None` for null.
    ///
    /// # Errors
    /// When the value has no bytes.
    fn serialize(&self, topic: &str, value: &T) -> Result<Option<Bytes>, Error>;
}

/// Bytes as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesSerializer;

impl Serializer<Bytes> for BytesSerializer {
    fn serialize(&self, _: &str, value: &Bytes) -> Result<Option<Bytes>, Error> {
        Ok(Some(value.clone()))
    }
}

impl Serializer<[u8]> for BytesSerializer {
    fn serialize(&self, _: &str, value: &[u8]) -> Result<Option<Bytes>, Error> {
        Ok(Some(Bytes::copy_from_slice(value)))
    }
}

/// Text as UTF-8.
#[derive(Clone, Copy, Debug, Default)]
pub struct StringSerializer;

impl Serializer<str> for StringSerializer {
    fn serialize(&self, _: &str, value: &str) -> Result<Option<Bytes>, Error> {
        Ok(Some(Bytes::copy_from_slice(value.as_bytes())))
    }
}

impl Serializer<String> for StringSerializer {
    fn serialize(&self, topic: &str, value: &String) -> Result<Option<Bytes>, Error> {
        self.serialize(topic, value.as_str())
    }
}

/// Integers and floating point numbers, big-endian, in as many bytes as their type has.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberSerializer;

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Serializer<$number> for NumberSerializer {
            fn serialize(&self, _: &str, value: &$number) -> Result<Option<Bytes>, Error> {
                Ok(Some(Bytes::copy_from_slice(&value.to_be_bytes())))
            }
        }
    )*};
}
numbers!(i16, i32, i64, f32, f64);

/// JSON, by serde.
#[derive(Debug)]
pub struct JsonSerializer<T: ?Sized>(PhantomData<fn(&T)>);

impl<T: ?Sized> Default for JsonSerializer<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: Serialize + ?Sized> Serializer<T> for JsonSerializer<T> {
    fn serialize(&self, _: &str, value: &T) -> Result<Option<Bytes>, Error> {
        match serde_json::to_vec(value) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) => Err(Error::Serialization {
                reason: error.to_string(),
            }),
        }
    }
}

/// Null for `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullableSerializer<S>(pub S);

impl<T, S: Serializer<T>> Serializer<Option<T>> for NullableSerializer<S> {
    fn serialize(&self, topic: &str, value: &Option<T>) -> Result<Option<Bytes>, Error> {
        match value {
            Some(value) => self.0.serialize(topic, value),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_the_bytes_that_kafka_writes() {
        let bytes = |result: Result<Option<Bytes>, Error>| result.expect("serializes");
        let number = NumberSerializer.serialize("t", &-2_i32);
        assert_eq!(
            bytes(number).as_deref(),
            Some(&[0xff, 0xff, 0xff, 0xfe][..])
        );
        let text = StringSerializer.serialize("t", "grüße");
        assert_eq!(bytes(text).as_deref(), Some("grüße".as_bytes()));
        let json = JsonSerializer::default().serialize("t", &[Some(1), None]);
        assert_eq!(bytes(json).as_deref(), Some(&b"[1,null]"[..]));
        let null = NullableSerializer(NumberSerializer).serialize("t", &None::<i64>);
        assert_eq!(bytes(null), None);
    }

    #[test]
    fn what_has_no_json_is_an_error_and_no_record() {
        let keys = std::collections::HashMap::from([(vec![1], 2)]);
        let error = JsonSerializer::default().serialize("t", &keys);
        assert!(matches!(error, Err(Error::Serialization { .. })));
    }
}
