//! How many records a second one core takes: `measure HOST:PORT [SECONDS] [PARTITIONS] [BYTES]`. Prints
//! the rate of appending alone (records taken while memory lasts) and of sending to that broker.

use std::time::{Duration, Instant};

use client::admin::{Admin, NewTopic};
use client::producer::{Producer, RecordView, timestamp_now};
use client::properties::Acks;
use client::{AdminConfig, Error, ProducerConfig};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let bootstrap = arguments
        .next()
        .unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let mut number = |default: u64| {
        let argument = arguments.next().and_then(|it| it.parse().ok());
        argument.unwrap_or(default)
    };
    let (seconds, partitions, bytes) = (number(5), number(8), number(100));
    let topic = format!("measure-{}", timestamp_now());
    let admin = Admin::new(AdminConfig::to(&bootstrap));
    let new = NewTopic::new(&topic, i32::try_from(partitions).unwrap_or(1));
    for created in admin.create_topics(vec![new], false).await? {
        created.result?;
    }
    let mut config = ProducerConfig::to(&bootstrap);
    config.acks = Acks::Leader;
    config.enable_idempotence = false;
    config.batch_size = 64 << 10;
    config.buffer_memory = 256 << 20;
    config.delivery_timeout = Duration::from_secs(120);
    let producer = Producer::new(config)?;
    producer.partitions_for(&topic).await?;
    let value = vec![b'x'; usize::try_from(bytes).unwrap_or(100)];
    append(&producer, &topic, &value);
    producer.flush().await;
    send(&producer, &topic, &value, Duration::from_secs(seconds)).await?;
    producer.close(Duration::from_secs(30)).await
}

fn view<'a>(topic: &'a str, value: &'a [u8], timestamp: i64) -> RecordView<'a> {
    RecordView {
        topic,
        timestamp,
        value: Some(value),
        ..RecordView::default()
    }
}

/// Nothing yields here, so that nothing is sent meanwhile: this is appending and nothing else.
fn append(producer: &Producer, topic: &str, value: &[u8]) {
    const RECORDS_MAX: u64 = 1_000_000;
    let began = Instant::now();
    let mut taken = 0_u64;
    while taken < RECORDS_MAX
        && producer
            .try_send(&view(topic, value, timestamp_now()))
            .is_ok()
    {
        taken += 1;
    }
    let rate = taken as f64 / began.elapsed().as_secs_f64();
    println!("append: {taken} records, {:.2} M/s", rate / 1e6);
}

async fn send(producer: &Producer, topic: &str, value: &[u8], time: Duration) -> Result<(), Error> {
    let began = Instant::now();
    let before = producer.metrics();
    while began.elapsed() < time {
        for _ in 0..64 {
            match producer.try_send(&view(topic, value, timestamp_now())) {
                Ok(_) => {}
                Err(Error::BufferExhausted { .. }) => producer.memory_freed().await,
                Err(error) => return Err(error),
            }
        }
        tokio::task::yield_now().await;
    }
    producer.flush().await;
    let metrics = producer.metrics();
    let sent = metrics.records_acknowledged - before.records_acknowledged;
    let rate = sent as f64 / began.elapsed().as_secs_f64();
    println!("send: {sent} records, {:.2} M/s", rate / 1e6);
    println!("{metrics:?}");
    Ok(())
}
