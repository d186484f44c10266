//! `corelog dump`: what is in the files of a data directory, and whether it is whole. Reads files
//! only; no broker is asked, and nothing is changed.

mod coverage;
mod files;
mod index;
mod partition;
mod row;
mod segment;
mod small;
mod wal;

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use logic::ids::{Offset, PartitionId};

use self::coverage::Coverage;
use self::files::What;
pub use self::row::Rows;
use self::segment::Walked;
use super::exit::{Ending, Failure, written};
use super::output::{Format, complain};
use crate::storage::frame::WalId;
use crate::storage::place::{self, DELETED, FUTURE, METADATA, OLD};

/// How much to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Detail {
    /// What is wrong.
    Faults,
    /// Each file in a line, and what is wrong.
    Summary,
    /// Batches, commits and index entries too.
    #[default]
    Batches,
    /// Records too.
    Records,
}

/// Print what is in the files of a data directory, and check it. Exits 7 if something is lost or
/// damaged.
///
/// Reads files only: no broker is needed. While one runs on the directory, what it is writing at
/// this moment can look torn.
#[derive(Clone, Debug, Args)]
pub struct Dump {
    /// A data directory, a partition's or a write-ahead log's directory, or one file of them.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// How much to print.
    #[arg(long, value_enum, default_value_t)]
    detail: Detail,
    /// The same as --detail records.
    #[arg(long, conflicts_with = "detail")]
    records: bool,
    /// The id of the write-ahead log that an extent belongs to, if its directory's name does not
    /// say so: 32 hexadecimal digits.
    #[arg(long, value_name = "ID", value_parser = wal_id)]
    wal_id: Option<WalId>,
    /// How to print.
    #[arg(short = 'o', short_alias = 'O', long, value_enum, default_value_t)]
    output: Format,
}

fn wal_id(text: &str) -> Result<WalId, String> {
    let id = u128::from_str_radix(text, 16)
        .ok()
        .filter(|_| text.len() == 32);
    let id = id.ok_or("expected 32 hexadecimal digits, as in the directory's name")?;
    Ok(WalId(id.to_be_bytes()))
}

/// Prints and checks what was asked for.
///
/// # Errors
/// When a path is not there, cannot be read, or is nothing of corelog's.
pub fn run(dump: &Dump) -> Result<Ending, Failure> {
    let detail = if dump.records {
        Detail::Records
    } else {
        dump.detail
    };
    let mut rows = Rows::new(dump.output, detail);
    for path in &dump.paths {
        match dump_path(path, dump.wal_id, &mut rows) {
            Ok(()) => {}
            Err(Stop::Refused(failure)) => return Err(failure),
            Err(Stop::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(Ending::Done);
            }
            Err(Stop::Io(error)) => return Err(unreadable(path, &error)),
        }
    }
    let (faults, files) = (rows.faults, rows.files);
    written(rows.finish())?;
    if faults == 0 {
        return Ok(Ending::Done);
    }
    complain(&format!(
        "{faults} faults in {files} files\n  Keep the files as they are and copy them away; then \
         let a broker start on the copy: it serves the partitions that are whole and names the \
         others."
    ));
    Ok(Ending::Corrupt)
}

/// Why a dump goes no further.
enum Stop {
    Io(io::Error),
    Refused(Failure),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    let (ending, advice) = match error.kind() {
        io::ErrorKind::NotFound => (
            Ending::NotFoundOrConflict,
            "Give a data directory (by default ./corelog-data) or a file in it.",
        ),
        io::ErrorKind::PermissionDenied => (
            Ending::Failed,
            "Run this as the user that the broker runs as.",
        ),
        _ => (Ending::Failed, "See to the disk."),
    };
    Failure::new(ending, format!("cannot read {path}: {error}"), advice)
}

fn dump_path(path: &Path, wal_id: Option<WalId>, rows: &mut Rows) -> Result<(), Stop> {
    let Some(what) = files::what(path)? else {
        return Err(Stop::Refused(Failure::new(
            Ending::NotFoundOrConflict,
            format!("{} is nothing that corelog writes", path.display()),
            "Give a data directory, or a .log, .index, .timeindex or .extent file, a checkpoint or \
             a partition.metadata in it.",
        )));
    };
    let mut coverage = Coverage::default();
    match what {
        What::DataDirectory => return Ok(data_directory(path, rows)?),
        What::Partition => {
            cover_from(path, &mut coverage)?;
            return Ok(partition::dump(path, &coverage, rows)?);
        }
        What::Wal(wal) => return Ok(wal::dump(path, wal, &mut coverage, rows)?),
        _ => rows.files += 1,
    }
    let parent = path.parent().unwrap_or(Path::new("."));
    match what {
        What::Extent(found) => {
            let Some(wal) = wal_id.or(found) else {
                return Err(Stop::Refused(nameless(path)));
            };
            let mut commits = wal::Commits::default();
            commits.dump_extent(path, wal, &mut coverage, rows)?;
            commits.report_extent(rows)?;
        }
        What::Segment(base) => {
            cover_from(parent, &mut coverage)?;
            let whose = owner(parent).map(|id| (id, base));
            segment::dump(path, base, whose, &coverage, rows)?;
        }
        What::OffsetIndex(base) => {
            index::dump_offsets(path, base, beside(path, base).as_ref(), rows)?;
        }
        What::TimeIndex(base) => {
            index::dump_times(path, base, beside(path, base).as_ref(), rows)?;
        }
        What::Checkpoint => drop(small::dump_checkpoint(path, rows)?),
        What::Metadata => drop(small::dump_metadata(path, rows)?),
        What::Boot => small::dump_boot(path, rows)?,
        What::DataDirectory | What::Partition | What::Wal(_) => {}
    }
    Ok(())
}

fn nameless(path: &Path) -> Failure {
    Failure::new(
        Ending::Usage,
        format!("nothing says which log {} belongs to", path.display()),
        "Give the log's id with --wal-id: the last part of the name of the extent's directory.",
    )
}

/// The segment beside an index, if there is one.
fn beside(index: &Path, base: Offset) -> Option<Walked> {
    let walked = segment::walk(&index.with_extension("log"), base, |_, _, _, _| Ok(()));
    walked.ok().map(|(walked, _)| walked)
}

fn owner(partition: &Path) -> Option<PartitionId> {
    let body = place::read_small(&partition.join(METADATA)).ok()??;
    place::Metadata::decode(&body).map(|metadata| metadata.id)
}

/// Reads the write-ahead logs of the data directory in which a partition's directory lies.
fn cover_from(partition: &Path, coverage: &mut Coverage) -> io::Result<()> {
    let real = std::fs::canonicalize(partition)?;
    let data = real.parent().and_then(Path::parent);
    let Some(root) = data.map(place::wal_root).filter(|root| root.is_dir()) else {
        return Ok(());
    };
    for path in files::sorted(&root)? {
        if let Some((_, wal)) = place::parse_wal_name(&files::name_of(&path)) {
            wal::cover(&path, wal, coverage)?;
        }
    }
    Ok(())
}

/// Whether the broker makes this file again when it is missing, so that nothing is lost with it.
pub fn is_cache(path: &Path) -> bool {
    matches!(
        files::what(path),
        Ok(Some(
            What::OffsetIndex(_) | What::TimeIndex(_) | What::Checkpoint
        ))
    )
}

/// Dumps all files of a data directory.
///
/// # Errors
/// Those of the files, and of standard output.
pub fn data_directory(path: &Path, rows: &mut Rows) -> io::Result<()> {
    let mut coverage = Coverage::default();
    let (wals, logs) = (place::wal_root(path), place::logs_root(path));
    let paths = |root: &Path| match root.is_dir() {
        true => files::sorted(root),
        false => Ok(Vec::new()),
    };
    for path in paths(&wals)? {
        let name = files::name_of(&path);
        if name == "boot" {
            rows.files += 1;
            small::dump_boot(&path, rows)?;
        } else if path.extension().is_some_and(|ending| ending == OLD) {
            rows.note(&path, None, "a write-ahead log that was given up")?;
        } else if let Some((_, wal)) = place::parse_wal_name(&name) {
            wal::dump(&path, wal, &mut coverage, rows)?;
        }
    }
    for path in paths(&logs)?.iter().filter(|path| path.is_dir()) {
        let name = files::name_of(path);
        if name.ends_with(DELETED) {
            rows.note(path, None, "a deleted partition")?;
        } else if name.ends_with(FUTURE) {
            rows.note(path, None, "a copy of a partition that is being moved here")?;
        } else {
            partition::dump(path, &coverage, rows)?;
        }
    }
    Ok(())
}
