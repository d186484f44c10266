//! The second io_uring of a core: submissions batched once per turn, completions handed to the
//! futures that wait for them. Knows nothing of files or sockets.
//!
//! The ring signals an eventfd, which a task reads through glommio's own ring: so the executor sleeps
//! in one place and wakes for both. The same eventfd is the alarm by which other threads wake it.

mod buffers;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use io_uring::{IoUring, cqueue, squeue};

use buffers::Buffers;

/// Completions that the kernel can queue, per submission slot.
const COMPLETIONS_PER_SUBMISSION: u32 = 4;
/// Completions taken from the ring before their tasks are woken.
const DRAIN_BATCH: usize = 64;
/// How long tasks may feed each other through this ring before glommio must look at its own: until
/// it does, no timer fires. Its preemption timer would allow 100 ms, and cannot be shortened safely.
const TURN_MAX: Duration = Duration::from_millis(1);
/// Times that a full ring is retried before it is taken for broken.
const FULL_RETRIES_MAX: usize = 100_000;

/// Wakes an executor from any thread.
pub(crate) struct Alarm {
    event: OwnedFd,
    /// The executor looks at its bells without being woken.
    spinning: AtomicBool,
}

impl Alarm {
    fn new() -> io::Result<Self> {
        // Blocking, because glommio's read of it must wait in the kernel.
        // SAFETY: eventfd takes no pointer; the descriptor is owned from here.
        let event = unsafe {
            let event = libc::eventfd(0, libc::EFD_CLOEXEC);
            if event < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(event)
        };
        Ok(Self {
            event,
            spinning: AtomicBool::new(false),
        })
    }

    /// Wakes the executor. Never blocks: the counter would have to reach 2^64-1.
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

/// One thing to wait for that other threads may cause: a flag of its own on the shared alarm, so
/// that only its task is woken, and a busy executor sees it without a system call.
pub(crate) struct Bell {
    rung: AtomicBool,
    alarm: Arc<Alarm>,
}

impl Bell {
    /// Wakes the task that waits for this bell.
    pub(crate) fn ring(&self) {
        // Either this sees `spinning` fall, or the spinner, which looks at the bells once more
        // after it, sees this: both orders are sequentially consistent.
        self.rung.store(true, Ordering::SeqCst);
        if !self.alarm.spinning.load(Ordering::SeqCst) {
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

/// What an operation came to: the kernel's result, its flags, and what the operation owned.
pub(crate) struct Completed<K> {
    pub(crate) result: i32,
    pub(crate) flags: u32,
    pub(crate) kept: Box<K>,
}

impl<K> Completed<K> {
    /// The result as Rust has it.
    pub(crate) fn into_result(self) -> io::Result<(usize, Box<K>)> {
        match usize::try_from(self.result) {
            Ok(result) => Ok((result, self.kept)),
            Err(_) => Err(io::Error::from_raw_os_error(-self.result)),
        }
    }
}

/// One operation in flight. What it needs (`kept`) belongs to the ring until the kernel has
/// completed it, whether or not somebody still waits.
enum Slot {
    Free,
    Flying {
        kept: Box<dyn Any>,
        waker: Option<Waker>,
        abandoned: bool,
        /// The result is a file descriptor.
        opens: bool,
    },
    Landed {
        kept: Box<dyn Any>,
        result: i32,
        flags: u32,
        opens: bool,
    },
}

/// A completion that nobody took: what it carries is given back.
fn discard(buffers: &RefCell<Buffers>, result: i32, flags: u32, opens: bool) {
    if let Some(buffer) = cqueue::buffer_select(flags) {
        buffers.borrow_mut().give_back(buffer);
    }
    if opens && result >= 0 {
        // SAFETY: the kernel has just opened it, and nobody else was told its number.
        drop(unsafe { OwnedFd::from_raw_fd(result) });
    }
}

struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

/// The ring of one executor.
pub(crate) struct Ring {
    uring: RefCell<IoUring>,
    slots: RefCell<Slots>,
    buffers: RefCell<Buffers>,
    /// Submissions wait for the flusher.
    dirty: Cell<bool>,
    flusher: RefCell<Option<Waker>>,
    flying: Cell<usize>,
    alarm: Arc<Alarm>,
    listeners: RefCell<Vec<Weak<Listener>>>,
    /// When glommio last looked at its own rings, as far as is known here.
    turned: Cell<Instant>,
    /// Tasks that yielded until glommio has looked at its own rings.
    yielded: RefCell<Vec<Waker>>,
    activity: Cell<u64>,
    spinner: RefCell<Option<Waker>>,
}

thread_local! {
    static CURRENT: RefCell<Weak<Ring>> = const { RefCell::new(Weak::new()) };
}

/// The ring of the executor on this thread.
pub(crate) fn current() -> Rc<Ring> {
    let ring = CURRENT.with(|current| current.borrow().upgrade());
    ring.expect("called on an executor that `start` made")
}

impl Ring {
    /// Makes the ring and its tasks on the current executor.
    pub(crate) fn new(entries: u32, spin: Option<Duration>) -> io::Result<Rc<Self>> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_taskrun_flag()
            .setup_cqsize(entries * COMPLETIONS_PER_SUBMISSION)
            .build(entries)?;
        let alarm = Arc::new(Alarm::new()?);
        uring
            .submitter()
            .register_eventfd(alarm.event.as_raw_fd())?;
        let buffers = Buffers::register(&uring)?;
        let ring = Rc::new(Self {
            uring: RefCell::new(uring),
            slots: RefCell::new(Slots {
                slots: Vec::new(),
                free: Vec::new(),
            }),
            buffers: RefCell::new(buffers),
            dirty: Cell::new(false),
            flusher: RefCell::new(None),
            flying: Cell::new(0),
            alarm,
            listeners: RefCell::default(),
            turned: Cell::new(Instant::now()),
            yielded: RefCell::default(),
            activity: Cell::new(0),
            spinner: RefCell::default(),
        });
        CURRENT.with(|current| *current.borrow_mut() = Rc::downgrade(&ring));
        let flushing = ring.clone();
        crate::spawn(async move { flushing.flush_each_turn().await });
        let waking = ring.clone();
        if let Some(window) = spin {
            let spinning = ring.clone();
            crate::spawn(async move { spinning.spin_after_activity(window).await });
        }
        let event = ring.alarm.event.try_clone()?;
        crate::spawn(async move { waking.wake_on_alarm(event).await });
        Ok(ring)
    }

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

    async fn flush_each_turn(&self) {
        loop {
            self.until_dirty().await;
            self.enter();
            if self.turned.get().elapsed() < TURN_MAX {
                self.land();
            }
            // Otherwise the completions wait for the alarm, which the kernel has rung for them: the
            // tasks run dry and glommio gets its turn.
            self.answer_bells();
            if self.dirty.get() {
                glommio::executor().yield_task_queue_now().await;
            }
        }
    }

    async fn wake_on_alarm(&self, event: OwnedFd) {
        use std::os::fd::IntoRawFd;
        // SAFETY: the descriptor is handed over; glommio closes it.
        let event = unsafe { glommio::io::BufferedFile::from_raw_fd(event.into_raw_fd()) };
        loop {
            event.read_at(0, 8).await.expect("an eventfd can be read");
            self.turned.set(Instant::now());
            if self.flying.get() > 0 {
                self.enter();
                self.land();
            }
            self.answer_bells();
            for waker in self.yielded.take() {
                waker.wake();
            }
        }
    }

    /// Looks for completions and bells for `window` after the last activity, instead of sleeping.
    async fn spin_after_activity(&self, window: Duration) {
        loop {
            let mut seen = self.activity.get();
            poll_fn(|context| {
                if self.activity.get() != seen {
                    return Poll::Ready(());
                }
                *self.spinner.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            })
            .await;
            self.alarm.spinning.store(true, Ordering::SeqCst);
            let mut end = Instant::now() + window;
            while Instant::now() < end {
                if self.work_pending() {
                    self.enter();
                    self.land();
                }
                self.answer_bells();
                if std::mem::replace(&mut seen, self.activity.get()) != seen {
                    end = Instant::now() + window;
                }
                self.yield_turn().await;
            }
            self.alarm.spinning.store(false, Ordering::SeqCst);
            self.answer_bells();
        }
    }

    fn work_pending(&self) -> bool {
        let mut uring = self.uring.borrow_mut();
        uring.submission().taskrun() || !uring.completion().is_empty()
    }

    /// Rises with every submission, completion and bell.
    pub(crate) fn activity(&self) -> u64 {
        self.activity.get()
    }

    fn mark_active(&self) {
        self.activity.set(self.activity.get() + 1);
        if let Some(waker) = self.spinner.borrow_mut().take() {
            waker.wake();
        }
    }

    fn answer_bells(&self) {
        self.listeners.borrow_mut().retain(|listener| {
            let Some(listener) = listener.upgrade() else {
                return false;
            };
            if listener.bell.rung.swap(false, Ordering::SeqCst)
                && let Some(waker) = listener.waker.borrow_mut().take()
            {
                self.mark_active();
                waker.wake();
            }
            true
        });
    }

    /// Lets other tasks run; once a turn has taken [`TURN_MAX`], also glommio's own rings.
    pub(crate) async fn yield_turn(&self) {
        if self.turned.get().elapsed() < TURN_MAX {
            self.answer_bells();
            return glommio::executor().yield_task_queue_now().await;
        }
        let mut waits = false;
        poll_fn(|context| {
            if std::mem::replace(&mut waits, true) {
                return Poll::Ready(());
            }
            let mut yielded = self.yielded.borrow_mut();
            if yielded.is_empty() {
                self.alarm.ring();
            }
            yielded.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    async fn until_dirty(&self) {
        poll_fn(|context| {
            if self.dirty.get() {
                return Poll::Ready(());
            }
            *self.flusher.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Submits what is queued and lets the kernel run this ring's deferred work.
    fn enter(&self) {
        self.dirty.set(false);
        let mut uring = self.uring.borrow_mut();
        loop {
            let queued = {
                let mut queue = uring.submission();
                queue.sync();
                queue.len()
            };
            let queued = u32::try_from(queued).expect("a ring has fewer than 2^32 entries");
            const GET_EVENTS: u32 = 1;
            // SAFETY: no signal mask and no extended argument are passed.
            let entered = unsafe {
                uring
                    .submitter()
                    .enter::<libc::sigset_t>(queued, 0, GET_EVENTS, None)
            };
            match entered.as_ref().map_err(io::Error::raw_os_error) {
                Ok(taken) if *taken >= queued as usize => return,
                // The rest is still queued.
                Ok(taken) if *taken > 0 => {}
                Err(Some(libc::EINTR)) => {}
                // The kernel is short of memory or of room for completions: land some, then retry.
                Ok(_) | Err(Some(libc::EAGAIN | libc::EBUSY)) => return self.mark_dirty(),
                Err(_) => panic!("io_uring_enter: {entered:?}"),
            }
        }
    }

    /// Has the flusher run at the end of this turn.
    fn mark_dirty(&self) {
        if !self.dirty.replace(true)
            && let Some(waker) = self.flusher.borrow_mut().take()
        {
            waker.wake();
        }
    }

    /// Hands completions to their operations.
    fn land(&self) {
        loop {
            let mut batch = [(0_u64, 0_i32, 0_u32); DRAIN_BATCH];
            let mut taken = 0;
            {
                let mut uring = self.uring.borrow_mut();
                let mut completions = uring.completion();
                completions.sync();
                while taken < DRAIN_BATCH
                    && let Some(entry) = completions.next()
                {
                    batch[taken] = (entry.user_data(), entry.result(), entry.flags());
                    taken += 1;
                }
            }
            for &(index, result, flags) in &batch[..taken] {
                let index = usize::try_from(index).expect("an operation's index");
                self.land_one(index, result, flags);
            }
            if taken < DRAIN_BATCH {
                break;
            }
        }
        if self.uring.borrow_mut().submission().cq_overflow() {
            // The kernel holds more completions than fitted; entering brings them in.
            self.mark_dirty();
        }
    }

    fn land_one(&self, index: usize, result: i32, flags: u32) {
        self.flying.set(self.flying.get() - 1);
        self.mark_active();
        let mut slots = self.slots.borrow_mut();
        let Slot::Flying {
            kept,
            waker,
            abandoned,
            opens,
        } = std::mem::replace(&mut slots.slots[index], Slot::Free)
        else {
            panic!("a completion without an operation");
        };
        if abandoned {
            slots.free.push(index);
            drop(slots);
            discard(&self.buffers, result, flags, opens);
            drop(kept);
        } else {
            slots.slots[index] = Slot::Landed {
                kept,
                result,
                flags,
                opens,
            };
            drop(slots);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Copies the first `len` bytes of the buffer that the kernel selected and gives it back.
    pub(crate) fn take_buffer(&self, flags: u32, len: usize, into: &mut bytes::BytesMut) {
        let Some(buffer) = cqueue::buffer_select(flags) else {
            assert!(len == 0, "bytes were received into no buffer");
            return;
        };
        let mut buffers = self.buffers.borrow_mut();
        into.extend_from_slice(buffers.filled(buffer, len));
        buffers.give_back(buffer);
    }

    /// The buffer group from which receives select.
    pub(crate) fn buffer_group(&self) -> u16 {
        buffers::GROUP
    }

    /// Queues one operation. `build` makes the entry from what the operation keeps, which does not
    /// move until it is completed; every pointer in the entry must point into that or into memory
    /// that it keeps alive.
    pub(crate) fn submit<K: 'static>(
        self: &Rc<Self>,
        kept: K,
        build: impl FnOnce(&mut K) -> squeue::Entry,
    ) -> Operation<K> {
        self.make_room(1);
        self.push(kept, false, build)
    }

    /// As [`Ring::submit`] for an operation whose result is a file descriptor: it is closed when
    /// nobody takes it.
    pub(crate) async fn open<K: 'static>(
        self: &Rc<Self>,
        kept: K,
        build: impl FnOnce(&mut K) -> squeue::Entry,
    ) -> io::Result<OwnedFd> {
        self.make_room(1);
        let completed = self.push(kept, true, build).await;
        if completed.result < 0 {
            return Err(io::Error::from_raw_os_error(-completed.result));
        }
        // SAFETY: the kernel has just opened it for this operation.
        Ok(unsafe { OwnedFd::from_raw_fd(completed.result) })
    }

    /// Queues two operations of which the second starts when the first has succeeded.
    pub(crate) fn submit_linked<A: 'static, B: 'static>(
        self: &Rc<Self>,
        (first, build_first): (A, impl FnOnce(&mut A) -> squeue::Entry),
        (second, build_second): (B, impl FnOnce(&mut B) -> squeue::Entry),
    ) -> (Operation<A>, Operation<B>) {
        self.make_room(2);
        let first = self.push(first, false, |kept| {
            build_first(kept).flags(squeue::Flags::IO_LINK)
        });
        (first, self.push(second, false, build_second))
    }

    fn make_room(&self, entries: usize) {
        for _ in 0..FULL_RETRIES_MAX {
            let room = {
                let mut uring = self.uring.borrow_mut();
                let queue = uring.submission();
                queue.capacity() - queue.len()
            };
            if room >= entries {
                return;
            }
            self.enter();
            self.land();
        }
        panic!("the kernel takes no more submissions");
    }

    fn push<K: 'static>(
        self: &Rc<Self>,
        kept: K,
        opens: bool,
        build: impl FnOnce(&mut K) -> squeue::Entry,
    ) -> Operation<K> {
        let mut kept = Box::new(kept);
        let entry = build(&mut kept);
        let index = {
            let mut slots = self.slots.borrow_mut();
            let flying = Slot::Flying {
                kept,
                waker: None,
                abandoned: false,
                opens,
            };
            match slots.free.pop() {
                Some(index) => {
                    slots.slots[index] = flying;
                    index
                }
                None => {
                    slots.slots.push(flying);
                    slots.slots.len() - 1
                }
            }
        };
        let entry = entry.user_data(index as u64);
        {
            let mut uring = self.uring.borrow_mut();
            // SAFETY: the entry's pointers stay valid until completion, because the slot owns what
            // they point into (the contract of `build`) and is freed by the completion only.
            let pushed = unsafe { uring.submission().push(&entry) };
            assert!(pushed.is_ok(), "room was made for the submission");
        }
        self.flying.set(self.flying.get() + 1);
        self.mark_active();
        self.mark_dirty();
        Operation {
            ring: self.clone(),
            index,
            finished: false,
            kind: PhantomData,
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.flying.get() > 0 {
            // The kernel may still write into what these operations own: it is never freed.
            std::mem::forget(std::mem::take(&mut self.slots.borrow_mut().slots));
            self.buffers.borrow_mut().leak();
        }
    }
}

/// The future of an operation in flight. Dropping it abandons the result, not the operation: what
/// the kernel reads or writes stays owned by the ring until the completion.
pub(crate) struct Operation<K> {
    ring: Rc<Ring>,
    index: usize,
    finished: bool,
    kind: PhantomData<Box<K>>,
}

impl<K> Unpin for Operation<K> {}

impl<K: 'static> Future for Operation<K> {
    type Output = Completed<K>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completed<K>> {
        let this = &mut *self;
        let mut slots = this.ring.slots.borrow_mut();
        let slot = &mut slots.slots[this.index];
        if let Slot::Flying { waker, .. } = slot {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let Slot::Landed {
            kept,
            result,
            flags,
            ..
        } = std::mem::replace(slot, Slot::Free)
        else {
            panic!("an operation polled after its end");
        };
        slots.free.push(this.index);
        drop(slots);
        this.finished = true;
        let kept = kept
            .downcast()
            .expect("an operation gets back what it gave");
        Poll::Ready(Completed {
            result,
            flags,
            kept,
        })
    }
}

impl<K> Drop for Operation<K> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut slots = self.ring.slots.borrow_mut();
        match &mut slots.slots[self.index] {
            Slot::Flying {
                abandoned, waker, ..
            } => {
                *abandoned = true;
                *waker = None;
            }
            slot @ Slot::Landed { .. } => {
                let landed = std::mem::replace(slot, Slot::Free);
                slots.free.push(self.index);
                drop(slots);
                if let Slot::Landed {
                    result,
                    flags,
                    opens,
                    ..
                } = landed
                {
                    discard(&self.ring.buffers, result, flags, opens);
                }
            }
            Slot::Free => unreachable!("an unfinished operation has a slot"),
        }
    }
}
