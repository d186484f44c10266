//! What an application is told of rebalances. Knows nothing of how they come about.

use std::future::{Future, ready};
use std::pin::Pin;

use super::Consumer;
use super::partition::TopicPartition;

/// What a listener does, possibly over some time. The rebalance waits for it.
pub type Callback<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Told of rebalances, within [`Consumer::poll`], [`Consumer::unsubscribe`] and [`Consumer::close`].
///
/// All do nothing unless written.
pub trait RebalanceListener: Send + Sync {
    /// These partitions are about to be taken away: the last moment to commit their offsets.
    fn revoked<'a>(
        &'a mut self,
        consumer: &'a Consumer,
        partitions: &'a [TopicPartition],
    ) -> Callback<'a> {
        let _ = (consumer, partitions);
        Box::pin(ready(()))
    }

    /// These partitions are new; none may be. A seek here comes before their first record.
    fn assigned<'a>(
        &'a mut self,
        consumer: &'a Consumer,
        partitions: &'a [TopicPartition],
    ) -> Callback<'a> {
        let _ = (consumer, partitions);
        Box::pin(ready(()))
    }

    /// These partitions were lost and may be another member's already: commits of theirs fail. Does
    /// what [`RebalanceListener::revoked`] does, unless written.
    fn lost<'a>(
        &'a mut self,
        consumer: &'a Consumer,
        partitions: &'a [TopicPartition],
    ) -> Callback<'a> {
        self.revoked(consumer, partitions)
    }
}
