//! One seed's story: clients, a network that delays, loses, repeats and reorders, a log that is late or refuses,
//! two nodes of which one is the coordinator, and time that passes from one event to the next. What goes
//! wrong with them is chosen in `faults`; what must hold is checked in `oracle` and `view`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use simulated_groups::bugs::{self, Bug};
use simulated_groups::group::{
    AppendError, BatchId, Coordinator, Effect, Event, Reply, Request, Token,
};
use wire::group_records::GroupRecord;

use crate::client::{Chance, Client, Heard};
use crate::log::Log;
use crate::oracle::Oracle;
use crate::random::Random;
use crate::scene::{
    GROUPS, HOLDER, READ, REBALANCE_MS, RETENTION_MS, SESSION_MS, SWEEP_MS, UNREAD,
    UNREAD_PARTITIONS, now, settings, topic_id,
};
use crate::trace::Trace;
use crate::view;

/// How long things go wrong.
const TROUBLE_MS: u64 = 70_000;
/// Events of that time, at most.
const EVENTS_MAX: u64 = 20_000;
pub const NODES: usize = 2;
pub const CLIENTS_PER_GROUP: usize = 3;

/// What is to happen.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub bug: Option<Bug>,
    pub aloud: bool,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub trace: u64,
    pub requests: u64,
    pub records: u64,
    pub acknowledged: u64,
    pub crashes: u64,
    pub moves: u64,
    pub expired: u64,
    pub deleted: u64,
}

/// What happens at some moment.
pub enum Happening {
    /// A client does what comes next.
    Act(usize),
    /// A request arrives; its answer goes to that client under that number.
    Deliver {
        node: usize,
        client: Option<(usize, u64)>,
        request: Request,
    },
    /// An answer arrives.
    Hear {
        client: usize,
        call: u64,
        reply: Reply,
    },
    /// The log is done with its oldest append, if that is this one.
    Appended(u64),
    /// The coordinator that loads reads on, if it is still this one.
    Load(u64),
    /// Somebody begins: a member by that protocol, and by that name if it is static.
    Begin(&'static str, Option<String>),
    /// An operator deletes a group.
    Delete(&'static str),
    /// Something goes wrong, perhaps.
    Fault,
}

/// Records on their way to the log.
pub struct Pending {
    pub number: u64,
    pub node: usize,
    pub batch: BatchId,
    pub records: Rc<[GroupRecord]>,
    /// The log does not take them.
    pub fails: bool,
}

pub struct Story {
    pub random: Random,
    pub trace: Trace,
    pub at_ms: u64,
    pub calm: bool,
    agenda: BTreeMap<(u64, u64), Happening>,
    planned: u64,
    pub nodes: [Coordinator; NODES],
    /// The node that leads the partition.
    pub home: usize,
    /// Up to where it has read, while it loads.
    pub loading: Option<usize>,
    pub loads: u64,
    pub topics: BTreeMap<&'static str, i32>,
    pub log: Log,
    pub pending: VecDeque<Pending>,
    pub appends: u64,
    /// Not before then an append is durable.
    pub log_stands_until_ms: u64,
    /// The node whose turn it is leads the partition no more: the log takes nothing from it.
    pub deposed: bool,
    pub oracle: Oracle,
    pub clients: Vec<Client>,
    calls: u64,
    tokens: u64,
    pub next_offset: i64,
    /// Members by the classic protocol keep what they have while they join again.
    pub cooperative: bool,
    /// By so much the coordinator is woken too late.
    wakes_late_ms: u64,
    pub outcome: Outcome,
}

/// Lives through it; panics when a promise is broken.
pub fn live(plan: Plan) -> Outcome {
    bugs::put_in(plan.bug);
    let mut story = Story::new(plan);
    story.begin();
    story.pass_until(TROUBLE_MS);
    story.settle();
    story.end();
    story.outcome.trace = story.trace.hash();
    story.outcome.records = story.log.len() as u64;
    story.outcome.acknowledged = story.oracle.acknowledged;
    story.outcome.expired = story.oracle.expired;
    story.outcome.deleted = story.oracle.deleted;
    story.outcome
}

impl Story {
    fn new(plan: Plan) -> Self {
        let mut random = Random::new(plan.seed);
        let wakes_late_ms = [0, 0, 300][random.below(3) as usize];
        Self {
            random,
            trace: Trace::new(plan.aloud),
            at_ms: 0,
            calm: false,
            agenda: BTreeMap::new(),
            planned: 0,
            nodes: std::array::from_fn(|_| Coordinator::new(settings())),
            home: 0,
            loading: None,
            loads: 0,
            topics: BTreeMap::new(),
            log: Log::default(),
            pending: VecDeque::new(),
            appends: 0,
            log_stands_until_ms: 0,
            deposed: false,
            oracle: Oracle::default(),
            clients: Vec::new(),
            calls: 0,
            tokens: 0,
            next_offset: 0,
            cooperative: plan.seed.is_multiple_of(2),
            wakes_late_ms,
            outcome: Outcome::default(),
        }
    }

    fn begin(&mut self) {
        self.set_topic(READ, 4);
        self.set_topic(UNREAD, UNREAD_PARTITIONS);
        self.start(0);
        for group in GROUPS {
            for place in 0..CLIENTS_PER_GROUP {
                let instance = (place == 0).then(|| format!("{group}-static"));
                let in_ms = self.random.below(3_000);
                self.plan(in_ms, Happening::Begin(group, instance));
            }
        }
        self.plan(1_000, Happening::Fault);
    }

    /// Something is to happen in so many milliseconds.
    pub fn plan(&mut self, in_ms: u64, happening: Happening) {
        self.planned += 1;
        let key = (self.at_ms + in_ms, self.planned);
        self.agenda.insert(key, happening);
    }

    /// Time passes.
    pub fn pass_until(&mut self, until_ms: u64) {
        for _ in 0..EVENTS_MAX {
            let next = self.agenda.first_key_value().map(|(key, _)| *key);
            let wakes = (0..NODES).filter_map(|node| Some((self.wakes_at_ms(node)?, node)));
            let wakes = wakes.min();
            let next_ms = next.map_or(u64::MAX, |(at_ms, _)| at_ms);
            match (wakes, next) {
                (Some((at_ms, node)), _) if at_ms <= next_ms => {
                    if at_ms > until_ms {
                        break;
                    }
                    self.at_ms = at_ms;
                    self.step(node, Event::Wake);
                    self.look();
                }
                (_, Some(key)) if key.0 <= until_ms => {
                    self.at_ms = key.0;
                    if let Some(happening) = self.agenda.remove(&key) {
                        self.happens(happening);
                    }
                }
                _ => break,
            }
        }
        assert!(
            self.agenda
                .first_key_value()
                .is_none_or(|(key, _)| key.0 > until_ms),
            "time does not pass"
        );
        self.at_ms = until_ms;
    }

    fn wakes_at_ms(&self, node: usize) -> Option<u64> {
        let at = self.nodes[node].wake_at()?;
        let late_ms = if self.calm { 0 } else { self.wakes_late_ms };
        Some((at.0.div_ceil(1_000_000) + late_ms).max(self.at_ms))
    }

    fn happens(&mut self, happening: Happening) {
        match happening {
            Happening::Act(client) => self.act(client),
            Happening::Deliver {
                node,
                client,
                request,
            } => self.deliver(node, client, request),
            Happening::Hear {
                client,
                call,
                reply,
            } => match self.clients[client].hear(call, reply) {
                Heard::Well => {}
                Heard::Elsewhere => self.clients[client].node = self.home,
                Heard::Fenced => self.clients[client].gone = true,
            },
            Happening::Appended(number) => self.appended(number),
            Happening::Load(load) => self.load(load),
            Happening::Begin(group, instance) => self.begin_client(group, instance),
            Happening::Delete(group) => self.delete_group(group),
            Happening::Fault => self.fault(),
        }
    }

    fn act(&mut self, number: usize) {
        let client = &mut self.clients[number];
        if client.gone {
            return;
        }
        let interval_ms = if self.calm {
            700
        } else {
            300 + self.random.below(1_200)
        };
        if client.silent_until_ms > self.at_ms && !self.calm {
            let in_ms = client.silent_until_ms - self.at_ms;
            return self.plan(in_ms, Happening::Act(number));
        }
        let mut chance = Chance {
            random: &mut self.random,
            next_offset: &mut self.next_offset,
            partitions: self.topics[READ],
            calm: self.calm,
        };
        let waited = client.waits.is_some();
        let ask = client.act(&mut chance);
        if waited && client.waits.is_none() {
            client.node = self.home;
        }
        let (group, node) = (client.group, client.node);
        if let Some(ask) = ask {
            self.calls += 1;
            if ask.waits {
                client.waits = Some(self.calls);
            }
            if ask.ends {
                client.gone = true;
                let instance = client.instance.clone();
                let in_ms = self.random.below(8_000);
                self.plan(in_ms, Happening::Begin(group, instance));
            }
            self.send(node, Some((number, self.calls)), ask.request);
        }
        self.plan(interval_ms, Happening::Act(number));
    }

    /// A request goes its way, and perhaps gets lost, or arrives twice.
    pub fn send(&mut self, node: usize, client: Option<(usize, u64)>, request: Request) {
        self.outcome.requests += 1;
        let fate = self.random.below(30);
        if fate == 0 && !self.calm {
            return;
        }
        if fate <= 2 && !self.calm {
            let in_ms = self.latency_ms();
            let copy = Happening::Deliver {
                node,
                client: None,
                request: request.clone(),
            };
            self.plan(in_ms, copy);
        }
        let in_ms = self.latency_ms();
        let original = Happening::Deliver {
            node,
            client,
            request,
        };
        self.plan(in_ms, original);
    }

    /// Mostly little, sometimes seconds: whoever comes later may be there first.
    fn latency_ms(&mut self) -> u64 {
        if self.calm {
            1
        } else if self.random.one_in(10) {
            self.random.below(5_000)
        } else {
            1 + self.random.below(40)
        }
    }

    fn deliver(&mut self, node: usize, client: Option<(usize, u64)>, mut request: Request) {
        if let Request::Join(join) = &mut request {
            join.random[..8].copy_from_slice(&self.random.number().to_be_bytes());
        }
        self.tokens += 1;
        let token = Token(self.tokens);
        let from = (node, client);
        self.oracle
            .asks(self.at_ms, self.appends, token, from, request.clone());
        self.step(node, Event::Request(token, HOLDER, Box::new(request)));
        self.look();
    }

    /// A node takes an event, and what it says about it is done.
    pub fn step(&mut self, node: usize, event: Event) {
        match &event {
            Event::Replay(_, records) => {
                let records = records.len();
                self.trace
                    .tell(self.at_ms, format_args!("{node} < {records} records"));
            }
            event => self
                .trace
                .tell(self.at_ms, format_args!("{node} < {event:?}")),
        }
        let mut effects = Vec::new();
        self.nodes[node].step(now(self.at_ms), event, &mut effects);
        for effect in effects {
            self.trace
                .tell(self.at_ms, format_args!("{node} > {effect:?}"));
            match effect {
                Effect::Reply { token, reply } => self.answer(token, reply),
                Effect::Append { batch, records, .. } => self.append(node, batch, records),
            }
        }
    }

    fn answer(&mut self, token: Token, reply: Reply) {
        let asked = self.oracle.answers(self.at_ms, &self.log, token, &reply);
        let Some((client, call)) = asked.client else {
            return;
        };
        if !self.calm && self.random.one_in(30) {
            return;
        }
        let in_ms = self.latency_ms();
        let hear = Happening::Hear {
            client,
            call,
            reply,
        };
        self.plan(in_ms, hear);
    }

    fn append(&mut self, node: usize, batch: BatchId, records: Rc<[GroupRecord]>) {
        if self.deposed {
            // Nobody waits to be told.
            return;
        }
        self.oracle.appends(self.at_ms, &self.log, &records);
        self.appends += 1;
        let number = self.appends;
        let fails = !self.calm && self.random.one_in(60);
        let latency_ms = if self.calm {
            1
        } else {
            1 + self.random.below(60)
        };
        let done_ms = self.log_stands_until_ms.max(self.at_ms + latency_ms);
        self.log_stands_until_ms = done_ms;
        self.pending.push_back(Pending {
            number,
            node,
            batch,
            records,
            fails,
        });
        self.plan(done_ms - self.at_ms, Happening::Appended(number));
    }

    fn appended(&mut self, number: u64) {
        if self.pending.front().is_none_or(|it| it.number != number) {
            // It went down with its coordinator.
            return;
        }
        let Some(pending) = self.pending.pop_front() else {
            return;
        };
        let event = if pending.fails {
            Event::Failed(pending.batch, AppendError::Unavailable)
        } else {
            self.keep(&pending);
            Event::Committed(pending.batch)
        };
        self.step(pending.node, event);
        self.look();
    }

    /// Records are durable, whether or not anybody hears of it.
    pub fn keep(&mut self, pending: &Pending) {
        self.log.append(pending.number, &pending.records);
        self.oracle.durable(&pending.records);
    }

    /// What can be asked at any time must be true at any time.
    pub fn look(&mut self) {
        let (node, at_ms) = (self.home, self.at_ms);
        if self.loading.is_some() {
            view::assert_withheld(&mut self.nodes[node], at_ms);
        } else {
            view::View::of(&mut self.nodes[node], at_ms).check(&self.log);
        }
    }

    /// A topic is there with so many partitions.
    pub fn set_topic(&mut self, name: &'static str, partitions: i32) {
        self.topics.insert(name, partitions);
        for node in 0..NODES {
            self.step(node, changed(name, partitions));
        }
    }

    /// Nothing goes wrong any more: members come to have all partitions, each once, and nobody waits in vain.
    fn settle(&mut self) {
        self.calm = true;
        self.agenda
            .retain(|_, it| !matches!(it, Happening::Begin(..) | Happening::Delete(_)));
        for group in GROUPS {
            self.begin_client(group, None);
        }
        self.part_namesakes();
        // A copy of a join has made a member that nobody is, which goes after five minutes.
        let until_ms = self.at_ms + 400_000;
        while !self.is_settled() {
            assert!(self.at_ms < until_ms, "the groups do not settle");
            self.pass_until(self.at_ms + 2_000);
        }
        let owed = self.oracle.owed(self.home);
        assert!(owed.is_empty(), "these are never answered: {owed:?}");
    }

    /// Of clients by one name the last one stays: no two can have one place.
    fn part_namesakes(&mut self) {
        let mut seen = BTreeSet::new();
        for client in self.clients.iter_mut().rev().filter(|it| !it.gone) {
            if let Some(instance) = &client.instance {
                client.gone = !seen.insert((client.group, instance.clone()));
            }
        }
    }

    fn is_settled(&self) -> bool {
        let quiet = self.pending.is_empty() && self.loading.is_none();
        quiet
            && self.oracle.owed(self.home).is_empty()
            && GROUPS.into_iter().all(|group| {
                let clients = self.clients.iter();
                let clients = clients.filter(|it| it.group == group && !it.gone);
                let mut owned: Vec<i32> = Vec::new();
                let mut settled = true;
                for client in clients {
                    settled &= client.is_settled();
                    owned.extend(client.owned());
                }
                owned.sort_unstable();
                settled && owned.into_iter().eq(0..self.topics[READ])
            })
    }

    /// Everybody goes without a word. In time nothing is left of the groups.
    fn end(&mut self) {
        for client in &mut self.clients {
            client.gone = true;
        }
        let out_ms = 2 * (SESSION_MS + REBALANCE_MS);
        let expired_ms = RETENTION_MS + 3 * SWEEP_MS;
        self.pass_until(self.at_ms + out_ms + expired_ms);
        for group in GROUPS {
            let left = self.log.older(group, u64::MAX);
            assert_eq!(left, None, "something of a group stays for ever");
        }
        let node = &self.nodes[self.home];
        assert_eq!(
            (node.list().0, node.bytes()),
            (Vec::new(), 0),
            "not all is forgotten"
        );
    }
}

/// A topic's event.
pub fn changed(name: &str, partitions: i32) -> Event {
    Event::TopicChanged(name.into(), topic_id(name), partitions)
}
