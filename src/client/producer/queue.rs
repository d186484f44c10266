//! The batches of one partition, oldest first, and the numbers that an idempotent producer gives them.
//! Pure. Knows nothing of other partitions, nor of brokers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::batch::{Batch, Content, Identity, Stamp};
use crate::Error;

/// What decides when a batch is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) linger: Duration,
    pub(super) delivery_timeout: Duration,
    pub(super) idempotent: bool,
    /// Without idempotence and with one request at a time: nothing overtakes a retry.
    pub(super) in_order: bool,
}

/// Whether there is something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ready {
    Now,
    At(Instant),
    /// Not before an answer comes.
    No,
}

/// Batches in the order of their records, which is the order in which they must be written: those in
/// flight, those that come back, and at the end the open one.
#[derive(Debug, Default)]
pub(super) struct PartitionQueue {
    pub(super) batches: VecDeque<Batch>,
    /// Of the next record that gets one.
    next_sequence: i32,
    /// Under which identity sequences are counted.
    identity: Option<Identity>,
    /// Under which identity a batch was acknowledged last. A broker that knows no sequence of an identity
    /// takes any of its batches as the first: until it has acknowledged one, a second on its way could be
    /// written although the first was refused, and so before it.
    acknowledged: Option<Identity>,
    /// The broker's numbers and ours have parted: once nothing is in flight, and nothing may have been
    /// written under its numbers, a new epoch begins.
    start_over: bool,
}

impl PartitionQueue {
    /// The first batch that is not in flight, and its place.
    fn next(&self) -> Option<(usize, &Batch)> {
        self.batches
            .iter()
            .enumerate()
            .find(|(_, batch)| !batch.in_flight)
    }

    /// Whether a batch can be sent; `hurry` is for those that need not linger.
    pub(super) fn ready(&self, now: Instant, rules: &Rules, hurry: bool) -> Ready {
        let Some((place, batch)) = self.next() else {
            return Ready::No;
        };
        let in_flight = self.batches.iter().any(|batch| batch.in_flight);
        // With idempotence the broker takes a retry only behind what it already has.
        let overtakes = rules.in_order || rules.idempotent && batch.stamp.is_some();
        let unknown = rules.idempotent && self.acknowledged != self.identity;
        let blocked = (self.start_over || unknown) && in_flight || place > 0 && overtakes;
        if blocked {
            return Ready::No;
        }
        let full = batch.full || place + 1 < self.batches.len();
        let at = match batch.not_before {
            Some(at) => at,
            None if full || hurry => now,
            None => batch.created + rules.linger,
        };
        if at <= now { Ready::Now } else { Ready::At(at) }
    }

    /// Whether the epoch must be raised before the next batch goes out. What may have been written goes
    /// out under its old numbers before that: by them the broker knows it, or says that it misses it.
    pub(super) fn wants_new_epoch(&self) -> bool {
        self.start_over && !self.batches.iter().any(keeps_its_numbers)
    }

    /// The broker misses this batch by its numbers, and so all that were sent behind it: it takes none
    /// of them without this one.
    pub(super) fn is_missed(&mut self, id: u64) {
        let from = self.batches.iter_mut().skip_while(|batch| batch.id != id);
        from.for_each(|batch| batch.may_be_written = false);
    }

    /// Counts from 0 under this identity, what was sent and not written included (KIP-360). Nothing
    /// may be in flight, or may have been written under its numbers.
    pub(super) fn count_anew(&mut self, identity: Identity) {
        assert!(
            !self.batches.iter().any(keeps_its_numbers),
            "what the broker may know by its numbers keeps them"
        );
        self.start_over = false;
        self.identity = Some(identity);
        self.next_sequence = 0;
        for batch in self.batches.iter_mut().take_while(|it| it.stamp.is_some()) {
            let sequence = self.next_sequence;
            batch.stamp = Some(Stamp { identity, sequence });
            self.next_sequence = batch.next_sequence(sequence);
        }
    }

    /// Takes the content of the next batch to be sent, numbered if there is an identity.
    pub(super) fn take(
        &mut self,
        identity: Option<Identity>,
    ) -> Option<(u64, Content, Option<Stamp>)> {
        if let Some(identity) = identity {
            let counted = self.batches.iter().any(|batch| batch.stamp.is_some());
            if !counted && self.identity != Some(identity) {
                self.count_anew(identity);
            }
        }
        let place = self.next()?.0;
        let identity = self.identity;
        let batch = &mut self.batches[place];
        if let (None, Some(identity)) = (batch.stamp, identity) {
            let sequence = self.next_sequence;
            batch.stamp = Some(Stamp { identity, sequence });
            self.next_sequence = batch.next_sequence(sequence);
        }
        batch.in_flight = true;
        batch.may_be_written = true;
        batch.attempts += 1;
        let content = std::mem::replace(&mut batch.content, Content::OnItsWay);
        Some((batch.id, content, batch.stamp))
    }

    /// The batch with this id. It may be gone: its time may have run out while it was in flight.
    pub(super) fn find(&mut self, id: u64) -> Option<&mut Batch> {
        self.batches.iter_mut().find(|batch| batch.id == id)
    }

    /// Whether no older batch waits for its fate.
    pub(super) fn is_first(&self, id: u64) -> bool {
        self.batches.front().is_some_and(|batch| batch.id == id)
    }

    /// Takes a batch out that is written: the broker knows the sequences of its identity.
    pub(super) fn acknowledge(&mut self, id: u64) -> Option<Batch> {
        let batch = self.remove(id)?;
        self.acknowledged = batch.stamp.map(|stamp| stamp.identity);
        Some(batch)
    }

    /// Takes a batch out whose fate is known.
    fn remove(&mut self, id: u64) -> Option<Batch> {
        let place = self.batches.iter().position(|batch| batch.id == id)?;
        self.batches.remove(place)
    }

    /// Takes a batch out that is not (or perhaps not) written although it has its numbers.
    pub(super) fn give_up(&mut self, id: u64) -> Option<Batch> {
        let batch = self.remove(id)?;
        if batch.stamp.is_some() {
            self.part_ways();
        }
        Some(batch)
    }

    /// Puts parts in the place of a batch. They share its numbers.
    pub(super) fn replace(&mut self, id: u64, parts: Vec<Batch>) -> Option<Batch> {
        let place = self.batches.iter().position(|batch| batch.id == id)?;
        let whole = self.batches.remove(place)?;
        for (after, part) in parts.into_iter().enumerate() {
            self.batches.insert(place + after, part);
        }
        Some(whole)
    }

    /// Notes that the broker's numbers are not ours any more.
    pub(super) fn part_ways(&mut self) {
        self.start_over = true;
    }

    pub(super) fn has_parted(&self) -> bool {
        self.start_over
    }

    /// Takes out the batches whose time has run out, with why their last attempt failed. What was sent
    /// may have been written.
    pub(super) fn expire(&mut self, now: Instant, rules: &Rules) -> Vec<(Batch, Error)> {
        let mut expired = Vec::new();
        while let Some(front) = self.batches.front() {
            if front.created + rules.delivery_timeout > now {
                break;
            }
            let error = Error::DeliveryTimeout {
                waited: rules.delivery_timeout,
                last: front.last.clone().map(Box::new),
            };
            let id = front.id;
            expired.extend(self.give_up(id).map(|batch| (batch, error)));
        }
        expired
    }

    /// When the oldest batch's time runs out.
    pub(super) fn expires(&self, rules: &Rules) -> Option<Instant> {
        let front = self.batches.front()?;
        Some(front.created + rules.delivery_timeout)
    }
}

/// Whether the broker knows a batch, or may know it, by the numbers that it carries.
fn keeps_its_numbers(batch: &Batch) -> bool {
    batch.in_flight || batch.stamp.is_some() && batch.may_be_written
}
