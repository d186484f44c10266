//! A member by the classic protocol: joins, shares out if it leads, beats, joins again when it is told. It
//! reads one topic, whose partitions are known, and gives up all it has before it joins.

use std::convert::Infallible;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use client::direct::Error;
use wire::messages::consumer_protocol_assignment::{
    ConsumerProtocolAssignmentData, TopicPartition,
};
use wire::messages::consumer_protocol_subscription::ConsumerProtocolSubscriptionData;
use wire::messages::heartbeat_request::HeartbeatRequestData;
use wire::messages::join_group_request::{JoinGroupRequestData, JoinGroupRequestProtocol};
use wire::messages::join_group_response::JoinGroupResponseData;
use wire::messages::leave_group_request::{LeaveGroupRequestData, MemberIdentity};
use wire::messages::sync_group_request::{SyncGroupRequestAssignment, SyncGroupRequestData};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use crate::member::{Ended, Member, checked};

const JOIN_GROUP: i16 = 9;
const SYNC_GROUP: i16 = 5;
const HEARTBEAT: i16 = 4;
const LEAVE_GROUP: i16 = 5;
/// Of the bytes that members send one another.
const CONSUMER_PROTOCOL: i16 = 0;

/// The Java client's defaults, but for the time to join again: answers are waited for 30 s here.
const SESSION_TIMEOUT_MS: i32 = 45_000;
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(3);
const REBALANCE_TIMEOUT_MS: i32 = 20_000;

struct Classic {
    member: Member,
    group: KafkaString,
    /// Empty before the coordinator has given one.
    id: KafkaString,
    generation: i32,
}

/// Is a member for ever.
pub async fn live(member: Member) {
    let group = member.shared.options.group(member.place.group);
    let mut it = Classic {
        member,
        group: KafkaString::from(group),
        id: KafkaString::default(),
        generation: -1,
    };
    loop {
        let Err(ended) = it.be_member().await;
        it.member.has_nothing();
        let is_new = matches!(
            ended,
            Ended::Refused(ErrorCode::UnknownMemberId) | Ended::Told
        );
        if is_new {
            it.id = KafkaString::default();
        }
        it.member.recover(ended).await;
    }
}

impl Classic {
    /// One generation.
    async fn be_member(&mut self) -> Result<Infallible, Ended> {
        let joined = self.join().await?;
        let partitions = self.sync(&joined).await?;
        self.member.has(self.generation, &partitions);
        loop {
            if self.member.is_told_before(HEARTBEAT_INTERVAL).await {
                self.leave().await?;
                return Err(Ended::Told);
            }
            self.beat().await?;
        }
    }

    async fn join(&mut self) -> Result<JoinGroupResponseData, Ended> {
        loop {
            self.member.shared.board.borrow_mut().joins();
            let protocol = JoinGroupRequestProtocol::default()
                .with_name(KafkaString::from_static("range"))
                .with_metadata(self.subscription());
            let request = JoinGroupRequestData::default()
                .with_group_id(self.group.clone())
                .with_member_id(self.id.clone())
                .with_session_timeout_ms(SESSION_TIMEOUT_MS)
                .with_rebalance_timeout_ms(REBALANCE_TIMEOUT_MS)
                .with_protocol_type(KafkaString::from_static("consumer"))
                .with_protocols(vec![protocol]);
            let answer = self.member.call(JOIN_GROUP, &request.into()).await?;
            let Response::JoinGroup(answer) = answer else {
                return Err(Error::Unexpected("a JoinGroup response").into());
            };
            // KIP-394: a new member is given an id first.
            if ErrorCode::from(answer.error_code) == ErrorCode::MemberIdRequired {
                self.id = answer.member_id;
                continue;
            }
            checked(answer.error_code)?;
            self.id = answer.member_id.clone();
            self.generation = answer.generation_id;
            return Ok(answer);
        }
    }

    async fn sync(&mut self, joined: &JoinGroupResponseData) -> Result<Vec<i32>, Ended> {
        let assignments = if joined.leader == self.id {
            self.share_out(joined)
        } else {
            Vec::new()
        };
        let request = SyncGroupRequestData::default()
            .with_group_id(self.group.clone())
            .with_generation_id(self.generation)
            .with_member_id(self.id.clone())
            .with_protocol_type(joined.protocol_type.clone())
            .with_protocol_name(joined.protocol_name.clone())
            .with_assignments(assignments);
        let answer = self.member.call(SYNC_GROUP, &request.into()).await?;
        let Response::SyncGroup(answer) = answer else {
            return Err(Error::Unexpected("a SyncGroup response").into());
        };
        checked(answer.error_code)?;
        Ok(partitions(answer.assignment).ok_or(Error::Unexpected("an assignment"))?)
    }

    /// Neighbouring partitions for each, as many as for the others or one more.
    fn share_out(&self, joined: &JoinGroupResponseData) -> Vec<SyncGroupRequestAssignment> {
        let options = &self.member.shared.options;
        let members = i64::try_from(joined.members.len()).expect("a few");
        let bound = |rank: i64| {
            let bound = i64::from(options.partitions) * rank / members;
            i32::try_from(bound).expect("below the partitions")
        };
        let shares = (0..).zip(&joined.members).map(|(rank, member)| {
            let partitions = (bound(rank)..bound(rank + 1)).collect();
            SyncGroupRequestAssignment::default()
                .with_member_id(member.member_id.clone())
                .with_assignment(assignment(&options.topic, partitions))
        });
        shares.collect()
    }

    async fn beat(&mut self) -> Result<(), Ended> {
        let request = HeartbeatRequestData::default()
            .with_group_id(self.group.clone())
            .with_generation_id(self.generation)
            .with_member_id(self.id.clone());
        match self.member.beat(HEARTBEAT, &request.into()).await? {
            Response::Heartbeat(answer) => checked(answer.error_code),
            _ => Err(Error::Unexpected("a Heartbeat response").into()),
        }
    }

    async fn leave(&mut self) -> Result<(), Ended> {
        let identity = MemberIdentity::default().with_member_id(self.id.clone());
        let request = LeaveGroupRequestData::default()
            .with_group_id(self.group.clone())
            .with_members(vec![identity]);
        let answer = self.member.call(LEAVE_GROUP, &request.into()).await?;
        match answer {
            Response::LeaveGroup(answer) => checked(answer.error_code),
            _ => Err(Error::Unexpected("a LeaveGroup response").into()),
        }
    }

    fn subscription(&self) -> Bytes {
        let topic = KafkaString::from(self.member.shared.options.topic.clone());
        let data = ConsumerProtocolSubscriptionData::default().with_topics(vec![topic]);
        let mut out = BytesMut::new();
        out.put_i16(CONSUMER_PROTOCOL);
        data.write(&mut out, CONSUMER_PROTOCOL).expect("one topic");
        out.freeze()
    }
}

fn assignment(topic: &str, partitions: Vec<i32>) -> Bytes {
    let topic = TopicPartition::default()
        .with_topic(KafkaString::from(topic.to_owned()))
        .with_partitions(partitions);
    let data = ConsumerProtocolAssignmentData::default().with_assigned_partitions(vec![topic]);
    let mut out = BytesMut::new();
    out.put_i16(CONSUMER_PROTOCOL);
    data.write(&mut out, CONSUMER_PROTOCOL).expect("one topic");
    out.freeze()
}

/// The partitions in an assignment; none when it cannot be read.
fn partitions(mut assignment: Bytes) -> Option<Vec<i32>> {
    if assignment.is_empty() {
        // The leader did not know of this member.
        return Some(Vec::new());
    }
    let version = assignment.try_get_i16().ok()?;
    let data = ConsumerProtocolAssignmentData::read(&mut assignment, version).ok()?;
    let topics = data.assigned_partitions.into_iter();
    Some(topics.flat_map(|it| it.partitions).collect())
}
