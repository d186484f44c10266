//! Produce (API 0): checks each batch, brings it into its topic's codec, hands it to its partition's owner in
//! arrival order, and answers when the leaders do. Knows nothing of offsets or producers: leaders decide those.

mod folding;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::Bytes;
use logic::ids::PartitionId;
use logic::log::header::BatchHeader;
use logic::partition::leader::{Acks, Batch, Outcome, Refused as LeaderRefused};
use logic::partition::producers::{BatchSummary, Refusal};
use reactor::compute;
use wire::batch::{self, BatchError, CheckedBatch};
use wire::compression::Unfolding;
use wire::messages::ProduceRequestData;
use wire::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceResponseData, TopicProduceResponse,
};
use wire::records::{NO_TIMESTAMP, Records, RecordsError};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use super::{Context, Handled, Started, topics};
use crate::shard::calls::Call;
use crate::shard::mail::{Answer, Ask, ProduceItem, Refused, ShardId};
use folding::{Incoming, fold_all};

/// From this version on batches may be compressed with Zstandard (KIP-110).
const FIRST_VERSION_WITH_ZSTD: i16 = 7;

/// Bytes of records that are checked in one turn, about.
const TURN_BYTES: usize = 256 << 10;
/// What unfolds to more is checked on another thread.
const AT_ONCE_UNFOLDED_BYTES_MAX: usize = 4 << 20;

/// The records of a refused batch that are named at most.
const RECORD_ERRORS_MAX: usize = 1_000;

/// Where one answer of a shard goes in the response, topic and partition by their order in it, and the batch
/// that it is about.
type Place = (usize, usize, Bytes);

/// Batches for one shard and where each one's answer goes.
type ForShard = (Vec<ProduceItem>, Vec<Place>);

/// A batch that passed the check, on its way to its partition's owner.
struct Admitted {
    /// Topic and partition by their order in the request.
    place: (usize, usize),
    owner: ShardId,
    partition: PartitionId,
    incoming: Incoming,
}

/// Checks, brings into the topics' codecs and enqueues; the reply is in the future.
pub async fn start(context: Context, request: ProduceRequestData) -> Started {
    let acks = match request.acks {
        0 => Acks::None,
        1 => Acks::Leader,
        -1 => Acks::All,
        _ => {
            return Started::Done(refuse_all(
                &context,
                request,
                ErrorCode::InvalidRequiredAcks,
            ));
        }
    };
    if request.transactional_id.is_some() {
        let error = ErrorCode::TransactionalIdAuthorizationFailed;
        return Started::Done(refuse_all(&context, request, error));
    }
    let zstd = context.header.api_version >= FIRST_VERSION_WITH_ZSTD;
    let limits = batch::Limits {
        zstd,
        ..batch::Limits::default()
    };
    // Nothing is enqueued before all are ready, and the next request is not taken in before: so the order stays.
    let (responses, mut admitted) = check_all(&context, request, limits).await;
    let incoming = admitted.iter_mut().map(|it| &mut it.incoming);
    let folded = fold_all(&context.shard, incoming, limits.unfolding).await;
    let mut by_shard: BTreeMap<ShardId, ForShard> = BTreeMap::new();
    for it in admitted {
        let (at, within) = it.place;
        let (items, places) = by_shard.entry(it.owner).or_default();
        places.push((at, within, it.incoming.batch.bytes.clone()));
        items.push(ProduceItem {
            partition: it.partition,
            batch: summary(&it.incoming),
            bytes: it.incoming.batch.bytes,
        });
    }
    let calls: Vec<(Call, Vec<Place>)> = by_shard
        .into_iter()
        .map(|(owner, (items, places))| {
            (context.shard.ask(owner, Ask::Produce(acks, items)), places)
        })
        .collect();
    Started::Pending(Box::pin(async move {
        let handled = finish(context, acks, responses, calls).await;
        // The batches are in the log, or nowhere.
        drop(folded);
        handled
    }))
}

/// Checks each batch. Those that pass are to be sent on; the others are refused in the responses.
async fn check_all(
    context: &Context,
    request: ProduceRequestData,
    limits: batch::Limits,
) -> (Vec<TopicProduceResponse>, Vec<Admitted>) {
    let metadata = &context.shard.metadata;
    let mut responses = Vec::with_capacity(request.topic_data.len());
    let mut all = Vec::new();
    for (at, topic) in request.topic_data.into_iter().enumerate() {
        let id = topics::resolve(&context.shard, &topic.name, &topic.topic_id)
            .and_then(|id| topics::refuse_internal(&context.shard, id));
        let mut partitions = Vec::with_capacity(topic.partition_data.len());
        for (within, partition) in topic.partition_data.into_iter().enumerate() {
            let mut response = unanswered(partition.index);
            let heavy = partition.records.as_ref().is_some_and(is_heavy);
            let owned = id.and_then(|topic| {
                let id = PartitionId {
                    topic,
                    index: partition.index,
                };
                let unknown = ErrorCode::UnknownTopicOrPartition;
                Ok((id, metadata.owner(id).ok_or(unknown)?))
            });
            let admitted =
                match owned {
                    Ok((partition_id, owner)) => checked(context, partition.records, limits)
                        .await
                        .map(|batch| Admitted {
                            place: (at, within),
                            owner,
                            partition: partition_id,
                            incoming: Incoming::new(batch, metadata.codec(partition_id.topic)),
                        }),
                    Err(error) => Err(Unfit::from(error)),
                };
            if heavy {
                reactor::yield_now().await;
            }
            match admitted {
                Ok(admitted) => all.push(admitted),
                Err(unfit) => unfit.tell(&mut response),
            }
            partitions.push(response);
        }
        responses.push(
            TopicProduceResponse::default()
                .with_name(topic.name)
                .with_topic_id(topic.topic_id)
                .with_partition_responses(partitions),
        );
    }
    (responses, all)
}

/// Whether checking a batch takes so long that others should have their turn after it: it is large, or is
/// unfolded for it.
fn is_heavy(records: &Bytes) -> bool {
    let folded = |header: BatchHeader| header.attributes & batch::CODEC_BITS != 0;
    records.len() > TURN_BYTES || BatchHeader::read(records).is_ok_and(folded)
}

/// Waits for the leaders and answers.
async fn finish(
    context: Context,
    acks: Acks,
    mut responses: Vec<TopicProduceResponse>,
    calls: Vec<(Call, Vec<Place>)>,
) -> Handled {
    for (call, places) in calls {
        let Answer::Produced(outcomes) = call.await else {
            unreachable!("a produce is answered by outcomes");
        };
        for ((topic, partition, sent), outcome) in places.into_iter().zip(outcomes) {
            let response = &mut responses[topic].partition_responses[partition];
            tell(response, outcome, &sent);
            if response.error_code != 0 && is_heavy(&sent) {
                // Its records may have been unfolded again.
                reactor::yield_now().await;
            }
        }
    }
    let failed = |topic: &TopicProduceResponse| {
        topic
            .partition_responses
            .iter()
            .any(|partition| partition.error_code != 0)
    };
    if acks == Acks::None {
        // The client learns of a failure only by losing its connection, as with Kafka.
        return if responses.iter().any(failed) {
            Handled::Close
        } else {
            Handled::Nothing
        };
    }
    let response = ProduceResponseData::default().with_responses(responses);
    context.reply(&Response::Produce(response))
}

/// Why a batch never reached its leader.
struct Unfit {
    error: ErrorCode,
    /// The records at fault, for `record_errors` (KIP-467).
    records: Vec<u32>,
    message: Option<String>,
}

impl From<ErrorCode> for Unfit {
    fn from(error: ErrorCode) -> Self {
        Self {
            error,
            records: Vec::new(),
            message: None,
        }
    }
}

impl Unfit {
    fn tell(self, response: &mut PartitionProduceResponse) {
        response.error_code = self.error.code();
        let message = self.message.map(KafkaString::from);
        let at_fault = self.records.into_iter().map(|record| {
            BatchIndexAndErrorMessage::default()
                .with_batch_index(i32::try_from(record).unwrap_or(i32::MAX))
                .with_batch_index_error_message(message.clone())
        });
        response.record_errors = at_fault.collect();
        response.error_message = message;
    }
}

/// Checks the one batch that a partition's records may hold.
async fn checked(
    context: &Context,
    records: Option<Bytes>,
    limits: batch::Limits,
) -> Result<CheckedBatch, Unfit> {
    let invalid = |message: &str| Unfit {
        error: ErrorCode::InvalidRecord,
        records: Vec::new(),
        message: Some(message.to_owned()),
    };
    let records = records.ok_or_else(|| invalid("the partition carries no records"))?;
    let mut at_once = limits;
    at_once.unfolding.output_bytes_max = AT_ONCE_UNFOLDED_BYTES_MAX;
    let batches = match batch::check(&records, &at_once) {
        Err(BatchError::Record {
            error: RecordsError::TooLarge,
            ..
        }) => {
            compute::elsewhere(&context.shard.reactor, move || {
                batch::check(&records, &limits)
            })
            .await
        }
        batches => batches,
    };
    let batches = batches.map_err(|error| Unfit {
        error: error.code(),
        records: error.record_index().into_iter().collect(),
        message: Some(error.to_string()),
    })?;
    let [checked] = <[CheckedBatch; 1]>::try_from(batches)
        .map_err(|_| invalid("exactly one record batch per partition is allowed"))?;
    if checked.is_transactional {
        return Err(ErrorCode::InvalidTxnState.into());
    }
    Ok(checked)
}

fn summary(incoming: &Incoming) -> Batch {
    let checked = &incoming.batch;
    Batch {
        bytes: incoming.judged_bytes,
        summary: BatchSummary {
            producer_id: checked.producer_id,
            epoch: checked.producer_epoch,
            base_sequence: checked.base_sequence,
            record_count: checked.record_count,
            timestamp: checked.max_timestamp,
        },
        timestamp_min: logic::ids::Timestamp(checked.min_timestamp),
        timestamp_max: logic::ids::Timestamp(checked.max_timestamp),
        keyless: checked.keyless,
    }
}

fn unanswered(index: i32) -> PartitionProduceResponse {
    PartitionProduceResponse::default()
        .with_index(index)
        .with_base_offset(-1)
        .with_log_append_time_ms(-1)
        .with_log_start_offset(-1)
}

fn refuse_all(context: &Context, request: ProduceRequestData, error: ErrorCode) -> Handled {
    let refuse = |index| {
        let mut response = unanswered(index);
        response.error_code = error.code();
        response
    };
    let topics = request.topic_data.into_iter().map(|topic| {
        let partitions = topic
            .partition_data
            .iter()
            .map(|partition| refuse(partition.index));
        TopicProduceResponse::default()
            .with_partition_responses(partitions.collect())
            .with_name(topic.name)
            .with_topic_id(topic.topic_id)
    });
    let response = ProduceResponseData::default().with_responses(topics.collect());
    context.reply(&Response::Produce(response))
}

fn tell(response: &mut PartitionProduceResponse, outcome: Result<Outcome, Refused>, sent: &Bytes) {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(refused) => {
            response.error_code = topics::error_code(refused).code();
            return;
        }
    };
    response.log_start_offset = outcome.log_start.0;
    match outcome.result {
        Ok(base_offset) => {
            response.base_offset = base_offset.0;
            response.log_append_time_ms = outcome.append_time.map_or(-1, |time| time.0);
        }
        Err(refused) => refusal(refused, sent).tell(response),
    }
}

/// The one place where a leader's refusal becomes Kafka's error.
fn refusal(refused: LeaderRefused, sent: &Bytes) -> Unfit {
    let (error, records, message) = match refused {
        LeaderRefused::TooLarge => (
            ErrorCode::MessageTooLarge,
            Vec::new(),
            "the batch is larger than max.message.bytes, as sent or in the topic's compression.type",
        ),
        LeaderRefused::Keyless(record) => (
            ErrorCode::InvalidRecord,
            vec![record],
            "Compacted topic cannot accept message without key",
        ),
        LeaderRefused::Timestamps { oldest, newest } => (
            ErrorCode::InvalidTimestamp,
            outside(sent, oldest.0..=newest.0),
            "a timestamp is outside message.timestamp.before.max.ms and .after.max.ms",
        ),
        LeaderRefused::NotEnoughReplicas => (
            ErrorCode::NotEnoughReplicas,
            Vec::new(),
            "fewer in-sync replicas than min.insync.replicas",
        ),
        LeaderRefused::Producer(Refusal::OutOfOrderSequence) => (
            ErrorCode::OutOfOrderSequenceNumber,
            Vec::new(),
            "the batch does not follow the producer's last one",
        ),
        LeaderRefused::Producer(Refusal::InvalidProducerEpoch) => (
            ErrorCode::InvalidProducerEpoch,
            Vec::new(),
            "a newer epoch of this producer has written",
        ),
        LeaderRefused::Storage => (
            ErrorCode::KafkaStorageError,
            Vec::new(),
            "the log failed and is offline until a restart",
        ),
    };
    Unfit {
        error,
        records,
        message: Some(message.to_owned()),
    }
}

/// The records of a checked batch whose timestamps are not allowed, the first few of them.
fn outside(batch: &Bytes, allowed: RangeInclusive<i64>) -> Vec<u32> {
    let records = Records::open(batch, &Unfolding::default());
    let timestamps = records.into_iter().flatten().map_while(Result::ok);
    let indexed = (0..).zip(timestamps.map(|record| record.timestamp));
    let is_outside = |time: &i64| *time != NO_TIMESTAMP && !allowed.contains(time);
    let at_fault = indexed.filter_map(|(index, time)| is_outside(&time).then_some(index));
    at_fault.take(RECORD_ERRORS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use wire::compression::Compression;
    use wire::records::BatchBuilder;

    use super::*;

    fn batch(compression: Compression, times: impl IntoIterator<Item = i64>) -> Bytes {
        let mut builder = BatchBuilder::new(compression);
        for time in times {
            builder.push(time, None, Some(b"value"), &[]);
        }
        builder.finish().expect("builds")
    }

    #[test]
    fn each_record_outside_the_bounds_is_named_and_none_without_a_timestamp() {
        for compression in Compression::ALL {
            let sent = batch(compression, [100, 99, -1, 200, 201, -1, 0]);
            assert_eq!(outside(&sent, 100..=200), [1, 4, 6]);
        }
    }

    #[test]
    fn so_many_records_are_named_and_no_more() {
        let sent = batch(Compression::Zstd, 0..100_000);
        let named = outside(&sent, 7..=8);
        assert_eq!(named.len(), RECORD_ERRORS_MAX);
        assert_eq!(named[..8], [0, 1, 2, 3, 4, 5, 6, 9]);
    }
}
