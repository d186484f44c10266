//! Where the threads of a run and the one that watches it meet: samples, errors, the phases. Knows nothing
//! of clients.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use client::Error;

use super::clock::Clock;
use crate::measure::Sample;

/// How many different errors are kept; further ones count under one name.
const ERRORS_MAX: usize = 100;

/// What one thread publishes. Its locks are taken by that thread and, once a second, by the watcher.
#[derive(Debug, Default)]
pub struct Station {
    sample: Mutex<Sample>,
    errors: Mutex<BTreeMap<String, u64>>,
    thread: AtomicI32,
}

/// The phases of a run, for all threads.
#[derive(Debug, Default)]
pub struct Control {
    start: OnceLock<Clock>,
    /// When, on the run's clock, the measured time begins and ends.
    window: (u64, AtomicU64),
    stopped: AtomicBool,
    /// Threads whose clients are connected.
    ready: AtomicU64,
    /// Bytes acknowledged before the start.
    filled: AtomicU64,
    /// How many clients could not start, and which was the first, and why.
    missing: AtomicU64,
    first_missing: OnceLock<(String, Error)>,
}

impl Station {
    /// What was seen since the last time.
    pub fn take(&self) -> Sample {
        let fresh = Sample::default();
        std::mem::replace(&mut self.lock(), fresh)
    }

    /// The sample to add to.
    pub fn lock(&self) -> MutexGuard<'_, Sample> {
        self.sample.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an error.
    pub fn error(&self, message: String, count: u64) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let known = errors.len() < ERRORS_MAX || errors.contains_key(&message);
        let name = if known {
            message
        } else {
            "further errors".to_owned()
        };
        *errors.entry(name).or_default() += count;
    }

    /// All errors so far.
    pub fn errors(&self) -> BTreeMap<String, u64> {
        self.errors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Says which thread this is.
    pub fn enter(&self, thread: i32) {
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// The kernel's id of the thread.
    pub fn thread(&self) -> i32 {
        self.thread.load(Ordering::Relaxed)
    }
}

impl Control {
    /// Of a run whose measured time lies here.
    pub fn new(begin_ns: u64, end_ns: u64) -> Self {
        Self {
            window: (begin_ns, AtomicU64::new(end_ns)),
            ..Self::default()
        }
    }

    /// Starts the clock.
    pub fn start(&self, at: Instant) {
        let set = self.start.set(Clock::new(at));
        set.expect("a run starts once");
    }

    /// The clock, once it is known when it starts.
    pub fn clock(&self) -> Option<Clock> {
        self.start.get().copied()
    }

    /// When the measured time begins and ends.
    pub fn window(&self) -> (u64, u64) {
        (self.window.0, self.window.1.load(Ordering::Relaxed))
    }

    /// Whether a record that was due then is measured.
    pub fn measures(&self, due_ns: u64) -> bool {
        let (begin, end) = self.window();
        (begin..end).contains(&due_ns)
    }

    /// Ends the measured time early.
    pub fn cut(&self, end_ns: u64) {
        self.window.1.fetch_min(end_ns, Ordering::Relaxed);
    }

    /// Ends everything.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether everything ends.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// One more thread is ready.
    pub fn now_ready(&self) {
        self.ready.fetch_add(1, Ordering::Release);
    }

    /// How many threads are ready.
    pub fn ready(&self) -> u64 {
        self.ready.load(Ordering::Acquire)
    }

    /// A client could not start, so that the load is not what was asked for.
    pub fn cannot_start(&self, client: String, error: Error) {
        let _ = self.first_missing.set((client, error));
        self.missing.fetch_add(1, Ordering::Release);
    }

    /// Whether all clients could start, as far as they tried.
    ///
    /// # Errors
    /// The first that could not, and how many.
    pub fn check_started(&self) -> Result<(), Error> {
        let missing = self.missing.load(Ordering::Acquire);
        let Some((client, error)) = self.first_missing.get().filter(|_| missing > 0) else {
            return Ok(());
        };
        let clients = if missing == 1 { "client" } else { "clients" };
        Err(Error::Invalid {
            reason: format!(
                "{missing} {clients} could not start; {client}: {error}\n{}",
                error.advice()
            ),
        })
    }

    /// Adds to what was acknowledged before the start.
    pub fn add_filled(&self, bytes: u64) {
        self.filled.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes acknowledged before the start.
    pub fn filled(&self) -> u64 {
        self.filled.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_could_not_start_are_counted_and_the_first_is_named() {
        let control = Control::new(0, 1);
        assert!(control.check_started().is_ok());
        for number in 0..3 {
            let reason = format!("no room for {number}");
            control.cannot_start(format!("producer {number}"), Error::Invalid { reason });
        }
        let said = control.check_started().expect_err("three").to_string();
        let begin = "3 clients could not start; producer 0: no room for 0\n";
        assert!(said.starts_with(begin), "{said}");
    }
}
