//! The questions that topic, cluster and config commands ask, typed: requests out, what the broker
//! said back, each error with what it is about. Knows nothing of flags or of printing.

use std::collections::BTreeMap;
use std::sync::Arc;

use client::cluster::{Metadata, RequestMessage, Topic};
use client::{AdminConfig, Cluster, Error, Route};
use wire::messages::create_partitions_request::{
    CreatePartitionsRequestData, CreatePartitionsTopic,
};
use wire::messages::create_topics_request::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequestData,
};
use wire::messages::create_topics_response::CreatableTopicResult;
use wire::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequestData};
use wire::messages::describe_configs_request::{
    DescribeConfigsRequestData, DescribeConfigsResource,
};
use wire::messages::describe_configs_response::DescribeConfigsResourceResult;
use wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequestData,
};
use wire::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequestData, ListOffsetsTopic,
};
use wire::{ErrorCode, KafkaString};

use super::connect::Target;
use super::exit::Failure;

/// What ListOffsets calls the log's start.
pub const EARLIEST: i64 = -2;
/// What ListOffsets calls the end of what may be read.
pub const LATEST: i64 = -1;

/// Whose configs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A topic's.
    Topic(String),
    /// One broker's.
    Broker(i32),
    /// The defaults of all brokers.
    AllBrokers,
}

/// One change of a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// To this value.
    Set(String),
    /// Back to what holds when nobody sets it.
    Delete,
}

/// A topic to be made; -1 stands for the broker's default.
#[derive(Clone, Debug)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions.
    pub partitions: i32,
    /// Replicas of each.
    pub replication_factor: i16,
    /// What is not as by default.
    pub configs: Vec<(String, String)>,
}

/// A cluster to ask.
pub struct Admin {
    cluster: Cluster,
    timeout_ms: i32,
}

impl Admin {
    /// Of the target. Nothing is connected before it is needed.
    ///
    /// # Errors
    /// When a property is unknown or wrong.
    pub fn new(target: &Target) -> Result<Self, Failure> {
        let config = AdminConfig::from_properties(&target.properties(&[]))?;
        let mut shared = config.cluster;
        // Looking at a topic must not make it.
        shared.allow_auto_create_topics = false;
        let timeout = shared.request_timeout.as_millis();
        let cluster = Cluster::new(shared);
        cluster.track_all(true);
        Ok(Self {
            cluster,
            timeout_ms: i32::try_from(timeout).unwrap_or(i32::MAX),
        })
    }

    /// The cluster with all its topics, as it is now.
    ///
    /// # Errors
    /// When no broker answers.
    pub async fn metadata(&self) -> Result<Arc<Metadata>, Error> {
        self.cluster.refresh().await
    }

    /// Whether a broker answers.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn reach(&self, node: i32) -> Result<(), Error> {
        // An open connection has had its ApiVersions answered.
        self.cluster.connection(Route::Node(node)).await.map(drop)
    }

    async fn ask<M: RequestMessage>(&self, route: Route, request: M) -> Result<M::Response, Error> {
        if self.cluster.metadata().brokers.is_empty() {
            self.metadata().await?;
        }
        self.cluster.send(route, request).await
    }

    /// Makes a topic, or (`validate_only`) asks whether it could be made.
    ///
    /// # Errors
    /// The broker's, and those of asking.
    pub async fn create_topic(
        &self,
        topic: &NewTopic,
        validate_only: bool,
    ) -> Result<CreatableTopicResult, Error> {
        let config = |(name, value): &(String, String)| {
            CreatableTopicConfig::default()
                .with_name(string(name))
                .with_value(Some(string(value)))
        };
        let wanted = CreatableTopic::default()
            .with_name(string(&topic.name))
            .with_num_partitions(topic.partitions)
            .with_replication_factor(topic.replication_factor)
            .with_configs(topic.configs.iter().map(config).collect());
        let request = CreateTopicsRequestData::default()
            .with_topics(vec![wanted])
            .with_timeout_ms(self.timeout_ms)
            .with_validate_only(validate_only);
        let answer = self.ask(Route::Controller, request).await?;
        let result = only(answer.topics, "CreateTopics")?;
        let (code, message) = (result.error_code, result.error_message.as_ref());
        check(code, message, format!("topic {}", topic.name))?;
        Ok(result)
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// The broker's, and those of asking.
    pub async fn delete_topic(&self, name: &str) -> Result<(), Error> {
        // Both ways of naming topics: which one is sent depends on the version.
        let state = DeleteTopicState::default().with_name(Some(string(name)));
        self.metadata().await?;
        let answer = self
            .cluster
            .send_built(
                Route::Controller,
                self.cluster.config().request_timeout,
                |version| {
                    let request =
                        DeleteTopicsRequestData::default().with_timeout_ms(self.timeout_ms);
                    match version {
                        ..6 => request.with_topic_names(vec![string(name)]),
                        _ => request.with_topics(vec![state]),
                    }
                },
            )
            .await?;
        let result = only(answer.responses, "DeleteTopics")?;
        let message = result.error_message.as_ref();
        check(result.error_code, message, format!("topic {name}"))
    }

    /// Makes a topic have so many partitions.
    ///
    /// # Errors
    /// The broker's, and those of asking.
    pub async fn grow_topic(
        &self,
        name: &str,
        partitions: i32,
        validate_only: bool,
    ) -> Result<(), Error> {
        let wanted = CreatePartitionsTopic::default()
            .with_name(string(name))
            .with_count(partitions)
            .with_assignments(None);
        let request = CreatePartitionsRequestData::default()
            .with_topics(vec![wanted])
            .with_timeout_ms(self.timeout_ms)
            .with_validate_only(validate_only);
        let answer = self.ask(Route::Controller, request).await?;
        let result = only(answer.results, "CreatePartitions")?;
        let message = result.error_message.as_ref();
        check(result.error_code, message, format!("topic {name}"))
    }

    /// All configs of a resource, in order of names.
    ///
    /// # Errors
    /// The broker's, and those of asking.
    pub async fn configs(
        &self,
        resource: &Resource,
    ) -> Result<Vec<DescribeConfigsResourceResult>, Error> {
        let wanted = DescribeConfigsResource::default()
            .with_resource_type(resource.code())
            .with_resource_name(string(&resource.name()))
            .with_configuration_keys(None);
        let request = DescribeConfigsRequestData::default()
            .with_resources(vec![wanted])
            .with_include_documentation(true);
        let answer = self.ask(resource.route(), request).await?;
        let result = only(answer.results, "DescribeConfigs")?;
        check(
            result.error_code,
            result.error_message.as_ref(),
            resource.to_string(),
        )?;
        let mut configs = result.configs;
        configs.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        Ok(configs)
    }

    /// Changes some configs of a resource, all or none.
    ///
    /// # Errors
    /// The broker's, and those of asking.
    pub async fn alter_configs(
        &self,
        resource: &Resource,
        changes: &[(String, Change)],
        validate_only: bool,
    ) -> Result<(), Error> {
        let change = |(name, change): &(String, Change)| {
            let config = AlterableConfig::default().with_name(string(name));
            match change {
                Change::Set(value) => config
                    .with_config_operation(0)
                    .with_value(Some(string(value))),
                Change::Delete => config.with_config_operation(1).with_value(None),
            }
        };
        let wanted = AlterConfigsResource::default()
            .with_resource_type(resource.code())
            .with_resource_name(string(&resource.name()))
            .with_configs(changes.iter().map(change).collect());
        let request = IncrementalAlterConfigsRequestData::default()
            .with_resources(vec![wanted])
            .with_validate_only(validate_only);
        let answer = self.ask(resource.route(), request).await?;
        let result = only(answer.responses, "IncrementalAlterConfigs")?;
        check(
            result.error_code,
            result.error_message.as_ref(),
            resource.to_string(),
        )
    }

    /// The offset at a time (or [`EARLIEST`], [`LATEST`]) of every partition that has a leader; -1
    /// where there is none. A partition whose leader does not say has no entry.
    ///
    /// # Errors
    /// Those of asking.
    pub async fn offsets(&self, topic: &Topic, time: i64) -> Result<BTreeMap<i32, i64>, Error> {
        let mut by_leader: BTreeMap<i32, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for partition in &topic.partitions {
            if let Some(leader) = partition.leader {
                let wanted = ListOffsetsPartition::default()
                    .with_partition_index(partition.index)
                    .with_current_leader_epoch(partition.leader_epoch)
                    .with_timestamp(time);
                by_leader.entry(leader).or_default().push(wanted);
            }
        }
        let mut offsets = BTreeMap::new();
        for (leader, partitions) in by_leader {
            let wanted = ListOffsetsTopic::default()
                .with_name(string(&topic.name))
                .with_partitions(partitions);
            let request = ListOffsetsRequestData::default()
                .with_replica_id(-1)
                .with_topics(vec![wanted]);
            let answer = self.ask(Route::Node(leader), request).await?;
            for partition in answer.topics.into_iter().flat_map(|topic| topic.partitions) {
                if !ErrorCode::from(partition.error_code).is_error() {
                    offsets.insert(partition.partition_index, partition.offset);
                }
            }
        }
        Ok(offsets)
    }
}

impl Resource {
    fn code(&self) -> i8 {
        match self {
            Self::Topic(_) => 2,
            Self::Broker(_) | Self::AllBrokers => 4,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Topic(name) => name.clone(),
            Self::Broker(node) => node.to_string(),
            Self::AllBrokers => String::new(),
        }
    }

    /// What one broker is set to, only itself knows.
    fn route(&self) -> Route {
        match self {
            Self::Broker(node) => Route::Node(*node),
            Self::Topic(_) | Self::AllBrokers => Route::Controller,
        }
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Topic(name) => write!(out, "topic {name}"),
            Self::Broker(node) => write!(out, "broker {node}"),
            Self::AllBrokers => write!(out, "all brokers"),
        }
    }
}

fn string(text: &str) -> KafkaString {
    KafkaString::from(text.to_owned())
}

fn check(code: i16, message: Option<&KafkaString>, about: String) -> Result<(), Error> {
    Error::check(code, message.map(KafkaString::as_str), about)
}

/// The one result of a request about one thing.
fn only<T>(results: Vec<T>, api: &str) -> Result<T, Error> {
    let count = results.len();
    let mut results = results.into_iter();
    match (results.next(), results.next()) {
        (Some(result), None) => Ok(result),
        _ => Err(Error::Protocol {
            reason: format!("{count} results of {api}, where one was asked for"),
        }),
    }
}
