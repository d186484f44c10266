//! Members of both kinds that join, leave, crash and commit late at random, a log that is late or refuses, a
//! coordinator that crashes and loads again; beside it what each has been told. Knows nothing of how a group
//! decides.

extern crate std;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use wire::ErrorCode;
use wire::group_records::{ConsumerRecord, GroupRecord};

use super::super::super::request::{Leave, Reply, Request};
use super::super::super::{AppendError, Settings, Token};
use super::super::consumers::client::{Client, REBALANCE_TIMEOUT_MS};
use super::super::harness::*;
use super::client::{Classic, PARTITIONS, Stage, TOPIC};

const SEEDS: u64 = 400;
const STEPS: usize = 400;
const PLACES: usize = 4;

enum Member {
    Classic(Classic),
    /// With the token of the heartbeat whose answer it waits for.
    Consumer(Client, Option<Token>),
}

struct Place {
    member: Member,
    /// When it sent what was answered well last: its session runs from then on.
    heard_ms: u64,
    sent_ms: u64,
    /// Since when it owes partitions.
    owes_since_ms: Option<u64>,
}

/// A commit that is not answered yet.
struct Sent {
    token: Token,
    offset: i64,
}

struct Run {
    bench: Bench,
    dice: Dice,
    cooperative: bool,
    places: Vec<Place>,
    sent: Vec<Sent>,
    acknowledged: Option<i64>,
    /// Commits of which nobody knows what became of them.
    open: Vec<i64>,
    next: i64,
    /// Records of the log that were looked at, and the newest epoch in them.
    looked_at: usize,
    epoch: i32,
    changes: [u32; 2],
}

/// Room for those too who are gone without a word.
fn roomy() -> Settings {
    Settings {
        size_max: 100,
        ..settings()
    }
}

impl Member {
    fn owned(&self) -> Vec<i32> {
        match self {
            Self::Classic(it) => it.owned.iter().copied().collect(),
            Self::Consumer(it, _) => it.owned.values().flatten().copied().collect(),
        }
    }

    fn identity(&self) -> (String, i32) {
        match self {
            Self::Classic(it) => (it.id.clone(), it.generation),
            Self::Consumer(it, _) => (it.id.clone(), it.epoch),
        }
    }
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut bench = Bench::with(roomy());
        bench.topic(TOPIC, PARTITIONS);
        bench.prompt = false;
        let mut run = Self {
            bench,
            dice: Dice(seed),
            cooperative: seed.is_multiple_of(2),
            places: Vec::new(),
            sent: Vec::new(),
            acknowledged: None,
            open: Vec::new(),
            next: 0,
            looked_at: 0,
            epoch: 0,
            changes: [0; 2],
        };
        for _ in 0..PLACES {
            let place = run.fresh();
            run.places.push(place);
        }
        run
    }

    fn fresh(&mut self) -> Place {
        self.next += 1;
        let member = if self.dice.roll(3) == 0 {
            let name = format!("m{}", self.next);
            Member::Consumer(Client::new(&name, &[TOPIC]), None)
        } else if self.cooperative {
            Member::Classic(Classic::cooperative())
        } else {
            Member::Classic(Classic::new())
        };
        Place {
            member,
            heard_ms: 0,
            sent_ms: 0,
            owes_since_ms: None,
        }
    }

    fn turn(&mut self) {
        let place = self.dice.roll(PLACES as u64) as usize;
        match self.dice.roll(100) {
            0..=49 => self.act(place),
            50..=57 => self.commit(place),
            58..=83 => {
                self.bench.commit_one();
            }
            84 if !self.bench.pending.is_empty() => {
                self.bench.fail_one(AppendError::Unavailable);
            }
            85..=93 => {
                let ms = self.dice.roll(1_500);
                self.bench.pass(ms);
            }
            94..=95 => self.leave(place),
            96 => self.places[place] = self.fresh(), // it crashes
            97 => self.crash(),
            _ => self.look(),
        }
        self.hear();
        self.look_at_log();
    }

    fn act(&mut self, number: usize) {
        let now_ms = self.bench.now_ms;
        let place = &mut self.places[number];
        match &mut place.member {
            Member::Classic(member) => {
                let waits = matches!(
                    member.stage,
                    Stage::Joining(_) | Stage::Syncing(_) | Stage::Beating(_)
                );
                if !waits {
                    place.sent_ms = now_ms;
                }
                let result = member.act(&mut self.bench);
                self.told(number, result);
            }
            Member::Consumer(client, waits) => {
                if waits.is_none() {
                    place.sent_ms = now_ms;
                    *waits = Some(client.send(&mut self.bench));
                }
            }
        }
    }

    /// Whoever is answered goes on by that.
    fn hear(&mut self) {
        for number in 0..PLACES {
            let result = match &mut self.places[number].member {
                Member::Classic(member) => member.hear(&mut self.bench),
                Member::Consumer(client, waits) => {
                    let Some(token) = *waits else {
                        continue;
                    };
                    match self.bench.answer(token) {
                        None => continue,
                        Some(Reply::ConsumerHeartbeat(reply)) => {
                            *waits = None;
                            let result = reply.map_err(|it| it.error);
                            if let Ok(reply) = &result {
                                let before = client.owned.clone();
                                client.heed(reply);
                                // What it has given up it says with its next heartbeat.
                                let owes = before != client.owned;
                                let since = self.places[number].sent_ms;
                                self.places[number].owes_since_ms = owes.then_some(since);
                            }
                            result.map(drop)
                        }
                        Some(other) => panic!("another answer to a heartbeat: {other:?}"),
                    }
                }
            };
            self.told(number, result);
        }
        for sent in core::mem::take(&mut self.sent) {
            match self.bench.answer(sent.token) {
                None => self.sent.push(sent),
                Some(Reply::Commit(errors)) if errors[0] == ErrorCode::None => {
                    self.open.retain(|it| *it != sent.offset);
                    self.acknowledged = Some(sent.offset);
                }
                Some(_) => self.open.retain(|it| *it != sent.offset),
            }
        }
        self.assert_no_two_have_one();
    }

    fn told(&mut self, number: usize, result: Result<(), ErrorCode>) {
        let place = &mut self.places[number];
        match result {
            Ok(()) => {
                let waits = match &place.member {
                    Member::Classic(it) => !matches!(it.stage, Stage::Member | Stage::Joined),
                    Member::Consumer(_, waits) => waits.is_some(),
                };
                if !waits {
                    place.heard_ms = place.heard_ms.max(place.sent_ms);
                }
            }
            Err(
                ErrorCode::CoordinatorNotAvailable
                | ErrorCode::CoordinatorLoadInProgress
                | ErrorCode::IllegalGeneration,
            ) => {
                if let Member::Consumer(client, _) = &mut place.member {
                    client.says_all = true;
                }
            }
            Err(
                ErrorCode::UnknownMemberId
                | ErrorCode::FencedMemberEpoch
                | ErrorCode::GroupIdNotFound,
            ) => {
                // Only who was silent for long is out.
                self.places[number] = self.fresh();
            }
            Err(other) => panic!("an odd answer: {other:?}"),
        }
    }

    fn is_sure(&self, place: &Place) -> bool {
        let now_ms = self.bench.now_ms;
        let owes_long = |since: u64| since + REBALANCE_TIMEOUT_MS <= now_ms;
        place.heard_ms + SESSION_MS > now_ms && !place.owes_since_ms.is_some_and(owes_long)
    }

    fn assert_no_two_have_one(&self) {
        let mut owners: BTreeMap<i32, String> = BTreeMap::new();
        for place in self.places.iter().filter(|it| self.is_sure(it)) {
            for index in place.member.owned() {
                let (id, _) = place.member.identity();
                let other = owners.insert(index, id.clone());
                assert_eq!(other, None, "{index} is {id}'s too");
            }
        }
    }

    fn commit(&mut self, number: usize) {
        let (id, mut epoch) = self.places[number].member.identity();
        // A generation that no leader has shared out may be begun once more.
        let is_known = match &self.places[number].member {
            Member::Classic(it) => matches!(it.stage, Stage::Member | Stage::Beating(_)),
            Member::Consumer(..) => true,
        };
        let is_late = is_known && self.dice.roll(4) == 0;
        if is_late {
            epoch -= 1;
        }
        if epoch <= 0 {
            return;
        }
        self.next += 1;
        let offset = self.next;
        let token = self.bench.commit(&id, epoch, offset);
        if let Some(reply) = self.bench.answer(token) {
            assert_ne!(reply, Reply::Commit(alloc::vec![ErrorCode::None]));
            return;
        }
        assert!(!is_late, "a commit of {id} that is late was let in");
        self.open.push(offset);
        self.sent.push(Sent { token, offset });
    }

    fn leave(&mut self, number: usize) {
        let (id, epoch) = self.places[number].member.identity();
        let fresh = self.fresh();
        let gone = core::mem::replace(&mut self.places[number], fresh);
        if epoch <= 0 {
            return;
        }
        let request = match gone.member {
            Member::Classic(_) => Request::Leave(Leave {
                group: GROUP.into(),
                members: alloc::vec![identity(&id, None)],
            }),
            Member::Consumer(client, _) => {
                let mut request = client.request();
                request.epoch = -1;
                Request::ConsumerHeartbeat(request)
            }
        };
        self.bench.ask(request);
    }

    /// The coordinator crashes and goes on as if nothing had been but what the log has.
    fn crash(&mut self) {
        self.look();
        self.bench.reload_with(roomy());
        self.sent.clear();
        self.look();
        self.open.clear();
        for place in &mut self.places {
            match &mut place.member {
                Member::Classic(member) => match member.stage {
                    Stage::Joining(_) | Stage::Syncing(_) => member.stage = Stage::Out,
                    Stage::Beating(_) => member.stage = Stage::Member,
                    Stage::Out | Stage::Joined | Stage::Member => {}
                },
                Member::Consumer(client, waits) => {
                    client.says_all |= waits.take().is_some();
                }
            }
        }
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

    /// Epochs and generations in the log count up, over changes of protocol too, while there are members.
    fn look_at_log(&mut self) {
        let new = &self.bench.log[self.looked_at..];
        for (at, record) in new.iter().enumerate() {
            let epoch = match (record, new.get(at + 1)) {
                (
                    GroupRecord::Group {
                        value: Some(it), ..
                    },
                    _,
                ) => it.generation,
                (
                    GroupRecord::Consumer {
                        record: ConsumerRecord::Metadata(Some(it)),
                        ..
                    },
                    _,
                ) => it.epoch,
                (
                    GroupRecord::Group { value: None, .. },
                    Some(GroupRecord::Consumer {
                        record: ConsumerRecord::Metadata(Some(_)),
                        ..
                    }),
                ) => {
                    self.changes[0] += 1;
                    continue;
                }
                (
                    GroupRecord::Consumer {
                        record: ConsumerRecord::Metadata(None),
                        ..
                    },
                    Some(GroupRecord::Group { value: Some(_), .. }),
                ) => {
                    self.changes[1] += 1;
                    continue;
                }
                // An empty group makes room for one of the other kind.
                (GroupRecord::Group { value: None, .. }, _)
                | (
                    GroupRecord::Consumer {
                        record: ConsumerRecord::Metadata(None),
                        ..
                    },
                    _,
                ) => 0,
                _ => continue,
            };
            assert!(epoch == 0 || epoch >= self.epoch, "{record:?} goes back");
            self.epoch = epoch;
        }
        self.looked_at = self.bench.log.len();
    }

    /// When all are heard, each partition has one owner in the end.
    fn settle(&mut self) {
        self.bench.prompt = true;
        self.bench.commit_all();
        for round in 0..400 {
            for number in 0..PLACES {
                if round % 100 == 99
                    && let Member::Classic(member) = &mut self.places[number].member
                    && member.stage == Stage::Member
                {
                    // A leader here does not see that what it withheld is nobody's any more.
                    member.stage = Stage::Out;
                }
                self.act(number);
                self.hear();
            }
            self.bench.pass(500);
            self.look_at_log();
            if self.is_settled() {
                return;
            }
        }
        panic!("the group does not settle");
    }

    fn is_settled(&self) -> bool {
        let mut owned: Vec<i32> = self
            .places
            .iter()
            .flat_map(|it| it.member.owned())
            .collect();
        owned.sort_unstable();
        let arrived = |place: &Place| match &place.member {
            Member::Classic(it) => it.stage == Stage::Member,
            Member::Consumer(it, _) => it.epoch > 0,
        };
        self.places.iter().all(arrived) && owned.into_iter().eq(0..PARTITIONS)
    }
}

#[test]
fn no_two_have_one_partition_no_commit_is_lost_and_no_epoch_goes_back_over_changes_of_protocol() {
    let mut changes = [0; 2];
    for seed in 0..SEEDS {
        let mut run = Run::new(seed);
        let outcome = self::std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            for _ in 0..STEPS {
                run.turn();
            }
            run.settle();
        }));
        assert!(outcome.is_ok(), "seed {seed} breaks a promise");
        changes = [changes[0] + run.changes[0], changes[1] + run.changes[1]];
    }
    let often = |count: &u32| u64::from(*count) > SEEDS / 4;
    assert!(changes.iter().all(often), "there and back: {changes:?}");
}
