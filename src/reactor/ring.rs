//! The io_uring of a core: submissions batched, completions handed to the futures that wait for
//! them. Knows nothing of files or sockets, nor when the core has nothing to do: see `park`.

mod bells;
mod buffers;
pub(crate) mod park;
mod timers;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use bells::Bells;
pub(crate) use bells::{Bell, Listening};
use buffers::Buffers;
use timers::{Sleep, Timers};

/// Completions that the kernel can queue, per submission slot.
const COMPLETIONS_PER_SUBMISSION: u32 = 4;
/// Completions taken from the ring before their tasks are woken.
const DRAIN_BATCH: usize = 64;
/// Times that a full ring is retried before it is taken for broken.
const FULL_RETRIES_MAX: usize = 100_000;

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
    flying: Cell<usize>,
    bells: Bells,
    timers: Rc<Timers>,
    /// The executor's work is done: its own read of the alarm is the last operation.
    finished: Cell<bool>,
    /// That read has ended.
    deaf: Cell<bool>,
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
    /// Makes the ring of the current executor. Nothing moves in it before its parker runs.
    pub(crate) fn new(entries: u32) -> io::Result<Rc<Self>> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_taskrun_flag()
            .setup_cqsize(entries * COMPLETIONS_PER_SUBMISSION)
            .build(entries)?;
        let buffers = Buffers::register(&uring)?;
        let ring = Rc::new(Self {
            uring: RefCell::new(uring),
            slots: RefCell::new(Slots {
                slots: Vec::new(),
                free: Vec::new(),
            }),
            buffers: RefCell::new(buffers),
            flying: Cell::new(0),
            bells: Bells::new()?,
            timers: Rc::default(),
            finished: Cell::new(false),
            deaf: Cell::new(false),
        });
        CURRENT.with(|current| *current.borrow_mut() = Rc::downgrade(&ring));
        let hearing = ring.clone();
        crate::spawn(async move { hearing.hear_alarm().await });
        Ok(ring)
    }

    /// What other threads wake tasks by.
    pub(crate) fn bells(&self) -> &Bells {
        &self.bells
    }

    pub(crate) fn timers(&self) -> &Timers {
        &self.timers
    }

    /// Waits until the monotonic clock has reached `deadline`.
    pub(crate) fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::new(self.timers.clone(), deadline)
    }

    /// Keeps a read of the alarm in flight, which ends the parker's sleep.
    async fn hear_alarm(self: Rc<Self>) {
        while !self.finished.get() {
            let kept = (self.bells.alarm().event(), [0_u8; 8]);
            let operation = self.submit(kept, |(event, buffer)| {
                let event = types::Fd(event.as_raw_fd());
                opcode::Read::new(event, buffer.as_mut_ptr(), 8).build()
            });
            let heard = operation.await.into_result();
            assert!(heard.is_ok(), "an eventfd can be read");
        }
        self.deaf.set(true);
    }

    /// The executor's work is done: nothing waits for this ring any more.
    pub(crate) fn finish(&self) {
        self.finished.set(true);
        self.bells.alarm().ring();
    }

    /// Whether its own last operation has ended after [`Ring::finish`].
    pub(crate) fn is_quiet_for_ever(&self) -> bool {
        self.deaf.get()
    }

    /// Submissions that the kernel has not been given.
    pub(crate) fn queued(&self) -> usize {
        self.uring.borrow_mut().submission().len()
    }

    /// Whether entering would submit or land anything.
    pub(crate) fn has_work(&self) -> bool {
        let mut uring = self.uring.borrow_mut();
        let submissions = uring.submission();
        let waiting = !submissions.is_empty() || submissions.taskrun() || submissions.cq_overflow();
        drop(submissions);
        waiting || !uring.completion().is_empty()
    }

    /// Submits what is queued and lets the kernel run this ring's deferred work; with `wait`, until
    /// there is a completion or that much time has passed.
    pub(crate) fn enter(&self, wait: Option<Duration>) {
        let mut uring = self.uring.borrow_mut();
        loop {
            let queued = {
                let mut queue = uring.submission();
                queue.sync();
                queue.len()
            };
            let entered = match wait {
                Some(wait) => {
                    let limit = types::Timespec::from(wait);
                    let arguments = types::SubmitArgs::new().timespec(&limit);
                    uring.submitter().submit_with_args(1, &arguments)
                }
                None => {
                    let count = u32::try_from(queued).expect("a ring has fewer than 2^32 entries");
                    const GET_EVENTS: u32 = 1;
                    // SAFETY: no signal mask and no extended argument are passed.
                    unsafe {
                        let submitter = uring.submitter();
                        submitter.enter::<libc::sigset_t>(count, 0, GET_EVENTS, None)
                    }
                }
            };
            match entered.as_ref().map_err(io::Error::raw_os_error) {
                Ok(taken) if *taken >= queued => return,
                // The rest is still queued.
                Ok(taken) if *taken > 0 => {}
                Err(Some(libc::EINTR)) if wait.is_none() => {}
                // Time is over or a signal came; or the kernel is short of memory or of room for
                // completions: some are landed before the next try.
                Ok(_) | Err(Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)) => return,
                Err(_) => panic!("io_uring_enter: {entered:?}"),
            }
        }
    }

    /// Hands completions to their operations.
    pub(crate) fn land(&self) {
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
    }

    fn land_one(&self, index: usize, result: i32, flags: u32) {
        self.flying.set(self.flying.get() - 1);
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
            self.enter(None);
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
