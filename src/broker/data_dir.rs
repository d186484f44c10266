//! The data directory: locked, and known by a small file that says whose it is and in what format.
//! Knows nothing of what is kept in it.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The format of everything below the directory. A higher one is of a newer corelog.
pub const FORMAT_VERSION: u32 = 1;

/// The file that says whose directory it is, its copy, and the name it has while being written.
const META: &str = "corelog.meta";
const META_COPY: &str = "corelog.meta.copy";
const META_NEW: &str = "corelog.meta.new";
/// Locked by the broker that runs on the directory; holds its process id, for the error message.
const LOCK: &str = ".lock";
/// Kafka's file of the same purpose.
const KAFKA_META: &str = "meta.properties";
/// What may lie in a directory that nobody has used yet: what a start that was cut short leaves
/// behind, and what a file system puts into its root.
const HARMLESS: [&str; 3] = [LOCK, META_NEW, "lost+found"];
/// What `reactor::probe` calls the files it tries things on begins so.
const PROBE_PREFIX: &str = ".corelog-probe-";

/// Who a data directory belongs to. Made once, at its first use, and never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster, as 22 characters of base64, like Kafka's.
    pub cluster_id: String,
    /// The node.
    pub node_id: i32,
    /// This very directory (KIP-858): after a wipe it is another one.
    pub directory_id: String,
}

/// A data directory that this process, and no other, works on.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    identity: Identity,
    created: bool,
    // Held for its lock, which ends with it, and so with the process in any case.
    _lock: File,
}

/// Why a data directory cannot be used, with the remedy.
#[derive(Debug)]
pub enum DataDirError {
    /// The machine refused something.
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Its answer.
        error: io::Error,
    },
    /// Another process works on it.
    Locked {
        /// The directory.
        path: PathBuf,
        /// The other process's id, if it left one.
        holder: Option<u32>,
    },
    /// It was written by a newer corelog.
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its format.
        version: u32,
    },
    /// It belongs to a Kafka broker.
    Kafka {
        /// The directory.
        path: PathBuf,
    },
    /// It has something in it, and nothing says that it is ours.
    Foreign {
        /// The directory.
        path: PathBuf,
        /// One of the things in it.
        holds: String,
    },
    /// It belongs to another node.
    OtherNode {
        /// The directory.
        path: PathBuf,
        /// The node that it belongs to.
        found: i32,
        /// The node that this broker is set to be.
        wanted: i32,
    },
    /// It belongs to another cluster than the first one.
    OtherCluster {
        /// The directory.
        path: PathBuf,
        /// The cluster that it belongs to.
        found: String,
        /// The cluster of the first directory.
        wanted: String,
    },
    /// It is the same directory, or a copy of it, as another one of this broker's.
    Twice {
        /// The directory.
        path: PathBuf,
        /// The other one.
        other: PathBuf,
    },
    /// The first directory, which holds the metadata, is new, and another one is not.
    FirstIsNew {
        /// The first.
        path: PathBuf,
        /// The other one.
        other: PathBuf,
    },
    /// The list of the directories that were in use cannot be read.
    ListDamaged {
        /// The list.
        path: PathBuf,
    },
    /// Neither the file that says whose it is nor its copy can be read.
    Damaged {
        /// The directory.
        path: PathBuf,
    },
}

/// What a file with an identity turned out to be.
enum Meta {
    Absent,
    Good(Identity),
    Newer(u32),
    Damaged,
}

impl DataDir {
    /// Makes the directory if there is none, locks it, and reads whose it is; an empty one becomes
    /// this node's.
    ///
    /// # Errors
    /// A [`DataDirError`]; the directory is then as it was.
    pub fn open(path: &Path, node_id: i32) -> Result<Self, DataDirError> {
        Self::open_in(path, node_id, None)
    }

    /// The same of one that must be of this cluster, or becomes it if it is empty.
    ///
    /// # Errors
    /// A [`DataDirError`]; the directory is then as it was.
    pub fn open_in(path: &Path, node_id: i32, cluster: Option<&str>) -> Result<Self, DataDirError> {
        fs::create_dir_all(path).map_err(failed("create", path))?;
        // Looked at before the lock, so that nothing is left in a directory that is not ours.
        refuse_foreign(path)?;
        let lock = lock(path)?;
        let (identity, created) = match read_identity(path)? {
            Some(identity) => (identity, false),
            None => (Identity::random(node_id, cluster, path)?, true),
        };
        if let Some(wanted) = cluster.filter(|wanted| **wanted != identity.cluster_id) {
            return Err(DataDirError::OtherCluster {
                path: path.to_owned(),
                found: identity.cluster_id,
                wanted: wanted.to_owned(),
            });
        }
        if identity.node_id != node_id {
            return Err(DataDirError::OtherNode {
                path: path.to_owned(),
                found: identity.node_id,
                wanted: node_id,
            });
        }
        // Written at each start unless both are whole: so a damaged one is mended by its copy.
        for name in [META, META_COPY] {
            if !matches!(read_meta(&path.join(name))?, Meta::Good(found) if found == identity) {
                write_small(path, name, META_NEW, &identity.encode())?;
            }
        }
        Ok(Self {
            path: path.to_owned(),
            identity,
            created,
            _lock: lock,
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether this start is its first.
    pub fn is_new(&self) -> bool {
        self.created
    }
}

impl Identity {
    fn random(node_id: i32, cluster: Option<&str>, path: &Path) -> Result<Self, DataDirError> {
        let id = || random_id().map_err(failed("make an id for", path));
        Ok(Self {
            cluster_id: match cluster {
                Some(cluster) => cluster.to_owned(),
                None => id()?,
            },
            node_id,
            directory_id: id()?,
        })
    }

    fn encode(&self) -> String {
        let text = format!(
            "# Whose data directory this is. Written by corelog; a change makes it unreadable.\n\
             version={FORMAT_VERSION}\ncluster.id={}\nnode.id={}\ndirectory.id={}\n",
            self.cluster_id, self.node_id, self.directory_id
        );
        let sum = crc32c::crc32c(text.as_bytes());
        format!("{text}crc32c={sum:08x}\n")
    }
}

impl Meta {
    fn decode(bytes: &[u8]) -> Self {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Self::Damaged;
        };
        let value = |key: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        };
        // First of all the version: a newer format may have another checksum.
        match value("version").and_then(|version| version.parse().ok()) {
            Some(version) if version > FORMAT_VERSION => return Self::Newer(version),
            Some(FORMAT_VERSION) => {}
            _ => return Self::Damaged,
        }
        let identity = || {
            Some(Identity {
                cluster_id: value("cluster.id")?.to_owned(),
                node_id: value("node.id")?.parse().ok()?,
                directory_id: value("directory.id")?.to_owned(),
            })
        };
        match identity() {
            // What it says, written anew, must be what is there: checksum, order and all.
            Some(identity) if identity.encode() == text => Self::Good(identity),
            _ => Self::Damaged,
        }
    }
}

fn read_meta(path: &Path) -> Result<Meta, DataDirError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Meta::decode(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Meta::Absent),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// Whose a directory is; none of one that nobody has used yet, or that is not there.
///
/// # Errors
/// When it cannot be read, or is of a newer corelog.
pub fn read_identity(path: &Path) -> Result<Option<Identity>, DataDirError> {
    let metas = [
        read_meta(&path.join(META))?,
        read_meta(&path.join(META_COPY))?,
    ];
    let absent = metas.iter().all(|meta| matches!(meta, Meta::Absent));
    let mut found = None;
    for meta in metas {
        match meta {
            Meta::Newer(version) => {
                let path = path.to_owned();
                return Err(DataDirError::Newer { path, version });
            }
            Meta::Good(identity) if found.is_none() => found = Some(identity),
            Meta::Good(_) | Meta::Absent | Meta::Damaged => {}
        }
    }
    if found.is_none() && !absent {
        let path = path.to_owned();
        return Err(DataDirError::Damaged { path });
    }
    Ok(found)
}

/// Written new, flushed, renamed, and the directory flushed: after a power loss there is the old
/// file or the new one.
pub fn write_small(
    path: &Path,
    name: &str,
    new_name: &str,
    text: &str,
) -> Result<(), DataDirError> {
    let new = path.join(new_name);
    let mut file = File::create(&new).map_err(failed("create", &new))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(failed("write to", path))?;
    let to = path.join(name);
    fs::rename(&new, &to).map_err(failed("write", &to))?;
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(failed("flush", path))
}

fn refuse_foreign(path: &Path) -> Result<(), DataDirError> {
    let mut foreign = None;
    for entry in fs::read_dir(path).map_err(failed("read", path))? {
        let name = entry.map_err(failed("read", path))?.file_name();
        let name = name.to_string_lossy().into_owned();
        if name == META || name == META_COPY {
            return Ok(());
        }
        if name == KAFKA_META {
            let path = path.to_owned();
            return Err(DataDirError::Kafka { path });
        }
        if !HARMLESS.contains(&name.as_str()) && !name.starts_with(PROBE_PREFIX) {
            foreign = foreign.or(Some(name));
        }
    }
    match foreign {
        None => Ok(()),
        Some(holds) => {
            let path = path.to_owned();
            Err(DataDirError::Foreign { path, holds })
        }
    }
}

/// Keeps every broker out while the file is open.
///
/// # Errors
/// [`DataDirError::Locked`] where one is in, and those of making the file.
pub fn lock(path: &Path) -> Result<File, DataDirError> {
    let name = path.join(LOCK);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(&name).map_err(failed("open", &name))?;
    match file.try_lock() {
        Ok(()) => {
            // Only for the other's error message: a full disk must not keep anyone out.
            let _ = file.set_len(0);
            let _ = writeln!(file, "{}", std::process::id());
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.take(32).read_to_string(&mut holder);
            Err(DataDirError::Locked {
                path: path.to_owned(),
                holder: holder.trim().parse().ok(),
            })
        }
        Err(TryLockError::Error(error)) => Err(failed("lock", &name)(error)),
    }
}

/// 16 random bytes, in base64 for file names and without padding: 22 characters.
fn random_id() -> io::Result<String> {
    let mut random = File::open("/dev/urandom")?;
    loop {
        let mut bytes = [0; 16];
        random.read_exact(&mut bytes)?;
        let id = base64(bytes);
        // Kafka avoids ids that a command line would take for a flag.
        if !id.starts_with('-') {
            return Ok(id);
        }
    }
}

fn base64(bytes: [u8; 16]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let number = u128::from_be_bytes(bytes);
    // 128 bits are 21 digits of 6 and one of the last 2, which stand at the digit's top.
    let digit = |index: u32| match index {
        21 => (number & 0b11) << 4,
        _ => (number >> (122 - 6 * index)) & 0b11_1111,
    };
    (0..22)
        .map(|index| char::from(DIGITS[digit(index) as usize]))
        .collect()
}

/// Says what was attempted when the machine refused.
pub fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    let path = path.to_owned();
    move |error| DataDirError::Io { doing, path, error }
}

impl DataDirError {
    /// What is wrong among several directories.
    fn among_several(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherCluster {
                path,
                found,
                wanted,
            } => write!(
                out,
                "{} belongs to cluster {found} and the first data directory to cluster {wanted}; name only \
                 directories of one broker with --data",
                path.display()
            ),
            Self::Twice { path, other } => write!(
                out,
                "{} and {} are the same directory, or one is a copy of the other; name each once with --data",
                other.display(),
                path.display()
            ),
            Self::FirstIsNew { path, other } => write!(
                out,
                "{} comes first, so that it has to hold the metadata, and is empty, while {} is in use; name \
                 the directory with the metadata.log first with --data, or mount its disk",
                path.display(),
                other.display()
            ),
            Self::ListDamaged { path } => write!(
                out,
                "{} does not say legibly which data directories were in use; see that --data names all of \
                 them, then remove it",
                path.display()
            ),
            _ => Ok(()),
        }
    }
}

fn io_remedy(out: &mut fmt::Formatter<'_>, error: &io::Error) -> fmt::Result {
    match error.kind() {
        io::ErrorKind::PermissionDenied => write!(
            out,
            "give this user the right to write there, or choose another directory with --data"
        ),
        io::ErrorKind::StorageFull => {
            write!(out, "free space there, or choose another disk with --data")
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            write!(out, "choose a directory with --data")
        }
        io::ErrorKind::ReadOnlyFilesystem => write!(
            out,
            "mount it for writing, or choose another directory with --data"
        ),
        _ => write!(out, "see to the disk, or choose another with --data"),
    }
}

impl fmt::Display for DataDirError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, path, error } => {
                let path = path.display();
                write!(out, "cannot {doing} {path}: {error}; ")?;
                io_remedy(out, error)
            }
            Self::Locked { path, holder } => {
                let path = path.display();
                write!(out, "another corelog works on {path}")?;
                if let Some(holder) = holder {
                    write!(out, " (process {holder})")?;
                }
                write!(out, "; stop it, or choose another directory with --data")
            }
            Self::Newer { path, version } => write!(
                out,
                "{} was written by a newer corelog: its format is {version}, this one knows \
                 {FORMAT_VERSION}; run the newer one, or choose another directory with --data",
                path.display()
            ),
            Self::Kafka { path } => write!(
                out,
                "{} belongs to a Kafka broker (it has a {KAFKA_META}); corelog leaves it alone: \
                 choose another directory with --data and copy the topics over the protocol",
                path.display()
            ),
            Self::Foreign { path, holds } => write!(
                out,
                "{} is not empty (it has `{holds}`) and no {META} says that it is corelog's; \
                 choose an empty or a new directory with --data",
                path.display()
            ),
            Self::OtherNode {
                path,
                found,
                wanted,
            } => write!(
                out,
                "{} belongs to node {found} and this is node {wanted}; set broker.node_id = \
                 {found}, or choose another directory with --data",
                path.display()
            ),
            Self::OtherCluster { .. }
            | Self::Twice { .. }
            | Self::FirstIsNew { .. }
            | Self::ListDamaged { .. } => self.among_several(out),
            Self::Damaged { path } => write!(
                out,
                "{} says in neither {META} nor {META_COPY} legibly whose it is; restore one of \
                 the two from a backup, or choose another directory with --data",
                path.display()
            ),
        }
    }
}

impl std::error::Error for DataDirError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of this test's own, removed in the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("corelog-data-dir-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }

        fn refusal(&self) -> String {
            let error = DataDir::open(&self.0, 1).expect_err("it is refused");
            error.to_string()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_first_start_makes_an_identity_and_the_next_finds_it() {
        let scratch = Scratch::new("identity");
        let first = DataDir::open(&scratch.0, 1).expect("new");
        assert!(first.is_new());
        let identity = first.identity().clone();
        assert_eq!(identity.cluster_id.len(), 22);
        assert_ne!(identity.cluster_id, identity.directory_id);
        drop(first);
        let second = DataDir::open(&scratch.0, 1).expect("known");
        assert!(!second.is_new());
        assert_eq!(second.identity(), &identity);
    }

    #[test]
    fn a_locked_directory_is_refused_with_the_holder() {
        let scratch = Scratch::new("locked");
        let held = DataDir::open(&scratch.0, 1).expect("new");
        let refusal = scratch.refusal();
        let holder = format!("(process {})", std::process::id());
        assert!(refusal.contains(&holder), "{refusal}");
        drop(held);
        assert!(DataDir::open(&scratch.0, 1).is_ok());
    }

    #[test]
    fn foreign_directories_are_refused_and_left_as_they_were() {
        for (name, file) in [("kafka", KAFKA_META), ("home", "letter.txt")] {
            let scratch = Scratch::new(name);
            fs::create_dir_all(&scratch.0).expect("made");
            fs::write(scratch.0.join(file), "x").expect("written");
            let refusal = scratch.refusal();
            assert!(
                refusal.contains(file) && refusal.contains("--data"),
                "{refusal}"
            );
            assert_eq!(fs::read_dir(&scratch.0).expect("there").count(), 1);
        }
    }

    #[test]
    fn another_nodes_directory_is_refused() {
        let scratch = Scratch::new("node");
        drop(DataDir::open(&scratch.0, 7).expect("new"));
        let refusal = scratch.refusal();
        assert!(refusal.contains("belongs to node 7"), "{refusal}");
        assert!(refusal.contains("broker.node_id = 7"), "{refusal}");
    }

    #[test]
    fn a_newer_format_is_refused() {
        let scratch = Scratch::new("newer");
        drop(DataDir::open(&scratch.0, 1).expect("new"));
        fs::write(scratch.0.join(META), "version=2\nsum=other\n").expect("written");
        let refusal = scratch.refusal();
        assert!(refusal.contains("written by a newer corelog"), "{refusal}");
    }

    #[test]
    fn every_single_damaged_byte_is_mended_from_the_copy_and_two_are_refused() {
        let scratch = Scratch::new("damaged");
        let identity = DataDir::open(&scratch.0, 1)
            .expect("new")
            .identity()
            .clone();
        let good = fs::read(scratch.0.join(META)).expect("there");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(!matches!(Meta::decode(&bad), Meta::Good(_)), "byte {at}");
        }
        fs::write(scratch.0.join(META), "").expect("written");
        let mended = DataDir::open(&scratch.0, 1).expect("the copy is whole");
        assert_eq!(mended.identity(), &identity);
        drop(mended);
        assert_eq!(fs::read(scratch.0.join(META)).expect("there"), good);
        fs::write(scratch.0.join(META), "").expect("written");
        fs::write(scratch.0.join(META_COPY), "").expect("written");
        assert!(scratch.refusal().contains("restore one of the two"));
    }

    #[test]
    fn a_start_cut_short_leaves_a_directory_that_can_be_used() {
        let scratch = Scratch::new("short");
        fs::create_dir_all(scratch.0.join("lost+found")).expect("made");
        fs::write(scratch.0.join(LOCK), "1\n").expect("written");
        fs::write(scratch.0.join(META_NEW), "half").expect("written");
        assert!(DataDir::open(&scratch.0, 1).expect("new").is_new());
    }

    #[test]
    fn a_file_in_the_way_is_refused_with_the_remedy() {
        let scratch = Scratch::new("file");
        fs::write(&scratch.0, "").expect("written");
        let refusal = scratch.refusal();
        assert!(
            refusal.contains("choose a directory with --data"),
            "{refusal}"
        );
        let _ = fs::remove_file(&scratch.0);
    }

    #[test]
    fn ids_are_kafkas_base64() {
        assert_eq!(base64([0; 16]), "A".repeat(22));
        assert_eq!(base64([0xff; 16]), format!("{}w", "_".repeat(21)));
        let counting = std::array::from_fn(|index| index as u8);
        assert_eq!(base64(counting), "AAECAwQFBgcICQoLDA0ODw");
    }
}
