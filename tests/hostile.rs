//! A broker under bytes that no honest client sends. Knows the broker as a process with a port, and
//! nothing of how it reads.
//!
//! `CORELOG_HOSTILE_FRAMES` sets how many mutated frames are sent (5,000), `CORELOG_HOSTILE_SEED`
//! repeats a run's frames. From 100,000 on what others notice of it is asserted too:
//! `CORELOG_HOSTILE_FRAMES=1000000 cargo test --release --test hostile mutated -- --nocapture`

mod broker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use broker::{Broker, DataDir, answers, number};
use bytes::Bytes;
use client::direct::{Acks, Connection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::messages::{
    CreateTopicsRequestData, FetchRequestData, InitProducerIdRequestData, MetadataRequestData,
    ProduceRequestData,
};
use wire::messages::{create_topics_request, fetch_request, produce_request};
use wire::records::BatchBuilder;
use wire::request::Request;
use wire::response::{self, Response};
use wire::{Compression, KafkaString, version};

const ATTACKERS: usize = 4;
/// How long an attacker listens before it sends its next frame.
const LISTEN: Duration = Duration::from_millis(20);
/// How long a good client waits at most, whatever others send.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How often a good client produces and fetches.
const GOOD_EVERY: Duration = Duration::from_millis(10);
/// In so many rounds a good client comes as a new one once.
const NEWCOMER_EVERY: i64 = 10;
/// From so many frames on a run is a measurement.
const MEASURED_FRAMES_MIN: usize = 100_000;
/// How much slower the slowest hundredth of a good client's rounds may be under attack.
const SLOWER_MAX: f64 = 2.0;
/// Resident memory that a broker may take under all this, in KiB.
const RESIDENT_KIB_MAX: u64 = 1 << 20;
const GOOD_TOPIC: &str = "untouched";

/// A linear congruential generator: the same frames from the same seed.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    /// Alters a few bytes, to values that lengths and counts hate; sometimes cuts or grows.
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

/// A frame from a length of one's own choice.
fn framed(length: i32, rest: &[u8]) -> Vec<u8> {
    [&length.to_be_bytes()[..], rest].concat()
}

fn own_length(rest: &[u8]) -> Vec<u8> {
    framed(i32::try_from(rest.len()).expect("short"), rest)
}

/// Sends bytes and returns the first frame that comes back, without its length; `None` when the
/// broker closes the connection or says nothing in time.
async fn exchange(address: SocketAddr, bytes: &[u8]) -> Option<Bytes> {
    let mut stream = TcpStream::connect(address).await.expect("connects");
    stream.write_all(bytes).await.ok()?;
    timeout(ANSWER_MAX, read_frame(&mut stream)).await.ok()?
}

async fn read_frame(stream: &mut TcpStream) -> Option<Bytes> {
    let length = usize::try_from(stream.read_i32().await.ok()?).expect("a length");
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await.ok()?;
    Some(frame.into())
}

/// Whether the broker ends the connection on these bytes, in time and without an answer.
async fn closes_on(address: SocketAddr, bytes: &[u8]) -> bool {
    let mut stream = TcpStream::connect(address).await.expect("connects");
    stream.write_all(bytes).await.expect("sends");
    let read = timeout(ANSWER_MAX, stream.read(&mut [0; 16])).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

fn records(count: u8) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    for number in 0..count {
        builder.push(1_000, Some(b"key"), Some(&[number; 40]), &[(b"h", None)]);
    }
    builder.finish().expect("builds")
}

/// Honest requests in every served version, without their lengths: what mutations start from.
fn honest() -> Vec<Vec<u8>> {
    let name = KafkaString::from_static("victim");
    let partition = produce_request::PartitionProduceData::default().with_records(Some(records(9)));
    let topic = produce_request::TopicProduceData::default()
        .with_name(name.clone())
        .with_partition_data(vec![partition]);
    let produce = ProduceRequestData::default()
        .with_acks(-1)
        .with_timeout_ms(1_000)
        .with_topic_data(vec![topic]);
    let topic = fetch_request::FetchTopic::default()
        .with_topic(name.clone())
        .with_partitions(vec![fetch_request::FetchPartition::default(); 4]);
    let fetch = FetchRequestData::default().with_topics(vec![topic]);
    let topic = create_topics_request::CreatableTopic::default()
        .with_name(name)
        .with_num_partitions(1);
    let create = CreateTopicsRequestData::default()
        .with_topics(vec![topic])
        .with_validate_only(true);
    let requests: [Request; 5] = [
        produce.into(),
        fetch.into(),
        create.into(),
        MetadataRequestData::default().into(),
        InitProducerIdRequestData::default().into(),
    ];
    let mut frames = Vec::new();
    for request in &requests {
        let served = version::range(request.api() as i16).expect("is served");
        for version in served.min..=served.max {
            if let Ok(frame) = request.encode(version, 1, None) {
                frames.push(frame[4..].to_vec());
            }
        }
    }
    assert!(frames.len() > 20, "few requests encode");
    frames
}

/// Sends mutated frames, over one connection as long as the broker lets it; returns how many were
/// answered.
async fn attack(address: SocketAddr, seed: u64, frames: usize) -> usize {
    let honest = honest();
    let mut choices = Choices(seed);
    let mut stream = None;
    let mut answered = 0;
    for _ in 0..frames {
        let mut frame = honest[choices.below(honest.len())].clone();
        choices.mutate(&mut frame);
        let mut connection = match stream.take() {
            Some(open) => open,
            None => TcpStream::connect(address).await.expect("connects"),
        };
        if connection.write_all(&own_length(&frame)).await.is_err() {
            continue;
        }
        if let Ok(Some(_)) = timeout(LISTEN, read_frame(&mut connection)).await {
            answered += 1;
            stream = Some(connection);
        }
    }
    answered
}

/// What an honest client does meanwhile, on a schedule: a produce and a fetch of it. Returns how long
/// each round took from when it was due, so that a stall counts for all who would have come in it.
async fn good_client(address: SocketAddr, first: i64, stop: impl Fn(i64) -> bool) -> Vec<Duration> {
    let mut connection = Connection::connect(address).await.expect("connects");
    let mut took = Vec::new();
    let mut due = Instant::now();
    for round in 0.. {
        if round > 0 && stop(round) {
            break;
        }
        tokio::time::sleep_until(due.into()).await;
        let offset = connection.produce(GOOD_TOPIC, 0, Acks::All, records(1));
        let offset = offset.await.expect("a produce succeeds");
        assert_eq!(offset, first + round);
        let (_, batches) = connection
            .fetch(GOOD_TOPIC, 0, offset)
            .await
            .expect("a fetch succeeds");
        assert_eq!(batches.len(), 1, "what was produced is there");
        let late = due.elapsed();
        assert!(late < ANSWER_MAX, "the good client waits {late:?}");
        took.push(late);
        due += GOOD_EVERY;
        if round % NEWCOMER_EVERY == 0 {
            assert!(answers(address).await, "a new client is not answered");
        }
    }
    took
}

/// What all but a hundredth of the rounds stayed below.
fn p99(mut rounds: Vec<Duration>) -> Duration {
    rounds.sort();
    rounds[(rounds.len() - 1) * 99 / 100]
}

async fn create_topics(address: SocketAddr) {
    let mut connection = Connection::connect(address).await.expect("connects");
    for topic in [GOOD_TOPIC, "victim"] {
        let created = connection.create_topic(topic, 1, &[]).await;
        created.expect("the topic is created");
    }
}

/// Sends so many mutated frames from several attackers; returns how many were answered.
async fn attack_by_all(address: SocketAddr, seed: u64, frames: usize) -> usize {
    let share = frames.div_ceil(ATTACKERS);
    let attacks: Vec<_> = (0..ATTACKERS)
        .map(|index| tokio::spawn(attack(address, seed.wrapping_add(index as u64), share)))
        .collect();
    let mut answered = 0;
    for attack in attacks {
        answered += attack.await.expect("an attack runs to its end");
    }
    answered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutated_frames_neither_end_the_broker_nor_keep_others_waiting() {
    let frames = number("CORELOG_HOSTILE_FRAMES", 5_000);
    let seed = number("CORELOG_HOSTILE_SEED", u64::from(std::process::id()));
    println!("CORELOG_HOSTILE_SEED={seed}");
    let data = DataDir::new("hostile-mutated");
    let mut broker = Broker::start(&data, 2).await;
    let address = broker.address;
    create_topics(address).await;
    let calm_rounds = (frames / 300).clamp(50, 3_000) as i64;
    let calm = good_client(address, 0, |round| round == calm_rounds).await;
    let before = broker.resident_kib();

    let stop = Arc::new(AtomicBool::new(false));
    let good = tokio::spawn({
        let stop = stop.clone();
        good_client(address, calm_rounds, move |_| stop.load(Ordering::Relaxed))
    });
    let begun = Instant::now();
    let answered = attack_by_all(address, seed, frames).await;
    let lasted = begun.elapsed();
    stop.store(true, Ordering::Relaxed);
    let attacked = good.await.expect("the good client is served throughout");
    // What else the machine does passes: the calmer of before and after is the measure.
    let first = calm_rounds + attacked.len() as i64;
    let calm_again = good_client(address, first, |round| round == calm_rounds).await;

    assert!(answers(address).await, "a new client is answered after it");
    broker.assert_alive();
    let resident = broker.resident_kib();
    let rounds = attacked.len();
    let (calm, attacked) = (p99(calm).min(p99(calm_again)), p99(attacked));
    let slower = attacked.as_secs_f64() / calm.as_secs_f64();
    println!(
        "{frames} frames in {lasted:?}, {answered} answered; {resident} KiB resident, {before} before"
    );
    println!(
        "a good client's p99: {calm:?} in {calm_rounds} calm rounds, {attacked:?} in {rounds} under \
         attack, x{slower:.2}"
    );
    assert!(resident < RESIDENT_KIB_MAX, "{resident} KiB resident");
    assert!(
        frames < MEASURED_FRAMES_MIN || slower <= SLOWER_MAX,
        "a good client is {slower:.2} times slower"
    );
}

#[tokio::test]
async fn impossible_frame_lengths_close_the_connection() {
    let data = DataDir::new("hostile-lengths");
    let mut broker = Broker::start(&data, 2).await;
    for length in [-1, i32::MIN, i32::MAX, (100 << 20) + 1] {
        let frame = framed(length, &[0; 32]);
        assert!(
            closes_on(broker.address, &frame).await,
            "a frame of {length} bytes is waited for"
        );
    }
    for length in 0..8 {
        let frame = own_length(&[0x7f; 8][..length]);
        assert!(
            closes_on(broker.address, &frame).await,
            "a header of {length} bytes is taken for one"
        );
    }
    assert!(answers(broker.address).await);
    broker.assert_alive();
}

#[tokio::test]
async fn huge_counts_in_small_frames_take_no_memory() {
    let data = DataDir::new("hostile-counts");
    let mut broker = Broker::start(&data, 2).await;
    let before = broker.resident_kib();
    for served in version::SERVED {
        for version in served.min..=served.max {
            for claim in [
                &[0x7f, 0xff, 0xff, 0xff][..],
                &[0xff, 0xff, 0xff, 0xff, 0x07],
            ] {
                let header = [served.api as i16, version].map(i16::to_be_bytes).concat();
                let rest = [&header[..], &[0, 0, 0, 1, 0xff, 0xff], claim, &[0; 12]].concat();
                let mut stream = TcpStream::connect(broker.address).await.expect("connects");
                let _ = stream.write_all(&own_length(&rest)).await;
                let _ = timeout(LISTEN, read_frame(&mut stream)).await;
            }
        }
    }
    assert!(answers(broker.address).await);
    broker.assert_alive();
    let grown = broker.resident_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB more after small frames");
}

#[tokio::test]
async fn unknown_apis_and_versions_are_refused_as_kafka_refuses_them() {
    let data = DataDir::new("hostile-unknown");
    let mut broker = Broker::start(&data, 2).await;
    for (api, version) in [(999, 0), (-1, 0), (i16::MAX, 3), (3, 99), (19, -1)] {
        let header = [api, version].map(i16::to_be_bytes).concat();
        let frame = own_length(&[&header[..], &[0, 0, 0, 1, 0xff, 0xff, 0]].concat());
        assert!(
            closes_on(broker.address, &frame).await,
            "API {api} version {version} is not refused"
        );
    }
    // KIP-511: the refused version is answered in version 0, with the list to choose from.
    let header = [18, 99].map(i16::to_be_bytes).concat();
    let frame = own_length(&[&header[..], &[0, 0, 0, 5, 0xff, 0xff, 0]].concat());
    let answer = exchange(broker.address, &frame).await.expect("an answer");
    let (id, body) = response::decode_response(18, 0, answer).expect("a header");
    let Response::ApiVersions(answer) = Response::decode(18, 0, body).expect("a v0 body") else {
        panic!("not an ApiVersions response");
    };
    assert_eq!((id, answer.error_code), (5, 35));
    assert_eq!(answer.api_keys.len(), version::SERVED.len());
    broker.assert_alive();
}

/// Whoever announces the largest frames and sends nothing of them holds memory that is meant for
/// all: small requests must not wait for it.
#[tokio::test]
async fn announced_frames_that_never_come_keep_nobody_waiting() {
    let data = DataDir::new("hostile-announced");
    let mut broker = Broker::start(&data, 2).await;
    create_topics(broker.address).await;
    // Ever smaller ones, so that they fill any limit to the last bytes.
    let mut holding = Vec::new();
    for length in (4..27)
        .rev()
        .map(|bits| 1_i32 << bits)
        .filter(|it| *it <= 100 << 20)
    {
        for _ in 0..4 {
            let mut stream = TcpStream::connect(broker.address).await.expect("connects");
            let sent = stream.write_all(&framed(length, &[0; 8])).await;
            sent.expect("sends");
            holding.push(stream);
        }
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    for _ in 0..4 {
        assert!(answers(broker.address).await, "a new client waits for them");
    }
    assert_eq!(good_client(broker.address, 0, |_| true).await.len(), 1);
    broker.assert_alive();
    let resident = broker.resident_kib();
    assert!(resident < RESIDENT_KIB_MAX, "{resident} KiB resident");
}
