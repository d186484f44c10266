//! A member by the consumer protocol (KIP-848): says at each heartbeat where it is, takes what it is given,
//! and says at once what it has then, as the Java client does. It gives partitions back without delay.

use std::convert::Infallible;
use std::time::Duration;

use client::direct::Error;
use wire::KafkaString;
use wire::messages::consumer_group_heartbeat_request::{
    ConsumerGroupHeartbeatRequestData, TopicPartitions,
};
use wire::messages::consumer_group_heartbeat_response::{
    Assignment, ConsumerGroupHeartbeatResponseData,
};
use wire::request::Request;
use wire::response::Response;

use crate::member::{Ended, Member, checked};

const CONSUMER_GROUP_HEARTBEAT: i16 = 1;
const JOIN: i32 = 0;
const LEAVE: i32 = -1;
const REBALANCE_TIMEOUT_MS: i32 = 60_000;

struct Consumer {
    member: Member,
    group: KafkaString,
    id: KafkaString,
    epoch: i32,
    has: Vec<TopicPartitions>,
    interval: Duration,
}

/// Is a member for ever.
pub async fn live(member: Member) {
    let group = member.shared.options.group(member.place.group);
    let mut it = Consumer {
        member,
        group: KafkaString::from(group),
        id: KafkaString::default(),
        epoch: JOIN,
        has: Vec::new(),
        interval: Duration::ZERO,
    };
    for life in 0_u64.. {
        it.id = it.name(life);
        let Err(ended) = it.be_member().await;
        it.member.has_nothing();
        it.member.recover(ended).await;
    }
}

impl Consumer {
    /// Each life is that of a new process, with an id of its own.
    fn name(&self, life: u64) -> KafkaString {
        let place = self.member.place;
        KafkaString::from(format!("member-{}-{}-{life}", place.group, place.member))
    }

    /// From a join to a refusal.
    async fn be_member(&mut self) -> Result<Infallible, Ended> {
        (self.epoch, self.has) = (JOIN, Vec::new());
        self.member.shared.board.borrow_mut().joins();
        let mut request = self.join();
        loop {
            let answer = self.beat(request).await?;
            self.epoch = answer.member_epoch;
            let interval_ms = u64::try_from(answer.heartbeat_interval_ms).unwrap_or(0);
            self.interval = Duration::from_millis(interval_ms.max(100));
            if let Some(assignment) = answer.assignment {
                let given = taken(*assignment);
                if given != self.has {
                    self.has = given;
                    request = self.acknowledgement();
                    continue;
                }
            }
            self.member.has(self.epoch, &partitions(&self.has));
            if self.member.is_told_before(self.interval).await {
                self.leave().await?;
                return Err(Ended::Told);
            }
            request = self.sign_of_life();
        }
    }

    fn sign_of_life(&self) -> ConsumerGroupHeartbeatRequestData {
        ConsumerGroupHeartbeatRequestData::default()
            .with_group_id(self.group.clone())
            .with_member_id(self.id.clone())
            .with_member_epoch(self.epoch)
    }

    fn join(&self) -> ConsumerGroupHeartbeatRequestData {
        let topic = KafkaString::from(self.member.shared.options.topic.clone());
        self.sign_of_life()
            .with_rebalance_timeout_ms(REBALANCE_TIMEOUT_MS)
            .with_subscribed_topic_names(Some(vec![topic]))
            .with_topic_partitions(Some(Vec::new()))
    }

    fn acknowledgement(&self) -> ConsumerGroupHeartbeatRequestData {
        self.sign_of_life()
            .with_topic_partitions(Some(self.has.clone()))
    }

    async fn leave(&mut self) -> Result<(), Ended> {
        let request = self.sign_of_life().with_member_epoch(LEAVE);
        self.beat(request).await.map(|_| ())
    }

    async fn beat(
        &mut self,
        request: ConsumerGroupHeartbeatRequestData,
    ) -> Result<ConsumerGroupHeartbeatResponseData, Ended> {
        let request = Request::from(request);
        let answer = self.member.beat(CONSUMER_GROUP_HEARTBEAT, &request).await?;
        let Response::ConsumerGroupHeartbeat(answer) = answer else {
            return Err(Error::Unexpected("a ConsumerGroupHeartbeat response").into());
        };
        checked(answer.error_code)?;
        Ok(answer)
    }
}

/// An assignment in the form in which it is acknowledged.
fn taken(assignment: Assignment) -> Vec<TopicPartitions> {
    let topics = assignment.topic_partitions.into_iter();
    let topics = topics.map(|mut topic| {
        topic.partitions.sort_unstable();
        TopicPartitions::default()
            .with_topic_id(topic.topic_id)
            .with_partitions(topic.partitions)
    });
    topics.collect()
}

/// The partitions of the one topic that is read.
fn partitions(has: &[TopicPartitions]) -> Vec<i32> {
    has.iter().flat_map(|it| it.partitions.clone()).collect()
}
