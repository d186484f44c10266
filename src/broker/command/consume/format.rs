//! kcat's format strings: what a record looks like when it is printed. Knows nothing of where
//! records come from.

use std::io::{self, Write};

use bytes::Bytes;

use super::print::Received;
use crate::command::lines::unescape;

/// A format, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format(Vec<Part>);

/// One piece of it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    /// `%s`.
    Value,
    /// `%S`: -1 for null.
    ValueLength,
    /// `%R`: the same as four bytes, big endian.
    ValueLengthBytes,
    /// `%k`.
    Key,
    /// `%K`: -1 for null.
    KeyLength,
    /// `%t`.
    Topic,
    /// `%p`.
    Partition,
    /// `%o`.
    Offset,
    /// `%T`: milliseconds since 1970.
    Timestamp,
    /// `%h`: `key=value`, comma separated.
    Headers,
}

impl Format {
    /// Reads a format string.
    ///
    /// # Errors
    /// When it has a letter behind `%` that stands for nothing, or a wrong escape.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                literal.push(letter);
                // Kept together: an escaped percent sign is no escape of ours, but `\\%` is two.
                if letter == '\\' {
                    literal.extend(letters.next());
                }
                continue;
            }
            let part = match letters.next() {
                Some('%') => {
                    literal.push('%');
                    continue;
                }
                Some('s') => Part::Value,
                Some('S') => Part::ValueLength,
                Some('R') => Part::ValueLengthBytes,
                Some('k') => Part::Key,
                Some('K') => Part::KeyLength,
                Some('t') => Part::Topic,
                Some('p') => Part::Partition,
                Some('o') => Part::Offset,
                Some('T') => Part::Timestamp,
                Some('h') => Part::Headers,
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!(
                        "%{other} stands for nothing: there are %s %S %R %k %K %t %p %o %T %h and %%"
                    ));
                }
            };
            push_text(&mut parts, &mut literal)?;
            parts.push(part);
        }
        push_text(&mut parts, &mut literal)?;
        Ok(Self(parts))
    }

    /// What is printed without a format: the value, or key and value, and what ends a record.
    pub fn lines(key_separator: Option<&[u8]>, delimiter: &[u8]) -> Self {
        let mut parts = Vec::new();
        if let Some(separator) = key_separator {
            parts.extend([Part::Key, Part::Text(separator.to_vec())]);
        }
        parts.extend([Part::Value, Part::Text(delimiter.to_vec())]);
        Self(parts)
    }

    /// Writes a record; `null` stands for a value or key that is null.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write, record: &Received<'_>, null: &str) -> io::Result<()> {
        let or_null = |bytes: &Option<Bytes>| match bytes {
            Some(bytes) => bytes.to_vec(),
            None => null.as_bytes().to_vec(),
        };
        let length = |bytes: &Option<Bytes>| match bytes {
            Some(bytes) => i32::try_from(bytes.len()).unwrap_or(i32::MAX),
            None => -1,
        };
        let (key, value) = (&record.record.key, &record.record.value);
        for part in &self.0 {
            match part {
                Part::Text(text) => out.write_all(text)?,
                Part::Value => out.write_all(&or_null(value))?,
                Part::ValueLength => write!(out, "{}", length(value))?,
                Part::ValueLengthBytes => out.write_all(&length(value).to_be_bytes())?,
                Part::Key => out.write_all(&or_null(key))?,
                Part::KeyLength => write!(out, "{}", length(key))?,
                Part::Topic => out.write_all(record.topic.as_bytes())?,
                Part::Partition => write!(out, "{}", record.partition)?,
                Part::Offset => write!(out, "{}", record.record.offset)?,
                Part::Timestamp => write!(out, "{}", record.record.timestamp)?,
                Part::Headers => write_headers(out, record, null)?,
            }
        }
        Ok(())
    }
}

fn write_headers(out: &mut impl Write, record: &Received<'_>, null: &str) -> io::Result<()> {
    for (number, header) in record.record.headers.iter().enumerate() {
        if number > 0 {
            out.write_all(b",")?;
        }
        out.write_all(&header.key)?;
        out.write_all(b"=")?;
        out.write_all(header.value.as_deref().unwrap_or(null.as_bytes()))?;
    }
    Ok(())
}

fn push_text(parts: &mut Vec<Part>, literal: &mut String) -> Result<(), String> {
    if !literal.is_empty() {
        let text = unescape(literal)?;
        parts.push(Part::Text(text));
        literal.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::consumer::ConsumerRecord;
    use wire::records::Header;

    fn printed(format: &str) -> Vec<u8> {
        let header = |key: &'static str, value: Option<&'static str>| Header {
            key: Bytes::from(key),
            value: value.map(Bytes::from),
        };
        let record = ConsumerRecord {
            offset: 42,
            timestamp: 1_000,
            leader_epoch: None,
            key: None,
            value: Some(Bytes::from("value")),
            headers: vec![header("a", Some("1")), header("b", None)],
        };
        let record = Received {
            topic: "orders",
            partition: 3,
            record: &record,
        };
        let mut out = Vec::new();
        let format = Format::parse(format).expect("a format");
        format
            .write(&mut out, &record, "NULL")
            .expect("memory takes it");
        out
    }

    #[test]
    fn every_letter_stands_for_its_part() {
        let format = r"%t-%p@%o %T %k(%K)=%s(%S) [%h] 100%%\n";
        let wanted: &[u8] = b"orders-3@42 1000 NULL(-1)=value(5) [a=1,b=NULL] 100%\n";
        assert_eq!(printed(format), wanted);
        assert_eq!(printed("%R"), [0, 0, 0, 5]);
    }

    #[test]
    fn what_stands_for_nothing_is_refused() {
        for format in ["%q", "%", r"\q"] {
            assert!(Format::parse(format).is_err(), "{format}");
        }
    }
}
