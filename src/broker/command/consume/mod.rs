//! `corelog consume`: prints records of a topic, from where to where, and how. Knows nothing of
//! fetching: that is the client's.

mod bounds;
mod format;
mod moment;

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Stdout, Write};
use std::time::Duration;

use clap::Args;
use client::admin::{Admin, OffsetSpec};
use client::consumer::{Consumer, ConsumerRecord, TopicPartition};
use client::{ConsumerConfig, Error};
use serde::Serialize;
use serde_json::Value;

use self::bounds::{Bound, Bounds, Known, Range, Start};
use self::format::Format as Pattern;
use super::connect::{self, Target};
use super::exit::{Ending, Failure, written};
use super::lines::unescape;
use super::output::{self, Format, Stream};
use super::text;

/// How long one poll waits: then it is seen whether all was read.
const POLL: Duration = Duration::from_millis(200);
const CLOSE: Duration = Duration::from_secs(1);

/// Print records of a topic.
///
/// Without -o, those that come from now on.
#[derive(Clone, Debug, Args)]
pub struct Consume {
    #[command(flatten)]
    target: Target,
    /// The topic.
    #[arg(short, long, value_name = "TOPIC")]
    topic: String,
    /// A partition; by default all. Repeatable.
    #[arg(short, long = "partition", value_name = "N")]
    partitions: Vec<i32>,
    /// Where to begin: beginning, end, an offset N, -N for N before the end, or s@TIME; and e@TIME
    /// to end there. TIME is milliseconds since 1970, or 2026-01-31T12:00:00Z.
    #[arg(
        short,
        long = "offset",
        value_name = "OFFSET",
        value_parser = bounds::parse,
        allow_hyphen_values = true
    )]
    offsets: Vec<Bound>,
    /// End before this offset in every partition.
    #[arg(long, value_name = "OFFSET")]
    to: Option<i64>,
    /// End after so many records.
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// End where partitions ended when this began.
    #[arg(short, long)]
    exit: bool,
    /// What to print of a record, as in kcat: %s value, %S its length, %k key, %K its length, %t
    /// topic, %p partition, %o offset, %T time in ms, %h headers, %R length as four bytes.
    #[arg(short, long, value_name = "FORMAT", value_parser = Pattern::parse)]
    format: Option<Pattern>,
    /// Print keys too, and this behind them.
    #[arg(short = 'K', long, value_name = "TEXT", conflicts_with = "format", value_parser = separator)]
    key_separator: Option<Separator>,
    /// What ends a record.
    #[arg(
        short = 'D',
        long,
        value_name = "TEXT",
        default_value = "\\n",
        conflicts_with = "format",
        value_parser = separator
    )]
    delimiter: Separator,
    /// What to print in place of null.
    #[arg(short = 'Z', long, value_name = "TEXT", default_value = "")]
    null: String,
    /// How to print, in place of --format. (-o is where to begin, as in kcat.)
    #[arg(
        short = 'O',
        long,
        value_enum,
        value_name = "FORMAT",
        conflicts_with = "format"
    )]
    output: Option<Format>,
    /// The same as --output jsonl.
    #[arg(short = 'J', long, conflicts_with_all = ["format", "output"])]
    json: bool,
}

/// Bytes between things.
#[derive(Clone, Debug)]
struct Separator(Vec<u8>);

fn separator(text: &str) -> Result<Separator, String> {
    unescape(text).map(Separator)
}

/// A record with where it comes from.
#[derive(Clone, Copy)]
pub struct Received<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The record.
    pub record: &'a ConsumerRecord,
}

/// Prints the records.
///
/// # Errors
/// When the topic, a partition or an offset is not there, or no broker answers.
pub fn run(consume: &Consume) -> Result<Ending, Failure> {
    let wrong = |what| {
        Failure::new(
            Ending::Usage,
            what,
            "Give one start, and at most one e@TIME.",
        )
    };
    let bounds = Bounds::new(&consume.offsets, consume.to, consume.exit).map_err(wrong)?;
    let patience = Some(connect::PATIENCE_MS.to_owned());
    let properties = consume.target.properties(&[
        ("default.api.timeout.ms", patience),
        ("enable.auto.commit", Some("false".to_owned())),
    ]);
    let config = ConsumerConfig::from_properties(&properties)?;
    connect::run(async {
        let ranges = ranges(consume, &bounds, &config).await?;
        Reader::new(consume, config, ranges)?.run().await
    })
}

/// What is to be read of each partition.
async fn ranges(
    consume: &Consume,
    bounds: &Bounds,
    config: &ConsumerConfig,
) -> Result<BTreeMap<i32, Range>, Failure> {
    let admin = Admin::new(client::AdminConfig {
        cluster: config.cluster.clone(),
        default_api_timeout: config.default_api_timeout,
    });
    let partitions = partitions(consume, &admin).await?;
    let look = async |spec| offsets(&admin, &consume.topic, &partitions, spec).await;
    let earliest = look(OffsetSpec::Earliest).await?;
    let latest = look(OffsetSpec::Latest).await?;
    let at_start = match bounds.start {
        Some(Start::Time(time)) => look(OffsetSpec::Timestamp(time)).await?,
        _ => Offsets::new(),
    };
    let at_until = match bounds.until {
        Some(time) => look(OffsetSpec::Timestamp(time)).await?,
        None => Offsets::new(),
    };
    let mut ranges = BTreeMap::new();
    for (partition, earliest) in earliest {
        let found = |offsets: &Offsets| offsets.get(&partition).copied().filter(|it| *it >= 0);
        let known = Known {
            earliest,
            latest: found(&latest).unwrap_or(earliest),
            at_start: found(&at_start),
            at_until: found(&at_until),
        };
        let range = bounds.range(&known).map_err(|what| {
            Failure::new(
                Ending::NotFoundOrConflict,
                format!("{}-{partition}: {what}", consume.topic),
                "Begin with -o beginning, or at an offset that is there.",
            )
        })?;
        ranges.insert(partition, range);
    }
    Ok(ranges)
}

/// The partitions asked for, all of which exist.
async fn partitions(consume: &Consume, admin: &Admin) -> Result<Vec<i32>, Failure> {
    let described = admin.describe_topics(&[&consume.topic]).await?;
    let mut there = Vec::new();
    for topic in described {
        there.extend(topic.result?.partitions.iter().map(|it| it.index));
    }
    if let Some(missing) = consume.partitions.iter().find(|it| !there.contains(it)) {
        let (topic, count) = (&consume.topic, there.len());
        return Err(Failure::new(
            Ending::NotFoundOrConflict,
            format!("topic {topic} has no partition {missing}, only {count} partitions from 0 on"),
            "Choose one of them with -p, or none to read all.",
        ));
    }
    match consume.partitions.is_empty() {
        true => Ok(there),
        false => Ok(consume.partitions.clone()),
    }
}

type Offsets = BTreeMap<i32, i64>;

async fn offsets(
    admin: &Admin,
    topic: &str,
    partitions: &[i32],
    spec: OffsetSpec,
) -> Result<Offsets, Error> {
    let place = |partition: &i32| ((topic.to_owned(), *partition), spec);
    let found = admin.list_offsets(partitions.iter().map(place).collect());
    let mut offsets = Offsets::new();
    for about in found.await? {
        offsets.insert(about.key.1, about.result?.offset);
    }
    Ok(offsets)
}

/// Where records are printed.
enum Printer {
    Pattern(Pattern, BufWriter<Stdout>),
    Documents(Stream<BufWriter<Stdout>>),
}

/// A record in JSON.
#[derive(Serialize)]
struct Document<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp: i64,
    key: Value,
    value: Value,
    headers: Vec<(Value, Value)>,
}

impl Printer {
    fn new(consume: &Consume) -> Self {
        let jsonl = consume.json.then_some(Format::Jsonl);
        if let Some(format) = consume.output.or(jsonl) {
            return Self::Documents(Stream::stdout(format));
        }
        let lines = || {
            let separator = consume.key_separator.as_ref().map(|it| it.0.as_slice());
            Pattern::lines(separator, &consume.delimiter.0)
        };
        let pattern = consume.format.clone().unwrap_or_else(lines);
        Self::Pattern(pattern, BufWriter::with_capacity(64 << 10, io::stdout()))
    }

    fn print(&mut self, received: &Received<'_>, null: &str) -> io::Result<()> {
        match self {
            Self::Pattern(pattern, out) => pattern.write(out, received, null),
            Self::Documents(stream) => {
                stream.push(&Document::of(received), || received.to_string())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Pattern(_, out) => out.flush(),
            Self::Documents(stream) => stream.flush(),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Pattern(_, mut out) => out.flush(),
            Self::Documents(stream) => stream.finish().map(drop),
        }
    }
}

impl<'a> Document<'a> {
    fn of(received: &Received<'a>) -> Self {
        let record = received.record;
        let headers = record.headers.iter().map(|header| {
            let key = text::json_bytes(Some(&header.key));
            (key, text::json_bytes(header.value.as_deref()))
        });
        Self {
            topic: received.topic,
            partition: received.partition,
            offset: record.offset,
            timestamp: record.timestamp,
            key: text::json_bytes(record.key.as_deref()),
            value: text::json_bytes(record.value.as_deref()),
            headers: headers.collect(),
        }
    }
}

/// The form for people, which no content of a record can spoil.
impl std::fmt::Display for Received<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (topic, partition, record) = (self.topic, self.partition, self.record);
        let key = text::quoted(record.key.as_deref());
        let value = text::quoted(record.value.as_deref());
        write!(
            out,
            "{topic}-{partition} offset {}  time {}  {key} = {value}",
            record.offset, record.timestamp
        )?;
        for header in &record.headers {
            let key = text::quoted(Some(&header.key));
            write!(out, "  {key}: {}", text::quoted(header.value.as_deref()))?;
        }
        writeln!(out)
    }
}

/// Reads until there is nothing more to read.
struct Reader<'a> {
    consume: &'a Consume,
    consumer: Consumer,
    /// What is still to be read.
    open: BTreeMap<TopicPartition, Range>,
    /// Records that may still be printed.
    left: u64,
    printer: Printer,
}

impl<'a> Reader<'a> {
    fn new(
        consume: &'a Consume,
        config: ConsumerConfig,
        ranges: BTreeMap<i32, Range>,
    ) -> Result<Self, Failure> {
        let place = |(partition, range)| {
            let at = TopicPartition::new(consume.topic.as_str(), partition);
            (at, range)
        };
        let open: BTreeMap<TopicPartition, Range> = ranges
            .into_iter()
            .filter(|(_, range)| !range.is_done(range.from))
            .map(place)
            .collect();
        let mut consumer = Consumer::new(config)?;
        consumer.assign(open.keys().cloned())?;
        for (at, range) in &open {
            consumer.seek(at, range.from)?;
        }
        Ok(Self {
            consume,
            consumer,
            open,
            left: consume.count.unwrap_or(u64::MAX),
            printer: Printer::new(consume),
        })
    }

    async fn run(mut self) -> Result<Ending, Failure> {
        while self.left > 0 && !self.open.is_empty() {
            let records = self.consumer.poll(POLL).await?;
            for (at, record) in records.iter() {
                if self.left == 0 {
                    break;
                }
                if let Err(error) = self.print(at, record) {
                    return written(Err(error)).map(|()| Ending::Done);
                }
            }
            if let Err(error) = self.printer.flush() {
                return written(Err(error)).map(|()| Ending::Done);
            }
            self.finish_partitions().await?;
        }
        written(self.printer.finish())?;
        // All that was wanted is printed: what closing fails at is nobody's loss.
        let _ = self.consumer.close(CLOSE).await;
        Ok(Ending::Done)
    }

    fn print(&mut self, at: &TopicPartition, record: &ConsumerRecord) -> io::Result<()> {
        let wanted = self.open.get(at);
        if wanted.is_none_or(|range| range.is_done(record.offset)) {
            return Ok(());
        }
        self.left -= 1;
        let received = Received {
            topic: &at.topic,
            partition: at.partition,
            record,
        };
        self.printer.print(&received, &self.consume.null)
    }

    /// Leaves partitions whose end was reached: by position, since the last offsets may hold no
    /// records (transaction markers, compaction).
    async fn finish_partitions(&mut self) -> Result<(), Failure> {
        let bounded = self.open.iter().filter(|(_, range)| range.to.is_some());
        let bounded: Vec<(TopicPartition, Range)> =
            bounded.map(|(at, range)| (at.clone(), *range)).collect();
        for (at, range) in bounded {
            let position = self.consumer.position(&at).await?;
            if range.is_done(position) {
                self.open.remove(&at);
                self.consumer.pause(&at)?;
                if output::is_watched() {
                    eprintln!(
                        "{at}: all read up to offset {}",
                        range.to.unwrap_or(position)
                    );
                }
            }
        }
        Ok(())
    }
}
