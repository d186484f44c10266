//! What this machine offers a broker: file system, direct I/O, locked memory, open files, clock.
//! Measures and computes; what follows from it is said by `check` and by a start.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use reactor::probe::Probe;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Settings;
use crate::data_dir::DataDir;
use crate::data_dirs::DataDirs;
use crate::start_error::{Bytes, StartError};

/// The oldest kernel that has all that the reactor uses.
pub const KERNEL_LEAST: (u32, u32) = (6, 1);
/// Open files that a start needs apart from shards: standard streams, lock, metadata, listener.
const FILES_BASE: u64 = 64;
/// Open files that a shard needs to start: rings, event descriptors, log extents.
const FILES_PER_SHARD: u64 = 48;
/// Fewer open files than this limit connections and partitions before memory does.
pub const FILES_COMFORTABLE: u64 = 4096;
/// Space that is left free for metadata and checkpoints, in bytes.
const SPACE_SPARE: u64 = 16 << 20;

/// The file system under a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Its type: `ext4`.
    pub kind: String,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// Bytes free for this user.
    pub free: u64,
}

/// The locked memory that shards need, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedMemoryNeed {
    /// For their rings: without it there are none.
    pub rings: u64,
    /// For registered buffers besides: without it I/O costs more.
    pub buffers: u64,
}

/// A data directory and what it lies on.
#[derive(Clone, Debug)]
pub struct Disk {
    /// The directory.
    pub directory: PathBuf,
    /// What it lies on, or why it is offline.
    pub found: Result<Volume, String>,
}

/// What a data directory lies on.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Its file system.
    pub file_system: FileSystem,
    /// What direct I/O asks of positions and lengths there, in bytes; none when there is none.
    pub direct_io: Option<u32>,
}

/// What a start found and made of this machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: String,
    /// What each data directory lies on, in the order of the settings.
    pub disks: Vec<Disk>,
    /// Whether there is locked memory for registered buffers.
    pub registered_buffers: bool,
    /// Files that may be open at once, after raising the limit.
    pub open_files: u64,
    /// What is worse than it could be, each with its remedy.
    pub warnings: Vec<String>,
}

impl Machine {
    /// Raises the limit of open files as far as it goes, and looks at all that a start depends on. A data
    /// directory beside the first that will not do is taken offline.
    ///
    /// # Errors
    /// What keeps the broker from running here.
    pub fn prepare(settings: &Settings, data_dirs: &mut DataDirs) -> Result<Self, StartError> {
        let shards = settings.shard_count() as u64;
        let open_files = raise_open_files();
        let probe = reactor::probe::probe();
        let need = open_files_need(shards);
        if open_files < need {
            let had = open_files;
            return Err(StartError::OpenFiles { need, had });
        }
        let memory = locked_memory_need(shards, settings.shards.ring_entries);
        if let Some(had) = probe.memlock_limit.filter(|limit| *limit < memory.rings) {
            let need = memory.rings;
            return Err(StartError::LockedMemory { need, had });
        }
        refuse_kernel(&probe)?;
        let disks = disks(settings, data_dirs)?;
        let mut machine = Self {
            registered_buffers: probe.memlock_suffices(memory.total()),
            kernel: probe.kernel,
            disks,
            open_files,
            warnings: Vec::new(),
        };
        machine.warnings = machine.warn(settings);
        Ok(machine)
    }

    /// Connections that the open files allow.
    pub fn connections_max(&self, shards: usize) -> usize {
        connections_for(self.open_files, shards as u64)
    }

    fn warn(&self, settings: &Settings) -> Vec<String> {
        let mut warnings = Vec::new();
        for disk in &self.disks {
            match &disk.found {
                Ok(volume) => volume.warn(&mut warnings),
                Err(why) => warnings.push(format!("offline, with all partitions in it: {why}")),
            }
        }
        if !self.registered_buffers {
            warnings.push(
                "too little locked memory for registered buffers, I/O costs more; raise it \
                 (`ulimit -l`, or LimitMEMLOCK=infinity in a systemd unit)"
                    .to_owned(),
            );
        }
        if self.open_files < FILES_COMFORTABLE {
            warnings.push(format!(
                "only {} files may be open, which allows {} connections; raise it \
                 (`ulimit -n 65536`, or LimitNOFILE=65536 in a systemd unit)",
                self.open_files,
                self.connections_max(settings.shard_count()),
            ));
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = settings.shard_count();
        if shards > cores {
            warnings.push(format!(
                "{shards} shards share {cores} cores, and wait for each other; use --shards {cores}"
            ));
        }
        if !settings.listener.listen.ip().is_loopback() {
            warnings.push(format!(
                "whoever reaches {} can read and write: there is no authentication",
                settings.listener.listen
            ));
        }
        warnings
    }
}

impl Volume {
    /// What a directory lies on, with room for what a start writes.
    fn of(settings: &Settings, data_dir: &DataDir) -> Result<Self, StartError> {
        let path = data_dir.path();
        let failed = |error| StartError::storage(path, error);
        let file_system = file_system(path).map_err(failed)?;
        let need = space_need(settings, data_dir.is_new());
        if file_system.free < need {
            return Err(StartError::DiskFull {
                path: path.to_owned(),
                free: Some(file_system.free),
                need: Some(need),
            });
        }
        let direct_io = reactor::probe::direct_io_alignment(path).map_err(failed)?;
        Ok(Self {
            file_system,
            direct_io,
        })
    }

    fn warn(&self, warnings: &mut Vec<String>) {
        let kind = &self.file_system.kind;
        let mut once = |warning: String| {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        };
        if self.direct_io.is_none() {
            once(format!(
                "{kind} has no direct I/O: writes go through the page cache, and are slower; choose a \
                 directory on ext4 or XFS with --data"
            ));
        }
        if is_volatile(kind) {
            once(format!(
                "{kind} is memory: nothing on it survives a restart of this machine; choose a \
                 directory on a disk with --data"
            ));
        }
    }
}

/// What each data directory lies on; takes offline the others than the first that will not do.
fn disks(settings: &Settings, data_dirs: &mut DataDirs) -> Result<Vec<Disk>, StartError> {
    let mut disks = Vec::new();
    for (directory, opened) in data_dirs.all() {
        let found = match opened {
            Ok(opened) => Volume::of(settings, opened),
            Err(why) => Err(StartError::Other(why.to_owned())),
        };
        let found = match found {
            Err(error) if disks.is_empty() => return Err(error),
            found => found.map_err(|error| error.to_string()),
        };
        let directory = directory.to_owned();
        disks.push(Disk { directory, found });
    }
    for (number, disk) in disks.iter().enumerate() {
        if let Err(why) = &disk.found {
            data_dirs.set_offline(number, why.clone());
        }
    }
    Ok(disks)
}

impl LockedMemoryNeed {
    /// For rings and buffers.
    pub fn total(self) -> u64 {
        self.rings + self.buffers
    }
}

/// Why the kernel will not do, if so.
fn refuse_kernel(probe: &Probe) -> Result<(), StartError> {
    let version = kernel_version(&probe.kernel);
    if version.is_some_and(|version| version < KERNEL_LEAST) {
        return Err(StartError::Uring(kernel_remedy(&probe.kernel)));
    }
    if let Err(refusal) = &probe.io_uring {
        return Err(StartError::Uring(refusal.to_string()));
    }
    match missing_operations(probe) {
        Some(remedy) => Err(StartError::Uring(remedy)),
        None => Ok(()),
    }
}

/// What to do about io_uring operations that are missing, if any are.
pub fn missing_operations(probe: &Probe) -> Option<String> {
    let missing = &probe.missing_operations;
    (!missing.is_empty()).then(|| {
        let missing = missing.join(", ");
        format!("io_uring lacks {missing}: {}", kernel_remedy(&probe.kernel))
    })
}

/// A kernel release's major and minor number, if it has such.
pub fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|it: char| !it.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// What to do about a kernel that is too old.
pub fn kernel_remedy(release: &str) -> String {
    let (major, minor) = KERNEL_LEAST;
    format!("Linux {release} is too old: boot {major}.{minor} or newer")
}

/// The file system under a path that exists.
pub fn file_system(path: &Path) -> io::Result<FileSystem> {
    let path = fs::canonicalize(path)?;
    let stat = rustix::fs::statvfs(&path)?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let (mount, kind) =
        mount_of(&mounts, &path).unwrap_or_else(|| (PathBuf::from("/"), "unknown".to_owned()));
    Ok(FileSystem {
        kind,
        mount,
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
    })
}

/// The mount point that is nearest above a path, with its type. Of several mounts on one point the
/// last one hides the others.
fn mount_of(mounts: &str, path: &Path) -> Option<(PathBuf, String)> {
    let parse = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mount = left.split(' ').nth(4)?;
        let mount = mount.replace("\\040", " ").replace("\\134", "\\");
        let kind = right.split(' ').next()?;
        Some((PathBuf::from(mount), kind.to_owned()))
    };
    mounts
        .lines()
        .filter_map(parse)
        .filter(|(mount, _)| path.starts_with(mount))
        .max_by_key(|(mount, _)| mount.components().count())
}

/// Connections that so many open files allow: logs keep a quarter of them, and what a start needs.
fn connections_for(open_files: u64, shards: u64) -> usize {
    let others = open_files_need(shards).max(open_files / 4);
    usize::try_from(open_files.saturating_sub(others)).unwrap_or(usize::MAX)
}

/// Whether a file system lives in memory.
pub fn is_volatile(kind: &str) -> bool {
    ["tmpfs", "ramfs"].contains(&kind)
}

/// Makes the limit of open files as high as this process may, and returns it.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}

/// Open files without which so many shards do not start.
pub fn open_files_need(shards: u64) -> u64 {
    FILES_BASE + FILES_PER_SHARD * shards
}

/// Locked memory for so many shards with rings of so many entries. An executor refuses to start
/// where fewer than 512 KiB are allowed, and registers as much in buffers if it may (measured).
pub fn locked_memory_need(shards: u64, ring_entries: u32) -> LockedMemoryNeed {
    const EXECUTOR_LEAST: u64 = 512 << 10;
    LockedMemoryNeed {
        rings: Probe::memlock_need(shards, u64::from(ring_entries)).max(EXECUTOR_LEAST),
        buffers: shards * EXECUTOR_LEAST,
    }
}

/// Bytes that must be free: at the first start the log extents are written, later they are there.
pub fn space_need(settings: &Settings, first: bool) -> u64 {
    let shards = settings.shard_count() as u64;
    match first {
        true => SPACE_SPARE + 2 * shards * settings.wal.extent_bytes,
        false => SPACE_SPARE,
    }
}

/// The kernel's clock source, if it says.
pub fn clock_source() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = fs::read_to_string(path).ok()?;
    Some(source.trim().to_owned())
}

/// The mean time of reading the clock.
pub fn clock_cost() -> Duration {
    const READS: u32 = 10_000;
    let start = Instant::now();
    for _ in 0..READS {
        std::hint::black_box(Instant::now());
    }
    start.elapsed() / READS
}

/// A path itself, or what of it exists.
pub fn existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = absolute.ancestors().find(|it| it.is_dir());
    found.unwrap_or(Path::new("/")).to_owned()
}

/// What is needed of locked memory beside what may be had, in words.
pub fn compare(limit: Option<u64>, need: LockedMemoryNeed) -> String {
    let need = Bytes(need.total());
    match limit {
        None => format!("{need} needed, no limit"),
        Some(limit) => format!("{need} needed, {} had", Bytes(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_compared_by_number() {
        assert_eq!(kernel_version("6.18.44-fc-v1045"), Some((6, 18)));
        assert_eq!(kernel_version("6.1-rc2"), Some((6, 1)));
        assert_eq!(kernel_version("5.15.0"), Some((5, 15)));
        assert_eq!(kernel_version("next"), None);
        assert!((5, 15) < KERNEL_LEAST && (6, 10) > KERNEL_LEAST);
    }

    #[test]
    fn the_nearest_mount_is_the_paths_own() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n\
                      2 1 8:2 / /data rw shared:1 - xfs /dev/b rw\n\
                      3 1 8:3 / /data\\040two rw - btrfs /dev/c rw\n\
                      4 2 0:9 / /data rw - tmpfs none rw\n";
        let of = |path: &str| mount_of(mounts, Path::new(path)).map(|(_, kind)| kind);
        assert_eq!(of("/data/x").as_deref(), Some("tmpfs"));
        assert_eq!(of("/data two/x").as_deref(), Some("btrfs"));
        assert_eq!(of("/database").as_deref(), Some("ext4"));
    }

    #[test]
    fn a_limit_below_the_need_is_seen_and_none_suffices() {
        let need = locked_memory_need(2, 1024);
        assert!(need.rings > 64 << 10, "64 KiB are refused, not run into");
        assert!(need.total() < 8 << 20, "8 MiB suffice for two shards");
        assert!(locked_memory_need(1, 64).rings >= 512 << 10);
        assert_eq!(compare(None, need).split(", ").last(), Some("no limit"));
        assert_eq!(connections_for(open_files_need(1), 1), 0);
        assert_eq!(connections_for(100_000, 2), 75_000);
        assert!(
            open_files_need(1) > 64,
            "64 open files are refused, not run into"
        );
    }

    #[test]
    fn the_file_system_of_what_is_there_and_of_what_is_not_yet() {
        let name = format!("corelog-machine-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).expect("made");
        assert!(file_system(&directory).expect("there").free > 0);
        fs::remove_dir(&directory).expect("empty");
        assert_eq!(existing(&directory.join("a/b")), std::env::temp_dir());
    }
}
