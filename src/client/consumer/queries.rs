//! Look-ups of offsets that do not move the consumer: by time, at the ends of logs, committed ones.

use std::collections::BTreeMap;

use tokio::time::Instant;
use wire::ErrorCode;

use super::Consumer;
use super::calls::{group, log};
use super::commits::{Offsets, coordinator};
use super::offsets::OffsetAndTimestamp;
use super::partition::TopicPartition;
use super::state::{EARLIEST, LATEST};
use super::subscription::is_for_another_leader;
use crate::Error;
use crate::cluster::backoff::random;

const SETTING: &str = "default.api.timeout.ms";

impl Consumer {
    /// The first record of each partition that is no older than the time (milliseconds since 1970);
    /// `None` when there is none.
    ///
    /// # Errors
    /// When the offsets are not to be had within `default.api.timeout.ms`.
    pub async fn offsets_for_times(
        &self,
        times: impl IntoIterator<Item = (TopicPartition, i64)>,
    ) -> Result<BTreeMap<TopicPartition, Option<OffsetAndTimestamp>>, Error> {
        self.list_offsets(times.into_iter().collect()).await
    }

    /// The offset of each partition's oldest record.
    ///
    /// # Errors
    /// As [`Consumer::offsets_for_times`].
    pub async fn beginning_offsets(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, i64>, Error> {
        self.ends(partitions, EARLIEST).await
    }

    /// The offset behind each partition's last record that this consumer may see.
    ///
    /// # Errors
    /// As [`Consumer::offsets_for_times`].
    pub async fn end_offsets(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, i64>, Error> {
        self.ends(partitions, LATEST).await
    }

    async fn ends(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
        time: i64,
    ) -> Result<BTreeMap<TopicPartition, i64>, Error> {
        let asked = partitions.into_iter().map(|at| (at, time)).collect();
        let found = self.list_offsets(asked).await?;
        let offsets = found.into_iter();
        Ok(offsets
            .filter_map(|(at, found)| Some((at, found?.offset)))
            .collect())
    }

    async fn list_offsets(
        &self,
        mut missing: BTreeMap<TopicPartition, i64>,
    ) -> Result<BTreeMap<TopicPartition, Option<OffsetAndTimestamp>>, Error> {
        let timeout = self.shared.config.default_api_timeout;
        let deadline = Instant::now() + timeout;
        let cluster = &self.shared.cluster;
        let mut found = BTreeMap::new();
        let mut failures = 0;
        while !missing.is_empty() {
            let mut by_node: BTreeMap<i32, Vec<log::OffsetQuery>> = BTreeMap::new();
            for (at, &time) in &missing {
                let within = deadline.saturating_duration_since(Instant::now());
                let topic = cluster.topic(&at.topic, within, SETTING).await?;
                let index = usize::try_from(at.partition).unwrap_or(usize::MAX);
                let leader = topic.partitions.get(index);
                if let Some((node, it)) = leader.and_then(|it| Some((it.leader?, it))) {
                    let query = (at.clone(), it.leader_epoch, time);
                    by_node.entry(node).or_default().push(query);
                }
            }
            for (node, asked) in by_node {
                let isolation = self.shared.config.isolation_level;
                let answer = log::list_offsets(cluster, isolation, node, &asked).await;
                for (at, answer) in answer.unwrap_or_default() {
                    match answer {
                        Ok(offset) => {
                            missing.remove(&at);
                            found.insert(at, offset.map(offset_and_timestamp));
                        }
                        Err(code) if is_for_another_leader(code) => {}
                        Err(code) => return Err(refused(code, &at)),
                    }
                }
            }
            if let Some(at) = missing.keys().next() {
                failures += 1;
                let wait = self
                    .shared
                    .config
                    .cluster
                    .retry_backoff
                    .after(failures, random());
                if Instant::now() + wait >= deadline {
                    return Err(Error::Timeout {
                        what: format!("an offset of {at}").into(),
                        waited: timeout,
                        setting: SETTING,
                    });
                }
                cluster.request_refresh();
                tokio::time::sleep(wait).await;
            }
        }
        Ok(found)
    }

    /// The group's committed offsets of these partitions; those without any are left out.
    ///
    /// # Errors
    /// Without `group.id`, or when they are not to be had within `default.api.timeout.ms`.
    pub async fn committed(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<Offsets, Error> {
        let partitions: Vec<TopicPartition> = partitions.into_iter().collect();
        let timeout = self.shared.config.default_api_timeout;
        let deadline = Instant::now() + timeout;
        let mut failures = 0;
        loop {
            let who = coordinator(&self.shared, deadline).await?;
            let code = match group::committed(&self.shared.cluster, &who, &partitions).await {
                Ok(committed) => return Ok(committed),
                Err(code) => code,
            };
            self.shared
                .apply(|state, now| state.commit_failed(who.generation, code, now));
            failures += 1;
            let wait = self
                .shared
                .config
                .cluster
                .retry_backoff
                .after(failures, random());
            let error = Error::from_code(code.code(), "committed offsets").unwrap_or(Error::Closed);
            // The membership brings another epoch, or none: then it is not asked as a member.
            let passes = error.is_retriable()
                || matches!(
                    code,
                    ErrorCode::NetworkException
                        | ErrorCode::StaleMemberEpoch
                        | ErrorCode::UnknownMemberId
                );
            if !passes || Instant::now() + wait >= deadline {
                return Err(error);
            }
            tokio::time::sleep(wait).await;
        }
    }
}

fn offset_and_timestamp(found: log::Found) -> OffsetAndTimestamp {
    OffsetAndTimestamp {
        offset: found.offset,
        timestamp: found.timestamp,
        leader_epoch: found.leader_epoch,
    }
}

fn refused(code: ErrorCode, at: &TopicPartition) -> Error {
    Error::from_code(code.code(), at.to_string()).unwrap_or(Error::Closed)
}
