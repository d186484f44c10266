//! A consumer as clients are: it says what has changed, gives back before it takes, and begins anew when
//! it is fenced.

use alloc::string::String;
use alloc::vec::Vec;

use wire::ErrorCode;
use wire::group_records::Assignment;

use super::super::super::request::{ConsumerHeartbeat, ConsumerHeartbeatReply};
use super::super::super::{Reply, Request, Token};
use super::super::harness::*;

pub const REBALANCE_TIMEOUT_MS: u64 = 5_000;

pub struct Client {
    pub id: String,
    pub epoch: i32,
    pub instance_id: Option<String>,
    pub topic_names: Vec<String>,
    pub topic_regex: Option<String>,
    pub owned: Assignment,
    /// Its next heartbeat says all that it could say.
    pub says_all: bool,
}

impl Client {
    pub fn new(id: &str, topics: &[&str]) -> Self {
        Self {
            id: id.into(),
            epoch: 0,
            instance_id: None,
            topic_names: topics.iter().map(|it| String::from(*it)).collect(),
            topic_regex: None,
            owned: Assignment::new(),
            says_all: false,
        }
    }

    pub fn request(&self) -> ConsumerHeartbeat {
        let says_all = self.says_all || self.epoch == 0;
        ConsumerHeartbeat {
            group: GROUP.into(),
            member_id: self.id.clone(),
            epoch: self.epoch,
            instance_id: self.instance_id.clone(),
            rack_id: None,
            rebalance_timeout_ms: if says_all {
                REBALANCE_TIMEOUT_MS as i32
            } else {
                -1
            },
            topic_names: says_all.then(|| self.topic_names.clone()),
            topic_regex: self.topic_regex.clone().filter(|_| says_all),
            server_assignor: None,
            owned: Some(self.owned.clone()),
            client_id: "client".into(),
            client_host: "/here".into(),
        }
    }

    pub fn send(&mut self, bench: &mut Bench) -> Token {
        let request = self.request();
        self.says_all = false;
        bench.ask(Request::ConsumerHeartbeat(request))
    }

    /// A heartbeat whose answer is not heeded yet.
    pub fn ask(&mut self, bench: &mut Bench) -> Result<ConsumerHeartbeatReply, ErrorCode> {
        let token = self.send(bench);
        match bench.answer(token) {
            Some(Reply::ConsumerHeartbeat(reply)) => reply.map_err(|it| it.error),
            other => panic!("no answer to a heartbeat: {other:?}"),
        }
    }

    pub fn heed(&mut self, reply: &ConsumerHeartbeatReply) {
        self.epoch = reply.epoch;
        if let Some(assignment) = &reply.assignment {
            self.owned.clone_from(assignment);
        }
    }

    pub fn beat(&mut self, bench: &mut Bench) -> Result<ConsumerHeartbeatReply, ErrorCode> {
        let reply = self.ask(bench)?;
        self.heed(&reply);
        Ok(reply)
    }

    pub fn hear(&mut self, bench: &mut Bench, token: Token) -> Result<(), ErrorCode> {
        match bench.answer(token) {
            Some(Reply::ConsumerHeartbeat(Ok(reply))) => {
                self.heed(&reply);
                Ok(())
            }
            Some(Reply::ConsumerHeartbeat(Err(refusal))) => Err(refusal.error),
            other => panic!("no answer to a heartbeat: {other:?}"),
        }
    }

    pub fn leave(&mut self, bench: &mut Bench, epoch: i32) -> Result<(), ErrorCode> {
        let request = ConsumerHeartbeat {
            epoch,
            ..self.request()
        };
        let token = bench.ask(Request::ConsumerHeartbeat(request));
        match bench.answer(token) {
            Some(Reply::ConsumerHeartbeat(Ok(reply))) => {
                assert_eq!(reply.epoch, epoch);
                Ok(())
            }
            Some(Reply::ConsumerHeartbeat(Err(refusal))) => Err(refusal.error),
            other => panic!("no answer to a goodbye: {other:?}"),
        }
    }

    /// The topics that it has something of, whose ids are their names.
    pub fn topics(&self) -> Vec<&str> {
        let names = self
            .owned
            .keys()
            .map(|id| str::from_utf8(id).expect("a name"));
        names.map(|it| it.trim_end_matches('\0')).collect()
    }
}

pub fn count(assignment: &Assignment) -> usize {
    assignment.values().map(|it| it.len()).sum()
}
