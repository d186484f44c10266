//! A shard's disk: one write-ahead log for all of its partitions, segment files written behind it,
//! the newest bytes in memory. Knows neither Kafka's requests nor who leads what; where a batch lies
//! is decided by `logic::log`.
//!
//! A record's way: [`Log::append`] copies it into the partition's tail buffer and queues a frame; the
//! shard's committer gathers frames into one padded write and, when one of them asks for it, a
//! flush; [`Storage::progressed`] tells. Later its whole blocks go from the same buffer to the
//! segment file, and once they are flushed there the write-ahead log is trimmed; when commits queue up,
//! a partition with much to commit goes there at once (`bypass`). Recovery replays the write-ahead
//! log's frames, nothing else.

mod append;
mod behind;
mod bypass;
pub(crate) mod checkpoint;
mod clean;
mod commit;
mod copy;
mod each;
mod extent;
mod flush;
pub(crate) mod frame;
mod lookup;
pub(crate) mod place;
mod read;
mod recover;
mod removal;
mod reserve;
mod retain;
mod scan;
mod serve;
mod signal;
mod source;
mod state;
mod tail;
mod trim;

pub use logic::log::Config as LogConfig;
pub use logic::log::cleaning::Rules as CleaningRules;
pub use logic::log::retention::Rules as RetentionRules;

#[cfg(test)]
mod tests;

pub use append::{AppendBatch, Log};
pub use clean::{Budget, CleanReport, Cleaner};
pub use copy::{Copied, Copy, NotMoved};
pub use read::{Read, ReadError};
pub use recover::{Damaged, RecoveredLog, Recovery, fuzz, recover};
pub use retain::Retained;
pub use signal::Signal;
pub use state::Storage;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

/// What an operator can set. Every bound is per shard.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of one write-ahead-log extent; a multiple of 4 KiB.
    pub wal_extent_bytes: u64,
    /// Bytes of commits not trimmed yet. Trimming begins at half of it; beyond it
    /// [`Storage::backlog`] grows. Recovery reads at most about this much a shard.
    pub wal_bytes_max: u64,
    /// Frames are gathered into one commit until it has this many bytes.
    pub commit_bytes_max: usize,
    /// A partition's queued bytes from which on they may go straight to its segment.
    pub bypass_bytes_min: usize,
    /// Bytes written that may be without a flush; with half of them one begins.
    pub unflushed_bytes_max: usize,
    /// Bytes that wait for the disk above which [`Storage::is_behind`] says so.
    pub backlog_bytes_max: usize,
    /// Memory for the newest bytes of all partitions. Bytes not yet written to a segment stay even
    /// beyond it, as long as commits that hold them are not trimmed.
    pub tail_cache_bytes: usize,
    /// Free bytes on the disk below which [`Storage::is_short_of_space`] says so; 0 for never.
    pub disk_reserve_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            wal_extent_bytes: 32 << 20,
            wal_bytes_max: 256 << 20,
            commit_bytes_max: 1 << 20,
            bypass_bytes_min: 256 << 10,
            unflushed_bytes_max: 4 << 20,
            backlog_bytes_max: 128 << 20,
            tail_cache_bytes: 128 << 20,
            disk_reserve_bytes: 1 << 30,
        }
    }
}

/// What the machine did to us.
#[derive(Clone, Debug)]
pub enum StorageError {
    /// An operation on a file failed.
    Io {
        /// What was attempted.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        source: Rc<io::Error>,
    },
    /// An earlier write or flush failed: nothing is acknowledged until restart (invariant 29).
    Failed(Rc<str>),
    /// The log was deleted or the storage closed.
    Closed,
    /// A log for this partition is already there.
    Exists(PathBuf),
    /// The bytes to append are not one whole record batch.
    NotABatch,
    /// What is on disk is not what was written there.
    Damaged {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl StorageError {
    /// Names what was attempted when `source` came back.
    pub fn io(doing: &'static str, path: &std::path::Path, source: io::Error) -> Self {
        Self::Io {
            doing,
            path: path.to_owned(),
            source: Rc::new(source),
        }
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io {
                doing,
                path,
                source,
            } => {
                write!(f, "could not {doing} {}: {source}", path.display())
            }
            Self::Failed(reason) => write!(f, "the storage stopped after an error: {reason}"),
            Self::Closed => f.write_str("the log is closed"),
            Self::Exists(path) => write!(f, "{} is already there", path.display()),
            Self::NotABatch => f.write_str("the bytes are not one whole record batch"),
            Self::Damaged { path, what } => write!(f, "{} is damaged: {what}", path.display()),
        }
    }
}

impl std::error::Error for StorageError {}
