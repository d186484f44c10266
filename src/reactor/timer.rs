//! The clocks and waiting for them. Knows nothing of who waits.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Waits for at least `duration`. Must run on an executor.
pub async fn sleep(duration: Duration) {
    sleep_until(Instant::now() + duration).await;
}

/// Waits until the monotonic clock has reached `deadline`. Must run on an executor.
pub async fn sleep_until(deadline: Instant) {
    crate::ring::current().sleep_until(deadline).await;
}

/// Nanoseconds of the monotonic clock since the process first asked. Never falls.
pub fn monotonic_nanos() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970-01-01 UTC. May jump: for record timestamps, never for durations.
pub fn wall_clock_ms() -> i64 {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}
