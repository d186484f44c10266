//! Offsets found by time or place, and records deleted before one: questions for leaders.

use std::collections::{BTreeMap, HashMap};

use wire::KafkaString;
use wire::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequestData, DeleteRecordsTopic,
};
use wire::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequestData, ListOffsetsTopic,
};

use super::{About, Admin, kafka};
use crate::{Error, Route};

/// Which offset is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The first record's.
    Earliest,
    /// That behind the last record.
    Latest,
    /// That of the record with the largest timestamp (KIP-734).
    MaxTimestamp,
    /// The first on the leader's own disks (KIP-405).
    EarliestLocal,
    /// The last in remote storage (KIP-1005).
    LatestTiered,
    /// The first that is not in remote storage yet (KIP-1023).
    EarliestPendingUpload,
    /// The first record's that is no older, in milliseconds since 1970.
    Timestamp(i64),
}

impl OffsetSpec {
    fn code(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::MaxTimestamp => -3,
            Self::EarliestLocal => -4,
            Self::LatestTiered => -5,
            Self::EarliestPendingUpload => -6,
            Self::Timestamp(timestamp) => timestamp,
        }
    }

    /// The lowest version of ListOffsets that knows it.
    fn version_min(self) -> i16 {
        match self {
            Self::Earliest | Self::Latest | Self::Timestamp(_) => 1,
            Self::MaxTimestamp => 7,
            Self::EarliestLocal => 8,
            Self::LatestTiered => 9,
            Self::EarliestPendingUpload => 11,
        }
    }
}

/// An offset that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOffset {
    /// The offset; -1 when there is no such record.
    pub offset: i64,
    /// The record's timestamp, where time was asked about; else -1.
    pub timestamp: i64,
    /// Epoch of the leader that wrote it; -1 when not known.
    pub leader_epoch: i32,
}

type Place = (String, i32);

impl Admin {
    /// Looks offsets up, each at its partition's leader. Answers come in the order of the questions.
    ///
    /// # Errors
    /// When a leader cannot be reached, or is too old for what is asked. What is wrong with a partition
    /// stands with the partition.
    pub async fn list_offsets(
        &self,
        wanted: Vec<(Place, OffsetSpec)>,
    ) -> Result<Vec<About<Place, FoundOffset>>, Error> {
        let places: Vec<Place> = wanted.iter().map(|(place, _)| place.clone()).collect();
        let mut found = self
            .attempts(|| async {
                let mut found = HashMap::new();
                for (leader, places) in self.by_leader(&places, &mut found).await? {
                    let asked = wanted.iter().filter(|(place, _)| places.contains(place));
                    self.list_offsets_at(leader, asked.cloned().collect(), &mut found)
                        .await?;
                }
                again_if_retriable(found)
            })
            .await?;
        Ok(in_order(places, &mut found))
    }

    async fn list_offsets_at(
        &self,
        leader: i32,
        wanted: Vec<(Place, OffsetSpec)>,
        found: &mut HashMap<Place, Result<FoundOffset, Error>>,
    ) -> Result<(), Error> {
        let lowest = wanted
            .iter()
            .map(|(_, spec)| spec.version_min())
            .max()
            .unwrap_or(1);
        let mut topics: BTreeMap<String, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for ((topic, partition), spec) in wanted {
            let partition = ListOffsetsPartition::default()
                .with_partition_index(partition)
                .with_current_leader_epoch(-1)
                .with_timestamp(spec.code());
            topics.entry(topic).or_default().push(partition);
        }
        let topics = topics.into_iter().map(|(topic, partitions)| {
            let topic = ListOffsetsTopic::default().with_name(KafkaString::from(topic));
            topic.with_partitions(partitions)
        });
        let mut request = ListOffsetsRequestData::default()
            .with_replica_id(-1)
            .with_topics(topics.collect());
        let connection = self.cluster.connection(Route::Node(leader)).await?;
        let version = connection.version::<ListOffsetsRequestData>()?;
        if version < lowest {
            return Err(Error::NoCommonVersion {
                api: wire::ApiKey::ListOffsets,
                ours: (lowest, lowest),
                theirs: Some((1, version)),
                address: connection.address().to_owned(),
            });
        }
        if version >= 10 {
            request.timeout_ms = self.timeout_ms();
        }
        let answer = connection
            .send(&request, self.config.cluster.request_timeout)
            .await?;
        for topic in &answer.topics {
            for partition in &topic.partitions {
                let place = (topic.name.to_string(), partition.partition_index);
                let about = format!("{}-{}", place.0, place.1);
                let result =
                    Error::check(partition.error_code, None, about).map(|()| FoundOffset {
                        offset: partition.offset,
                        timestamp: partition.timestamp,
                        leader_epoch: partition.leader_epoch,
                    });
                found.insert(place, result);
            }
        }
        Ok(())
    }

    /// Deletes the records of a topic's partitions before these offsets (-1: before the high
    /// watermark); tells where each begins afterwards.
    ///
    /// # Errors
    /// When a leader cannot be reached. What is wrong with a partition stands with the partition.
    pub async fn delete_records(
        &self,
        topic: &str,
        before: &[(i32, i64)],
    ) -> Result<Vec<About<Place, i64>>, Error> {
        let places: Vec<Place> = before
            .iter()
            .map(|(it, _)| (topic.to_owned(), *it))
            .collect();
        let offsets: HashMap<i32, i64> = before.iter().copied().collect();
        let mut found = self
            .attempts(|| async {
                let mut found = HashMap::new();
                for (leader, places) in self.by_leader(&places, &mut found).await? {
                    let partition = |(_, index): &Place| {
                        DeleteRecordsPartition::default()
                            .with_partition_index(*index)
                            .with_offset(offsets.get(index).copied().unwrap_or(0))
                    };
                    let topic = DeleteRecordsTopic::default()
                        .with_name(kafka(topic))
                        .with_partitions(places.iter().map(partition).collect());
                    let request = DeleteRecordsRequestData::default()
                        .with_topics(vec![topic])
                        .with_timeout_ms(self.timeout_ms());
                    let answer = self.cluster.send(Route::Node(leader), request).await?;
                    for partition in answer.topics.iter().flat_map(|topic| &topic.partitions) {
                        let place = (places[0].0.clone(), partition.partition_index);
                        let about = format!("{}-{}", place.0, place.1);
                        let result = Error::check(partition.error_code, None, about);
                        found.insert(place, result.map(|()| partition.low_watermark));
                    }
                }
                again_if_retriable(found)
            })
            .await?;
        Ok(in_order(places, &mut found))
    }

    /// Who leads each partition. Partitions that do not exist get their error.
    async fn by_leader<T>(
        &self,
        places: &[Place],
        found: &mut HashMap<Place, Result<T, Error>>,
    ) -> Result<BTreeMap<i32, Vec<Place>>, Error> {
        let known = self.cluster.metadata();
        self.cluster
            .track(places.iter().map(|(topic, _)| topic.as_str()));
        let led = |(topic, index): &Place| {
            known
                .partition(topic, *index)
                .is_some_and(|it| it.leader.is_some())
        };
        let metadata = match places.iter().all(led) {
            true => known,
            false => self.cluster.refresh().await?,
        };
        let mut leaders: BTreeMap<i32, Vec<Place>> = BTreeMap::new();
        for place in places {
            let partition = metadata.partition(&place.0, place.1);
            match partition.map(|partition| partition.leader) {
                Some(Some(leader)) => leaders.entry(leader).or_default().push(place.clone()),
                missing => {
                    let code = match missing {
                        Some(_) => wire::ErrorCode::LeaderNotAvailable,
                        None => wire::ErrorCode::UnknownTopicOrPartition,
                    };
                    let about = format!("{}-{}", place.0, place.1);
                    let error = Error::from_code(code.code(), about);
                    found.insert(place.clone(), Err(error.unwrap_or(Error::Closed)));
                }
            }
        }
        Ok(leaders)
    }
}

/// A partition whose leader moved makes the whole be asked again. One that does not exist is told.
fn again_if_retriable<T>(
    found: HashMap<Place, Result<T, Error>>,
) -> Result<HashMap<Place, Result<T, Error>>, Error> {
    let unknown = Some(wire::ErrorCode::UnknownTopicOrPartition);
    let errors = found.values().filter_map(|result| result.as_ref().err());
    let mut again = errors.filter(|error| error.is_retriable() && error.code() != unknown);
    match again.next() {
        Some(error) => Err(error.clone()),
        None => Ok(found),
    }
}

fn in_order<T>(
    places: Vec<Place>,
    found: &mut HashMap<Place, Result<T, Error>>,
) -> Vec<About<Place, T>> {
    let about = places.into_iter().map(|key| {
        let silent = || Error::Protocol {
            reason: format!("the answer says nothing of {}-{}", key.0, key.1),
        };
        let result = found.remove(&key).unwrap_or_else(|| Err(silent()));
        About { key, result }
    });
    about.collect()
}
