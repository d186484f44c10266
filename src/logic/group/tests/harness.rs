//! A coordinator with one partition, a log that commits when told, and clients that say little. Knows
//! what is promised nowhere.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use wire::ErrorCode;
use wire::group_records::GroupRecord;

use super::super::request::{
    Commit, CommitItem, FetchOffsets, Heartbeat, Identity, Join, JoinReply, Leave, Sync, SyncReply,
};
use super::super::{
    AppendError, Assignor, BatchId, ConsumerSettings, Coordinator, Effect, Event, MigrationPolicy,
    Now, Reply, Request, Settings, Times, Token,
};
use crate::ids::{Instant, Timestamp, TopicId};

pub const GROUP: &str = "g";
pub const DELAY_MS: u64 = 3_000;
pub const SESSION_MS: u64 = 10_000;
pub const REBALANCE_MS: u64 = 60_000;
const WALL_AT_START_MS: i64 = 1_000_000;

pub fn settings() -> Settings {
    Settings {
        initial_rebalance_delay_ms: DELAY_MS,
        session_timeout_ms_min: 1_000,
        session_timeout_ms_max: 100_000,
        size_max: 10,
        metadata_bytes_max: 100,
        retention_ms: 1_000_000,
        retention_check_interval_ms: 10_000,
        memory_bytes_max: 1 << 20,
        consumer: ConsumerSettings {
            times: Times {
                session_timeout_ms: SESSION_MS,
                heartbeat_interval_ms: 500,
                assignment_interval_ms: 0,
            },
            size_max: 100,
            assignors: Assignor::ALL.into(),
            migration: MigrationPolicy::Bidirectional,
        },
    }
}

pub struct Bench {
    pub coordinator: Coordinator,
    pub now_ms: u64,
    /// What was committed, in order.
    pub log: Vec<GroupRecord>,
    pub pending: VecDeque<(BatchId, Rc<[GroupRecord]>)>,
    /// Appends are committed as soon as they are made.
    pub prompt: bool,
    pub topics: BTreeMap<String, (TopicId, i32)>,
    replies: BTreeMap<Token, Reply>,
    next: u64,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(settings())
    }

    pub fn with(settings: Settings) -> Self {
        let mut bench = Self {
            coordinator: Coordinator::new(settings),
            now_ms: 0,
            log: Vec::new(),
            pending: VecDeque::new(),
            prompt: true,
            topics: BTreeMap::new(),
            replies: BTreeMap::new(),
            next: 0,
        };
        bench.step(Event::Load(0));
        bench.step(Event::Loaded(0));
        bench
    }

    pub fn now(&self) -> Now {
        Now {
            instant: Instant(self.now_ms * 1_000_000),
            wall: Timestamp(WALL_AT_START_MS + self.now_ms as i64),
        }
    }

    pub fn step(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.coordinator.step(self.now(), event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Reply { token, reply } => {
                    let before = self.replies.insert(token, reply);
                    assert!(before.is_none(), "{token:?} was answered twice");
                }
                Effect::Append { batch, records, .. } => self.pending.push_back((batch, records)),
            }
        }
        if self.prompt {
            self.commit_all();
        }
    }

    pub fn commit_all(&mut self) {
        while self.commit_one() {}
    }

    /// The oldest append is in the log now.
    pub fn commit_one(&mut self) -> bool {
        let Some((batch, records)) = self.pending.pop_front() else {
            return false;
        };
        self.log.extend(records.iter().cloned());
        self.step(Event::Committed(batch));
        true
    }

    pub fn fail_one(&mut self, error: AppendError) {
        let (batch, _) = self.pending.pop_front().expect("an append is pending");
        self.step(Event::Failed(batch, error));
    }

    /// Time passes, in steps no longer than until the coordinator wants to be woken.
    pub fn pass(&mut self, ms: u64) {
        let until = self.now_ms + ms;
        while let Some(Instant(at)) = self.coordinator.wake_at() {
            let at = at.div_ceil(1_000_000).max(self.now_ms);
            if at > until {
                break;
            }
            self.now_ms = at;
            self.step(Event::Wake);
        }
        self.now_ms = until;
    }

    /// The coordinator crashes and another one loads what was committed.
    pub fn reload(&mut self) {
        self.reload_with(settings());
    }

    /// The same, with other bounds.
    pub fn reload_with(&mut self, settings: Settings) {
        self.pending.clear();
        self.replies.clear();
        self.coordinator = Coordinator::new(settings);
        for (name, (id, partitions)) in self.topics.clone() {
            self.step(Event::TopicChanged(name, id, partitions));
        }
        self.step(Event::Load(0));
        self.step(Event::Replay(0, self.log.clone()));
        self.step(Event::Loaded(0));
    }

    /// A number that is given once.
    pub fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub fn ask(&mut self, request: Request) -> Token {
        let token = Token(self.next);
        self.next += 1;
        self.step(Event::Request(token, 0, Box::new(request)));
        token
    }

    /// A topic is created, or has grown; its id is its name.
    pub fn topic(&mut self, name: &str, partitions: i32) {
        let mut id = TopicId::ZERO;
        id.0[..name.len()].copy_from_slice(name.as_bytes());
        self.topics.insert(name.into(), (id, partitions));
        self.step(Event::TopicChanged(name.into(), id, partitions));
    }

    pub fn delete_topic(&mut self, name: &str) {
        self.topics.remove(name);
        self.step(Event::TopicDeleted(name.into()));
    }

    pub fn answer(&mut self, token: Token) -> Option<Reply> {
        self.replies.remove(&token)
    }

    pub fn joined(&mut self, token: Token) -> JoinReply {
        match self.answer(token) {
            Some(Reply::Join(reply)) => reply,
            other => panic!("no answer to a join: {other:?}"),
        }
    }

    pub fn synced(&mut self, token: Token) -> Result<SyncReply, ErrorCode> {
        match self.answer(token) {
            Some(Reply::Sync(reply)) => reply,
            other => panic!("no answer to a sync: {other:?}"),
        }
    }

    pub fn join(&mut self, member_id: &str, instance: Option<&str>) -> Token {
        let random = (self.next as u128).to_be_bytes();
        self.ask(Request::Join(Join {
            random,
            ..join(member_id, instance)
        }))
    }

    pub fn sync(&mut self, member_id: &str, generation: i32, gives: &[(&str, &str)]) -> Token {
        let gives = gives.iter().map(|(to, what)| {
            let what = Bytes::copy_from_slice(what.as_bytes());
            (String::from(*to), what)
        });
        self.ask(Request::Sync(Sync {
            group: GROUP.into(),
            identity: identity(member_id, None),
            generation,
            protocol_type: None,
            protocol: None,
            assignments: gives.collect(),
        }))
    }

    pub fn heartbeat(&mut self, member_id: &str, generation: i32) -> ErrorCode {
        let token = self.ask(Request::Heartbeat(Heartbeat {
            group: GROUP.into(),
            identity: identity(member_id, None),
            generation,
        }));
        match self.answer(token) {
            Some(Reply::Heartbeat(error)) => error,
            other => panic!("no answer to a heartbeat: {other:?}"),
        }
    }

    pub fn leave(&mut self, members: &[(&str, Option<&str>)]) -> Vec<ErrorCode> {
        let token = self.ask(Request::Leave(Leave {
            group: GROUP.into(),
            members: members.iter().map(|(id, it)| identity(id, *it)).collect(),
        }));
        match self.answer(token) {
            Some(Reply::Leave(Ok(errors))) => errors,
            other => panic!("no answer to a leave: {other:?}"),
        }
    }

    pub fn commit(&mut self, member_id: &str, generation: i32, offset: i64) -> Token {
        self.ask(Request::Commit(commit(member_id, generation, offset)))
    }

    pub fn committed(&mut self, token: Token) -> ErrorCode {
        match self.answer(token) {
            Some(Reply::Commit(errors)) => errors[0],
            other => panic!("no answer to a commit: {other:?}"),
        }
    }

    /// The offset of the partition that [`commit`] is about.
    pub fn offset(&mut self) -> Option<i64> {
        let wanted = vec![("t".into(), vec![0])];
        let token = self.ask(Request::FetchOffsets(FetchOffsets {
            group: GROUP.into(),
            member: None,
            topics: Some(wanted),
        }));
        match self.answer(token) {
            Some(Reply::FetchOffsets(Ok(topics))) => topics[0].1[0].1.as_ref().map(|it| it.offset),
            other => panic!("no answer to a fetch: {other:?}"),
        }
    }

    pub fn state(&mut self) -> &'static str {
        let token = self.ask(Request::Describe(GROUP.into()));
        match self.answer(token) {
            Some(Reply::Describe(Ok(description))) => description.state,
            other => panic!("no answer to a describe: {other:?}"),
        }
    }

    /// A stable group of so many members, the leader first; member n has assignment `pn`.
    pub fn stable(&mut self, members: usize) -> (Vec<String>, i32) {
        let tokens: Vec<Token> = (0..members).map(|_| self.join("", None)).collect();
        self.pass(2 * DELAY_MS);
        let replies: Vec<JoinReply> = tokens.into_iter().map(|it| self.joined(it)).collect();
        let generation = replies[0].generation;
        let mut ids: Vec<String> = replies.iter().map(|it| it.member_id.clone()).collect();
        ids.sort_by_key(|id| *id != replies[0].leader);
        let gives: Vec<(String, String)> = (0..members)
            .map(|place| (ids[place].clone(), format!("p{place}")))
            .collect();
        let gives: Vec<(&str, &str)> = gives.iter().map(|(id, it)| (&**id, &**it)).collect();
        for id in ids.iter().rev() {
            self.sync(id, generation, if *id == ids[0] { &gives } else { &[] });
        }
        assert_eq!(self.state(), "Stable");
        (ids, generation)
    }
}

pub fn identity(member_id: &str, instance: Option<&str>) -> Identity {
    Identity {
        member_id: member_id.into(),
        instance_id: instance.map(String::from),
    }
}

/// Asks for all that is committed.
pub fn all_offsets() -> Request {
    Request::FetchOffsets(FetchOffsets {
        group: GROUP.into(),
        ..FetchOffsets::default()
    })
}

pub fn join(member_id: &str, instance: Option<&str>) -> Join {
    Join {
        group: GROUP.into(),
        identity: identity(member_id, instance),
        client_id: "client".into(),
        client_host: "/here".into(),
        session_timeout_ms: SESSION_MS as i32,
        rebalance_timeout_ms: REBALANCE_MS as i32,
        protocol_type: "consumer".into(),
        protocols: vec![("range".into(), Bytes::from_static(b"wants"))],
        id_required: false,
        can_skip_assignment: true,
        random: [7; 16],
    }
}

pub fn commit(member_id: &str, generation: i32, offset: i64) -> Commit {
    Commit {
        group: GROUP.into(),
        identity: identity(member_id, None),
        generation,
        unknown_group: ErrorCode::GroupIdNotFound,
        retention_ms: None,
        offsets: vec![CommitItem {
            topic: "t".into(),
            partition: 0,
            offset,
            leader_epoch: -1,
            metadata: "so far".into(),
        }],
    }
}

/// A generator of numbers that a seed repeats (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}
