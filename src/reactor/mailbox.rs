//! Messages between threads: many senders, one receiver that lives on an executor. Knows nothing of
//! what is sent.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::executor::Reactor;
use crate::ring::{Alarm, Listening};

/// The message that did not fit, given back.
pub struct Full<T>(pub T);

/// The sending side; clone it for each sender.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The receiving side, before it has a reactor to be woken on.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
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
    queue: VecDeque<T>,
    /// The receiver saw an empty queue and must be woken. Set and cleared under the lock, so a
    /// message is either seen or wakes, and one sleep costs one system call.
    asleep: bool,
    alarm: Option<Arc<Alarm>>,
}

/// A mailbox for `capacity` messages.
pub fn mailbox<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let state = State {
        queue: VecDeque::new(),
        asleep: false,
        alarm: None,
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
        Receiver { shared },
    )
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Puts a message in, or gives it back when the mailbox is full.
    pub fn try_send(&self, message: T) -> Result<(), Full<T>> {
        let alarm = {
            let mut state = self.shared.lock();
            if state.queue.len() >= self.shared.capacity {
                return Err(Full(message));
            }
            state.queue.push_back(message);
            if std::mem::take(&mut state.asleep) {
                state.alarm.clone()
            } else {
                None
            }
        };
        if let Some(alarm) = alarm {
            alarm.ring();
        }
        Ok(())
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
            let alarm = self.shared.lock().alarm.clone();
            if let Some(alarm) = alarm {
                alarm.ring();
            }
        }
    }
}

impl<T> Receiver<T> {
    /// Receives on this reactor's thread from now on.
    pub fn bind(self, reactor: &Reactor) -> Bound<T> {
        self.shared.lock().alarm = Some(reactor.ring().alarm());
        Bound {
            shared: self.shared,
            listening: reactor.ring().listen(),
        }
    }
}

impl<T> Bound<T> {
    /// Waits for messages and moves all of them to `into`. False when every sender is gone and
    /// nothing is left.
    pub async fn recv_all(&mut self, into: &mut Vec<T>) -> bool {
        poll_fn(|context| self.poll_all(context.waker(), into)).await
    }

    fn poll_all(&self, waker: &Waker, into: &mut Vec<T>) -> Poll<bool> {
        let mut state = self.shared.lock();
        if !state.queue.is_empty() {
            into.extend(state.queue.drain(..));
            return Poll::Ready(true);
        }
        if self.shared.senders.load(Ordering::Acquire) == 0 {
            return Poll::Ready(false);
        }
        // Registered before the flag is seen by a sender, both under the lock.
        self.listening.register(waker);
        state.asleep = true;
        Poll::Pending
    }
}
