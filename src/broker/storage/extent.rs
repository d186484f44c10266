//! The files of one shard's write-ahead log: pre-written extents that are filled, emptied by
//! trimming and used again under a new generation. Knows nothing of frames.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use reactor::Reactor;
use reactor::buffer::AlignedBuf;
use reactor::file::{self, DirectFile, Mode};

/// The extent that a shard starts with: small, so that starting does not wait for the disk.
const FIRST_EXTENT_BYTES: u64 = 256 << 10;
/// One write while an extent is prepared.
const PREPARE_STEP: u64 = 1 << 20;

/// One file of the log.
#[derive(Clone)]
pub struct Extent {
    /// The file.
    pub file: DirectFile,
    path: PathBuf,
    size: u64,
    /// Grows with each use of any extent.
    pub generation: u64,
    /// The first and last commit in it.
    first: u64,
    last: u64,
}

/// All files of the log.
pub struct Extents {
    reactor: Reactor,
    directory: PathBuf,
    extent_bytes: u64,
    /// Emptied extents kept for reuse.
    spares_max: usize,
    /// Where the next commit goes, and the bytes used of it.
    current: RefCell<Extent>,
    used: Cell<u64>,
    /// Filled, oldest first: commit numbers increase.
    full: RefCell<VecDeque<Extent>>,
    spare: RefCell<Vec<Extent>>,
    preparing: Cell<bool>,
    next_file: Cell<u64>,
    next_generation: Cell<u64>,
}

impl Extents {
    /// Makes the directory and its first extent, durably.
    pub async fn create(
        reactor: &Reactor,
        directory: &Path,
        extent_bytes: u64,
        spares_max: usize,
    ) -> io::Result<Self> {
        file::create_dir(reactor, directory).await?;
        let path = extent_path(directory, 0);
        let size = FIRST_EXTENT_BYTES.min(extent_bytes);
        let first = prepare(reactor, path, size, true).await?;
        file::sync_dir(reactor, directory).await?;
        if let Some(root) = directory.parent() {
            file::sync_dir(reactor, root).await?;
        }
        Ok(Self {
            reactor: reactor.clone(),
            directory: directory.to_owned(),
            extent_bytes,
            spares_max,
            current: RefCell::new(Extent {
                generation: 1,
                first: 1,
                ..first
            }),
            used: Cell::new(0),
            full: RefCell::default(),
            spare: RefCell::default(),
            preparing: Cell::new(false),
            next_file: Cell::new(1),
            next_generation: Cell::new(2),
        })
    }

    /// Whether a commit of `len` bytes fits into the extent in use.
    pub fn fits(&self, len: u64) -> bool {
        self.used.get() + len <= self.current.borrow().size
    }

    /// Goes on in another extent, which has room for the commit of `len` bytes numbered `sequence`. The
    /// caller has flushed the one in use.
    pub async fn go_on(&self, len: u64, sequence: u64) -> io::Result<()> {
        let next = self.take_spare(len).await?;
        let generation = self.next_generation.get();
        let same = u64::from(crate::bugs::reuses_generations());
        self.next_generation.set(generation + 1 - same);
        let next = Extent {
            generation,
            first: sequence,
            last: sequence,
            ..next
        };
        self.full.borrow_mut().push_back(self.current.replace(next));
        self.used.set(0);
        Ok(())
    }

    /// Where the commit numbered `sequence` goes, whose `len` bytes fit.
    pub fn place(&self, len: u64, sequence: u64) -> (DirectFile, u64, u64) {
        let mut current = self.current.borrow_mut();
        current.last = sequence;
        let position = self.used.get();
        self.used.set(position + len);
        (current.file.clone(), position, current.generation)
    }

    /// The file that holds the newest commits.
    pub fn current_file(&self) -> DirectFile {
        self.current.borrow().file.clone()
    }

    /// The first commit of the current extent: every older one can be trimmed.
    pub fn current_first(&self) -> u64 {
        self.current.borrow().first
    }

    /// Bytes of commits not trimmed yet.
    pub fn live_bytes(&self) -> u64 {
        self.used.get()
            + self
                .full
                .borrow()
                .iter()
                .map(|extent| extent.size)
                .sum::<u64>()
    }

    /// Whether there is anything to trim.
    pub fn has_full(&self) -> bool {
        !self.full.borrow().is_empty()
    }

    /// Gives up the extents whose commits are all below `needed`. The caller has made sure that a
    /// durable commit says so.
    pub async fn recycle(&self, needed: u64) -> io::Result<()> {
        loop {
            let emptied = {
                let mut full = self.full.borrow_mut();
                let empty = full.front().is_some_and(|extent| extent.last < needed);
                if empty { full.pop_front() } else { None }
            };
            let Some(extent) = emptied else { return Ok(()) };
            let keep =
                extent.size == self.extent_bytes && self.spare.borrow().len() < self.spares_max;
            if keep {
                self.spare.borrow_mut().push(extent);
            } else {
                file::remove(&self.reactor, &extent.path).await?;
            }
        }
    }

    /// Whether the current extent is half full and nothing follows it.
    pub fn needs_spare(&self) -> bool {
        let half = self.used.get() * 2 > self.current.borrow().size;
        half && !self.preparing.get() && self.spare.borrow().is_empty()
    }

    /// Prepares an extent ahead of need, if there is none.
    pub async fn prepare_spare(&self) -> io::Result<()> {
        if self.preparing.get() || !self.spare.borrow().is_empty() {
            return Ok(());
        }
        self.preparing.set(true);
        let made = self.make(self.extent_bytes, true).await;
        self.preparing.set(false);
        self.spare.borrow_mut().push(made?);
        Ok(())
    }

    async fn take_spare(&self, len: u64) -> io::Result<Extent> {
        let spare = {
            let mut spares = self.spare.borrow_mut();
            let fits = spares.iter().position(|extent| extent.size >= len);
            fits.map(|at| spares.swap_remove(at))
        };
        match spare {
            Some(extent) => Ok(extent),
            // Nothing prepared: allocated space costs a slower flush, waiting costs more.
            None => self.make(self.extent_bytes.max(len), false).await,
        }
    }

    async fn make(&self, size: u64, written: bool) -> io::Result<Extent> {
        let number = self.next_file.get();
        self.next_file.set(number + 1);
        let path = extent_path(&self.directory, number);
        let extent = prepare(&self.reactor, path, size, written).await?;
        file::sync_dir(&self.reactor, &self.directory).await?;
        Ok(extent)
    }
}

fn extent_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:08}.extent"))
}

async fn prepare(reactor: &Reactor, path: PathBuf, size: u64, written: bool) -> io::Result<Extent> {
    let file = DirectFile::open(reactor, &path, Mode::Create).await?;
    file.allocate(0, size).await?;
    if written {
        let step = PREPARE_STEP.min(size);
        let zeros: Bytes = AlignedBuf::new(step as usize).freeze();
        let mut at = 0;
        while at < size {
            let len = step.min(size - at);
            file.write_at(zeros.slice(..len as usize), at).await?;
            at += len;
        }
    }
    file.fdatasync().await?;
    Ok(Extent {
        file,
        path,
        size,
        generation: 0,
        first: 0,
        last: 0,
    })
}
