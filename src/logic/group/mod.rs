//! Consumer groups: who is a member, which generation or epoch holds, what is committed. A group is one
//! by the classic protocol or one of consumers by the new one (KIP-848); what they have committed is the
//! same for both. Requests, timers and the fate of appended records come in as events; replies and records
//! to append go out as effects. Knows nothing of frames or of logs.

pub mod coordinator;
pub mod request;

mod dispatch;
mod durable;
mod state;
mod turn;

mod classic;
mod consumer;

mod migration;

mod embedded;

mod admin;
mod expiry;
mod offsets;

#[cfg(test)]
mod tests;

pub use consumer::{Assignor, ConsumerSettings, MigrationPolicy, Times};
pub use coordinator::{AppendError, BatchId, Coordinator, Effect, Event, Now};
pub use request::{Reply, Request, Token};

/// The internal topic that holds groups and what they have committed.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// Bounds that an operator can set, by Kafka's names.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `group.initial.rebalance.delay.ms`: how long an empty group waits for more members.
    pub initial_rebalance_delay_ms: u64,
    /// `group.min.session.timeout.ms`.
    pub session_timeout_ms_min: i32,
    /// `group.max.session.timeout.ms`.
    pub session_timeout_ms_max: i32,
    /// `group.max.size`: members of one group.
    pub size_max: usize,
    /// `offset.metadata.max.bytes`: what a client may remember beside an offset.
    pub metadata_bytes_max: usize,
    /// `offsets.retention.minutes`, in milliseconds.
    pub retention_ms: i64,
    /// `offsets.retention.check.interval.ms`.
    pub retention_check_interval_ms: u64,
    /// Bytes of memory for groups; beyond it new members and new offsets are refused.
    pub memory_bytes_max: usize,
    /// Groups by the new consumer protocol.
    pub consumer: ConsumerSettings,
}

/// Which of the topic's partitions holds a group: Java's hash of its id, as Kafka places it, so that
/// a log that Kafka wrote is found again.
pub fn partition_of(group: &str, partitions: usize) -> Option<i32> {
    let hash = group.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    // Java has no absolute value of its least number; Kafka takes 0.
    let hash = hash.checked_abs().unwrap_or(0);
    hash.checked_rem(i32::try_from(partitions).ok()?)
}
