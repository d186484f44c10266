//! The same work for many partitions, a few at a time. Knows not what the work is.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use super::StorageError;
use super::append::LogState;
use super::signal::Signal;
use super::state::Shared;

/// How much of the core the work gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// As much as appends and reads.
    Full,
    /// A background task's.
    Background,
}

struct Job {
    left: RefCell<VecDeque<Rc<LogState>>>,
    running: Cell<usize>,
    error: RefCell<Option<StorageError>>,
    done: Signal,
}

/// Does `work` for each of `logs`, at most `workers` at the same time, and waits for all of it. Begins no
/// more after the first error, which it returns.
pub(super) async fn of<F, Fut>(
    shared: &Rc<Shared>,
    share: Share,
    workers: usize,
    logs: Vec<Rc<LogState>>,
    work: F,
) -> Result<(), StorageError>
where
    F: Fn(Rc<Shared>, Rc<LogState>) -> Fut + Copy + 'static,
    Fut: Future<Output = Result<(), StorageError>>,
{
    let workers = workers.min(logs.len());
    let job = Rc::new(Job {
        left: RefCell::new(logs.into()),
        running: Cell::new(workers),
        error: RefCell::default(),
        done: Signal::default(),
    });
    for _ in 0..workers {
        let (with, job) = (shared.clone(), job.clone());
        let worker = async move {
            loop {
                let next = job.left.borrow_mut().pop_front();
                let Some(log) = next.filter(|_| job.error.borrow().is_none()) else {
                    break;
                };
                if let Err(error) = work(with.clone(), log).await {
                    job.error.replace(Some(error));
                }
            }
            job.running.set(job.running.get() - 1);
            job.done.notify();
        };
        match share {
            Share::Full => shared.reactor.spawn(worker),
            Share::Background => shared.reactor.spawn_background(worker),
        }
    }
    job.done.until(|| job.running.get() == 0).await;
    match job.error.take() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
