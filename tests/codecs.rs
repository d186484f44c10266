//! What becomes of batches in topics with a codec of their own (`compression.type`): what is kept, what is refused,
//! and in which order. Knows the broker as a process and its frames.

mod broker;

use broker::{Broker, DataDir};
use bytes::Bytes;
use client::AdminConfig;
use client::admin::{Admin, ConfigResource};
use client::direct::{Acks, Connection, Error};
use wire::batch::{self, BatchHeader, CRC_FROM, Limits};
use wire::compression::Unfolding;
use wire::records::{BatchBuilder, Record, Records};
use wire::{Compression, ErrorCode};

/// `compression.type` and the codec that it means; none for the producer's.
const TYPES: [(&str, Option<Compression>); 6] = [
    ("producer", None),
    ("uncompressed", Some(Compression::None)),
    ("gzip", Some(Compression::Gzip)),
    ("snappy", Some(Compression::Snappy)),
    ("lz4", Some(Compression::Lz4)),
    ("zstd", Some(Compression::Zstd)),
];
const TYPE: &str = "compression.type";

/// Records of every shape, more bytes of them than a block of any codec, of one producer.
fn shapes(codec: Compression, id: i64, base_sequence: i32) -> Bytes {
    let long = text(100_000);
    let mut builder = BatchBuilder::new(codec).producer(id, 0, base_sequence);
    for at in 0..20_u8 {
        let key = [at];
        let key = (at % 3 > 0).then_some(&key[..]);
        let value = match at % 4 {
            0 => None,
            1 => Some(&long[..]),
            2 => Some(&[][..]),
            _ => Some(&b"short"[..]),
        };
        // Back and forth: deltas below zero, and the largest is not the last.
        let time = 1_000_000 + i64::from(at % 7) * 1_000 - i64::from(at % 2) * 9_999;
        builder.push(time, key, value, &[(b"h", None), (b"h", Some(&[at]))]);
    }
    builder.finish().expect("a batch")
}

/// Words that compress as text does, the same each time.
fn text(bytes: usize) -> Vec<u8> {
    let words = ["order ", "customer ", "shipped ", "amount ", "null, "];
    let mut state = 1_u64;
    let mut text = Vec::with_capacity(bytes + 32);
    while text.len() < bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        text.extend_from_slice(words[(state >> 33) as usize % words.len()].as_bytes());
        text.extend_from_slice((state >> 54).to_string().as_bytes());
    }
    text.truncate(bytes);
    text
}

fn one(codec: Compression, value: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(codec);
    builder.push(1_000_000, Some(b"key"), Some(value), &[]);
    builder.finish().expect("a batch")
}

fn read(batch: &Bytes) -> Vec<Record> {
    assert!(batch::crc_matches(batch), "the checksum is right");
    let records = Records::open(batch, &Unfolding::default()).expect("opened");
    records.collect::<Result<_, _>>().expect("sound")
}

fn header(batch: &Bytes) -> BatchHeader {
    *BatchHeader::parse(batch).expect("a header")
}

/// Likewise in both but for the codec, and what follows from it: the length and the checksum.
fn assert_same_but_for_codec(kept: &BatchHeader, sent: &BatchHeader) {
    let fields = |header: &BatchHeader| {
        (
            header.attributes() & !batch::CODEC_BITS,
            (header.base_timestamp(), header.max_timestamp()),
            (header.producer_id(), header.producer_epoch()),
            header.base_sequence(),
            (header.record_count(), header.last_offset_delta()),
        )
    };
    assert_eq!(fields(kept), fields(sent));
}

async fn connected(broker: &Broker) -> Connection {
    Connection::connect(broker.address).await.expect("connects")
}

/// What a topic keeps from an offset on.
async fn kept(connection: &mut Connection, topic: &str, offset: i64) -> Vec<Bytes> {
    let (_, batches) = connection.fetch(topic, 0, offset).await.expect("fetched");
    batches.into_iter().map(|batch| batch.bytes).collect()
}

async fn produced(connection: &mut Connection, topic: &str, batch: Bytes) -> Result<i64, i16> {
    match connection.produce(topic, 0, Acks::All, batch).await {
        Ok(offset) => Ok(offset),
        Err(Error::Broker(code)) => Err(code),
        Err(error) => panic!("no answer: {error}"),
    }
}

#[tokio::test]
async fn every_codec_becomes_the_topic_s_and_every_record_stays_as_it_was_sent() {
    let data = DataDir::new("codecs-each");
    let broker = Broker::start(&data, 2).await;
    let mut connection = connected(&broker).await;
    for (word, wanted) in TYPES {
        let created = connection.create_topic(word, 1, &[(TYPE, word)]).await;
        created.expect("created");
        let producer = connection.init_producer().await.expect("a producer");
        let mut sequence = 0;
        for codec in Compression::ALL {
            let sent = shapes(codec, producer.id, sequence);
            sequence += 20;
            let offset = produced(&mut connection, word, sent.clone()).await;
            let offset = offset.expect("accepted");
            let batches = kept(&mut connection, word, offset).await;
            let kept = batches.first().expect("it is there");
            assert_eq!(read(kept), read(&sent), "{codec:?} to {word}");
            assert_same_but_for_codec(&header(kept), &header(&sent));
            let wanted = wanted.unwrap_or(codec);
            assert_eq!(header(kept).compression(), Some(wanted), "{codec:?}");
            if wanted == codec {
                assert_eq!(kept[CRC_FROM..], sent[CRC_FROM..], "{codec:?} to {word}");
            }
            let checked = batch::check(&with_base_offset_zero(kept), &Limits::default());
            assert!(checked.is_ok(), "{codec:?} to {word}: {checked:?}");
        }
    }
    broker.terminate();
}

fn with_base_offset_zero(batch: &Bytes) -> Bytes {
    let mut batch = batch.to_vec();
    batch::stamp(&mut batch, 0, 0);
    batch.into()
}

#[tokio::test]
async fn the_broker_s_time_is_stamped_on_what_was_folded_anew() {
    let data = DataDir::new("codecs-append-time");
    let broker = Broker::start(&data, 1).await;
    let mut connection = connected(&broker).await;
    let configs = [(TYPE, "lz4"), ("message.timestamp.type", "LogAppendTime")];
    let created = connection.create_topic("t", 1, &configs).await;
    created.expect("created");
    let sent = shapes(Compression::Gzip, -1, -1);
    produced(&mut connection, "t", sent.clone())
        .await
        .expect("accepted");
    let batches = kept(&mut connection, "t", 0).await;
    let header = header(&batches[0]);
    assert!(header.is_log_append_time());
    assert_eq!(header.compression(), Some(Compression::Lz4));
    let mut expected = read(&sent);
    for record in &mut expected {
        assert!(header.max_timestamp() > record.timestamp);
        record.timestamp = header.max_timestamp();
    }
    assert_eq!(read(&batches[0]), expected);
    broker.terminate();
}

#[tokio::test]
async fn a_retry_is_known_again_though_the_topic_s_codec_has_changed_meanwhile() {
    let data = DataDir::new("codecs-retry");
    let mut broker = Broker::start(&data, 2).await;
    let mut connection = connected(&broker).await;
    let created = connection.create_topic("t", 1, &[(TYPE, "zstd")]).await;
    created.expect("created");
    let producer = connection.init_producer().await.expect("a producer");
    let first = shapes(Compression::Lz4, producer.id, 0);
    let second = shapes(Compression::Lz4, producer.id, 20);
    for word in ["zstd", "gzip", "producer"] {
        change(&broker, "t", word).await;
        let mut connection = connected(&broker).await;
        for (batch, offset) in [(&first, 0), (&second, 20), (&first, 0), (&second, 20)] {
            let answer = produced(&mut connection, "t", batch.clone()).await;
            assert_eq!(answer, Ok(offset), "{word}");
        }
        let skipped = shapes(Compression::Lz4, producer.id, 60);
        let answer = produced(&mut connection, "t", skipped).await;
        let out_of_order = ErrorCode::OutOfOrderSequenceNumber.code();
        assert_eq!(answer, Err(out_of_order), "{word}");
        // And by a broker that knows of the first only what it has kept.
        broker.kill();
        broker = Broker::start(&data, 2).await;
    }
    let mut connection = connected(&broker).await;
    for (batch, offset) in [(&first, 0), (&second, 20)] {
        let fetched = connection.fetch("t", 0, offset).await;
        let (high_watermark, batches) = fetched.expect("fetched");
        assert_eq!(high_watermark, 40, "each is there once");
        assert_eq!(read(&batches[0].bytes), read(batch));
    }
    broker.terminate();
}

async fn change(broker: &Broker, topic: &str, word: &str) {
    let admin = Admin::new(AdminConfig::to(&broker.address.to_string()));
    let values = vec![(TYPE.to_owned(), Some(word.to_owned()))];
    let changed = admin
        .alter_config(&ConfigResource::topic(topic), values, false)
        .await;
    changed.expect("changed");
}

#[tokio::test]
async fn a_changed_codec_holds_from_the_next_batch_on() {
    let data = DataDir::new("codecs-change");
    let broker = Broker::start(&data, 2).await;
    let mut connection = connected(&broker).await;
    let created = connection.create_topic("t", 1, &[]).await;
    created.expect("created");
    let sent = shapes(Compression::Snappy, -1, -1);
    for (at, (word, wanted)) in TYPES.into_iter().rev().cycle().take(13).enumerate() {
        change(&broker, "t", word).await;
        let offset = produced(&mut connection, "t", sent.clone()).await;
        assert_eq!(offset, Ok(20 * at as i64));
        let batches = kept(&mut connection, "t", 20 * at as i64).await;
        let wanted = wanted.unwrap_or(Compression::Snappy);
        assert_eq!(header(&batches[0]).compression(), Some(wanted), "{word}");
        assert_eq!(read(&batches[0]), read(&sent));
    }
    broker.terminate();
}

#[tokio::test]
async fn what_is_too_large_as_sent_or_in_the_topic_s_codec_is_refused_and_the_rest_kept() {
    let data = DataDir::new("codecs-large");
    let broker = Broker::start(&data, 1).await;
    let mut connection = connected(&broker).await;
    let limit = ("max.message.bytes", "10000");
    for (word, _) in TYPES {
        let configs = [(TYPE, word), limit];
        let created = connection.create_topic(word, 1, &configs).await;
        created.expect("created");
    }
    let too_large = ErrorCode::MessageTooLarge.code();
    let noise: Vec<u8> = (0..9_900_u64)
        .map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8)
        .collect();
    for (topic, codec, value, answer) in [
        // Small as sent, large unfolded.
        (
            "uncompressed",
            Compression::Zstd,
            text(20_000),
            Err(too_large),
        ),
        (
            "uncompressed",
            Compression::Zstd,
            vec![0; 8 << 20],
            Err(too_large),
        ),
        // Larger in the worse codec: snappy finds nothing where zstd does.
        ("snappy", Compression::Zstd, text(60_000), Err(too_large)),
        ("lz4", Compression::Zstd, text(60_000), Err(too_large)),
        // Large as sent, small folded: as in Kafka.
        ("zstd", Compression::None, vec![0; 20_000], Err(too_large)),
        (
            "producer",
            Compression::None,
            vec![0; 20_000],
            Err(too_large),
        ),
        // Just below in both.
        ("uncompressed", Compression::Zstd, text(9_900), Ok(0)),
        ("zstd", Compression::None, noise.clone(), Ok(0)),
        ("producer", Compression::Zstd, text(60_000), Err(too_large)),
        ("producer", Compression::Zstd, text(20_000), Ok(0)),
    ] {
        let sent = one(codec, &value);
        let what = format!("{} bytes in {codec:?} to {topic}", value.len());
        assert_eq!(
            produced(&mut connection, topic, sent).await,
            answer,
            "{what}"
        );
        let batches = kept(&mut connection, topic, 0).await;
        let values: Vec<Option<Bytes>> = batches
            .iter()
            .flat_map(read)
            .map(|record| record.value)
            .collect();
        match answer {
            Ok(_) => assert_eq!(values, [Some(Bytes::from(value))], "{what}"),
            Err(_) => assert!(values.is_empty(), "{what}"),
        }
    }
    broker.terminate();
}

#[tokio::test]
async fn batches_that_were_sent_without_waiting_stay_in_order_however_long_each_takes_to_fold() {
    let data = DataDir::new("codecs-order");
    let broker = Broker::start(&data, 2).await;
    let mut connection = connected(&broker).await;
    for level in ["1", "19"] {
        let configs = [(TYPE, "zstd"), ("compression.zstd.level", level)];
        // On either shard: on one the partition is the connection's own, on the other it is not.
        let topic = format!("level-{level}");
        let created = connection.create_topic(&topic, 2, &configs).await;
        created.expect("created");
        let large = text(200_000);
        for partition in 0..2 {
            let producer = connection.init_producer().await.expect("a producer");
            for sequence in 0..40 {
                let codec = Compression::ALL[sequence as usize % 5];
                let mut builder = BatchBuilder::new(codec).producer(producer.id, 0, sequence);
                let value = if sequence % 3 == 0 {
                    &large[..]
                } else {
                    b"small"
                };
                builder.push(1_000, None, Some(value), &[]);
                let batch = builder.finish().expect("a batch");
                let asked = connection.ask_produce(&topic, partition, Acks::All, batch);
                asked.await.expect("sent");
            }
            for offset in 0..40 {
                let answer = connection.answer_produce().await.expect("in sequence");
                assert_eq!(answer, offset);
            }
        }
    }
    broker.terminate();
}

#[tokio::test]
async fn a_level_acts_where_a_codec_is_written_anew() {
    let data = DataDir::new("codecs-level");
    let broker = Broker::start(&data, 1).await;
    let mut connection = connected(&broker).await;
    for (word, least, most) in [("gzip", "1", "9"), ("lz4", "9", "17"), ("zstd", "-5", "19")] {
        let mut sizes = Vec::new();
        for level in [least, most] {
            let topic = format!("{word}-{level}");
            let key = format!("compression.{word}.level");
            let configs = [(TYPE, word), (&key[..], level)];
            let created = connection.create_topic(&topic, 1, &configs).await;
            created.expect("created");
            let sent = one(Compression::Snappy, &text(300_000));
            produced(&mut connection, &topic, sent.clone())
                .await
                .expect("accepted");
            let batches = kept(&mut connection, &topic, 0).await;
            assert_eq!(read(&batches[0]), read(&sent));
            sizes.push(batches[0].len());
        }
        assert!(sizes[1] < sizes[0], "{word}: {sizes:?}");
    }
    broker.terminate();
}

#[tokio::test]
async fn requests_whose_batches_want_more_memory_than_there_is_take_turns_and_all_are_kept() {
    let data = DataDir::new("codecs-memory");
    // An eighth is for folded batches: there is room for one at a time.
    let settings = [
        ("CORELOG_NETWORK__REQUEST_MEMORY_BYTES", "8388608"),
        ("CORELOG_NETWORK__SOCKET_REQUEST_MAX_BYTES", "4194304"),
    ];
    let broker = Broker::start_with(&data, 1, &settings).await;
    let mut connection = connected(&broker).await;
    let created = connection
        .create_topic("t", 1, &[(TYPE, "uncompressed")])
        .await;
    created.expect("created");
    let sent = one(Compression::Zstd, &text(900_000));
    let mut clients = Vec::new();
    for _ in 0..16 {
        let (address, sent) = (broker.address, sent.clone());
        clients.push(tokio::spawn(async move {
            let mut connection = Connection::connect(address).await.expect("connects");
            for _ in 0..8 {
                let asked = connection.ask_produce("t", 0, Acks::All, sent.clone());
                asked.await.expect("sent");
            }
            for _ in 0..8 {
                connection.answer_produce().await.expect("accepted");
            }
        }));
    }
    for client in clients {
        client.await.expect("all are answered");
    }
    let (high_watermark, _) = connection.fetch("t", 0, 0).await.expect("fetched");
    assert_eq!(high_watermark, 128);
    broker.terminate();
}
