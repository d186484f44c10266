//! AlterReplicaLogDirs (API 34, KIP-113): partitions to be moved to other data directories of this broker. Answers
//! when a move has begun; DescribeLogDirs says how far it is. Knows nothing of how one is made.

use std::collections::BTreeMap;

use logic::ids::PartitionId;
use wire::messages::AlterReplicaLogDirsRequestData;
use wire::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
    AlterReplicaLogDirsResponseData,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use super::{Context, Handled, topics};
use crate::shard::mail::{Answer, Ask, ShardId};

/// A partition as the request names it.
type Name = (String, i32);

/// Answers one request.
pub async fn handle(context: &Context, request: AlterReplicaLogDirsRequestData) -> Handled {
    let shard = &context.shard;
    let mut answers: BTreeMap<Name, ErrorCode> = BTreeMap::new();
    let mut by_owner: BTreeMap<ShardId, Vec<(Name, (PartitionId, _))>> = BTreeMap::new();
    for dir in request.dirs {
        let to = shard.directories.find(dir.path.as_str());
        for topic in dir.topics {
            for index in topic.partitions {
                let name = (topic.name.as_str().to_owned(), index);
                let topic = shard.metadata.topic_id(&name.0);
                let id = topic.map(|topic| PartitionId { topic, index });
                let owner = id.and_then(|id| Some((id, shard.metadata.owner(id)?)));
                match (to, owner) {
                    (None, _) => drop(answers.insert(name, ErrorCode::LogDirNotFound)),
                    (_, None) => {
                        answers.insert(name, ErrorCode::UnknownTopicOrPartition);
                    }
                    (Some(to), Some((id, owner))) => {
                        by_owner.entry(owner).or_default().push((name, (id, to)));
                    }
                }
            }
        }
    }
    for (owner, items) in by_owner {
        let (names, items): (Vec<Name>, Vec<_>) = items.into_iter().unzip();
        let Answer::Moving(results) = shard.ask(owner, Ask::Move(items)).await else {
            unreachable!("moves are answered by whether they have begun");
        };
        let codes = results.into_iter().map(|result| match result {
            Ok(()) => ErrorCode::None,
            Err(refused) => topics::error_code(refused),
        });
        answers.extend(names.into_iter().zip(codes));
    }
    let response = AlterReplicaLogDirsResponseData::default().with_results(by_topic(answers));
    context.reply(&Response::AlterReplicaLogDirs(response))
}

fn by_topic(answers: BTreeMap<Name, ErrorCode>) -> Vec<AlterReplicaLogDirTopicResult> {
    let mut topics: BTreeMap<String, Vec<AlterReplicaLogDirPartitionResult>> = BTreeMap::new();
    for ((topic, index), code) in answers {
        let result = AlterReplicaLogDirPartitionResult::default()
            .with_partition_index(index)
            .with_error_code(code.code());
        topics.entry(topic).or_default().push(result);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        AlterReplicaLogDirTopicResult::default()
            .with_topic_name(KafkaString::from(name))
            .with_partitions(partitions)
    });
    topics.collect()
}
