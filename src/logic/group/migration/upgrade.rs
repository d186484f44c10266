//! From the classic protocol to the new one: the group's members as members of a group of consumers, who have
//! what their leader gave them last. Knows nothing of how they go on.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use wire::ErrorCode;
use wire::group_records::{
    Assignment, ClassicValue, ConsumerRecord, ConsumerValue, CurrentValue, MemberState,
    MetadataValue, TargetMetadataValue, TopicUuid,
};

use crate::group::classic::members::Member;
use crate::group::consumer::Consumers;
use crate::group::consumer::round::Round;
use crate::group::consumer::topics::Topics;
use crate::group::embedded::{Given, Subscription};
use crate::group::request::{ConsumerHeartbeat, Refusal, Reply, Token};
use crate::group::state::{CONSUMER, Group};
use crate::group::turn::Turn;

impl Group {
    /// A first member by the new protocol joins members by the classic one.
    pub(in crate::group) fn upgrade(
        &mut self,
        token: Token,
        request: ConsumerHeartbeat,
        turn: &mut Turn<'_>,
    ) {
        let records = if turn.appends.group(&self.id) {
            // What members are about to have is on its way to the log: this may be asked again.
            Err(ErrorCode::CoordinatorLoadInProgress.into())
        } else {
            self.as_consumers(turn)
        };
        let mut round = Round::new(&self.id);
        let let_in = records.and_then(|records| {
            for record in records {
                self.consumers.write(&mut round, record);
            }
            // Members are to share anew by the coordinator's assignors, whoever comes.
            round.changed = true;
            self.consumers.heartbeat(&mut round, token, request, turn)
        });
        if let Err(refusal) = let_in {
            self.consumers = Consumers::default();
            return turn.reply(token, Reply::ConsumerHeartbeat(Err(refusal)));
        }
        for member in self.members.iter() {
            self.consumers.heard(&member.identity.member_id, turn);
        }
        self.decide(round, turn);
    }

    /// The group as one of consumers, whose epoch is the generation.
    fn as_consumers(&self, turn: &Turn<'_>) -> Result<Vec<ConsumerRecord>, Refusal> {
        let settings = &turn.settings.consumer;
        if !settings.migration.allows_upgrade() {
            return Err(self.stays("the migration policy does not allow it"));
        }
        if self.protocol_type.as_deref() != Some(CONSUMER) {
            return Err(self.stays("its members are no consumers"));
        }
        if self.members.len() > settings.size_max {
            return Err(self.stays("it has more members than a consumer group may have"));
        }
        let epoch = self.generation;
        let metadata_hash = 0;
        let metadata = MetadataValue {
            epoch,
            metadata_hash,
        };
        // The epoch comes first: it outlives a log that takes only the first of many records.
        let mut records = Vec::from([ConsumerRecord::Metadata(Some(metadata))]);
        let timestamp = turn.now.wall.0;
        let targets = TargetMetadataValue { epoch, timestamp };
        records.push(ConsumerRecord::TargetMetadata(Some(targets)));
        for (id, value, has) in self.members_as_consumers(turn.topics)? {
            let current = CurrentValue {
                epoch,
                previous_epoch: epoch,
                state: MemberState::Stable,
                assigned: has.clone(),
                pending_revocation: Assignment::new(),
            };
            records.extend([
                ConsumerRecord::Member(id.clone(), Some(value)),
                ConsumerRecord::Target(id.clone(), Some(has)),
                ConsumerRecord::Current(id, Some(current)),
            ]);
        }
        Ok(records)
    }

    /// The members, each with what it has: what its leader gave it last, and what it has said that it has while
    /// nobody was given that. It may have missed what came after that.
    fn members_as_consumers(
        &self,
        topics: &Topics,
    ) -> Result<Vec<(String, ConsumerValue, Assignment)>, Refusal> {
        let mut found = Vec::new();
        let mut claims = Vec::new();
        let mut taken = BTreeSet::new();
        for member in self.members.iter() {
            let (said, given) = self.words_of(member)?;
            let has = topics.by_id(&given.partitions);
            taken.extend(each(&has));
            claims.push(topics.by_id(&said.owned));
            let id = member.identity.member_id.clone();
            found.push((id, as_consumer(member, said), has));
        }
        for ((_, _, has), claimed) in found.iter_mut().zip(&claims) {
            for (topic, index) in each(claimed) {
                if taken.insert((topic, index)) {
                    has.entry(topic).or_default().insert(index);
                }
            }
        }
        Ok(found)
    }

    /// What a member has said, and what it was given.
    fn words_of(&self, member: &Member) -> Result<(Subscription, Given), Refusal> {
        // Before the first generation there is no protocol that all follow.
        let first = || member.protocols.first().map(|(_, said)| said.clone());
        let said = match &self.protocol {
            Some(_) => member.metadata(self.protocol.as_deref()),
            None => first().unwrap_or_default(),
        };
        let given = Given::read(member.assignment.clone());
        let (Some(said), Some(given)) = (Subscription::read(said), given) else {
            return Err(self.stays("what a member says or has cannot be read"));
        };
        if given.has_user_data {
            return Err(self.stays("its assignor tells members more than their partitions"));
        }
        Ok((said, given))
    }

    fn stays(&self, why: &str) -> Refusal {
        let text = format!("Group {} stays a classic group: {why}.", self.id);
        Refusal::new(ErrorCode::GroupIdNotFound, text)
    }
}

fn as_consumer(member: &Member, said: Subscription) -> ConsumerValue {
    let mut topic_names = said.topics;
    topic_names.sort_unstable();
    topic_names.dedup();
    ConsumerValue {
        instance_id: member.identity.instance_id.clone(),
        rack_id: said.rack_id,
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        topic_names,
        topic_regex: None,
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        server_assignor: None,
        classic: Some(ClassicValue {
            session_timeout_ms: member.session_timeout_ms,
            protocols: member.protocols.clone(),
        }),
    }
}

fn each(assignment: &Assignment) -> impl Iterator<Item = (TopicUuid, i32)> + '_ {
    let topics = assignment.iter();
    topics.flat_map(|(topic, partitions)| partitions.iter().map(move |it| (*topic, *it)))
}
