//! What a consumer has done so far. Knows nothing of how it is shown.

use std::collections::BTreeMap;

use super::partition::TopicPartition;

/// Totals since the consumer was made, and where it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerMetrics {
    /// Records that polls have returned (`records-consumed-total`).
    pub records: u64,
    /// Bytes of record batches that were fetched, as they were sent (`bytes-consumed-total`).
    pub bytes: u64,
    /// Fetches that were answered (`fetch-total`).
    pub fetches: u64,
    /// Assignments that the group gave (`rebalance-total`).
    pub rebalances: u64,
    /// Records between the position and the end of the log as the last fetch saw it, of each
    /// assigned partition that was fetched (`records-lag`).
    pub lag: BTreeMap<TopicPartition, i64>,
}
