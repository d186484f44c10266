//! Files on the simulated disk: the reactor's `file` by name and meaning. Knows nothing of what is in them.

use std::io;
use std::path::Path;

use bytes::Bytes;

use crate::buffer::ALIGNMENT;
use crate::bug::Bug;
use crate::disk::FileId;
use crate::world::{Given, Operation, Reactor, current};

/// A file written past the page cache. Clones are the same file.
#[derive(Clone, Debug)]
pub struct DirectFile {
    file: FileId,
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
    /// Opens for reading and writing.
    pub async fn open(_reactor: &Reactor, path: &Path, mode: Mode) -> io::Result<Self> {
        let path = path.to_owned();
        let create = mode == Mode::Create;
        match current().submit(Operation::Open { path, create }).await? {
            Given::File(file) => Ok(Self { file }),
            _ => Err(io::Error::other("an open that gave no file")),
        }
    }

    /// Whether writes bypass the page cache.
    pub fn is_direct(&self) -> bool {
        true
    }

    /// Writes all of `bytes` at `position`.
    pub async fn write_at(&self, bytes: Bytes, position: u64) -> io::Result<()> {
        self.write(vec![bytes], position, false).await
    }

    /// Writes all of the buffers, one after the other, from `position` on.
    pub async fn write_all_at(&self, buffers: Vec<Bytes>, position: u64) -> io::Result<()> {
        self.write(buffers, position, false).await
    }

    /// Writes all of `bytes` at `position`, then flushes the file's data.
    pub async fn write_at_flushed(&self, bytes: Bytes, position: u64) -> io::Result<()> {
        self.write(vec![bytes], position, true).await
    }

    async fn write(&self, buffers: Vec<Bytes>, position: u64, flush: bool) -> io::Result<()> {
        assert!(
            position.is_multiple_of(ALIGNMENT as u64),
            "a write at an unaligned position"
        );
        for buffer in &buffers {
            let aligned = (buffer.as_ptr() as usize).is_multiple_of(ALIGNMENT)
                && buffer.len().is_multiple_of(ALIGNMENT);
            assert!(aligned, "a write of an unaligned buffer");
        }
        let (position, buffers) = self.with_block_before(position as usize, buffers);
        let write = Operation::Write {
            file: self.file,
            position,
            checksum: checksum(&buffers),
            buffers,
            flush,
        };
        current().submit(write).await.map(drop)
    }

    /// With [`Bug::PartialBlockRewrite`] what lies before comes first.
    fn with_block_before(&self, position: usize, mut buffers: Vec<Bytes>) -> (usize, Vec<Bytes>) {
        let before = position.saturating_sub(ALIGNMENT);
        if crate::bug::is_in(Bug::PartialBlockRewrite) && before < position {
            let world = current();
            let block = Bytes::copy_from_slice(world.disk().read(self.file, before, ALIGNMENT));
            if block.len() == ALIGNMENT {
                buffers.insert(0, block);
                return (before, buffers);
            }
        }
        (position, buffers)
    }

    /// Flushes the file's data and what is needed to read it back.
    pub async fn fdatasync(&self) -> io::Result<()> {
        let world = current();
        let before = world.disk().flush_begins(self.file);
        let file = self.file;
        world
            .submit(Operation::Flush { file, before })
            .await
            .map(drop)
    }

    /// Reads `len` bytes at `position`; fewer at the file's end.
    pub async fn read_at(&self, position: u64, len: usize) -> io::Result<Bytes> {
        read(self.file, position, len).await
    }

    /// Makes room on disk and extends the file to `position + len` if it is shorter.
    pub async fn allocate(&self, position: u64, len: u64) -> io::Result<()> {
        let file = self.file;
        let len = (position + len) as usize;
        current()
            .submit(Operation::Extend { file, len })
            .await
            .map(drop)
    }

    /// Cuts or extends the file to `len` bytes.
    pub async fn truncate(&self, len: u64) -> io::Result<()> {
        let file = self.file;
        let len = len as usize;
        let cut = Operation::SetLength { file, len };
        current().submit(cut).await.map(drop)
    }

    /// The file's length in bytes.
    pub fn len(&self) -> io::Result<u64> {
        Ok(current().disk().len(self.file) as u64)
    }

    /// Whether the file holds nothing.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

async fn read(file: FileId, position: u64, len: usize) -> io::Result<Bytes> {
    let position = position as usize;
    let read = Operation::Read {
        file,
        position,
        len,
    };
    match current().submit(read).await? {
        Given::Bytes(bytes) => Ok(bytes),
        _ => Err(io::Error::other("a read that gave no bytes")),
    }
}

pub(crate) fn checksum(buffers: &[Bytes]) -> u32 {
    let add = |sum, buffer: &Bytes| crc32c::crc32c_append(sum, buffer);
    buffers.iter().fold(0, add)
}

/// Makes a directory; one that exists is fine.
pub async fn create_dir(_reactor: &Reactor, path: &Path) -> io::Result<()> {
    let made = Operation::MakeDirectory(path.to_owned());
    match current().submit(made).await {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Whether there is something of this name.
pub async fn exists(_reactor: &Reactor, path: &Path) -> io::Result<bool> {
    crate::blocking::fs::exists(path)
}

/// Makes a directory's entries durable.
pub async fn sync_dir(_reactor: &Reactor, path: &Path) -> io::Result<()> {
    let flush = Operation::FlushDirectory(path.to_owned());
    current().submit(flush).await.map(drop)
}

/// Renames a file or directory.
pub async fn rename(_reactor: &Reactor, from: &Path, to: &Path) -> io::Result<()> {
    let rename = Operation::Rename(from.to_owned(), to.to_owned());
    current().submit(rename).await.map(drop)
}

/// Removes a file; one that is missing is fine.
pub async fn remove(_reactor: &Reactor, path: &Path) -> io::Result<()> {
    match current().submit(Operation::Remove(path.to_owned())).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes an empty directory; one that is missing is fine.
pub async fn remove_dir(reactor: &Reactor, path: &Path) -> io::Result<()> {
    remove(reactor, path).await
}

/// A file read through the page cache. Clones are the same file.
#[derive(Clone, Debug)]
pub struct PageFile {
    file: FileId,
}

impl PageFile {
    /// Opens for reading.
    pub async fn open(_reactor: &Reactor, path: &Path) -> io::Result<Self> {
        let file = current().open(path, false)?;
        Ok(Self { file })
    }

    /// Whether sending these bytes cannot wait for the disk: here a coin says it.
    pub fn resident(&self, _position: u64, _len: usize) -> bool {
        current().one_in(2)
    }

    /// A hint, which nothing here needs.
    pub fn prefetch(&self, _position: u64, _len: usize) {}

    /// A hint, which nothing here needs: each read asks the disk.
    pub async fn forget(&self, _position: u64, _len: usize) {}

    /// Brings bytes into the page cache, and shows them.
    pub async fn read_through(
        &self,
        position: u64,
        len: usize,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        each(&read(self.file, position, len).await?);
        Ok(())
    }

    /// Reads at most `len` bytes; fewer at the file's end.
    pub async fn read_at(
        &self,
        _reactor: &Reactor,
        position: u64,
        len: usize,
    ) -> io::Result<Bytes> {
        read(self.file, position, len).await
    }
}
