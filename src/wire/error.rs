//! What can be wrong with a frame. Knows nothing of Kafka error codes for batches (see `batch`).

use std::fmt;

use kacrab_protocol::ProtocolError;

/// Why a frame could not be decoded, or a message could not be encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireError {
    /// The frame ends before its header or body does.
    Truncated,
    /// The API is not in [`crate::version::SERVED`].
    UnknownApi {
        /// API key of the request header.
        api_key: i16,
    },
    /// The API is served, but not at this version.
    UnsupportedVersion {
        /// API key of the request header.
        api_key: i16,
        /// Version that was asked for.
        version: i16,
    },
    /// The body does not follow the schema of this API and version.
    Malformed {
        /// What the codec found, for logs.
        reason: String,
    },
    /// The message ends before the frame does.
    TrailingBytes {
        /// Number of bytes left over.
        bytes: usize,
    },
    /// An array that may not be null was sent as null.
    NullArray {
        /// API key of the request header.
        api_key: i16,
    },
    /// A field is set that this version of the message does not have.
    FieldNotInVersion {
        /// API key of the message.
        api_key: i16,
        /// The field, as the codec names it.
        field: &'static str,
        /// The version.
        version: i16,
    },
    /// The frame would be longer than a 31-bit length can say.
    TooLarge,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(f, "the frame is shorter than its header"),
            Self::UnknownApi { api_key } => write!(f, "API key {api_key} is not served"),
            Self::UnsupportedVersion { api_key, version } => {
                write!(f, "API key {api_key} is not served at version {version}")
            }
            Self::Malformed { reason } => write!(f, "malformed message: {reason}"),
            Self::TrailingBytes { bytes } => {
                write!(f, "{bytes} bytes follow the end of the message")
            }
            Self::NullArray { api_key } => {
                write!(f, "a non-nullable array of API key {api_key} is null")
            }
            Self::FieldNotInVersion {
                api_key,
                field,
                version,
            } => write!(
                f,
                "version {version} of API key {api_key} has no field {field}"
            ),
            Self::TooLarge => write!(f, "the frame is longer than 2 GiB"),
        }
    }
}

impl std::error::Error for WireError {}

impl From<ProtocolError> for WireError {
    fn from(error: ProtocolError) -> Self {
        match error {
            ProtocolError::FieldVersion(error) => Self::FieldNotInVersion {
                api_key: error.api_key,
                field: error.field,
                version: error.version,
            },
            ProtocolError::Version(error) => Self::UnsupportedVersion {
                api_key: error.api_key,
                version: error.version,
            },
            error => Self::Malformed {
                reason: error.to_string(),
            },
        }
    }
}
