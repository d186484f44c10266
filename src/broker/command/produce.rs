//! `corelog produce`: lines of a file or of standard input become records of a topic. Knows nothing
//! of batches and retries: those are the client's.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use client::producer::{Delivery, Producer, ProducerRecord, RecordMetadata};
use client::{Error, ProducerConfig};
use serde::Serialize;
use tokio::io::{AsyncBufRead, BufReader};

use super::connect::{self, Target, key_value};
use super::exit::{Ending, Failure, written};
use super::lines::{Shape, unescape};
use super::output::{self, Format, Stream, complain};

/// Records whose fate is open at a time; the client's buffer.memory bounds their bytes.
const OPEN_MAX: usize = 10_000;
/// Failures that are told one by one.
const TOLD_MAX: u64 = 10;

/// Write lines as records to a topic.
///
/// Prints nothing when all is well, unless --output asks for the place of each record.
#[derive(Clone, Debug, Args)]
pub struct Produce {
    #[command(flatten)]
    target: Target,
    /// The topic.
    #[arg(short, long, value_name = "TOPIC")]
    topic: String,
    /// The partition; by default the key says, and without a key they take turns.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// What ends a key in a line, for example -K: or -K '\t'.
    #[arg(short = 'K', long, value_name = "TEXT", value_parser = separator)]
    key_separator: Option<Separator>,
    /// The key of lines that have none of their own.
    #[arg(short, long, value_name = "KEY")]
    key: Option<String>,
    /// A header of every record. Repeatable.
    #[arg(short = 'H', long = "header", value_name = "KEY=VALUE", value_parser = key_value)]
    headers: Vec<(String, String)>,
    /// What ends a record.
    #[arg(short = 'D', long, value_name = "TEXT", default_value = "\\n", value_parser = separator)]
    delimiter: Separator,
    /// An empty value or key is null: a value of nothing deletes its key in a compacted topic.
    #[arg(short = 'Z', long)]
    null: bool,
    /// none, gzip, snappy, lz4 or zstd (the property compression.type).
    #[arg(short = 'z', long, value_name = "CODEC")]
    compression: Option<String>,
    /// all, 1 or 0: who must have a record before it counts as written.
    #[arg(short, long, value_name = "ACKS", allow_hyphen_values = true)]
    acks: Option<String>,
    /// Print partition and offset of each record.
    #[arg(short, long, short_alias = 'O', value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// Where lines come from; `-` for standard input.
    #[arg(default_value = "-", value_name = "FILE")]
    file: PathBuf,
}

/// Bytes between things.
#[derive(Clone, Debug)]
struct Separator(Vec<u8>);

fn separator(text: &str) -> Result<Separator, String> {
    unescape(text).map(Separator)
}

/// Where a record is now.
#[derive(Serialize)]
struct Place<'a> {
    topic: &'a str,
    partition: i32,
    offset: Option<i64>,
    timestamp: i64,
}

/// Writes the records.
///
/// # Errors
/// When none could be written.
pub fn run(produce: &Produce) -> Result<Ending, Failure> {
    let properties = produce.target.properties(&[
        ("acks", produce.acks.clone()),
        ("compression.type", produce.compression.clone()),
        ("max.block.ms", Some(connect::PATIENCE_MS.to_owned())),
    ]);
    let config = ProducerConfig::from_properties(&properties)?;
    connect::run(async {
        if produce.file == Path::new("-") {
            let input = BufReader::new(tokio::io::stdin());
            return Job::new(produce, config)?.run(input).await;
        }
        let opened = tokio::fs::File::open(&produce.file).await;
        let file = opened.map_err(|error| unreadable(&produce.file, &error))?;
        Job::new(produce, config)?.run(BufReader::new(file)).await
    })
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let what = format!("cannot read {}: {error}", path.display());
    let ending = match error.kind() {
        std::io::ErrorKind::NotFound => Ending::NotFoundOrConflict,
        _ => Ending::Failed,
    };
    Failure::new(
        ending,
        what,
        "Name a file with lines, or - for standard input.",
    )
}

struct Job<'a> {
    produce: &'a Produce,
    producer: Producer,
    /// Line numbers, from 1, with the fate of each.
    open: VecDeque<(u64, Delivery)>,
    places: Option<Stream<std::io::BufWriter<std::io::Stdout>>>,
    written: u64,
    failed: u64,
    /// The first failure, which says how the command ends if all failed.
    first: Option<Failure>,
}

impl<'a> Job<'a> {
    fn new(produce: &'a Produce, config: ProducerConfig) -> Result<Self, Failure> {
        Ok(Self {
            produce,
            producer: Producer::new(config)?,
            open: VecDeque::new(),
            places: produce.output.map(Stream::stdout),
            written: 0,
            failed: 0,
            first: None,
        })
    }

    async fn run(mut self, mut input: impl AsyncBufRead + Unpin) -> Result<Ending, Failure> {
        let produce = self.produce;
        let shape = Shape {
            delimiter: produce.delimiter.0.clone(),
            key_separator: produce.key_separator.clone().map(|it| it.0),
            key: produce.key.clone().map(Bytes::from),
            empty_is_null: produce.null,
        };
        let mut number = 0;
        loop {
            let read = shape.next(&mut input).await;
            let line = match read.map_err(|error| unreadable(&produce.file, &error)) {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(failure) => {
                    self.fail(number + 1, failure);
                    break;
                }
            };
            number += 1;
            let sent = self.producer.send(self.record(&shape, &line)).await;
            match sent {
                Ok(delivery) => self.open.push_back((number, delivery)),
                // Only this line is at fault.
                Err(error @ Error::RecordTooLarge { .. }) => self.fail(number, error.into()),
                Err(error) => {
                    self.fail(number, error.into());
                    break;
                }
            }
            if self.open.len() >= OPEN_MAX {
                self.settle(OPEN_MAX / 2).await?;
            }
        }
        self.settle(0).await?;
        // All fates are known: there is nothing left to wait for.
        let _ = self.producer.close(Duration::ZERO).await;
        self.end()
    }

    fn record(&self, shape: &Shape, line: &Bytes) -> ProducerRecord {
        let (key, value) = shape.split(line);
        let mut record = ProducerRecord::to(self.produce.topic.as_str());
        record.partition = self.produce.partition;
        record.key = key;
        record.value = value;
        for (key, value) in &self.produce.headers {
            record = record.header(key, Some(Bytes::from(value.clone())));
        }
        record
    }

    /// Waits until at most so many fates are open.
    async fn settle(&mut self, open_max: usize) -> Result<(), Failure> {
        while self.open.len() > open_max {
            let Some((number, delivery)) = self.open.pop_front() else {
                return Ok(());
            };
            match delivery.await {
                Ok(metadata) => self.succeed(&metadata)?,
                Err(error) => self.fail(number, error.into()),
            }
        }
        Ok(())
    }

    fn succeed(&mut self, metadata: &RecordMetadata) -> Result<(), Failure> {
        self.written += 1;
        let Some(places) = &mut self.places else {
            return Ok(());
        };
        let place = Place {
            topic: &metadata.topic,
            partition: metadata.partition,
            offset: metadata.offset,
            timestamp: metadata.timestamp,
        };
        written(places.push(&place, || {
            let offset = place.offset.map_or("?".into(), |it| it.to_string());
            format!("{}-{} offset {offset}\n", place.topic, place.partition)
        }))
    }

    fn fail(&mut self, number: u64, failure: Failure) {
        self.failed += 1;
        if self.failed <= TOLD_MAX {
            complain(&format!("line {number}: {failure}"));
        }
        self.first.get_or_insert(failure);
    }

    fn end(self) -> Result<Ending, Failure> {
        if let Some(places) = self.places {
            written(places.finish().map(drop))?;
        }
        let (done, topic) = (self.written, &self.produce.topic);
        let Some(first) = self.first else {
            if output::is_watched() {
                eprintln!("{done} records written to {topic}");
            }
            return Ok(Ending::Done);
        };
        complain(&format!(
            "{done} records written to {topic}, {} not",
            self.failed
        ));
        match done {
            0 => Ok(first.ending),
            _ => Ok(Ending::Partial),
        }
    }
}
