//! From a frame to a reply: one match over the served APIs, one file per API. Knows neither sockets
//! nor files; partitions are reached through the shard.

mod api_versions;
mod metadata;

mod fetch;
mod list_offsets;
mod offset_for_leader_epoch;
mod produce;

mod create_partitions;
mod create_topics;
mod delete_records;
mod delete_topics;

mod alter_configs;
mod alter_replica_log_dirs;
mod describe_configs;

mod describe_cluster;
mod describe_log_dirs;
mod describe_producers;
mod describe_topic_partitions;
mod init_producer_id;

mod find_coordinator;
mod heartbeat;
mod join_group;
mod leave_group;
mod sync_group;

mod consumer_group_describe;
mod consumer_group_heartbeat;

mod offset_commit;
mod offset_delete;
mod offset_fetch;

mod delete_groups;
mod describe_groups;

mod list_config_resources;
mod list_groups;

mod groups;
mod topics;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use wire::ErrorCode;
use wire::header::{self, RequestHeader};
use wire::request::Request;
use wire::response::{self, Response};
use wire::version;

use crate::shard::Shard;
use crate::shard::mail::Chunk;

/// What is known of the client at the other end of a connection.
pub struct Client {
    /// Its address.
    pub peer: SocketAddr,
    /// The local address that it connected to: advertised unless another one is set.
    pub local: SocketAddr,
    /// What it calls its software (KIP-511), once it has said so.
    pub software: RefCell<Option<String>>,
}

impl Client {
    /// A client that has said nothing yet.
    pub fn new(peer: SocketAddr, local: SocketAddr) -> Self {
        Self {
            peer,
            local,
            software: RefCell::new(None),
        }
    }
}

/// What a request came to.
pub enum Handled {
    /// Send this.
    Reply(Vec<Chunk>),
    /// The client expects nothing (a produce with acks=0).
    Nothing,
    /// Close the connection: the request could not be understood, or its failure can be told in no
    /// other way.
    Close,
}

/// A request that is in the broker; its reply comes later.
pub type Pending = Pin<Box<dyn Future<Output = Handled>>>;

/// A request after its first stage. The connection may read the next one.
pub enum Started {
    /// Answered already.
    Done(Handled),
    /// Enqueued where order matters; the rest is in the future.
    Pending(Pending),
}

/// One request with its header, on its way through a handler.
pub struct Context {
    /// The shard that serves the connection.
    pub shard: Rc<Shard>,
    /// Who asks.
    pub client: Rc<Client>,
    /// The request's header.
    pub header: RequestHeader,
}

impl Context {
    /// Encodes a response in the request's version.
    pub fn reply(&self, response: &Response) -> Handled {
        let RequestHeader {
            api_version,
            correlation_id,
            ..
        } = self.header;
        match response::encode(api_version, correlation_id, response) {
            Ok(frame) => Handled::Reply(vec![Chunk::Memory(frame)]),
            Err(error) => {
                eprintln!(
                    "error: a response to {:?} cannot be encoded: {error}",
                    self.header
                );
                Handled::Close
            }
        }
    }
}

/// Whether a request may be taken in while others of its connection are in the broker still: a produce behind
/// other produces. All else sees what those before it have done, as in Kafka.
pub fn is_pipelined(frame: &[u8]) -> bool {
    header::peek(frame).is_some_and(|peek| peek.api_key == version::PRODUCE)
}

/// Takes a frame in. Returns once everything whose order matters is enqueued.
pub async fn start(shard: &Rc<Shard>, client: &Rc<Client>, mut frame: Bytes) -> Started {
    let Some(peek) = header::peek(&frame) else {
        eprintln!(
            "warning: {} sent a frame too short for a header",
            client.peer
        );
        return Started::Done(Handled::Close);
    };
    let served = version::range(peek.api_key);
    if !served.is_some_and(|served| served.accepts(peek.api_version)) {
        return Started::Done(unsupported(client, &peek, &frame));
    }
    let header = match header::decode(&mut frame) {
        Ok(header) => header,
        Err(error) => {
            eprintln!(
                "warning: {} sent an unreadable header: {error}",
                client.peer
            );
            return Started::Done(Handled::Close);
        }
    };
    let request = match Request::decode(&header, frame) {
        Ok(request) => request,
        Err(error) => {
            let api = header.api_key;
            eprintln!(
                "warning: {} sent an unreadable request (API {api}): {error}",
                client.peer
            );
            return Started::Done(error_reply(&header, ErrorCode::InvalidRequest));
        }
    };
    let context = Context {
        shard: shard.clone(),
        client: client.clone(),
        header,
    };
    match request {
        Request::Produce(request) => produce::start(context, request).await,
        request => Started::Pending(Box::pin(dispatch(context, request))),
    }
}

fn unsupported(client: &Client, peek: &header::Peek, frame: &Bytes) -> Handled {
    if peek.api_key == version::API_VERSIONS {
        let frame = response::unsupported_api_versions(peek.correlation_id);
        return Handled::Reply(vec![Chunk::Memory(frame)]);
    }
    if let Some(refusal) = wire::retired::refuse(frame) {
        return Handled::Reply(vec![Chunk::Memory(refusal)]);
    }
    let header::Peek {
        api_key,
        api_version,
        ..
    } = *peek;
    eprintln!(
        "warning: {} asked for API {api_key} version {api_version}, which is not served",
        client.peer
    );
    let header = RequestHeader {
        api_key,
        api_version,
        correlation_id: peek.correlation_id,
        client_id: None,
    };
    error_reply(&header, ErrorCode::UnsupportedVersion)
}

fn error_reply(header: &RequestHeader, error: ErrorCode) -> Handled {
    match response::error_response(header, error) {
        Some(frame) => Handled::Reply(vec![Chunk::Memory(frame)]),
        None => Handled::Close,
    }
}

/// The APIs of groups.
async fn dispatch_group(context: Context, request: Request) -> Handled {
    match request {
        Request::FindCoordinator(request) => find_coordinator::handle(&context, request).await,
        Request::JoinGroup(request) => join_group::handle(&context, request).await,
        Request::SyncGroup(request) => sync_group::handle(&context, request).await,
        Request::Heartbeat(request) => heartbeat::handle(&context, request).await,
        Request::LeaveGroup(request) => leave_group::handle(&context, request).await,
        Request::ConsumerGroupHeartbeat(request) => {
            consumer_group_heartbeat::handle(&context, request).await
        }
        Request::ConsumerGroupDescribe(request) => {
            consumer_group_describe::handle(&context, request).await
        }
        Request::OffsetCommit(request) => offset_commit::handle(&context, request).await,
        Request::OffsetFetch(request) => offset_fetch::handle(&context, request).await,
        Request::OffsetDelete(request) => offset_delete::handle(&context, request).await,
        Request::DescribeGroups(request) => describe_groups::handle(&context, request).await,
        Request::ListGroups(request) => list_groups::handle(&context, request).await,
        Request::DeleteGroups(request) => delete_groups::handle(&context, request).await,
        _ => unreachable!("only requests about groups are passed on"),
    }
}

async fn dispatch(context: Context, request: Request) -> Handled {
    match request {
        Request::ApiVersions(request) => api_versions::handle(&context, &request),
        Request::Metadata(request) => metadata::handle(&context, request).await,
        Request::Produce(_) => unreachable!("a produce is started, not dispatched"),
        Request::Fetch(request) => fetch::handle(&context, request).await,
        Request::ListOffsets(request) => list_offsets::handle(&context, request).await,
        Request::OffsetForLeaderEpoch(request) => {
            offset_for_leader_epoch::handle(&context, request).await
        }
        Request::CreateTopics(request) => create_topics::handle(&context, request).await,
        Request::DeleteTopics(request) => delete_topics::handle(&context, request).await,
        Request::CreatePartitions(request) => create_partitions::handle(&context, request).await,
        Request::DeleteRecords(request) => delete_records::handle(&context, request).await,
        Request::DescribeConfigs(request) => describe_configs::handle(&context, &request),
        Request::AlterConfigs(request) => alter_configs::replace(&context, request).await,
        Request::IncrementalAlterConfigs(request) => {
            alter_configs::incremental(&context, request).await
        }
        Request::ListConfigResources(request) => list_config_resources::handle(&context, &request),
        Request::DescribeCluster(request) => describe_cluster::handle(&context, &request),
        Request::DescribeTopicPartitions(request) => {
            describe_topic_partitions::handle(&context, &request)
        }
        Request::AlterReplicaLogDirs(request) => {
            alter_replica_log_dirs::handle(&context, request).await
        }
        Request::DescribeLogDirs(request) => describe_log_dirs::handle(&context, request).await,
        Request::InitProducerId(request) => init_producer_id::handle(&context, request).await,
        Request::DescribeProducers(request) => describe_producers::handle(&context, request).await,
        // By name, so that an API that is nobody's does not compile.
        request @ (Request::FindCoordinator(_)
        | Request::JoinGroup(_)
        | Request::SyncGroup(_)
        | Request::Heartbeat(_)
        | Request::LeaveGroup(_)
        | Request::ConsumerGroupHeartbeat(_)
        | Request::ConsumerGroupDescribe(_)
        | Request::OffsetCommit(_)
        | Request::OffsetFetch(_)
        | Request::OffsetDelete(_)
        | Request::DescribeGroups(_)
        | Request::ListGroups(_)
        | Request::DeleteGroups(_)) => dispatch_group(context, request).await,
    }
}
