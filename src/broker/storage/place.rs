//! Names under the data directory, and the small checksummed files in it. Knows nothing of logs.
//!
//! ```text
//! wal/boot                                    how often the broker has started here
//! wal/<boot>-<shard>-<wal id>/<n>.extent      one shard's write-ahead log
//! logs/<topic>-<index>.<id>/                  one partition: its segments and
//!     partition.metadata                      whose it is and where it starts
//!     checkpoint                              its state at the last clean stop, a cache
//!     clean-below                             up to where it is compacted, a cache
//! logs/<topic>-<index>.<id>-future/           a copy on its way to take the place of one in another directory
//! ```

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use logic::ids::{Offset, PartitionId, TopicId};
use reactor::Reactor;
use reactor::blocking::fs;
use reactor::buffer::AlignedBuf;
use reactor::file::{self, DirectFile, Mode};

use super::checkpoint::Cursor;
use super::frame::{BLOCK, WalId};

const MAGIC: &[u8; 8] = b"corelog1";
const HEAD_BYTES: usize = 16;
/// Linux's limit on a file name.
const NAME_BYTES_MAX: usize = 255;
/// The end of the name of a directory that is about to vanish.
pub const DELETED: &str = ".deleted";

/// The end of the name of a copy of a log that is made to take its place; shorter than [`DELETED`].
pub const FUTURE: &str = "-future";

/// Where write-ahead logs are.
pub fn wal_root(data_dir: &Path) -> PathBuf {
    data_dir.join("wal")
}

/// Where partitions are.
pub fn logs_root(data_dir: &Path) -> PathBuf {
    data_dir.join("logs")
}

/// A write-ahead log's directory name.
pub fn wal_name(boot: u64, shard: usize, wal: WalId) -> String {
    let id: String = wal.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{boot:010}-{shard}-{id}")
}

/// Reads a write-ahead log's directory name: its boot and its id.
pub fn parse_wal_name(name: &str) -> Option<(u64, WalId)> {
    let mut parts = name.split('-');
    let (boot, _shard, id) = (parts.next()?, parts.next()?, parts.next()?);
    let id = u128::from_str_radix(id, 16)
        .ok()
        .filter(|_| id.len() == 32)?;
    let boot = boot.parse().ok()?;
    parts
        .next()
        .is_none()
        .then_some((boot, WalId(id.to_be_bytes())))
}

/// A fresh name that nobody can guess.
pub fn random_wal_id() -> io::Result<WalId> {
    let mut id = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut id)?;
    Ok(WalId(id))
}

/// A partition's directory name. Names too long for the file system are cut: the metadata file in
/// it has the whole.
pub fn log_name(topic_name: &str, id: PartitionId) -> String {
    let topic = id.topic.to_string();
    let suffix = format!("-{}.{}", id.index, &topic[..12]);
    let room = NAME_BYTES_MAX - suffix.len() - DELETED.len();
    let mut cut = topic_name.len().min(room);
    while !topic_name.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}{suffix}", &topic_name[..cut])
}

/// A segment's file name without its ending: 20 digits, as Kafka has it.
pub fn segment_name(base: Offset) -> String {
    format!("{:020}", base.0)
}

/// What `partition.metadata` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Whose log it is.
    pub id: PartitionId,
    /// The topic's name when the log was made.
    pub topic_name: String,
    /// The log's start; segments wholly below it may still be there.
    pub log_start: Offset,
}

/// Its file name.
pub const METADATA: &str = "partition.metadata";
/// The name of the file that says below which offset a log is clean.
pub const CLEAN_BELOW: &str = "clean-below";
/// The clean stop's file name.
pub const CHECKPOINT: &str = "checkpoint";

impl Metadata {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(&self.id.topic.0);
        out.extend_from_slice(&self.id.index.to_le_bytes());
        out.extend_from_slice(&self.log_start.0.to_le_bytes());
        out.extend_from_slice(self.topic_name.as_bytes());
        out
    }

    /// Reads it back.
    pub fn decode(bytes: &Bytes) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let topic = TopicId(*cursor.take(16)?.first_chunk()?);
        let index = cursor.u32()?.cast_signed();
        let log_start = Offset(cursor.i64()?);
        let name = cursor.take(bytes.len() - 28)?;
        let topic_name = String::from_utf8(name.to_vec()).ok()?;
        Some(Self {
            id: PartitionId { topic, index },
            topic_name,
            log_start,
        })
    }
}

/// Wraps a small file's body: magic, checksum, length.
fn wrap(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_BYTES + body.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&crc32c::crc32c(body).to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(body);
    out
}

/// Reads a small file. `None` when it is missing, torn or of another version. What cannot be read now may
/// well be sound: that is an error, never taken for missing.
pub fn read_small(path: &Path) -> io::Result<Option<Bytes>> {
    match fs::read(path) {
        Ok(bytes) => Ok(unwrap(&Bytes::from(bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The body of a small file.
fn unwrap(bytes: &Bytes) -> Option<Bytes> {
    let mut cursor = Cursor::new(bytes);
    let magic = cursor.take(MAGIC.len())?;
    let checksum = cursor.u32()?;
    let len = cursor.u32()? as usize;
    let body = cursor.take(len)?;
    let sound = magic == MAGIC[..] && cursor.is_done() && crc32c::crc32c(&body) == checksum;
    sound.then_some(body)
}

/// Replaces a small file so that the old or the new content is there after any crash. Blocking.
pub fn write_small_blocking(path: &Path, body: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = fs::File::create(&new)?;
    file.write_all(&wrap(body))?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync_dir_blocking(parent(path))
}

/// Replaces a small file so that the old or the new content is there after any crash.
pub async fn write_small(reactor: &Reactor, path: &Path, body: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    write_whole(reactor, &new, &wrap(body)).await?;
    file::rename(reactor, &new, path).await?;
    file::sync_dir(reactor, parent(path)).await
}

/// Writes a file of exactly these bytes and flushes it.
pub async fn write_whole(reactor: &Reactor, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = DirectFile::open(reactor, path, Mode::Create).await?;
    if !bytes.is_empty() {
        let mut padded = AlignedBuf::new(bytes.len().next_multiple_of(BLOCK));
        padded[..bytes.len()].copy_from_slice(bytes);
        file.write_at(padded.freeze(), 0).await?;
    }
    file.truncate(bytes.len() as u64).await?;
    file.fdatasync().await
}

/// Makes a directory's entries durable. Blocking.
pub fn sync_dir_blocking(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

/// The end of the name of a write-ahead log that is no longer needed.
pub const OLD: &str = "old";

/// Removes a write-ahead log: at once in name, so that no crash leaves half of it. Blocking. What
/// fails leaves a log that the next start replays to the same end.
pub fn remove_wal(directory: &Path) {
    let old = directory.with_extension(OLD);
    if fs::rename(directory, &old).is_ok() && sync_dir_blocking(parent(directory)).is_ok() {
        drop(fs::remove_dir_all(old));
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_topic_name_still_makes_a_file_name() {
        let id = PartitionId {
            topic: TopicId([0xab; 16]),
            index: i32::MAX,
        };
        assert!(log_name(&"t".repeat(249), id).len() + DELETED.len() <= NAME_BYTES_MAX);
        assert_eq!(
            log_name("orders", PartitionId { index: 3, ..id }),
            "orders-3.abababababab"
        );
    }

    #[test]
    fn a_wal_directory_says_its_boot_and_id() {
        let wal = WalId([0x5a; 16]);
        assert_eq!(parse_wal_name(&wal_name(7, 1, wal)), Some((7, wal)));
        assert_eq!(parse_wal_name("7-1-5a"), None);
        assert_eq!(parse_wal_name("boot"), None);
    }

    #[test]
    fn metadata_reads_back() {
        let id = PartitionId {
            topic: TopicId([1; 16]),
            index: 4,
        };
        let metadata = Metadata {
            id,
            topic_name: "a.b".into(),
            log_start: Offset(99),
        };
        assert_eq!(Metadata::decode(&metadata.encode().into()), Some(metadata));
        assert_eq!(Metadata::decode(&Bytes::from_static(&[0; 27])), None);
    }
}
