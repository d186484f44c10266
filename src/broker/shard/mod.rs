//! A core's own loop: the partitions it leads, its mailbox, its questions to other shards. Knows
//! neither Kafka's frames nor sockets: connections are handed to whoever serves them.

pub mod mail;

pub mod budget;
pub mod calls;
pub mod cleaning;
pub mod controller;
pub mod directories;
pub mod gate;
pub mod groups;
mod held;
pub mod hosted;
pub mod metadata;
pub mod moves;
pub mod producer_ids;
pub mod reads;
pub mod upkeep;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use logic::ids::{Instant, Offset, PartitionId, Timestamp};
use logic::partition::fetch_session::{self, Limits as SessionLimits, Sessions};
use logic::partition::leader::Acks;
use reactor::Reactor;
use reactor::mailbox::{Bound, Full, Sender};

use crate::storage::Storage;
use budget::Budget;
use calls::{Call, Calls, Watch};
use controller::Controller;
use directories::{DirId, Directories};
use groups::{GroupLimits, Groups};
use held::Held;
use hosted::{Hosted, Job, Owed, Space, now};
use mail::{Answer, Ask, Mail, Placed, ProduceItem, Refused, ShardId};
use metadata::Metadata;
use moves::Moves;
use producer_ids::ProducerIds;

/// Messages that one mailbox holds; beyond it the sender keeps them and tries again.
pub const MAILBOX_CAPACITY: usize = 16_384;
/// How long a sender waits before it tries a full mailbox again.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// Bounds that an operator can set, with the meaning that the configuration file gives them.
#[derive(Clone, Debug)]
pub struct Limits {
    /// `socket.request.max.bytes`.
    pub frame_bytes_max: usize,
    /// Memory for requests per shard.
    pub request_memory_bytes: usize,
    /// Records in replies that are not sent yet, per shard.
    pub reply_memory_bytes: usize,
    /// A new connection must have sent its first frame within this.
    pub first_frame_wait: Duration,
    /// A frame once begun must be complete within this.
    pub frame_wait: Duration,
    /// `connections.max.idle.ms`.
    pub idle_wait: Duration,
    /// `fetch.max.bytes`.
    pub fetch_bytes_max: usize,
    /// Incremental fetch sessions per shard.
    pub fetch_sessions_max: usize,
    /// Consumer groups.
    pub groups: GroupLimits,
    /// How long a stopping shard waits for owed replies.
    pub drain_wait: Duration,
    /// `log.retention.check.interval.ms`.
    pub retention_check_interval: Duration,
    /// What the log cleaner may use.
    pub cleaner: cleaning::CleanerLimits,
}

/// One core's shard.
pub struct Shard {
    /// Its number.
    pub id: ShardId,
    /// Its reactor.
    pub reactor: Reactor,
    /// What an operator has set.
    pub limits: Limits,
    /// Memory for requests.
    pub budget: Rc<Budget>,
    /// The part of that memory that is kept for small requests, so that no announced large one keeps
    /// them waiting.
    pub budget_small: Rc<Budget>,
    /// The part of that memory that is kept for batches in another codec than they came in, beside the requests
    /// that they came in. Its own, so that no request waits here for one that waits for memory too.
    pub budget_folded: Rc<Budget>,
    /// Records in replies that are not sent yet. When it is used up, fetches read a batch at a time.
    pub budget_replies: Rc<Budget>,
    /// Topics, configs and who owns what.
    pub metadata: Metadata,
    /// The partitions led here.
    pub hosted: Hosted,
    /// The groups coordinated here.
    pub groups: Groups,
    /// Producer ids that this shard may hand out.
    pub producer_ids: ProducerIds,
    /// The fetch sessions of the connections served here (KIP-227).
    pub fetch_sessions: RefCell<Sessions>,
    /// The data directories, the same for all shards.
    pub directories: Arc<Directories>,
    /// This shard's part of each directory; none of one that could not be opened.
    storages: Vec<Option<Storage>>,
    held: Held,
    moves: Moves,
    calls: Rc<Calls>,
    outboxes: Vec<Outbox>,
    controller: Option<Controller>,
    armed: Cell<Option<Instant>>,
    stopping: Cell<bool>,
}

/// What a shard is made of.
pub struct Parts {
    /// Its number.
    pub id: ShardId,
    /// Its reactor.
    pub reactor: Reactor,
    /// What an operator has set.
    pub limits: Limits,
    /// Topics, configs and who owns what.
    pub metadata: Metadata,
    /// The data directories.
    pub directories: Arc<Directories>,
    /// Its part of each; none of one that could not be opened.
    pub storages: Vec<Option<Storage>>,
    /// Every shard's mailbox, this one's included.
    pub senders: Vec<Sender<Mail>>,
    /// The controller, on shard 0.
    pub controller: Option<Controller>,
}

/// One part in so many of the memory for requests is kept for small ones.
const SMALL_SHARE: usize = 8;
/// And one in so many for batches in another codec.
const FOLDED_SHARE: usize = 8;

struct Outbox {
    sender: Sender<Mail>,
    /// What did not fit, in order. Bounded by the requests admitted by the budgets.
    held: RefCell<VecDeque<Mail>>,
}

impl Shard {
    /// A shard that leads nothing yet.
    pub fn new(parts: Parts) -> Rc<Self> {
        let sessions = SessionLimits {
            sessions_max: parts.limits.fetch_sessions_max,
            partitions_max: fetch_session::PARTITIONS_MAX,
        };
        let outbox = |sender| Outbox {
            sender,
            held: RefCell::default(),
        };
        let memory = parts.limits.request_memory_bytes;
        let (small, folded) = (memory / SMALL_SHARE, memory / FOLDED_SHARE);
        Rc::new(Self {
            id: parts.id,
            reactor: parts.reactor,
            budget: Budget::new(memory - small - folded),
            budget_small: Budget::new(small),
            budget_folded: Budget::new(folded),
            budget_replies: Budget::new(parts.limits.reply_memory_bytes),
            groups: Groups::new(&parts.limits.groups),
            limits: parts.limits,
            metadata: parts.metadata,
            hosted: Hosted::new(parts.directories.clone()),
            producer_ids: ProducerIds::default(),
            fetch_sessions: RefCell::new(Sessions::new(sessions)),
            directories: parts.directories,
            storages: parts.storages,
            held: Held::default(),
            moves: Moves::default(),
            calls: Rc::default(),
            outboxes: parts.senders.into_iter().map(outbox).collect(),
            controller: parts.controller,
            armed: Cell::new(None),
            stopping: Cell::new(false),
        })
    }

    /// This shard's part of a directory, unless that could not be opened.
    pub(crate) fn storage(&self, dir: DirId) -> Option<&Storage> {
        self.storages.get(dir.0)?.as_ref()
    }

    /// This shard's part of each directory that could be opened.
    fn storages(&self) -> impl Iterator<Item = (DirId, &Storage)> {
        let all = self.storages.iter().enumerate();
        all.filter_map(|(number, storage)| Some((DirId(number), storage.as_ref()?)))
    }

    /// Whether the broker is stopping.
    pub fn stopping(&self) -> bool {
        self.stopping.get()
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.outboxes.len()
    }

    /// Asks a shard, itself included. The question is on its way when this returns, so two
    /// questions to one shard arrive in the order asked.
    pub fn ask(self: &Rc<Self>, to: ShardId, ask: Ask) -> Call {
        let call = self.calls.open();
        if to == self.id {
            self.handle(self.id, call.id, ask);
        } else {
            self.mail(
                to,
                Mail::Ask {
                    from: self.id,
                    id: call.id,
                    ask,
                },
            );
        }
        call
    }

    /// Asks a shard to say when a high watermark passes an offset, or at `deadline`. Dropping the
    /// answer unread takes the question back.
    pub fn watch(
        self: &Rc<Self>,
        to: ShardId,
        watches: Vec<(PartitionId, Offset)>,
        deadline: Instant,
    ) -> Watch {
        let call = self.ask(to, Ask::Watch(watches, deadline.0));
        Watch::new(call, self.clone(), to)
    }

    /// Takes a [`Ask::Watch`] back.
    fn unwatch(self: &Rc<Self>, to: ShardId, id: u64) {
        if to == self.id {
            self.hosted.unwatch((self.id, id));
        } else {
            self.mail(to, Mail::Unwatch { from: self.id, id });
        }
    }

    /// Puts a message into a shard's mailbox.
    pub fn mail(self: &Rc<Self>, to: ShardId, mail: Mail) {
        let outbox = &self.outboxes[to.0];
        let mut held = outbox.held.borrow_mut();
        if !held.is_empty() {
            held.push_back(mail);
        } else if let Err(full) = outbox.sender.try_send(mail) {
            let Full(mail) = full;
            held.push_back(mail);
            let shard = self.clone();
            reactor::spawn(async move { shard.send_held(to).await });
        }
    }

    async fn send_held(self: Rc<Self>, to: ShardId) {
        let outbox = &self.outboxes[to.0];
        while !outbox.held.borrow().is_empty() {
            reactor::timer::sleep(FULL_PAUSE).await;
            let mut held = outbox.held.borrow_mut();
            while let Some(mail) = held.pop_front() {
                if let Err(Full(mail)) = outbox.sender.try_send(mail) {
                    held.push_front(mail);
                    break;
                }
            }
        }
    }

    /// Reads the mailbox until the broker stops, and gives it back. `connect` serves the connections
    /// placed here.
    pub async fn run(
        self: Rc<Self>,
        mut mailbox: Bound<Mail>,
        connect: impl Fn(Placed),
    ) -> Bound<Mail> {
        directories::start(&self);
        upkeep::start(&self);
        cleaning::start(&self);
        let mut messages = Vec::new();
        while !self.stopping() && mailbox.recv_all(&mut messages).await {
            for message in messages.drain(..) {
                match message {
                    Mail::Connection(placed) => connect(placed),
                    Mail::Ask { from, id, ask } => self.handle(from, id, ask),
                    Mail::Answer { id, answer } => self.calls.answer(id, answer),
                    Mail::Unwatch { from, id } => self.hosted.unwatch((from, id)),
                    Mail::DirectoryFailed(dir, why) => directories::failed(&self, dir, &why),
                    Mail::Stop => {
                        self.stopping.set(true);
                        groups::stop(&self);
                    }
                }
            }
        }
        mailbox
    }

    /// Keeps answering other shards while this one drains; never returns.
    pub async fn run_stopping(self: Rc<Self>, mut mailbox: Bound<Mail>) {
        let mut messages = Vec::new();
        while mailbox.recv_all(&mut messages).await {
            for message in messages.drain(..) {
                match message {
                    Mail::Ask { from, id, ask } => self.handle(from, id, ask),
                    Mail::Answer { id, answer } => self.calls.answer(id, answer),
                    Mail::Unwatch { from, id } => self.hosted.unwatch((from, id)),
                    Mail::DirectoryFailed(dir, why) => directories::failed(&self, dir, &why),
                    Mail::Connection(_) | Mail::Stop => {}
                }
            }
        }
    }

    fn handle(self: &Rc<Self>, from: ShardId, id: u64, ask: Ask) {
        let mut owed = Vec::new();
        let asker = (from, id);
        match ask {
            Ask::Produce(acks, items) => held::take(self, asker, acks, items),
            Ask::Watch(watches, deadline) => {
                let deadline = Instant(deadline);
                self.hosted.watch(asker, &watches, deadline, &mut owed);
                self.arm(deadline);
            }
            Ask::Read(limits, items) => match reads::read_now(&self.hosted, limits, &items) {
                Some(results) => owed.push(answer_to(asker, Answer::Read(results))),
                None => self.answer_later(asker, move |shard| async move {
                    Answer::Read(reads::read_slowly(&shard.hosted, limits, &items).await)
                }),
            },
            Ask::Group(partition, request) => groups::ask(self, asker, partition, request),
            Ask::ListGroups => owed.push(answer_to(asker, groups::list(self))),
            other => self.handle_slowly(asker, other),
        }
        self.deliver(owed);
    }

    /// Appends batches of one request, each by its place in it.
    fn append(self: &Rc<Self>, job: &Rc<Job>, acks: Acks, items: Vec<(usize, ProduceItem)>) {
        let mut owed = Vec::new();
        if self.stopping() {
            // The logs are about to close: the client asks again elsewhere, or here when it is back.
            for (index, _) in items {
                job.refuse(index, Refused::Stopping, &mut owed);
            }
        } else {
            let wall = Timestamp(reactor::timer::wall_clock_ms());
            // The groups' own records have room in the reserve.
            let may_use_reserve = self.groups.are_ours(items.iter().map(|(_, item)| item));
            let space = match may_use_reserve {
                true => Space::Reserve,
                false => Space::Free,
            };
            self.hosted
                .produce(job, acks, (wall, space), items, &mut owed);
        }
        self.deliver(owed);
    }

    fn handle_slowly(self: &Rc<Self>, asker: (ShardId, u64), ask: Ask) {
        self.answer_later(asker, move |shard| async move {
            match ask {
                Ask::Offsets(items) => Answer::Offsets(reads::offsets(&shard.hosted, items).await),
                Ask::EpochEnds(items) => {
                    Answer::EpochEnds(reads::epoch_ends(&shard.hosted, &items))
                }
                Ask::DeleteRecords(items) => {
                    Answer::Deleted(reads::delete_records(&shard.hosted, &items).await)
                }
                Ask::DescribeLogs => {
                    let mut logs = reads::describe_logs(&shard.hosted);
                    logs.extend(shard.moves.describe(&shard));
                    Answer::Logs(logs)
                }
                Ask::Move(items) => Answer::Moving(moves::ask(&shard, &items)),
                Ask::DescribeProducers(items) => {
                    Answer::Producers(reads::describe_producers(&shard.hosted, &items))
                }
                Ask::Change(change) => {
                    let changed = match &shard.controller {
                        Some(controller) => controller.change(&shard, *change).await,
                        None => unreachable!("only shard 0 is asked to change metadata"),
                    };
                    Answer::Changed(Box::new(changed))
                }
                Ask::Apply(applied) => Answer::Applied(metadata::apply(&shard, &applied).await),
                Ask::Produce(..)
                | Ask::Watch(..)
                | Ask::Read(..)
                | Ask::Group(..)
                | Ask::ListGroups => {
                    unreachable!("handled at once")
                }
            }
        });
    }

    fn answer_later<F, Fut>(self: &Rc<Self>, asker: (ShardId, u64), work: F)
    where
        F: FnOnce(Rc<Self>) -> Fut + 'static,
        Fut: Future<Output = Answer> + 'static,
    {
        let shard = self.clone();
        reactor::spawn(async move {
            let answer = work(shard.clone()).await;
            shard.deliver(vec![answer_to(asker, answer)]);
        });
    }

    /// Sends answers to whom they are owed.
    pub fn deliver(self: &Rc<Self>, owed: Vec<Owed>) {
        for Owed { to, id, answer } in owed {
            if to == self.id {
                self.calls.answer(id, answer);
            } else {
                self.mail(to, Mail::Answer { id, answer });
            }
        }
    }

    /// Makes sure that the watches are looked at when `deadline` comes.
    fn arm(self: &Rc<Self>, deadline: Instant) {
        if self.armed.get().is_some_and(|armed| armed <= deadline) {
            return;
        }
        self.armed.set(Some(deadline));
        let shard = self.clone();
        reactor::spawn(async move {
            let wait = deadline.0.saturating_sub(now().0);
            reactor::timer::sleep(Duration::from_nanos(wait)).await;
            if shard.armed.get() != Some(deadline) {
                return; // an earlier deadline was armed meanwhile and has armed its successor
            }
            shard.armed.set(None);
            let mut owed = Vec::new();
            let next = shard.hosted.expire(now(), &mut owed);
            shard.deliver(owed);
            if let Some(next) = next {
                shard.arm(next);
            }
        });
    }

    /// Writes what is in memory and closes the logs cleanly.
    pub async fn close(&self) {
        let close = |storage: &Storage| {
            let storage = storage.clone();
            Box::pin(async move { storage.close().await })
        };
        let mut closing: Vec<_> = self.storages().map(|(_, it)| close(it)).collect();
        // Together: each may take as long as a stop may.
        poll_fn(|context| {
            closing.retain_mut(|it| it.as_mut().poll(context).is_pending());
            match closing.is_empty() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

fn answer_to((to, id): (ShardId, u64), answer: Answer) -> Owed {
    Owed { to, id, answer }
}
