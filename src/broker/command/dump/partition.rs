//! Dumps one partition's directory, and checks its files against each other: no segment may end
//! early or be missing but for what the write-ahead log still holds.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use logic::ids::{Offset, PartitionId};

use super::coverage::Coverage;
use super::files::{self, What};
use super::index;
use super::row::Rows;
use super::segment::{self, Walked};
use super::small;
use crate::storage::checkpoint::Checkpoint;
use crate::storage::place::{self, CHECKPOINT, METADATA, Metadata};

/// Dumps all files of a partition.
///
/// # Errors
/// Those of the files, and of standard output.
pub fn dump(directory: &Path, coverage: &Coverage, rows: &mut Rows) -> io::Result<()> {
    rows.files += 1;
    let metadata = small::dump_metadata(&directory.join(METADATA), rows)?;
    let checkpoint = directory.join(CHECKPOINT);
    let checkpoint = match checkpoint.exists() {
        true => {
            rows.files += 1;
            small::dump_checkpoint(&checkpoint, rows)?
        }
        false => None,
    };
    let id = metadata.as_ref().map(|metadata| metadata.id);
    let paths = files::sorted(directory)?;
    let mut segments = BTreeMap::new();
    for path in &paths {
        if let Ok(Some(What::Segment(base))) = files::what(path) {
            rows.files += 1;
            let whose = id.map(|id| (id, base));
            let walked = segment::dump(path, base, whose, coverage, rows)?;
            segments.insert(base, walked);
        }
    }
    for path in &paths {
        match files::what(path) {
            Ok(Some(What::OffsetIndex(base))) => {
                rows.files += 1;
                index::dump_offsets(path, base, segments.get(&base), rows)?;
            }
            Ok(Some(What::TimeIndex(base))) => {
                rows.files += 1;
                index::dump_times(path, base, segments.get(&base), rows)?;
            }
            _ => {}
        }
    }
    if let Some(metadata) = metadata {
        let whole = Whole {
            directory,
            metadata: &metadata,
            segments: &segments,
            coverage,
        };
        whole.check_beginning(rows)?;
        whole.check_gaps(rows)?;
        whole.check_unwritten(rows)?;
        if let Some(checkpoint) = checkpoint {
            whole.check_checkpoint(&checkpoint, rows)?;
        }
    }
    Ok(())
}

/// All that is known of a partition.
struct Whole<'a> {
    directory: &'a Path,
    metadata: &'a Metadata,
    segments: &'a BTreeMap<Offset, Walked>,
    coverage: &'a Coverage,
}

impl Whole<'_> {
    fn id(&self) -> PartitionId {
        self.metadata.id
    }

    /// What may be read begins at the log's start.
    fn check_beginning(&self, rows: &mut Rows) -> io::Result<()> {
        let start = self.metadata.log_start;
        let in_files = self.segments.keys().next();
        let in_wal = self.coverage.segments(self.id()).next();
        let first = [in_files.copied(), in_wal].into_iter().flatten().min();
        match first {
            Some(first) if first > start => {
                let what = format!("no segment holds offsets {}..{}", start.0, first.0);
                rows.fault(self.directory, None, what)
            }
            _ => Ok(()),
        }
    }

    /// Each segment begins where the one before ends.
    fn check_gaps(&self, rows: &mut Rows) -> io::Result<()> {
        let following = self.segments.keys().skip(1);
        for ((base, walked), next) in self.segments.iter().zip(following) {
            let ends_in_wal = self.coverage.end((self.id(), *base)) > Some(walked.sound_end);
            if walked.end_offset < next.0 && !ends_in_wal {
                let (first, last) = (walked.end_offset, next.0 - 1);
                let what = format!(
                    "no records with offsets {first}..={last} before segment {}: compacted away, or \
                     lost",
                    next.0
                );
                rows.note(self.directory, None, what)?;
            }
        }
        Ok(())
    }

    /// Segments of which there is no file yet.
    fn check_unwritten(&self, rows: &mut Rows) -> io::Result<()> {
        for base in self.coverage.segments(self.id()) {
            // What lies below the log's start was deleted, with its file.
            if self.segments.contains_key(&base) || base < self.metadata.log_start {
                continue;
            }
            let whose = (self.id(), base);
            let end = self.coverage.end(whose).unwrap_or(0);
            if end > 0 && self.coverage.holds(whose, &(0..end)) {
                let what = format!(
                    "{end} bytes of segment {} are in the write-ahead log only",
                    base.0
                );
                rows.note(self.directory, None, what)?;
            } else if end > 0 {
                let what = format!(
                    "segment {} has no file, and the write-ahead log holds only a part of it",
                    base.0
                );
                rows.fault(self.directory, None, what)?;
            }
        }
        Ok(())
    }

    /// After a checkpoint a segment only grows.
    fn check_checkpoint(&self, checkpoint: &Checkpoint, rows: &mut Rows) -> io::Result<()> {
        let base = checkpoint.segment;
        let sound_end = self.segments.get(&base).map_or(0, |it| it.sound_end);
        let missing = sound_end..u64::from(checkpoint.position);
        let elsewhere = self.coverage.holds((self.id(), base), &missing);
        if missing.is_empty() || elsewhere || base < self.metadata.log_start {
            return Ok(());
        }
        let what = format!(
            "the checkpoint says that segment {} has {} bytes and the log ends at offset {}",
            base.0, checkpoint.position, checkpoint.log_end.0
        );
        let path = self.directory.join(place::segment_name(base) + ".log");
        rows.fault(&path, Some(missing.start), what)
    }
}
