//! Writes the segment that a group of others becomes, beside them, with its indexes. Nobody reads it
//! before it is swapped in.

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use logic::ids::Offset;
use logic::log::cleaning::swap::CLEANED;
use logic::log::header::BatchHeader;
use logic::log::segment::Segment;
use reactor::blocking;
use reactor::buffer::AlignedBuf;
use reactor::file::{self, DirectFile, Mode};

use super::super::StorageError;
use super::super::append::Log;
use super::super::frame::BLOCK;
use super::super::place;
use super::Budget;

/// One write.
const WRITE_BYTES: usize = 1 << 20;
/// Where a segment must end, since positions in indexes are 31 bits.
const SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;

/// A segment being written.
pub(super) struct Output<'a> {
    log: &'a Log,
    path: PathBuf,
    file: DirectFile,
    /// Bytes that are not written yet, from `position` on.
    pending: Vec<u8>,
    position: u64,
    segment: Segment,
    /// When the newest of those replaced was last appended to: the copy is as old.
    appended_ms: i64,
}

impl<'a> Output<'a> {
    /// Begins the copy of these segments.
    pub async fn create(log: &'a Log, replaced: &[Offset]) -> Result<Self, StorageError> {
        let (segment, appended_ms) = {
            let state = log.state.log.borrow();
            let ends = (replaced.first(), replaced.last());
            let (Some(first), Some(last)) = ends else {
                return Err(StorageError::Closed);
            };
            let (first, last) = (state.segment(*first), state.segment(*last));
            let (first, last) = first.zip(last).ok_or(StorageError::Closed)?;
            (Segment::new(first.base, first.created_ms), last.appended_ms)
        };
        let path = log
            .state
            .segment_path(segment.base, &format!("log.{CLEANED}"));
        let file = DirectFile::open(&log.shared.reactor, &path, Mode::Create).await;
        let file = file.map_err(|source| StorageError::io("open", &path, source))?;
        Ok(Self {
            log,
            path,
            file,
            pending: Vec::with_capacity(WRITE_BYTES),
            position: 0,
            segment,
            appended_ms,
        })
    }

    /// Adds a batch.
    pub async fn push(&mut self, batch: Bytes, budget: &Budget) -> Result<(), StorageError> {
        let header = BatchHeader::read(&batch).map_err(|_| StorageError::NotABatch)?;
        if u64::from(self.segment.size) + batch.len() as u64 > SEGMENT_BYTES_MAX {
            return Err(StorageError::Damaged {
                path: self.path.clone(),
                what: "written in another codec a segment is too large".into(),
            });
        }
        let config = *self.log.state.log.borrow().config();
        let created_ms = self.segment.created_ms;
        self.segment.push(self.appended_ms, &header, &config);
        self.segment.created_ms = created_ms;
        self.pending.extend_from_slice(&batch);
        if self.pending.len() >= WRITE_BYTES {
            let whole = self.pending.len() - self.pending.len() % BLOCK;
            self.write(whole).await?;
            budget.spend(whole).await;
        }
        Ok(())
    }

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

    /// Makes the copy and its indexes durable.
    pub async fn finish(&mut self) -> Result<Segment, StorageError> {
        if !self.pending.is_empty() {
            self.write(self.pending.len()).await?;
        }
        self.segment.seal();
        let cut = async {
            self.file.truncate(u64::from(self.segment.size)).await?;
            // As old as what it replaces: where records have no timestamps, that is what counts.
            let changed =
                UNIX_EPOCH + Duration::from_millis(self.appended_ms.max(0).unsigned_abs());
            blocking::set_modified(&self.path, changed)?;
            self.file.fdatasync().await
        };
        cut.await
            .map_err(|source| StorageError::io("finish", &self.path, source))?;
        let indexes = [
            ("index", self.segment.offsets.encode()),
            ("timeindex", self.segment.times.encode()),
        ];
        for (ending, content) in indexes {
            let ending = format!("{ending}.{CLEANED}");
            let path = self.log.state.segment_path(self.segment.base, &ending);
            place::write_whole(&self.log.shared.reactor, &path, &content)
                .await
                .map_err(|source| StorageError::io("write", &path, source))?;
        }
        let none = Segment::new(self.segment.base, 0);
        Ok(std::mem::replace(&mut self.segment, none))
    }

    /// Throws the copy away.
    pub async fn discard(self) -> Result<(), StorageError> {
        let removed = file::remove(&self.log.shared.reactor, &self.path).await;
        removed.map_err(|source| StorageError::io("remove", &self.path, source))
    }
}
