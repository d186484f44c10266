//! Where the stories take place: two groups, two topics, short times. Knows nothing of what happens.

use simulated_groups::group::{Assignor, ConsumerSettings, MigrationPolicy, Now, Settings, Times};
use simulated_groups::ids::{Instant, Timestamp, TopicId};

/// A group by the classic protocol.
pub const CLASSIC: &str = "classic";
/// A group of consumers by the new protocol.
pub const CONSUMERS: &str = "consumers";
pub const GROUPS: [&str; 2] = [CLASSIC, CONSUMERS];

/// The topic that all members read. It only grows.
pub const READ: &str = "t";
/// What some members subscribe to instead of its name.
pub const READ_PATTERN: &str = "[r-t]";
/// A topic for which something is committed though nobody reads it. It comes and goes.
pub const UNREAD: &str = "u";
pub const UNREAD_PARTITIONS: i32 = 2;

pub const SESSION_MS: u64 = 6_000;
/// Not shorter than a session: whoever was heard is not put out by a rebalance before its session ends.
pub const REBALANCE_MS: u64 = 8_000;
pub const RETENTION_MS: u64 = 20_000;
pub const SWEEP_MS: u64 = 2_000;

/// The one partition of the topic that holds the groups.
pub const HOLDER: i32 = 0;

const WALL_AT_START_MS: i64 = 1_700_000_000_000;

pub fn settings() -> Settings {
    Settings {
        initial_rebalance_delay_ms: 500,
        session_timeout_ms_min: 1_000,
        session_timeout_ms_max: 100_000,
        size_max: 100,
        metadata_bytes_max: 100,
        retention_ms: RETENTION_MS as i64,
        retention_check_interval_ms: SWEEP_MS,
        memory_bytes_max: 16 << 20,
        consumer: ConsumerSettings {
            times: Times {
                session_timeout_ms: SESSION_MS,
                heartbeat_interval_ms: 1_000,
                assignment_interval_ms: 300,
            },
            size_max: 100,
            assignors: Assignor::ALL.into(),
            migration: MigrationPolicy::Bidirectional,
        },
    }
}

/// Both clocks, so long after the beginning.
pub fn now(at_ms: u64) -> Now {
    Now {
        instant: Instant(at_ms * 1_000_000),
        wall: Timestamp(wall_ms(at_ms)),
    }
}

pub fn wall_ms(at_ms: u64) -> i64 {
    WALL_AT_START_MS + at_ms as i64
}

/// A topic's id is its name.
pub fn topic_id(name: &str) -> TopicId {
    let mut id = TopicId::ZERO;
    id.0[..name.len()].copy_from_slice(name.as_bytes());
    id
}
