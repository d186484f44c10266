//! InitProducerId (API 22) for idempotent producers. Transactions are refused: they do not exist yet.
//! Knows nothing of sequences.

use logic::cluster::change::PRODUCER_ID_BLOCK;
use wire::ErrorCode;
use wire::messages::InitProducerIdRequestData;
use wire::messages::init_producer_id_response::InitProducerIdResponseData;
use wire::response::Response;

use super::{Context, Handled, topics};
use crate::shard::controller::{Change, Changed};
use crate::shard::mail::{Answer, Ask, ShardId};

/// No producer id.
const NONE: i64 = -1;

/// Answers one request.
pub async fn handle(context: &Context, request: InitProducerIdRequestData) -> Handled {
    let response = InitProducerIdResponseData::default()
        .with_producer_id(NONE)
        .with_producer_epoch(-1)
        .with_ongoing_txn_producer_id(NONE)
        .with_ongoing_txn_producer_epoch(-1);
    let response = if request.transactional_id.is_some() {
        response.with_error_code(ErrorCode::TransactionalIdAuthorizationFailed.code())
    } else {
        match next_id(context).await {
            Ok(id) => response.with_producer_id(id).with_producer_epoch(0),
            Err(error) => response.with_error_code(error.code()),
        }
    };
    context.reply(&Response::InitProducerId(response))
}

/// An id that nobody else gets: from this shard's block, or from a fresh one.
async fn next_id(context: &Context) -> Result<i64, ErrorCode> {
    if let Some(id) = context.shard.producer_ids.take() {
        return Ok(id);
    }
    let ask = Ask::Change(Box::new(Change::AllocateProducerIds));
    let Answer::Changed(changed) = context.shard.ask(ShardId::CONTROLLER, ask).await else {
        unreachable!("a change is answered by its outcome");
    };
    match *changed {
        Changed::ProducerIds(Ok(first)) => {
            context
                .shard
                .producer_ids
                .refill(first + 1..first + PRODUCER_ID_BLOCK);
            Ok(first)
        }
        Changed::ProducerIds(Err(failed)) => Err(topics::change_code(&failed)),
        Changed::Items(_) => unreachable!("producer ids are answered by producer ids"),
    }
}
