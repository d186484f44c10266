//! A log on its way to another data directory: copied batch by batch beside the log that goes on, then put in
//! its place. At any moment one of both is whole, and recovery can tell which: the log's own directory as long
//! as it has its name, and the copy from then on. Knows not who wants the log elsewhere, or when appends stop.
//!
//! ```text
//! 1  <name>-future            is filled; nothing says yet whose log it is
//! 2                           the write-ahead log beside it has the log's state, durably
//! 3  partition.metadata       in it: it is whole
//! 4  <name>                   of the log becomes <name>.deleted, durably: the copy counts from here on
//! 5  <name>-future            becomes <name>
//! ```

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use logic::ids::Offset;
use logic::log::segment::Segment;
use reactor::blocking::{self, fs};
use reactor::buffer::AlignedBuf;
use reactor::file::{self, DirectFile, Mode};

use super::append::{Log, LogState, Producers, Unsealed, segment_path};
use super::frame::BLOCK;
use super::place::{self, CHECKPOINT, CLEAN_BELOW, DELETED, METADATA};
use super::source::Source;
use super::state::{Shared, Storage, block_floor};
use super::{StorageError, behind, removal};

/// What is read at once, and written at once.
const READ_BYTES: u32 = 256 << 10;
const WRITE_BYTES: usize = 1 << 20;

/// A copy that is being filled.
pub struct Copy {
    from: Log,
    to: Rc<Shared>,
    directory: PathBuf,
    /// Segments that are complete, in order: where each begins, and its bytes.
    complete: Vec<(Offset, u32)>,
    /// One past the last record.
    end: Offset,
    writing: Option<Writing>,
}

/// The segment that is being written.
struct Writing {
    file: DirectFile,
    path: PathBuf,
    /// What was copied of it, with its indexes.
    segment: Segment,
    /// Bytes that are not written yet, from a whole block on.
    pending: Vec<u8>,
    position: u64,
}

/// How far a copy is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes of it.
    pub bytes: u64,
    /// One past its last record.
    pub end: Offset,
}

/// Why a log is not in its new place.
#[derive(Debug)]
pub enum NotMoved {
    /// It is where it was, and goes on.
    Stayed(StorageError),
    /// Nobody knows before the next start: it must not be appended to.
    Unknown(StorageError),
}

impl Storage {
    /// Begins a copy of a log that lies in another directory.
    ///
    /// # Errors
    /// When the copy cannot be begun; nothing has changed then.
    pub async fn begin_copy(&self, from: &Log) -> Result<Copy, StorageError> {
        let to = &self.shared;
        to.check()?;
        let root = place::logs_root(&to.data_dir);
        let directory = root.join(future_name(from));
        let failed = |source| StorageError::io("create", &directory, source);
        // Of an earlier copy that was given up.
        set_aside(to, &directory).await.map_err(failed)?;
        file::create_dir(&to.reactor, &directory)
            .await
            .map_err(failed)?;
        Ok(Copy {
            from: from.clone(),
            to: to.clone(),
            directory,
            complete: Vec::new(),
            end: Offset(0),
            writing: None,
        })
    }
}

impl Copy {
    /// How far it is.
    pub fn copied(&self) -> Copied {
        let complete: u64 = self
            .complete
            .iter()
            .map(|(_, bytes)| u64::from(*bytes))
            .sum();
        let writing = self.writing.as_ref().map(|it| &it.segment);
        Copied {
            bytes: complete + writing.map_or(0, |it| u64::from(it.size)),
            end: self.end,
        }
    }

    /// Bytes of the log that are not copied yet.
    pub fn left_bytes(&self) -> u64 {
        let next = self.next();
        let log = self.from.state.log.borrow();
        let left = log.segments().filter(|at| at.base >= next.0);
        let left: u64 = left.map(|at| u64::from(at.size)).sum();
        left.saturating_sub(u64::from(next.1))
    }

    /// Where the next batch is, at the earliest: a segment and a position in it.
    fn next(&self) -> (Offset, u32) {
        match (&self.writing, self.complete.last()) {
            (Some(it), _) => (it.segment.base, it.segment.size),
            (None, Some((base, _))) => (Offset(base.0 + 1), 0),
            (None, None) => (Offset(0), 0),
        }
    }

    /// Copies on, until there is no more, or `go_on` says no after a piece. The log must not be cleaned
    /// meanwhile; retention may take segments, which are skipped then.
    ///
    /// # Errors
    /// When something cannot be read, or is damaged, or cannot be written.
    pub async fn catch_up(
        &mut self,
        mut go_on: impl FnMut(Copied) -> bool,
    ) -> Result<(), StorageError> {
        while let Some((segment, is_active)) = self.next_segment() {
            if self
                .writing
                .as_ref()
                .is_some_and(|it| it.segment.base != segment.base)
            {
                // Retention has taken what was being copied.
                self.writing = None;
            }
            if self.writing.is_none() {
                self.writing = Some(self.begin(&segment).await?);
            }
            let copied = self.copy_segment(segment.base, &mut go_on).await;
            match copied {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(_) if !self.is_there(segment.base) => continue,
                Err(error) => return Err(error),
            }
            if is_active {
                return Ok(());
            }
            self.complete_segment().await?;
        }
        Ok(())
    }

    fn is_there(&self, base: Offset) -> bool {
        self.from.state.log.borrow().segment(base).is_some()
    }

    /// The segment that is copied next, and whether it is the active one.
    fn next_segment(&self) -> Option<(Segment, bool)> {
        let (base, _) = self.next();
        let log = self.from.state.log.borrow();
        let active = log.active().base;
        let mut segments = log.segments().filter(|at| at.base >= base);
        segments.next().map(|at| (at.clone(), at.base == active))
    }

    async fn begin(&self, segment: &Segment) -> Result<Writing, StorageError> {
        let path = segment_path(&self.directory, segment.base, "log");
        let file = DirectFile::open(&self.to.reactor, &path, Mode::Create).await;
        let file = file.map_err(|source| StorageError::io("open", &path, source))?;
        Ok(Writing {
            file,
            path,
            segment: Segment::new(segment.base, segment.created_ms),
            pending: Vec::with_capacity(WRITE_BYTES),
            position: 0,
        })
    }

    /// Copies what there is of a segment; `false` when it was told to stop before.
    async fn copy_segment(
        &mut self,
        base: Offset,
        go_on: &mut impl FnMut(Copied) -> bool,
    ) -> Result<bool, StorageError> {
        loop {
            let (wanted, size) = {
                let log = self.from.state.log.borrow();
                let size = log.segment(base).map(|at| at.size);
                (self.next().1, size.ok_or(StorageError::Closed)?)
            };
            if wanted >= size {
                return Ok(true);
            }
            let piece = self.read(base, wanted).await?;
            let config = *self.from.state.log.borrow().config();
            let Some(writing) = &mut self.writing else {
                return Ok(true);
            };
            for (header, bytes) in piece {
                writing.segment.push(0, &header, &config);
                writing.pending.extend_from_slice(&bytes);
                self.end = header.end_offset();
            }
            if writing.pending.len() >= WRITE_BYTES {
                let whole = writing.pending.len() - writing.pending.len() % BLOCK;
                writing.write(whole).await?;
            }
            if !go_on(self.copied()) {
                return Ok(false);
            }
        }
    }

    /// Some batches from a position on, each checked.
    async fn read(
        &self,
        base: Offset,
        from: u32,
    ) -> Result<Vec<(logic::log::header::BatchHeader, Bytes)>, StorageError> {
        let mut source = Source::new(&self.from, base, from, READ_BYTES);
        // What is appended meanwhile comes with the next piece: to this one's order it would be beyond the end.
        let size = {
            let log = self.from.state.log.borrow();
            log.segment(base).map_or(0, |at| at.size)
        };
        let wanted = (size.saturating_sub(from) as usize).min(WRITE_BYTES);
        let (mut piece, mut bytes) = (Vec::new(), 0);
        while bytes < wanted
            && let Some(batch) = source.next().await?
        {
            bytes += batch.bytes.len();
            piece.push((batch.header, batch.bytes));
        }
        Ok(piece)
    }

    /// Makes the segment that was being written durable, with its indexes.
    async fn complete_segment(&mut self) -> Result<(), StorageError> {
        let Some(mut writing) = self.writing.take() else {
            return Ok(());
        };
        let (base, size) = (writing.segment.base, writing.segment.size);
        let appended_ms = {
            let log = self.from.state.log.borrow();
            log.segment(base).map_or(0, |at| at.appended_ms)
        };
        if !writing.pending.is_empty() {
            writing.write(writing.pending.len()).await?;
        }
        let path = &writing.path;
        let cut = async {
            writing.file.truncate(u64::from(size)).await?;
            // As old as the log's own: where records have no timestamps, that is what counts.
            let changed = UNIX_EPOCH + Duration::from_millis(appended_ms.max(0).unsigned_abs());
            blocking::set_modified(path, changed)?;
            writing.file.fdatasync().await
        };
        cut.await
            .map_err(|source| StorageError::io("finish", path, source))?;
        writing.segment.seal();
        let indexes = [
            ("index", writing.segment.offsets.encode()),
            ("timeindex", writing.segment.times.encode()),
        ];
        for (ending, content) in indexes {
            let path = segment_path(&self.directory, base, ending);
            place::write_whole(&self.to.reactor, &path, &content)
                .await
                .map_err(|source| StorageError::io("write", &path, source))?;
        }
        self.complete.push((base, size));
        Ok(())
    }

    /// Puts the copy in the log's place. Nothing must be appended from before until after, and all that was
    /// must be durable. Returns the log as it is now.
    ///
    /// # Errors
    /// Which of both counts, the log or the copy, is in the error.
    pub async fn take_place(mut self) -> Result<Log, NotMoved> {
        let from = self.from.clone();
        let end = from.log_end();
        if from.durable() < end || !behind::lock(&from.shared, &from.state).await {
            let error = from.shared.check().err().unwrap_or(StorageError::Closed);
            self.discard().await;
            return Err(NotMoved::Stayed(error));
        }
        let ready = match self.finish().await {
            Ok(log) => self
                .carry(&log)
                .await
                .map(|()| log.clone())
                .map_err(|error| (error, Some(log))),
            Err(error) => Err((error, None)),
        };
        let result = match ready {
            Ok(log) => self.swap(&log).await.map(|()| log),
            Err((error, log)) => {
                if let Some(log) = log {
                    drop_log(&log);
                }
                self.discard().await;
                Err(NotMoved::Stayed(error))
            }
        };
        behind::unlock(&from.shared, &from.state);
        result
    }

    /// Copies the rest and makes all of it durable, but for what says whose it is. Returns the log that it
    /// will be.
    async fn finish(&mut self) -> Result<Log, StorageError> {
        self.catch_up(|_| true).await?;
        self.complete_segment().await?;
        self.see_that_all_is_there()?;
        self.remove_strays().await?;
        let from = &self.from.state;
        let (base, size) = {
            let log = from.log.borrow();
            (log.active().base, log.active().size)
        };
        let floor = block_floor(size);
        let tail = self.from.fetch(base, floor, size - floor).await?;
        let clean_below = from.clean_below.get();
        let to = &self.to;
        let log = self.become_log(base, floor, &tail);
        let written = async {
            let path = self.directory.join(CHECKPOINT);
            place::write_small(&to.reactor, &path, &log.state.checkpoint(floor).encode()).await?;
            let path = self.directory.join(CLEAN_BELOW);
            place::write_small(&to.reactor, &path, &clean_below.0.to_le_bytes()).await?;
            file::sync_dir(&to.reactor, &self.directory).await?;
            file::sync_dir(&to.reactor, &place::logs_root(&to.data_dir)).await
        };
        match written.await {
            Ok(()) => Ok(log),
            Err(source) => {
                drop_log(&log);
                Err(StorageError::io("write", &self.directory, source))
            }
        }
    }

    /// Every segment of the log has its like in the copy.
    fn see_that_all_is_there(&self) -> Result<(), StorageError> {
        let log = self.from.state.log.borrow();
        let is_copied = |at: &&Segment| self.complete.contains(&(at.base, at.size));
        match log.segments().find(|at| !is_copied(at) && at.size > 0) {
            None => Ok(()),
            Some(segment) => Err(StorageError::Damaged {
                path: segment_path(&self.directory, segment.base, "log"),
                what: "it is not what was to be copied".into(),
            }),
        }
    }

    /// Removes what retention has taken from the log since it was copied.
    async fn remove_strays(&self) -> Result<(), StorageError> {
        let gone = self
            .complete
            .iter()
            .filter(|(base, _)| !self.is_there(*base));
        for (base, _) in gone {
            for ending in removal::ENDINGS {
                let path = segment_path(&self.directory, *base, ending);
                let removed = file::remove(&self.to.reactor, &path).await;
                removed.map_err(|source| StorageError::io("remove", &path, source))?;
            }
        }
        Ok(())
    }

    /// The log as it will be, known to its storage, with its last partial block in memory.
    fn become_log(&self, active: Offset, floor: u32, tail: &Bytes) -> Log {
        let from = &self.from.state;
        let mut unsealed = Unsealed::new(active);
        (unsealed.written, unsealed.flushed) = (floor, floor);
        let metadata = from.metadata.borrow().clone();
        let root = place::logs_root(&self.to.data_dir);
        let directory = root.join(place::log_name(&metadata.topic_name, metadata.id));
        let producers = Producers {
            source: from.producers.borrow().source.clone(),
            ..Producers::default()
        };
        let log = from.log.borrow().clone();
        let (end, entries) = (log.log_end(), log.active().offsets.entries().len());
        let state = LogState::new(metadata, directory, log, [unsealed].into(), producers);
        state.written.set(end);
        state.durable.set(end);
        state.clean_below.set(from.clean_below.get());
        state.index_saved.set(entries);
        let to = Storage {
            shared: self.to.clone(),
        };
        let log = to.host(state);
        log.state.fill(&self.to, active, floor, tail);
        log
    }

    /// Has the write-ahead log beside the copy begin with the log's state, durably: frames of an earlier stay
    /// there must never be replayed into it. Then says whose log it is.
    async fn carry(&self, log: &Log) -> Result<(), StorageError> {
        let to = &self.to;
        let ticket = log.state.enqueue_checkpoint(to, true);
        log.state.gate.set(ticket);
        to.durable(ticket).await?;
        let metadata = self.from.state.metadata.borrow().encode();
        let path = self.directory.join(METADATA);
        place::write_small(&to.reactor, &path, &metadata)
            .await
            .map_err(|source| StorageError::io("write", &path, source))
    }

    /// Takes the log's name away, and gives it to the copy.
    async fn swap(&self, log: &Log) -> Result<(), NotMoved> {
        let from = &self.from;
        // Of a name of its own: the log may be here again, and leave again, before all of it is removed.
        if let Err(error) = from.give_up_name(unused_name(&from.state.directory)).await {
            drop_log(log);
            return Err(NotMoved::Unknown(error));
        }
        let to = &self.to;
        let root = place::logs_root(&to.data_dir);
        let renamed = async {
            file::rename(&to.reactor, &self.directory, &log.state.directory).await?;
            file::sync_dir(&to.reactor, &root).await
        };
        renamed.await.map_err(|source| {
            let error = StorageError::io("rename", &self.directory, source);
            // Nobody knows whether the next start finds it.
            to.fail(&error);
            NotMoved::Unknown(error)
        })
    }

    /// Throws the copy away.
    pub async fn discard(self) {
        // What says that it is whole goes first. The rest is removed by the next start, at the latest.
        let metadata = self.directory.join(METADATA);
        let _ = file::remove(&self.to.reactor, &metadata).await;
        let _ = set_aside(&self.to, &self.directory).await;
    }
}

impl Writing {
    /// Writes so many of the pending bytes, filled up with zeros to a whole block.
    async fn write(&mut self, count: usize) -> Result<(), StorageError> {
        let mut block = AlignedBuf::new(count.next_multiple_of(BLOCK));
        block[..count].copy_from_slice(&self.pending[..count]);
        let written = self.file.write_at(block.freeze(), self.position).await;
        written.map_err(|source| StorageError::io("write to", &self.path, source))?;
        self.position += count as u64;
        self.pending.drain(..count);
        Ok(())
    }
}

/// The name of a log's copy.
fn future_name(log: &Log) -> String {
    let metadata = log.state.metadata.borrow();
    let name = place::log_name(&metadata.topic_name, metadata.id);
    format!("{name}{}", place::FUTURE)
}

/// Takes a log out of its storage that was never in its place.
fn drop_log(log: &Log) {
    let (state, shared) = (&log.state, &log.shared);
    state.deleted.set(true);
    shared.logs.borrow_mut().remove(&state.id());
    let freed = std::mem::take(&mut *state.tail.borrow_mut()).capacity();
    shared.tail_ended(state, freed);
    shared.committed.notify();
}

/// A name beside a directory that nothing has, of what is removed at the next start at the latest.
fn unused_name(directory: &Path) -> PathBuf {
    let name = format!("{}{DELETED}", reactor::timer::monotonic_nanos());
    directory.with_file_name(name)
}

/// Has a directory removed, by a thread of its own and under another name, so that its own can be used again.
async fn set_aside(shared: &Shared, directory: &Path) -> std::io::Result<()> {
    let gone = unused_name(directory);
    match file::rename(&shared.reactor, directory, &gone).await {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        renamed => renamed?,
    }
    blocking::detached(move || drop(fs::remove_dir_all(gone)));
    Ok(())
}
