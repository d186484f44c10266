//! What was promised, as told by requests, answers and records alone: it watches what passes and panics when a
//! promise is broken (invariants 17 and 25). Knows nothing of how a group decides.
//!
//! A member is *sure* while nothing can have put it out: the last answer that let it in was to a request less
//! than a session old, it has not said goodbye since, and it owes no partition for longer than it may.

use std::collections::{BTreeMap, BTreeSet};

use simulated_groups::group::request::{
    Commit, ConsumerHeartbeat, ConsumerHeartbeatReply, FetchedTopic, Identity, Join, JoinReply,
};
use simulated_groups::group::{Reply, Request, Token};
use wire::ErrorCode;
use wire::group_records::{Assignment, ConsumerRecord, GroupRecord, TopicUuid};

use crate::classic::read_share;
use crate::log::{Log, Offsets};
use crate::scene::{
    CLASSIC, CONSUMERS, GROUPS, READ, REBALANCE_MS, RETENTION_MS, SESSION_MS, wall_ms,
};

/// A request that a node has, and has not answered.
#[derive(Clone, Debug)]
pub struct Asked {
    pub node: usize,
    /// Who waits for the answer, and under which number; nobody of a copy.
    pub client: Option<(usize, u64)>,
    pub request: Request,
    at_ms: u64,
    /// The number of the last append before it.
    appends: u64,
    /// Whoever asks is a static member's old incarnation.
    is_fenced: bool,
}

/// What is known of a member from answers.
#[derive(Clone, Debug, Default)]
struct Known {
    group: &'static str,
    instance: Option<String>,
    heard_ms: u64,
    /// Since when it owes partitions.
    revoking_since_ms: Option<u64>,
}

/// A commit that was sent: each is of another offset.
struct Committed {
    commit: Commit,
    /// Why it must not count.
    wrong: Option<&'static str>,
}

/// One group since it was last forgotten.
#[derive(Default)]
struct Life {
    number: u32,
    /// The newest generation that a member was told of, by this coordinator.
    generation: i32,
    /// When it had a member for certain.
    alive_ms: Option<u64>,
}

/// A partition in a generation, or in the epoch of the member that has it, in a group's life.
type Place = (&'static str, u32, i32, i32);

#[derive(Default)]
pub struct Oracle {
    asked: BTreeMap<Token, Asked>,
    known: BTreeMap<String, Known>,
    lives: BTreeMap<&'static str, Life>,
    /// Of consumers, the epoch that each was told last.
    epochs: BTreeMap<String, i32>,
    /// Static members' ids as they were told last.
    statics: BTreeMap<(&'static str, String), String>,
    commits: BTreeMap<i64, Committed>,
    /// Who was ever given what: static members by their own names.
    given: BTreeMap<Place, String>,
    /// Which consumer may have a partition.
    granted: BTreeMap<(TopicUuid, i32), String>,
    /// The topic that is deleted at this moment, or was while the partition loaded.
    pub deleted_topic: Option<&'static str>,
    pub acknowledged: u64,
    pub expired: u64,
    pub deleted: u64,
}

impl Oracle {
    /// A node takes a request.
    pub fn asks(
        &mut self,
        at_ms: u64,
        appends: u64,
        token: Token,
        (node, client): (usize, Option<(usize, u64)>),
        request: Request,
    ) {
        let is_fenced = self.is_fenced(&request);
        match &request {
            Request::Join(join) => self.may_replace(join),
            Request::Leave(leave) => {
                for identity in &leave.members {
                    self.known.remove(&identity.member_id);
                }
            }
            Request::ConsumerHeartbeat(beat) => {
                // A coordinator may die between what it makes of that and its answer.
                self.has_only(beat);
                if beat.epoch < 0 {
                    self.known.remove(&beat.member_id);
                }
            }
            Request::Commit(commit) => self.judge(at_ms, commit, is_fenced),
            _ => {}
        }
        let asked = Asked {
            node,
            client,
            request,
            at_ms,
            appends,
            is_fenced,
        };
        self.asked.insert(token, asked);
    }

    /// A member has nothing but what it says.
    fn has_only(&mut self, beat: &ConsumerHeartbeat) {
        let member = &beat.member_id;
        let owned = beat.owned.as_ref().filter(|_| beat.epoch >= 0);
        self.granted.retain(|partition, owner| {
            owner != member || owned.is_some_and(|it| has(it, partition))
        });
    }

    /// A join without an id takes a static member's place.
    fn may_replace(&mut self, join: &Join) {
        let Identity {
            member_id,
            instance_id: Some(instance),
        } = &join.identity
        else {
            return;
        };
        if member_id.is_empty() {
            self.known
                .retain(|_, it| it.group != CLASSIC || it.instance.as_ref() != Some(instance));
        }
    }

    /// Whether a request is of a static member that has another id by now.
    fn is_fenced(&self, request: &Request) -> bool {
        let (group, identity) = match request {
            Request::Join(it) => (CLASSIC, &it.identity),
            Request::Sync(it) => (CLASSIC, &it.identity),
            Request::Heartbeat(it) => (CLASSIC, &it.identity),
            Request::Commit(it) => (name(&it.group), &it.identity),
            Request::ConsumerHeartbeat(it) if it.epoch != 0 => {
                let identity = Identity {
                    member_id: it.member_id.clone(),
                    instance_id: it.instance_id.clone(),
                };
                return self.is_old(CONSUMERS, &identity);
            }
            _ => return false,
        };
        self.is_old(group, identity)
    }

    fn is_old(&self, group: &'static str, identity: &Identity) -> bool {
        let Some(instance) = identity.instance_id.clone() else {
            return false;
        };
        let known = self.statics.get(&(group, instance));
        !identity.member_id.is_empty() && known.is_some_and(|it| *it != identity.member_id)
    }

    /// Whether a commit may count, as far as its sender can know.
    fn judge(&mut self, at_ms: u64, commit: &Commit, is_fenced: bool) {
        let group = name(&commit.group);
        let member = &commit.identity.member_id;
        let told = if group == CLASSIC {
            self.lives.get(group).map_or(0, |it| it.generation)
        } else {
            self.epochs.get(member).copied().unwrap_or(0)
        };
        let wrong = if commit.generation < 0 {
            self.a_sure_member(group, at_ms)
                .map(|_| "from outside while there are members")
        } else if is_fenced {
            Some("of a static member's old incarnation")
        } else if commit.generation < told {
            Some("of an old generation")
        } else {
            None
        };
        let offset = commit.offsets[0].offset;
        let commit = commit.clone();
        self.commits.insert(offset, Committed { commit, wrong });
    }

    /// A coordinator has records for the log.
    pub fn appends(&mut self, at_ms: u64, log: &Log, records: &[GroupRecord]) {
        for record in records {
            let GroupRecord::Offset {
                group,
                topic,
                partition,
                value,
            } = record
            else {
                continue;
            };
            match value {
                Some(value) => {
                    let sent = self.commits.get(&value.offset);
                    let sent = sent.unwrap_or_else(|| panic!("{record:?} was never committed"));
                    let item = &sent.commit.offsets[0];
                    let same = (&sent.commit.group, &item.topic, item.partition);
                    assert_eq!(same, (group, topic, *partition), "{record:?} is of another");
                    if let Some(wrong) = sent.wrong {
                        panic!("a commit {wrong} counts: {:?}", sent.commit);
                    }
                }
                None => self.forgets(at_ms, log, name(group), (topic, *partition)),
            }
        }
    }

    /// An offset may be forgotten when somebody asks for it, or by its age.
    fn forgets(&mut self, at_ms: u64, log: &Log, group: &'static str, of: (&String, i32)) {
        let (topic, partition) = of;
        let asked_for = self.asked.values().any(|it| match &it.request {
            Request::Delete(deleted) => deleted == group,
            Request::DeleteOffsets(deleted, topics) => {
                let covers = |(name, partitions): &(String, Vec<i32>)| {
                    name == topic && partitions.contains(&partition)
                };
                deleted == group && topics.iter().any(covers)
            }
            _ => false,
        });
        if asked_for || self.deleted_topic.is_some_and(|it| it == topic) {
            return;
        }
        let offsets = log.offsets(group);
        let value = offsets.get(&(topic.clone(), partition));
        let value = value.unwrap_or_else(|| panic!("{topic}-{partition} expires and is not there"));
        let (now, retention) = (wall_ms(at_ms), RETENTION_MS as i64);
        let is_old = value.commit_timestamp + retention <= now;
        let alive_ms = self.lives.get(group).and_then(|it| it.alive_ms);
        let member = self.a_sure_member(group, at_ms);
        let is_due = match (group, topic.as_str()) {
            (CONSUMERS, READ) => is_old && member.is_none(),
            (CONSUMERS, _) => is_old,
            // The age of an empty group's offsets is how long it has been empty.
            (_, topic) => {
                let was_group = log.group(group).is_some();
                let long_empty = alive_ms.map_or(was_group, |it| wall_ms(it) + retention <= now);
                let unread = topic != READ || (alive_ms.is_none() && member.is_none());
                (is_old && unread) || (member.is_none() && long_empty)
            }
        };
        assert!(
            is_due,
            "the offset of {topic}-{partition} expires though {member:?} lives in {group}, or did at {alive_ms:?}"
        );
        self.expired += 1;
    }

    /// Records are durable.
    pub fn durable(&mut self, records: &[GroupRecord]) {
        for record in records {
            let forgotten = matches!(
                record,
                GroupRecord::Group { value: None, .. }
                    | GroupRecord::Consumer {
                        record: ConsumerRecord::Metadata(None),
                        ..
                    }
            );
            if forgotten {
                let group = name(record.group());
                let number = self.lives.get(group).map_or(0, |it| it.number);
                let life = Life {
                    number: number + 1,
                    ..Life::default()
                };
                self.lives.insert(group, life);
            }
        }
    }

    /// A node answers. Returns what it was asked.
    pub fn answers(&mut self, at_ms: u64, log: &Log, token: Token, reply: &Reply) -> Asked {
        let asked = self.asked.remove(&token);
        let asked = asked.unwrap_or_else(|| panic!("{token:?} was answered twice: {reply:?}"));
        match (&asked.request, reply) {
            (Request::Join(join), Reply::Join(reply)) => match reply.error {
                None => {
                    self.obeyed(&asked);
                    self.joined(join, reply);
                }
                Some(error) => self.refused(at_ms, &join.identity.member_id, error),
            },
            (Request::Sync(sync), Reply::Sync(Ok(reply))) => {
                self.obeyed(&asked);
                self.heard_classic(at_ms, &sync.identity);
                self.gets(
                    &sync.identity,
                    sync.generation,
                    read_share(&reply.assignment),
                );
            }
            (Request::Sync(sync), Reply::Sync(Err(error))) => {
                self.refused(at_ms, &sync.identity.member_id, *error);
            }
            (Request::Heartbeat(beat), Reply::Heartbeat(ErrorCode::None)) => {
                self.obeyed(&asked);
                self.heard_classic(at_ms, &beat.identity);
            }
            (Request::Heartbeat(beat), Reply::Heartbeat(error)) => {
                if *error == ErrorCode::RebalanceInProgress {
                    self.obeyed(&asked);
                }
                self.refused(at_ms, &beat.identity.member_id, *error);
            }
            (Request::Commit(commit), Reply::Commit(errors)) => match errors[0] {
                ErrorCode::None => self.acknowledges(log, commit),
                error => self.refused(at_ms, &commit.identity.member_id, error),
            },
            (Request::ConsumerHeartbeat(beat), Reply::ConsumerHeartbeat(Ok(reply))) => {
                self.obeyed(&asked);
                self.heard_consumer(at_ms, asked.at_ms, beat, reply);
            }
            (Request::ConsumerHeartbeat(beat), Reply::ConsumerHeartbeat(Err(refusal))) => {
                self.refused(at_ms, &beat.member_id, refusal.error);
            }
            (Request::FetchOffsets(fetch), Reply::FetchOffsets(Ok(topics))) => {
                let found = offsets_of(topics);
                assert_eq!(
                    found,
                    log.offsets(&fetch.group),
                    "what is fetched is not so"
                );
            }
            (Request::Delete(group), Reply::Delete(ErrorCode::None)) => {
                let member = self.a_sure_member(name(group), at_ms);
                assert_eq!(member, None, "a group that lives is deleted");
                let left = log.older(group, asked.appends);
                assert_eq!(left, None, "a group that was deleted is not gone");
                self.deleted += 1;
            }
            (Request::DeleteOffsets(..), Reply::DeleteOffsets(Ok(results))) => {
                self.deletes_offsets(at_ms, log, &asked, results);
            }
            _ => {}
        }
        asked
    }

    /// What was asked by a static member's old incarnation must not be done.
    fn obeyed(&self, asked: &Asked) {
        let request = &asked.request;
        assert!(
            !asked.is_fenced,
            "a static member's old incarnation is obeyed: {request:?}"
        );
    }

    /// A member is told an error.
    fn refused(&mut self, at_ms: u64, member: &str, error: ErrorCode) {
        let is_out = matches!(
            error,
            ErrorCode::UnknownMemberId | ErrorCode::GroupIdNotFound
        );
        if is_out {
            assert!(
                !self.is_sure(member, at_ms),
                "{member} is put out before its session is over"
            );
            self.known.remove(member);
            self.granted.retain(|_, owner| owner != member);
        }
    }

    fn joined(&mut self, join: &Join, reply: &JoinReply) {
        let life = self.lives.entry(CLASSIC).or_default();
        life.generation = life.generation.max(reply.generation);
        if let Some(instance) = &join.identity.instance_id {
            let place = (CLASSIC, instance.clone());
            self.statics.insert(place, reply.member_id.clone());
        }
    }

    fn heard_classic(&mut self, at_ms: u64, identity: &Identity) {
        self.lives.entry(CLASSIC).or_default().alive_ms = Some(at_ms);
        let known = Known {
            group: CLASSIC,
            instance: identity.instance_id.clone(),
            heard_ms: at_ms,
            revoking_since_ms: None,
        };
        self.known.insert(identity.member_id.clone(), known);
    }

    /// No two members get one partition in one generation, and none what another generation has shared out.
    fn gets(&mut self, identity: &Identity, generation: i32, share: Option<(i32, Vec<i32>)>) {
        let Some((shared_in, partitions)) = share else {
            return;
        };
        assert_eq!(
            shared_in, generation,
            "a share of another generation is given to {identity:?}"
        );
        let owner = identity.instance_id.as_ref().unwrap_or(&identity.member_id);
        for partition in partitions {
            self.gives(CLASSIC, generation, partition, owner);
        }
    }

    fn gives(&mut self, group: &'static str, generation: i32, partition: i32, to: &String) {
        let life = self.lives.entry(group).or_default().number;
        let place = (group, life, generation, partition);
        let owner = self.given.entry(place).or_insert_with(|| to.clone());
        assert_eq!(
            owner, to,
            "{READ}-{partition} has two owners in generation {generation} of {group}"
        );
    }

    fn acknowledges(&mut self, log: &Log, commit: &Commit) {
        let item = &commit.offsets[0];
        assert!(
            log.has_committed(item.offset),
            "{commit:?} is acknowledged and not in the log"
        );
        self.acknowledged += 1;
    }

    /// A member has what it is given now. Nobody else may have any of it who is sure to be a member.
    fn heard_consumer(
        &mut self,
        at_ms: u64,
        asked_ms: u64,
        beat: &ConsumerHeartbeat,
        reply: &ConsumerHeartbeatReply,
    ) {
        // Again: an older request may have been answered meanwhile.
        self.has_only(beat);
        let member = &beat.member_id;
        if beat.epoch < 0 {
            self.known.remove(member);
            return;
        }
        self.epochs.insert(member.clone(), reply.epoch);
        if let Some(instance) = &beat.instance_id {
            let place = (CONSUMERS, instance.clone());
            self.statics.insert(place, member.clone());
        }
        let nothing = Assignment::new();
        let owned = beat.owned.as_ref().unwrap_or(&nothing);
        let owner = beat.instance_id.as_ref().unwrap_or(member);
        for (topic, index) in reply.assignment.iter().flat_map(each) {
            self.gives(CONSUMERS, reply.epoch, index, owner);
            let before = self.granted.insert((topic, index), member.clone());
            if let Some(before) = before.filter(|it| it != member) {
                assert!(
                    !self.is_sure(&before, at_ms),
                    "{READ}-{index} is given to {member} while {before} has it"
                );
            }
        }
        let owes = reply.assignment.as_ref();
        let owes = owes.map(|told| each(owned).any(|it| !has(told, &it)));
        let before = self.known.get(member).and_then(|it| it.revoking_since_ms);
        let known = Known {
            group: CONSUMERS,
            instance: beat.instance_id.clone(),
            heard_ms: asked_ms,
            revoking_since_ms: match owes {
                Some(true) => before.or(Some(asked_ms)),
                Some(false) => None,
                None => before,
            },
        };
        self.known.insert(member.clone(), known);
        self.count_in_what_is_unanswered(member);
    }

    /// A member is what it said last, whether or not that was answered: the coordinator may go by it already.
    fn count_in_what_is_unanswered(&mut self, member: &str) {
        let unanswered = self.asked.values().filter_map(|it| match &it.request {
            Request::ConsumerHeartbeat(beat) if beat.member_id == member => Some(beat.clone()),
            _ => None,
        });
        let unanswered: Vec<ConsumerHeartbeat> = unanswered.collect();
        for beat in unanswered {
            self.has_only(&beat);
            if beat.epoch < 0 {
                self.known.remove(member);
            }
        }
    }

    fn deletes_offsets(&self, at_ms: u64, log: &Log, asked: &Asked, results: &[Vec<ErrorCode>]) {
        let Request::DeleteOffsets(group, topics) = &asked.request else {
            return;
        };
        for ((topic, partitions), results) in topics.iter().zip(results) {
            if results[0] != ErrorCode::None {
                continue;
            }
            let member = self.a_sure_member(name(group), at_ms);
            assert!(
                topic != READ || member.is_none(),
                "offsets of {topic} are deleted though {member:?} reads it"
            );
            for partition in partitions {
                let left = log.older_offset(group, (topic.as_str(), *partition), asked.appends);
                assert_eq!(left, None, "an offset that was deleted is not gone");
            }
        }
    }

    fn is_sure(&self, member: &str, at_ms: u64) -> bool {
        self.known.get(member).is_some_and(|it| {
            let owes_long = |since: u64| since + REBALANCE_MS <= at_ms;
            it.heard_ms + SESSION_MS > at_ms && !it.revoking_since_ms.is_some_and(owes_long)
        })
    }

    fn a_sure_member(&self, group: &str, at_ms: u64) -> Option<&String> {
        let members = self.known.iter().filter(|(_, it)| it.group == group);
        let mut ids = members.map(|(id, _)| id);
        ids.find(|id| self.is_sure(id, at_ms))
    }

    /// A node has died: it answers nothing that it was asked.
    pub fn died(&mut self, node: usize) {
        self.asked.retain(|_, it| it.node != node);
    }

    /// What a node still owes answers to.
    pub fn owed(&self, node: usize) -> Vec<&Asked> {
        self.asked.values().filter(|it| it.node == node).collect()
    }

    /// Another coordinator knows what the log says, and nothing else.
    pub fn loaded(&mut self, at_ms: u64, log: &Log) {
        let consumers = log.consumers(CONSUMERS);
        let currents = log.currents(CONSUMERS);
        let group = log.group(CLASSIC);
        let members = || group.into_iter().flat_map(|it| &it.members);
        let ids: BTreeSet<&str> = members()
            .map(|it| it.member_id.as_str())
            .chain(consumers.keys().copied())
            .collect();
        self.known.retain(|id, _| ids.contains(id.as_str()));
        self.lives.entry(CLASSIC).or_default().generation = group.map_or(0, |it| it.generation);
        self.epochs.clear();
        for (id, current) in currents {
            self.epochs.insert(id.into(), current.epoch.max(0));
            if let Some(known) = self.known.get_mut(id)
                && !current.pending_revocation.is_empty()
            {
                known.revoking_since_ms.get_or_insert(at_ms);
            }
        }
        let classic = members().filter_map(|it| {
            let instance = it.instance_id.clone()?;
            Some(((CLASSIC, instance), it.member_id.clone()))
        });
        let consumers = consumers.iter().filter_map(|(id, it)| {
            let instance = it.instance_id.clone()?;
            Some(((CONSUMERS, instance), String::from(*id)))
        });
        self.statics = classic.chain(consumers).collect();
    }
}

/// The group of this name.
fn name(group: &str) -> &'static str {
    let known = GROUPS.into_iter().find(|it| *it == group);
    known.unwrap_or_else(|| panic!("there is no group {group}"))
}

fn each(assignment: &Assignment) -> impl Iterator<Item = (TopicUuid, i32)> + '_ {
    let topics = assignment.iter();
    topics.flat_map(|(topic, partitions)| partitions.iter().map(move |it| (*topic, *it)))
}

fn has(assignment: &Assignment, partition: &(TopicUuid, i32)) -> bool {
    let partitions = assignment.get(&partition.0);
    partitions.is_some_and(|it| it.contains(&partition.1))
}

/// What was fetched, as the log says it.
pub fn offsets_of(topics: &[FetchedTopic]) -> Offsets {
    let partitions = topics.iter().flat_map(|(topic, partitions)| {
        let committed = partitions.iter();
        committed.filter_map(|(index, value)| Some(((topic.clone(), *index), value.clone()?)))
    });
    partitions.collect()
}
