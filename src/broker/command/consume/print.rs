//! Prints records: by a format string, or as documents. Knows nothing of which records are wanted.

use std::fmt;
use std::io::{self, BufWriter, Stdout, Write};

use client::consumer::ConsumerRecord;
use serde::Serialize;
use serde_json::Value;

use super::Consume;
use super::format::Format as Pattern;
use crate::command::output::{Format, Stream};
use crate::command::text;

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

/// Where records are printed.
pub enum Printer {
    /// As text.
    Pattern(Pattern, BufWriter<Stdout>),
    /// As JSON, or a line each that no content can spoil.
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
    /// To standard output, as asked for.
    pub fn new(consume: &Consume) -> Self {
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

    /// Prints a record; `null` stands for null in text.
    ///
    /// # Errors
    /// Those of standard output.
    pub fn print(&mut self, received: &Received<'_>, null: &str) -> io::Result<()> {
        match self {
            Self::Pattern(pattern, out) => pattern.write(out, received, null),
            Self::Documents(stream) => {
                stream.push(&Document::of(received), || received.to_string())
            }
        }
    }

    /// Hands on what is buffered.
    ///
    /// # Errors
    /// Those of standard output.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Pattern(_, out) => out.flush(),
            Self::Documents(stream) => stream.flush(),
        }
    }

    /// The end.
    ///
    /// # Errors
    /// Those of standard output.
    pub fn finish(self) -> io::Result<()> {
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
impl fmt::Display for Received<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
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
