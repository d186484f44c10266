//! Consumers that join, leave, stall, crash, lose answers and commit late at random, topics that grow, a
//! log that is late or refuses, a coordinator that crashes and loads again; beside it a naive model of who
//! was given what. Knows nothing of how a group decides.

extern crate std;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use wire::ErrorCode;
use wire::group_records::{Assignment, TopicUuid};

use super::super::super::consumer::state::State;
use super::super::super::request::{ConsumerHeartbeat, ConsumerHeartbeatReply};
use super::super::super::{AppendError, Reply, Request, Token};
use super::super::harness::*;
use super::client::{Client, REBALANCE_TIMEOUT_MS};

const SEEDS: u64 = 300;
const STEPS: usize = 400;
const PLACES: usize = 4;

/// A heartbeat on its way.
struct Asked {
    token: Token,
    place: usize,
    member: String,
    epoch: i32,
    owned: Assignment,
    at_ms: u64,
    /// Its answer gets lost.
    lost: bool,
}

/// What a member was promised, as told by answers alone.
#[derive(Default)]
struct Known {
    epoch: i32,
    heard_ms: u64,
    /// Since when it is to give something back.
    revoking_since_ms: Option<u64>,
}

struct Run {
    bench: Bench,
    dice: Dice,
    clients: Vec<Client>,
    asked: Vec<Asked>,
    commits: Vec<(Token, String, i32, i64)>,
    known: BTreeMap<String, Known>,
    /// Who may have a partition.
    granted: BTreeMap<(TopicUuid, i32), String>,
    acknowledged: Option<i64>,
    open: Vec<i64>,
    next: u64,
    partitions: i32,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut bench = Bench::new();
        bench.topic("t", 5);
        bench.topic("u", 3);
        bench.prompt = false;
        let mut run = Self {
            bench,
            dice: Dice(seed),
            clients: Vec::new(),
            asked: Vec::new(),
            commits: Vec::new(),
            known: BTreeMap::new(),
            granted: BTreeMap::new(),
            acknowledged: None,
            open: Vec::new(),
            next: 0,
            partitions: 5,
        };
        for _ in 0..PLACES {
            let client = run.fresh();
            run.clients.push(client);
        }
        run
    }

    fn fresh(&mut self) -> Client {
        self.next += 1;
        let topics: &[&str] = match self.dice.roll(4) {
            0 => &["t"],
            1 => &["u"],
            _ => &["t", "u"],
        };
        Client::new(&format!("m{}", self.next), topics)
    }

    fn turn(&mut self) {
        let place = self.dice.roll(PLACES as u64) as usize;
        match self.dice.roll(100) {
            0..=44 => self.beat(place),
            45..=54 => self.commit(place),
            55..=79 => {
                self.bench.commit_one();
            }
            80..=81 if !self.bench.pending.is_empty() => {
                self.bench.fail_one(AppendError::Unavailable);
            }
            82..=88 => {
                let ms = self.dice.roll(2_500);
                self.bench.pass(ms);
            }
            89..=91 => {
                let owed = self.asked.iter().any(|it| it.place == place);
                if !owed && self.clients[place].epoch > 0 {
                    self.leave(place);
                }
            }
            92 => self.clients[place] = self.fresh(), // it crashes
            93 if self.partitions < 12 => {
                self.partitions += 1;
                self.bench.topic("t", self.partitions);
            }
            94..=95 => self.crash(),
            _ => self.look(),
        }
        self.hear();
    }

    fn beat(&mut self, place: usize) {
        if self.asked.iter().any(|it| it.place == place) {
            return;
        }
        let at_ms = self.bench.now_ms;
        let client = &mut self.clients[place];
        let (member, epoch, owned) = (client.id.clone(), client.epoch, client.owned.clone());
        let token = client.send(&mut self.bench);
        let lost = self.dice.roll(12) == 0;
        self.asked.push(Asked {
            token,
            place,
            member,
            epoch,
            owned,
            at_ms,
            lost,
        });
    }

    /// Goodbye, or so; the answer does not matter.
    fn leave(&mut self, place: usize) {
        let fresh = self.fresh();
        let gone = core::mem::replace(&mut self.clients[place], fresh);
        self.release(&gone.id, None);
        let request = ConsumerHeartbeat {
            epoch: -1,
            ..gone.request()
        };
        self.bench.ask(Request::ConsumerHeartbeat(request));
    }

    fn commit(&mut self, place: usize) {
        let client = &self.clients[place];
        let mut epoch = client.epoch;
        if self.dice.roll(4) == 0 {
            epoch -= 1; // a commit that is late
        }
        if epoch <= 0 {
            return;
        }
        let offset = self.bench.now_ms as i64 + self.next as i64 + self.open.len() as i64;
        let id = client.id.clone();
        let token = self.bench.commit(&id, epoch, offset);
        if let Some(reply) = self.bench.answer(token) {
            assert_ne!(reply, Reply::Commit(alloc::vec![ErrorCode::None]));
            return;
        }
        // It was let in, for it waits for the log: then it is of the newest epoch.
        let known = self.known.get(&id).map(|it| it.epoch);
        assert_eq!(
            known,
            Some(epoch),
            "a commit of {id} that is late was let in"
        );
        self.open.push(offset);
        self.commits.push((token, id, epoch, offset));
    }

    /// The coordinator crashes and goes on as if nothing had been but what the log has.
    fn crash(&mut self) {
        let before = self.bench.coordinator.consumers(0, GROUP);
        if self.bench.pending.is_empty()
            && let Some((log, ahead)) = &before
        {
            assert_eq!(log, ahead, "nothing is on its way");
        }
        self.bench.reload();
        let after = self.bench.coordinator.consumers(0, GROUP);
        let log = |it: Option<(State, State)>| it.map(|(log, _)| log).unwrap_or_default();
        assert_eq!(log(before), log(after), "the log says all");
        let now_ms = self.bench.now_ms;
        let members: Vec<String> = self.known.keys().cloned().collect();
        for member in members {
            // Who may be out already is not in again.
            if !self.is_out(&member, now_ms)
                && let Some(known) = self.known.get_mut(&member)
            {
                known.heard_ms = now_ms;
                known.revoking_since_ms = known.revoking_since_ms.map(|_| now_ms);
            }
        }
        self.asked.clear();
        self.commits.clear();
        self.look();
        self.open.clear();
    }

    fn look(&mut self) {
        let seen = self.bench.offset();
        let sent = seen.is_some_and(|it| self.open.contains(&it));
        let acknowledged = self.acknowledged;
        assert!(
            seen == acknowledged || sent,
            "{seen:?} is not {acknowledged:?}"
        );
        self.acknowledged = seen;
    }

    fn hear(&mut self) {
        for (token, id, epoch, offset) in core::mem::take(&mut self.commits) {
            match self.bench.answer(token) {
                None => self.commits.push((token, id, epoch, offset)),
                Some(Reply::Commit(errors)) if errors[0] == ErrorCode::None => {
                    self.open.retain(|open| *open != offset);
                    self.acknowledged = Some(offset);
                }
                Some(_) => self.open.retain(|open| *open != offset),
            }
        }
        for asked in core::mem::take(&mut self.asked) {
            match self.bench.answer(asked.token) {
                None => self.asked.push(asked),
                Some(Reply::ConsumerHeartbeat(Ok(reply))) => self.granted(&asked, &reply),
                Some(Reply::ConsumerHeartbeat(Err(refusal))) => self.refused(&asked, refusal.error),
                Some(other) => panic!("another answer to a heartbeat: {other:?}"),
            }
        }
    }

    /// A member has only what it says that it has, and what it is given now.
    fn release(&mut self, member: &str, kept: Option<&Assignment>) {
        let keeps = |(topic, index): &(TopicUuid, i32)| {
            let partitions = kept.and_then(|it| it.get(topic));
            partitions.is_some_and(|it| it.contains(index))
        };
        self.granted
            .retain(|partition, owner| owner != member || keeps(partition));
    }

    fn granted(&mut self, asked: &Asked, reply: &ConsumerHeartbeatReply) {
        self.release(&asked.member, Some(&asked.owned));
        let now_ms = self.bench.now_ms;
        for (topic, partitions) in reply.assignment.iter().flatten() {
            for index in partitions {
                let place = (*topic, *index);
                let owner = self.granted.insert(place, asked.member.clone());
                if let Some(owner) = owner.filter(|it| *it != asked.member) {
                    let is_out = self.is_out(&owner, now_ms);
                    assert!(is_out, "{owner} and {} have {index}", asked.member);
                }
            }
        }
        let revoking = reply.assignment.as_ref().is_some_and(|it| {
            let kept = |(topic, partitions): (&TopicUuid, &BTreeSet<i32>)| {
                it.get(topic).is_some_and(|now| partitions.is_subset(now))
            };
            !asked.owned.iter().all(kept)
        });
        let known = self.known.entry(asked.member.clone()).or_default();
        (known.epoch, known.heard_ms) = (reply.epoch, asked.at_ms);
        known.revoking_since_ms = if revoking {
            known.revoking_since_ms.or(Some(asked.at_ms))
        } else {
            known
                .revoking_since_ms
                .filter(|_| reply.assignment.is_none())
        };
        let client = &mut self.clients[asked.place];
        if client.id != asked.member {
            return; // it has crashed meanwhile
        }
        if asked.lost {
            client.says_all = true;
        } else {
            client.heed(reply);
        }
    }

    /// Whether a member must know that it has nothing any more.
    fn is_out(&self, member: &str, now_ms: u64) -> bool {
        let Some(known) = self.known.get(member) else {
            return true;
        };
        let late = |since: u64| since + REBALANCE_TIMEOUT_MS <= now_ms;
        known.heard_ms + SESSION_MS <= now_ms || known.revoking_since_ms.is_some_and(late)
    }

    fn refused(&mut self, asked: &Asked, error: ErrorCode) {
        let client = &mut self.clients[asked.place];
        if client.id != asked.member {
            return;
        }
        match error {
            ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch => {
                // As it is told so, it has nothing any more; and begins anew as another.
                assert!(asked.epoch > 0 || error == ErrorCode::FencedMemberEpoch);
                self.release(&asked.member, None);
                self.clients[asked.place] = self.fresh();
            }
            ErrorCode::CoordinatorNotAvailable => client.says_all = true,
            other => panic!("an odd answer: {other:?}"),
        }
    }

    /// When all are heard again, each partition of the topics that are read has one owner.
    fn settle(&mut self) {
        self.bench.prompt = true;
        self.bench.commit_all();
        self.hear();
        self.asked.clear();
        self.bench.pass(SESSION_MS);
        for client in &mut self.clients {
            (client.epoch, client.owned) = (0, Assignment::new());
            client.id = format!("{}-again", client.id);
        }
        for _ in 0..8 {
            for client in &mut self.clients {
                client.beat(&mut self.bench).expect("a member");
            }
        }
        let mut all: Vec<(&str, i32)> = Vec::new();
        for client in &self.clients {
            for (topic, partitions) in &client.owned {
                let name = str::from_utf8(topic)
                    .expect("a name")
                    .trim_end_matches('\0');
                all.extend(partitions.iter().map(|index| (name, *index)));
            }
        }
        all.sort_unstable();
        let read = |topic| {
            let mut clients = self.clients.iter();
            clients.any(|it| it.topic_names.iter().any(|name| name == topic))
        };
        let of = |topic: &'static str, count| {
            let count = if read(topic) { count } else { 0 };
            (0..count).map(move |index| (topic, index))
        };
        let expected: Vec<(&str, i32)> = of("t", self.partitions).chain(of("u", 3)).collect();
        assert_eq!(all, expected);
        let (log, ahead) = self.bench.coordinator.consumers(0, GROUP).expect("there");
        assert_eq!((log.name(), log == ahead), ("Stable", true));
    }
}

#[test]
fn no_two_have_one_partition_no_late_commit_counts_and_all_is_shared_out_in_the_end() {
    for seed in 0..SEEDS {
        let mut run = Run::new(seed);
        let outcome = self::std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            for _ in 0..STEPS {
                run.turn();
            }
            run.settle();
        }));
        assert!(outcome.is_ok(), "seed {seed} breaks a promise");
    }
}
