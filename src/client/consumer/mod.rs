//! A Kafka consumer: the decisions pure (events in, effects out, `now` passed in), the shell around
//! them on tokio. Knows nothing of the broker's insides.

mod assignors;
mod fetch;
mod membership;
mod partition;
mod record;
mod subscription;

pub use assignors::Assignor;
pub use partition::TopicPartition;
pub use record::{ConsumerRecord, ConsumerRecords, PartitionRecords};
pub use subscription::OffsetReset;
