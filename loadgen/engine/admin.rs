//! What a run asks of the cluster before and after it: topics made and deleted, offsets, configs. Knows
//! nothing of producers and consumers.

use std::time::Duration;

use client::{Cluster, Error, Route};
use wire::KafkaString;
use wire::messages::create_topics_request::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequestData,
};
use wire::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequestData};
use wire::messages::describe_configs_request::{
    DescribeConfigsRequestData, DescribeConfigsResource,
};
use wire::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequestData, ListOffsetsTopic,
};

use crate::workload::{Configs, Workload};

/// How long the cluster may take over topics.
const TOPICS_WAIT: Duration = Duration::from_secs(60);
/// From this version on `DeleteTopics` has a list of topics instead of a list of names.
const DELETE_WITH_TOPICS: i16 = 6;
/// `ListOffsets`: the offset of the next record.
pub const LATEST: i64 = -1;
/// `ListOffsets`: the offset of the first record.
pub const EARLIEST: i64 = -2;
/// `DescribeConfigs`: a topic, and a broker.
const TOPIC_RESOURCE: i8 = 2;
const BROKER_RESOURCE: i8 = 4;

/// Makes the topics and waits until each partition has a leader. That leader may refuse what is sent first,
/// as brokers name a leader before it is one: the clients try again.
///
/// # Errors
/// The cluster's own; a topic that exists is one.
pub async fn create_topics(
    cluster: &Cluster,
    workload: &Workload,
    names: &[String],
) -> Result<(), Error> {
    let configs: Vec<CreatableTopicConfig> = workload
        .topic_config
        .iter()
        .map(|(name, value)| {
            CreatableTopicConfig::default()
                .with_name(text(name))
                .with_value(Some(text(value)))
        })
        .collect();
    let topic = |name: &String| {
        CreatableTopic::default()
            .with_name(text(name))
            .with_num_partitions(workload.partitions)
            .with_replication_factor(workload.replication_factor)
            .with_configs(configs.clone())
    };
    let request = CreateTopicsRequestData::default()
        .with_topics(names.iter().map(topic).collect())
        .with_timeout_ms(TOPICS_WAIT.as_millis() as i32);
    cluster.refresh().await?;
    let answer = cluster
        .send_built(Route::Controller, TOPICS_WAIT, |_| request)
        .await?;
    for topic in &answer.topics {
        let message = topic.error_message.as_ref().map(KafkaString::as_str);
        Error::check(
            topic.error_code,
            message,
            format!("topic {}", topic.name.as_str()),
        )?;
    }
    for name in names {
        wait_for_leaders(cluster, name, workload.partitions).await?;
    }
    Ok(())
}

async fn wait_for_leaders(cluster: &Cluster, name: &str, partitions: i32) -> Result<(), Error> {
    let setting = "the generator's limit for new topics";
    let deadline = tokio::time::Instant::now() + TOPICS_WAIT;
    loop {
        let topic = cluster.topic(name, TOPICS_WAIT, setting).await?;
        let led = topic
            .partitions
            .iter()
            .filter(|partition| partition.leader.is_some());
        if led.count() == partitions.unsigned_abs() as usize {
            return Ok(());
        }
        if tokio::time::Instant::now() > deadline {
            return Err(Error::Timeout {
                what: format!("a leader for each partition of {name}").into(),
                waited: TOPICS_WAIT,
                setting,
            });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        cluster.refresh().await?;
    }
}

/// Deletes the topics.
///
/// # Errors
/// The cluster's own.
pub async fn delete_topics(cluster: &Cluster, names: &[String]) -> Result<(), Error> {
    let build = |version| {
        let request =
            DeleteTopicsRequestData::default().with_timeout_ms(TOPICS_WAIT.as_millis() as i32);
        if version < DELETE_WITH_TOPICS {
            return request.with_topic_names(names.iter().map(|name| text(name)).collect());
        }
        let topic = |name: &String| DeleteTopicState::default().with_name(Some(text(name)));
        request.with_topics(names.iter().map(topic).collect())
    };
    let answer = cluster
        .send_built(Route::Controller, TOPICS_WAIT, build)
        .await?;
    for topic in &answer.responses {
        let name = topic.name.as_ref().map_or("", |name| name.as_str());
        Error::check(topic.error_code, None, format!("topic {name}"))?;
    }
    Ok(())
}

/// The first offset ([`EARLIEST`]) or the one behind the last ([`LATEST`]) of each partition of a topic.
///
/// # Errors
/// The cluster's own, also when a partition has no leader.
pub async fn offsets(
    cluster: &Cluster,
    topic: &str,
    partitions: i32,
    which: i64,
) -> Result<Vec<i64>, Error> {
    let mut offsets = Vec::new();
    for number in 0..partitions {
        let about = format!("{topic}-{number}");
        let metadata = cluster.metadata();
        let leader = metadata.partition(topic, number).and_then(|it| it.leader);
        let Some(leader) = leader else {
            cluster.refresh().await?;
            return Err(Error::Timeout {
                what: format!("a leader of {about}").into(),
                waited: Duration::ZERO,
                setting: "metadata.max.age.ms",
            });
        };
        let partition = ListOffsetsPartition::default()
            .with_partition_index(number)
            .with_current_leader_epoch(-1)
            .with_timestamp(which);
        let topic = ListOffsetsTopic::default()
            .with_name(text(topic))
            .with_partitions(vec![partition]);
        let request = ListOffsetsRequestData::default()
            .with_replica_id(-1)
            .with_topics(vec![topic]);
        let answer = cluster.send(Route::Node(leader), request).await?;
        let partition = answer
            .topics
            .first()
            .and_then(|topic| topic.partitions.first());
        let partition = partition.ok_or_else(|| Error::Protocol {
            reason: format!("the answer does not speak of {about}"),
        })?;
        Error::check(partition.error_code, None, about)?;
        offsets.push(partition.offset);
    }
    Ok(offsets)
}

/// The configs of a topic, and of the broker that leads its first partition. What a broker does not
/// tell is left out.
///
/// # Errors
/// When no broker answers.
pub async fn configs(cluster: &Cluster, topic: &str) -> Result<(Configs, Configs), Error> {
    let metadata = cluster.metadata();
    let node = metadata
        .partition(topic, 0)
        .and_then(|partition| partition.leader);
    let node = node
        .or_else(|| metadata.brokers.keys().next().copied())
        .unwrap_or(0);
    let resource = |kind, name: &str| {
        DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(text(name))
            .with_configuration_keys(None)
    };
    let request = DescribeConfigsRequestData::default().with_resources(vec![
        resource(TOPIC_RESOURCE, topic),
        resource(BROKER_RESOURCE, &node.to_string()),
    ]);
    let answer = cluster.send(Route::Node(node), request).await?;
    let (mut of_topic, mut of_broker) = (Configs::new(), Configs::new());
    for result in answer.results {
        let into = if result.resource_type == TOPIC_RESOURCE {
            &mut of_topic
        } else {
            &mut of_broker
        };
        into.extend(result.configs.into_iter().filter_map(|config| {
            let value = config.value?.as_str().to_owned();
            Some((config.name.as_str().to_owned(), value))
        }));
    }
    Ok((of_topic, of_broker))
}

fn text(text: &str) -> KafkaString {
    KafkaString::from(text.to_owned())
}
