//! Mutated frames and batches, from a seed: no panic, and memory in proportion to what was sent.
//! Knows nothing of what the frames mean. One test: the allocator counts for the whole process.

use std::alloc::System;

use bytes::Bytes;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use wire::batch::{self, Limits};
use wire::compression::{Compression, Unfolding};
use wire::header::RequestHeader;
use wire::messages::*;
use wire::records::{BatchBuilder, Records};
use wire::request::Request;
use wire::{KafkaString, fuzz, header, version};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A linear congruential generator: the same seed, the same frames.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    /// Alters a few bytes: values that lengths hate more often than others; sometimes cuts or grows.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(8) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.below(256) as u8),
                2 => bytes[at] = 0xff,
                3 => bytes[at] = 0x7f,
                4 => bytes[at] = 0,
                5 => bytes[at] ^= 1 << self.below(8),
                6 => {
                    let end = bytes.len().min(at + 4);
                    bytes[at..end].fill(if self.below(2) == 0 { 0xff } else { 0x7f });
                }
                _ => bytes[at] = self.below(256) as u8,
            }
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    use create_topics_request::{CreatableTopic, CreatableTopicConfig};
    use fetch_request::{FetchPartition, FetchTopic};
    use produce_request::{PartitionProduceData, TopicProduceData};

    let name = KafkaString::from_static("orders");
    let partition = PartitionProduceData::default().with_records(Some(batch(Compression::None)));
    let topic = TopicProduceData::default()
        .with_name(name.clone())
        .with_partition_data(vec![partition]);
    let produce = Request::from(ProduceRequestData::default().with_topic_data(vec![topic]));
    let topic = FetchTopic::default()
        .with_topic(name.clone())
        .with_partitions(vec![FetchPartition::default(); 4]);
    let fetch = Request::from(FetchRequestData::default().with_topics(vec![topic]));
    let config = CreatableTopicConfig::default().with_name(name.clone());
    let topic = CreatableTopic::default()
        .with_name(name)
        .with_configs(vec![config; 3]);
    let create = Request::from(CreateTopicsRequestData::default().with_topics(vec![topic]));
    [(produce, 3), (fetch, 4), (create, 2)]
        .into_iter()
        .flat_map(|(request, first)| {
            let last = version::range(request.api() as i16).expect("is served").max;
            (first..=last).map(move |version| {
                let frame = request.encode(version, 1, None).expect("encodes");
                frame[4..].to_vec()
            })
        })
        .collect()
}

fn batch(compression: Compression) -> Bytes {
    let mut builder = BatchBuilder::new(compression);
    for i in 0..20 {
        builder.push(
            1_000 + i,
            Some(b"key"),
            Some(&[i as u8; 40]),
            &[(b"h", Some(b"v"))],
        );
    }
    builder.finish().expect("builds")
}

/// Bytes allocated by `run`, in all.
fn allocated(run: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    run();
    region.change().bytes_allocated
}

fn mutated_frames(seed: u64, rounds: usize) {
    let mut random = Lcg(seed);
    let seeds = seeds();
    for round in 0..rounds {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        random.mutate(&mut bytes);
        let used = allocated(|| {
            fuzz::frame(&bytes);
            fuzz::request(&bytes);
        });
        // The codec reserves an element for each byte that is left, at most; the largest one is a group of
        // a DescribeGroups response, which only clients read.
        let limit = 512 * bytes.len() + (16 << 10);
        assert!(
            used <= limit,
            "seed {seed} round {round}: {used} bytes for {}",
            bytes.len()
        );
    }
}

fn mutated_batches(seed: u64, rounds: usize) {
    let mut random = Lcg(seed);
    let seeds: Vec<Bytes> = Compression::ALL.into_iter().map(batch).collect();
    for _ in 0..rounds {
        let mut bytes = seeds[random.below(seeds.len())].to_vec();
        random.mutate(&mut bytes);
        fuzz::batch(&bytes);
    }
}

/// Each array of each API, claiming two thousand million elements in a frame of a few bytes.
fn huge_claims() {
    for served in version::SERVED {
        for version in served.min..=served.max {
            let header = RequestHeader {
                api_key: served.api as i16,
                api_version: version,
                correlation_id: 1,
                client_id: None,
            };
            for claim in [
                &[0x7f, 0xff, 0xff, 0xff][..],
                &[0xff, 0xff, 0xff, 0xff, 0x07],
            ] {
                for lead in 0..24 {
                    let body = Bytes::from([&vec![0; lead][..], claim, &[0; 8]].concat());
                    let used = allocated(|| drop(Request::decode(&header, body)));
                    assert!(
                        used < 64 << 10,
                        "{:?} version {version}: {used} bytes",
                        served.api
                    );
                }
            }
        }
    }
}

/// A batch of many small records: the check allocates the answer, nothing per record.
fn checking_allocates_nothing_per_record() {
    let mut builder = BatchBuilder::new(Compression::None);
    for i in 0..10_000 {
        builder.push(
            i,
            Some(b"key"),
            Some(b"value"),
            &[(b"header", Some(b"value"))],
        );
    }
    let bytes = builder.finish().expect("builds");
    let region = Region::new(ALLOCATOR);
    let checked = batch::check(&bytes, &Limits::default()).expect("is accepted");
    let change = region.change();
    assert_eq!(checked[0].record_count, 10_000);
    assert!(change.allocations <= 2, "{change:?}");
}

/// A snappy block that claims 512 KiB, and batches that claim more records than there are bytes.
fn claims_inside_batches() {
    let mut bytes = batch(Compression::Snappy)[..batch::HEADER_BYTES].to_vec();
    bytes.extend_from_slice(&[0x80, 0x80, 0x20, 0, 0, 0, 0, 0]);
    let used = allocated(|| fuzz::batch(&bytes));
    assert!(used < 128 << 10, "{used} bytes");

    let mut bytes = batch(Compression::None).to_vec();
    bytes[23..27].copy_from_slice(&(i32::MAX - 1).to_be_bytes());
    bytes[57..61].copy_from_slice(&i32::MAX.to_be_bytes());
    batch::set_crc(&mut bytes);
    let bytes = Bytes::from(bytes);
    let used = allocated(|| {
        assert!(batch::check(&bytes, &Limits::default()).is_err());
        let records = Records::open(&bytes, &Unfolding::default()).expect("opens");
        assert_eq!(records.filter(Result::is_ok).count(), 20);
    });
    assert!(used < 64 << 10, "{used} bytes");
}

#[test]
fn hostile_bytes_neither_panic_nor_take_memory_out_of_proportion() {
    checking_allocates_nothing_per_record();
    huge_claims();
    claims_inside_batches();
    for seed in 1..=4 {
        mutated_frames(seed, 20_000);
        mutated_batches(seed, 4_000);
    }
    for length in 0..64 {
        for byte in [0, 0x7f, 0x80, 0xff] {
            let bytes = vec![byte; length];
            fuzz::frame(&bytes);
            fuzz::request(&bytes);
            fuzz::batch(&bytes);
            let _ = header::peek(&bytes);
        }
    }
}
