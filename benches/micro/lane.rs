//! An executor that carries out an operation a number of times whenever it is asked to, and says how
//! long that took. Knows nothing of the operation.

use std::sync::mpsc;
use std::time::Duration;

use reactor::mailbox::{Sender, mailbox};
use reactor::{Executor, Reactor, Settings};

/// The executor; it ends when dropped.
pub struct Lane {
    ask: Option<Sender<u64>>,
    times: mpsc::Receiver<Duration>,
    executor: Option<Executor>,
}

impl Lane {
    /// Starts an executor. `prepare` makes the operation, which is told how often to run and answers
    /// how long it took.
    pub fn start<P, W>(spin_before_park: Option<Duration>, prepare: P) -> Self
    where
        P: AsyncFnOnce(Reactor) -> W + Send + 'static,
        W: AsyncFnMut(u64) -> Duration + 'static,
    {
        let (ask, asked) = mailbox(1);
        let (timed, times) = mpsc::channel();
        let executor = executor(spin_before_park, async move |reactor| {
            let mut asked = asked.bind(&reactor);
            let mut operate = prepare(reactor).await;
            let mut counts = Vec::new();
            while asked.recv_all(&mut counts).await {
                for count in counts.drain(..) {
                    let time = operate(count).await;
                    timed.send(time).expect("the asker waits");
                }
            }
        });
        Self {
            ask: Some(ask),
            times,
            executor: Some(executor),
        }
    }

    /// Has the operation run `count` times and returns how long that took.
    pub fn time(&self, count: u64) -> Duration {
        let ask = self.ask.as_ref().expect("open until dropped");
        assert!(ask.try_send(count).is_ok(), "one question at a time");
        self.times.recv().expect("the executor runs")
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(executor) = self.executor.take() {
            executor.join().expect("the executor ends");
        }
    }
}

/// Runs a task on an executor of its own.
pub fn executor<F>(spin_before_park: Option<Duration>, work: F) -> Executor
where
    F: AsyncFnOnce(Reactor) + Send + 'static,
{
    let settings = Settings {
        name: "bench".into(),
        core: None,
        ring_entries: 256,
        spin_before_park,
    };
    let executor = reactor::start(settings, |reactor| async move { work(reactor).await });
    executor.expect("io_uring is available")
}
