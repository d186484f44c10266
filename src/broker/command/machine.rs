//! What this machine offers a broker: file system, direct I/O, locked memory, open files, clock.
//! Measures and computes; what follows from it is said by `check` and by a start.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Settings;
use crate::data_dir::{DataDir, PROBE_PREFIX};
use crate::start_error::{Bytes, StartError};

/// The oldest kernel that has all that the reactor uses.
pub const KERNEL_LEAST: (u32, u32) = (6, 1);
/// A block as storage writes it, in bytes.
const BLOCK: usize = 4096;
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

/// Whether files can be written past the page cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectIo {
    /// They can: of memory and at offsets that are multiples of these, in bytes; 0 when the file
    /// system does not say.
    Works {
        /// Alignment in memory.
        memory: u32,
        /// Alignment in the file.
        offset: u32,
    },
    /// They cannot.
    Refused(String),
}

/// How much memory this process may lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockedMemory {
    /// As much as it likes.
    Unlimited,
    /// This many bytes.
    Limited(u64),
}

/// The locked memory that shards need, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedMemoryNeed {
    /// For their rings: without it there are none.
    pub rings: u64,
    /// For registered buffers besides: without it I/O costs more.
    pub buffers: u64,
}

/// What a start found and made of this machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: String,
    /// The data directory's file system.
    pub file_system: FileSystem,
    /// Direct I/O there.
    pub direct_io: DirectIo,
    /// Whether there is locked memory for registered buffers.
    pub registered_buffers: bool,
    /// Files that may be open at once, after raising the limit.
    pub open_files: u64,
    /// What is worse than it could be, each with its remedy.
    pub warnings: Vec<String>,
}

impl Machine {
    /// Raises the limit of open files as far as it goes, and looks at all that a start depends on.
    ///
    /// # Errors
    /// What keeps the broker from running here.
    pub fn prepare(settings: &Settings, data_dir: &DataDir) -> Result<Self, StartError> {
        let shards = settings.shard_count() as u64;
        let (release, version) = kernel();
        if version.is_some_and(|version| version < KERNEL_LEAST) {
            return Err(StartError::Other(kernel_remedy(&release)));
        }
        let open_files = raise_open_files();
        let need = open_files_need(shards);
        if open_files < need {
            let had = open_files;
            return Err(StartError::OpenFiles { need, had });
        }
        let memory = locked_memory();
        let need = locked_memory_need(shards, settings.shards.ring_entries);
        if !memory.allows(need.rings) {
            let (need, LockedMemory::Limited(had)) = (need.rings, memory) else {
                unreachable!("unlimited memory allows anything");
            };
            return Err(StartError::LockedMemory { need, had });
        }
        // After the memory, since a ring that gets none says less about how much is needed.
        reactor::probe::uring_available().map_err(StartError::Uring)?;
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
        let direct_io = direct_io(path).map_err(failed)?;
        let mut machine = Self {
            kernel: release,
            file_system,
            direct_io,
            registered_buffers: memory
                .allows(locked_memory_need(shards, settings.shards.ring_entries).total()),
            open_files,
            warnings: Vec::new(),
        };
        machine.warnings = machine.warn(settings);
        Ok(machine)
    }

    fn warn(&self, settings: &Settings) -> Vec<String> {
        let mut warnings = Vec::new();
        if let DirectIo::Refused(why) = &self.direct_io {
            warnings.push(format!(
                "{} has no direct I/O ({why}): writes go through the page cache, and are slower; \
                 choose a directory on ext4 or XFS with --data",
                self.file_system.kind
            ));
        }
        if is_volatile(&self.file_system.kind) {
            warnings.push(format!(
                "{} is memory: nothing on it survives a restart of this machine; choose a \
                 directory on a disk with --data",
                self.file_system.kind
            ));
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
                "only {} files may be open, connections and partitions together; raise it \
                 (`ulimit -n 65536`, or LimitNOFILE=65536 in a systemd unit)",
                self.open_files
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

impl LockedMemory {
    /// Whether this many bytes may be locked.
    pub fn allows(self, bytes: u64) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Limited(limit) => limit >= bytes,
        }
    }
}

impl LockedMemoryNeed {
    /// For rings and buffers.
    pub fn total(self) -> u64 {
        self.rings + self.buffers
    }
}

/// The kernel's release, and its major and minor number if it has such.
pub fn kernel() -> (String, Option<(u32, u32)>) {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    let version = kernel_version(&release);
    (release, version)
}

fn kernel_version(release: &str) -> Option<(u32, u32)> {
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

/// Whether a file system lives in memory.
pub fn is_volatile(kind: &str) -> bool {
    ["tmpfs", "ramfs"].contains(&kind)
}

/// Writes a block past the page cache in this directory, to see whether that is possible.
pub fn direct_io(directory: &Path) -> io::Result<DirectIo> {
    let probe = Probe::new(directory, "direct")?;
    let mut options = OpenOptions::new();
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
    let file = match options.write(true).custom_flags(direct).open(&probe.path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Ok(DirectIo::Refused("it refuses O_DIRECT".to_owned()));
        }
        Err(error) => return Err(error),
    };
    let memory = vec![0; 2 * BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK);
    let Some(block) = memory.get(start..start + BLOCK) else {
        return Err(io::Error::other("memory cannot be aligned to a block"));
    };
    match file.write_all_at(block, 0) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            let why = format!("blocks of {BLOCK} bytes are refused");
            return Ok(DirectIo::Refused(why));
        }
        Err(error) => return Err(error),
    }
    let stat = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
    Ok(DirectIo::Works {
        memory: stat.stx_dio_mem_align,
        offset: stat.stx_dio_offset_align,
    })
}

/// The median time of flushing one rewritten block in this directory.
pub fn flush_cost(directory: &Path) -> io::Result<Duration> {
    const ROUNDS: usize = 21;
    let probe = Probe::new(directory, "flush")?;
    probe.file.write_all_at(&[0; BLOCK], 0)?;
    probe.file.sync_all()?;
    let mut times = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        let content = u8::try_from(round).unwrap_or(0);
        probe.file.write_all_at(&[content; BLOCK], 0)?;
        let start = Instant::now();
        probe.file.sync_data()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[ROUNDS / 2])
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

/// How much memory this process may lock. Who may lock any amount (CAP_IPC_LOCK) is never asked.
pub fn locked_memory() -> LockedMemory {
    const CAP_IPC_LOCK: u32 = 14;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    if held.is_some_and(|held| held & (1 << CAP_IPC_LOCK) != 0) {
        return LockedMemory::Unlimited;
    }
    let limit = getrlimit(Resource::Memlock).current;
    limit.map_or(LockedMemory::Unlimited, LockedMemory::Limited)
}

/// Locked memory for so many shards with rings of so many entries. Measured: 16 KiB a ring at 128
/// entries, 113 at 1024, 400 at 4096; an executor has three small rings beside the shard's own,
/// refuses to start where fewer than 512 KiB are allowed, and registers as much in buffers if it may.
pub fn locked_memory_need(shards: u64, ring_entries: u32) -> LockedMemoryNeed {
    const EXECUTOR_LEAST: u64 = 512 << 10;
    let ring = |entries: u64| 2048 + 112 * entries;
    let rings = shards * (3 * ring(128) + ring(u64::from(ring_entries)));
    LockedMemoryNeed {
        rings: rings.max(EXECUTOR_LEAST),
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

/// A number of bytes beside the number that is needed.
pub fn compare(memory: LockedMemory, need: LockedMemoryNeed) -> String {
    let had = match memory {
        LockedMemory::Unlimited => "no limit".to_owned(),
        LockedMemory::Limited(limit) => format!("{} had", Bytes(limit)),
    };
    format!("{} needed, {had}", Bytes(need.total()))
}

/// A file that exists while something is tried on it.
struct Probe {
    path: PathBuf,
    file: File,
}

impl Probe {
    fn new(directory: &Path, name: &str) -> io::Result<Self> {
        let name = format!("{PROBE_PREFIX}{name}-{}", std::process::id());
        let path = directory.join(name);
        let file = File::create(&path)?;
        Ok(Self { path, file })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // Left behind it does no harm: its name says what it was.
        let _ = fs::remove_file(&self.path);
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
        assert!(!LockedMemory::Limited(64 << 10).allows(need.rings));
        assert!(!LockedMemory::Limited(511 << 10).allows(locked_memory_need(1, 64).rings));
        assert!(LockedMemory::Limited(8 << 20).allows(need.total()));
        assert!(LockedMemory::Unlimited.allows(u64::MAX));
        assert!(
            open_files_need(1) > 64,
            "64 open files are refused, not run into"
        );
    }

    #[test]
    fn probes_answer_and_leave_nothing_behind() {
        let name = format!("corelog-machine-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).expect("made");
        direct_io(&directory).expect("the directory can be written to");
        assert!(flush_cost(&directory).expect("so it can") > Duration::ZERO);
        assert_eq!(fs::read_dir(&directory).expect("there").count(), 0);
        assert!(file_system(&directory).expect("there").free > 0);
        fs::remove_dir(&directory).expect("empty");
        assert_eq!(existing(&directory.join("a/b")), std::env::temp_dir());
    }
}
