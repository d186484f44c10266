//! The requests that a consumer sends, built for the version that the broker speaks, and what their
//! answers say. Knows nothing of when they are due.

pub(super) mod consumer_group;
pub(super) mod group;
pub(super) mod log;

use wire::{ErrorCode, KafkaString};

use crate::Error;

/// An error as a code. What happened on the way to the broker and back is NETWORK_EXCEPTION: whether
/// the request was carried out is unknown.
pub(super) fn code_of(error: &Error) -> ErrorCode {
    match error {
        Error::Broker(error) => error.code,
        Error::NoCommonVersion { .. } => ErrorCode::UnsupportedVersion,
        _ => ErrorCode::NetworkException,
    }
}

/// `Ok` for the code that says so.
pub(super) fn checked(code: i16) -> Result<(), ErrorCode> {
    match ErrorCode::from(code) {
        ErrorCode::None => Ok(()),
        code => Err(code),
    }
}

pub(super) fn text(text: &str) -> KafkaString {
    KafkaString::from(text.to_owned())
}
