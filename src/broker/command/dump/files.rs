//! Which file of a data directory is what, by its name and place. Reads no content.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use logic::ids::Offset;

use crate::storage::frame::WalId;
use crate::storage::place::{self, CHECKPOINT, METADATA};

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A whole data directory.
    DataDirectory,
    /// One partition's directory.
    Partition,
    /// One shard's write-ahead log.
    Wal(WalId),
    /// A segment, by its base offset.
    Segment(Offset),
    /// A segment's offset index.
    OffsetIndex(Offset),
    /// A segment's time index.
    TimeIndex(Offset),
    /// One file of a write-ahead log; none when the directory's name does not say which log's.
    Extent(Option<WalId>),
    /// A partition's state at the last clean stop.
    Checkpoint,
    /// Whose log a directory holds.
    Metadata,
    /// How often the broker has started.
    Boot,
}

/// Tells what a path is.
///
/// # Errors
/// When there is nothing.
pub fn what(path: &Path) -> io::Result<Option<What>> {
    let name = name_of(path);
    if fs::metadata(path)?.is_dir() {
        if let Some((_, wal)) = place::parse_wal_name(&name) {
            return Ok(Some(What::Wal(wal)));
        }
        let holds = |name: &str| path.join(name).exists();
        if place::logs_root(path).is_dir() || place::wal_root(path).is_dir() {
            return Ok(Some(What::DataDirectory));
        }
        let has_segment = || {
            let paths = sorted(path).unwrap_or_default();
            paths
                .iter()
                .any(|it| it.extension().is_some_and(|it| it == "log"))
        };
        return Ok((holds(METADATA) || has_segment()).then_some(What::Partition));
    }
    Ok(match name.as_str() {
        CHECKPOINT => Some(What::Checkpoint),
        METADATA => Some(What::Metadata),
        "boot" => Some(What::Boot),
        _ => by_ending(path),
    })
}

fn by_ending(path: &Path) -> Option<What> {
    let ending = path.extension()?.to_str()?;
    if ending == "extent" {
        let wal = path
            .parent()
            .and_then(|it| place::parse_wal_name(&name_of(it)));
        return Some(What::Extent(wal.map(|(_, wal)| wal)));
    }
    let base = path.file_stem()?.to_str()?.parse().ok()?;
    let base = Some(Offset(base)).filter(|base| base.0 >= 0)?;
    match ending {
        "log" => Some(What::Segment(base)),
        "index" => Some(What::OffsetIndex(base)),
        "timeindex" => Some(What::TimeIndex(base)),
        _ => None,
    }
}

/// A path's last part. `.` and the like are followed to what they stand for.
pub fn name_of(path: &Path) -> String {
    let real = fs::canonicalize(path);
    let path = real.as_deref().unwrap_or(path);
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// What a directory holds, in order of names: segments by offset, write-ahead logs by age.
///
/// # Errors
/// Those of reading it.
pub fn sorted(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?;
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    paths.map(|mut paths| {
        paths.sort();
        paths
    })
}
