//! DescribeLogDirs (API 35): the data directory and the size of each log in it. Knows nothing of how
//! logs are laid out.

use std::collections::{BTreeMap, BTreeSet};

use logic::ids::PartitionId;
use rustix::fs::StatVfs;
use wire::KafkaString;
use wire::messages::DescribeLogDirsRequestData;
use wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResponseData, DescribeLogDirsResult,
    DescribeLogDirsTopic,
};
use wire::response::Response;

use super::{Context, Handled};
use crate::shard::mail::{Answer, Ask, ShardId};

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
    let mut by_topic: BTreeMap<String, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for shard in (0..context.shard.shards()).map(ShardId) {
        let Answer::Logs(logs) = context.shard.ask(shard, Ask::DescribeLogs).await else {
            unreachable!("logs are answered by their sizes");
        };
        for (PartitionId { topic, index }, bytes) in logs {
            let Some(name) = context.shard.metadata.topic_name(topic) else {
                continue;
            };
            if wanted
                .as_ref()
                .is_none_or(|wanted| wanted.contains(&(name.clone(), index)))
            {
                let size = i64::try_from(bytes).unwrap_or(i64::MAX);
                by_topic.entry(name).or_default().push(
                    DescribeLogDirsPartition::default()
                        .with_partition_index(index)
                        .with_partition_size(size),
                );
            }
        }
    }
    let topics = by_topic.into_iter().map(|(name, mut partitions)| {
        partitions.sort_by_key(|partition| partition.partition_index);
        DescribeLogDirsTopic::default()
            .with_name(KafkaString::from(name))
            .with_partitions(partitions)
    });
    let directory = context.shard.metadata.identity.data_dir.clone();
    let space = rustix::fs::statvfs(&directory).ok();
    let bytes = |blocks: fn(&StatVfs) -> u64| {
        let bytes = space.as_ref();
        let bytes = bytes.map(|it| blocks(it).saturating_mul(it.f_frsize));
        bytes.map_or(UNKNOWN, |it| i64::try_from(it).unwrap_or(i64::MAX))
    };
    let (total, usable) = (bytes(|it| it.f_blocks), bytes(|it| it.f_bavail));
    let result = DescribeLogDirsResult::default()
        .with_log_dir(KafkaString::from(directory))
        .with_topics(topics.collect())
        .with_total_bytes(total)
        .with_usable_bytes(usable);
    let response = DescribeLogDirsResponseData::default().with_results(vec![result]);
    context.reply(&Response::DescribeLogDirs(response))
}
