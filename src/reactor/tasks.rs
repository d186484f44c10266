//! Tasks, counted so that the parker knows when none is ready. Knows nothing of what they do.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use glommio::TaskQueueHandle;

thread_local! {
    static POLLS: Cell<u64> = const { Cell::new(0) };
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    static LONGEST: Cell<Poll> = const { Cell::new(Poll::NONE) };
    static READY: Arc<AtomicUsize> = Arc::default();
    static RUN: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// How often tasks of this thread's executor have run.
pub(crate) fn polls() -> u64 {
    POLLS.get()
}

/// Waits until a task of this executor has run. One waits at a time, and some task must be ready.
pub(crate) async fn until_one_ran() {
    let before = polls();
    poll_fn(|context| {
        if polls() != before {
            return std::task::Poll::Ready(());
        }
        RUN.replace(Some(context.waker().clone()));
        std::task::Poll::Pending
    })
    .await;
}

/// One run of a task.
#[derive(Clone, Copy)]
pub(crate) struct Poll {
    /// The type of its future: the path of the function that made it.
    pub(crate) task: &'static str,
    /// Measured from the end of the run before it, which is one look at the clock a run.
    pub(crate) took: Duration,
}

impl Poll {
    const NONE: Self = Self {
        task: "no task",
        took: Duration::ZERO,
    };
}

/// The longest run since the last call.
pub(crate) fn take_longest_poll() -> Poll {
    LONGEST.replace(Poll::NONE)
}

/// The next run is measured from `now` on.
pub(crate) fn measure_from(now: Instant) {
    LAST.set(Some(now));
}

/// Whether a background task is ready. Theirs is a queue of its own, which may come after the parker.
pub(crate) fn background_is_ready() -> bool {
    READY.with(|ready| ready.load(Ordering::Acquire) > 0)
}

/// Runs a task of this executor.
pub(crate) fn spawn(task: impl Future<Output = ()> + 'static) {
    glommio::spawn_local(counted(task)).detach();
}

/// Runs a task in another of this executor's queues.
pub(crate) fn spawn_background(task: impl Future<Output = ()> + 'static, queue: TaskQueueHandle) {
    let ready = Arc::new(Ready {
        count: READY.with(Arc::clone),
        is_ready: AtomicBool::new(false),
        waker: Mutex::default(),
    });
    ready.set();
    let task = async move {
        let mut task = pin!(counted(task));
        let waker = Waker::from(ready.clone());
        poll_fn(|context| {
            ready.begin(context.waker());
            task.as_mut().poll(&mut Context::from_waker(&waker))
        })
        .await;
        ready.end();
    };
    // A task queue lives as long as its executor, so this cannot fail while a task runs.
    glommio::spawn_local_into(task, queue)
        .expect("the background queue exists")
        .detach();
}

async fn counted<F: Future<Output = ()>>(task: F) {
    let mut task = pin!(task);
    poll_fn(|context| {
        let polled = task.as_mut().poll(context);
        POLLS.set(POLLS.get() + 1);
        if let Some(waiting) = RUN.take() {
            waiting.wake();
        }
        measure(std::any::type_name::<F>());
        polled
    })
    .await;
}

fn measure(task: &'static str) {
    let now = Instant::now();
    let before = LAST.replace(Some(now));
    let took = before.map_or(Duration::ZERO, |before| now.duration_since(before));
    if took > LONGEST.get().took {
        LONGEST.set(Poll { task, took });
    }
}

/// Counts a background task among the ready ones from its wake-up to its run.
struct Ready {
    count: Arc<AtomicUsize>,
    is_ready: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Ready {
    fn set(&self) {
        if !self.is_ready.swap(true, Ordering::AcqRel) {
            self.count.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn clear(&self) {
        if self.is_ready.swap(false, Ordering::AcqRel) {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The task has ended: what wakes it from here on, wakes nothing.
    fn end(&self) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.clear();
    }

    /// The task runs: what wakes it from here on makes it ready again.
    fn begin(&self, waker: &Waker) {
        self.clear();
        let mut known = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
    }
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let known = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        let waker = known.clone();
        drop(known);
        if let Some(waker) = waker {
            self.set();
            waker.wake();
        }
    }
}
