//! Work that takes a core for long, on threads beside the executors, so that no turn of theirs does. Knows nothing
//! of what the work is. A door, like [`crate::file`]: a simulated machine stands behind another of the same name.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;

use crate::executor::Reactor;
use crate::mailbox::mailbox;

/// Work with the sending of what comes of it.
type Work = Box<dyn FnOnce() + Send>;

/// As many threads as there are cores, made when there is something to do; none where the system refuses them.
/// They take work in the order in which it came. Who asks waits for the answer, so what is queued is bounded by
/// whoever bounds those.
static WORKERS: LazyLock<Option<Sender<Work>>> = LazyLock::new(|| {
    let (workers, works) = channel();
    let works = Arc::new(Mutex::new(works));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let start = |_| {
        let works = works.clone();
        let thread = thread::Builder::new().name("worker".into());
        thread.spawn(move || run(&works)).ok()
    };
    let started = (0..threads).filter_map(start).count();
    (started > 0).then_some(workers)
});

/// Does `work` on a thread that does nothing else and gives what it returns; here and now where the system
/// refuses a thread. Dropping the future does not end the work.
///
/// # Panics
/// When the work does.
pub async fn elsewhere<T: Send + 'static>(
    reactor: &Reactor,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let Some(workers) = &*WORKERS else {
        return work();
    };
    let (sender, receiver) = mailbox(1);
    let mut answers = receiver.bind(reactor);
    let work = move || {
        // Nobody has to wait for it any more.
        drop(sender.try_send(work()));
    };
    workers
        .send(Box::new(work))
        .expect("the workers outlive who asks them");
    let mut answer = Vec::with_capacity(1);
    answers.recv_all(&mut answer).await;
    answer.pop().expect("the work does not panic")
}

fn run(works: &Mutex<Receiver<Work>>) {
    run_anywhere();
    loop {
        // Held while nothing comes: whoever has it takes the next work, and gives it on before it begins.
        let next = works.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(work) => work(),
            Err(_) => return,
        }
    }
}

/// A thread may run where the one that made it may, and that is an executor with one core. This one may run
/// wherever the process may.
fn run_anywhere() {
    let process = Some(rustix::process::getpid());
    let allowed = rustix::thread::sched_getaffinity(process);
    let widened = allowed.and_then(|cores| rustix::thread::sched_setaffinity(None, &cores));
    if let Err(error) = widened {
        eprintln!("warning: a thread stays on the core of the one that made it: {error}");
    }
}
