//! Incremental fetch sessions (KIP-227) of one shard's connections: which partitions a fetch means and
//! which of them its answer must show. Knows no records, no waiting and no random numbers.

mod session;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::ids::{Instant, LeaderEpoch, Offset, TopicId};
use session::{Session, without_repeats};

/// Sessions per shard unless configured (`max.incremental.fetch.session.cache.slots`).
pub const SESSIONS_MAX: usize = 1000;
/// Partitions over all sessions of a shard unless configured: about 200 bytes each.
pub const PARTITIONS_MAX: usize = 500_000;
/// A session unused for so long, in milliseconds, gives way to a new one
/// (`min.incremental.fetch.session.eviction.ms`).
pub const EVICTION_MS: u64 = 120_000;

/// "No session": what a client without one sends, and what an answer without one carries.
pub const NO_SESSION: i32 = 0;
const INITIAL_EPOCH: i32 = 0;
const FINAL_EPOCH: i32 = -1;

/// How a client names a topic: by name before Fetch version 13, by id since (KIP-516).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopicKey {
    /// By name.
    Name(Arc<str>),
    /// By id.
    Id(TopicId),
}

/// A partition as the client names it. It may not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionKey {
    /// The topic.
    pub topic: TopicKey,
    /// The partition's index.
    pub index: i32,
}

/// What a client wants of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Of which.
    pub key: PartitionKey,
    /// From which offset.
    pub offset: Offset,
    /// At most so many bytes, as the client said.
    pub bytes_max: i32,
    /// The leader epoch that the client knows (KIP-320).
    pub current_epoch: Option<LeaderEpoch>,
    /// The epoch of the last record that the client has (KIP-595).
    pub last_fetched_epoch: Option<LeaderEpoch>,
}

/// A fetch request's part in sessions.
#[derive(Clone, Debug)]
pub struct Request {
    /// The session, or [`NO_SESSION`].
    pub session_id: i32,
    /// 0 begins a session, -1 ends it, anything else must be the expected one.
    pub epoch: i32,
    /// The version names topics by id. A session keeps to one kind.
    pub topic_ids: bool,
    /// The partitions to fetch, or those that the session gains or changes.
    pub wanted: Vec<Wanted>,
    /// The partitions that the session loses.
    pub forgotten: Vec<PartitionKey>,
}

/// Why the request has no partitions to fetch: the whole answer's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// FETCH_SESSION_ID_NOT_FOUND: never begun here, ended or evicted. The client begins a new one.
    IdNotFound,
    /// INVALID_FETCH_SESSION_EPOCH: not the next request of this session.
    InvalidEpoch,
    /// FETCH_SESSION_TOPIC_ID_ERROR: the session names topics the other way.
    TopicId,
}

/// A fetch between [`Sessions::begin`] and [`Sessions::finish`].
#[derive(Debug)]
pub struct Fetch {
    kind: Kind,
    /// What to read, in this order: whoever had data last time comes last.
    pub wanted: Vec<Wanted>,
}

impl Fetch {
    /// Whether [`Sessions::finish`] may open a session, which needs an id.
    pub fn opens_session(&self) -> bool {
        matches!(self.kind, Kind::First { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// All partitions are answered and no session follows.
    Sessionless,
    /// All partitions are answered and a session may follow.
    First { topic_ids: bool },
    /// Only what changed is answered. `epoch` is that of the session after this request.
    Incremental { session_id: i32, epoch: i32 },
}

/// What reading one partition came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Its answer carries an error code.
    pub failed: bool,
    /// Bytes of records in its answer.
    pub bytes: usize,
    /// The high watermark in its answer.
    pub high_watermark: Offset,
    /// The last stable offset in its answer.
    pub last_stable: Offset,
    /// The log start in its answer.
    pub log_start: Offset,
}

/// How to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The session id to send.
    pub session_id: i32,
    /// For each partition read, in order, whether the answer shows it.
    pub shown: Vec<bool>,
}

/// The bounds of a shard's sessions.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sessions at most. At 0 every fetch is a full one.
    pub sessions_max: usize,
    /// Partitions at most, over all sessions.
    pub partitions_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions_max: SESSIONS_MAX,
            partitions_max: PARTITIONS_MAX,
        }
    }
}

/// The sessions of one shard's connections.
#[derive(Debug, Default)]
pub struct Sessions {
    limits: Limits,
    sessions: BTreeMap<i32, Session>,
    /// Holds (used, id) of each session, no more and no less.
    by_use: BTreeSet<(Instant, i32)>,
    /// The partitions of all sessions together, <= `limits.partitions_max`.
    partitions: usize,
}

impl Sessions {
    /// No sessions yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// How many partitions all sessions hold together.
    pub fn partition_count(&self) -> usize {
        self.partitions
    }

    /// Finds out what a request wants to read. Each `Fetch` is then finished, or dropped when its
    /// client is gone.
    pub fn begin(&mut self, now: Instant, request: Request) -> Result<Fetch, SessionError> {
        let Request {
            session_id,
            epoch,
            topic_ids,
            wanted,
            forgotten,
        } = request;
        if epoch == INITIAL_EPOCH || epoch == FINAL_EPOCH {
            self.remove(session_id);
            let first = epoch == INITIAL_EPOCH;
            let kind = if first {
                Kind::First { topic_ids }
            } else {
                Kind::Sessionless
            };
            return Ok(Fetch {
                kind,
                wanted: without_repeats(wanted),
            });
        }
        let session = self
            .sessions
            .get_mut(&session_id)
            .ok_or(SessionError::IdNotFound)?;
        if session.epoch != epoch {
            return Err(SessionError::InvalidEpoch);
        }
        if session.topic_ids != topic_ids {
            return Err(SessionError::TopicId);
        }
        let before = session.len();
        session.update(wanted, &forgotten);
        self.partitions = self.partitions - before + session.len();
        if session.is_empty() {
            self.remove(session_id);
            return Ok(Fetch {
                kind: Kind::Sessionless,
                wanted: Vec::new(),
            });
        }
        session.epoch = epoch_after(epoch);
        let kind = Kind::Incremental {
            session_id,
            epoch: session.epoch,
        };
        let fetch = Fetch {
            kind,
            wanted: session.wanted(),
        };
        if self.partitions > self.limits.partitions_max {
            self.remove(session_id);
            return Err(SessionError::IdNotFound);
        }
        self.touch(now, session_id);
        Ok(fetch)
    }

    /// Decides what the answer shows, given what reading each of `fetch.wanted` came to. A first fetch
    /// gets the session `fresh_id` when there is room; the id should be random and positive, and one
    /// that is taken just means no session.
    pub fn finish(
        &mut self,
        now: Instant,
        fetch: Fetch,
        returned: &[Returned],
        fresh_id: i32,
    ) -> Result<Answer, SessionError> {
        assert_eq!(
            fetch.wanted.len(),
            returned.len(),
            "each partition is read once"
        );
        let all = vec![true; returned.len()];
        match fetch.kind {
            Kind::Sessionless => Ok(Answer {
                session_id: NO_SESSION,
                shown: all,
            }),
            Kind::First { topic_ids } => {
                let session = Session::new(now, topic_ids, fetch.wanted, returned);
                let session_id = self.insert(now, fresh_id, session);
                Ok(Answer {
                    session_id,
                    shown: all,
                })
            }
            Kind::Incremental { session_id, epoch } => {
                let Some(session) = self.sessions.get_mut(&session_id) else {
                    // Evicted meanwhile: this answer stands, the next request will learn of it.
                    return Ok(Answer {
                        session_id,
                        shown: all,
                    });
                };
                if session.epoch != epoch {
                    return Err(SessionError::InvalidEpoch);
                }
                let pairs = fetch.wanted.iter().zip(returned);
                let shown = pairs
                    .map(|(wanted, it)| session.show(&wanted.key, it))
                    .collect();
                Ok(Answer { session_id, shown })
            }
        }
    }

    /// Stores a session when there is room for it; returns its id or [`NO_SESSION`].
    fn insert(&mut self, now: Instant, id: i32, session: Session) -> i32 {
        let size = session.len();
        if size == 0 || id <= 0 || self.sessions.contains_key(&id) {
            return NO_SESSION;
        }
        while self.sessions.len() >= self.limits.sessions_max
            || self.partitions + size > self.limits.partitions_max
        {
            let Some(victim) = self.victim(now, size) else {
                return NO_SESSION;
            };
            self.remove(victim);
        }
        self.partitions += size;
        self.by_use.insert((session.used, id));
        self.sessions.insert(id, session);
        self.assert_counted();
        id
    }

    /// The session that gives way to a new one of this size: one long unused, or else the smallest of
    /// those that have had their time, if it is smaller.
    fn victim(&self, now: Instant, size: usize) -> Option<i32> {
        let (used, oldest) = *self.by_use.first()?;
        if used.plus_ms(EVICTION_MS) <= now {
            return Some(oldest);
        }
        let settled = |session: &Session| session.created.plus_ms(EVICTION_MS) <= now;
        self.sessions
            .iter()
            .filter(|(_, session)| settled(session) && session.len() < size)
            .min_by_key(|(id, session)| (session.len(), **id))
            .map(|(id, _)| *id)
    }

    fn touch(&mut self, now: Instant, id: i32) {
        if let Some(session) = self.sessions.get_mut(&id) {
            self.by_use.remove(&(session.used, id));
            session.used = session.used.max(now);
            self.by_use.insert((session.used, id));
        }
        self.assert_counted();
    }

    fn remove(&mut self, id: i32) {
        if let Some(session) = self.sessions.remove(&id) {
            self.by_use.remove(&(session.used, id));
            self.partitions -= session.len();
        }
        self.assert_counted();
    }

    fn assert_counted(&self) {
        assert_eq!(
            self.sessions.len(),
            self.by_use.len(),
            "a session without its use"
        );
        assert!(self.partitions >= self.sessions.len(), "an empty session");
    }
}

/// Epochs count 1 ..= 2^31-1 and begin again at 1: 0 means "first".
fn epoch_after(epoch: i32) -> i32 {
    if epoch < 0 || epoch == i32::MAX {
        1
    } else {
        epoch + 1
    }
}
