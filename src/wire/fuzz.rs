//! Entry points for fuzzers: bytes in, nothing out, no panic. Knows nothing of any fuzzer.

use bytes::Bytes;

use crate::batch::{self, Limits};
use crate::compression::Unfolding;
use crate::records::Records;
use crate::request::Request;
use crate::{header, response, retired, version};

/// A frame without its length: header, then body.
pub fn frame(bytes: &[u8]) {
    let mut frame = Bytes::copy_from_slice(bytes);
    let _ = header::peek(&frame);
    let _ = retired::refuse(&frame);
    if let Ok(header) = header::decode(&mut frame) {
        let _ = response::error_response(&header, crate::ErrorCode::InvalidRequest);
        let _ = Request::decode(&header, frame);
    }
}

/// Any served request: the first two bytes pick API and version, the rest is its body. What
/// decodes must encode again.
pub fn request(bytes: &[u8]) {
    let [api, api_version, body @ ..] = bytes else {
        return;
    };
    let served = &version::SERVED[usize::from(*api) % version::SERVED.len()];
    let versions = served.max - served.min + 1;
    let header = header::RequestHeader {
        api_key: served.api as i16,
        api_version: served.min + i16::from(*api_version) % versions,
        correlation_id: 1,
        client_id: None,
    };
    let body = Bytes::copy_from_slice(body);
    if let Ok(request) = Request::decode(&header, body.clone()) {
        let again = request.encode(header.api_version, 1, None);
        assert!(
            again.is_ok(),
            "{:?} version {}",
            served.api,
            header.api_version
        );
    }
    let _ = response::Response::decode(header.api_key, header.api_version, body);
}

/// The records of a partition, once as a Produce request has them, once as a log has them.
pub fn batch(bytes: &[u8]) {
    let limits = Limits {
        unfolding: Unfolding {
            output_bytes_max: 1 << 20,
            ..Unfolding::default()
        },
        zstd: true,
    };
    let records = Bytes::copy_from_slice(bytes);
    let _ = batch::check(&records, &limits);
    let mut positions = batch::split(&records);
    while let Some(view) = positions.next() {
        assert!(positions.position() > view.position, "each batch moves on");
        let batch = records.slice_ref(view.bytes);
        if let Ok(content) = Records::open(&batch, &limits.unfolding) {
            content.take_while(Result::is_ok).for_each(drop);
        }
    }
    // A fuzzer does not guess checksums: give it one and check what is behind it.
    if bytes.len() >= batch::HEADER_BYTES {
        let mut sealed = bytes.to_vec();
        let length = i32::try_from(sealed.len() - batch::LENGTH_END).unwrap_or(0);
        sealed[batch::LENGTH_AT..batch::LENGTH_END].copy_from_slice(&length.to_be_bytes());
        sealed[batch::MAGIC_AT] = batch::MAGIC.cast_unsigned();
        batch::set_crc(&mut sealed);
        let _ = batch::check(&sealed.into(), &limits);
    }
}
