//! Crowds of clients that connect, begin to speak and wait: dropped by deadline, or refused at the
//! door, while others work on. Knows the broker as a process with a port.
//!
//! `CORELOG_DEADLINES_CONNECTIONS` sets the crowd's size (10,000).

mod broker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use broker::{Broker, DataDir, answers, number, raise_open_files};
use client::direct::{Acks, Connection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::Compression;
use wire::records::BatchBuilder;

const CROWD: usize = 10_000;
/// Open files that the test and the broker keep for everything else.
const OTHER_FILES: usize = 500;
/// The deadline that the crowd misses: long enough that all of it is there at once.
const WAIT_MS: u64 = 6_000;
/// By how much a deadline may be missed on a loaded machine. The broker looks once a second.
const LATE_MAX: Duration = Duration::from_secs(8);
/// How long a working client waits for one answer at most.
const ANSWER_MAX: Duration = Duration::from_secs(2);
const TOPIC: &str = "work";

/// Says a little and waits for the end of the connection; returns how long the broker let it wait.
async fn linger(address: SocketAddr, says: &[u8]) -> Duration {
    let mut stream = TcpStream::connect(address).await.expect("connects");
    let begun = Instant::now();
    stream.write_all(says).await.expect("says it");
    let mut answer = [0; 16];
    let wait_max = Duration::from_millis(WAIT_MS) + LATE_MAX;
    let read = tokio::time::timeout(wait_max, stream.read(&mut answer));
    let end = read.await.expect("the connection is ended by deadline");
    assert!(
        matches!(end, Ok(0) | Err(_)),
        "the broker answers what was never asked"
    );
    begun.elapsed()
}

/// Produces and fetches until told to stop; returns how often, and the longest wait for an answer.
async fn work(address: SocketAddr, stop: Arc<AtomicBool>) -> (usize, Duration) {
    let mut connection = Connection::connect(address).await.expect("connects");
    let (mut rounds, mut longest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) || rounds == 0 {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(1_000, None, Some(b"work"), &[]);
        let batch = builder.finish().expect("a batch");
        let begun = Instant::now();
        let offset = connection.produce(TOPIC, 0, Acks::All, batch).await;
        longest = longest.max(begun.elapsed());
        let begun = Instant::now();
        let offset = offset.expect("a produce succeeds");
        let fetched = connection.fetch(TOPIC, 0, offset).await;
        assert_eq!(fetched.expect("a fetch succeeds").1.len(), 1);
        longest = longest.max(begun.elapsed());
        assert!(
            longest < ANSWER_MAX,
            "the working client waited {longest:?}"
        );
        rounds += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (rounds, longest)
}

async fn create_topic(address: SocketAddr) {
    let mut connection = Connection::connect(address).await.expect("connects");
    let created = connection.create_topic(TOPIC, 1, &[]).await;
    created.expect("the topic is created");
}

/// How many of the crowd there may be: each takes a descriptor here and one in the broker.
fn crowd() -> usize {
    let limit = usize::try_from(raise_open_files()).unwrap_or(usize::MAX);
    let wanted = number("CORELOG_DEADLINES_CONNECTIONS", CROWD);
    let crowd = wanted.min(limit.saturating_sub(OTHER_FILES));
    if crowd < wanted {
        println!("only {crowd} connections instead of {wanted}: {limit} files may be open");
    }
    crowd
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_sends_a_byte_and_waits_is_dropped_by_deadline_while_a_client_works_on() {
    let crowd = crowd();
    let data = DataDir::new("deadlines");
    let wait = WAIT_MS.to_string();
    let settings = [
        ("CORELOG_NETWORK__FIRST_FRAME_WAIT_MS", wait.as_str()),
        ("CORELOG_NETWORK__FRAME_WAIT_MS", wait.as_str()),
    ];
    let mut broker = Broker::start_with(&data, 2, &settings).await;
    let address = broker.address;
    create_topic(address).await;
    let (files, resident) = (broker.open_files(), broker.resident_kib());
    let stop = Arc::new(AtomicBool::new(false));
    let worker = tokio::spawn(work(address, stop.clone()));

    let begun = Instant::now();
    let mut lingering = Vec::new();
    for number in 0..crowd {
        // One byte; and, from every second one, a length and the first byte of what it announces.
        let says: &[u8] = match number % 2 {
            0 => &[0],
            _ => &[0, 0, 0, 90, 0],
        };
        lingering.push(tokio::spawn(linger(address, says)));
        // The listener's queue is short; beyond it connecting takes a second.
        if number % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let mut there = 0;
    while begun.elapsed() < Duration::from_millis(WAIT_MS) && there < crowd + files {
        there = there.max(broker.open_files());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = begun.elapsed();
    println!(
        "{there} files open in the broker after {took:?}, {files} before; {} KiB resident, {resident} before",
        broker.resident_kib()
    );
    let (mut soonest, mut latest) = (Duration::MAX, Duration::ZERO);
    for one in lingering {
        let waited = one.await.expect("it is dropped");
        soonest = soonest.min(waited);
        latest = latest.max(waited);
    }
    stop.store(true, Ordering::Relaxed);
    let (rounds, longest) = worker.await.expect("the working client is served");
    println!(
        "{crowd} dropped after {soonest:?} to {latest:?} (deadline {WAIT_MS} ms); \
         {rounds} rounds of work, none waited longer than {longest:?}"
    );
    assert!(
        soonest >= Duration::from_millis(WAIT_MS / 2),
        "dropped early"
    );
    assert!(answers(address).await, "a new client is answered after it");
    broker.assert_alive();
    // A client sees the end of its connection before the broker has closed the descriptor.
    let begun = Instant::now();
    while broker.open_files() >= files + 50 {
        let left = broker.open_files();
        assert!(begun.elapsed() < LATE_MAX, "{left} files stay open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether a connection is ended at once, before anything was said.
async fn is_refused(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else {
        return true;
    };
    let read = tokio::time::timeout(ANSWER_MAX, stream.read(&mut [0; 1])).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_max_connections_clients_are_refused_until_others_leave() {
    const MOST: usize = 40;
    let data = DataDir::new("caps");
    for cap in [
        "CORELOG_NETWORK__MAX_CONNECTIONS",
        "CORELOG_NETWORK__MAX_CONNECTIONS_PER_IP",
    ] {
        let most = MOST.to_string();
        let mut broker = Broker::start_with(&data, 2, &[(cap, most.as_str())]).await;
        let address = broker.address;
        let mut inside = Vec::new();
        let begun = Instant::now();
        while inside.len() < MOST {
            // The broker may not have noticed yet that those who waited for its start have left.
            assert!(begun.elapsed() < ANSWER_MAX, "{cap}: too few are let in");
            let mut connection = Connection::connect(address).await.expect("connects");
            if connection.api_versions().await.is_ok() {
                inside.push(connection);
            }
        }
        for _ in 0..2 * MOST {
            assert!(is_refused(address).await, "{cap}: one more is let in");
        }
        for connection in &mut inside {
            let answer = connection.api_versions().await;
            answer.expect("those inside are answered on");
        }
        inside.truncate(MOST / 2);
        let begun = Instant::now();
        while !answers(address).await {
            assert!(
                begun.elapsed() < ANSWER_MAX,
                "{cap}: no room after some left"
            );
        }
        broker.assert_alive();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_takes_every_descriptor_stops_no_log() {
    const BATCHES: i64 = 24;
    let data = DataDir::new("descriptors");
    // Small extents and segments: new files are needed while the crowd has every descriptor.
    let settings = [
        ("CORELOG_WAL__EXTENT_BYTES", "1048576"),
        ("CORELOG_WAL__BYTES_MAX", "2097152"),
        ("CORELOG_NETWORK__FIRST_FRAME_WAIT_MS", "2000"),
    ];
    let mut broker = Broker::start_with(&data, 2, &settings).await;
    let mut worker = Connection::connect(broker.address).await.expect("connects");
    let small = [("segment.bytes", "1048576")];
    worker
        .create_topic(TOPIC, 1, &small)
        .await
        .expect("a topic");
    broker.limit_open_files(broker.open_files() as u64 + 50);
    let crowd: Vec<_> = (0..200)
        .map(|_| tokio::spawn(linger(broker.address, b"x")))
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    for number in 0..BATCHES {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(1_000, None, Some(&[7; 400_000]), &[]);
        let batch = builder.finish().expect("a batch");
        let offset = worker.produce(TOPIC, 0, Acks::All, batch).await;
        assert_eq!(offset.expect("an acknowledgement"), number);
    }
    broker.assert_alive();
    for client in crowd {
        client.abort();
    }
}
