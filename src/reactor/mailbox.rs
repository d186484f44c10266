//! Messages between threads: many senders, one receiver that lives on an executor. Knows nothing of
//! what is sent.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::executor::Reactor;
use crate::ring::{Bell, Listening};

/// The message that did not fit, given back. A mailbox whose receiver is gone is full for ever, see
/// [`Sender::is_closed`].
pub struct Full<T>(pub T);

/// The sending side; clone it for each sender.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The receiving side, before it has a reactor to be woken on.
pub struct Receiver<T> {
    /// `None` once bound.
    shared: Option<Arc<Shared<T>>>,
}

/// The receiving side on its reactor.
pub struct Bound<T> {
    shared: Arc<Shared<T>>,
    listening: Listening,
}

struct Shared<T> {
    capacity: usize,
    senders: AtomicUsize,
    state: Mutex<State<T>>,
}

struct State<T> {
    queue: Vec<T>,
    /// The receiver saw an empty queue and must be woken. Set and cleared under the lock, so a
    /// message is either seen or wakes, and one sleep costs one system call.
    asleep: bool,
    bell: Option<Arc<Bell>>,
    /// The receiver is gone.
    closed: bool,
}

/// A mailbox for `capacity` messages.
pub fn mailbox<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let state = State {
        queue: Vec::new(),
        asleep: false,
        bell: None,
        closed: false,
    };
    let senders = AtomicUsize::new(1);
    let shared = Arc::new(Shared {
        capacity,
        senders,
        state: Mutex::new(state),
    });
    (
        Sender {
            shared: shared.clone(),
        },
        Receiver {
            shared: Some(shared),
        },
    )
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    /// What to ring after messages were put in.
    fn alarm(&mut self) -> Option<Arc<Bell>> {
        if std::mem::take(&mut self.asleep) {
            self.bell.clone()
        } else {
            None
        }
    }
}

impl<T> Sender<T> {
    /// Puts a message in, or gives it back when the mailbox is full.
    pub fn try_send(&self, message: T) -> Result<(), Full<T>> {
        let bell = {
            let mut state = self.shared.lock();
            if state.closed || state.queue.len() >= self.shared.capacity {
                return Err(Full(message));
            }
            state.queue.push(message);
            state.alarm()
        };
        if let Some(bell) = bell {
            bell.ring();
        }
        Ok(())
    }

    /// Moves messages from the front of `messages` into the mailbox, as many as fit, and says how
    /// many. One lock and at most one system call for all of them.
    pub fn send_all(&self, messages: &mut Vec<T>) -> usize {
        let (sent, bell) = {
            let mut state = self.shared.lock();
            let room = self.shared.capacity.saturating_sub(state.queue.len());
            let sent = if state.closed {
                0
            } else {
                room.min(messages.len())
            };
            if sent == 0 {
                return 0;
            }
            state.queue.extend(messages.drain(..sent));
            (sent, state.alarm())
        };
        if let Some(bell) = bell {
            bell.ring();
        }
        sent
    }

    /// Whether the receiver is gone: nothing will ever be received again.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.senders.fetch_add(1, Ordering::Relaxed);
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.shared.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            let bell = self.shared.lock().bell.clone();
            if let Some(bell) = bell {
                bell.ring();
            }
        }
    }
}

impl<T> Shared<T> {
    fn close(&self) {
        let left = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.queue)
        };
        // Dropped outside the lock: a message may own a sender.
        drop(left);
    }
}

impl<T> Receiver<T> {
    /// Receives on this reactor's thread from now on.
    pub fn bind(mut self, reactor: &Reactor) -> Bound<T> {
        let listening = reactor.ring().bells().listen();
        let shared = self.shared.take().expect("a receiver is bound once");
        shared.lock().bell = Some(listening.bell());
        Bound { shared, listening }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.close();
        }
    }
}

impl<T> Drop for Bound<T> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl<T> Bound<T> {
    /// Waits for messages and moves all of them to the end of `into`. False when every sender is
    /// gone and nothing is left. Dropping the future loses nothing.
    pub async fn recv_all(&mut self, into: &mut Vec<T>) -> bool {
        poll_fn(|context| self.poll_all(context.waker(), into)).await
    }

    fn poll_all(&self, waker: &Waker, into: &mut Vec<T>) -> Poll<bool> {
        let mut state = self.shared.lock();
        if !state.queue.is_empty() {
            // The whole batch changes hands; the senders go on in the emptied vector.
            if into.is_empty() {
                std::mem::swap(into, &mut state.queue);
            } else {
                into.append(&mut state.queue);
            }
            return Poll::Ready(true);
        }
        if self.shared.senders.load(Ordering::Acquire) == 0 {
            return Poll::Ready(false);
        }
        // Registered before a sender sees the flag, both under the lock.
        self.listening.register(waker);
        state.asleep = true;
        Poll::Pending
    }
}
