//! A core's own loop: the partitions it leads, its mailbox, its questions to other shards. Knows
//! neither Kafka's frames nor sockets: connections are handed to whoever serves them.

pub mod mail;

pub mod budget;
pub mod calls;
pub mod cleaning;
pub mod controller;
pub mod gate;
pub mod groups;
mod held;
pub mod hosted;
pub mod metadata;
pub mod producer_ids;
pub mod reads;
pub mod upkeep;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
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
use groups::{GroupLimits, Groups};
use held::Held;
use hosted::{Hosted, Owed, now};
use mail::{Answer, Ask, Mail, Placed, ProduceItem, Refused, ShardId};
use metadata::Metadata;
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
    storage: Storage,
    held: Held,
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
    /// Its disk.
    pub storage: Storage,
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
            hosted: Hosted::default(),
            producer_ids: ProducerIds::default(),
            fetch_sessions: RefCell::new(Sessions::new(sessions)),
            storage: parts.storage,
            held: Held::default(),
            calls: Rc::default(),
            outboxes: parts.senders.into_iter().map(outbox).collect(),
            controller: parts.controller,
            armed: Cell::new(None),
            stopping: Cell::new(false),
        })
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
        let progress = self.clone();
        reactor::spawn(async move { progress.follow_storage().await });
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
                    Mail::Connection(_) | Mail::Stop => {}
                }
            }
        }
    }

    async fn follow_storage(self: Rc<Self>) {
        loop {
            let moved = self.storage.progressed().await;
            let failed = self.storage.failed().is_some();
            let mut owed = Vec::new();
            for id in moved {
                self.hosted.progressed(id, failed, &mut owed);
            }
            self.deliver(owed);
        }
    }

    fn handle(self: &Rc<Self>, from: ShardId, id: u64, ask: Ask) {
        let mut owed = Vec::new();
        let asker = (from, id);
        match ask {
            Ask::Produce(acks, items) if held::must_wait(self, &items) => {
                held::hold(self, asker, acks, items);
            }
            Ask::Produce(acks, items) => self.append(asker, acks, items),
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

    fn append(self: &Rc<Self>, asker: (ShardId, u64), acks: Acks, items: Vec<ProduceItem>) {
        let why = if self.stopping() {
            // The logs are about to close: the client asks again elsewhere, or here when it is back.
            Some(Refused::Stopping)
        } else if self.storage.is_short_of_space() && !self.groups.are_ours(&items) {
            // The groups' own records have room in the reserve.
            Some(Refused::Storage)
        } else {
            None
        };
        let mut owed = Vec::new();
        match why {
            Some(why) => {
                let refused = items.iter().map(|_| Err(why)).collect();
                owed.push(answer_to(asker, Answer::Produced(refused)));
            }
            None => {
                let wall = Timestamp(reactor::timer::wall_clock_ms());
                self.hosted.produce(asker, acks, wall, items, &mut owed);
            }
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
                Ask::DescribeLogs => Answer::Logs(reads::describe_logs(&shard.hosted)),
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
                Ask::Apply(applied) => {
                    Answer::Applied(metadata::apply(&shard, &shard.storage, &applied).await)
                }
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
        self.storage.close().await;
    }
}

fn answer_to((to, id): (ShardId, u64), answer: Answer) -> Owed {
    Owed { to, id, answer }
}
