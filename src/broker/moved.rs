//! Moves between data directories that the last stop, or a crash, has cut short: finished where the copy counts
//! already, forgotten where the log does. Before anything is recovered. Knows names and the file that says that a
//! copy is whole, nothing of what is in either.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::data_dirs::DataDirs;
use crate::storage::place::{self, FUTURE, METADATA};

/// What becomes of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The log is where it was, or the copy is not whole: it goes.
    Forget,
    /// The log has given its name up: the copy is the log.
    Finish,
    /// Where the log was is not online: nobody knows.
    Leave,
}

/// Decides by whether the copy is whole, the log is in some directory, and every directory that may hold something
/// is online.
fn verdict(is_whole: bool, is_there: bool, complete: bool) -> Verdict {
    match (is_whole, is_there, complete) {
        (false, ..) | (_, true, _) => Verdict::Forget,
        (true, false, true) => Verdict::Finish,
        (true, false, false) => Verdict::Leave,
    }
}

/// Finishes or forgets what was being moved. A directory in which that fails goes offline.
pub fn settle(data_dirs: &mut DataDirs) {
    let mut there: HashSet<OsString> = HashSet::new();
    let mut copies: Vec<(usize, PathBuf)> = Vec::new();
    let mut failed: Vec<(usize, String)> = Vec::new();
    let online = data_dirs.all().enumerate();
    let online = online.filter_map(|(number, (path, opened))| Some((number, path, opened.ok()?)));
    for (number, path, _) in online {
        match look(path) {
            Ok((logs, found)) => {
                there.extend(logs);
                copies.extend(found.into_iter().map(|copy| (number, copy)));
            }
            Err(error) => failed.push((
                number,
                format!("{} cannot be read: {error}", path.display()),
            )),
        }
    }
    let complete = data_dirs.is_complete() && failed.is_empty();
    for (number, copy) in copies {
        if let Err(error) = settle_one(&copy, &there, complete) {
            failed.push((
                number,
                format!("{} cannot be renamed or removed: {error}", copy.display()),
            ));
        }
    }
    for (number, why) in failed {
        // What is wrong with the first is told when it is recovered.
        eprintln!("error: {why}");
        if number > 0 {
            data_dirs.set_offline(number, why);
        }
    }
}

type Looked = (Vec<OsString>, Vec<PathBuf>);

/// The logs in a directory by their names, and the copies.
fn look(data_dir: &Path) -> io::Result<Looked> {
    let mut looked = Looked::default();
    let entries = match fs::read_dir(place::logs_root(data_dir)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(looked),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        match is_copy(&entry.file_name()) {
            true => looked.1.push(entry.path()),
            false => looked.0.push(entry.file_name()),
        }
    }
    Ok(looked)
}

fn is_copy(name: &OsString) -> bool {
    name.as_encoded_bytes().ends_with(FUTURE.as_bytes())
}

fn settle_one(copy: &Path, there: &HashSet<OsString>, complete: bool) -> io::Result<()> {
    let metadata = place::read_small(&copy.join(METADATA))?;
    let metadata = metadata.and_then(|body| place::Metadata::decode(&body));
    let name = metadata
        .as_ref()
        .map(|it| OsString::from(place::log_name(&it.topic_name, it.id)));
    let is_there = name.as_ref().is_some_and(|name| there.contains(name));
    let path = copy.display();
    match (verdict(metadata.is_some(), is_there, complete), name) {
        (Verdict::Finish, Some(name)) => {
            eprintln!("the move of a partition is finished: {path}");
            fs::rename(copy, copy.with_file_name(name))?;
            let parent = copy.parent().unwrap_or(Path::new("."));
            fs::File::open(parent)?.sync_all()
        }
        (Verdict::Leave, _) => {
            eprintln!(
                "error: nobody knows whether a partition was moved while a directory is missing: {path}"
            );
            Ok(())
        }
        _ => {
            eprintln!("the move of a partition is forgotten, it stays where it was: {path}");
            fs::remove_dir_all(copy)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_counts_only_when_it_is_whole_and_the_log_is_known_to_be_nowhere() {
        for complete in [false, true] {
            for is_there in [false, true] {
                assert_eq!(verdict(false, is_there, complete), Verdict::Forget);
            }
            assert_eq!(
                verdict(true, true, complete),
                Verdict::Forget,
                "the log has gone on"
            );
        }
        assert_eq!(verdict(true, false, true), Verdict::Finish);
        assert_eq!(
            verdict(true, false, false),
            Verdict::Leave,
            "it may have gone on elsewhere"
        );
    }
}
