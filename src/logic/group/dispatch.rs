//! From a request to the part of a group that takes it, by what kind of group it is. Knows nothing of what
//! they do with it.

use alloc::vec;

use wire::ErrorCode;

use super::consumer::JOIN;
use super::request::{Description, Refusal, Reply, Request, Token};
use super::state::Group;
use super::turn::Turn;

impl Group {
    pub(super) fn take(&mut self, token: Token, request: Request, turn: &mut Turn<'_>) {
        if self.is_of_consumers() {
            return self.take_as_consumers(token, request, turn);
        }
        match request {
            Request::ConsumerHeartbeat(request) => self.consumer_heartbeat(token, request, turn),
            Request::Join(request) => self.join(token, request, turn),
            Request::Sync(request) => self.sync(token, request, turn),
            Request::Heartbeat(request) => self.heartbeat(token, &request, turn),
            Request::Leave(request) => self.leave(token, &request, turn),
            Request::Commit(request) => self.commit(token, request, turn),
            Request::FetchOffsets(request) => {
                let found = self.fetch_offsets(request.topics.as_deref());
                turn.reply(token, Reply::FetchOffsets(Ok(found)));
            }
            Request::DeleteOffsets(_, topics) => self.delete_offsets(token, &topics, turn),
            Request::Describe(_) => turn.reply(token, Reply::Describe(Ok(self.describe()))),
            Request::DescribeConsumers(_) => {
                let reply = Reply::DescribeConsumers(self.describe_consumers(turn));
                turn.reply(token, reply);
            }
            Request::Delete(_) => self.delete(token, turn),
        }
    }

    /// The same of a group of consumers by the new protocol.
    fn take_as_consumers(&mut self, token: Token, request: Request, turn: &mut Turn<'_>) {
        match request {
            Request::ConsumerHeartbeat(request) => self.consumer_heartbeat(token, request, turn),
            Request::Join(_)
            | Request::Sync(_)
            | Request::Heartbeat(_)
            | Request::Leave(_)
            | Request::Delete(_) => self.queue(token, request, turn),
            Request::Commit(request) => self.commit(token, request, turn),
            Request::FetchOffsets(request) => {
                let checked = match &request.member {
                    Some((member_id, epoch)) => self.check_member_epoch(member_id, *epoch),
                    None => Ok(()),
                };
                let found = checked.map(|()| self.fetch_offsets(request.topics.as_deref()));
                turn.reply(token, Reply::FetchOffsets(found));
            }
            Request::DeleteOffsets(_, topics) => self.delete_offsets(token, &topics, turn),
            Request::Describe(_) => {
                let description = if self.is_told_as_consumers() {
                    Description::dead()
                } else {
                    self.describe()
                };
                turn.reply(token, Reply::Describe(Ok(description)));
            }
            Request::DescribeConsumers(_) => {
                let reply = Reply::DescribeConsumers(self.describe_consumers(turn));
                turn.reply(token, reply);
            }
        }
    }
}

/// The answer about a group that does not exist; none where the request makes one.
pub(super) fn without_group(request: &Request) -> Option<Reply> {
    Some(match request {
        Request::Join(join) if join.identity.member_id.is_empty() => return None,
        Request::Commit(commit) if commit.generation < 0 => return None,
        Request::Commit(commit) => request.refused(commit.unknown_group),
        Request::ConsumerHeartbeat(heartbeat) if heartbeat.epoch == JOIN => return None,
        Request::ConsumerHeartbeat(heartbeat) => {
            Reply::ConsumerHeartbeat(Err(Refusal::no_group(&heartbeat.group)))
        }
        Request::Join(_) | Request::Sync(_) | Request::Heartbeat(_) => {
            request.refused(ErrorCode::UnknownMemberId)
        }
        Request::Leave(leave) => {
            Reply::Leave(Ok(vec![ErrorCode::UnknownMemberId; leave.members.len()]))
        }
        Request::FetchOffsets(fetch) => {
            let nothing = Group::new(&fetch.group, 0).fetch_offsets(fetch.topics.as_deref());
            Reply::FetchOffsets(Ok(nothing))
        }
        Request::Describe(_) => Reply::Describe(Ok(Description::dead())),
        Request::DescribeConsumers(group) => {
            Reply::DescribeConsumers(Err(Refusal::no_group(group)))
        }
        Request::DeleteOffsets(..) | Request::Delete(_) => {
            request.refused(ErrorCode::GroupIdNotFound)
        }
    })
}
