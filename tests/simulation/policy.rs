//! A log's topic configs, as a seed chooses them when the log is made: small enough that a life sees
//! segments roll, expire and be cleaned. Knows nothing of what comes of them.

use reactor::world::World;
use simulated::storage::{CleaningRules, LogConfig, RetentionRules};
use wire::Compression;

const SEGMENT_BYTES: [u32; 3] = [8 << 10, 40 << 10, 200 << 10];
const HOUR_MS: i64 = 3_600_000;

/// What is kept of a log, and what timestamps its records have.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub config: LogConfig,
    pub times: Times,
}

/// The timestamps that a log's producers send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// The clock's, a little out of order.
    Clock,
    /// None.
    Missing,
    /// Further ahead than can be believed.
    Future,
}

impl Policy {
    /// For a log that is made.
    pub fn choose(world: &World) -> Self {
        let cleanup = world.below(5);
        let time_ms = |world: &World| 300 + world.below(2_500) as i64;
        let retention = RetentionRules {
            deletes: cleanup != 3,
            retention_ms: if cleanup == 2 || cleanup == 4 {
                time_ms(world)
            } else {
                -1
            },
            retention_bytes: if cleanup == 1 {
                10_000 + world.below(150_000) as i64
            } else {
                -1
            },
            timestamp_after_ms_max: HOUR_MS,
        };
        let cleaning = CleaningRules {
            compacts: cleanup >= 3,
            dirty_millionths_min: [0, 500_000][world.below(2) as usize],
            lag_ms_min: [0, 0, 200][world.below(3) as usize],
            lag_ms_max: [i64::MAX, 1_000][world.below(2) as usize],
            delete_retention_ms: time_ms(world),
            folding: [None, None, Some(Compression::Lz4.into())][world.below(3) as usize],
        };
        let config = LogConfig {
            segment_bytes: segment_bytes(world),
            segment_ms: [i64::MAX, 400, 3_000][world.below(3) as usize],
            segment_jitter_ms: [0, 100][world.below(2) as usize],
            index_interval_bytes: [4_096, 500][world.below(2) as usize],
            file_delete_delay_ms: world.below(500),
            retention,
            cleaning,
            ..LogConfig::default()
        };
        let times = match world.below(6) {
            0 => Times::Missing,
            1 => Times::Future,
            _ => Times::Clock,
        };
        Self { config, times }
    }

    /// For the next start: segments may have another size from here on.
    pub fn again(&mut self, world: &World) {
        self.config.segment_bytes = segment_bytes(world);
    }

    /// Whether the log is compacted.
    pub fn compacts(&self) -> bool {
        self.config.cleaning.compacts
    }
}

impl Times {
    /// A record's timestamp.
    pub fn next(self, world: &World) -> i64 {
        match self {
            Self::Clock => world.wall_ms() - world.below(30) as i64,
            Self::Missing => -1,
            Self::Future => world.wall_ms() + 24 * HOUR_MS + world.below(HOUR_MS as u64) as i64,
        }
    }
}

fn segment_bytes(world: &World) -> u32 {
    SEGMENT_BYTES[world.below(3) as usize]
}
