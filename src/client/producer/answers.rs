//! What the answer to a Produce request means for the batches that it carried: written, again, in parts,
//! or given up. Pure.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use wire::messages::ProduceResponseData;
use wire::messages::produce_response::PartitionProduceResponse;
use wire::{ErrorCode, KafkaUuid};

use super::accumulator::{Accumulator, Fate, Place};
use super::batch::{Batch, Content, Stamp, split};
use super::completion::{Completion, Outcome};
use crate::{BrokerError, Error};

/// A batch that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) place: Place,
    pub(super) batch: u64,
    pub(super) bytes: Bytes,
    pub(super) stamp: Option<Stamp>,
}

/// What follows from an answer.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) fates: Vec<Fate>,
    pub(super) refresh_metadata: bool,
}

/// What became of one batch, as the answer says it.
enum Told {
    Written {
        base_offset: Option<i64>,
        append_time: Option<i64>,
    },
    Refused(Error),
}

impl Accumulator {
    /// Takes the answer to a request, or why there is none.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        sent: Vec<Sent>,
        answer: Result<&ProduceResponseData, &Error>,
        random: f64,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        let partitions = answer.map(Answered::new);
        for (number, sent) in sent.into_iter().enumerate() {
            let result = match &partitions {
                Err(error) => Told::Refused((*error).clone()),
                Ok(_) if self.settings.acks_none => Told::Written {
                    base_offset: None,
                    append_time: None,
                },
                Ok(partitions) => result(&sent.place, partitions.find(number, &sent.place)),
            };
            match result {
                Told::Written {
                    base_offset,
                    append_time,
                } => {
                    let outcome = Outcome::Written {
                        base_offset,
                        append_time,
                    };
                    self.written(&sent, outcome, &mut verdict);
                    self.buffers.give_back(sent.bytes);
                }
                Told::Refused(error) => self.refused(now, sent, error, random, &mut verdict),
            }
        }
        verdict
    }

    fn written(&mut self, sent: &Sent, outcome: Outcome, verdict: &mut Verdict) {
        let queue = self.queue(&sent.place);
        if let Some(batch) = queue.acknowledge(sent.batch) {
            self.finish(batch, outcome, &mut verdict.fates);
        }
    }

    fn refused(
        &mut self,
        now: Instant,
        sent: Sent,
        error: Error,
        random: f64,
        verdict: &mut Verdict,
    ) {
        verdict.refresh_metadata |= error.is_stale_metadata();
        let retries = self.settings.retries;
        let queue = self.queue(&sent.place);
        let first = queue.is_first(sent.batch);
        let Some(batch) = queue.find(sent.batch) else {
            return;
        };
        if error.code() == Some(ErrorCode::MessageTooLarge) && batch.records > 1 {
            self.split(now, &sent, error, verdict);
            return;
        }
        let again = match error.code() {
            // An older batch is missing: it comes again first. When none is, the broker has lost what
            // it knew of this producer, or we have given up a batch: numbers begin anew.
            Some(ErrorCode::OutOfOrderSequenceNumber) if batch.stamp.is_some() => {
                queue.is_missed(sent.batch);
                if first {
                    queue.part_ways();
                }
                true
            }
            Some(ErrorCode::UnknownProducerId) if batch.stamp.is_some() => {
                queue.is_missed(sent.batch);
                queue.part_ways();
                true
            }
            _ => error.is_retriable() || queue.has_parted() && is_about_numbers(&error),
        };
        let batch = queue.find(sent.batch);
        let Some(batch) = batch.filter(|batch| again && batch.attempts <= retries) else {
            if let Some(batch) = queue.give_up(sent.batch) {
                self.finish(batch, Outcome::Failed(error), &mut verdict.fates);
            }
            return;
        };
        batch.in_flight = false;
        batch.content = Content::Closed(sent.bytes, sent.stamp);
        batch.last = Some(error);
        let attempts = batch.attempts;
        let wait = self.settings.retry_backoff.after(attempts, random);
        if let Some(batch) = self.queue(&sent.place).find(sent.batch) {
            batch.not_before = Some(now + wait);
        }
        self.metrics.retries += 1;
    }

    /// Puts smaller batches in the place of one that the broker finds too large. They keep its numbers:
    /// the broker has written none of them, or it would have known the batch.
    fn split(&mut self, now: Instant, sent: &Sent, error: Error, verdict: &mut Verdict) {
        let Some(whole) = self.queue(&sent.place).find(sent.batch) else {
            return;
        };
        let (stamp, created, bytes) = (whole.stamp, whole.created, whole.bytes);
        let bytes_max = self.settings.batch_size.min(bytes / 2);
        let Ok(parts) = split(&sent.bytes, self.settings.compression, bytes_max) else {
            if let Some(batch) = self.queue(&sent.place).give_up(sent.batch) {
                self.finish(batch, Outcome::Failed(error), &mut verdict.fates);
            }
            return;
        };
        let mut first = 0;
        let mut fates: Vec<(u32, Arc<Completion>)> = Vec::new();
        let mut batches: Vec<Batch> = Vec::new();
        let mut sequence = stamp.map(|stamp| stamp.sequence);
        for (builder, records) in parts {
            let completion = Completion::new(sent.place.topic.clone(), sent.place.partition);
            fates.push((first, completion.clone()));
            let bytes = builder.uncompressed_bytes();
            let mut part = Batch::new(self.next_batch_id(), builder, bytes, created, completion);
            part.bytes = bytes;
            part.records = records;
            // It takes no more records, and need not linger.
            part.not_before = Some(now);
            part.stamp = stamp
                .zip(sequence)
                .map(|(stamp, sequence)| Stamp { sequence, ..stamp });
            sequence = sequence.map(|sequence| part.next_sequence(sequence));
            first += records;
            batches.push(part);
        }
        let memory: usize = batches.iter().map(|part| part.memory).sum();
        self.memory_used += memory;
        let timestamps = self
            .queue(&sent.place)
            .find(sent.batch)
            .and_then(|it| it.timestamps.take());
        if let Some(timestamps) = timestamps {
            let mut rest = timestamps.into_iter();
            for part in &mut batches {
                part.timestamps = Some(rest.by_ref().take(part.records as usize).collect());
            }
        }
        if let Some(whole) = self.queue(&sent.place).replace(sent.batch, batches) {
            self.finish(whole, Outcome::Split(fates), &mut verdict.fates);
        }
    }

    fn queue(&mut self, place: &Place) -> &mut super::queue::PartitionQueue {
        &mut self.topics[place.topic_index].partitions[place.partition as usize]
    }
}

/// Whether the broker only says that our numbers are not those that it expects.
fn is_about_numbers(error: &Error) -> bool {
    matches!(
        error.code(),
        Some(ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId)
    )
}

/// What an answer says of each partition. Brokers answer in the order in which they were asked; only one that
/// does not costs a look-up by name.
struct Answered<'a> {
    in_order: Vec<(Key<'a>, &'a PartitionProduceResponse)>,
    by_partition: OnceCell<HashMap<Key<'a>, &'a PartitionProduceResponse>>,
}

/// A partition, by its topic's name or, from the version on that has ids, by its id.
type Key<'a> = (&'a str, KafkaUuid, i32);

impl<'a> Answered<'a> {
    fn new(answer: &'a ProduceResponseData) -> Self {
        let mut in_order = Vec::new();
        for topic in &answer.responses {
            for partition in &topic.partition_responses {
                let key = (topic.name.as_str(), topic.topic_id, partition.index);
                in_order.push((key, partition));
            }
        }
        Self {
            in_order,
            by_partition: OnceCell::new(),
        }
    }

    /// The answer to what was sent as the `number`th.
    fn find(&self, number: usize, place: &Place) -> Option<&'a PartitionProduceResponse> {
        let by_name: Key<'_> = (&place.topic, KafkaUuid::ZERO, place.partition);
        let by_id = place.topic_id.map(|id| ("", id, place.partition));
        let is_it = |key: &Key<'_>| *key == by_name || Some(*key) == by_id;
        match self.in_order.get(number) {
            Some((key, found)) if is_it(key) => Some(*found),
            _ => {
                let map = || self.in_order.iter().copied().collect();
                let map = self.by_partition.get_or_init(map);
                let found = map.get(&by_name);
                let found = found.or_else(|| by_id.and_then(|by_id| map.get(&by_id)));
                found.copied()
            }
        }
    }
}

fn result(place: &Place, found: Option<&PartitionProduceResponse>) -> Told {
    let about = || format!("{}-{}", place.topic, place.partition);
    let Some(partition) = found else {
        return Told::Refused(Error::Protocol {
            reason: format!("the answer to a produce says nothing of {}", about()),
        });
    };
    let code = ErrorCode::from(partition.error_code);
    match code {
        ErrorCode::None => Told::Written {
            base_offset: (partition.base_offset >= 0).then_some(partition.base_offset),
            append_time: (partition.log_append_time_ms >= 0)
                .then_some(partition.log_append_time_ms),
        },
        // It was written by an earlier attempt whose offset the broker does not remember.
        ErrorCode::DuplicateSequenceNumber => Told::Written {
            base_offset: None,
            append_time: None,
        },
        code => Told::Refused(Error::Broker(BrokerError {
            code,
            message: partition.error_message.as_ref().map(ToString::to_string),
            about: Some(about()),
        })),
    }
}
