//! What a coordinator says of its groups when it is asked, beside what the log says. Knows nothing of how
//! either came about.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use simulated_groups::group::request::{ConsumerDescription, Description, ListedGroup};
use simulated_groups::group::{Coordinator, Effect, Event, Reply, Request, Token};
use wire::ErrorCode;
use wire::group_records::{Assignment, GroupRecord};

use crate::classic::read_share;
use crate::client::fetch;
use crate::log::{Log, Offsets};
use crate::oracle::offsets_of;
use crate::scene::{CLASSIC, CONSUMERS, GROUPS, HOLDER, now, settings};
use crate::story::changed;

/// No client's request has this number.
const TOKEN: Token = Token(u64::MAX);

/// What a coordinator says.
#[derive(Debug, PartialEq, Eq)]
pub struct View {
    offsets: Vec<Offsets>,
    classic: Description,
    consumers: Option<ConsumerDescription>,
    listed: Vec<ListedGroup>,
    bytes: usize,
}

/// Asks a coordinator what it answers at once.
fn ask(coordinator: &mut Coordinator, at_ms: u64, request: Request) -> Reply {
    let mut effects = Vec::new();
    let event = Event::Request(TOKEN, HOLDER, Box::new(request));
    coordinator.step(now(at_ms), event, &mut effects);
    match effects.pop() {
        Some(Effect::Reply { reply, .. }) if effects.is_empty() => reply,
        other => panic!("no answer to a question: {other:?}, {effects:?}"),
    }
}

/// A coordinator that loads says so, and guesses nothing (invariant 17).
pub fn assert_withheld(coordinator: &mut Coordinator, at_ms: u64) {
    let loading = ErrorCode::CoordinatorLoadInProgress;
    for group in GROUPS {
        let answer = ask(coordinator, at_ms, fetch(group, None));
        assert_eq!(answer, Reply::FetchOffsets(Err(loading)));
    }
}

impl View {
    pub fn of(coordinator: &mut Coordinator, at_ms: u64) -> Self {
        let mut ask = |request| ask(coordinator, at_ms, request);
        let offsets = GROUPS.map(|group| match ask(fetch(group, None)) {
            Reply::FetchOffsets(Ok(topics)) => offsets_of(&topics),
            other => panic!("no offsets: {other:?}"),
        });
        let classic = match ask(Request::Describe(CLASSIC.into())) {
            Reply::Describe(Ok(group)) => group,
            other => panic!("no description: {other:?}"),
        };
        let consumers = match ask(Request::DescribeConsumers(CONSUMERS.into())) {
            Reply::DescribeConsumers(group) => group.ok(),
            other => panic!("no description: {other:?}"),
        };
        Self {
            offsets: offsets.into(),
            classic,
            consumers,
            listed: coordinator.list().0,
            bytes: coordinator.bytes(),
        }
    }

    /// What another coordinator says that has replayed these records in one piece.
    pub fn replayed(
        records: Vec<GroupRecord>,
        topics: &BTreeMap<&'static str, i32>,
        at_ms: u64,
    ) -> Self {
        let mut twin = Coordinator::new(settings());
        let topics = topics.iter().map(|(name, count)| changed(name, *count));
        let load = [
            Event::Load(HOLDER),
            Event::Replay(HOLDER, records),
            Event::Loaded(HOLDER),
        ];
        for event in topics.chain(load) {
            twin.step(now(at_ms), event, &mut Vec::new());
        }
        Self::of(&mut twin, at_ms)
    }

    /// What is committed is what the log says, and no partition has two owners.
    pub fn check(&self, log: &Log) {
        for (group, offsets) in GROUPS.iter().zip(&self.offsets) {
            let committed = log.offsets(group);
            assert_eq!(
                *offsets, committed,
                "the offsets of {group} are not the log's"
            );
        }
        self.check_consumers(log);
        let mut owned = BTreeSet::new();
        for member in &self.classic.members {
            let (_, partitions) = read_share(&member.assignment).unwrap_or_default();
            for partition in partitions {
                assert!(
                    owned.insert(partition),
                    "{partition} has two owners: {self:?}"
                );
            }
        }
        let mut owned = BTreeSet::new();
        if let Some(group) = &self.consumers {
            for member in &group.members {
                assert!(member.epoch <= group.epoch, "ahead of its group: {self:?}");
                for (topic, partitions) in &member.assigned {
                    for partition in partitions {
                        let is_first = owned.insert((*topic, *partition));
                        assert!(is_first, "{partition} has two owners: {self:?}");
                    }
                }
            }
        }
    }

    /// Consumers have what the log says that they have.
    fn check_consumers(&self, log: &Log) {
        let consumers = self.consumers.iter().flat_map(|it| &it.members);
        let consumers = consumers.map(|it| (it.member_id.as_str(), (it.epoch, &it.assigned)));
        let consumers: BTreeMap<&str, (i32, &Assignment)> = consumers.collect();
        let durable = log.currents(CONSUMERS).into_iter();
        let durable = durable.map(|(id, it)| (id, (it.epoch, &it.assigned)));
        let durable: BTreeMap<&str, (i32, &Assignment)> = durable.collect();
        assert_eq!(consumers, durable, "other consumers than the log's");
    }

    /// What was loaded is what the log says, in which pieces and with whatever compaction it was read.
    pub fn assert_loaded(&self, twin: &Self, log: &Log) {
        self.check(log);
        let listed: Vec<&str> = self.listed.iter().map(|it| it.group.as_str()).collect();
        let known: Vec<&str> = GROUPS.into_iter().filter(|it| log.knows(it)).collect();
        assert_eq!(listed, known, "other groups than the log's");
        let members = self.classic.members.iter();
        let members = members.map(|it| (it.identity.member_id.as_str(), &it.assignment));
        let members: BTreeMap<&str, &Bytes> = members.collect();
        let durable = log.group(CLASSIC).into_iter().flat_map(|it| &it.members);
        let durable = durable.map(|it| (it.member_id.as_str(), &it.assignment));
        let durable: BTreeMap<&str, &Bytes> = durable.collect();
        assert_eq!(members, durable, "other members than the log's");
        assert_eq!(self, twin, "compaction changes what is loaded");
    }
}
