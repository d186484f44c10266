//! Files: direct writes for logs, resident pages for sockets. Knows nothing of what is in them.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use io_uring::{opcode, types};

use crate::buffer::{ALIGNMENT, AlignedBuf};
use crate::close::Descriptor;
use crate::executor::Reactor;
use crate::ring::{Operation, Ring};

/// Buffers that one vectored write may carry.
const VECTORS_MAX: usize = 1024;
/// How far apart a range's pages are asked whether they can be read without waiting.
const PROBE_STEP: usize = 128 << 10;
/// How long to wait before another try when no descriptor is free, and how many tries go by between
/// two warnings.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
const EXHAUSTED_WARNING_TRIES: u32 = 200;
/// Bytes that one read-ahead operation asks for.
const READ_AHEAD_STEP: usize = 512 << 10;

/// The page cache holds files in folios of up to a huge page, each at a multiple of its size, and drops whole
/// ones only.
const FOLIO_BYTES_MAX: u64 = 2 << 20;

/// cachestat(2), the same number on every architecture; libc does not name it.
pub(crate) const SYS_CACHESTAT: libc::c_long = 451;

/// A file written without the page cache, where the file system can. Clones are the same file.
#[derive(Clone)]
pub struct DirectFile {
    ring: Rc<Ring>,
    file: Rc<Descriptor>,
    direct: bool,
}

/// How to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It must exist.
    Existing,
    /// It is made when missing.
    Create,
}

impl DirectFile {
    /// Opens for reading and writing. A file system without direct I/O gets a buffered file; see
    /// [`DirectFile::is_direct`].
    pub async fn open(reactor: &Reactor, path: &Path, mode: Mode) -> io::Result<Self> {
        let flags = libc::O_RDWR | libc::O_CLOEXEC;
        let flags = if mode == Mode::Create {
            flags | libc::O_CREAT
        } else {
            flags
        };
        let ring = reactor.ring().clone();
        match open(&ring, path, flags | libc::O_DIRECT).await {
            Ok(file) => Ok(Self {
                ring,
                file: Rc::new(file.into()),
                direct: true,
            }),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let file = Rc::new(open(&ring, path, flags).await?.into());
                Ok(Self {
                    ring,
                    file,
                    direct: false,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Whether writes bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Writes all of `bytes` at `position`; address, length and position are multiples of
    /// [`ALIGNMENT`].
    pub async fn write_at(&self, bytes: Bytes, position: u64) -> io::Result<()> {
        self.write_all_at(vec![bytes], position).await
    }

    /// Writes all of the buffers, one after the other, from `position` on; each aligned as in
    /// [`DirectFile::write_at`].
    pub async fn write_all_at(&self, buffers: Vec<Bytes>, position: u64) -> io::Result<()> {
        let mut position = position;
        let mut left = buffers;
        while !left.is_empty() {
            let (written, rest) = self.write_some(left, position).await?;
            position += written as u64;
            left = rest;
        }
        Ok(())
    }

    async fn write_some(
        &self,
        buffers: Vec<Bytes>,
        position: u64,
    ) -> io::Result<(usize, Vec<Bytes>)> {
        let write = Write::new(self.file.clone(), buffers, position);
        let operation = self.ring.submit(write, Write::entry);
        let (written, mut write) = operation.await.into_result()?;
        Ok((written, write.rest(written)?))
    }

    /// Writes all of `bytes` at `position`, then flushes the file's data: one submission.
    pub async fn write_at_flushed(&self, bytes: Bytes, position: u64) -> io::Result<()> {
        let write = Write::new(self.file.clone(), vec![bytes], position);
        let flush = self.file.clone();
        let flush_entry = |file: &mut Rc<Descriptor>| flush_entry(file.as_raw_fd());
        let (write, flush) = self
            .ring
            .submit_linked((write, Write::entry), (flush, flush_entry));
        let (written, mut write) = write.await.into_result()?;
        let flushed = flush.await.into_result();
        let rest = write.rest(written)?;
        if rest.is_empty() {
            return flushed.map(drop);
        }
        // A short write breaks the link: finish it, then flush on its own.
        self.write_all_at(rest, position + written as u64).await?;
        self.fdatasync().await
    }

    /// Flushes the file's data and what is needed to read it back.
    pub async fn fdatasync(&self) -> io::Result<()> {
        let operation = self
            .ring
            .submit(self.file.clone(), |file| flush_entry(file.as_raw_fd()));
        operation.await.into_result().map(drop)
    }

    /// Reads `len` bytes at `position`, both multiples of [`ALIGNMENT`]; fewer at the file's end.
    pub async fn read_at(&self, position: u64, len: usize) -> io::Result<Bytes> {
        read(&self.ring, Keep::Local(self.file.clone()), position, len).await
    }

    /// Makes room on disk and extends the file to `position + len` if it is shorter.
    pub async fn allocate(&self, position: u64, len: u64) -> io::Result<()> {
        let operation = self.ring.submit(self.file.clone(), |file| {
            opcode::Fallocate::new(types::Fd(file.as_raw_fd()), len)
                .offset(position)
                .build()
        });
        operation.await.into_result().map(drop)
    }

    /// Cuts or extends the file to `len` bytes.
    pub async fn truncate(&self, len: u64) -> io::Result<()> {
        let operation = self.ring.submit(self.file.clone(), |file| {
            opcode::Ftruncate::new(types::Fd(file.as_raw_fd()), len).build()
        });
        operation.await.into_result().map(drop)
    }

    /// The file's length in bytes.
    pub fn len(&self) -> io::Result<u64> {
        let mut stat = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: fstat writes the structure, which lives here, when it succeeds.
        let stat = unsafe {
            if libc::fstat(self.file.as_raw_fd(), stat.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            stat.assume_init()
        };
        Ok(u64::try_from(stat.st_size).unwrap_or_default())
    }

    /// Whether the file holds nothing.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

fn flush_entry(file: RawFd) -> io_uring::squeue::Entry {
    opcode::Fsync::new(types::Fd(file))
        .flags(types::FsyncFlags::DATASYNC)
        .build()
}

/// What a vectored write keeps until it is complete.
struct Write {
    file: Rc<Descriptor>,
    buffers: Vec<Bytes>,
    vectors: Vec<libc::iovec>,
    position: u64,
    #[cfg(debug_assertions)]
    checksum: u64,
}

impl Write {
    fn new(file: Rc<Descriptor>, buffers: Vec<Bytes>, position: u64) -> Self {
        assert!(
            position.is_multiple_of(ALIGNMENT as u64),
            "a write at an unaligned position"
        );
        for buffer in &buffers {
            let address = buffer.as_ptr() as usize;
            let aligned =
                address.is_multiple_of(ALIGNMENT) && buffer.len().is_multiple_of(ALIGNMENT);
            assert!(aligned, "a write of an unaligned buffer");
        }
        let vector = |buffer: &Bytes| libc::iovec {
            iov_base: buffer.as_ptr().cast_mut().cast(),
            iov_len: buffer.len(),
        };
        let vectors = buffers.iter().take(VECTORS_MAX).map(vector).collect();
        Self {
            file,
            #[cfg(debug_assertions)]
            checksum: checksum(&buffers),
            buffers,
            vectors,
            position,
        }
    }

    fn entry(&mut self) -> io_uring::squeue::Entry {
        let file = types::Fd(self.file.as_raw_fd());
        if let [only] = &self.vectors[..]
            && let Ok(len) = u32::try_from(only.iov_len)
        {
            return opcode::Write::new(file, only.iov_base.cast_const().cast(), len)
                .offset(self.position)
                .build();
        }
        let count = u32::try_from(self.vectors.len()).expect("at most VECTORS_MAX vectors");
        opcode::Writev::new(file, self.vectors.as_ptr(), count)
            .offset(self.position)
            .build()
    }

    /// The kernel was to write what was submitted: a buffer that changed meanwhile is our fault.
    fn check_unchanged(&self) {
        #[cfg(debug_assertions)]
        assert_eq!(
            checksum(&self.buffers),
            self.checksum,
            "a buffer changed during its write"
        );
    }

    /// What is left to write after `written` bytes.
    fn rest(&mut self, written: usize) -> io::Result<Vec<Bytes>> {
        self.check_unchanged();
        let mut left = written;
        let mut rest = std::mem::take(&mut self.buffers);
        let whole = rest.iter().take_while(|buffer| {
            let done = buffer.len() <= left;
            if done {
                left -= buffer.len();
            }
            done
        });
        let whole = whole.count();
        rest.drain(..whole);
        if let Some(first) = rest.first_mut() {
            if !left.is_multiple_of(ALIGNMENT) || (left == 0 && whole == 0) {
                let problem = format!("{written} bytes of a write arrived: not whole blocks");
                return Err(io::Error::new(io::ErrorKind::WriteZero, problem));
            }
            first.advance(left);
        }
        Ok(rest)
    }
}

#[cfg(debug_assertions)]
impl Drop for Write {
    fn drop(&mut self) {
        // Also when nobody waited for the outcome.
        if !self.buffers.is_empty() && !std::thread::panicking() {
            self.check_unchanged();
        }
    }
}

#[cfg(debug_assertions)]
fn checksum(buffers: &[Bytes]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    for buffer in buffers {
        hasher.write(buffer);
    }
    hasher.finish()
}

/// A file descriptor that an operation keeps open.
enum Keep {
    Local(Rc<Descriptor>),
    Shared(Arc<Descriptor>),
}

impl Keep {
    fn fd(&self) -> RawFd {
        match self {
            Self::Local(file) => file.as_raw_fd(),
            Self::Shared(file) => file.as_raw_fd(),
        }
    }
}

async fn read(ring: &Rc<Ring>, file: Keep, position: u64, len: usize) -> io::Result<Bytes> {
    let buffer = AlignedBuf::new(len.max(1));
    let (done, buffer) = read_into(ring, file, position, len, buffer).await?;
    Ok(buffer.freeze().slice(..done))
}

/// Reads at most `len` bytes and at most what `buffer` holds; says how many.
async fn read_into(
    ring: &Rc<Ring>,
    file: Keep,
    position: u64,
    len: usize,
    buffer: AlignedBuf,
) -> io::Result<(usize, AlignedBuf)> {
    let operation = ring.submit((file, buffer), |(file, buffer)| {
        let len = u32::try_from(len.min(buffer.len())).unwrap_or(u32::MAX);
        opcode::Read::new(types::Fd(file.fd()), buffer.as_mut_ptr(), len)
            .offset(position)
            .build()
    });
    let (done, kept) = operation.await.into_result()?;
    let (_, buffer) = *kept;
    Ok((done, buffer))
}

/// Opens, waiting for a free descriptor if there is none: what a log needs is worth waiting for, and
/// failing would stop it for good.
async fn open(ring: &Rc<Ring>, path: &Path, flags: i32) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let mut tries = 0_u32;
    loop {
        let opened = ring.open(path.clone(), |path| {
            opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr())
                .flags(flags)
                .mode(0o644)
                .build()
        });
        match opened.await {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                if tries.is_multiple_of(EXHAUSTED_WARNING_TRIES) {
                    eprintln!("warning: {path:?} waits for a free file descriptor: {error}");
                }
                tries += 1;
                ring.sleep_until(Instant::now() + EXHAUSTED_PAUSE).await;
            }
            opened => return opened,
        }
    }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path with a zero byte"))
}

/// Makes a directory; one that exists is fine.
pub async fn create_dir(reactor: &Reactor, path: &Path) -> io::Result<()> {
    let operation = reactor.ring().submit(c_path(path)?, |path| {
        opcode::MkDirAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr())
            .mode(0o755)
            .build()
    });
    match operation.await.into_result() {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Whether there is something of this name.
pub async fn exists(reactor: &Reactor, path: &Path) -> io::Result<bool> {
    match open(reactor.ring(), path, libc::O_PATH | libc::O_CLOEXEC).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a directory's entries durable.
pub async fn sync_dir(reactor: &Reactor, path: &Path) -> io::Result<()> {
    let directory = open(reactor.ring(), path, libc::O_RDONLY | libc::O_DIRECTORY).await?;
    let operation = reactor.ring().submit(directory, |directory| {
        opcode::Fsync::new(types::Fd(directory.as_raw_fd())).build()
    });
    operation.await.into_result().map(drop)
}

/// Renames a file or directory.
pub async fn rename(reactor: &Reactor, from: &Path, to: &Path) -> io::Result<()> {
    let at = types::Fd(libc::AT_FDCWD);
    let operation = reactor
        .ring()
        .submit((c_path(from)?, c_path(to)?), |(from, to)| {
            opcode::RenameAt::new(at, from.as_ptr(), at, to.as_ptr()).build()
        });
    operation.await.into_result().map(drop)
}

/// Removes a file; one that is missing is fine.
pub async fn remove(reactor: &Reactor, path: &Path) -> io::Result<()> {
    unlink(reactor, path, 0).await
}

/// Removes an empty directory; one that is missing is fine.
pub async fn remove_dir(reactor: &Reactor, path: &Path) -> io::Result<()> {
    unlink(reactor, path, libc::AT_REMOVEDIR).await
}

async fn unlink(reactor: &Reactor, path: &Path, flags: i32) -> io::Result<()> {
    let operation = reactor.ring().submit(c_path(path)?, |path| {
        opcode::UnlinkAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr())
            .flags(flags)
            .build()
    });
    match operation.await.into_result() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A file read through the page cache, from any core. Clones are the same file.
#[derive(Clone, Debug)]
pub struct PageFile {
    file: Arc<Descriptor>,
}

impl PageFile {
    /// Opens for reading. Waits for a free descriptor if there is none.
    pub async fn open(reactor: &Reactor, path: &Path) -> io::Result<Self> {
        let fd = open(reactor.ring(), path, libc::O_RDONLY | libc::O_CLOEXEC).await?;
        Ok(Self {
            file: Arc::new(fd.into()),
        })
    }

    pub(crate) fn shared(&self) -> Arc<Descriptor> {
        self.file.clone()
    }

    /// Whether all of these bytes are in the page cache, so that sending them cannot wait for the
    /// disk. Pages may still be evicted before they are sent: then that send waits.
    pub fn resident(&self, position: u64, len: usize) -> bool {
        self.cached(position, len) && self.readable_now(position, len)
    }

    /// Whether the page cache has pages for all of these bytes, be they read already or on their way.
    /// Says yes where the kernel cannot tell.
    fn cached(&self, position: u64, len: usize) -> bool {
        let page = ALIGNMENT as u64;
        let pages = (position + len as u64).div_ceil(page) - position / page;
        len == 0
            || self
                .cached_pages(position, len)
                .is_none_or(|cached| cached >= pages)
    }

    /// cachestat(2), from kernel 6.5 on.
    fn cached_pages(&self, position: u64, len: usize) -> Option<u64> {
        let range = [position, len as u64];
        // nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted
        let mut counts = [0_u64; 5];
        // SAFETY: both structures are plain u64 arrays of the size that the call expects, alive here.
        let result = unsafe {
            libc::syscall(
                SYS_CACHESTAT,
                self.file.as_raw_fd(),
                range.as_ptr(),
                counts.as_mut_ptr(),
                0,
            )
        };
        (result == 0).then_some(counts[0])
    }

    /// Whether a byte in so many, the first and the last can be read without waiting: pages that are
    /// on their way count as cached too.
    fn readable_now(&self, position: u64, len: usize) -> bool {
        let last = len.checked_sub(1).map(|last| position + last as u64);
        let probes = (position..position + len as u64).step_by(PROBE_STEP);
        probes.chain(last).all(|at| {
            let mut byte = MaybeUninit::<u8>::uninit();
            let vector = libc::iovec {
                iov_base: byte.as_mut_ptr().cast(),
                iov_len: 1,
            };
            let at = i64::try_from(at).unwrap_or(i64::MAX);
            // SAFETY: one vector of one writable byte, alive here.
            unsafe { libc::preadv2(self.file.as_raw_fd(), &vector, 1, at, libc::RWF_NOWAIT) == 1 }
        })
    }

    /// Has the kernel bring bytes into the page cache, unless they are there, for whoever asks for them
    /// next. Waits for nothing; a hint, whose failure shows nowhere. Only on an executor's thread.
    pub fn prefetch(&self, position: u64, len: usize) {
        if !self.cached(position, len) {
            drop(self.advise(position, len, libc::POSIX_FADV_WILLNEED));
        }
    }

    /// Has the kernel drop bytes from the page cache, so that the next read asks the disk. A hint, whose
    /// failure shows nowhere. Only on an executor's thread.
    pub async fn forget(&self, position: u64, len: usize) {
        // Of what it has only a part of in the range, the kernel drops nothing.
        let from = position - position % FOLIO_BYTES_MAX;
        let end = (position + len as u64).next_multiple_of(FOLIO_BYTES_MAX);
        let len = usize::try_from(end - from).unwrap_or(usize::MAX);
        let advised = self.advise(from, len, libc::POSIX_FADV_DONTNEED);
        drop(advised.await.into_result());
    }

    fn advise(&self, position: u64, len: usize, advice: i32) -> Operation<Arc<Descriptor>> {
        crate::ring::current().submit(self.file.clone(), |file| {
            let len = i64::try_from(len).unwrap_or(i64::MAX);
            opcode::Fadvise::new(types::Fd(file.as_raw_fd()), len, advice)
                .offset(position)
                .build()
        })
    }

    /// Brings bytes into the page cache without holding up the executor, on whose thread this must
    /// be called: the kernel is told of the whole range, then waited for piece by piece.
    pub async fn read_ahead(&self, position: u64, len: usize) -> io::Result<()> {
        self.read_through(position, len, |_| ()).await
    }

    /// The same, showing each piece of the bytes, in order; fewer of them at the file's end.
    pub async fn read_through(
        &self,
        position: u64,
        len: usize,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let ring = crate::ring::current();
        // Only a hint: its failure shows in the reads.
        drop(self.advise(position, len, libc::POSIX_FADV_WILLNEED));
        let end = position + len as u64;
        let mut at = position;
        let mut scratch = AlignedBuf::new(len.clamp(1, READ_AHEAD_STEP));
        while at < end {
            let step = usize::try_from(end - at).unwrap_or(usize::MAX);
            let (done, back) =
                read_into(&ring, Keep::Shared(self.file.clone()), at, step, scratch).await?;
            if done == 0 {
                break;
            }
            each(&back[..done]);
            at += done as u64;
            scratch = back;
        }
        Ok(())
    }

    /// Reads at most `len` bytes; fewer at the file's end.
    pub async fn read_at(&self, reactor: &Reactor, position: u64, len: usize) -> io::Result<Bytes> {
        read(
            reactor.ring(),
            Keep::Shared(self.file.clone()),
            position,
            len,
        )
        .await
    }
}
