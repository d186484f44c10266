//! A client with one member, as honest clients are: it believes what it is told, waits for one answer at a time
//! except to commits, and asks again when none comes. Knows nothing of what others do.

use simulated_groups::group::request::{Commit, CommitItem, FetchOffsets, Identity};
use simulated_groups::group::{Reply, Request};
use wire::ErrorCode;

use crate::classic::Classic;
use crate::consumer::Consumer;
use crate::random::Random;
use crate::scene::{READ, UNREAD, UNREAD_PARTITIONS};

/// Of so many moments in which it waits for an answer, one is the last.
const PATIENCE: u64 = 8;

/// What a client decides by.
pub struct Chance<'a> {
    pub random: &'a mut Random,
    /// No two commits are of one offset.
    pub next_offset: &'a mut i64,
    /// Partitions of the topic that is read.
    pub partitions: i32,
    /// Nothing goes wrong, and nobody leaves.
    pub calm: bool,
}

/// What a client asks.
pub struct Ask {
    pub request: Request,
    /// It waits for the answer.
    pub waits: bool,
    /// It is gone after that.
    pub ends: bool,
}

impl Ask {
    /// A request whose answer is waited for.
    pub fn call(request: Request) -> Option<Self> {
        Some(Self {
            request,
            waits: true,
            ends: false,
        })
    }

    /// A request whose answer may come when it will.
    pub fn cast(request: Request) -> Option<Self> {
        Some(Self {
            request,
            waits: false,
            ends: false,
        })
    }

    /// A goodbye.
    pub fn last(request: Request) -> Option<Self> {
        Some(Self {
            request,
            waits: false,
            ends: true,
        })
    }
}

/// What a member makes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It goes on.
    Well,
    /// The coordinator is to be found anew.
    Elsewhere,
    /// Another one has its place: it ends.
    Fenced,
}

/// One client.
pub struct Client {
    pub group: &'static str,
    /// Its name for itself, if it is a static member.
    pub instance: Option<String>,
    pub member: Member,
    /// Where it thinks that the coordinator is.
    pub node: usize,
    pub gone: bool,
    /// The call whose answer it waits for.
    pub waits: Option<u64>,
    pub silent_until_ms: u64,
}

/// Its member, by either protocol.
pub enum Member {
    Classic(Classic),
    Consumer(Consumer),
}

impl Client {
    pub fn act(&mut self, chance: &mut Chance<'_>) -> Option<Ask> {
        let waits = self.waits.is_some();
        if waits && chance.random.one_in(PATIENCE) {
            self.waits = None;
            if let Member::Consumer(member) = &mut self.member {
                member.says_all = true;
            }
            return None;
        }
        let instance = self.instance.as_ref();
        match &mut self.member {
            Member::Classic(member) => member.act(instance, waits, chance),
            Member::Consumer(member) => member.act(instance, waits, chance),
        }
    }

    /// Takes an answer, if it still waits for it.
    pub fn hear(&mut self, call: u64, reply: Reply) -> Heard {
        if self.waits != Some(call) || self.gone {
            return Heard::Well;
        }
        self.waits = None;
        match &mut self.member {
            Member::Classic(member) => member.hear(reply),
            Member::Consumer(member) => member.hear(reply),
        }
    }

    /// Whether it has arrived: it is a member, and nothing is to be done.
    pub fn is_settled(&self) -> bool {
        match &self.member {
            Member::Classic(member) => member.is_settled(),
            Member::Consumer(member) => member.is_settled(),
        }
    }

    /// The partitions of the topic that it believes to own.
    pub fn owned(&self) -> Vec<i32> {
        match &self.member {
            Member::Classic(member) => member.owned().to_vec(),
            Member::Consumer(member) => member.owned(),
        }
    }
}

/// Whether another node is to be asked, or the same one later.
pub fn is_elsewhere(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::NotCoordinator
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::CoordinatorLoadInProgress
    )
}

/// A commit of a partition that the member owns, or now and then of a topic that nobody reads.
pub fn commit(
    group: &str,
    identity: Identity,
    generation: i32,
    owned: &[i32],
    chance: &mut Chance<'_>,
) -> Option<Ask> {
    let (topic, partition) = if owned.is_empty() || chance.random.one_in(5) {
        (UNREAD, chance.random.below(UNREAD_PARTITIONS as u64) as i32)
    } else {
        (
            READ,
            owned[chance.random.below(owned.len() as u64) as usize],
        )
    };
    Ask::cast(commit_of(
        group, identity, generation, topic, partition, chance,
    ))
}

pub fn commit_of(
    group: &str,
    identity: Identity,
    generation: i32,
    topic: &str,
    partition: i32,
    chance: &mut Chance<'_>,
) -> Request {
    *chance.next_offset += 1;
    Request::Commit(Commit {
        group: group.into(),
        identity,
        generation,
        unknown_group: ErrorCode::GroupIdNotFound,
        retention_ms: None,
        offsets: vec![CommitItem {
            topic: topic.into(),
            partition,
            offset: *chance.next_offset,
            leader_epoch: -1,
            metadata: String::new(),
        }],
    })
}

/// Asks for all that is committed.
pub fn fetch(group: &str, member: Option<(String, i32)>) -> Request {
    Request::FetchOffsets(FetchOffsets {
        group: group.into(),
        member,
        topics: None,
    })
}
