//! What a dump says, row by row: typed for JSON, one line each for people. Knows nothing of how
//! files are read.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use logic::ids::PartitionId;
use logic::log::header::BatchHeader;
use serde::Serialize;
use serde_json::Value;

use super::super::output::{Format, Stream};
use super::super::text;
use super::Detail;

/// One thing found in a file.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Row {
    /// A record batch of a segment.
    Batch {
        position: u64,
        bytes: u32,
        base_offset: i64,
        last_offset: i64,
        records: i32,
        leader_epoch: i32,
        compression: &'static str,
        timestamp_type: &'static str,
        base_timestamp: i64,
        max_timestamp: i64,
        producer_id: i64,
        producer_epoch: i16,
        base_sequence: i32,
        transactional: bool,
        control: bool,
        sound: bool,
    },
    /// A record of the batch before.
    Record {
        offset: i64,
        timestamp: i64,
        key: Value,
        value: Value,
        headers: Vec<(Value, Value)>,
        #[serde(skip)]
        text: String,
    },
    /// All of a segment.
    Segment {
        bytes: u64,
        sound_bytes: u64,
        batches: u64,
        records: u64,
        base_offset: i64,
        end_offset: i64,
    },
    /// An entry of an offset index.
    OffsetEntry { offset: i64, position: u32 },
    /// An entry of a time index.
    TimeEntry { timestamp: i64, offset: i64 },
    /// All of an index.
    Index { entries: u64 },
    /// A commit of a write-ahead log. A leftover is of an earlier use of its extent.
    Commit {
        position: u64,
        bytes: u64,
        sequence: u64,
        generation: u64,
        durable: u64,
        needed: u64,
        leftover: bool,
        frames: u64,
    },
    /// A frame of the commit before.
    Frame {
        position: u64,
        bytes: u32,
        carries: &'static str,
        topic_id: String,
        partition: i32,
        segment: i64,
        segment_position: u32,
        base_offset: i64,
        end_offset: i64,
        leader_epoch: i32,
    },
    /// All of an extent.
    Extent {
        bytes: u64,
        commits: u64,
        first_sequence: Option<u64>,
        last_sequence: Option<u64>,
    },
    /// A partition's state: its `checkpoint` file, or a frame of a write-ahead log.
    Checkpoint {
        segment: i64,
        bytes: u32,
        log_end: i64,
        created_ms: i64,
        max_timestamp: Option<i64>,
        leader_epochs: Vec<(i32, i64)>,
        producers: Option<u64>,
        batches_after: u64,
        tail_start: u32,
        tail_bytes: u64,
    },
    /// Whose log a directory holds.
    PartitionMetadata {
        topic: String,
        topic_id: String,
        partition: i32,
        log_start: i64,
    },
    /// How often the broker has started on a data directory.
    Boot { starts: u64 },
    /// Worth knowing, and no damage.
    Note { position: Option<u64>, what: String },
    /// Lost or damaged.
    Fault { position: Option<u64>, what: String },
}

/// A row with the file it was found in.
#[derive(Serialize)]
struct Placed<'a> {
    file: String,
    #[serde(flatten)]
    row: &'a Row,
}

/// Where rows go; counts what was wrong.
pub struct Rows {
    stream: Stream<io::BufWriter<io::Stdout>>,
    detail: Detail,
    /// The file of the last row, which people are told once.
    file: Option<PathBuf>,
    /// Faults so far.
    pub faults: u64,
    /// Files so far.
    pub files: u64,
    /// The files, or partitions' directories, with faults.
    pub faulty: BTreeSet<PathBuf>,
}

impl Rows {
    /// To standard output.
    pub fn new(format: Format, detail: Detail) -> Self {
        Self {
            stream: Stream::stdout(format),
            detail,
            file: None,
            faults: 0,
            files: 0,
            faulty: BTreeSet::new(),
        }
    }

    /// Whether records are wanted.
    pub fn with_records(&self) -> bool {
        self.detail == Detail::Records
    }

    /// Adds a row, if the detail asked for includes it.
    ///
    /// # Errors
    /// Those of standard output.
    pub fn push(&mut self, file: &Path, row: &Row) -> io::Result<()> {
        if matches!(row, Row::Fault { .. }) {
            self.faults += 1;
            self.faulty.insert(file.to_owned());
        }
        if row.detail() > self.detail {
            return Ok(());
        }
        let is_new = self.file.as_deref() != Some(file);
        if is_new {
            self.file = Some(file.to_owned());
        }
        let placed = Placed {
            file: file.display().to_string(),
            row,
        };
        self.stream.push(&placed, || match is_new {
            true => format!("{}\n  {row}\n", file.display()),
            false => format!("  {row}\n"),
        })
    }

    /// Adds something worth knowing.
    ///
    /// # Errors
    /// Those of standard output.
    pub fn note(
        &mut self,
        file: &Path,
        at: Option<u64>,
        what: impl Into<String>,
    ) -> io::Result<()> {
        let (position, what) = (at, what.into());
        self.push(file, &Row::Note { position, what })
    }

    /// Adds something lost or damaged.
    ///
    /// # Errors
    /// Those of standard output.
    pub fn fault(
        &mut self,
        file: &Path,
        at: Option<u64>,
        what: impl Into<String>,
    ) -> io::Result<()> {
        let (position, what) = (at, what.into());
        self.push(file, &Row::Fault { position, what })
    }

    /// The end.
    ///
    /// # Errors
    /// Those of standard output.
    pub fn finish(self) -> io::Result<()> {
        self.stream.finish().map(drop)
    }
}

impl Row {
    /// A batch as its header says.
    pub fn batch(position: u64, header: &BatchHeader, sound: bool) -> Self {
        use wire::batch::{CONTROL, LOG_APPEND_TIME, TRANSACTIONAL};
        let has = |flag: i16| header.attributes & flag != 0;
        let by_broker = has(LOG_APPEND_TIME);
        Self::Batch {
            position,
            bytes: header.len,
            base_offset: header.base_offset.0,
            last_offset: header.last_offset().0,
            records: header.record_count,
            leader_epoch: header.leader_epoch.0,
            compression: compression_name(header.attributes),
            timestamp_type: if by_broker {
                "LogAppendTime"
            } else {
                "CreateTime"
            },
            base_timestamp: header.base_timestamp.0,
            max_timestamp: header.max_timestamp.0,
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            transactional: has(TRANSACTIONAL),
            control: has(CONTROL),
            sound,
        }
    }

    /// A record with its absolute offset.
    pub fn record(offset: i64, record: &wire::records::Record) -> Self {
        let header = |it: &wire::records::Header| {
            let key = text::json_bytes(Some(&it.key));
            (key, text::json_bytes(it.value.as_deref()))
        };
        let mut line = format!(
            "{} = {}",
            text::quoted(record.key.as_deref()),
            text::quoted(record.value.as_deref())
        );
        for it in &record.headers {
            let (key, value) = (
                text::quoted(Some(&it.key)),
                text::quoted(it.value.as_deref()),
            );
            line.push_str(&format!("  {key}: {value}"));
        }
        Self::Record {
            offset,
            timestamp: record.timestamp,
            key: text::json_bytes(record.key.as_deref()),
            value: text::json_bytes(record.value.as_deref()),
            headers: record.headers.iter().map(header).collect(),
            text: line,
        }
    }

    /// From which detail on it is shown.
    fn detail(&self) -> Detail {
        match self {
            Self::Record { .. } => Detail::Records,
            Self::Batch { .. }
            | Self::OffsetEntry { .. }
            | Self::TimeEntry { .. }
            | Self::Commit { .. }
            | Self::Frame { .. } => Detail::Batches,
            Self::Fault { .. } => Detail::Faults,
            _ => Detail::Summary,
        }
    }
}

fn compression_name(attributes: i16) -> &'static str {
    use wire::Compression::{Gzip, Lz4, None, Snappy, Zstd};
    match wire::Compression::from_attributes(attributes) {
        Some(None) => "none",
        Some(Gzip) => "gzip",
        Some(Snappy) => "snappy",
        Some(Lz4) => "lz4",
        Some(Zstd) => "zstd",
        Option::None => "unknown",
    }
}

/// How rows name a partition: its topic's id is all that a write-ahead log knows.
pub fn partition_name(id: PartitionId) -> String {
    format!("{}-{}", id.topic, id.index)
}

impl fmt::Display for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |position: &Option<u64>| match position {
            Some(position) => format!("at byte {position}: "),
            None => String::new(),
        };
        match self {
            Self::Batch { .. } => self.fmt_batch(out),
            Self::Record {
                offset,
                timestamp,
                text,
                ..
            } => write!(out, "    record {offset}  time {timestamp}  {text}"),
            Self::OffsetEntry { offset, position } => {
                write!(out, "offset {offset}  position {position}")
            }
            Self::TimeEntry { timestamp, offset } => {
                write!(out, "time {timestamp}  offset {offset}")
            }
            Self::Index { entries } => write!(out, "index of {entries} entries"),
            Self::Commit { .. } | Self::Frame { .. } | Self::Extent { .. } => self.fmt_wal(out),
            Self::Checkpoint { .. } => self.fmt_checkpoint(out),
            Self::Segment {
                bytes,
                sound_bytes,
                batches,
                records,
                base_offset,
                end_offset,
            } => write!(
                out,
                "segment of offsets {base_offset}..{end_offset}: {records} records in {batches} \
                 batches, {sound_bytes} sound bytes of {bytes}"
            ),
            Self::PartitionMetadata {
                topic,
                topic_id,
                partition,
                log_start,
            } => write!(
                out,
                "partition {partition} of topic {topic} ({topic_id}), log start {log_start}"
            ),
            Self::Boot { starts } => write!(out, "started {starts} times"),
            Self::Note { position, what } => write!(out, "note: {}{what}", at(position)),
            Self::Fault { position, what } => write!(out, "FAULT: {}{what}", at(position)),
        }
    }
}

impl Row {
    fn fmt_batch(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Batch {
            position,
            bytes,
            base_offset,
            last_offset,
            records,
            leader_epoch,
            compression,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            transactional,
            control,
            sound,
            ..
        } = self
        else {
            return Ok(());
        };
        write!(
            out,
            "batch {base_offset}..={last_offset}  {records} records  {bytes} bytes at {position}  \
             {compression}  epoch {leader_epoch}  time {max_timestamp}"
        )?;
        if *producer_id >= 0 {
            let producer = format!("{producer_id}/{producer_epoch}");
            write!(out, "  producer {producer} from sequence {base_sequence}")?;
        }
        let marks = [(*transactional, "transactional"), (*control, "control")];
        for (_, mark) in marks.iter().filter(|(set, _)| *set) {
            write!(out, "  {mark}")?;
        }
        match sound {
            true => Ok(()),
            false => write!(out, "  DAMAGED"),
        }
    }

    fn fmt_wal(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit {
                position,
                bytes,
                sequence,
                generation,
                durable,
                needed,
                leftover,
                frames,
            } => {
                let leftover = if *leftover {
                    "  leftover of an earlier use"
                } else {
                    ""
                };
                write!(
                    out,
                    "commit {sequence}  {frames} frames  {bytes} bytes at {position}  generation \
                     {generation}  durable {durable}  needed {needed}{leftover}"
                )
            }
            Self::Frame {
                position,
                bytes,
                carries,
                topic_id,
                partition,
                segment,
                segment_position,
                base_offset,
                end_offset,
                leader_epoch,
            } => write!(
                out,
                "    {carries}  partition {topic_id}-{partition}  offsets {base_offset}..{end_offset}  \
                 {bytes} bytes at {position}  for segment {segment} at {segment_position}  epoch \
                 {leader_epoch}"
            ),
            Self::Extent {
                bytes,
                commits,
                first_sequence: Some(first),
                last_sequence: Some(last),
            } => write!(
                out,
                "extent of {bytes} bytes: {commits} commits, {first}..={last}"
            ),
            Self::Extent { bytes, .. } => write!(out, "extent of {bytes} bytes: no commit"),
            _ => Ok(()),
        }
    }

    fn fmt_checkpoint(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Checkpoint {
            segment,
            bytes,
            log_end,
            leader_epochs,
            producers,
            batches_after,
            tail_start,
            tail_bytes,
            ..
        } = self
        else {
            return Ok(());
        };
        let producers = producers.map_or("unreadable".to_owned(), |count| count.to_string());
        write!(
            out,
            "checkpoint: log end {log_end}, segment {segment} of {bytes} bytes, {producers} \
             producers and {batches_after} batches after, epochs"
        )?;
        for (epoch, start) in leader_epochs {
            write!(out, " {epoch} from {start}")?;
        }
        match tail_bytes {
            0 => Ok(()),
            _ => write!(out, ", {tail_bytes} bytes from {tail_start} on"),
        }
    }
}
