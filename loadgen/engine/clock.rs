//! The one clock of a run, shared by all its threads, and an alarm that rings within microseconds of a
//! time: the runtime's own timers ring at whole milliseconds.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Nanoseconds since the run began; before that it says 0.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock whose zero is at `start`.
    pub fn new(start: Instant) -> Self {
        Self { start }
    }

    /// The time now.
    pub fn now_ns(&self) -> u64 {
        let since = Instant::now().saturating_duration_since(self.start);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The moment of a time of this clock.
    pub fn moment(&self, ns: u64) -> Instant {
        self.start + Duration::from_nanos(ns)
    }
}

/// One alarm.
#[derive(Debug)]
pub struct Alarm {
    timer: AsyncFd<OwnedFd>,
}

impl Alarm {
    /// An alarm of the current runtime.
    ///
    /// # Errors
    /// When the system has no more of them.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self {
            timer: AsyncFd::register(timer)?,
        })
    }

    /// Waits for a while.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn wait(&self, time: Duration) -> io::Result<()> {
        if time.is_zero() {
            return Ok(());
        }
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: time.subsec_nanos().into(),
            },
        };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = self.timer.readable().await?;
            let mut rings = [0; 8];
            match rustix::io::read(self.timer.get_ref(), &mut rings) {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
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
                alarm.wait(wait).await.expect("rings");
                assert!(before.elapsed() >= wait);
            }
        });
    }
}
