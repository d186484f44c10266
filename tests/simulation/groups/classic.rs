//! A member by the classic protocol: it joins, shares out if it leads, asks for its share, beats and commits,
//! and joins again when it is told to. A cooperative one keeps what it has meanwhile, gives back what it is not given
//! any more, and joins once more for that. What leaders hand out says of which generation it is. Knows nothing of
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
    /// Who has joined with what, if it leads.
    leads: Option<Vec<(String, Vec<i32>)>>,
    /// For how many partitions it has shared out, as the leader; none while some wait for who gives them back.
    shared: i32,
    /// What it was given last, and in which generation.
    given: Vec<i32>,
    given_in: i32,
    /// What it believes to own.
    has: Vec<i32>,
    cooperative: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Out,
    Joined,
    Member,
}

impl Classic {
    pub fn new(cooperative: bool) -> Self {
        Self {
            cooperative,
            ..Self::default()
        }
    }

    /// It is to join again: an eager member gives back everything before.
    fn go_out(&mut self) {
        self.stage = Stage::Out;
        if !self.cooperative {
            self.has.clear();
        }
    }

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
            self.go_out();
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
            protocols: vec![("range".into(), subscription(&self.has))],
            id_required: !chance.random.one_in(4),
            can_skip_assignment: true,
            // The node that takes it fills these in.
            random: [0; 16],
        })
    }

    fn sync(&mut self, identity: Identity, chance: &Chance<'_>) -> Request {
        let members = self.leads.clone().unwrap_or_default();
        let (assignments, withheld) = share_out(
            &members,
            self.generation,
            chance.partitions,
            self.cooperative,
        );
        if !members.is_empty() {
            self.shared = if withheld { 0 } else { chance.partitions };
        }
        Request::Sync(Sync {
            group: CLASSIC.into(),
            identity,
            generation: self.generation,
            protocol_type: Some("consumer".into()),
            protocol: Some("range".into()),
            assignments,
        })
    }

    pub fn hear(&mut self, reply: Reply) -> Heard {
        match reply {
            Reply::Join(reply) => match reply.error {
                None => {
                    let leads = reply.leader == reply.member_id;
                    self.leads = leads.then(|| {
                        let members = reply.members.into_iter();
                        let members = members.map(|it| {
                            let has = read_owned(it.metadata).expect("a subscription");
                            (it.identity.member_id, has)
                        });
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
                let gives_back = self.has.iter().any(|it| !given.contains(it));
                self.has.clone_from(&given);
                (self.given, self.given_in) = (given, self.generation);
                self.stage = Stage::Member;
                if self.cooperative && gives_back {
                    self.go_out();
                }
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
                self.has.clear();
                self.go_out();
            }
            ErrorCode::IllegalGeneration => {
                self.has.clear();
                self.go_out();
            }
            ErrorCode::RebalanceInProgress => self.go_out(),
            error if is_elsewhere(error) => {
                if self.stage == Stage::Joined {
                    self.go_out();
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
        &self.has
    }
}

/// A consumer's subscription to the topic that all read (version 1, no user data).
fn subscription(has: &[i32]) -> Bytes {
    let mut said = BytesMut::new();
    said.put_i16(1);
    said.put_i32(1);
    said.put_i16(READ.len() as i16);
    said.put_slice(READ.as_bytes());
    said.put_i32(-1);
    said.put_i32(1);
    said.put_i16(READ.len() as i16);
    said.put_slice(READ.as_bytes());
    said.put_i32(has.len() as i32);
    for partition in has {
        said.put_i32(*partition);
    }
    said.freeze()
}

/// What a member has, by the subscription above.
fn read_owned(mut said: Bytes) -> Option<Vec<i32>> {
    let before = 2 + 4 + 2 + READ.len() + 4 + 4 + 2 + READ.len();
    said.try_copy_to_slice(&mut vec![0; before]).ok()?;
    let count = said.try_get_i32().ok()?;
    (0..count).map(|_| said.try_get_i32().ok()).collect()
}

/// Partitions in turn to each member, but for those that a cooperative one has to give back before: whether there
/// are such. Each share says of which generation it is.
fn share_out(
    members: &[(String, Vec<i32>)],
    generation: i32,
    partitions: i32,
    cooperative: bool,
) -> (Vec<(String, Bytes)>, bool) {
    let mut shares: Vec<BytesMut> = vec![BytesMut::new(); members.len()];
    shares.iter_mut().for_each(|it| it.put_i32(generation));
    let mut withheld = false;
    for partition in 0..partitions {
        let Some(place) = (partition as usize).checked_rem(members.len()) else {
            break;
        };
        let mut others = (0..).zip(members).filter(|(it, _)| *it != place);
        if cooperative && others.any(|(_, (_, has))| has.contains(&partition)) {
            withheld = true;
        } else {
            shares[place].put_i32(partition);
        }
    }
    let names = members.iter().map(|(id, _)| id.clone());
    let shares = shares.into_iter().map(BytesMut::freeze);
    (names.zip(shares).collect(), withheld)
}

/// The generation and the partitions of a share; nothing of one that a leader has not made.
pub fn read_share(share: &Bytes) -> Option<(i32, Vec<i32>)> {
    let mut share = share.clone();
    let generation = share.try_get_i32().ok()?;
    let partitions = std::iter::from_fn(|| share.try_get_i32().ok());
    Some((generation, partitions.collect()))
}
