//! Topics: created, listed, described, grown, deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::KafkaUuid;
use wire::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsRequestData, CreatePartitionsTopic,
};
use wire::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequestData,
};
use wire::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequestData};
use wire::messages::metadata_request::{MetadataRequestData, MetadataRequestTopic};

use super::{About, Admin, kafka, text};
use crate::Error;
use crate::cluster::metadata::Coverage;
use crate::cluster::{Metadata, Route, Topic};

/// A topic to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; -1 leaves it to the broker. Not looked at with `assignments`.
    pub partitions: i32,
    /// How many replicas of each; -1 leaves it to the broker. Not looked at with `assignments`.
    pub replication_factor: i16,
    /// Which brokers hold each partition, the preferred leader first.
    pub assignments: BTreeMap<i32, Vec<i32>>,
    /// Settings that differ from the broker's.
    pub configs: Vec<(String, String)>,
}

impl NewTopic {
    /// A topic with so many partitions and as many replicas as the broker likes.
    pub fn new(name: &str, partitions: i32) -> Self {
        Self {
            name: name.to_owned(),
            partitions,
            replication_factor: -1,
            ..Self::default()
        }
    }

    /// With a setting.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.configs.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A topic that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicListing {
    /// Its name.
    pub name: Arc<str>,
    /// Its id; `None` when the broker is too old to have one.
    pub id: Option<KafkaUuid>,
    /// Whether it is one of the brokers' own.
    pub is_internal: bool,
}

impl Admin {
    /// Creates topics, or (`validate_only`) only says whether it would.
    ///
    /// # Errors
    /// When nobody answered. What is wrong with a topic stands with the topic.
    pub async fn create_topics(
        &self,
        topics: Vec<NewTopic>,
        validate_only: bool,
    ) -> Result<Vec<About<String, ()>>, Error> {
        let request = CreateTopicsRequestData::default()
            .with_topics(topics.iter().map(creatable).collect())
            .with_timeout_ms(self.timeout_ms())
            .with_validate_only(validate_only);
        let answer = self.ask(request).await?;
        let about = answer.topics.iter().map(|topic| About {
            key: topic.name.to_string(),
            result: Error::check(
                topic.error_code,
                text(&topic.error_message),
                format!("topic {}", topic.name),
            ),
        });
        Ok(about.collect())
    }

    /// All topics.
    ///
    /// # Errors
    /// When nobody answered.
    pub async fn list_topics(&self) -> Result<Vec<TopicListing>, Error> {
        let metadata = self.metadata_of(None).await?;
        let listing = |topic: &Arc<Topic>| TopicListing {
            name: topic.name.clone(),
            id: topic.id,
            is_internal: topic.is_internal,
        };
        let mut topics: Vec<_> = metadata.topics.values().map(listing).collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    /// These topics, with their partitions.
    ///
    /// # Errors
    /// When nobody answered. A topic that does not exist is an error of its own.
    pub async fn describe_topics(
        &self,
        names: &[&str],
    ) -> Result<Vec<About<String, Arc<Topic>>>, Error> {
        let metadata = self.metadata_of(Some(names)).await?;
        let about = names.iter().map(|name| {
            let topic = metadata.topics.get(*name);
            let unknown = wire::ErrorCode::UnknownTopicOrPartition;
            let code = topic.map_or(Some(unknown), |topic| topic.error);
            let error = code.and_then(|it| Error::from_code(it.code(), format!("topic {name}")));
            About {
                key: (*name).to_owned(),
                result: match (topic, error) {
                    (Some(topic), None) => Ok(topic.clone()),
                    (_, error) => Err(error.unwrap_or(Error::Closed)),
                },
            }
        });
        Ok(about.collect())
    }

    /// Makes a topic have so many partitions.
    ///
    /// # Errors
    /// When the broker refuses, or nobody answered.
    pub async fn create_partitions(
        &self,
        topic: &str,
        count: i32,
        validate_only: bool,
    ) -> Result<(), Error> {
        self.create_partitions_at(topic, count, None, validate_only)
            .await
    }

    /// As [`Admin::create_partitions`], with the brokers that hold each new partition.
    ///
    /// # Errors
    /// As [`Admin::create_partitions`].
    pub async fn create_partitions_at(
        &self,
        topic: &str,
        count: i32,
        assignments: Option<Vec<Vec<i32>>>,
        validate_only: bool,
    ) -> Result<(), Error> {
        let assignment = |brokers| CreatePartitionsAssignment::default().with_broker_ids(brokers);
        let grown = CreatePartitionsTopic::default()
            .with_name(kafka(topic))
            .with_count(count)
            .with_assignments(assignments.map(|it| it.into_iter().map(assignment).collect()));
        let request = CreatePartitionsRequestData::default()
            .with_topics(vec![grown])
            .with_timeout_ms(self.timeout_ms())
            .with_validate_only(validate_only);
        let answer = self.ask(request).await?;
        answer.results.iter().try_for_each(|result| {
            let about = format!("topic {}", result.name);
            Error::check(result.error_code, text(&result.error_message), about)
        })
    }

    /// Deletes topics.
    ///
    /// # Errors
    /// When nobody answered. What is wrong with a topic stands with the topic.
    pub async fn delete_topics(&self, names: &[&str]) -> Result<Vec<About<String, ()>>, Error> {
        let state = |name: &&str| DeleteTopicState::default().with_name(Some(kafka(name)));
        let answer = self
            .attempts(|| async {
                let timeout = self.config.cluster.request_timeout;
                let build = |version: i16| {
                    let request = DeleteTopicsRequestData::default();
                    let request = request.with_timeout_ms(self.timeout_ms());
                    if version >= 6 {
                        request.with_topics(names.iter().map(state).collect())
                    } else {
                        request.with_topic_names(names.iter().map(|name| kafka(name)).collect())
                    }
                };
                self.cluster.send_built(Route::Any, timeout, build).await
            })
            .await?;
        let about = answer.responses.iter().map(|topic| {
            let key = text(&topic.name).unwrap_or_default().to_owned();
            let about = format!("topic {key}");
            let result = Error::check(topic.error_code, text(&topic.error_message), about);
            About { key, result }
        });
        let mut about: Vec<_> = about.collect();
        // Brokers may answer in an order of their own.
        let place = |key: &str| names.iter().position(|name| *name == key);
        about.sort_by_key(|it| place(&it.key));
        Ok(about)
    }

    /// A picture of these topics, or of all, apart from what the cluster keeps up to date.
    async fn metadata_of(&self, names: Option<&[&str]>) -> Result<Metadata, Error> {
        let topic = |name: &&str| MetadataRequestTopic::default().with_name(Some(kafka(name)));
        let request = MetadataRequestData::default()
            .with_topics(names.map(|names| names.iter().map(topic).collect()))
            .with_allow_auto_topic_creation(false);
        let answer = self.ask(request).await?;
        Error::check(answer.error_code, None, "metadata")?;
        Ok(Metadata::default().updated(&answer, Coverage::All))
    }
}

fn creatable(topic: &NewTopic) -> CreatableTopic {
    let assignment = |(partition, brokers): (&i32, &Vec<i32>)| {
        CreatableReplicaAssignment::default()
            .with_partition_index(*partition)
            .with_broker_ids(brokers.clone())
    };
    let config = |(name, value): &(String, String)| {
        CreatableTopicConfig::default()
            .with_name(kafka(name))
            .with_value(Some(kafka(value)))
    };
    let assigned = !topic.assignments.is_empty();
    CreatableTopic::default()
        .with_name(kafka(&topic.name))
        .with_num_partitions(if assigned { -1 } else { topic.partitions })
        .with_replication_factor(if assigned {
            -1
        } else {
            topic.replication_factor
        })
        .with_assignments(topic.assignments.iter().map(assignment).collect())
        .with_configs(topic.configs.iter().map(config).collect())
}
