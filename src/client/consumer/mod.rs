//! A Kafka consumer: the decisions pure (events in, effects out, `now` passed in), the shell around
//! them on tokio. Knows nothing of the broker's insides.

mod assignors;
mod partition;

pub use assignors::Assignor;
pub use partition::TopicPartition;
