//! What this machine offers to the reactor, and what to do where it falls short. Knows nothing of
//! configuration.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode};

use crate::buffer::{ALIGNMENT, AlignedBuf};

/// Flushed writes that [`flush_cost`] makes; it reports the middle one.
const FLUSHES: usize = 16;
/// glommio opens this many rings for each executor, beside ours.
const GLOMMIO_RINGS: u64 = 3;

/// glommio starts no executor with a limit on locked memory below this, in bytes.
const GLOMMIO_MEMLOCK_MIN: u64 = 512 << 10;

/// What was found. Made by [`probe`].
#[derive(Clone, Debug)]
pub struct Probe {
    /// Whether a ring as the reactor needs it can be made.
    pub io_uring: Result<(), Refusal>,
    /// Operations that the reactor uses and this kernel lacks; empty when `io_uring` was refused.
    pub missing_operations: Vec<&'static str>,
    /// The kernel's release, such as `6.18.4`.
    pub kernel: String,
    /// Whether cachestat(2) exists (6.5 on); without it residency is asked by a read at both ends.
    pub cachestat: bool,
    /// Bytes that may be locked; `None` is unlimited or a user who is not held to it.
    pub memlock_limit: Option<u64>,
    /// Files that may be open.
    pub open_files_limit: u64,
}

impl Probe {
    /// Bytes of locked memory that `executors` with rings of `ring_entries` need at most.
    pub fn memlock_need(executors: u64, ring_entries: u64) -> u64 {
        // A submission is 64 bytes and 4 of index, a completion 16 and there are 4 for each; the
        // kernel rounds each array up to pages and adds a header to the completions.
        let ours = ring_bytes(ring_entries, 4);
        let theirs = GLOMMIO_RINGS * ring_bytes(crate::executor::GLOMMIO_RING_DEPTH as u64, 2);
        executors * (ours + theirs)
    }

    /// Whether the limit allows this need.
    pub fn memlock_suffices(&self, need: u64) -> bool {
        self.memlock_limit.is_none_or(|limit| need <= limit)
    }
}

fn ring_bytes(entries: u64, completions_per_entry: u64) -> u64 {
    let page = ALIGNMENT as u64;
    let submissions = (entries * 64).next_multiple_of(page);
    let rings = (256 + entries * 4 + entries * completions_per_entry * 16).next_multiple_of(page);
    submissions + rings
}

/// Why there is no io_uring, each with a remedy of its own (see the `Display`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The sysctl kernel.io_uring_disabled has this value.
    DisabledBySysctl(u8),
    /// EPERM with the sysctl at 0: a seccomp filter, as container runtimes install by default.
    BlockedBySeccomp,
    /// ENOSYS: a kernel without io_uring, or a sandbox that hides it.
    NotInKernel,
    /// EINVAL: a kernel before 6.1, which lacks the flags that the reactor needs.
    KernelTooOld,
    /// ENOMEM: the limit on locked memory, in bytes if there is one.
    LockedMemory(Option<u64>),
    /// EMFILE or ENFILE: no file descriptor is left.
    OpenFiles,
    /// Something else, in words.
    Other(String),
}

impl Refusal {
    /// The reason behind an error of making a ring, or of [`crate::start`].
    pub fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM) => match disabled_by_sysctl() {
                0 => Self::BlockedBySeccomp,
                value => Self::DisabledBySysctl(value),
            },
            Some(libc::ENOSYS) => Self::NotInKernel,
            Some(libc::EINVAL) => Self::KernelTooOld,
            Some(libc::ENOMEM) => Self::LockedMemory(memlock_limit()),
            Some(libc::EMFILE | libc::ENFILE) => Self::OpenFiles,
            Some(_) => Self::Other(format!("io_uring could not be set up: {error}")),
            // Not the kernel's, or worded already.
            None => Self::Other(error.to_string()),
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::DisabledBySysctl(value) => write!(
                out,
                "io_uring is switched off (kernel.io_uring_disabled = {value}); as root run: \
                 sysctl -w kernel.io_uring_disabled=0"
            ),
            Self::BlockedBySeccomp => write!(
                out,
                "io_uring is blocked, most likely by the container's seccomp profile; allow \
                 io_uring_setup, io_uring_enter and io_uring_register in it (Docker: \
                 --security-opt seccomp=PROFILE.json, or =unconfined to try)"
            ),
            Self::NotInKernel => write!(
                out,
                "this kernel or sandbox has no io_uring; corelog needs Linux 6.1 or newer (gVisor \
                 and some container services hide it: run on a plain kernel there)"
            ),
            Self::KernelTooOld => write!(
                out,
                "this kernel's io_uring is too old (no DEFER_TASKRUN); corelog needs Linux 6.1 or \
                 newer"
            ),
            Self::LockedMemory(limit) => {
                write!(out, "io_uring needs more locked memory than is allowed")?;
                if let Some(limit) = limit {
                    write!(out, " ({} KiB)", limit >> 10)?;
                }
                write!(
                    out,
                    "; raise it to 512 KiB at least: ulimit -l unlimited, LimitMEMLOCK=infinity in a systemd unit, \
                     or --ulimit memlock=-1 for a container"
                )
            }
            Self::OpenFiles => write!(
                out,
                "no file descriptor is left for io_uring; raise the limit: ulimit -n 65536, \
                 LimitNOFILE=65536 in a systemd unit"
            ),
            Self::Other(problem) => write!(out, "{problem}"),
        }
    }
}

/// The cause and the remedy of a refused ring. [`crate::start`] words its errors so itself.
pub fn explain(error: &io::Error) -> String {
    Refusal::of(error).to_string()
}

/// Looks at this machine. Takes a few milliseconds and leaves nothing behind.
pub fn probe() -> Probe {
    let io_uring = try_ring(64).map_err(|error| Refusal::of(&error));
    let missing_operations = match &io_uring {
        Ok(()) => missing_operations(),
        Err(_) => Vec::new(),
    };
    Probe {
        io_uring,
        missing_operations,
        kernel: first_line("/proc/sys/kernel/osrelease"),
        cachestat: cachestat_exists(),
        memlock_limit: memlock_limit(),
        open_files_limit: limit(libc::RLIMIT_NOFILE).unwrap_or(u64::MAX),
    }
}

/// Makes and drops a ring as the reactor makes it, to learn the error if there is one.
pub(crate) fn try_ring(entries: u32) -> io::Result<()> {
    if memlock_limit().is_some_and(|limit| limit < GLOMMIO_MEMLOCK_MIN) {
        return Err(io::Error::from_raw_os_error(libc::ENOMEM));
    }
    let ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)?;
    drop(ring);
    Ok(())
}

fn missing_operations() -> Vec<&'static str> {
    let wanted = [
        ("accept", opcode::Accept::CODE),
        ("recv", opcode::Recv::CODE),
        ("sendmsg", opcode::SendMsg::CODE),
        ("poll", opcode::PollAdd::CODE),
        ("openat", opcode::OpenAt::CODE),
        ("read", opcode::Read::CODE),
        ("writev", opcode::Writev::CODE),
        ("fsync", opcode::Fsync::CODE),
        ("fallocate", opcode::Fallocate::CODE),
        ("fadvise", opcode::Fadvise::CODE),
        ("renameat", opcode::RenameAt::CODE),
        ("unlinkat", opcode::UnlinkAt::CODE),
        ("mkdirat", opcode::MkDirAt::CODE),
    ];
    let mut found = io_uring::Probe::new();
    let asked = IoUring::new(8).and_then(|ring| ring.submitter().register_probe(&mut found));
    let lacks = |code| asked.is_err() || !found.is_supported(code);
    let missing = wanted.into_iter().filter(|(_, code)| lacks(*code));
    missing.map(|(name, _)| name).collect()
}

fn disabled_by_sysctl() -> u8 {
    first_line("/proc/sys/kernel/io_uring_disabled")
        .parse()
        .unwrap_or(0)
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn cachestat_exists() -> bool {
    // SAFETY: with an invalid descriptor the call returns before it looks at the null pointers.
    let result = unsafe {
        libc::syscall(
            crate::file::SYS_CACHESTAT,
            -1,
            std::ptr::null::<u64>(),
            std::ptr::null::<u64>(),
            0,
        )
    };
    result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

/// What the user may lock, unless it may lock anything.
fn memlock_limit() -> Option<u64> {
    const CAP_IPC_LOCK: u64 = 1 << 14;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = capabilities.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    if capabilities.unwrap_or(0) & CAP_IPC_LOCK != 0 {
        return None;
    }
    limit(libc::RLIMIT_MEMLOCK)
}

fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: getrlimit fills the structure, which lives here, when it succeeds.
    let limit = unsafe {
        if libc::getrlimit(resource, limit.as_mut_ptr()) != 0 {
            return None;
        }
        limit.assume_init()
    };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// What direct I/O in this directory asks of positions and lengths, in bytes; `None` when its file
/// system has no direct I/O. Blocks; makes and removes a file there.
pub fn direct_io_alignment(directory: &Path) -> io::Result<Option<u32>> {
    let scratch = Scratch::new(directory, libc::O_DIRECT);
    let scratch = match scratch {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(None),
        other => other?,
    };
    let path = std::ffi::CString::new(scratch.path.as_os_str().as_bytes())?;
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: a terminated path and a structure that the call fills, both alive here.
    let found = unsafe {
        let asked = libc::statx(
            libc::AT_FDCWD,
            path.as_ptr(),
            0,
            libc::STATX_DIOALIGN,
            found.as_mut_ptr(),
        );
        if asked != 0 {
            return Err(io::Error::last_os_error());
        }
        found.assume_init()
    };
    if found.stx_mask & libc::STATX_DIOALIGN != 0 {
        return Ok((found.stx_dio_offset_align != 0).then_some(found.stx_dio_offset_align));
    }
    // A kernel or file system that does not say: it took the flag, so ours is a safe assumption.
    Ok(Some(ALIGNMENT as u32))
}

/// What making one written block durable takes in this directory (the median of a few). Blocks;
/// makes and removes a file there.
pub fn flush_cost(directory: &Path) -> io::Result<Duration> {
    use std::os::unix::fs::FileExt;
    let scratch = match Scratch::new(directory, libc::O_DIRECT) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Scratch::new(directory, 0)?,
        other => other?,
    };
    let block = AlignedBuf::new(ALIGNMENT);
    // The first write and flush allocate; what follows is what a log on written extents pays.
    scratch.file.write_all_at(&block, 0)?;
    scratch.file.sync_all()?;
    let mut costs = Vec::with_capacity(FLUSHES);
    for _ in 0..FLUSHES {
        let begun = Instant::now();
        scratch.file.write_all_at(&block, 0)?;
        scratch.file.sync_data()?;
        costs.push(begun.elapsed());
    }
    costs.sort_unstable();
    Ok(costs[FLUSHES / 2])
}

/// A file that is removed when dropped.
struct Scratch {
    file: fs::File,
    path: std::path::PathBuf,
}

impl Scratch {
    fn new(directory: &Path, flags: i32) -> io::Result<Self> {
        let path = directory.join(format!(".corelog-probe-{}", std::process::id()));
        // tmpfs and others create the file before they refuse the flag, hence the clean-up.
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(flags)
            .open(&path)
            .inspect_err(|_| drop(fs::remove_file(&path)))?;
        Ok(Self { file, path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover of an empty hidden file is harmless.
        drop(fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_a_remedy_of_its_own() {
        let text = |code| explain(&io::Error::from_raw_os_error(code));
        assert!(text(libc::ENOSYS).contains("6.1"));
        assert!(text(libc::ENOMEM).contains("memlock"));
        assert!(text(libc::EMFILE).contains("ulimit -n"));
        let blocked = text(libc::EPERM);
        assert!(blocked.contains("seccomp") || blocked.contains("sysctl"));
    }

    #[test]
    fn the_probe_finds_what_the_reactor_needs_here() {
        let found = probe();
        assert_eq!(found.io_uring, Ok(()));
        assert!(found.missing_operations.is_empty(), "{found:?}");
        assert!(!found.kernel.is_empty());
        let directory = std::env::temp_dir();
        let alignment = direct_io_alignment(&directory).expect("can be asked");
        assert!(alignment.is_none_or(|bytes| bytes <= ALIGNMENT as u32));
        assert!(flush_cost(&directory).expect("can be measured") > Duration::ZERO);
    }

    #[test]
    fn the_need_for_locked_memory_grows_with_executors_and_entries() {
        // Measured on Linux 6.18: about 16, 113 and 400 KiB at depth 128, 1024 and 4096.
        assert!((100 << 10..200 << 10).contains(&ring_bytes(1024, 2)));
        assert!(Probe::memlock_need(2, 1024) > Probe::memlock_need(1, 1024));
    }
}
