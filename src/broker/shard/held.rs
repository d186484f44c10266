//! Produce requests that wait because too much waits for a disk already: back-pressure, where none comes
//! from the answers, as with acks=0, or where the write-ahead log cannot be given up as fast as it is
//! written. Each data directory has a queue of its own, so that a slow one holds up nothing but itself. Bounded
//! by the memory that the requests hold. Knows not what they append.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use logic::ids::PartitionId;
use logic::partition::leader::Acks;

use super::Shard;
use super::directories::DirId;
use super::hosted::Job;
use super::mail::{ProduceItem, ShardId};

/// One shard's, in the order in which they came; a queue that is there has a task that empties it.
#[derive(Default)]
pub struct Held {
    queues: RefCell<BTreeMap<DirId, VecDeque<Part>>>,
}

/// A request's batches for one directory, each by its place in the request.
struct Part {
    job: Rc<Job>,
    acks: Acks,
    items: Vec<(usize, ProduceItem)>,
}

/// Takes a request in: at once, or as far as its partitions' directories have to wait, later.
pub fn take(shard: &Rc<Shard>, asker: (ShardId, u64), acks: Acks, items: Vec<ProduceItem>) {
    let job = Job::new(asker, items.len());
    let nobody_waits =
        shard.held.queues.borrow().is_empty() && !shard.storages().any(|(_, it)| it.is_behind());
    // The groups' own records do not wait.
    if nobody_waits || shard.groups.are_ours(&items) {
        return shard.append(&job, acks, items.into_iter().enumerate().collect());
    }
    let mut at_once = Vec::new();
    let mut later: BTreeMap<DirId, Vec<(usize, ProduceItem)>> = BTreeMap::new();
    for (index, item) in items.into_iter().enumerate() {
        let partition = shard.hosted.get(item.partition);
        match partition
            .map(|it| it.dir())
            .filter(|dir| must_wait(shard, *dir))
        {
            Some(dir) => later.entry(dir).or_default().push((index, item)),
            None => at_once.push((index, item)),
        }
    }
    if !at_once.is_empty() {
        shard.append(&job, acks, at_once);
    }
    for (dir, items) in later {
        let job = job.clone();
        hold(shard, dir, Part { job, acks, items });
    }
}

/// Whether something for a directory has to wait. What follows that waits does too.
fn must_wait(shard: &Shard, dir: DirId) -> bool {
    let is_behind = || shard.storage(dir).is_some_and(|it| it.is_behind());
    shard.held.queues.borrow().contains_key(&dir) || is_behind()
}

fn hold(shard: &Rc<Shard>, dir: DirId, part: Part) {
    let mut queues = shard.held.queues.borrow_mut();
    let is_new = !queues.contains_key(&dir);
    queues.entry(dir).or_default().push_back(part);
    drop(queues);
    if is_new {
        reactor::spawn(release(shard.clone(), dir));
    }
}

/// Lets in at once what waits for one partition of a directory.
pub fn release_now(shard: &Rc<Shard>, dir: DirId, id: PartitionId) {
    let mut now = Vec::new();
    if let Some(queue) = shard.held.queues.borrow_mut().get_mut(&dir) {
        for part in queue {
            let items = std::mem::take(&mut part.items);
            let (its, others): (Vec<_>, Vec<_>) = items
                .into_iter()
                .partition(|(_, item)| item.partition == id);
            part.items = others;
            now.push((part.job.clone(), part.acks, its));
        }
    }
    for (job, acks, items) in now.into_iter().filter(|(.., items)| !items.is_empty()) {
        shard.append(&job, acks, items);
    }
}

async fn release(shard: Rc<Shard>, dir: DirId) {
    loop {
        if let Some(storage) = shard.storage(dir) {
            storage.until_caught_up().await;
        }
        let next = {
            let mut queues = shard.held.queues.borrow_mut();
            let next = queues.get_mut(&dir).and_then(VecDeque::pop_front);
            if next.is_none() {
                queues.remove(&dir);
            }
            next
        };
        let Some(Part { job, acks, items }) = next else {
            return;
        };
        shard.append(&job, acks, items);
        reactor::yield_now().await;
    }
}
