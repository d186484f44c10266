//! A member by the new protocol (KIP-848): it beats, saying what it owns, gives back what it is told to, in its
//! own time, and begins anew under another id when it is fenced. Knows nothing of the network.

use simulated_groups::group::request::{ConsumerHeartbeat, Identity};
use simulated_groups::group::{Reply, Request};
use wire::ErrorCode;
use wire::group_records::Assignment;

use crate::client::{Ask, Chance, Heard, commit, fetch, is_elsewhere};
use crate::scene::{CONSUMERS, READ, READ_PATTERN, REBALANCE_MS, topic_id};

/// Of so many moments one is the last.
const RESTLESS: u64 = 120;

/// One member.
pub struct Consumer {
    name: String,
    /// How often it has begun.
    lives: u32,
    epoch: i32,
    /// Its epoch before, in which a commit that is late was made.
    epoch_before: i32,
    owned: Assignment,
    /// What it is to have, from the moment on at which it has given the rest back.
    told: Option<Assignment>,
    /// Its next heartbeat says all that it could say.
    pub says_all: bool,
    /// It subscribes by a regular expression.
    by_pattern: bool,
}

impl Consumer {
    pub fn new(name: String, by_pattern: bool) -> Self {
        Self {
            name,
            lives: 0,
            epoch: 0,
            epoch_before: 0,
            owned: Assignment::new(),
            told: None,
            says_all: true,
            by_pattern,
        }
    }

    fn id(&self) -> String {
        format!("{}.{}", self.name, self.lives)
    }

    pub fn act(
        &mut self,
        instance: Option<&String>,
        waits: bool,
        chance: &mut Chance<'_>,
    ) -> Option<Ask> {
        if (chance.calm || chance.random.one_in(3))
            && let Some(told) = self.told.take()
        {
            self.owned = told;
        }
        let is_late = self.epoch_before > 0 && chance.random.one_in(8);
        let commits = self.epoch > 0 && chance.random.one_in(4);
        if !chance.calm && (is_late || commits) {
            let epoch = if is_late {
                self.epoch_before
            } else {
                self.epoch
            };
            let identity = Identity {
                member_id: self.id(),
                instance_id: instance.cloned(),
            };
            return commit(CONSUMERS, identity, epoch, &self.owned(), chance);
        }
        if waits {
            return None;
        }
        if !chance.calm && self.epoch > 0 && chance.random.one_in(RESTLESS) {
            let comes_back = instance.is_some() && !chance.random.one_in(4);
            let goodbye = ConsumerHeartbeat {
                epoch: if comes_back { -2 } else { -1 },
                ..self.heartbeat(instance)
            };
            return Ask::last(Request::ConsumerHeartbeat(goodbye));
        }
        if self.epoch > 0 && chance.random.one_in(8) {
            return Ask::cast(fetch(CONSUMERS, Some((self.id(), self.epoch))));
        }
        let heartbeat = self.heartbeat(instance);
        self.says_all = false;
        Ask::call(Request::ConsumerHeartbeat(heartbeat))
    }

    fn heartbeat(&self, instance: Option<&String>) -> ConsumerHeartbeat {
        let says_all = self.says_all || self.epoch == 0;
        let (names, pattern) = if self.by_pattern {
            (Vec::new(), READ_PATTERN)
        } else {
            (vec![READ.into()], "")
        };
        ConsumerHeartbeat {
            group: CONSUMERS.into(),
            member_id: self.id(),
            epoch: self.epoch,
            instance_id: instance.cloned(),
            rack_id: None,
            rebalance_timeout_ms: if says_all { REBALANCE_MS as i32 } else { -1 },
            topic_names: says_all.then_some(names),
            topic_regex: says_all.then(|| pattern.into()),
            server_assignor: None,
            owned: Some(self.owned.clone()),
            client_id: "client".into(),
            client_host: "/here".into(),
        }
    }

    pub fn hear(&mut self, reply: Reply) -> Heard {
        let Reply::ConsumerHeartbeat(reply) = reply else {
            panic!("an answer to nothing that was asked: {reply:?}");
        };
        let error = match reply {
            Ok(reply) => {
                if reply.epoch != self.epoch {
                    (self.epoch_before, self.epoch) = (self.epoch, reply.epoch);
                }
                self.told = reply.assignment.or(self.told.take());
                return Heard::Well;
            }
            Err(refusal) => refusal.error,
        };
        match error {
            ErrorCode::UnknownMemberId
            | ErrorCode::FencedMemberEpoch
            | ErrorCode::GroupIdNotFound => {
                let name = std::mem::take(&mut self.name);
                *self = Self {
                    lives: self.lives + 1,
                    ..Self::new(name, self.by_pattern)
                };
                Heard::Well
            }
            // Whoever has its place is silent, and will be out.
            ErrorCode::UnreleasedInstanceId => Heard::Well,
            ErrorCode::FencedInstanceId => Heard::Fenced,
            error if is_elsewhere(error) => {
                self.says_all = true;
                Heard::Elsewhere
            }
            other => panic!("an odd answer to a member: {other:?}"),
        }
    }

    pub fn is_settled(&self) -> bool {
        self.epoch > 0 && self.told.is_none()
    }

    pub fn owned(&self) -> Vec<i32> {
        let partitions = self.owned.get(&topic_id(READ).0);
        partitions.map_or(Vec::new(), |it| it.iter().copied().collect())
    }
}
