//! A disk with a volatile cache, as the one file of a FUSE file system, served by a process of its own
//! that is told over its standard input when the power goes. Knows sectors, flushes and nothing of what
//! is written.
//!
//! | it is told | it does |
//! |---|---|
//! | `flush delay MS` | from now on a flush takes so long; what arrives meanwhile is not covered by it |
//! | `flush fail N` | the Nth flush from now fails, and for 100 ms all that follow; what they should have covered is lost at the cut, even if a later flush succeeds |
//! | `cut KEEP SEED` | of what no flush has covered, `all`, `none` or a random `half` of the sectors survives; all that follows fails |
//! | `on` | works again |
//!
//! Flushes fail for so long that each who has written hears of it: a disk that loses one writer's sectors and
//! tells another is beyond any software, as the kernel passes the failure on to nobody else.
//!
//! It answers each with one line, and ends with its standard input. A process of its own, since one
//! that waits for a file system which waits for its own answers would wait forever.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::BufRead;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};

use crate::choices::Choices;

/// The file that is the disk.
pub const FILE: &str = "disk";
/// What is written or lost as a whole.
const SECTOR: usize = 512;
const FILE_INODE: INodeNo = INodeNo(2);
/// Nothing about the file ever changes.
const ATTRIBUTES_FOR: Duration = Duration::from_secs(3600);
const FAILING_FOR: Duration = Duration::from_millis(100);

/// Serves a disk of zeros until standard input ends.
pub fn serve(mountpoint: &Path, bytes: usize) -> std::io::Result<()> {
    // Memory for a write must not be sought by writing to the disk that waits for it. Not everybody may
    // ask for that, and with a disk this small it hardly matters.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let state = Arc::new(Mutex::new(State {
        platter: vec![0; bytes],
        cache: BTreeMap::new(),
        writes: 0,
        on: true,
        flush_takes: Duration::ZERO,
        fails_in: None,
        failing: None,
    }));
    let served = Served(state.clone());
    let _session = fuser::spawn_mount(served, mountpoint, &Config::default())?;
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        println!("{}", lock(&state).told(&line?));
    }
    // Without a farewell to the kernel: whatever still waits for an answer fails.
    std::process::exit(0)
}

struct State {
    /// What a flush has covered.
    platter: Vec<u8>,
    /// What was written since, by sector.
    cache: BTreeMap<u64, Cached>,
    /// Writes so far.
    writes: u64,
    on: bool,
    flush_takes: Duration,
    /// The flush that fails, counted from the next one, 1.
    fails_in: Option<u64>,
    /// Until then they all fail.
    failing: Option<Instant>,
}

struct Cached {
    bytes: [u8; SECTOR],
    /// Which write brought it.
    write: u64,
    /// A flush has failed to keep it.
    lost: bool,
}

/// A flush that has begun.
struct Flush {
    /// It covers writes up to here.
    up_to: u64,
    takes: Duration,
    fails: bool,
}

impl State {
    fn told(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words {
            ["flush", "delay", ms] => {
                self.flush_takes = Duration::from_millis(ms.parse().expect("milliseconds"));
            }
            ["flush", "fail", number] => self.fails_in = Some(number.parse().expect("a number")),
            ["cut", keep, seed] => return self.cut(keep, Choices(seed.parse().expect("a seed"))),
            ["on"] => {
                self.on = true;
                self.flush_takes = Duration::ZERO;
                (self.fails_in, self.failing) = (None, None);
            }
            _ => panic!("nobody says {line:?}"),
        }
        "done".to_owned()
    }

    /// Takes the power away; says what became of what no flush had covered.
    fn cut(&mut self, keep: &str, mut choices: Choices) -> String {
        self.on = false;
        let cache = std::mem::take(&mut self.cache);
        let (all, mut kept) = (cache.len(), 0);
        for (sector, cached) in cache {
            let survives = match keep {
                "all" => true,
                "none" => false,
                "half" => choices.below(2) == 0,
                _ => panic!("nobody keeps {keep:?}"),
            };
            if survives && !cached.lost {
                self.keep(sector, &cached.bytes);
                kept += 1;
            }
        }
        format!("{kept} of {all} unflushed sectors survived")
    }

    fn keep(&mut self, sector: u64, bytes: &[u8; SECTOR]) {
        let at = usize::try_from(sector).expect("on the disk") * SECTOR;
        self.platter[at..at + SECTOR].copy_from_slice(bytes);
    }

    fn read(&self, offset: u64, size: usize) -> Vec<u8> {
        let from =
            usize::try_from(offset).map_or(self.platter.len(), |it| it.min(self.platter.len()));
        let to = from.saturating_add(size).min(self.platter.len());
        let mut bytes = self.platter[from..to].to_vec();
        assert!(from.is_multiple_of(SECTOR) && to.is_multiple_of(SECTOR));
        let sectors = (from / SECTOR) as u64..(to / SECTOR) as u64;
        for (sector, cached) in self.cache.range(sectors) {
            let at = usize::try_from(*sector).expect("on the disk") * SECTOR - from;
            bytes[at..at + SECTOR].copy_from_slice(&cached.bytes);
        }
        bytes
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        let sector = offset / SECTOR as u64;
        let (sectors, rest) = data.as_chunks::<SECTOR>();
        assert!(rest.is_empty() && offset.is_multiple_of(SECTOR as u64));
        self.writes += 1;
        for (sector, bytes) in (sector..).zip(sectors) {
            let cached = Cached {
                bytes: *bytes,
                write: self.writes,
                lost: false,
            };
            self.cache.insert(sector, cached);
        }
    }

    fn begin_flush(&mut self) -> Flush {
        let left = self.fails_in.take().map(|number| number - 1);
        self.fails_in = left.filter(|left| *left > 0);
        let now = Instant::now();
        if left == Some(0) {
            self.failing = Some(now + FAILING_FOR);
        }
        Flush {
            up_to: self.writes,
            takes: self.flush_takes,
            fails: self.failing.is_some_and(|until| now < until),
        }
    }

    /// Whether it succeeds.
    fn end_flush(&mut self, flush: &Flush) -> bool {
        if !self.on {
            return false;
        }
        let covered = |cached: &Cached| cached.write <= flush.up_to;
        if flush.fails {
            let all = self.cache.values_mut().filter(|cached| covered(cached));
            all.for_each(|cached| cached.lost = true);
            return false;
        }
        let flushed: Vec<_> = self
            .cache
            .extract_if(.., |_, cached| covered(cached) && !cached.lost)
            .collect();
        for (sector, cached) in flushed {
            self.keep(sector, &cached.bytes);
        }
        true
    }
}

struct Served(Arc<Mutex<State>>);

/// What a panic leaves is a disk that nobody trusts any more: whoever asks sees the panic's words.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Served {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let directory = inode == INodeNo::ROOT;
        let size = if directory {
            0
        } else {
            lock(&self.0).platter.len() as u64
        };
        FileAttr {
            ino: inode,
            size,
            blocks: size / SECTOR as u64,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if directory {
                FileType::Directory
            } else {
                FileType::RegularFile
            },
            perm: if directory { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == FILE {
            reply.entry(&ATTRIBUTES_FOR, &self.attributes(FILE_INODE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&ATTRIBUTES_FOR, &self.attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // The kernel must not remember what this disk forgets.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let state = lock(&self.0);
        if state.on {
            reply.data(&state.read(offset, size as usize));
        } else {
            reply.error(Errno::EIO);
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = lock(&self.0);
        if state.on {
            state.write(offset, data);
            reply.written(u32::try_from(data.len()).expect("a request is small"));
        } else {
            reply.error(Errno::EIO);
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let flush = lock(&self.0).begin_flush();
        let state = self.0.clone();
        let end = move || {
            std::thread::sleep(flush.takes);
            if lock(&state).end_flush(&flush) {
                reply.ok();
            } else {
                reply.error(Errno::EIO);
            }
        };
        // Writes go on while a flush takes its time.
        std::thread::spawn(end);
    }
}
