//! How other threads wake an executor: flags that it looks at while it runs, and one eventfd for when
//! it sleeps. Knows nothing of what the wake-ups are for.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

/// Wakes an executor from any thread.
pub(crate) struct Alarm {
    event: Arc<OwnedFd>,
    /// The executor sleeps, or is about to and will look at its bells once more before it does.
    asleep: AtomicBool,
}

impl Alarm {
    fn new() -> io::Result<Self> {
        // Blocking, because the ring's read of it must wait in the kernel.
        // SAFETY: eventfd takes no pointer; the descriptor is owned from here.
        let event = unsafe {
            let event = libc::eventfd(0, libc::EFD_CLOEXEC);
            if event < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(event)
        };
        Ok(Self {
            event: Arc::new(event),
            asleep: AtomicBool::new(false),
        })
    }

    /// What the ring reads to be woken.
    pub(crate) fn event(&self) -> Arc<OwnedFd> {
        self.event.clone()
    }

    /// Completes the ring's read. Never blocks: the counter would have to reach 2^64-1.
    pub(crate) fn ring(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the descriptor is open and the buffer is 8 readable bytes.
        let written =
            unsafe { libc::write(self.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        assert!(
            written == 8,
            "an eventfd write failed: {}",
            io::Error::last_os_error()
        );
    }
}

/// One thing to wait for that other threads may cause: a flag of its own, so that only its task is
/// woken, and a busy executor sees it without a system call.
pub(crate) struct Bell {
    rung: AtomicBool,
    alarm: Arc<Alarm>,
}

impl Bell {
    /// Wakes the task that waits for this bell.
    pub(crate) fn ring(&self) {
        // Either this sees `asleep`, or the executor, which looks at its bells after it has set that,
        // sees this: both orders are sequentially consistent. The first to wake it does so for all.
        self.rung.store(true, Ordering::SeqCst);
        if self.alarm.asleep.swap(false, Ordering::SeqCst) {
            self.alarm.ring();
        }
    }
}

/// A place for the waker of a task that waits for a bell.
pub(crate) struct Listening {
    listener: Rc<Listener>,
}

struct Listener {
    bell: Arc<Bell>,
    waker: RefCell<Option<Waker>>,
}

impl Listening {
    /// Wakes this task when the bell is rung.
    pub(crate) fn register(&self, waker: &Waker) {
        *self.listener.waker.borrow_mut() = Some(waker.clone());
    }

    /// What other threads ring.
    pub(crate) fn bell(&self) -> Arc<Bell> {
        self.listener.bell.clone()
    }
}

/// All bells of one executor.
pub(crate) struct Bells {
    alarm: Arc<Alarm>,
    listeners: RefCell<Vec<Weak<Listener>>>,
}

impl Bells {
    /// No bell yet.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            alarm: Arc::new(Alarm::new()?),
            listeners: RefCell::default(),
        })
    }

    /// What wakes the executor.
    pub(crate) fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    /// A new bell.
    pub(crate) fn listen(&self) -> Listening {
        let bell = Arc::new(Bell {
            rung: AtomicBool::new(false),
            alarm: self.alarm.clone(),
        });
        let listener = Rc::new(Listener {
            bell,
            waker: RefCell::default(),
        });
        self.listeners.borrow_mut().push(Rc::downgrade(&listener));
        Listening { listener }
    }

    /// Wakes the tasks whose bells were rung; says whether there were any.
    pub(crate) fn answer(&self) -> bool {
        let mut any = false;
        self.listeners.borrow_mut().retain(|listener| {
            let Some(listener) = listener.upgrade() else {
                return false;
            };
            let rung = &listener.bell.rung;
            if rung.load(Ordering::SeqCst)
                && rung.swap(false, Ordering::SeqCst)
                && let Some(waker) = listener.waker.borrow_mut().take()
            {
                any = true;
                waker.wake();
            }
            true
        });
        any
    }

    /// From now on a bell wakes the executor by the alarm. `false` when one was rung just before: then
    /// it must not sleep.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.alarm.asleep.store(true, Ordering::SeqCst);
        let rung = self.answer();
        if rung {
            self.wake_up();
        }
        !rung
    }

    /// The executor looks at its bells by itself again.
    pub(crate) fn wake_up(&self) {
        self.alarm.asleep.store(false, Ordering::SeqCst);
    }
}
