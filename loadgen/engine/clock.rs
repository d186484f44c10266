//! The one clock of a run, shared by all its threads, and an alarm that rings within microseconds of a
//! time: the runtime's own timers ring at whole milliseconds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

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

/// One alarm. All alarms of the process are rung by one thread, which sleeps until the next is due.
#[derive(Debug)]
pub struct Alarm {
    bell: Arc<Bell>,
    rung: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Bell {
    due: Mutex<BinaryHeap<Reverse<Due>>>,
    sooner: Condvar,
}

#[derive(Debug)]
struct Due {
    at: Instant,
    rung: Arc<Notify>,
}

impl Alarm {
    /// An alarm.
    ///
    /// # Errors
    /// When the thread that rings cannot be started.
    pub fn new() -> io::Result<Self> {
        static BELL: OnceLock<Arc<Bell>> = OnceLock::new();
        let bell = match BELL.get() {
            Some(bell) => bell.clone(),
            None => {
                let bell = Arc::new(Bell::default());
                let rings = bell.clone();
                thread::Builder::new()
                    .name("load-alarm".to_owned())
                    .spawn(move || rings.ring())?;
                // Of two that were started at once, both ring their own.
                let _ = BELL.set(bell.clone());
                bell
            }
        };
        Ok(Self {
            bell,
            rung: Arc::default(),
        })
    }

    /// Waits until a moment. A wait that was given up still rings: that is why each ring is held against
    /// the time.
    pub async fn wait_until(&self, at: Instant) {
        while Instant::now() < at {
            self.bell.add(at, &self.rung);
            self.rung.notified().await;
        }
    }
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, BinaryHeap<Reverse<Due>>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, at: Instant, rung: &Arc<Notify>) {
        let mut due = self.lock();
        let sooner = due.peek().is_none_or(|next| at < next.0.at);
        due.push(Reverse(Due {
            at,
            rung: rung.clone(),
        }));
        drop(due);
        if sooner {
            self.sooner.notify_one();
        }
    }

    fn ring(&self) {
        let mut due = self.lock();
        loop {
            let now = Instant::now();
            let wait = due
                .peek()
                .map(|next| next.0.at.saturating_duration_since(now));
            due = match wait {
                Some(Duration::ZERO) => {
                    if let Some(Reverse(next)) = due.pop() {
                        next.rung.notify_one();
                    }
                    due
                }
                Some(wait) => {
                    let woken = self.sooner.wait_timeout(due, wait);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let woken = self.sooner.wait(due);
                    woken.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
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
