//! Work that waits for the simulated disk: the reactor's `blocking` by name and meaning, with as much of
//! `std::fs` as storage uses.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::world::{PowerCut, current};

/// Runs all of `works`, one after the other, and gives what they return.
pub fn together<T: Send>(works: Vec<impl FnOnce() -> T + Send>) -> Vec<std::thread::Result<T>> {
    let run = |work| match catch_unwind(AssertUnwindSafe(work)) {
        Err(payload) if payload.is::<PowerCut>() => resume_unwind(payload),
        result => result,
    };
    works.into_iter().map(run).collect()
}

/// Runs `work` at some later time.
pub fn detached(work: impl FnOnce() + Send + 'static) {
    current().spawn(async move { work() });
}

/// Says when a file was changed.
pub fn set_modified(path: &std::path::Path, time: std::time::SystemTime) -> std::io::Result<()> {
    let world = current();
    let file = world.names().file(path)?;
    let since = time.duration_since(std::time::UNIX_EPOCH);
    let nanos = since.map_or(0, |it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX));
    world.disk().set_changed_at(file, nanos);
    Ok(())
}

/// The first bytes of a file, `bytes_max` at most, asked for once more.
///
/// # Errors
/// When it is not there or cannot be read.
pub fn read_anew(path: &std::path::Path, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    fs::File::open(path)?
        .take(bytes_max)
        .read_to_end(&mut content)?;
    Ok(content)
}

/// What the machine says is free.
pub fn free_bytes(_path: &std::path::Path) -> std::io::Result<u64> {
    Ok(current().free_bytes())
}

/// Reading at a position without moving one's own.
pub trait FileExt {
    /// Fills `into` from `position` on.
    ///
    /// # Errors
    /// When the file ends before.
    fn read_exact_at(&self, into: &mut [u8], position: u64) -> std::io::Result<()>;
}

pub mod fs {
    //! `std::fs` on the simulated disk.

    use std::ffi::OsString;
    use std::io::{self, Read, Write};
    use std::path::{Path, PathBuf};
    use std::time::{Duration, SystemTime};

    use bytes::Bytes;

    use crate::buffer::ALIGNMENT as BLOCK;
    use crate::bug::Bug;
    use crate::disk::FileId;
    use crate::names::Node;
    use crate::world::{Given, Operation, current};

    /// An open file.
    #[derive(Debug)]
    pub struct File {
        place: Place,
        position: usize,
    }

    #[derive(Debug)]
    enum Place {
        File(FileId),
        Directory(PathBuf),
        /// As many numbers as one likes.
        Random,
    }

    impl File {
        /// Opens for reading, a directory too.
        pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
            let path = path.as_ref();
            let place = if path == Path::new("/dev/urandom") {
                Place::Random
            } else {
                match current().names().find(path)? {
                    Node::File(file) => Place::File(file),
                    Node::Directory(_) => Place::Directory(path.to_owned()),
                }
            };
            Ok(Self { place, position: 0 })
        }

        /// Makes an empty file, or empties one.
        pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
            let path = path.as_ref().to_owned();
            let create = true;
            match current().blocking(Operation::Open { path, create })? {
                Given::File(file) => {
                    let len = 0;
                    current().blocking(Operation::SetLength { file, len })?;
                    let place = Place::File(file);
                    Ok(Self { place, position: 0 })
                }
                _ => Err(io::ErrorKind::Unsupported.into()),
            }
        }

        /// Flushes all of it.
        pub fn sync_all(&self) -> io::Result<()> {
            let world = current();
            let flush = match &self.place {
                Place::Random => return Ok(()),
                Place::Directory(path) => Operation::FlushDirectory(path.clone()),
                Place::File(file) => {
                    let before = world.disk().flush_begins(*file);
                    Operation::Flush {
                        file: *file,
                        before,
                    }
                }
            };
            world.blocking(flush).map(drop)
        }

        /// Flushes its data.
        pub fn sync_data(&self) -> io::Result<()> {
            self.sync_all()
        }

        fn read_at(&self, into: &mut [u8], position: usize) -> io::Result<usize> {
            let Place::File(file) = self.place else {
                return Err(io::ErrorKind::IsADirectory.into());
            };
            let len = into.len();
            let read = Operation::Read {
                file,
                position,
                len,
            };
            match current().blocking(read)? {
                Given::Bytes(bytes) => {
                    into[..bytes.len()].copy_from_slice(&bytes);
                    Ok(bytes.len())
                }
                _ => Err(io::ErrorKind::Unsupported.into()),
            }
        }
    }

    impl Read for File {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if let Place::Random = self.place {
                into.fill_with(|| current().below(256) as u8);
                return Ok(into.len());
            }
            let read = self.read_at(into, self.position)?;
            self.position += read;
            Ok(read)
        }
    }

    impl Write for File {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let Place::File(file) = self.place else {
                return Err(io::ErrorKind::Unsupported.into());
            };
            let buffers = vec![Bytes::copy_from_slice(bytes)];
            let write = Operation::Write {
                file,
                position: self.position,
                checksum: crate::file::checksum(&buffers),
                buffers,
                flush: false,
            };
            current().blocking(write)?;
            self.position += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl super::FileExt for File {
        fn read_exact_at(&self, into: &mut [u8], position: u64) -> io::Result<()> {
            let read = self.read_at(into, position as usize)?;
            if read < into.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Ok(())
        }
    }

    /// What is known of a name.
    #[derive(Clone, Copy, Debug)]
    pub struct Metadata {
        node: Node,
        len: u64,
        changed_at: u64,
    }

    impl Metadata {
        /// Bytes.
        #[expect(clippy::len_without_is_empty, reason = "as in std::fs")]
        pub fn len(&self) -> u64 {
            self.len
        }

        /// Whether it is a directory.
        pub fn is_dir(&self) -> bool {
            matches!(self.node, Node::Directory(_))
        }

        /// When it was last changed.
        pub fn modified(&self) -> io::Result<SystemTime> {
            Ok(SystemTime::UNIX_EPOCH + Duration::from_nanos(self.changed_at))
        }
    }

    /// What is known of a name.
    pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
        let world = current();
        let node = world.names().find(path.as_ref())?;
        let disk = world.disk();
        let (len, changed_at) = match node {
            Node::File(file) => (disk.len(file) as u64, disk.changed_at(file)),
            Node::Directory(_) => (0, 0),
        };
        Ok(Metadata {
            node,
            len,
            changed_at,
        })
    }

    /// An entry of a directory.
    #[derive(Debug)]
    pub struct DirEntry {
        path: PathBuf,
    }

    impl DirEntry {
        /// Its path.
        pub fn path(&self) -> PathBuf {
            self.path.clone()
        }

        /// Its name.
        pub fn file_name(&self) -> OsString {
            self.path.file_name().unwrap_or_default().to_owned()
        }

        /// What kind of thing it is.
        pub fn file_type(&self) -> io::Result<Metadata> {
            metadata(&self.path)
        }
    }

    /// The entries of a directory, in any order: here that of their names, turned by the seed.
    pub fn read_dir(
        path: impl AsRef<Path>,
    ) -> io::Result<std::vec::IntoIter<io::Result<DirEntry>>> {
        let path = path.as_ref();
        let mut names = current().names().list(path)?;
        let turn = current().below(names.len() as u64 + 1) as usize;
        names.rotate_left(turn);
        let entry = |(name, _): (String, Node)| {
            let path = path.join(name);
            Ok(DirEntry { path })
        };
        let entries: Vec<_> = names.into_iter().map(entry).collect();
        Ok(entries.into_iter())
    }

    /// Whether a name is there.
    pub fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
        Ok(current().names().find(path.as_ref()).is_ok())
    }

    /// All bytes of a file.
    pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let mut bytes = Vec::new();
        let Place::File(id) = file.place else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let len = current().disk().len(id);
        bytes.resize(len, 0);
        file.read_exact(&mut bytes)?;
        if crate::bug::is_in(Bug::TruncateAtFirstZero) {
            let zeros = bytes.chunks_exact(BLOCK).position(|it| it == [0; BLOCK]);
            bytes.truncate(zeros.map_or(len, |block| block * BLOCK));
        }
        Ok(bytes)
    }

    /// Makes a directory and those above it.
    pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        if path.parent().is_none() || exists(path)? {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            create_dir_all(parent)?;
        }
        let made = Operation::MakeDirectory(path.to_owned());
        current().blocking(made).map(drop)
    }

    /// Renames.
    pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let rename = Operation::Rename(from.as_ref().to_owned(), to.as_ref().to_owned());
        current().blocking(rename).map(drop)
    }

    /// Removes a file.
    pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
        let remove = Operation::Remove(path.as_ref().to_owned());
        current().blocking(remove).map(drop)
    }

    /// Removes an empty directory.
    pub fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
        remove_file(path)
    }

    /// Removes a directory and all that is in it.
    pub fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        for entry in read_dir(path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                remove_dir_all(entry.path())?;
            } else {
                remove_file(entry.path())?;
            }
        }
        remove_dir(path)
    }
}
