//! What goes wrong in a story, and what operators do: coordinators crash, move and load, clients come, go, stall
//! and come twice, the log stands still, groups and offsets are deleted, topics grow and go. Knows nothing of
//! what must hold meanwhile.

use simulated_groups::group::request::Identity;
use simulated_groups::group::{Coordinator, Event, Request};

use crate::classic::Classic;
use crate::client::{Chance, Client, Member, commit_of};
use crate::consumer::Consumer;
use crate::scene::{
    CLASSIC, GROUPS, HOLDER, READ, RETENTION_MS, UNREAD, UNREAD_PARTITIONS, now, settings,
};
use crate::story::{CLIENTS_PER_GROUP, Happening, NODES, Pending, Story, changed};
use crate::view;

/// No more partitions than that.
const PARTITIONS_MAX: i32 = 7;

impl Story {
    pub fn fault(&mut self) {
        if self.calm {
            return;
        }
        let group = GROUPS[self.random.below(2) as usize];
        match self.random.below(20) {
            0 => self.crash(),
            1 => self.hand_over(),
            2 | 3 => self.lose_client(),
            4 | 5 => self.stall(),
            6 | 7 => self.come_twice(),
            8 | 9 => {
                let stands_ms = self.random.below(5_000);
                self.log_stands_until_ms = self.log_stands_until_ms.max(self.at_ms + stands_ms);
            }
            10 | 11 => self.commit_from_outside(group),
            12 => self.delete_offsets(group),
            13 => self.delete_group(group),
            14 => self.all_go(group),
            15 => {
                let grown = (self.topics[READ] + 1).min(PARTITIONS_MAX);
                self.set_topic(READ, grown);
            }
            16 => self.make_topic_anew(),
            _ => {}
        }
        let in_ms = 200 + self.random.below(2_000);
        self.plan(in_ms, Happening::Fault);
    }

    /// The coordinator dies, and it or the other node comes up.
    fn crash(&mut self) {
        self.outcome.crashes += 1;
        let node = self.home;
        self.trace.tell(self.at_ms, format_args!("{node} dies"));
        self.let_go();
        self.oracle.died(node);
        self.nodes[node] = Coordinator::new(settings());
        self.tell_topics(node);
        let next = self.random.below(NODES as u64) as usize;
        self.start(next);
    }

    /// The partition moves to the other node.
    fn hand_over(&mut self) {
        self.outcome.moves += 1;
        let node = self.home;
        self.deposed = true;
        self.step(node, Event::Unload(HOLDER));
        self.deposed = false;
        let owed = self.oracle.owed(node);
        assert!(owed.is_empty(), "an old coordinator owes answers: {owed:?}");
        // That appends are durable is heard too late.
        for pending in self.let_go() {
            let mut effects = Vec::new();
            let event = Event::Committed(pending.batch);
            self.nodes[node].step(now(self.at_ms), event, &mut effects);
            assert_eq!(effects, [], "an old coordinator goes on");
        }
        self.start((node + 1) % NODES);
    }

    /// Of what is on its way to the log the first part is durable all the same, and returned.
    fn let_go(&mut self) -> Vec<Pending> {
        let kept = self.random.below(self.pending.len() as u64 + 1) as usize;
        let pending = std::mem::take(&mut self.pending);
        let kept = pending.into_iter().take(kept).filter(|it| !it.fails);
        let kept: Vec<Pending> = kept.collect();
        for pending in &kept {
            self.keep(pending);
        }
        kept
    }

    fn tell_topics(&mut self, node: usize) {
        for (name, partitions) in self.topics.clone() {
            self.step(node, changed(name, partitions));
        }
    }

    /// A node leads the partition now, and loads it.
    pub fn start(&mut self, node: usize) {
        self.home = node;
        self.loads += 1;
        self.loading = Some(0);
        self.oracle.deleted_topic = None;
        self.step(node, Event::Load(HOLDER));
        self.look();
        self.plan(1, Happening::Load(self.loads));
    }

    pub fn load(&mut self, load: u64) {
        let Some(from) = self.loading.filter(|_| load == self.loads) else {
            return;
        };
        if from < self.log.len() {
            let count = 1 + self.random.below(self.log.len() as u64 / 3 + 1) as usize;
            let records = self.log.read(from, count);
            self.loading = Some(from + records.len());
            self.step(self.home, Event::Replay(HOLDER, records));
            self.look();
            let in_ms = 1 + self.random.below(100);
            return self.plan(in_ms, Happening::Load(load));
        }
        self.loading = None;
        self.oracle.loaded(self.at_ms, &self.log);
        self.step(self.home, Event::Loaded(HOLDER));
        self.oracle.deleted_topic = None;
        let compacted = self.log.compacted(self.random.one_in(2));
        let found = view::View::of(&mut self.nodes[self.home], self.at_ms);
        let twin = view::View::replayed(compacted, &self.topics, self.at_ms);
        found.assert_loaded(&twin, &self.log);
    }

    pub fn begin_client(&mut self, group: &'static str, instance: Option<String>) {
        let number = self.clients.len();
        let member = if group == CLASSIC {
            Member::Classic(Classic::new(self.cooperative))
        } else {
            let by_pattern = self.random.one_in(3);
            Member::Consumer(Consumer::new(format!("m{number}"), by_pattern))
        };
        self.clients.push(Client {
            group,
            instance,
            member,
            node: self.home,
            gone: false,
            waits: None,
            silent_until_ms: 0,
        });
        self.plan(0, Happening::Act(number));
    }

    fn some_client(&mut self) -> Option<usize> {
        let alive = (0..self.clients.len()).filter(|it| !self.clients[*it].gone);
        let alive: Vec<usize> = alive.collect();
        if alive.is_empty() {
            return None;
        }
        Some(alive[self.random.below(alive.len() as u64) as usize])
    }

    /// A client dies; another one comes for it, by its name if it has one.
    fn lose_client(&mut self) {
        if let Some(client) = self.some_client() {
            let in_ms = self.random.below(8_000);
            self.end_client(client, in_ms);
        }
    }

    fn end_client(&mut self, number: usize, next_in_ms: u64) {
        self.trace
            .tell(self.at_ms, format_args!("client {number} dies"));
        let client = &mut self.clients[number];
        client.gone = true;
        let begin = Happening::Begin(client.group, client.instance.clone());
        self.plan(next_in_ms, begin);
    }

    fn stall(&mut self) {
        if let Some(client) = self.some_client() {
            let silent_ms = self.random.below(15_000);
            self.clients[client].silent_until_ms = self.at_ms + silent_ms;
        }
    }

    /// A static member is taken for dead and begun anew, and wakes up again.
    fn come_twice(&mut self) {
        let statics = (0..self.clients.len())
            .filter(|it| self.clients[*it].instance.is_some() && !self.clients[*it].gone);
        let statics: Vec<usize> = statics.collect();
        if statics.is_empty() || statics.len() > 2 * GROUPS.len() {
            return;
        }
        let client = statics[self.random.below(statics.len() as u64) as usize];
        let silent_ms = self.random.below(4_000);
        self.clients[client].silent_until_ms = self.at_ms + silent_ms;
        let (group, instance) = (
            self.clients[client].group,
            self.clients[client].instance.clone(),
        );
        self.plan(0, Happening::Begin(group, instance));
    }

    fn commit_from_outside(&mut self, group: &'static str) {
        let (topic, partitions) = if self.random.one_in(2) {
            (READ, self.topics[READ])
        } else {
            (UNREAD, UNREAD_PARTITIONS)
        };
        let partition = self.random.below(partitions as u64) as i32;
        let mut chance = Chance {
            random: &mut self.random,
            next_offset: &mut self.next_offset,
            partitions,
            calm: false,
        };
        let outside = Identity::default();
        let request = commit_of(group, outside, -1, topic, partition, &mut chance);
        self.send(self.home, None, request);
    }

    fn delete_offsets(&mut self, group: &'static str) {
        let topics: Vec<(String, Vec<i32>)> = vec![
            (READ.into(), (0..self.topics[READ]).collect()),
            (UNREAD.into(), (0..UNREAD_PARTITIONS).collect()),
        ];
        let request = Request::DeleteOffsets(group.into(), topics);
        self.send(self.home, None, request);
    }

    /// Somebody deletes a group, while others may still commit to it.
    pub fn delete_group(&mut self, group: &'static str) {
        for _ in 0..self.random.below(3) {
            self.commit_from_outside(group);
        }
        self.send(self.home, None, Request::Delete(group.into()));
    }

    /// A group is empty for a while: long enough to be deleted, or for its offsets to expire.
    fn all_go(&mut self, group: &'static str) {
        let away_ms = self.random.below(RETENTION_MS * 2);
        let clients = (0..self.clients.len())
            .filter(|it| self.clients[*it].group == group && !self.clients[*it].gone);
        let clients: Vec<usize> = clients.collect();
        for client in clients.iter().skip(CLIENTS_PER_GROUP) {
            // More than began: some of them came twice.
            self.clients[*client].gone = true;
        }
        for client in clients.into_iter().take(CLIENTS_PER_GROUP) {
            self.end_client(client, away_ms);
        }
        for _ in 0..3 {
            let in_ms = self.random.below(away_ms + 1);
            self.plan(in_ms, Happening::Delete(group));
        }
    }

    /// A topic is deleted and made anew, and what was committed for it is forgotten.
    fn make_topic_anew(&mut self) {
        self.oracle.deleted_topic = Some(UNREAD);
        for node in 0..NODES {
            self.step(node, Event::TopicDeleted(UNREAD.into()));
        }
        if self.loading.is_none() {
            self.oracle.deleted_topic = None;
        }
        self.look();
        self.set_topic(UNREAD, UNREAD_PARTITIONS);
    }
}
