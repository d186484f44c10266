//! DescribeLogDirs (API 35): each data directory and the size of each log in it; one that has failed is there
//! with an error. Knows nothing of how logs are laid out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use logic::ids::PartitionId;
use rustix::fs::StatVfs;
use wire::messages::DescribeLogDirsRequestData;
use wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResponseData, DescribeLogDirsResult,
    DescribeLogDirsTopic,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use super::{Context, Handled};
use crate::shard::directories::DirId;
use crate::shard::mail::{Answer, Ask, LogRow, ShardId};

/// The file system does not say.
const UNKNOWN: i64 = -1;

/// Answers one request.
pub async fn handle(context: &Context, request: DescribeLogDirsRequestData) -> Handled {
    let wanted: Option<BTreeSet<(String, i32)>> = request.topics.map(|topics| {
        let named = topics.into_iter().flat_map(|topic| {
            let name = topic.topic.as_str().to_owned();
            topic
                .partitions
                .into_iter()
                .map(move |partition| (name.clone(), partition))
        });
        named.collect()
    });
    let is_wanted = |name: &str, index: i32| {
        let one = || (name.to_owned(), index);
        wanted.as_ref().is_none_or(|wanted| wanted.contains(&one()))
    };
    let mut by_dir: BTreeMap<DirId, ByTopic> = BTreeMap::new();
    for shard in (0..context.shard.shards()).map(ShardId) {
        let Answer::Logs(logs) = context.shard.ask(shard, Ask::DescribeLogs).await else {
            unreachable!("logs are answered by their sizes");
        };
        for log in logs {
            let PartitionId { topic, index } = log.partition;
            let Some(name) = context.shard.metadata.topic_name(topic) else {
                continue;
            };
            if is_wanted(&name, index) {
                let by_topic = by_dir.entry(log.dir).or_default();
                by_topic.entry(name).or_default().push(described(&log));
            }
        }
    }
    let directories = &context.shard.directories;
    let results = directories.ids().map(|dir| {
        let result = DescribeLogDirsResult::default().with_log_dir(KafkaString::from(
            directories.path(dir).display().to_string(),
        ));
        if directories.is_online(dir) {
            let topics = by_dir.remove(&dir).unwrap_or_default();
            online(result, directories.path(dir), topics)
        } else {
            result
                .with_error_code(ErrorCode::KafkaStorageError.code())
                .with_total_bytes(UNKNOWN)
                .with_usable_bytes(UNKNOWN)
        }
    });
    let results = results.collect();
    let response = DescribeLogDirsResponseData::default().with_results(results);
    context.reply(&Response::DescribeLogDirs(response))
}

type ByTopic = BTreeMap<String, Vec<DescribeLogDirsPartition>>;

fn described(log: &LogRow) -> DescribeLogDirsPartition {
    DescribeLogDirsPartition::default()
        .with_partition_index(log.partition.index)
        .with_partition_size(i64::try_from(log.bytes).unwrap_or(i64::MAX))
        .with_offset_lag(log.future_lag.unwrap_or(0))
        .with_is_future_key(log.future_lag.is_some())
}

/// A directory that is online, with what is in it and what its disk has.
fn online(
    result: DescribeLogDirsResult,
    directory: &Path,
    by_topic: ByTopic,
) -> DescribeLogDirsResult {
    let topics = by_topic.into_iter().map(|(name, mut partitions)| {
        partitions.sort_by_key(|partition| partition.partition_index);
        DescribeLogDirsTopic::default()
            .with_name(KafkaString::from(name))
            .with_partitions(partitions)
    });
    let space = rustix::fs::statvfs(directory).ok();
    let bytes = |blocks: fn(&StatVfs) -> u64| {
        let bytes = space.as_ref();
        let bytes = bytes.map(|it| blocks(it).saturating_mul(it.f_frsize));
        bytes.map_or(UNKNOWN, |it| i64::try_from(it).unwrap_or(i64::MAX))
    };
    result
        .with_topics(topics.collect())
        .with_total_bytes(bytes(|it| it.f_blocks))
        .with_usable_bytes(bytes(|it| it.f_bavail))
}
