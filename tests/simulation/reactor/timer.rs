//! The simulated clock: the reactor's `timer` by name and meaning.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use crate::world::current;

/// Nanoseconds since the machine was made.
pub fn monotonic_nanos() -> u64 {
    current().now()
}

/// Milliseconds since 1970 on a clock that somebody may set.
pub fn wall_clock_ms() -> i64 {
    current().wall_ms()
}

/// Waits for so long.
pub async fn sleep(time: Duration) {
    let world = current();
    let until = world.now() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    poll_fn(|context| {
        if world.now() >= until {
            return Poll::Ready(());
        }
        world.wake_at(until, context.waker().clone());
        Poll::Pending
    })
    .await;
}
