//! A frame becomes a typed request. Knows nothing of what is done with it.

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use wire::compression::Compression;
use wire::messages::fetch_request::{FetchPartition, FetchRequestData, FetchTopic};
use wire::messages::metadata_request::{MetadataRequestData, MetadataRequestTopic};
use wire::messages::produce_request::{PartitionProduceData, ProduceRequestData, TopicProduceData};
use wire::request::Request;
use wire::{KafkaString, KafkaUuid, header};

use crate::samples;

/// The versions that a current Java client negotiates.
const PRODUCE: i16 = 13;
const FETCH: i16 = 17;
const METADATA: i16 = 13;

const FETCH_PARTITIONS: i32 = 100;
const METADATA_TOPICS: usize = 10;

/// Header and body, as the connection's first step does it.
pub fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    let requests = [
        ("produce 1 KiB", PRODUCE, produce(1 << 10)),
        ("produce 1 MiB", PRODUCE, produce(1 << 20)),
        ("fetch 100 partitions", FETCH, fetch()),
        ("metadata 10 topics", METADATA, metadata()),
    ];
    for (name, version, request) in requests {
        let client = Some(KafkaString::from_static("producer-1"));
        let frame = request.encode(version, 1, client).expect("encodes");
        let frame = frame.freeze().slice(4..);
        group.throughput(Throughput::Elements(1));
        group.bench_function(name, |bencher| bencher.iter(|| decode(&frame)));
    }
    group.finish();
}

fn decode(frame: &Bytes) -> Request {
    let mut frame = frame.clone();
    let header = header::decode(&mut frame).expect("a header");
    Request::decode(&header, frame).expect("a request")
}

fn topic_id() -> KafkaUuid {
    KafkaUuid::from_parts(3, 4)
}

fn produce(bytes: usize) -> Request {
    let partition = PartitionProduceData::default()
        .with_index(0)
        .with_records(Some(samples::batch(Compression::None, bytes)));
    let topic = TopicProduceData::default()
        .with_topic_id(topic_id())
        .with_partition_data(vec![partition]);
    ProduceRequestData::default()
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![topic])
        .into()
}

fn fetch() -> Request {
    let partition = |index| {
        FetchPartition::default()
            .with_partition(index)
            .with_fetch_offset(1 << 20)
            .with_partition_max_bytes(1 << 20)
    };
    let topic = FetchTopic::default()
        .with_topic_id(topic_id())
        .with_partitions((0..FETCH_PARTITIONS).map(partition).collect());
    FetchRequestData::default()
        .with_max_wait_ms(500)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_topics(vec![topic])
        .into()
}

fn metadata() -> Request {
    let topic = |number| {
        let name = KafkaString::from(format!("a-topic-of-some-length-{number}"));
        MetadataRequestTopic::default().with_name(Some(name))
    };
    MetadataRequestData::default()
        .with_topics(Some((0..METADATA_TOPICS).map(topic).collect()))
        .into()
}
