//! Consumer groups: which there are, who is in them, what they have committed, and changes of that.
//! Questions for each group's coordinator; knows nothing of membership.

use std::collections::BTreeMap;

use wire::messages::consumer_group_describe_response as by_consumer;
use wire::messages::describe_groups_response as by_classic;
use wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use wire::messages::{
    ConsumerGroupDescribeRequestData, DeleteGroupsRequestData, DescribeGroupsRequestData,
    ListGroupsRequestData, OffsetDeleteRequestData, OffsetFetchRequestData,
};
use wire::{ErrorCode, KafkaString};

use super::{About, Admin, kafka, text};
use crate::cluster::RequestMessage;
use crate::consumer::{
    Identity, OffsetAndMetadata, TopicPartition, commit_request, coordinator_request,
    decode_assignment, read_committed,
};
use crate::{BrokerError, Error, Route};

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupListing {
    /// The group's id.
    pub id: String,
    /// `consumer` for consumers; empty for a group that only commits offsets.
    pub protocol_type: String,
    /// `Stable`, `Empty` and so on; empty where the broker does not say.
    pub state: String,
    /// `classic` or `consumer` (KIP-848); empty where the broker does not say.
    pub group_type: String,
}

/// A group and its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// The group's id.
    pub id: String,
    /// Its coordinator's node id.
    pub coordinator: i32,
    /// `Stable`, `Empty` and so on.
    pub state: String,
    /// `classic` or `consumer`.
    pub group_type: &'static str,
    /// How partitions are given to members; empty while nobody has chosen.
    pub assignor: String,
    /// Who is in it.
    pub members: Vec<GroupMember>,
}

/// One member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The id that the coordinator, or the member, made.
    pub id: String,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<String>,
    /// `client.id`.
    pub client_id: String,
    /// Where it connected from.
    pub host: String,
    /// What it is given; none where that cannot be read, as for members that are no consumers.
    pub assigned: Option<Vec<TopicPartition>>,
}

impl Admin {
    /// All groups of all brokers, in order of id.
    ///
    /// # Errors
    /// When a broker cannot be reached or refuses.
    pub async fn list_groups(&self) -> Result<Vec<GroupListing>, Error> {
        let metadata = self.cluster.refresh().await?;
        let mut groups = Vec::new();
        for node in metadata.brokers.keys() {
            let answer = self
                .attempts(|| async {
                    let answer = self
                        .ask_node(*node, ListGroupsRequestData::default())
                        .await?;
                    Error::check(answer.error_code, None, format!("groups of broker {node}"))?;
                    Ok(answer)
                })
                .await?;
            groups.extend(answer.groups.into_iter().map(|group| GroupListing {
                id: group.group_id.to_string(),
                protocol_type: group.protocol_type.to_string(),
                state: group.group_state.to_string(),
                group_type: group.group_type.to_string().to_lowercase(),
            }));
        }
        groups.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(groups)
    }

    /// A group, whichever protocol its members speak.
    ///
    /// # Errors
    /// `GROUP_ID_NOT_FOUND` when there is none, and those of asking.
    pub async fn describe_group(&self, group: &str) -> Result<GroupDescription, Error> {
        match self.describe_classic(group).await {
            // Also what is said of a group of the new protocol.
            Err(error) if error.code() == Some(ErrorCode::GroupIdNotFound) => {
                match self.describe_consumer(group).await {
                    Err(Error::NoCommonVersion { .. }) => Err(error),
                    described => described,
                }
            }
            described => described,
        }
    }

    async fn describe_classic(&self, group: &str) -> Result<GroupDescription, Error> {
        let request = |_| DescribeGroupsRequestData::default().with_groups(vec![kafka(group)]);
        self.of_coordinator(group, request, |coordinator, answer| {
            let found = only(group, answer.groups)?;
            Error::check(found.error_code, text(&found.error_message), group)?;
            // How brokers before Kafka 4 say that there is no such group.
            if found.group_state.as_str() == "Dead" {
                Error::check(ErrorCode::GroupIdNotFound.code(), None, group)?;
            }
            Ok(GroupDescription {
                id: group.to_owned(),
                coordinator,
                state: found.group_state.to_string(),
                group_type: "classic",
                assignor: found.protocol_data.to_string(),
                members: found.members.into_iter().map(GroupMember::from).collect(),
            })
        })
        .await
    }

    async fn describe_consumer(&self, group: &str) -> Result<GroupDescription, Error> {
        let request =
            |_| ConsumerGroupDescribeRequestData::default().with_group_ids(vec![kafka(group)]);
        self.of_coordinator(group, request, |coordinator, answer| {
            let found = only(group, answer.groups)?;
            Error::check(found.error_code, text(&found.error_message), group)?;
            Ok(GroupDescription {
                id: group.to_owned(),
                coordinator,
                state: found.group_state.to_string(),
                group_type: "consumer",
                assignor: found.assignor_name.to_string(),
                members: found.members.into_iter().map(GroupMember::from).collect(),
            })
        })
        .await
    }

    /// All that a group has committed.
    ///
    /// # Errors
    /// Those of asking. A group that does not exist has committed nothing.
    pub async fn group_offsets(
        &self,
        group: &str,
    ) -> Result<BTreeMap<TopicPartition, OffsetAndMetadata>, Error> {
        let request = |version: i16| match version {
            ..8 => OffsetFetchRequestData::default()
                .with_group_id(kafka(group))
                .with_topics(None),
            _ => {
                let wanted = OffsetFetchRequestGroup::default().with_group_id(kafka(group));
                OffsetFetchRequestData::default().with_groups(vec![wanted.with_topics(None)])
            }
        };
        self.of_coordinator(group, request, |_, answer| {
            let committed = read_committed(answer);
            committed.map_err(|code| {
                let about = Some(group.to_owned());
                Error::Broker(BrokerError {
                    code,
                    message: None,
                    about,
                })
            })
        })
        .await
    }

    /// Commits offsets in the name of a group that has no members.
    ///
    /// # Errors
    /// Those of asking. What is wrong with a partition stands with the partition: `UNKNOWN_MEMBER_ID`
    /// while the group has members.
    pub async fn alter_group_offsets(
        &self,
        group: &str,
        offsets: &BTreeMap<TopicPartition, i64>,
    ) -> Result<Vec<About<TopicPartition, ()>>, Error> {
        let offsets = offsets.iter();
        let offsets = offsets.map(|(at, offset)| (at.clone(), OffsetAndMetadata::new(*offset)));
        let offsets: BTreeMap<_, _> = offsets.collect();
        let nobody = Identity {
            coordinator: -1,
            group: group.into(),
            member_id: "".into(),
            generation: -1,
            instance_id: None,
            has_epoch: false,
        };
        let request = |version| commit_request(&nobody, &offsets, version);
        self.of_coordinator(group, request, |_, answer| {
            let rows = answer.topics.iter().flat_map(|topic| {
                let rows = topic.partitions.iter();
                rows.map(|it| (&topic.name, it.partition_index, it.error_code))
            });
            each(group, rows)
        })
        .await
    }

    /// Forgets what a group has committed of these partitions, which its members must not read.
    ///
    /// # Errors
    /// Those of asking, and `NON_EMPTY_GROUP`. What is wrong with a partition stands with the partition:
    /// `GROUP_SUBSCRIBED_TO_TOPIC` while members read it.
    pub async fn delete_group_offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Result<Vec<About<TopicPartition, ()>>, Error> {
        let mut topics: BTreeMap<&str, Vec<OffsetDeleteRequestPartition>> = BTreeMap::new();
        for at in partitions {
            let partition =
                OffsetDeleteRequestPartition::default().with_partition_index(at.partition);
            topics.entry(&at.topic).or_default().push(partition);
        }
        let topics = topics.into_iter().map(|(topic, partitions)| {
            OffsetDeleteRequestTopic::default()
                .with_name(kafka(topic))
                .with_partitions(partitions)
        });
        let topics: Vec<_> = topics.collect();
        let request = |_| {
            OffsetDeleteRequestData::default()
                .with_group_id(kafka(group))
                .with_topics(topics.clone())
        };
        self.of_coordinator(group, request, |_, answer| {
            Error::check(answer.error_code, None, group)?;
            let rows = answer.topics.iter().flat_map(|topic| {
                let rows = topic.partitions.iter();
                rows.map(|it| (&topic.name, it.partition_index, it.error_code))
            });
            each(group, rows)
        })
        .await
    }

    /// Deletes a group that has no members, and all that it has committed.
    ///
    /// # Errors
    /// `NON_EMPTY_GROUP`, `GROUP_ID_NOT_FOUND`, and those of asking.
    pub async fn delete_group(&self, group: &str) -> Result<(), Error> {
        let request = |_| DeleteGroupsRequestData::default().with_groups_names(vec![kafka(group)]);
        self.of_coordinator(group, request, |_, answer| {
            let found = only(group, answer.results)?;
            Error::check(found.error_code, None, group)
        })
        .await
    }

    /// Asks the coordinator of a group, as often as needed, since it may move or be loading. `request`
    /// is told the version that is spoken, `read` who the coordinator is.
    async fn of_coordinator<M: RequestMessage, T>(
        &self,
        group: &str,
        request: impl Fn(i16) -> M,
        read: impl Fn(i32, M::Response) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let timeout = self.config.cluster.request_timeout;
        self.attempts(|| async {
            let coordinator = self.coordinator(group).await?;
            let route = self.node(coordinator).await?;
            let answer = self.cluster.send_built(route, timeout, &request).await?;
            read(coordinator, answer)
        })
        .await
    }

    async fn coordinator(&self, group: &str) -> Result<i32, Error> {
        let timeout = self.config.cluster.request_timeout;
        let build = |version| coordinator_request(group, version);
        let answer = self.cluster.send_built(Route::Any, timeout, build).await?;
        let (code, message, node) = match answer.coordinators.first() {
            Some(it) => (it.error_code, &it.error_message, it.node_id),
            None => (answer.error_code, &answer.error_message, answer.node_id),
        };
        Error::check(code, text(message), group)?;
        Ok(node)
    }
}

/// The one answer to a question about one thing.
fn only<T>(group: &str, answers: Vec<T>) -> Result<T, Error> {
    let silent = || Error::Protocol {
        reason: format!("the answer says nothing of group {group}"),
    };
    answers.into_iter().next().ok_or_else(silent)
}

/// Each partition's answer. Where one may succeed later, all are asked again.
fn each<'a>(
    group: &str,
    rows: impl Iterator<Item = (&'a KafkaString, i32, i16)>,
) -> Result<Vec<About<TopicPartition, ()>>, Error> {
    let mut about = Vec::new();
    for (topic, partition, code) in rows {
        let key = TopicPartition::new(topic.as_str(), partition);
        let what = format!("group {group}, {}-{partition}", topic.as_str());
        let result = Error::check(code, None, what);
        if let Err(error) = &result
            && error.is_retriable()
            && error.code() != Some(ErrorCode::UnknownTopicOrPartition)
        {
            return Err(error.clone());
        }
        about.push(About { key, result });
    }
    Ok(about)
}

impl From<by_classic::DescribedGroupMember> for GroupMember {
    fn from(member: by_classic::DescribedGroupMember) -> Self {
        let assigned = decode_assignment(member.member_assignment).ok();
        Self {
            id: member.member_id.to_string(),
            instance_id: member.group_instance_id.map(|it| it.to_string()),
            client_id: member.client_id.to_string(),
            host: member.client_host.to_string(),
            assigned,
        }
    }
}

impl From<by_consumer::Member> for GroupMember {
    fn from(member: by_consumer::Member) -> Self {
        let topics = member.assignment.topic_partitions.into_iter();
        let assigned = topics.flat_map(|topic| {
            let name = topic.topic_name.to_string();
            let partitions = topic.partitions.into_iter();
            partitions.map(move |it| TopicPartition::new(name.as_str(), it))
        });
        Self {
            id: member.member_id.to_string(),
            instance_id: member.instance_id.map(|it| it.to_string()),
            client_id: member.client_id.to_string(),
            host: member.client_host.to_string(),
            assigned: Some(assigned.collect()),
        }
    }
}
