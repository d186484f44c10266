//! The history file: every event of a verification, one JSON document per line, to be checked again by us or
//! by others. Knows nothing of what events mean.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use super::Event;

/// A history being written.
#[derive(Debug)]
pub struct History {
    out: BufWriter<File>,
}

impl History {
    /// A new history in this file.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self {
            out: BufWriter::with_capacity(1 << 20, File::create(path)?),
        })
    }

    /// Adds an event.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn add(&mut self, event: &Event) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, event)?;
        self.out.write_all(b"\n")
    }

    /// Hands everything to the operating system.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The events of a history, in order.
///
/// # Errors
/// When the file cannot be read; each line's own when it is no event.
pub fn read(path: &Path) -> io::Result<impl Iterator<Item = Result<Event, String>>> {
    let lines = BufReader::new(File::open(path)?).lines();
    Ok((1..).zip(lines).map(|(number, line)| {
        let line = line.map_err(|error| format!("line {number}: {error}"))?;
        serde_json::from_str(&line).map_err(|error| format!("line {number}: {error}"))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::{Reading, RecordId};

    #[test]
    fn a_history_is_read_as_it_was_written() {
        let record = RecordId {
            producer: 1,
            sequence: 2,
        };
        let events = [
            Event::Sent {
                record,
                partition: 3,
            },
            Event::Acked { record, offset: 4 },
            Event::Refused { record },
            Event::Ambiguous { record },
            Event::Read {
                reading: Reading::Final,
                partition: 3,
                offset: 4,
                record: None,
            },
            Event::Watermark {
                partition: 3,
                start: Some(0),
                end: 5,
            },
        ];
        let path = std::env::temp_dir().join(format!("loadgen-history-{}", std::process::id()));
        let mut history = History::create(&path).expect("made");
        for event in &events {
            history.add(event).expect("added");
        }
        history.finish().expect("written");
        let read: Vec<Event> = read(&path).expect("opened").map(Result::unwrap).collect();
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(read, events);
    }
}
