//! Request headers. Knows nothing of bodies, nor of which versions are served.

use bytes::{BufMut, Bytes, BytesMut};
use kacrab_protocol::generated::request_header::RequestHeaderData;

use crate::{KafkaString, WireError, version};

/// A decoded request header (versions 1 and 2; tagged fields are dropped, Kafka defines none).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    /// Which API is asked.
    pub api_key: i16,
    /// In which version its body is written, and its response expected.
    pub api_version: i16,
    /// Echoed in the response.
    pub correlation_id: i32,
    /// Name the client gives itself, for logs and quotas.
    pub client_id: Option<KafkaString>,
}

/// The fixed first eight bytes of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peek {
    /// Which API is asked.
    pub api_key: i16,
    /// In which version.
    pub api_version: i16,
    /// Echoed in the response.
    pub correlation_id: i32,
}

/// Reads the first eight bytes of a frame (without its length), or `None` when it is shorter.
pub fn peek(frame: &[u8]) -> Option<Peek> {
    let [k0, k1, v0, v1, c0, c1, c2, c3] = *frame.first_chunk::<8>()?;
    Some(Peek {
        api_key: i16::from_be_bytes([k0, k1]),
        api_version: i16::from_be_bytes([v0, v1]),
        correlation_id: i32::from_be_bytes([c0, c1, c2, c3]),
    })
}

/// Reads the header and leaves the body in `frame` (a frame without its length).
pub fn decode(frame: &mut Bytes) -> Result<RequestHeader, WireError> {
    let peek = peek(frame).ok_or(WireError::Truncated)?;
    let header_version = version::request_header_version(peek.api_key, peek.api_version);
    let header = RequestHeaderData::read(frame, header_version)?;
    Ok(RequestHeader {
        api_key: header.request_api_key,
        api_version: header.request_api_version,
        correlation_id: header.correlation_id,
        client_id: header.client_id,
    })
}

/// Writes the header in the header version that its API version asks for.
pub fn encode(header: &RequestHeader, out: &mut BytesMut) -> Result<(), WireError> {
    let header_version = version::request_header_version(header.api_key, header.api_version);
    RequestHeaderData {
        request_api_key: header.api_key,
        request_api_version: header.api_version,
        correlation_id: header.correlation_id,
        client_id: header.client_id.clone(),
        _unknown_tagged_fields: Vec::new(),
    }
    .write(out, header_version)?;
    Ok(())
}

/// Writes a response header.
pub(crate) fn encode_response(api_key: i16, version: i16, correlation_id: i32, out: &mut BytesMut) {
    out.put_i32(correlation_id);
    if version::response_header_version(api_key, version) >= 1 {
        out.put_u8(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(api_key: i16, api_version: i16) -> RequestHeader {
        RequestHeader {
            api_key,
            api_version,
            correlation_id: 7,
            client_id: Some(KafkaString::from_static("c")),
        }
    }

    #[test]
    fn a_header_reads_back_and_leaves_the_body() {
        for (api_key, api_version) in [(0, 3), (0, 9), (18, 0), (18, 3), (18, 77)] {
            let mut out = BytesMut::new();
            encode(&header(api_key, api_version), &mut out).expect("encodes");
            out.put_slice(b"body");
            let mut frame = out.freeze();
            assert_eq!(
                decode(&mut frame).expect("decodes"),
                header(api_key, api_version)
            );
            assert_eq!(&frame[..], b"body");
        }
    }

    #[test]
    fn every_prefix_of_a_header_is_an_error_and_no_panic() {
        let mut out = BytesMut::new();
        encode(&header(0, 9), &mut out).expect("encodes");
        let whole = out.freeze();
        for length in 0..whole.len() {
            assert!(decode(&mut whole.slice(..length)).is_err(), "{length}");
        }
        assert_eq!(peek(&whole[..7]), None);
        assert_eq!(peek(&whole).map(|peek| peek.correlation_id), Some(7));
    }
}
