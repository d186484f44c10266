//! What several APIs need: topics resolved, addresses, refusals as Kafka's codes, questions to the
//! controller. Knows nothing of any one API.

use logic::cluster::Topic;
use logic::cluster::change::{self, Code};
use logic::ids::{PartitionId, TopicId};
use wire::{ErrorCode, KafkaString, KafkaUuid};

use super::Context;
use crate::shard::Shard;
use crate::shard::controller::{Change, Changed, Failed};
use crate::shard::mail::{Answer, Ask, Refused, ShardId};

/// The topic's id, by id where the request carries one and by name otherwise.
pub fn resolve(shard: &Shard, name: &KafkaString, id: &KafkaUuid) -> Result<TopicId, ErrorCode> {
    if *id == KafkaUuid::ZERO {
        let unknown = ErrorCode::UnknownTopicOrPartition;
        return shard.metadata.topic_id(name.as_str()).ok_or(unknown);
    }
    let id = topic_id(id);
    let known = shard.metadata.image().topic(id).is_some();
    if known {
        Ok(id)
    } else {
        Err(ErrorCode::UnknownTopicId)
    }
}

/// The topic's id again, unless the topic is the broker's own, which clients neither write nor cut.
pub fn refuse_internal(shard: &Shard, id: TopicId) -> Result<TopicId, ErrorCode> {
    let name = shard.metadata.topic_name(id);
    if name.is_some_and(|name| change::is_internal(&name)) {
        return Err(ErrorCode::InvalidTopicException);
    }
    Ok(id)
}

/// A partition as clients are told of it.
pub struct Told {
    /// Why it cannot be used, if so.
    pub error_code: i16,
    /// The node that leads it, or -1.
    pub leader: i32,
    /// Replicas whose data directory is offline (KIP-112).
    pub offline: Vec<i32>,
}

/// Says who leads a partition: as in Kafka nobody while the one replica is offline.
pub fn told_of(shard: &Shard, topic: &Topic, index: i32) -> Told {
    let id = PartitionId {
        topic: topic.id,
        index,
    };
    let place = usize::try_from(index).ok();
    let partition = place.and_then(|place| topic.partitions.get(place));
    match shard.hosted.is_offline(id) {
        true => Told {
            error_code: ErrorCode::LeaderNotAvailable.code(),
            leader: -1,
            offline: partition.map_or(Vec::new(), |it| it.replicas.clone()),
        },
        false => Told {
            error_code: ErrorCode::None.code(),
            leader: partition.map_or(-1, |it| it.leader),
            offline: Vec::new(),
        },
    }
}

/// A topic id as it stands on the wire.
pub fn uuid(id: TopicId) -> KafkaUuid {
    let (high, low) = id.0.split_at(8);
    let word = |half: &[u8]| {
        half.iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    KafkaUuid::from_parts(word(high), word(low))
}

/// A topic id from the wire.
pub fn topic_id(id: &KafkaUuid) -> TopicId {
    TopicId(*id.inner().as_bytes())
}

/// Where this client should connect to: the advertised address, or the one it has reached.
pub fn address(context: &Context) -> (KafkaString, i32) {
    match &context.shard.metadata.identity.advertised {
        Some((host, port)) => (KafkaString::from(host.clone()), i32::from(*port)),
        None => {
            let local = context.client.local;
            (
                KafkaString::from(local.ip().to_string()),
                i32::from(local.port()),
            )
        }
    }
}

/// A partition's refusal as Kafka's error code.
pub fn error_code(refused: Refused) -> ErrorCode {
    match refused {
        Refused::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        Refused::OffsetOutOfRange => ErrorCode::OffsetOutOfRange,
        Refused::FencedEpoch => ErrorCode::FencedLeaderEpoch,
        Refused::UnknownEpoch => ErrorCode::UnknownLeaderEpoch,
        Refused::Storage => ErrorCode::KafkaStorageError,
        Refused::Damaged => ErrorCode::CorruptMessage,
        Refused::Stopping => ErrorCode::NotLeaderOrFollower,
    }
}

/// Asks the controller for a change of several items.
pub async fn change(context: &Context, change: Change) -> Vec<Result<Option<TopicId>, Failed>> {
    let ask = Ask::Change(Box::new(change));
    let Answer::Changed(changed) = context.shard.ask(ShardId::CONTROLLER, ask).await else {
        unreachable!("a change is answered by its outcome");
    };
    match *changed {
        Changed::Items(items) => items,
        Changed::ProducerIds(_) => unreachable!("items are answered by items"),
    }
}

/// A failed change as Kafka's error code.
pub fn change_code(failed: &Failed) -> ErrorCode {
    let Failed::Refused(refused) = failed else {
        return ErrorCode::KafkaStorageError;
    };
    match refused.code {
        Code::InvalidTopic => ErrorCode::InvalidTopicException,
        Code::TopicExists => ErrorCode::TopicAlreadyExists,
        Code::UnknownTopic => ErrorCode::UnknownTopicOrPartition,
        Code::UnknownTopicId => ErrorCode::UnknownTopicId,
        Code::InvalidPartitions => ErrorCode::InvalidPartitions,
        Code::InvalidReplicationFactor => ErrorCode::InvalidReplicationFactor,
        Code::InvalidAssignment => ErrorCode::InvalidReplicaAssignment,
        Code::InvalidConfig => ErrorCode::InvalidConfig,
        Code::InvalidRequest => ErrorCode::InvalidRequest,
        Code::Policy => ErrorCode::PolicyViolation,
        Code::DeletionDisabled => ErrorCode::TopicDeletionDisabled,
    }
}

/// What a failed change says to people.
pub fn message(failed: &Failed) -> String {
    match failed {
        Failed::Refused(refused) => refused.message.clone(),
        Failed::Storage(problem) => format!("the broker's disk failed: {problem}"),
    }
}

/// The code and the message of an item of a change; success is 0 and no message.
pub fn told<T>(item: &Result<T, Failed>) -> (i16, Option<KafkaString>) {
    match item {
        Ok(_) => (ErrorCode::None.code(), None),
        Err(failed) => (
            change_code(failed).code(),
            Some(KafkaString::from(message(failed))),
        ),
    }
}
