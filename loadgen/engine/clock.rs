//! The one clock of a run, shared by all its threads, and an alarm that rings within microseconds of a
//! time: the runtime's own timers ring at whole milliseconds.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use client::producer::timestamp_now;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Nanoseconds since the run began; before that it says 0.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    /// The wall clock at the start, in milliseconds since 1970.
    wall_ms: i64,
}

impl Clock {
    /// A clock whose zero is at `start`.
    pub fn new(start: Instant) -> Self {
        let since = i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX);
        Self {
            start,
            wall_ms: timestamp_now().saturating_sub(since),
        }
    }

    /// The time now.
    pub fn now_ns(&self) -> u64 {
        let since = Instant::now().saturating_duration_since(self.start);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// What the wall clock says at a time of this clock, if nobody has set it since the start: in milliseconds
    /// since 1970.
    pub fn wall_ms(&self, ns: u64) -> i64 {
        let since = i64::try_from(ns / 1_000_000).unwrap_or(i64::MAX);
        self.wall_ms.saturating_add(since)
    }

    /// The moment of a time of this clock.
    pub fn moment(&self, ns: u64) -> Instant {
        self.start + Duration::from_nanos(ns)
    }
}

/// An alarm: a timer of the kernel's, which the runtime waits for beside its sockets.
#[derive(Debug)]
pub struct Alarm {
    timer: AsyncFd<OwnedFd>,
}

impl Alarm {
    /// An alarm of the current runtime.
    ///
    /// # Errors
    /// When the process has no file descriptor left for it.
    #[expect(
        deprecated,
        reason = "its successor is unsafe for types whose descriptor changes; an OwnedFd's does not"
    )]
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self {
            timer: AsyncFd::with_interest(timer, Interest::READABLE)?,
        })
    }

    /// Waits until a moment.
    pub async fn wait_until(&self, at: Instant) {
        loop {
            let wait = at.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return;
            }
            // A wait that was given up may still ring: that is why each ring is held against the time.
            let set = timerfd_settime(
                self.timer.get_ref(),
                TimerfdTimerFlags::empty(),
                &once(wait),
            );
            set.expect("a timer takes any time");
            let rung = self.timer.readable().await;
            rung.expect("the runtime lives while its tasks run")
                .clear_ready();
        }
    }
}

fn once(wait: Duration) -> Itimerspec {
    Itimerspec {
        it_interval: Timespec::default(),
        it_value: Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_never_rings_early_and_rings_again() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let alarm = Alarm::new().expect("an alarm");
            for _ in 0..5 {
                let (wait, before) = (Duration::from_micros(700), Instant::now());
                alarm.wait_until(before + wait).await;
                assert!(before.elapsed() >= wait);
            }
        });
    }
}
