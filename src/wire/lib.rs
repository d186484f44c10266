//! Bytes to typed Kafka messages and back. Knows nothing of sockets, files or partitions.
#![forbid(unsafe_code)]

pub mod batch;
pub mod compression;
pub mod error;
pub mod fetch;
pub mod folding;
pub mod fuzz;
pub mod group_records;
pub mod header;
pub mod produce;
pub mod records;
pub mod request;
pub mod response;
pub mod retired;
pub mod version;

/// The request and response structs of the Kafka protocol, one module per message (fields as in
/// Kafka 4.3's schemas).
///
/// Names that several messages share (`PartitionData`, `EpochEndOffset`) are reached through their
/// module: `messages::fetch_response::PartitionData`.
pub mod messages {
    #[allow(ambiguous_glob_reexports)]
    pub use kacrab_protocol::generated::*;
}

pub use compression::Compression;
pub use error::WireError;
pub use kacrab_protocol::generated::{ApiKey, ErrorCode};
pub use kacrab_protocol::{KafkaString, KafkaUuid, RawTaggedField};
