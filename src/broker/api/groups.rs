//! What the group APIs share: questions to a group's coordinator, and topics by name or id. Knows
//! nothing of any one API.

use std::collections::HashSet;

use logic::group::request::{Identity, Reply, Request};
use wire::{ErrorCode, KafkaString, KafkaUuid};

use super::{Context, topics};
use crate::shard::groups::partition_of;
use crate::shard::mail::{Answer, Ask};

/// Asks the coordinator of the request's group, wherever it is.
pub async fn ask(context: &Context, request: Request) -> Reply {
    let partition = partition_of(&context.shard, request.group());
    let owner = partition.and_then(|it| context.shard.metadata.owner(it));
    let (Some(partition), Some(owner)) = (partition, owner) else {
        return request.refused(ErrorCode::NotCoordinator);
    };
    let ask = Ask::Group(partition.index, Box::new(request));
    let Answer::Group(reply) = context.shard.ask(owner, ask).await else {
        unreachable!("a group is answered by its coordinator");
    };
    reply
}

/// Who a member says it is.
pub fn identity(member_id: &KafkaString, instance_id: Option<&KafkaString>) -> Identity {
    Identity {
        member_id: member_id.as_str().to_owned(),
        instance_id: instance_id.map(|it| it.as_str().to_owned()),
    }
}

/// What the client calls itself.
pub fn client_id(context: &Context) -> String {
    let client_id = context.header.client_id.as_ref();
    client_id.map_or(String::new(), |it| it.as_str().to_owned())
}

/// The client's address as Kafka writes it.
pub fn client_host(context: &Context) -> String {
    format!("/{}", context.client.peer.ip())
}

/// A topic's name, where a request may say its id instead (KIP-848); an unknown id is an error, while
/// a name stands for itself.
pub fn topic_name(
    context: &Context,
    name: &KafkaString,
    id: &KafkaUuid,
) -> Result<String, ErrorCode> {
    if *id == KafkaUuid::ZERO {
        return Ok(name.as_str().to_owned());
    }
    let name = context.shard.metadata.topic_name(topics::topic_id(id));
    name.ok_or(ErrorCode::UnknownTopicId)
}

/// Text as it stands on the wire.
pub fn text(text: String) -> KafkaString {
    KafkaString::from(text)
}

/// Group ids without those that were named before: an answer may be large, and its question small.
pub fn once_each(mut ids: Vec<KafkaString>) -> Vec<KafkaString> {
    let mut seen = HashSet::new();
    ids.retain(|id| seen.insert(id.as_str().to_owned()));
    ids
}
