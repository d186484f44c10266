//! What must be there before members join: the topic that they read, and a coordinator that has loaded. Knows
//! nothing of members.

use std::time::Duration;

use client::direct::{Connection, Error};
use tokio::time::sleep;
use wire::messages::find_coordinator_request::FindCoordinatorRequestData;
use wire::messages::list_groups_request::ListGroupsRequestData;
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use crate::options::Options;

const FIND_COORDINATOR: i16 = 4;
const LIST_GROUPS: i16 = 4;
/// A coordinator that is not there after so many looks will not come.
const LOOKS_MAX: usize = 300;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Makes the topic and waits for the coordinator.
pub async fn prepare(options: &Options) -> Result<(), Error> {
    let mut connection = Connection::connect(options.broker).await?;
    let created = connection.create_topic(&options.topic, options.partitions, &[]);
    match created.await {
        Err(Error::Broker(code)) if ErrorCode::from(code) == ErrorCode::TopicAlreadyExists => {}
        created => created?,
    }
    // The first search makes the internal topic; the list is refused as long as something loads.
    for _ in 0..LOOKS_MAX {
        if is_found(&mut connection, options).await? && is_loaded(&mut connection).await? {
            return Ok(());
        }
        sleep(BETWEEN_LOOKS).await;
    }
    Err(Error::Unexpected("a coordinator within 30 s"))
}

async fn is_found(connection: &mut Connection, options: &Options) -> Result<bool, Error> {
    let request = FindCoordinatorRequestData::default()
        .with_coordinator_keys(vec![KafkaString::from(options.group(0))]);
    match connection.call(FIND_COORDINATOR, &request.into()).await? {
        Response::FindCoordinator(answer) => {
            let none = ErrorCode::None.code();
            Ok(answer.coordinators.iter().all(|it| it.error_code == none))
        }
        _ => Err(Error::Unexpected("a FindCoordinator response")),
    }
}

async fn is_loaded(connection: &mut Connection) -> Result<bool, Error> {
    let request = ListGroupsRequestData::default();
    match connection.call(LIST_GROUPS, &request.into()).await? {
        Response::ListGroups(answer) => Ok(answer.error_code == ErrorCode::None.code()),
        _ => Err(Error::Unexpected("a ListGroups response")),
    }
}
