//! What a start finds in all data directories together, and what follows for each partition: where it is served
//! from, that it stays offline, or that it is made. Knows nothing of how a directory is read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use logic::cluster::Image;
use logic::ids::PartitionId;

use crate::data_dirs::DataDirs;
use crate::shard::controller::partition_id;
use crate::shard::directories::{DirId, Spread};
use crate::shard::metadata::Opening;
use crate::start_error::StartError;
use crate::storage::place::log_name;
use crate::storage::{self, Damaged, RecoveredLog, Recovery};

/// Partitions that one line names at most.
const NAMED_MAX: usize = 10;

/// What was found.
pub struct Found {
    /// Logs by their partitions, and where those go that have never been made.
    pub opening: Opening,
    /// Partitions that stay offline.
    pub offline: HashSet<PartitionId>,
    /// Bytes read of write-ahead logs.
    pub bytes: u64,
}

/// What becomes of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is served from there.
    In(DirId),
    /// It is damaged, or there twice: nobody knows which is the right one.
    Doubtful,
    /// It is nowhere, and may be in a directory that is not online.
    Away,
    /// It is nowhere, and never was anywhere.
    New,
}

/// Decides by where a partition's log was found, sound or not. `complete` says that every directory that may hold
/// something was looked into.
fn verdict(sound: &[DirId], is_damaged: bool, complete: bool) -> Verdict {
    match sound {
        [one] if !is_damaged => Verdict::In(*one),
        [] if !is_damaged && complete => Verdict::New,
        [] if !is_damaged => Verdict::Away,
        _ => Verdict::Doubtful,
    }
}

/// Reads every directory that is online, each on a thread of its own, and takes those offline that cannot be read.
///
/// # Errors
/// When the first one, with the metadata, cannot be read.
pub fn recover(
    data_dirs: &mut DataDirs,
    image: &Image,
    settings: &storage::Settings,
) -> Result<Found, StartError> {
    let mut logs: HashMap<PartitionId, Vec<(DirId, RecoveredLog)>> = HashMap::new();
    let mut damaged = Vec::new();
    let mut bytes = 0;
    for (number, recovery) in read_all(data_dirs, settings) {
        match recovery {
            Ok(recovery) => {
                bytes += recovery.bytes;
                damaged.extend(recovery.damaged);
                for log in recovery.logs {
                    logs.entry(log.id()).or_default().push((DirId(number), log));
                }
            }
            Err(why) if number == DirId::METADATA.0 => return Err(StartError::Other(why)),
            Err(why) => {
                eprintln!("error: a data directory is offline, with all partitions in it: {why}");
                data_dirs.set_offline(number, why);
            }
        }
    }
    for damaged in &damaged {
        eprintln!("error: a partition stays offline: {damaged:?}");
    }
    let damaged = damaged_partitions(image, &damaged);
    let online = data_dirs.all().map(|(_, opened)| opened.is_ok()).collect();
    let judged = judge(image, logs, &damaged, data_dirs.is_complete(), online);
    told(data_dirs, &judged);
    if judged.away.is_empty() {
        // What is not online holds nothing that anybody waits for.
        data_dirs.forget_missing()?;
    }
    Ok(Found {
        bytes,
        ..judged.found
    })
}

type Read = (usize, Result<Recovery, String>);

fn read_all(data_dirs: &DataDirs, settings: &storage::Settings) -> Vec<Read> {
    let paths: Vec<(usize, &Path)> = data_dirs
        .all()
        .enumerate()
        .filter_map(|(number, (path, opened))| opened.is_ok().then_some((number, path)))
        .collect();
    std::thread::scope(|scope| {
        let readers: Vec<_> = paths
            .iter()
            .map(|(number, path)| {
                let read = || storage::recover(path, settings).map_err(|it| it.to_string());
                let reader = scope.spawn(read);
                (*number, path, reader)
            })
            .collect();
        readers
            .into_iter()
            .map(|(number, path, reader)| {
                let path = path.display();
                let read = match reader.join() {
                    Ok(read) => read,
                    Err(_) => Err("a thread panicked".to_owned()),
                };
                let read =
                    read.map_err(|why| format!("the logs in {path} cannot be recovered: {why}"));
                (number, read)
            })
            .collect()
    })
}

/// The partitions that are damaged: also those of whose logs only the directory's name tells, since
/// the file in it that says whose it is is what was damaged.
fn damaged_partitions(image: &Image, damaged: &[Damaged]) -> HashSet<PartitionId> {
    let known = damaged.iter().filter_map(|it| it.id);
    let unknown = damaged.iter().filter(|it| it.id.is_none());
    let names: HashSet<_> = unknown.filter_map(|it| it.directory.file_name()).collect();
    let named =
        partitions(image).filter(|(id, name)| names.contains(OsStr::new(&log_name(name, *id))));
    known.chain(named.map(|(id, _)| id)).collect()
}

/// Every partition with its topic's name.
fn partitions(image: &Image) -> impl Iterator<Item = (PartitionId, &str)> {
    image.topics().flat_map(|topic| {
        let ids = (0..topic.partitions.len()).map(move |index| partition_id(topic.id, index));
        ids.map(move |id| (id, topic.name.as_str()))
    })
}

/// What is to be told of it besides.
struct Judged {
    found: Found,
    /// Partitions that may be in a directory that is not online.
    away: Vec<String>,
    /// Partitions that are in several.
    twice: Vec<(String, Vec<DirId>)>,
    /// Logs of no topic.
    strays: Vec<(DirId, String)>,
}

fn judge(
    image: &Image,
    mut logs: HashMap<PartitionId, Vec<(DirId, RecoveredLog)>>,
    damaged: &HashSet<PartitionId>,
    complete: bool,
    online: Vec<bool>,
) -> Judged {
    let mut judged = Judged {
        found: Found {
            opening: Opening::default(),
            offline: HashSet::new(),
            bytes: 0,
        },
        away: Vec::new(),
        twice: Vec::new(),
        strays: Vec::new(),
    };
    let mut counts: Vec<Option<usize>> = online.iter().map(|it| it.then_some(0)).collect();
    let mut fresh = Vec::new();
    for (id, topic) in partitions(image) {
        let name = || format!("{topic}-{}", id.index);
        let mut sound = logs.remove(&id).unwrap_or_default();
        let dirs: Vec<DirId> = sound.iter().map(|(dir, _)| *dir).collect();
        let found = &mut judged.found;
        match verdict(&dirs, damaged.contains(&id), complete) {
            Verdict::In(dir) => {
                counts[dir.0] = counts[dir.0].map(|count| count + 1);
                found
                    .opening
                    .recovered
                    .extend(sound.pop().map(|log| (id, log)));
                continue;
            }
            Verdict::New => {
                fresh.push(id);
                continue;
            }
            Verdict::Away => judged.away.push(name()),
            Verdict::Doubtful if dirs.len() > 1 => judged.twice.push((name(), dirs)),
            Verdict::Doubtful => {}
        }
        found.offline.insert(id);
    }
    let mut spread = Spread::of(counts);
    for id in fresh {
        let dir = spread.place().unwrap_or(DirId::METADATA);
        judged.found.opening.fresh.insert(id, dir);
    }
    for (dir, log) in logs.into_values().flatten() {
        let name = format!("{}-{}", log.topic_name(), log.id().index);
        judged.strays.push((dir, name));
    }
    judged
}

fn told(data_dirs: &DataDirs, judged: &Judged) {
    let paths: Vec<PathBuf> = data_dirs.all().map(|(path, _)| path.to_owned()).collect();
    if !judged.away.is_empty() {
        let missing: Vec<String> = data_dirs
            .missing()
            .map(|path| path.display().to_string())
            .collect();
        eprintln!(
            "error: {} partitions stay offline, as they are in no data directory that is online and may be \
             in one that is missing ({}): {}; bring it back, or delete their topics",
            judged.away.len(),
            missing.join(", "),
            some(&judged.away)
        );
    }
    for (name, dirs) in &judged.twice {
        let places: Vec<String> = dirs
            .iter()
            .map(|dir| paths[dir.0].display().to_string())
            .collect();
        eprintln!(
            "error: {name} stays offline, as it is in {}; stop the broker and move the one away that is not \
             wanted",
            places.join(" and in ")
        );
    }
    let mut strays: BTreeMap<DirId, Vec<String>> = BTreeMap::new();
    for (dir, name) in &judged.strays {
        strays.entry(*dir).or_default().push(name.clone());
    }
    for (dir, names) in strays {
        eprintln!(
            "warning: {} has logs of topics that are deleted, which nobody serves or removes: {}",
            paths[dir.0].display(),
            some(&names)
        );
    }
}

/// The first few of many.
fn some(names: &[String]) -> String {
    let shown = names[..names.len().min(NAMED_MAX)].join(", ");
    match names.len() > NAMED_MAX {
        true => format!("{shown} and others"),
        false => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_never_anywhere_is_made_anew() {
        let (a, b) = (DirId(0), DirId(1));
        assert_eq!(verdict(&[a], false, true), Verdict::In(a));
        assert_eq!(verdict(&[b], false, false), Verdict::In(b));
        assert_eq!(verdict(&[], false, true), Verdict::New);
        assert_eq!(
            verdict(&[], false, false),
            Verdict::Away,
            "it may come back"
        );
        for complete in [false, true] {
            assert_eq!(verdict(&[a, b], false, complete), Verdict::Doubtful);
            assert_eq!(verdict(&[a], true, complete), Verdict::Doubtful);
            assert_eq!(verdict(&[], true, complete), Verdict::Doubtful);
        }
    }
}
