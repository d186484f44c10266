//! Waiting for other tasks of the same executor: a value handed over once, and a signal for many.
//! Knows nothing of other threads; see `mailbox` for those.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The sending half of [`oneshot`].
pub struct OneSender<T> {
    shared: Rc<One<T>>,
}

/// The receiving half of [`oneshot`]: a future of the value, or `None` when the sender was dropped
/// without sending.
pub struct OneReceiver<T> {
    shared: Rc<One<T>>,
}

struct One<T> {
    value: RefCell<Option<T>>,
    waker: RefCell<Option<Waker>>,
    sender_gone: Cell<bool>,
    receiver_gone: Cell<bool>,
}

/// Hands one value from one task to another.
pub fn oneshot<T>() -> (OneSender<T>, OneReceiver<T>) {
    let shared = Rc::new(One {
        value: RefCell::new(None),
        waker: RefCell::new(None),
        sender_gone: Cell::new(false),
        receiver_gone: Cell::new(false),
    });
    let sender = OneSender {
        shared: shared.clone(),
    };
    (sender, OneReceiver { shared })
}

impl<T> OneSender<T> {
    /// Sends the value, or gives it back when nobody waits for it any more.
    pub fn send(self, value: T) -> Result<(), T> {
        if self.shared.receiver_gone.get() {
            return Err(value);
        }
        // The drop that follows wakes the receiver.
        *self.shared.value.borrow_mut() = Some(value);
        Ok(())
    }
}

impl<T> Drop for OneSender<T> {
    fn drop(&mut self) {
        self.shared.sender_gone.set(true);
        let waker = self.shared.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for OneReceiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(value) = self.shared.value.borrow_mut().take() {
            return Poll::Ready(Some(value));
        }
        if self.shared.sender_gone.get() {
            return Poll::Ready(None);
        }
        *self.shared.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for OneReceiver<T> {
    fn drop(&mut self) {
        self.shared.receiver_gone.set(true);
    }
}

/// Tells any number of waiting tasks that something has changed. Clones are the same signal.
#[derive(Clone, Default)]
pub struct Signal {
    shared: Rc<Signalled>,
}

#[derive(Default)]
struct Signalled {
    /// Rises with each set; a waiter ends when it differs from what it saw at its start.
    count: Cell<u64>,
    wakers: RefCell<Vec<(u64, Waker)>>,
    waiters: Cell<u64>,
}

impl Signal {
    /// A signal that was never set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends all waits that have begun.
    pub fn set(&self) {
        self.shared.count.set(self.shared.count.get() + 1);
        for (_, waker) in self.shared.wakers.take() {
            waker.wake();
        }
    }

    /// Waits for the next [`Signal::set`] after this call (not after the first poll), so that nothing
    /// is missed by calling it, looking once more, and then awaiting it.
    pub fn wait(&self) -> impl Future<Output = ()> + 'static {
        let waiter = Waiter {
            shared: self.shared.clone(),
            seen: self.shared.count.get(),
            id: self.shared.waiters.get(),
        };
        self.shared.waiters.set(waiter.id + 1);
        async move { poll_fn(|context| waiter.poll(context)).await }
    }
}

struct Waiter {
    shared: Rc<Signalled>,
    seen: u64,
    id: u64,
}

impl Waiter {
    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        if self.shared.count.get() != self.seen {
            return Poll::Ready(());
        }
        let mut wakers = self.shared.wakers.borrow_mut();
        match wakers.iter_mut().find(|(id, _)| *id == self.id) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => wakers.push((self.id, context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // Outside the borrow: dropping a waker may drop a task.
        let gone = {
            let mut wakers = self.shared.wakers.borrow_mut();
            let at = wakers.iter().position(|(id, _)| *id == self.id);
            at.map(|at| wakers.swap_remove(at))
        };
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_oneshot_hands_over_its_value_or_says_that_none_comes() {
        let (sender, receiver) = oneshot();
        let mut receiver = pin!(receiver);
        assert!(poll(receiver.as_mut()).is_pending());
        sender.send(7).expect("the receiver waits");
        assert_eq!(poll(receiver.as_mut()), Poll::Ready(Some(7)));

        let (sender, receiver) = oneshot::<u8>();
        drop(sender);
        assert_eq!(poll(pin!(receiver)), Poll::Ready(None));

        let (sender, receiver) = oneshot();
        drop(receiver);
        assert_eq!(sender.send(7), Err(7));
    }

    #[test]
    fn a_signal_ends_every_wait_that_began_before_it_and_none_after() {
        let signal = Signal::new();
        let (early, also, dropped) = (signal.wait(), signal.wait(), signal.wait());
        let (mut early, mut also) = (pin!(early), pin!(also));
        assert!(poll(early.as_mut()).is_pending());
        assert!(poll(pin!(dropped)).is_pending());
        assert_eq!(signal.shared.wakers.borrow().len(), 1);
        signal.set();
        let late = signal.wait();
        // `also` was never polled before the signal and must not have missed it.
        assert!(poll(early).is_ready() && poll(also.as_mut()).is_ready());
        assert!(poll(pin!(late)).is_pending());
    }
}
