//! A thread that runs tasks on one core. Knows nothing of what they do.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use glommio::{
    ExecutorJoinHandle, Latency, LocalExecutorBuilder, Placement, Shares, TaskQueueHandle,
};

use crate::late::LateTurns;
use crate::ring::Ring;
use crate::ring::park::Parker;
use crate::tasks;

/// Background work gets this many shares to the 1000 of everything else.
const BACKGROUND_SHARES: usize = 100;
/// glommio's own buffers, which the data path does not use, in bytes.
const GLOMMIO_MEMORY: usize = 512 << 10;
/// glommio's own rings carry wake-ups and timers only.
pub(crate) const GLOMMIO_RING_DEPTH: usize = 128;
/// glommio looks away from its tasks when this has passed, by default after 100 ms, to look at its own rings. A
/// thread that has no core for so long just after it has set that timer finds it over before the first task has
/// run, takes that for having none, and sleeps for ever (glommio 0.9). Its rings need no looking at here, and its
/// queues take turns because the parker yields: it never looks away.
const GLOMMIO_PREEMPTS_AFTER: Duration = Duration::from_secs(u32::MAX as u64);

/// How an executor is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The thread's name.
    pub name: String,
    /// The core to pin it to.
    pub core: Option<usize>,
    /// Submissions that fit into the ring at once.
    pub ring_entries: u32,
    /// How long to look for work before sleeping. Costs a core; saves most of the 15 us of a wake-up.
    pub spin_before_park: Option<Duration>,
}

/// A running executor.
pub struct Executor {
    handle: ExecutorJoinHandle<()>,
}

impl Executor {
    /// Waits until it has run to completion.
    pub fn join(self) -> io::Result<()> {
        self.handle
            .join()
            .map_err(|error| io::Error::other(error.to_string()))
    }
}

/// What tasks on one executor share.
#[derive(Clone)]
pub struct Reactor {
    ring: Rc<Ring>,
    background: TaskQueueHandle,
    late_turns: Arc<LateTurns>,
}

impl Reactor {
    pub(crate) fn ring(&self) -> &Rc<Ring> {
        &self.ring
    }

    /// Runs a task; it goes on until it ends or the executor does.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        spawn(task);
    }

    /// Runs a task with a small share of the core while other tasks want it.
    pub fn spawn_background(&self, task: impl Future<Output = ()> + 'static) {
        tasks::spawn_background(task, self.background);
    }

    /// Counts the turns of the tasks that took longer than 100 ms, and the sleeps that ended so much
    /// too late. Each one is also told on stderr when it ends, with where its time went.
    pub fn late_turns(&self) -> Arc<LateTurns> {
        self.late_turns.clone()
    }
}

/// Starts an executor on a thread of its own and runs `work` to completion there. Fails when the
/// kernel refuses the ring; the error's text names the cause and the remedy, see
/// [`crate::probe::Refusal`].
pub fn start<F, Fut>(settings: Settings, work: F) -> io::Result<Executor>
where
    F: FnOnce(Reactor) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    // glommio reports a refused ring without its errno; asking first keeps it.
    crate::probe::try_ring(GLOMMIO_RING_DEPTH as u32).map_err(explained)?;
    let placement = settings.core.map_or(Placement::Unbound, Placement::Fixed);
    let builder = LocalExecutorBuilder::new(placement)
        .name(&settings.name)
        .io_memory(GLOMMIO_MEMORY)
        .ring_depth(GLOMMIO_RING_DEPTH)
        .preempt_timer(GLOMMIO_PREEMPTS_AFTER);
    let (started, outcome) = mpsc::sync_channel(1);
    let handle = builder
        .spawn(move || async move {
            match Ring::new(settings.ring_entries) {
                Ok(ring) => {
                    started
                        .send(Ok(()))
                        .expect("the starter waits for the outcome");
                    run(ring, settings.spin_before_park, work).await;
                }
                Err(error) => {
                    started
                        .send(Err(error))
                        .expect("the starter waits for the outcome");
                }
            }
        })
        .map_err(|error| io::Error::other(error.to_string()))?;
    match outcome.recv() {
        Ok(Ok(())) => Ok(Executor { handle }),
        Ok(Err(error)) => Err(explained(error)),
        // The thread ended before it could say anything: glommio's own rings were refused.
        Err(_) => match handle.join() {
            Err(error) => Err(io::Error::other(error.to_string())),
            Ok(()) => Err(io::Error::other("the executor ended before it began")),
        },
    }
}

fn explained(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), crate::probe::explain(&error))
}

/// Runs `work` with its parker and ends both.
async fn run<F, Fut>(ring: Rc<Ring>, spin: Option<Duration>, work: F)
where
    F: FnOnce(Reactor) -> Fut + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let background = glommio::executor().create_task_queue(
        Shares::Static(BACKGROUND_SHARES),
        Latency::NotImportant,
        "background",
    );
    let late_turns = Arc::new(LateTurns::default());
    let parker = Parker::new(ring.clone(), spin, late_turns.clone());
    let finishing = ring.clone();
    tasks::spawn(async move {
        let reactor = Reactor {
            ring: finishing.clone(),
            background,
            late_turns,
        };
        work(reactor).await;
        finishing.finish();
    });
    parker.run().await;
}

/// Runs a task on the current executor; it goes on until it ends or the executor does.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    tasks::spawn(task);
}

/// Lets other tasks run, and timers and messages from other threads arrive. Long loops call it often.
pub async fn yield_now() {
    glommio::executor().yield_task_queue_now().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glommio_does_not_look_away_from_its_tasks_however_long_a_turn_takes() {
        let settings = Settings {
            name: "starved".into(),
            core: None,
            ring_entries: 8,
            spin_before_park: None,
        };
        let (tell, told) = mpsc::channel();
        let executor = start(settings, move |_| async move {
            yield_now().await;
            // As long as three of its default timers, without a look at the rings.
            std::thread::sleep(Duration::from_millis(300));
            let looks_away = glommio::executor().need_preempt();
            tell.send(looks_away).expect("the test listens");
        });
        executor.expect("starts").join().expect("ends well");
        assert_eq!(told.recv(), Ok(false));
    }
}
