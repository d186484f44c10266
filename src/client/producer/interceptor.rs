//! Code of others around each record: Kafka's producer interceptors.

use super::record::{ProducerRecord, RecordMetadata};
use crate::Error;

/// Sees each record before it is taken and after its fate is decided.
pub trait Interceptor: Send + Sync {
    /// What is sent in the record's place. Serialized already; the partition may not be chosen yet.
    fn on_send(&self, record: ProducerRecord) -> ProducerRecord {
        record
    }

    /// Is told of each record's fate, by the task that sends: it must not block.
    fn on_acknowledgement(&self, fate: Result<&RecordMetadata, &Error>) {
        let _ = fate;
    }
}
