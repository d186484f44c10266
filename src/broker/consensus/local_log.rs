//! The metadata records of one broker in one file. Knows nothing of what records mean.
//!
//! Each set of records is one frame: magic, length, checksum of all that follows, index, records;
//! padded with zeros to whole blocks, so that no block that holds a committed frame is written again.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use logic::cluster::{Image, Record};
use reactor::Reactor;
use reactor::buffer::{ALIGNMENT, AlignedBuf};
use reactor::file::{DirectFile, Mode};

const MAGIC: u32 = 0x4d45_5441;
/// magic, length, checksum.
const PREFIX_BYTES: usize = 12;
/// A log with more frames than this is rewritten as one when it is loaded.
const FRAMES_MAX: u64 = 1_000;

/// Why the records could not be read.
#[derive(Debug)]
pub enum LoadError {
    /// The machine failed.
    Io(io::Error),
    /// The file holds something that no crash explains.
    Damaged {
        /// Where, in bytes.
        position: u64,
    },
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the metadata log cannot be read: {error}"),
            Self::Damaged { position } => write!(
                f,
                "the metadata log is damaged at byte {position}: committed records follow ones that \
                 do not check; restore the file from a backup, or start with an empty data directory"
            ),
        }
    }
}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What was loaded.
pub struct Loaded {
    /// What the records add up to.
    pub image: Image,
    /// Where the next frame goes, in bytes.
    position: u64,
    /// The next frame's index.
    next_index: u64,
}

/// Reads the log, before any reactor runs. A file that does not exist is made.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            replace(path, &[])?;
            Vec::new()
        }
        Err(error) => return Err(error.into()),
    };
    let mut loaded = Loaded {
        image: Image::default(),
        position: 0,
        next_index: 0,
    };
    while let Some((records, frame_bytes)) = frame_at(&bytes, loaded.position, loaded.next_index) {
        records
            .iter()
            .for_each(|record| loaded.image.replay(record));
        loaded.position += frame_bytes;
        loaded.next_index += 1;
    }
    let mut later = loaded.position + ALIGNMENT as u64;
    while later < bytes.len() as u64 {
        // A frame is flushed before the next one is written: only the last one can be torn.
        if frame_with_any_index(&bytes, later).is_some() {
            return Err(LoadError::Damaged {
                position: loaded.position,
            });
        }
        later += ALIGNMENT as u64;
    }
    if loaded.next_index > FRAMES_MAX {
        let frame = encode(0, &loaded.image.records());
        replace(path, &frame)?;
        (loaded.position, loaded.next_index) = (frame.len() as u64, 1);
    }
    Ok(loaded)
}

/// Puts a whole new file in the place of the old one, durably.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

fn frame_at(bytes: &[u8], position: u64, index: u64) -> Option<(Vec<Record>, u64)> {
    let (found, records, frame_bytes) = frame_with_any_index(bytes, position)?;
    (found == index).then_some((records, frame_bytes))
}

fn frame_with_any_index(bytes: &[u8], position: u64) -> Option<(u64, Vec<Record>, u64)> {
    let frame = bytes.get(usize::try_from(position).ok()?..)?;
    let (prefix, rest) = frame.split_first_chunk::<PREFIX_BYTES>()?;
    let word =
        |at: usize| -> Option<u32> { Some(u32::from_be_bytes(*prefix.get(at..)?.first_chunk()?)) };
    if word(0)? != MAGIC {
        return None;
    }
    let length = usize::try_from(word(4)?).ok()?;
    let content = rest.get(..length)?;
    if crc32c::crc32c(content) != word(8)? {
        return None;
    }
    let (index, mut left) = content.split_first_chunk::<8>()?;
    let mut records = Vec::new();
    while !left.is_empty() {
        records.push(Record::decode(&mut left).ok()?);
    }
    let frame_bytes = (PREFIX_BYTES + length).next_multiple_of(ALIGNMENT) as u64;
    Some((u64::from_be_bytes(*index), records, frame_bytes))
}

fn encode(index: u64, records: &[Record]) -> Vec<u8> {
    let mut content = index.to_be_bytes().to_vec();
    records
        .iter()
        .for_each(|record| record.encode(&mut content));
    let length = u32::try_from(content.len()).expect("a set of records is shorter than 4 GiB");
    let mut frame = Vec::with_capacity(content.len() + ALIGNMENT);
    frame.extend_from_slice(&MAGIC.to_be_bytes());
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&crc32c::crc32c(&content).to_be_bytes());
    frame.extend_from_slice(&content);
    frame.resize(frame.len().next_multiple_of(ALIGNMENT), 0);
    frame
}

/// The log, open for appending.
pub struct MetadataLog {
    file: DirectFile,
    position: Cell<u64>,
    next_index: Cell<u64>,
    /// After the first failure nothing is appended until a restart (invariant 29).
    failed: Cell<bool>,
}

impl MetadataLog {
    /// Opens what [`load`] has read.
    pub async fn open(reactor: &Reactor, path: &Path, loaded: &Loaded) -> io::Result<Self> {
        let file = DirectFile::open(reactor, path, Mode::Existing).await?;
        Ok(Self {
            file,
            position: Cell::new(loaded.position),
            next_index: Cell::new(loaded.next_index),
            failed: Cell::new(false),
        })
    }

    /// Makes records durable, all or none. One append at a time: the caller waits for each.
    pub async fn append(&self, records: &[Record]) -> io::Result<()> {
        if self.failed.get() {
            return Err(io::Error::other(
                "an earlier write of the metadata log failed",
            ));
        }
        let frame = encode(self.next_index.get(), records);
        let mut buffer = AlignedBuf::new(frame.len());
        buffer.copy_from_slice(&frame);
        let written = self
            .file
            .write_at_flushed(buffer.freeze(), self.position.get())
            .await;
        if let Err(error) = written {
            self.failed.set(true);
            return Err(error);
        }
        self.position.set(self.position.get() + frame.len() as u64);
        self.next_index.set(self.next_index.get() + 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> std::path::PathBuf {
        let name = format!("corelog-metadata-{}-{name}", std::process::id());
        std::env::temp_dir().join(name)
    }

    fn ids(next: i64) -> Vec<Record> {
        vec![Record::ProducerIdsAllocated { next }]
    }

    #[test]
    fn a_torn_last_frame_is_dropped_and_a_damaged_earlier_one_is_refused() {
        let path = scratch("torn");
        let mut bytes = encode(0, &ids(1000));
        bytes.extend(encode(1, &ids(2000)));
        bytes.extend(encode(2, &ids(3000)));
        fs::write(&path, &bytes).expect("writes");
        assert_eq!(load(&path).expect("loads").image.next_producer_id(), 3000);

        let mut torn = bytes.clone();
        torn[2 * ALIGNMENT + 20] ^= 1;
        fs::write(&path, &torn).expect("writes");
        let loaded = load(&path).expect("loads without the last");
        assert_eq!(
            (loaded.image.next_producer_id(), loaded.next_index),
            (2000, 2)
        );

        let mut damaged = bytes;
        damaged[ALIGNMENT + 20] ^= 1;
        fs::write(&path, &damaged).expect("writes");
        let position = ALIGNMENT as u64;
        assert!(matches!(load(&path), Err(LoadError::Damaged { position: at }) if at == position));
        fs::remove_file(path).expect("cleans up");
    }

    #[test]
    fn a_long_log_is_rewritten_and_means_the_same() {
        let path = scratch("long");
        let frames = (0..=FRAMES_MAX)
            .flat_map(|index| encode(index, &ids(i64::try_from(index).expect("small"))));
        fs::write(&path, frames.collect::<Vec<u8>>()).expect("writes");
        let long = load(&path).expect("loads").image;
        assert_eq!(fs::metadata(&path).expect("exists").len(), ALIGNMENT as u64);
        let short = load(&path).expect("loads again");
        assert_eq!((&short.image, short.next_index), (&long, 1));
        fs::remove_file(path).expect("cleans up");
    }
}
