//! `corelog check --data`: whether the files of a data directory are whole; with `--repair`, without those
//! that are not and that the broker makes again. What a file should hold is `dump`'s business.

use std::fs;
use std::path::{Path, PathBuf};

use super::dump::{self, Detail, Rows};
use super::exit::{Ending, Failure, written};
use super::output::{Format, complain};
use crate::data_dir;
use crate::storage::place;

/// Checks every file below each of `directories`, and repairs what can be without loss.
///
/// # Errors
/// When a file cannot be read or removed, or a broker is running that `repair` would disturb.
pub fn run(directories: &[PathBuf], repair: bool) -> Result<Ending, Failure> {
    let mut ending = Ending::Done;
    for directory in directories {
        if directories.len() > 1 {
            super::print(&format!("{}:\n", directory.display()));
        }
        match check(directory, repair)? {
            Ending::Done => {}
            worse => ending = worse,
        }
    }
    Ok(ending)
}

fn check(directory: &Path, repair: bool) -> Result<Ending, Failure> {
    let is_used = place::logs_root(directory).is_dir() || place::wal_root(directory).is_dir();
    if !is_used {
        super::print(&format!("{} holds no logs yet\n", directory.display()));
        return Ok(Ending::Done);
    }
    let _lock = match repair {
        true => Some(
            data_dir::lock(directory)
                .map_err(|error| Failure::new(Ending::NotFoundOrConflict, error.to_string(), ""))?,
        ),
        false => None,
    };
    let mut rows = Rows::new(Format::Table, Detail::Faults);
    let read = dump::data_directory(directory, &mut rows);
    let (files, faults) = (rows.files, rows.faults);
    let faulty = std::mem::take(&mut rows.faulty);
    written(rows.finish())?;
    read.map_err(|error| {
        let what = format!("cannot check {}: {error}", directory.display());
        Failure::new(
            Ending::Failed,
            what,
            "See to the disk, and to whose files they are.",
        )
    })?;
    let (caches, lost): (Vec<_>, Vec<_>) = faulty.into_iter().partition(|it| dump::is_cache(it));
    let in_files = caches.len() + lost.len();
    super::print(&format!(
        "{files} files checked, {faults} faults in {in_files} of them\n"
    ));
    if repair {
        remove(&caches)?;
    } else if !caches.is_empty() {
        complain(&format!(
            "{} of them are caches: stop the broker and run this with --repair to remove them",
            caches.len()
        ));
    }
    if !lost.is_empty() {
        complain(&format!(
            "{} hold what cannot be made again\n  Keep the files as they are and copy them away; then let \
             a broker start on the copy: it serves the partitions that are whole and names the others. \
             If a broker runs on them now, stop it and check again: what it is writing can look torn.",
            lost.len()
        ));
    }
    let whole = lost.is_empty() && (repair || caches.is_empty());
    Ok(if whole { Ending::Done } else { Ending::Corrupt })
}

fn remove(caches: &[PathBuf]) -> Result<(), Failure> {
    for path in caches {
        fs::remove_file(path).map_err(|error| {
            let what = format!("cannot remove {}: {error}", path.display());
            Failure::new(
                Ending::Failed,
                what,
                "Run this as the user that the broker runs as.",
            )
        })?;
        super::print(&format!("removed {}\n", path.display()));
    }
    Ok(())
}
