//! A consumer by the classic protocol as clients are: it gives everything back before it joins again, or, if it
//! is cooperative, what it is no longer given afterwards; and it shares out when it leads.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use bytes::{BufMut, Bytes, BytesMut};
use wire::ErrorCode;
use wire::KafkaString;
use wire::messages::consumer_protocol_subscription::{
    ConsumerProtocolSubscriptionData, TopicPartition,
};

use super::super::super::embedded::{Given, Subscription, write_assignment};
use super::super::super::request::{Heartbeat, Identity, Join, JoinReply, Sync, SyncReply};
use super::super::super::{Reply, Request, Token};
use super::super::harness::*;

/// The topic that all read, and its partitions.
pub const TOPIC: &str = "t";
pub const PARTITIONS: i32 = 6;

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is to join.
    Out,
    /// It waits for the answer to its join.
    Joining(Token),
    /// It is to ask for what it has.
    Joined,
    /// It waits for the answer to its sync.
    Syncing(Token),
    Member,
    /// It waits for the answer to its heartbeat.
    Beating(Token),
}

pub struct Classic {
    pub id: String,
    pub instance_id: Option<String>,
    pub generation: i32,
    pub owned: BTreeSet<i32>,
    pub stage: Stage,
    pub cooperative: bool,
    /// Who has joined with what, if it leads.
    leads: Vec<(String, BTreeSet<i32>)>,
}

impl Classic {
    pub fn new() -> Self {
        Self {
            id: String::new(),
            instance_id: None,
            generation: -1,
            owned: BTreeSet::new(),
            stage: Stage::Out,
            cooperative: false,
            leads: Vec::new(),
        }
    }

    pub fn static_one(instance: &str) -> Self {
        Self {
            instance_id: Some(instance.into()),
            ..Self::new()
        }
    }

    pub fn cooperative() -> Self {
        Self {
            cooperative: true,
            ..Self::new()
        }
    }

    fn identity(&self) -> Identity {
        identity(&self.id, self.instance_id.as_deref())
    }

    pub fn join_request(&self, random: u64) -> Join {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&random.to_be_bytes());
        Join {
            identity: self.identity(),
            protocols: vec![("range".into(), subscription(&[TOPIC], &self.owned))],
            random: bytes,
            ..join("", None)
        }
    }

    /// Does what comes next; what it is answered is heeded as soon as it is there.
    pub fn act(&mut self, bench: &mut Bench) -> Result<(), ErrorCode> {
        match self.stage {
            Stage::Out => {
                if !self.cooperative {
                    self.owned.clear();
                }
                let request = Join {
                    id_required: true,
                    ..self.join_request(bench.next_number())
                };
                self.stage = Stage::Joining(bench.ask(Request::Join(request)));
            }
            Stage::Joined => self.stage = Stage::Syncing(self.ask_to_sync(bench)),
            Stage::Member => self.stage = Stage::Beating(self.ask_to_live(bench)),
            Stage::Joining(_) | Stage::Syncing(_) | Stage::Beating(_) => {}
        }
        self.hear(bench)
    }

    fn ask_to_sync(&mut self, bench: &mut Bench) -> Token {
        let assignments = share_out(&core::mem::take(&mut self.leads), self.cooperative);
        bench.ask(Request::Sync(Sync {
            group: GROUP.into(),
            identity: self.identity(),
            generation: self.generation,
            protocol_type: Some("consumer".into()),
            protocol: Some("range".into()),
            assignments,
        }))
    }

    fn ask_to_live(&self, bench: &mut Bench) -> Token {
        bench.ask(Request::Heartbeat(Heartbeat {
            group: GROUP.into(),
            identity: self.identity(),
            generation: self.generation,
        }))
    }

    /// A heartbeat whose answer is not heeded.
    pub fn heartbeat(&self, bench: &mut Bench) -> ErrorCode {
        let token = self.ask_to_live(bench);
        match bench.answer(token) {
            Some(Reply::Heartbeat(error)) => error,
            other => panic!("no answer to a heartbeat: {other:?}"),
        }
    }

    pub fn hear(&mut self, bench: &mut Bench) -> Result<(), ErrorCode> {
        let (Stage::Joining(token) | Stage::Syncing(token) | Stage::Beating(token)) = self.stage
        else {
            return Ok(());
        };
        match bench.answer(token) {
            None => Ok(()),
            Some(Reply::Join(reply)) => self.joined(reply),
            Some(Reply::Sync(Ok(reply))) => {
                self.synced(&reply);
                Ok(())
            }
            Some(Reply::Heartbeat(ErrorCode::None)) => {
                self.stage = Stage::Member;
                Ok(())
            }
            Some(Reply::Sync(Err(error)) | Reply::Heartbeat(error)) => self.refused(error),
            other => panic!("an answer to nothing that was asked: {other:?}"),
        }
    }

    fn joined(&mut self, reply: JoinReply) -> Result<(), ErrorCode> {
        match reply.error {
            None => {}
            Some(ErrorCode::MemberIdRequired) => {
                self.id = reply.member_id;
                self.stage = Stage::Out;
                return Ok(());
            }
            Some(error) => return self.refused(error),
        }
        self.leads = reply
            .members
            .into_iter()
            .map(|it| {
                let said = Subscription::read(it.metadata).expect("a subscription");
                (it.identity.member_id, of_topic(&said.owned))
            })
            .collect();
        (self.id, self.generation) = (reply.member_id, reply.generation);
        self.stage = Stage::Joined;
        Ok(())
    }

    fn synced(&mut self, reply: &SyncReply) {
        let given = Given::read(reply.assignment.clone()).expect("an assignment");
        let given = of_topic(&given.partitions);
        let gives_back = !self.owned.is_subset(&given);
        self.owned = given;
        self.stage = if self.cooperative && gives_back {
            Stage::Out
        } else {
            Stage::Member
        };
    }

    /// What it may go on from; anything else is an error.
    fn refused(&mut self, error: ErrorCode) -> Result<(), ErrorCode> {
        self.stage = Stage::Out;
        match error {
            ErrorCode::RebalanceInProgress => Ok(()),
            other => {
                self.generation = -1;
                self.owned.clear();
                Err(other)
            }
        }
    }
}

/// What members get: each partition goes to one of them in turn, or, where they are cooperative, stays with who
/// has it for now.
fn share_out(members: &[(String, BTreeSet<i32>)], cooperative: bool) -> Vec<(String, Bytes)> {
    let mut shares: Vec<Vec<i32>> = vec![Vec::new(); members.len()];
    for partition in 0..PARTITIONS {
        let Some(place) = (partition as usize).checked_rem(members.len()) else {
            break;
        };
        let has = members.iter().position(|it| it.1.contains(&partition));
        if !cooperative || has.is_none_or(|it| it == place) {
            shares[place].push(partition);
        }
    }
    let shares = members.iter().zip(shares).map(|((id, _), share)| {
        let version = Bytes::from_static(&[0, 3]);
        (
            id.clone(),
            write_assignment(vec![(TOPIC.into(), share)], &version),
        )
    });
    shares.collect()
}

fn of_topic(partitions: &[(String, Vec<i32>)]) -> BTreeSet<i32> {
    let of = partitions.iter().filter(|(topic, _)| topic == TOPIC);
    of.flat_map(|it| it.1.iter().copied()).collect()
}

pub fn subscription(topics: &[&str], owned: &BTreeSet<i32>) -> Bytes {
    let text = |text: &str| KafkaString::from(String::from(text));
    let owned = TopicPartition::default()
        .with_topic(text(TOPIC))
        .with_partitions(owned.iter().copied().collect());
    let data = ConsumerProtocolSubscriptionData::default()
        .with_topics(topics.iter().map(|it| text(it)).collect())
        .with_owned_partitions(vec![owned]);
    let mut out = BytesMut::new();
    out.put_i16(3);
    data.write(&mut out, 3).expect("short texts");
    out.freeze()
}
