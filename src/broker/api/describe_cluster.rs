//! DescribeCluster (API 60): this broker. Knows nothing of topics.

use wire::messages::DescribeClusterRequestData;
use wire::messages::describe_cluster_response::{
    DescribeClusterBroker, DescribeClusterResponseData,
};
use wire::response::Response;
use wire::{ErrorCode, KafkaString};

use super::{Context, Handled, topics};

/// The authorised operations when nobody asked for them.
const NOT_ASKED: i32 = i32::MIN;
/// The endpoint type of brokers (KIP-919).
const BROKERS: i8 = 1;

/// Answers one request.
pub fn handle(context: &Context, request: &DescribeClusterRequestData) -> Handled {
    let response = DescribeClusterResponseData::default()
        .with_cluster_authorized_operations(NOT_ASKED)
        .with_endpoint_type(BROKERS);
    if request.endpoint_type != BROKERS {
        let message = "this listener serves brokers, not controllers";
        let response = response
            .with_error_code(ErrorCode::MismatchedEndpointType.code())
            .with_error_message(Some(KafkaString::from_static(message)));
        return context.reply(&Response::DescribeCluster(response));
    }
    let identity = &context.shard.metadata.identity;
    let (host, port) = topics::address(context);
    let broker = DescribeClusterBroker::default()
        .with_broker_id(identity.node)
        .with_host(host)
        .with_port(port)
        .with_rack(identity.rack.clone().map(KafkaString::from));
    let response = response
        .with_cluster_id(KafkaString::from(identity.cluster.clone()))
        .with_controller_id(identity.node)
        .with_brokers(vec![broker]);
    context.reply(&Response::DescribeCluster(response))
}
