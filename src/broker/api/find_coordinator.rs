//! FindCoordinator (API 10): who coordinates a group. Makes the internal topic when the first one is
//! looked for. Knows nothing of groups.

use logic::cluster::change::Code;
use logic::group::OFFSETS_TOPIC;
use wire::messages::FindCoordinatorRequestData;
use wire::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponseData};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use super::{Context, Handled, topics};
use crate::shard::controller::{Change, Failed, Mode};
use crate::shard::groups::partition_of;

/// From this version on many keys may be asked for (KIP-699).
const FIRST_VERSION_WITH_KEYS: i16 = 4;
/// Kinds of keys.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
/// There is no coordinator.
const NONE: i32 = -1;

/// Answers one request.
pub async fn handle(context: &Context, request: FindCoordinatorRequestData) -> Handled {
    let found = match request.key_type {
        GROUP => make_topic(context).await,
        // There are no transactions yet, as InitProducerId says too.
        TRANSACTION => Err(ErrorCode::TransactionalIdAuthorizationFailed),
        _ => Err(ErrorCode::InvalidRequest),
    };
    let response = FindCoordinatorResponseData::default();
    let response = if context.header.api_version < FIRST_VERSION_WITH_KEYS {
        let one = coordinator(context, request.key, found);
        response
            .with_error_code(one.error_code)
            .with_node_id(one.node_id)
            .with_host(one.host)
            .with_port(one.port)
    } else {
        let keys = request.coordinator_keys.into_iter();
        response.with_coordinators(keys.map(|key| coordinator(context, key, found)).collect())
    };
    context.reply(&Response::FindCoordinator(response))
}

fn coordinator(context: &Context, key: KafkaString, found: Result<(), ErrorCode>) -> Coordinator {
    // A group whose partition is offline has nobody who knows it.
    let partition = partition_of(&context.shard, key.as_str());
    let offline = partition.is_some_and(|id| context.shard.hosted.is_offline(id));
    let found = match offline {
        true => Err(ErrorCode::CoordinatorNotAvailable),
        false => found,
    };
    let coordinator = Coordinator::default().with_key(key);
    match found {
        Ok(()) => {
            let (host, port) = topics::address(context);
            coordinator
                .with_node_id(context.shard.metadata.identity.node)
                .with_host(host)
                .with_port(port)
        }
        Err(error) => coordinator
            .with_error_code(error.code())
            .with_node_id(NONE)
            .with_port(NONE),
    }
}

/// Makes sure that groups have a place.
async fn make_topic(context: &Context) -> Result<(), ErrorCode> {
    if context.shard.metadata.topic_id(OFFSETS_TOPIC).is_some() {
        return Ok(());
    }
    let topic = context.shard.limits.groups.offsets_topic();
    let change = Change::CreateTopics(vec![topic], Mode::Commit);
    let made = topics::change(context, change).await.into_iter().next();
    match made {
        Some(Err(Failed::Refused(refused))) if refused.code == Code::TopicExists => Ok(()),
        Some(Err(failed)) => {
            let problem = topics::message(&failed);
            eprintln!("error: {OFFSETS_TOPIC} cannot be created: {problem}");
            Err(ErrorCode::CoordinatorNotAvailable)
        }
        _ => Ok(()),
    }
}
