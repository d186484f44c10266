//! A Kafka consumer: the decisions pure (events in, effects out, `now` passed in), the shell around
//! them on tokio. Knows nothing of the broker's insides.

mod api;
mod listener;
mod metrics;
mod offsets;
mod partition;
mod record;

mod queries;

mod state;

mod assignors;
mod fetch;
mod membership;
mod subscription;

mod calls;
mod commits;
mod shared;

#[cfg(test)]
mod tests;

pub use api::Consumer;
pub use assignors::Assignor;
pub(crate) use assignors::decode_assignment;
pub(crate) use calls::group::{Identity, commit_request, coordinator_request, read_committed};
pub use listener::{Callback, RebalanceListener};
pub use metrics::ConsumerMetrics;
pub use offsets::{OffsetAndMetadata, OffsetAndTimestamp};
pub use partition::TopicPartition;
pub use record::{ConsumerRecord, ConsumerRecords, PartitionRecords};
