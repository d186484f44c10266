//! Reads: whole batches from the tail in memory, or a range of a segment file for somebody else to
//! send. Knows nothing of who reads or how it is sent.

use std::ops::Range;

use bytes::Bytes;
use logic::ids::Offset;
use logic::log::header::{BatchHeader, HEADER_BYTES, NoHeader};
use logic::log::index::relative;
use logic::log::segment::Segment;
use reactor::file::PageFile;

use super::StorageError;
use super::append::Log;
use super::state::concat;

/// What is read of a segment file at once while looking for a batch.
pub(super) const WINDOW_BYTES: u32 = 64 << 10;

/// What a read found.
#[derive(Debug)]
pub enum Read {
    /// Nothing at this offset yet.
    Empty,
    /// Whole batches, in memory.
    Memory(Vec<Bytes>),
    /// Whole batches in a file, found sound and brought into the page cache.
    File {
        /// The segment.
        file: PageFile,
        /// Where in it.
        position: u64,
        /// How many bytes.
        len: usize,
    },
    /// The place must be looked up in files: ask [`Log::read_slow`].
    Lookup,
}

/// Why nothing could be read.
#[derive(Clone, Debug)]
pub enum ReadError {
    /// Below the log's start or beyond its end.
    OffsetOutOfRange,
    /// A file could not be read.
    Storage(StorageError),
}

impl From<StorageError> for ReadError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

/// What a reader wants.
#[derive(Clone, Copy)]
struct Want {
    offset: Offset,
    max_offset: Offset,
    max_bytes: u32,
    at_least_one: bool,
}

impl Log {
    /// Reads whole batches from the one that holds `offset` on, up to the batch that ends at
    /// `max_offset` (exclusive) and at most `max_bytes`; with `at_least_one` the first batch is
    /// returned whole even above that. Never touches a disk.
    pub fn read(
        &self,
        offset: Offset,
        max_offset: Offset,
        max_bytes: usize,
        at_least_one: bool,
    ) -> Result<Read, ReadError> {
        let max_bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        if self.state.deleted.get() {
            return Err(StorageError::Closed.into());
        }
        let read = self.read_now(&Want {
            offset,
            max_offset,
            max_bytes,
            at_least_one,
        });
        read.ok_or(ReadError::OffsetOutOfRange)
    }

    /// `None` when the offset is out of range.
    fn read_now(&self, want: &Want) -> Option<Read> {
        let log = self.state.log.borrow();
        if want.offset < log.log_start() || want.offset > log.log_end() {
            return None;
        }
        if want.offset >= want.max_offset {
            return Some(Read::Empty);
        }
        let Some(located) = log.locate(indexed(want.offset)) else {
            return Some(Read::Empty);
        };
        let Some(segment) = log.segment(located.segment) else {
            return Some(Read::Empty);
        };
        if located.unindexed {
            // In memory, perhaps; but to find it there would mean to walk the segment from its start.
            return Some(Read::Lookup);
        }
        let tail = self.state.tail.borrow();
        if tail
            .start_of(segment.base)
            .is_none_or(|start| start > located.position)
        {
            return Some(Read::Lookup);
        }
        let mut start = located.position;
        let header_at = |at| tail.header(segment.base, at);
        let first = loop {
            // Where no batch is the index has led astray: a look-up sees to it.
            let Some(header) = header_at(start) else {
                return Some(Read::Lookup);
            };
            if header.last_offset() >= want.offset {
                break header;
            }
            start += header.len;
        };
        let end = end_of(segment, start, &first, want, segment.size, header_at);
        Some(match end {
            end if end == start => Read::Empty,
            end => Read::Memory(tail.slices(segment.base, start, end)),
        })
    }

    /// As [`Log::read`], looking into files where it must.
    pub async fn read_slow(
        &self,
        offset: Offset,
        max_offset: Offset,
        max_bytes: usize,
        at_least_one: bool,
    ) -> Result<Read, ReadError> {
        let max_bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        let want = Want {
            offset,
            max_offset,
            max_bytes,
            at_least_one,
        };
        let read = self.undisturbed(async || self.look_up(&want).await);
        read.await?.ok_or(ReadError::OffsetOutOfRange)
    }

    /// Does it again as long as retention or cleaning has moved batches meanwhile: positions found
    /// before are not theirs any more. And once more when something seems damaged: the disk may have
    /// misread it, or an index from a file have led astray.
    pub(super) async fn undisturbed<T>(
        &self,
        read: impl AsyncFn() -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let mut doubted = false;
        loop {
            let before = self.state.generation.get();
            let done = read().await;
            if self.state.deleted.get() {
                return Err(StorageError::Closed);
            }
            if self.state.generation.get() != before {
                continue;
            }
            match done {
                Err(StorageError::Damaged { .. }) if !doubted => {
                    doubted = true;
                    self.distrust_indexes();
                }
                done => return done,
            }
        }
    }

    /// `None` when the offset is out of range.
    async fn look_up(&self, want: &Want) -> Result<Option<Read>, StorageError> {
        let offset = want.offset;
        let read = self.read_now(want);
        if !matches!(read, Some(Read::Lookup)) {
            return Ok(read);
        }
        let Some(located) = self.state.log.borrow().locate(indexed(offset)) else {
            return Ok(Some(Read::Empty));
        };
        if located.unindexed {
            self.load_index(located.segment).await?;
            let read = self.read_now(want);
            if !matches!(read, Some(Read::Lookup)) {
                return Ok(read);
            }
        }
        let located = self.state.log.borrow().locate(indexed(offset));
        let mut place = located.map(|located| (located.segment, located.position));
        while let Some((segment, position)) = place {
            if let Some((start, first, window)) =
                self.find_offset(segment, position, offset).await?
            {
                let read = self.range(segment, start, &first, &window, want);
                return read.await.map(Some);
            }
            // Cleaning has left nothing there up to the segment's end.
            let log = self.state.log.borrow();
            let next = log.segments().find(|next| next.base > segment);
            place = next.map(|next| (next.base, 0));
        }
        Ok(Some(Read::Empty))
    }

    /// The first batch from a place on that ends at or beyond `offset`. The place is an index entry's, or
    /// the segment's start.
    async fn find_offset(
        &self,
        base: Offset,
        from: u32,
        offset: Offset,
    ) -> Result<Option<(u32, BatchHeader, Window)>, StorageError> {
        let entry = {
            let log = self.state.log.borrow();
            log.segment(base).and_then(|at| at.offsets.at(from))
        };
        let mut promised = entry.map(|entry| Offset(base.0 + i64::from(entry.relative)));
        let mut astray = false;
        let found = self.find(base, from, |header| {
            astray |= promised
                .take()
                .is_some_and(|last| last != header.last_offset());
            astray || header.last_offset() >= offset
        });
        let found = found.await?;
        if astray {
            return Err(StorageError::Damaged {
                path: self.state.segment_path(base, "index"),
                what: format!("another batch lies at position {from}"),
            });
        }
        let to = match &found {
            Some((_, first, _)) if first.base_offset <= offset => from,
            Some((start, ..)) => *start,
            None => self.size_of(base),
        };
        // Cleaning has left a gap, or the header was misread of the batch that holds it.
        self.see_gap(base, from, to, offset).await?;
        Ok(found)
    }

    fn size_of(&self, base: Offset) -> u32 {
        let log = self.state.log.borrow();
        log.segment(base).map_or(0, |segment| segment.size)
    }

    /// Sees that no batch in a range of a segment reaches `offset`.
    async fn see_gap(
        &self,
        base: Offset,
        from: u32,
        to: u32,
        offset: Offset,
    ) -> Result<(), StorageError> {
        if from >= to {
            return Ok(());
        }
        let sound = self.check_range(base, from..to).await?;
        let reaches = sound.end > offset;
        self.refuse_if(reaches, base, from..to).await
    }

    /// Refuses what was chosen by headers that turn out to have been misread.
    async fn refuse_if(
        &self,
        misread: bool,
        base: Offset,
        range: Range<u32>,
    ) -> Result<(), StorageError> {
        let what = || format!("it was misread between {} and {}", range.start, range.end);
        let judged = if misread { Err(what()) } else { Ok(()) };
        self.judge(base, range, judged).await
    }

    async fn range(
        &self,
        base: Offset,
        start: u32,
        first: &BatchHeader,
        window: &Window,
        want: &Want,
    ) -> Result<Read, StorageError> {
        let (end, in_memory) = {
            let log = self.state.log.borrow();
            let Some(segment) = log.segment(base) else {
                // Retention was faster: this is done again.
                return Ok(Read::Empty);
            };
            let in_memory = self
                .state
                .tail
                .borrow()
                .start_of(base)
                .unwrap_or(segment.size);
            let limit = if start < in_memory {
                in_memory
            } else {
                segment.size
            };
            let end = end_of(segment, start, first, want, limit, |at| {
                window.header(at).ok()
            });
            (end, in_memory)
        };
        if first.end_offset() > want.max_offset {
            let batch = start..start.saturating_add(first.len);
            let sound = self.check_range(base, batch.clone()).await?;
            let fits = sound.end <= want.max_offset;
            self.refuse_if(fits, base, batch).await?;
            return Ok(Read::Empty);
        }
        if end == start {
            return Ok(Read::Empty);
        }
        let (read, sound) = if end > in_memory {
            // In memory, or the one batch of which the beginning is not: read that together.
            let bytes = self.fetch(base, start, end - start).await?;
            let sound = self.check(base, start, &bytes).await?;
            (Read::Memory(vec![bytes]), sound)
        } else {
            let ahead = in_memory - end;
            let (file, sound) = self.serve(base, start..end, ahead).await?;
            let (position, len) = (u64::from(start), (end - start) as usize);
            let read = Read::File {
                file,
                position,
                len,
            };
            (read, sound)
        };
        // Which batches these are was told by headers that no checksum had covered yet.
        let (base_offset, last_offset) = sound.first;
        let others = base_offset != first.base_offset || last_offset < want.offset;
        let misread = others || sound.end > want.max_offset;
        self.refuse_if(misread, base, start..end).await?;
        Ok(read)
    }

    /// Walks from a batch start to the first batch that is `wanted`; `None` at the segment's end.
    pub(super) async fn find(
        &self,
        base: Offset,
        from: u32,
        mut wanted: impl FnMut(&BatchHeader) -> bool,
    ) -> Result<Option<(u32, BatchHeader, Window)>, StorageError> {
        let mut at = from;
        let mut window = Window {
            start: from,
            bytes: Bytes::new(),
        };
        loop {
            if at >= self.size_of(base) {
                return Ok(None);
            }
            let header = match window.header(at) {
                Err(NoHeader::Short) => {
                    // What is in memory comes without waiting.
                    reactor::yield_now().await;
                    window = Window {
                        start: at,
                        bytes: self.fetch(base, at, WINDOW_BYTES).await?,
                    };
                    window.header(at)
                }
                header => header,
            };
            let header = match header {
                Ok(header) => header,
                Err(reason) => return Err(self.damaged(base, at, reason).await),
            };
            if wanted(&header) {
                return Ok(Some((at, header, window)));
            }
            at = at.saturating_add(header.len);
        }
    }

    async fn damaged(&self, base: Offset, at: u32, reason: NoHeader) -> StorageError {
        if let Ok(page) = self.page(base).await {
            // Whoever tries again is to ask the disk.
            let window = WINDOW_BYTES as usize;
            page.file.forget(u64::from(at), window).await;
        }
        let path = self.state.segment_path(base, "log");
        StorageError::Damaged {
            path,
            what: format!("no batch at position {at}: {reason:?}"),
        }
    }

    /// Bytes of a segment, from its file and from memory as need be; fewer at its end.
    pub(super) async fn fetch(
        &self,
        base: Offset,
        from: u32,
        len: u32,
    ) -> Result<Bytes, StorageError> {
        let (from_file, in_memory) = {
            let log = self.state.log.borrow();
            let size = log.segment(base).map_or(0, |segment| segment.size);
            let end = from.saturating_add(len).min(size);
            let tail = self.state.tail.borrow();
            let split = tail
                .start_of(base)
                .unwrap_or(size)
                .clamp(from, end.max(from));
            let in_memory = if split < end {
                tail.slices(base, split, end)
            } else {
                Vec::new()
            };
            (split - from, in_memory)
        };
        if from_file == 0 {
            return Ok(concat(&in_memory));
        }
        let page = self.page(base).await?;
        let mut parts = Vec::with_capacity(in_memory.len() + 1);
        let mut at = u64::from(from);
        let end = at + u64::from(from_file);
        while at < end {
            let left = (end - at) as usize;
            let read = page.file.read_at(&self.shared.reactor, at, left).await;
            let path = || self.state.segment_path(base, "log");
            let read = read.map_err(|source| StorageError::io("read", &path(), source))?;
            if read.is_empty() {
                return Err(StorageError::Damaged {
                    path: path(),
                    what: "it is too short".into(),
                });
            }
            at += read.len() as u64;
            parts.push(read);
        }
        parts.extend(in_memory);
        Ok(concat(&parts))
    }
}

/// The offset that indexes are asked for.
fn indexed(offset: Offset) -> Offset {
    Offset(offset.0 + i64::from(crate::bugs::looks_one_off()))
}

/// Bytes of a segment around a batch.
pub(super) struct Window {
    start: u32,
    bytes: Bytes,
}

impl Window {
    fn header(&self, at: u32) -> Result<BatchHeader, NoHeader> {
        let from = (at - self.start) as usize;
        self.bytes
            .get(from..)
            .map_or(Err(NoHeader::Short), BatchHeader::read)
    }
}

/// Where whole batches from `start` on end within what the reader wants and below `limit`. `start`
/// when not even the first one fits. Jumps by the index and walks the rest as far as headers are at
/// hand.
fn end_of(
    segment: &Segment,
    start: u32,
    first: &BatchHeader,
    want: &Want,
    limit: u32,
    header_at: impl Fn(u32) -> Option<BatchHeader>,
) -> u32 {
    if first.end_offset() > want.max_offset {
        return start;
    }
    let cap = limit.min(start.saturating_add(want.max_bytes));
    let first_end = start + first.len;
    if first_end > cap {
        return if want.at_least_one { first_end } else { start };
    }
    let mut at = first_end;
    if let Some(boundary) = segment.offsets.boundary(start, cap) {
        let by_offset = if want.max_offset >= segment.end {
            boundary
        } else {
            let last = Offset(want.max_offset.0 - 1);
            relative(segment.base, last).map_or(boundary, |last| segment.offsets.floor(last))
        };
        at = at.max(boundary.min(by_offset));
    }
    while at < cap && (cap - at) as usize >= HEADER_BYTES {
        let Some(header) = header_at(at) else { break };
        if header.end_offset() > want.max_offset || header.len > cap - at {
            break;
        }
        at += header.len;
    }
    at
}
