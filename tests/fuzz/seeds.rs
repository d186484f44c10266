//! What the targets start from, built by the same code that clients and the broker use. Knows the
//! fuzzer only as a directory of files.

use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use wire::messages::*;
use wire::records::BatchBuilder;
use wire::request::Request;
use wire::{Compression, KafkaString, header, version};

/// Where a target's seeds go before it starts; without it none are written.
const DIRECTORY: &str = "CORELOG_FUZZ_SEEDS";

/// Writes a target's seeds to where the fuzzer looks for them.
pub fn plant(seeds: impl IntoIterator<Item = Vec<u8>>) {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    fs::create_dir_all(&directory).expect("the seeds' directory can be made");
    for (number, seed) in seeds.into_iter().enumerate() {
        let file = directory.join(format!("seed-{number:04}"));
        fs::write(file, seed).expect("a seed can be written");
    }
}

/// Frames without their lengths.
pub fn frames() -> impl Iterator<Item = Vec<u8>> {
    all().map(|(request, version)| {
        let name = Some(KafkaString::from_static("seed"));
        let frame = request.encode(version, 1, name).expect("it encodes");
        frame[4..].to_vec()
    })
}

/// Bodies, each behind two bytes that pick API and version from the table.
pub fn requests() -> impl Iterator<Item = Vec<u8>> {
    all().map(|(request, version)| {
        let of = |served: &version::Served| served.api == request.api();
        let row = version::SERVED.iter().position(of).expect("it is served");
        let version_from_first = version - version::SERVED[row].min;
        let frame = request.encode(version, 1, None).expect("it encodes");
        let mut body = Bytes::from(frame[4..].to_vec());
        header::decode(&mut body).expect("it has a header");
        let picks = [row, usize::from(version_from_first.unsigned_abs())];
        let picks = picks.map(|it| u8::try_from(it).expect("the table is small"));
        [&picks[..], &body].concat()
    })
}

/// Batches of every codec, and two behind each other.
pub fn batches() -> impl Iterator<Item = Vec<u8>> {
    let both = [
        batch(Compression::None, false),
        batch(Compression::None, true),
    ];
    let codecs = Compression::ALL.into_iter();
    codecs
        .flat_map(|codec| [batch(codec, false), batch(codec, true)])
        .chain([both.concat()])
}

/// One batch of three records.
pub fn batch(codec: Compression, idempotent: bool) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    if idempotent {
        builder = builder.producer(7, 0, 3);
    }
    for number in 0..3 {
        let value = [number; 24];
        let headers: [(&[u8], Option<&[u8]>); 2] = [(b"h", Some(b"v")), (b"none", None)];
        let key = (number != 1).then_some(&b"key"[..]);
        builder.push(1_000 + i64::from(number), key, Some(&value), &headers);
    }
    builder.finish().expect("it builds").to_vec()
}

/// Requests with something in their arrays, and every API's with the least, in every version that can
/// say them.
fn all() -> impl Iterator<Item = (Request, i16)> {
    let least = version::SERVED.iter().flat_map(|served| {
        (served.min..=served.max).filter_map(|version| Some((least(served, version)?, version)))
    });
    let filled = filled().into_iter().flat_map(|request| {
        let served = version::range(request.api() as i16).expect("it is served");
        (served.min..=served.max).filter_map(move |version| {
            let says = request.encode(version, 1, None).is_ok();
            says.then(|| (request.clone(), version))
        })
    });
    least.chain(filled)
}

/// The request that the shortest run of zeros makes.
fn least(served: &version::Served, api_version: i16) -> Option<Request> {
    let header = header::RequestHeader {
        api_key: served.api as i16,
        api_version,
        correlation_id: 1,
        client_id: None,
    };
    let decoded = |len| Request::decode(&header, Bytes::from(vec![0; len])).ok();
    (0..100).find_map(decoded)
}

fn filled() -> Vec<Request> {
    let name = KafkaString::from_static("orders");
    let records = Bytes::from(batch(Compression::Lz4, true));
    let partition = produce_request::PartitionProduceData::default().with_records(Some(records));
    let topic = produce_request::TopicProduceData::default()
        .with_name(name.clone())
        .with_partition_data(vec![partition]);
    let produce = ProduceRequestData::default().with_topic_data(vec![topic]);
    let topic = fetch_request::FetchTopic::default()
        .with_topic(name.clone())
        .with_partitions(vec![fetch_request::FetchPartition::default(); 2]);
    let fetch = FetchRequestData::default().with_topics(vec![topic]);
    let topic = list_offsets_request::ListOffsetsTopic::default()
        .with_name(name.clone())
        .with_partitions(vec![
            list_offsets_request::ListOffsetsPartition::default();
            2
        ]);
    let offsets = ListOffsetsRequestData::default().with_topics(vec![topic]);
    let config = create_topics_request::CreatableTopicConfig::default().with_name(name.clone());
    let topic = create_topics_request::CreatableTopic::default()
        .with_name(name.clone())
        .with_configs(vec![config; 2]);
    let create = CreateTopicsRequestData::default().with_topics(vec![topic]);
    let config = incremental_alter_configs_request::AlterableConfig::default().with_name(name);
    let resource = incremental_alter_configs_request::AlterConfigsResource::default()
        .with_configs(vec![config; 2]);
    let alter = IncrementalAlterConfigsRequestData::default().with_resources(vec![resource]);
    vec![
        produce.into(),
        fetch.into(),
        offsets.into(),
        create.into(),
        alter.into(),
    ]
}
