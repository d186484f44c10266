//! Request bodies, decoded into one closed enum and encoded for clients. Knows nothing of answers.

use bytes::{BufMut, Bytes, BytesMut};

use crate::header::{self, RequestHeader};
use crate::version::{self, for_each_api};
use crate::{ApiKey, KafkaString, WireError, messages};

macro_rules! request_enum {
    ($($variant:ident, $rm:ident :: $rt:ident, $am:ident :: $at:ident, $min:literal, $max:literal;)*) => {
        /// A decoded request: one variant per served API.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Request {
            $(
                #[doc = concat!("A ", stringify!($variant), " request.")]
                $variant(messages::$rm::$rt),
            )*
        }

        impl Request {
            /// Which API this request asks.
            pub fn api(&self) -> ApiKey {
                match self {
                    $(Self::$variant(_) => ApiKey::$variant,)*
                }
            }

            fn read(api: ApiKey, version: i16, body: &mut Bytes) -> Result<Self, WireError> {
                match api {
                    $(ApiKey::$variant => {
                        Ok(Self::$variant(messages::$rm::$rt::read(body, version)?))
                    })*
                    other => Err(WireError::UnknownApi { api_key: other as i16 }),
                }
            }

            /// Writes the body (no header, no length).
            pub fn write(&self, version: i16, out: &mut BytesMut) -> Result<(), WireError> {
                match self {
                    $(Self::$variant(data) => data.write(out, version)?,)*
                }
                Ok(())
            }
        }

        $(impl From<messages::$rm::$rt> for Request {
            fn from(data: messages::$rm::$rt) -> Self {
                Self::$variant(data)
            }
        })*
    };
}
for_each_api!(request_enum);

impl Request {
    /// Decodes a body (what [`header::decode`] leaves). Strings and records are slices of `body`.
    ///
    /// Refuses versions that are not served, bytes after the message (but for Metadata), and null for an array that
    /// the schema does not let be null: Kafka refuses it, and "nothing" and "everything" differ.
    pub fn decode(header: &RequestHeader, body: Bytes) -> Result<Self, WireError> {
        let (api_key, version) = (header.api_key, header.api_version);
        let served = version::range(api_key).ok_or(WireError::UnknownApi { api_key })?;
        if !served.accepts(version) {
            return Err(WireError::UnsupportedVersion { api_key, version });
        }
        let mut rest = body.clone();
        let request = Self::read(served.api, version, &mut rest)?;
        // librdkafka sends a few bytes too many when it asks for all topics; Kafka ignores them.
        if !rest.is_empty() && served.api != ApiKey::Metadata {
            return Err(WireError::TrailingBytes { bytes: rest.len() });
        }
        if request.is_small() {
            request.refuse_null_arrays(version, &body)?;
        }
        Ok(request)
    }

    /// Encodes a whole request frame, with its length, as a client sends it.
    pub fn encode(
        &self,
        version: i16,
        correlation_id: i32,
        client_id: Option<KafkaString>,
    ) -> Result<BytesMut, WireError> {
        let api_key = self.api() as i16;
        encode_request(api_key, version, correlation_id, client_id, |out| {
            self.write(version, out)
        })
    }

    /// Produce carries the records and Fetch is frequent: neither can mean more when empty.
    fn is_small(&self) -> bool {
        !matches!(self, Self::Produce(_) | Self::Fetch(_))
    }

    /// The codec reads a null array as empty and writes it as empty, in the same number of bytes.
    /// Other liberties of a sender (a default sent explicitly as tagged field) change the length.
    fn refuse_null_arrays(&self, version: i16, body: &Bytes) -> Result<(), WireError> {
        let mut again = BytesMut::with_capacity(body.len());
        self.write(version, &mut again)?;
        if again.len() == body.len() && again[..] != body[..] {
            return Err(WireError::NullArray {
                api_key: self.api() as i16,
            });
        }
        Ok(())
    }
}

/// Encodes a request frame with its 4-byte length; `body` writes what follows the header.
pub fn encode_request<E: Into<WireError>>(
    api_key: i16,
    version: i16,
    correlation_id: i32,
    client_id: Option<KafkaString>,
    body: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<BytesMut, WireError> {
    let mut out = BytesMut::with_capacity(128);
    out.put_i32(0);
    let header = RequestHeader {
        api_key,
        api_version: version,
        correlation_id,
        client_id,
    };
    header::encode(&header, &mut out)?;
    body(&mut out).map_err(Into::into)?;
    set_length(&mut out, 0)?;
    Ok(out)
}

/// Writes the length of a frame into its first four bytes; `beyond` bytes follow out of line.
pub(crate) fn set_length(frame: &mut [u8], beyond: usize) -> Result<(), WireError> {
    let length = frame
        .len()
        .checked_add(beyond)
        .and_then(|total| total.checked_sub(4))
        .and_then(|length| i32::try_from(length).ok())
        .ok_or(WireError::TooLarge)?;
    if let Some(prefix) = frame.first_chunk_mut::<4>() {
        *prefix = length.to_be_bytes();
    }
    Ok(())
}
