//! Asks a cluster what `-o` and the like mean for each partition. Reads no records.

use std::collections::BTreeMap;

use client::admin::{Admin, OffsetSpec};
use client::{AdminConfig, ConsumerConfig, Error};

use super::Consume;
use super::bounds::{Bounds, Known, Range, Start};
use crate::command::exit::{Ending, Failure};

/// What is to be read of each partition.
///
/// # Errors
/// When the topic, a partition or an offset is not there, or no broker answers.
pub async fn ask(
    consume: &Consume,
    bounds: &Bounds,
    config: &ConsumerConfig,
) -> Result<BTreeMap<i32, Range>, Failure> {
    let admin = Admin::new(AdminConfig {
        cluster: config.cluster.clone(),
        default_api_timeout: config.default_api_timeout,
    });
    let partitions = partitions(consume, &admin).await?;
    let look = async |spec| offsets(&admin, &consume.topic, &partitions, spec).await;
    let earliest = look(OffsetSpec::Earliest).await?;
    let latest = look(OffsetSpec::Latest).await?;
    let at_start = match bounds.start {
        Some(Start::Time(time)) => look(OffsetSpec::Timestamp(time)).await?,
        _ => Offsets::new(),
    };
    let at_until = match bounds.until {
        Some(time) => look(OffsetSpec::Timestamp(time)).await?,
        None => Offsets::new(),
    };
    let mut ranges = BTreeMap::new();
    for (partition, earliest) in earliest {
        let found = |offsets: &Offsets| offsets.get(&partition).copied().filter(|it| *it >= 0);
        let known = Known {
            earliest,
            latest: found(&latest).unwrap_or(earliest),
            at_start: found(&at_start),
            at_until: found(&at_until),
        };
        let range = bounds.range(&known).map_err(|what| {
            Failure::new(
                Ending::NotFoundOrConflict,
                format!("{}-{partition}: {what}", consume.topic),
                "Begin with -o beginning, or at an offset that is there.",
            )
        })?;
        ranges.insert(partition, range);
    }
    Ok(ranges)
}

/// The partitions asked for, all of which exist.
async fn partitions(consume: &Consume, admin: &Admin) -> Result<Vec<i32>, Failure> {
    let described = admin.describe_topics(&[&consume.topic]).await?;
    let mut there = Vec::new();
    for topic in described {
        there.extend(topic.result?.partitions.iter().map(|it| it.index));
    }
    if let Some(missing) = consume.partitions.iter().find(|it| !there.contains(it)) {
        let (topic, count) = (&consume.topic, there.len());
        return Err(Failure::new(
            Ending::NotFoundOrConflict,
            format!("topic {topic} has no partition {missing}, only {count} partitions from 0 on"),
            "Choose one of them with -p, or none to read all.",
        ));
    }
    match consume.partitions.is_empty() {
        true => Ok(there),
        false => Ok(consume.partitions.clone()),
    }
}

type Offsets = BTreeMap<i32, i64>;

async fn offsets(
    admin: &Admin,
    topic: &str,
    partitions: &[i32],
    spec: OffsetSpec,
) -> Result<Offsets, Error> {
    let place = |partition: &i32| ((topic.to_owned(), *partition), spec);
    let found = admin.list_offsets(partitions.iter().map(place).collect());
    let mut offsets = Offsets::new();
    for about in found.await? {
        offsets.insert(about.key.1, about.result?.offset);
    }
    Ok(offsets)
}
