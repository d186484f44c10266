//! How far a group is: committed offsets beside the ends of their partitions. Knows nothing of how
//! it is printed but its columns.

use std::collections::{BTreeMap, BTreeSet};

use client::Error;
use client::admin::{Admin, GroupDescription, OffsetSpec};
use client::consumer::TopicPartition;
use serde::Serialize;

use super::super::output::Listed;

/// One partition of a group.
#[derive(Debug, Serialize)]
pub struct Progress {
    topic: String,
    partition: i32,
    /// The offset of the next record to read; none when nothing is committed.
    pub committed: Option<i64>,
    /// The offset behind the last record; none when nobody says.
    end: Option<i64>,
    /// Records between the two.
    pub lag: Option<i64>,
    /// The member that the partition is given to.
    member: Option<String>,
    client: Option<String>,
    host: Option<String>,
}

impl Listed for Progress {
    const COLUMNS: &'static [&'static str] = &[
        "TOPIC",
        "PARTITION",
        "COMMITTED",
        "END",
        "LAG",
        "MEMBER",
        "CLIENT",
        "HOST",
    ];

    fn cells(&self) -> Vec<String> {
        let number = |number: Option<i64>| number.map_or("-".into(), |it| it.to_string());
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        vec![
            self.topic.clone(),
            self.partition.to_string(),
            number(self.committed),
            number(self.end),
            number(self.lag),
            text(&self.member),
            text(&self.client),
            text(&self.host),
        ]
    }
}

/// All partitions of which the group has committed an offset, or that a member is given.
///
/// # Errors
/// Those of asking for the offsets.
pub async fn progress(admin: &Admin, group: &GroupDescription) -> Result<Vec<Progress>, Error> {
    let committed = admin.group_offsets(&group.id).await?;
    let mut owners = BTreeMap::new();
    for member in &group.members {
        for at in member.assigned.iter().flatten() {
            owners.insert(at.clone(), member);
        }
    }
    let all: BTreeSet<TopicPartition> = committed.keys().chain(owners.keys()).cloned().collect();
    let ends = ends(admin, &all).await?;
    let row = |at: &TopicPartition| {
        let owner = owners.get(at);
        let committed = committed.get(at).map(|it| it.offset);
        let end = ends.get(at).copied();
        Progress {
            topic: at.topic.to_string(),
            partition: at.partition,
            committed,
            end,
            lag: committed.zip(end).map(|(at, end)| (end - at).max(0)),
            member: owner.map(|it| it.id.clone()),
            client: owner.map(|it| it.client_id.clone()),
            host: owner.map(|it| it.host.clone()),
        }
    };
    Ok(all.iter().map(row).collect())
}

/// The ends of those partitions that still exist.
async fn ends(
    admin: &Admin,
    partitions: &BTreeSet<TopicPartition>,
) -> Result<BTreeMap<TopicPartition, i64>, Error> {
    let wanted = partitions.iter();
    let wanted = wanted.map(|at| ((at.topic.to_string(), at.partition), OffsetSpec::Latest));
    let mut ends = BTreeMap::new();
    for found in admin.list_offsets(wanted.collect()).await? {
        if let Ok(end) = found.result {
            let (topic, partition) = found.key;
            ends.insert(TopicPartition::new(topic, partition), end.offset);
        }
    }
    Ok(ends)
}
