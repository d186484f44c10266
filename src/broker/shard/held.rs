//! Produce requests that wait because too much waits for the disk already: back-pressure, where none comes
//! from the answers, as with acks=0, or where the write-ahead log cannot be given up as fast as it is
//! written. Bounded by the memory that the requests hold. Knows not what they append.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use logic::partition::leader::Acks;

use super::Shard;
use super::mail::{ProduceItem, ShardId};

/// One shard's, in the order in which they came.
#[derive(Default)]
pub struct Held {
    requests: RefCell<VecDeque<Request>>,
    releasing: Cell<bool>,
}

/// Who asked, and what.
struct Request {
    asker: (ShardId, u64),
    acks: Acks,
    items: Vec<ProduceItem>,
}

/// Whether a request has to wait. What follows one that waits does too; the groups' own records do not.
pub fn must_wait(shard: &Shard, items: &[ProduceItem]) -> bool {
    let waits = !shard.held.requests.borrow().is_empty() || shard.storage.is_behind();
    waits && !shard.groups.are_ours(items)
}

/// Has a request wait.
pub fn hold(shard: &Rc<Shard>, asker: (ShardId, u64), acks: Acks, items: Vec<ProduceItem>) {
    let request = Request { asker, acks, items };
    shard.held.requests.borrow_mut().push_back(request);
    if !shard.held.releasing.replace(true) {
        reactor::spawn(release(shard.clone()));
    }
}

async fn release(shard: Rc<Shard>) {
    while !shard.held.requests.borrow().is_empty() {
        shard.storage.until_caught_up().await;
        let next = shard.held.requests.borrow_mut().pop_front();
        if let Some(Request { asker, acks, items }) = next {
            shard.append(asker, acks, items);
        }
        reactor::yield_now().await;
    }
    shard.held.releasing.set(false);
}
