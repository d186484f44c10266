//! How results are printed: aligned columns for people, JSON for programs. Knows nothing of what
//! they say.
//!
//! Results go to standard output; everything else goes to standard error.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use clap::ValueEnum;
use serde::Serialize;

use super::exit::{Ending, Failure};

/// How to print results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people; may change in any version.
    #[default]
    Table,
    /// One JSON document; fields are only ever added.
    Json,
    /// One JSON document a line.
    Jsonl,
}

/// Something that can be listed.
pub trait Listed: Serialize {
    /// Names of the columns.
    const COLUMNS: &'static [&'static str];

    /// As many cells as there are columns.
    fn cells(&self) -> Vec<String>;
}

/// Writes a list in the format asked for.
///
/// # Errors
/// Those of `out`.
pub fn list<T: Listed>(out: &mut impl Write, format: Format, rows: &[T]) -> io::Result<()> {
    match format {
        Format::Table => {
            let cells: Vec<Vec<String>> = rows.iter().map(Listed::cells).collect();
            table(out, T::COLUMNS, &cells)
        }
        Format::Json => json(out, &rows),
        Format::Jsonl => rows.iter().try_for_each(|row| json_line(out, row)),
    }
}

/// Writes one JSON document for people to read too.
///
/// # Errors
/// Those of `out`.
pub fn json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}

/// Writes one JSON document on one line.
///
/// # Errors
/// Those of `out`.
pub fn json_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// Columns as wide as their widest cell, two spaces between them, nothing behind the last.
///
/// # Errors
/// Those of `out`.
pub fn table(out: &mut impl Write, columns: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        let widest = cells.map(|cell| cell.chars().count()).max();
        columns[at].len().max(widest.unwrap_or(0))
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let head: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let padded = row.iter().zip(&widths);
        let padded: Vec<String> = padded
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        writeln!(out, "{}", padded.join("  ").trim_end())?;
    }
    Ok(())
}

/// Writes things one by one as they come, without holding all of them.
pub struct Stream<W: Write> {
    out: W,
    format: Format,
    count: u64,
}

impl Stream<BufWriter<Stdout>> {
    /// To standard output.
    pub fn stdout(format: Format) -> Self {
        Self::new(BufWriter::with_capacity(64 << 10, io::stdout()), format)
    }
}

impl<W: Write> Stream<W> {
    /// To `out`.
    pub fn new(out: W, format: Format) -> Self {
        Self {
            out,
            format,
            count: 0,
        }
    }

    /// Writes the next thing; `text` is its form for people, with its line end.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn push(&mut self, value: &impl Serialize, text: impl Fn() -> String) -> io::Result<()> {
        match self.format {
            Format::Table => self.out.write_all(text().as_bytes())?,
            Format::Json => {
                let before: &[u8] = if self.count == 0 { b"[\n" } else { b",\n" };
                self.out.write_all(before)?;
                serde_json::to_writer(&mut self.out, value)?;
            }
            Format::Jsonl => json_line(&mut self.out, value)?,
        }
        self.count += 1;
        Ok(())
    }

    /// Hands on what is buffered.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes what stands behind the last.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        if self.format == Format::Json {
            let end: &[u8] = if self.count == 0 { b"[]\n" } else { b"\n]\n" };
            self.out.write_all(end)?;
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Whether people watch standard error: only then is there progress, and only then is there colour,
/// unless `NO_COLOR` forbids it.
pub fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Says on standard error what is wrong.
pub fn complain(what: &impl std::fmt::Display) {
    let plain = !is_watched() || std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
    match plain {
        true => eprintln!("corelog: {what}"),
        false => eprintln!("\x1b[31mcorelog:\x1b[0m {what}"),
    }
}

/// Tells each failure of several things done one by one, and ends as they do; the only one's is the end.
///
/// # Errors
/// The failure, where one thing was to be done.
pub fn end_of(total: usize, failures: &[Failure]) -> Result<Ending, Failure> {
    if let (1, [only]) = (total, failures) {
        return Err(only.clone());
    }
    failures.iter().for_each(complain);
    Ok(Ending::of_many(total, failures))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).expect("memory takes it");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn columns_are_aligned_and_lines_have_no_tail() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = [row(["orders", ""]), row(["é", "1"])];
        let text = written(|out| table(out, &["NAME", "N"], &rows));
        assert_eq!(text, "NAME    N\norders\né       1\n");
    }

    #[test]
    fn a_stream_is_a_json_document_whatever_its_length() {
        for count in 0..3 {
            let mut stream = Stream::new(Vec::new(), Format::Json);
            for number in 0..count {
                stream.push(&number, String::new).expect("memory takes it");
            }
            let bytes = stream.finish().expect("memory takes it");
            let numbers: Vec<u32> = serde_json::from_slice(&bytes).expect("JSON");
            assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        }
    }
}
