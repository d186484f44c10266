//! Questions that this shard has asked and the answers on their way. Knows nothing of what is asked.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::Shard;
use super::mail::{Answer, ShardId};

enum Slot {
    Waiting(Option<Waker>),
    Answered(Answer),
}

/// The open questions of one shard, by the id that goes with each.
#[derive(Default)]
pub struct Calls {
    next: Cell<u64>,
    slots: RefCell<HashMap<u64, Slot>>,
}

/// One question's answer, when it comes. Dropping it forgets the question; a late answer is dropped.
pub struct Call {
    calls: Rc<Calls>,
    /// The name under which the answer must come back.
    pub id: u64,
}

/// A question that may stay open for long. Dropping it unanswered takes it back at the other end too.
pub struct Watch {
    call: Call,
    shard: Rc<Shard>,
    to: ShardId,
    answered: bool,
}

impl Watch {
    pub(super) fn new(call: Call, shard: Rc<Shard>, to: ShardId) -> Self {
        Self {
            call,
            shard,
            to,
            answered: false,
        }
    }
}

impl Future for Watch {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let answer = Pin::new(&mut self.call).poll(context);
        self.answered = answer.is_ready();
        answer.map(drop)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.answered {
            self.shard.unwatch(self.to, self.call.id);
        }
    }
}

impl Calls {
    /// Opens a question.
    pub fn open(self: &Rc<Self>) -> Call {
        let id = self.next.get();
        self.next.set(id + 1);
        self.slots.borrow_mut().insert(id, Slot::Waiting(None));
        Call {
            calls: self.clone(),
            id,
        }
    }

    /// Delivers an answer. One that nobody waits for any more is dropped.
    pub fn answer(&self, id: u64, answer: Answer) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(&id)
            && let Slot::Waiting(waker) = std::mem::replace(slot, Slot::Answered(answer))
            && let Some(waker) = waker
        {
            waker.wake();
        }
    }
}

impl Future for Call {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let mut slots = self.calls.slots.borrow_mut();
        let slot = slots
            .remove(&self.id)
            .expect("a call is not polled after its answer");
        match slot {
            Slot::Answered(answer) => Poll::Ready(answer),
            Slot::Waiting(_) => {
                slots.insert(self.id, Slot::Waiting(Some(context.waker().clone())));
                Poll::Pending
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.calls.slots.borrow_mut().remove(&self.id);
    }
}
