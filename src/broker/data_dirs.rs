//! The data directories of one broker: the first one with the metadata, and those beside it, each on a disk of
//! its own as a rule. One of these that cannot be opened is offline; the list of all that were ever in use, kept
//! in the first, says that something is missing then. Knows nothing of what is kept in them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::data_dir::{self, DataDir, DataDirError, Identity, failed};

/// The file in the first directory that lists all, its form, and its name while being written.
const LIST: &str = "corelog.directories";
const LIST_NEW: &str = "corelog.directories.new";
const LIST_VERSION: u32 = 1;

/// All data directories, in the order of the settings.
#[derive(Debug)]
pub struct DataDirs {
    first: DataDir,
    others: Vec<Slot>,
    /// What is written in the first, or to be written.
    known: Vec<Known>,
}

/// A directory beside the first.
#[derive(Debug)]
struct Slot {
    path: PathBuf,
    /// Itself, or why it is offline.
    opened: Result<DataDir, String>,
}

/// A directory that may hold something.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    id: String,
    /// Where it was when it was last seen.
    path: PathBuf,
}

impl DataDirs {
    /// Opens the first directory, and of the others those that can be.
    ///
    /// # Errors
    /// What is wrong with the first, and what no restart will mend with the others: one that belongs to
    /// somebody else, or is named twice. The directories are then as they were, but for locks.
    pub fn open(paths: &[PathBuf], node_id: i32) -> Result<Self, DataDirError> {
        let (first, others) = paths.split_first().expect("a rule wants one directory");
        refuse_twice(paths)?;
        if data_dir::read_identity(first)?.is_none()
            && let Some(other) = others.iter().find(|path| is_in_use(path))
        {
            return Err(DataDirError::FirstIsNew {
                path: first.clone(),
                other: other.clone(),
            });
        }
        let first = DataDir::open(first, node_id)?;
        let known = read_list(first.path())?;
        let cluster = &first.identity().cluster_id;
        let mut slots: Vec<Slot> = Vec::with_capacity(others.len());
        for path in others {
            let opened = open_other(path, node_id, cluster, &known)?;
            if let Ok(opened) = &opened {
                let id = |it: &DataDir| it.identity().directory_id.clone();
                let before = slots.iter().filter_map(|slot| slot.opened.as_ref().ok());
                let mut before = std::iter::once(&first).chain(before);
                if let Some(other) = before.find(|other| id(other) == id(opened)) {
                    return Err(DataDirError::Twice {
                        path: path.clone(),
                        other: other.path().to_owned(),
                    });
                }
            }
            let path = path.clone();
            slots.push(Slot { path, opened });
        }
        let mut dirs = Self {
            first,
            others: slots,
            known,
        };
        dirs.list()?;
        Ok(dirs)
    }

    /// Whose they are: the first one's identity.
    pub fn identity(&self) -> &Identity {
        self.first.identity()
    }

    /// The one of the metadata.
    pub fn first(&self) -> &Path {
        self.first.path()
    }

    /// Each one's path, itself if it is online, and why it is not otherwise.
    pub fn all(&self) -> impl Iterator<Item = (&Path, Result<&DataDir, &str>)> {
        let others = self.others.iter().map(|slot| {
            let opened = slot.opened.as_ref().map_err(String::as_str);
            (slot.path.as_path(), opened)
        });
        std::iter::once((self.first.path(), Ok(&self.first))).chain(others)
    }

    /// Gives up a directory beside the first.
    pub fn set_offline(&mut self, number: usize, why: String) {
        let other = number.checked_sub(1).and_then(|it| self.others.get_mut(it));
        let slot = other.expect("the first directory is never given up");
        slot.opened = Err(why);
    }

    /// Whether every directory that may hold something is online.
    pub fn is_complete(&self) -> bool {
        self.missing().next().is_none()
    }

    /// Directories that may hold something and are not online: where each was last seen.
    pub fn missing(&self) -> impl Iterator<Item = &Path> {
        let missing = self.known.iter().filter(|it| !self.is_online(&it.id));
        missing.map(|it| it.path.as_path())
    }

    /// Nothing is missing that the directories which are not online might hold: they need not be waited for.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn forget_missing(&mut self) -> Result<(), DataDirError> {
        let known = self.known.iter().filter(|it| self.is_online(&it.id));
        let known: Vec<Known> = known.cloned().collect();
        if known != self.known {
            write_list(self.first.path(), &known)?;
            self.known = known;
        }
        Ok(())
    }

    fn online(&self) -> impl Iterator<Item = &DataDir> {
        self.all().filter_map(|(_, opened)| opened.ok())
    }

    fn is_online(&self, id: &str) -> bool {
        self.online().any(|it| it.identity().directory_id == id)
    }

    /// Lists what is online, before anything is kept in it. Alone, the first one needs no list.
    fn list(&mut self) -> Result<(), DataDirError> {
        let mut known: Vec<Known> = self
            .known
            .iter()
            .filter(|it| !self.is_online(&it.id))
            .cloned()
            .collect();
        known.extend(self.online().map(|it| Known {
            id: it.identity().directory_id.clone(),
            path: absolute(it.path()),
        }));
        if known != self.known && (known.len() > 1 || !self.known.is_empty()) {
            write_list(self.first.path(), &known)?;
        }
        self.known = known;
        Ok(())
    }
}

/// A directory beside the first, or why it is offline.
fn open_other(
    path: &Path,
    node_id: i32,
    cluster: &str,
    known: &[Known],
) -> Result<Result<DataDir, String>, DataDirError> {
    let at = absolute(path);
    let was_there = known.iter().any(|it| it.path == at);
    let opened = match data_dir::read_identity(path) {
        // A mount point whose disk is missing is an empty directory, too.
        Ok(None) if was_there => {
            return Ok(Err(format!(
                "{} is empty, or not there, and has held data; mount its disk, or give a disk in its place \
                 another name",
                path.display()
            )));
        }
        Ok(_) => DataDir::open_in(path, node_id, Some(cluster)),
        Err(error) => Err(error),
    };
    match opened {
        Ok(opened) => Ok(Ok(opened)),
        Err(error @ (DataDirError::Io { .. } | DataDirError::Damaged { .. })) => {
            Ok(Err(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

fn is_in_use(path: &Path) -> bool {
    !matches!(
        data_dir::read_identity(path),
        Ok(None) | Err(DataDirError::Io { .. })
    )
}

/// Refuses one directory by two names.
fn refuse_twice(paths: &[PathBuf]) -> Result<(), DataDirError> {
    let real: Vec<PathBuf> = paths
        .iter()
        .map(|path| fs::canonicalize(path).unwrap_or_else(|_| absolute(path)))
        .collect();
    for (number, path) in real.iter().enumerate() {
        if let Some(other) = real[..number].iter().position(|other| other == path) {
            return Err(DataDirError::Twice {
                path: paths[number].clone(),
                other: paths[other].clone(),
            });
        }
    }
    Ok(())
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn encode(known: &[Known]) -> String {
    let mut text = format!(
        "# The data directories that were in use. Written by corelog; a change makes it unreadable.\n\
         version={LIST_VERSION}\n"
    );
    for Known { id, path } in known {
        text.push_str(&format!("directory={id} {}\n", path.display()));
    }
    let sum = crc32c::crc32c(text.as_bytes());
    format!("{text}crc32c={sum:08x}\n")
}

fn decode(text: &str) -> Option<Vec<Known>> {
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("directory="));
    let known: Option<Vec<Known>> = lines
        .map(|line| {
            let (id, path) = line.split_once(' ')?;
            let (id, path) = (id.to_owned(), PathBuf::from(path));
            Some(Known { id, path })
        })
        .collect();
    // What it says, written anew, must be what is there: checksum, version and all.
    known.filter(|known| encode(known) == text)
}

fn read_list(first: &Path) -> Result<Vec<Known>, DataDirError> {
    let path = first.join(LIST);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read", &path)(error)),
    };
    let text = String::from_utf8(bytes).ok();
    let known = text.and_then(|text| decode(&text));
    known.ok_or(DataDirError::ListDamaged { path })
}

fn write_list(first: &Path, known: &[Known]) -> Result<(), DataDirError> {
    data_dir::write_small(first, LIST, LIST_NEW, &encode(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place for directories of this test's own, removed in the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("corelog-data-dirs-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).expect("made");
            Self(path)
        }

        fn open(&self, names: &[&str]) -> Result<DataDirs, DataDirError> {
            let paths: Vec<PathBuf> = names.iter().map(|name| self.0.join(name)).collect();
            DataDirs::open(&paths, 1)
        }

        fn refusal(&self, names: &[&str]) -> String {
            self.open(names).expect_err("it is refused").to_string()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_new_directory_takes_the_cluster_of_the_first_and_has_an_id_of_its_own() {
        let scratch = Scratch::new("new");
        drop(scratch.open(&["a"]).expect("new"));
        let dirs = scratch.open(&["a", "b"]).expect("one more");
        let identities: Vec<_> = dirs.online().map(DataDir::identity).collect();
        assert_eq!(identities[0].cluster_id, identities[1].cluster_id);
        assert_ne!(identities[0].directory_id, identities[1].directory_id);
        assert!(dirs.is_complete());
    }

    #[test]
    fn directories_that_do_not_belong_together_are_refused() {
        let scratch = Scratch::new("apart");
        drop(scratch.open(&["a", "b"]).expect("new"));
        drop(scratch.open(&["other"]).expect("new"));
        assert!(
            scratch
                .refusal(&["a", "other"])
                .contains("belongs to cluster")
        );
        fs::create_dir(scratch.0.join("home")).expect("made");
        fs::write(scratch.0.join("home/letter.txt"), "x").expect("written");
        assert!(scratch.refusal(&["a", "b", "home"]).contains("not empty"));
        let link = scratch.0.join("link");
        std::os::unix::fs::symlink(scratch.0.join("b"), link).expect("linked");
        assert!(
            scratch
                .refusal(&["a", "b", "link"])
                .contains("are the same directory")
        );
        let copied = scratch.0.join("copy");
        fs::create_dir(&copied).expect("made");
        fs::copy(
            scratch.0.join("b/corelog.meta"),
            copied.join("corelog.meta"),
        )
        .expect("copied");
        assert!(scratch.refusal(&["a", "b", "copy"]).contains("a copy"));
    }

    #[test]
    fn the_metadata_is_not_begun_anew_beside_directories_in_use() {
        let scratch = Scratch::new("first");
        drop(scratch.open(&["a", "b"]).expect("new"));
        assert!(
            scratch
                .refusal(&["fresh", "b"])
                .contains("metadata.log first")
        );
        assert!(!scratch.0.join("fresh").exists(), "nothing was made");
        fs::remove_dir_all(scratch.0.join("a")).expect("removed");
        assert!(scratch.refusal(&["a", "b"]).contains("mount its disk"));
    }

    #[test]
    fn a_directory_that_was_in_use_is_missed_until_nothing_is_missing() {
        let scratch = Scratch::new("missed");
        drop(scratch.open(&["a", "b", "c"]).expect("new"));
        fs::remove_dir_all(scratch.0.join("b")).expect("removed");
        let dirs = scratch.open(&["a", "b"]).expect("the first is there");
        assert!(!dirs.is_complete());
        assert_eq!(dirs.online().count(), 1, "an empty mount point is not used");
        let missing: Vec<_> = dirs.missing().collect();
        assert_eq!(missing, [scratch.0.join("b"), scratch.0.join("c")]);
        drop(dirs);
        let mut dirs = scratch.open(&["a"]).expect("the first is there");
        dirs.forget_missing().expect("written");
        assert!(dirs.is_complete());
        drop(dirs);
        let dirs = scratch.open(&["a", "b"]).expect("begun anew");
        assert_eq!(dirs.online().count(), 2);
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_offline_and_a_list_that_cannot_refuses() {
        let scratch = Scratch::new("unreadable");
        drop(scratch.open(&["a", "b"]).expect("new"));
        fs::write(scratch.0.join("b/corelog.meta"), "").expect("written");
        fs::write(scratch.0.join("b/corelog.meta.copy"), "").expect("written");
        let dirs = scratch.open(&["a", "b"]).expect("the first is there");
        assert!(!dirs.is_complete());
        drop(dirs);
        let list = scratch.0.join("a").join(LIST);
        let text = fs::read_to_string(&list).expect("there");
        fs::write(&list, text.replace("/b\n", "/x\n")).expect("written");
        assert!(
            scratch
                .refusal(&["a", "b"])
                .contains("does not say legibly")
        );
    }
}
