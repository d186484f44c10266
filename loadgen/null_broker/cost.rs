//! What the null broker's threads cost, so that it can be told from what the generator costs in the same
//! process. Knows nothing of what they do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::machine::process;

/// CPU time of some threads.
#[derive(Debug, Default)]
pub struct Cost(Mutex<Threads>);

#[derive(Debug, Default)]
struct Threads {
    running: Vec<i32>,
    /// Of those that have ended.
    ended: Duration,
}

/// A thread that is counted until this is dropped on it.
#[derive(Debug)]
pub struct Counted {
    cost: Arc<Cost>,
    thread: i32,
}

impl Cost {
    /// Counts the current thread.
    pub fn enter(self: &Arc<Self>) -> Counted {
        let thread = process::thread_id();
        self.threads().running.push(thread);
        Counted {
            cost: self.clone(),
            thread,
        }
    }

    /// All threads' time so far.
    pub fn cpu(&self) -> Duration {
        let threads = self.threads();
        let running = threads.running.iter();
        let running = running.filter_map(|thread| process::thread_cpu(*thread).ok());
        running.sum::<Duration>() + threads.ended
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut threads = self.cost.threads();
        threads.ended += process::thread_cpu(self.thread).unwrap_or_default();
        threads.running.retain(|thread| *thread != self.thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_time_counts_while_it_runs_and_when_it_has_ended() {
        let cost = Arc::<Cost>::default();
        let busy = || {
            let _counted = cost.enter();
            let mut sum = 0_u64;
            while cost.cpu() < Duration::from_millis(5) {
                sum = sum.wrapping_add(std::hint::black_box(1));
            }
            cost.cpu()
        };
        let seen = std::thread::scope(|scope| scope.spawn(busy).join().expect("it ends"));
        assert!(cost.threads().running.is_empty());
        assert!(cost.cpu() >= seen, "{:?} of {seen:?}", cost.cpu());
    }
}
