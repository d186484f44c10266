//! A typed response becomes bytes to send. Knows nothing of sockets; records are not touched.

use criterion::{Criterion, Throughput};
use wire::messages::fetch_response::{FetchResponseData, FetchableTopicResponse, PartitionData};
use wire::messages::produce_response::{
    PartitionProduceResponse, ProduceResponseData, TopicProduceResponse,
};
use wire::response::{self, Response};
use wire::{KafkaUuid, fetch};

const PRODUCE: i16 = 13;
const FETCH: i16 = 17;
const FETCH_PARTITIONS: i32 = 100;
/// Record bytes of each partition, sent from elsewhere.
const RECORDS_BYTES: usize = 10_000;

/// Fetch as it is sent by scatter; Produce as one buffer.
pub fn responses(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    group.throughput(Throughput::Elements(1));
    for (name, partitions) in [
        ("fetch 1 partition", 1),
        ("fetch 100 partitions", FETCH_PARTITIONS),
    ] {
        let response = fetch_response(partitions);
        let lengths = vec![RECORDS_BYTES; response.responses[0].partitions.len()];
        group.bench_function(name, |bencher| {
            bencher.iter(|| fetch::frame(FETCH, 1, &response, &lengths).expect("encodes"));
        });
    }
    let response = produce_response();
    group.bench_function("produce 1 partition", |bencher| {
        bencher.iter(|| response::encode(PRODUCE, 1, &response).expect("encodes"));
    });
    group.finish();
}

fn topic_id() -> KafkaUuid {
    KafkaUuid::from_parts(3, 4)
}

fn fetch_response(partitions: i32) -> FetchResponseData {
    let partition = |index| {
        PartitionData::default()
            .with_partition_index(index)
            .with_high_watermark(1 << 40)
            .with_last_stable_offset(1 << 40)
            .with_preferred_read_replica(-1)
    };
    let topic = FetchableTopicResponse::default()
        .with_topic_id(topic_id())
        .with_partitions((0..partitions).map(partition).collect());
    FetchResponseData::default().with_responses(vec![topic])
}

fn produce_response() -> Response {
    let partition = PartitionProduceResponse::default()
        .with_index(0)
        .with_base_offset(1 << 40);
    let topic = TopicProduceResponse::default()
        .with_topic_id(topic_id())
        .with_partition_responses(vec![partition]);
    ProduceResponseData::default()
        .with_responses(vec![topic])
        .into()
}
