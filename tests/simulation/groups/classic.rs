//! A member by the classic protocol: it joins, shares out if it leads, asks for its share, beats and commits,
//! and joins again when it is told to. What leaders hand out says of which generation it is. Knows nothing of
//! the network.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use simulated_groups::group::request::{Heartbeat, Identity, Join, Leave, Sync};
use simulated_groups::group::{Reply, Request};
use wire::ErrorCode;

use crate::client::{Ask, Chance, Heard, commit, fetch, is_elsewhere};
use crate::scene::{CLASSIC, READ, REBALANCE_MS, SESSION_MS};

/// Of so many moments one is the last, and one is to join again for no reason.
const RESTLESS: u64 = 120;

/// One member.
#[derive(Default)]
pub struct Classic {
    member_id: String,
    generation: i32,
    stage: Stage,
    /// Who has joined, if it leads.
    leads: Option<Vec<String>>,
    /// For how many partitions it has shared out, as the leader.
    shared: i32,
    /// What it was given last, and in which generation: its own while it is a member.
    given: Vec<i32>,
    given_in: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Out,
    Joined,
    Member,
}

impl Classic {
    pub fn act(
        &mut self,
        instance: Option<&String>,
        waits: bool,
        chance: &mut Chance<'_>,
    ) -> Option<Ask> {
        let identity = self.identity(instance);
        let is_late = self.stage == Stage::Out && self.given_in > 0 && chance.random.one_in(6);
        let commits = self.stage == Stage::Member && chance.random.one_in(4);
        if !chance.calm && !self.member_id.is_empty() && (is_late || commits) {
            return commit(CLASSIC, identity, self.given_in, &self.given, chance);
        }
        if waits {
            return None;
        }
        let must_share = self.leads.is_some() && self.shared != chance.partitions;
        let shares = must_share && (chance.calm || chance.random.one_in(4));
        if self.stage == Stage::Member && (shares || self.is_restless(chance)) {
            self.stage = Stage::Out;
        }
        match self.stage {
            Stage::Out => Ask::call(self.join(identity, chance)),
            Stage::Joined => Ask::call(self.sync(identity, chance)),
            // A static member goes without a word.
            Stage::Member if instance.is_none() && self.is_restless(chance) => {
                Ask::last(Request::Leave(Leave {
                    group: CLASSIC.into(),
                    members: vec![identity],
                }))
            }
            Stage::Member if chance.random.one_in(8) => Ask::cast(fetch(CLASSIC, None)),
            Stage::Member => Ask::call(Request::Heartbeat(Heartbeat {
                group: CLASSIC.into(),
                identity,
                generation: self.generation,
            })),
        }
    }

    fn is_restless(&self, chance: &mut Chance<'_>) -> bool {
        !chance.calm && chance.random.one_in(RESTLESS)
    }

    fn identity(&self, instance: Option<&String>) -> Identity {
        Identity {
            member_id: self.member_id.clone(),
            instance_id: instance.cloned(),
        }
    }

    fn join(&self, identity: Identity, chance: &mut Chance<'_>) -> Request {
        Request::Join(Join {
            group: CLASSIC.into(),
            identity,
            client_id: "client".into(),
            client_host: "/here".into(),
            session_timeout_ms: SESSION_MS as i32,
            rebalance_timeout_ms: REBALANCE_MS as i32,
            protocol_type: "consumer".into(),
            protocols: vec![("range".into(), subscription())],
            id_required: !chance.random.one_in(4),
            can_skip_assignment: true,
            // The node that takes it fills these in.
            random: [0; 16],
        })
    }

    fn sync(&mut self, identity: Identity, chance: &Chance<'_>) -> Request {
        let members = self.leads.clone().unwrap_or_default();
        if !members.is_empty() {
            self.shared = chance.partitions;
        }
        Request::Sync(Sync {
            group: CLASSIC.into(),
            identity,
            generation: self.generation,
            protocol_type: Some("consumer".into()),
            protocol: Some("range".into()),
            assignments: share_out(members, self.generation, chance.partitions),
        })
    }

    pub fn hear(&mut self, reply: Reply) -> Heard {
        match reply {
            Reply::Join(reply) => match reply.error {
                None => {
                    let leads = reply.leader == reply.member_id;
                    self.leads = leads.then(|| {
                        let members = reply.members.into_iter();
                        let members = members.map(|it| it.identity.member_id);
                        members.filter(|_| !reply.skip_assignment).collect()
                    });
                    self.shared = 0;
                    self.member_id = reply.member_id;
                    self.generation = reply.generation;
                    self.stage = Stage::Joined;
                    Heard::Well
                }
                Some(ErrorCode::MemberIdRequired) => {
                    self.member_id = reply.member_id;
                    Heard::Well
                }
                Some(error) => self.refused(error),
            },
            Reply::Sync(Ok(reply)) => {
                let (_, given) = read_share(&reply.assignment).unwrap_or_default();
                (self.given, self.given_in) = (given, self.generation);
                self.stage = Stage::Member;
                Heard::Well
            }
            Reply::Sync(Err(error)) | Reply::Heartbeat(error) => self.refused(error),
            other => panic!("an answer to nothing that was asked: {other:?}"),
        }
    }

    fn refused(&mut self, error: ErrorCode) -> Heard {
        match error {
            ErrorCode::None => {}
            ErrorCode::FencedInstanceId => return Heard::Fenced,
            ErrorCode::UnknownMemberId => {
                self.member_id.clear();
                self.stage = Stage::Out;
            }
            ErrorCode::RebalanceInProgress | ErrorCode::IllegalGeneration => {
                self.stage = Stage::Out;
            }
            error if is_elsewhere(error) => {
                if self.stage == Stage::Joined {
                    self.stage = Stage::Out;
                }
                return Heard::Elsewhere;
            }
            other => panic!("an odd answer to a member: {other:?}"),
        }
        Heard::Well
    }

    pub fn is_settled(&self) -> bool {
        self.stage == Stage::Member
    }

    pub fn owned(&self) -> &[i32] {
        if self.stage == Stage::Member {
            &self.given
        } else {
            &[]
        }
    }
}

/// A consumer's subscription to the topic that all read (version 0, no user data).
fn subscription() -> Bytes {
    let mut said = BytesMut::new();
    said.put_i16(0);
    said.put_i32(1);
    said.put_i16(READ.len() as i16);
    said.put_slice(READ.as_bytes());
    said.put_i32(-1);
    said.freeze()
}

/// Partitions in turn to each member. Each share says of which generation it is.
fn share_out(members: Vec<String>, generation: i32, partitions: i32) -> Vec<(String, Bytes)> {
    let count = members.len();
    let shares = members.into_iter().enumerate().map(|(place, member)| {
        let mut share = BytesMut::new();
        share.put_i32(generation);
        for partition in (0..partitions).skip(place).step_by(count) {
            share.put_i32(partition);
        }
        (member, share.freeze())
    });
    shares.collect()
}

/// The generation and the partitions of a share; nothing of one that a leader has not made.
pub fn read_share(share: &Bytes) -> Option<(i32, Vec<i32>)> {
    let mut share = share.clone();
    let generation = share.try_get_i32().ok()?;
    let partitions = std::iter::from_fn(|| share.try_get_i32().ok());
    Some((generation, partitions.collect()))
}
