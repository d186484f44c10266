//! Groups by the new consumer protocol (KIP-848): the coordinator shares out, and each member moves to
//! its share by itself, giving partitions back before others get them. Everything that a group decides is
//! a record; what is decided while records are on their way to the log waits for them. Knows nothing of
//! generations that begin for all members together.

pub(super) mod settings;
pub(super) mod state;
pub(super) mod topics;

mod assignor;
mod reconcile;
mod subscription;

pub(super) mod round;

mod describe;
pub(super) mod heartbeat;
mod hosted;
mod leave;
mod offsets;

mod deadlines;
mod pace;

pub use settings::{Assignor, ConsumerSettings, MigrationPolicy, Times};

use alloc::collections::VecDeque;

use wire::ErrorCode;
use wire::group_records::ConsumerValue;

use self::deadlines::Deadlines;
use self::pace::Pace;
use self::state::{State, is_revoking};
use self::subscription::Patterns;
use super::request::{Request, Token};
use super::state::Group;
use super::turn::Turn;
use crate::ids::Instant;

/// A member's epoch in the request by which it joins.
pub(super) const JOIN: i32 = 0;
/// In the one by which it leaves.
pub(super) const LEAVE: i32 = -1;
/// In the one by which a static member leaves to come back; and its epoch while it is away.
pub(super) const LEAVE_FOR_A_WHILE: i32 = -2;

/// After a failed append, what was due is tried again after so many milliseconds.
const RETRY_MS: u64 = 1_000;

/// The living part of a group of consumers.
#[derive(Debug, Default)]
pub(super) struct Consumers {
    /// What the log will say when all that is on its way is there. The same as the durable state while
    /// nothing is.
    pub(super) ahead: State,
    /// Records of a round are on their way to the log.
    in_flight: bool,
    /// Requests for the next round, in the order in which they came.
    waiting: VecDeque<(Token, Request)>,
    /// Until when each member must be heard again.
    sessions: Deadlines,
    /// Until when members must have given back what they are to give back, and those by the classic protocol
    /// have joined again or asked for what they have.
    revocations: Deadlines,
    /// When partitions are shared out again.
    pace: Pace,
    /// Topics have changed: the group has not looked yet.
    stale: bool,
    /// Regular expressions that members subscribe by.
    patterns: Patterns,
}

impl Consumers {
    /// What the log says is what is, and nobody waits.
    fn restore(&mut self, durable: &State, now: Instant, times: Times) {
        self.ahead = durable.clone();
        self.in_flight = false;
        self.stale = true;
        self.pace = Pace::default();
        self.sessions.retain(|id| durable.has_member(id));
        self.revocations
            .retain(|id| durable.is_classic(id) || is_revoking(durable.current(id)));
        let retry_at = now.plus_ms(RETRY_MS);
        self.sessions.not_before(retry_at);
        self.revocations.not_before(retry_at);
        for (id, member) in durable.members() {
            if !self.sessions.contains(id) {
                let until = now.plus_ms(session_timeout_ms(member, times));
                self.sessions.set(id, until);
            }
            if is_revoking(durable.current(id)) && !self.revocations.contains(id) {
                let wait_ms = u64::try_from(member.rebalance_timeout_ms).unwrap_or(0);
                self.revocations.set(id, now.plus_ms(wait_ms));
            }
        }
    }

    /// When it has something to do by itself. Not before what is on its way has arrived.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        if self.in_flight {
            return None;
        }
        let (session, revocation) = (self.sessions.first(), self.revocations.first());
        let all = session.into_iter().chain(revocation);
        all.chain(self.pace.put_off_until()).min()
    }

    /// Whether there is, or comes to be, a group of this kind.
    pub(super) fn is_there(&self) -> bool {
        self.ahead.exists() || self.in_flight || !self.waiting.is_empty()
    }

    /// Whoever waits; nothing else is kept.
    pub(super) fn into_waiting(self) -> VecDeque<(Token, Request)> {
        self.waiting
    }

    /// Memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.ahead.bytes()
    }
}

/// For how long a member may be silent: those by the classic protocol say so themselves.
fn session_timeout_ms(member: &ConsumerValue, times: Times) -> u64 {
    match &member.classic {
        Some(classic) => u64::try_from(classic.session_timeout_ms).unwrap_or(0),
        None => times.session_timeout_ms,
    }
}

impl Group {
    /// Whether it is a group of consumers by the new protocol.
    pub(super) fn is_of_consumers(&self) -> bool {
        self.consumers.is_there()
    }

    /// Makes a group of consumers what the log says it was.
    pub(super) fn restore_consumers(&mut self, turn: &Turn<'_>) {
        let durable = &self.durable.consumers;
        self.consumers
            .restore(durable, turn.now.instant, turn.times);
    }

    /// A topic is new, larger or gone.
    pub(super) fn topic_changed(&mut self, topic: &str, turn: &mut Turn<'_>) {
        let Consumers {
            ahead, patterns, ..
        } = &mut self.consumers;
        if ahead.is_subscribed(topic) || patterns.any_matches(ahead.patterns(), topic) {
            self.consumers.stale = true;
            self.go_on(turn);
        }
    }

    /// Takes a request that has its turn in a round.
    pub(super) fn queue(&mut self, token: Token, request: Request, turn: &mut Turn<'_>) {
        self.consumers.waiting.push_back((token, request));
        self.go_on(turn);
    }

    /// Whoever waits is told that nothing comes of it.
    pub(super) fn refuse_waiting(&mut self, error: ErrorCode, turn: &mut Turn<'_>) {
        for (token, request) in self.consumers.waiting.drain(..) {
            let refused = request.refused(error);
            turn.reply(token, refused);
        }
    }
}
