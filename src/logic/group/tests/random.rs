//! Members that come, go, stall and crash at random, a log that is late or refuses, a coordinator that
//! crashes and loads again; beside it a naive model of what was promised to whom. Knows nothing of how
//! a group decides.

extern crate std;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use wire::ErrorCode;

use super::super::{AppendError, Reply, Token};
use super::harness::*;

const SEEDS: u64 = 300;
const STEPS: usize = 400;
const MEMBERS: usize = 4;

#[derive(Default)]
struct Client {
    id: String,
    generation: i32,
    joining: Option<Token>,
    syncing: Option<Token>,
}

/// What was promised, as told by the answers alone.
#[derive(Default)]
struct Model {
    /// Who was given what, by generation of one life of the coordinator.
    owners: BTreeMap<(u32, i32, Vec<u8>), String>,
    /// The newest generation that an answer told of, in this life.
    newest: i32,
    life: u32,
    commits: Vec<(Token, i64, i32)>,
    /// The last offset that was acknowledged.
    acknowledged: Option<i64>,
    /// Offsets whose fate is unknown: sent after that, not answered.
    open: Vec<i64>,
}

struct Run {
    bench: Bench,
    dice: Dice,
    clients: [Client; MEMBERS],
    model: Model,
    next_offset: i64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut bench = Bench::new();
        bench.prompt = false;
        Self {
            bench,
            dice: Dice(seed),
            clients: Default::default(),
            model: Model::default(),
            next_offset: 0,
        }
    }

    fn turn(&mut self) {
        let who = self.dice.roll(MEMBERS as u64) as usize;
        match self.dice.roll(100) {
            0..=24 => self.go_on(who),
            25..=34 => {
                let (id, generation) = (self.clients[who].id.clone(), self.clients[who].generation);
                let error = self.bench.heartbeat(&id, generation);
                self.heed(who, error);
            }
            35..=54 => self.commit(who),
            55..=79 => {
                self.bench.commit_one();
            }
            80..=81 if !self.bench.pending.is_empty() => {
                self.bench.fail_one(AppendError::Unavailable);
            }
            82..=89 => {
                let ms = self.dice.roll(6_000);
                self.bench.pass(ms);
            }
            90..=92 => {
                let id = core::mem::take(&mut self.clients[who].id);
                self.clients[who] = Client::default();
                self.bench.leave(&[(&id, None)]);
            }
            93..=94 => self.clients[who] = Client::default(), // it crashes
            95 => self.crash(),
            _ => self.look(),
        }
        self.hear();
    }

    /// A member does what comes next: joins, or asks for its assignment.
    fn go_on(&mut self, who: usize) {
        let client = &mut self.clients[who];
        if client.joining.is_some() || client.syncing.is_some() {
            return;
        }
        if client.generation > 0 {
            let (id, generation) = (client.id.clone(), client.generation);
            let gives: Vec<(String, String)> = self
                .clients
                .iter()
                .filter(|it| !it.id.is_empty())
                .enumerate()
                .map(|(place, it)| (it.id.clone(), format!("p{place}")))
                .collect();
            let gives: Vec<(&str, &str)> = gives.iter().map(|(id, it)| (&**id, &**it)).collect();
            self.clients[who].syncing = Some(self.bench.sync(&id, generation, &gives));
        } else {
            let id = client.id.clone();
            self.clients[who].joining = Some(self.bench.join(&id, None));
        }
    }

    fn commit(&mut self, who: usize) {
        self.next_offset += 1;
        let (id, mut generation) = (self.clients[who].id.clone(), self.clients[who].generation);
        if self.dice.roll(5) == 0 {
            generation -= 1; // a commit that is late
        }
        if id.is_empty() || generation <= 0 {
            return;
        }
        let token = self.bench.commit(&id, generation, self.next_offset);
        self.model
            .commits
            .push((token, self.next_offset, generation));
        // It was let in, for it waits for the log: then it is of no old generation.
        if let Some(reply) = self.bench.answer(token) {
            self.model.commits.pop();
            assert_ne!(reply, Reply::Commit(alloc::vec![ErrorCode::None]));
        } else {
            assert!(generation >= self.model.newest, "a late commit was let in");
            self.model.open.push(self.next_offset);
        }
    }

    /// The coordinator crashes. What was on its way is lost, what was answered is not.
    fn crash(&mut self) {
        self.bench.reload();
        self.model.life += 1;
        self.model.newest = 0;
        self.model.commits.clear();
        for client in &mut self.clients {
            (client.joining, client.syncing) = (None, None);
        }
        self.look();
        self.model.open.clear();
    }

    /// No acknowledged offset is lost, and none is seen that was never sent.
    fn look(&mut self) {
        let seen = self.bench.offset();
        let sent = seen.is_some_and(|it| self.model.open.contains(&it));
        assert!(
            seen == self.model.acknowledged || sent,
            "{seen:?} is not {:?}",
            self.model.acknowledged
        );
        self.model.acknowledged = seen;
    }

    fn hear(&mut self) {
        let commits = core::mem::take(&mut self.model.commits);
        for (token, offset, generation) in commits {
            match self.bench.answer(token) {
                None => self.model.commits.push((token, offset, generation)),
                Some(Reply::Commit(errors)) if errors[0] == ErrorCode::None => {
                    self.model.open.retain(|open| *open > offset);
                    self.model.acknowledged = Some(offset);
                }
                Some(_) => self.model.open.retain(|open| *open != offset),
            }
        }
        for who in 0..MEMBERS {
            let client = &mut self.clients[who];
            if let Some(token) = client.joining
                && let Some(Reply::Join(reply)) = self.bench.answer(token)
            {
                client.joining = None;
                match reply.error {
                    None => {
                        client.id = reply.member_id;
                        client.generation = reply.generation;
                        self.model.newest = self.model.newest.max(reply.generation);
                    }
                    Some(error) => self.heed(who, error),
                }
            }
            let client = &mut self.clients[who];
            if let Some(token) = client.syncing
                && let Some(Reply::Sync(reply)) = self.bench.answer(token)
            {
                client.syncing = None;
                match reply {
                    Ok(reply) if !reply.assignment.is_empty() => {
                        self.owns(who, reply.assignment.to_vec());
                    }
                    Ok(_) => {}
                    Err(error) => self.heed(who, error),
                }
            }
        }
    }

    /// Never two owners of one assignment in one generation.
    fn owns(&mut self, who: usize, assignment: Vec<u8>) {
        let Client { id, generation, .. } = &self.clients[who];
        let place = (self.model.life, *generation, assignment);
        let owner = self.model.owners.entry(place).or_insert_with(|| id.clone());
        assert_eq!(owner, id, "two owners in generation {generation}");
    }

    fn heed(&mut self, who: usize, error: ErrorCode) {
        match error {
            ErrorCode::UnknownMemberId => self.clients[who] = Client::default(),
            ErrorCode::None => {}
            _ => self.clients[who].generation = 0,
        }
    }
}

#[test]
fn no_two_own_one_assignment_no_late_commit_counts_and_no_acknowledged_one_is_lost() {
    for seed in 0..SEEDS {
        let mut run = Run::new(seed);
        let outcome = self::std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            for _ in 0..STEPS {
                run.turn();
            }
        }));
        assert!(outcome.is_ok(), "seed {seed} breaks a promise");
    }
}
