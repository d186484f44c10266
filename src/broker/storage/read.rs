//! Reads: whole batches from the tail in memory, or a range of a segment file for somebody else to
//! send. Knows nothing of who reads or how it is sent.

use std::rc::Rc;

use bytes::Bytes;
use logic::ids::Offset;
use logic::log::header::{BatchHeader, HEADER_BYTES, NoHeader};
use logic::log::index::relative;
use logic::log::segment::Segment;
use reactor::file::PageFile;

use super::StorageError;
use super::append::{Log, LogState};
use super::state::concat;

/// What is read of a segment file at once while looking for a batch.
pub(super) const WINDOW_BYTES: u32 = 64 << 10;
/// Open segment files kept per log.
const PAGES_MAX: usize = 8;

/// What a read found.
#[derive(Debug)]
pub enum Read {
    /// Nothing at this offset yet.
    Empty,
    /// Whole batches, in memory.
    Memory(Vec<Bytes>),
    /// Whole batches in a file.
    File {
        /// The segment.
        file: PageFile,
        /// Where in it.
        position: u64,
        /// How many bytes.
        len: usize,
        /// How many bytes of the log follow them in that file.
        ahead: u64,
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
        self.read_now(&Want {
            offset,
            max_offset,
            max_bytes,
            at_least_one,
        })
    }

    fn read_now(&self, want: &Want) -> Result<Read, ReadError> {
        let log = self.state.log.borrow();
        if want.offset < log.log_start() || want.offset > log.log_end() {
            return Err(ReadError::OffsetOutOfRange);
        }
        if want.offset >= want.max_offset {
            return Ok(Read::Empty);
        }
        let Some(located) = log.locate(indexed(want.offset)) else {
            return Ok(Read::Empty);
        };
        let Some(segment) = log.segment(located.segment) else {
            return Ok(Read::Empty);
        };
        if located.unindexed {
            // In memory, perhaps; but to find it there would mean to walk the segment from its start.
            return Ok(Read::Lookup);
        }
        let tail = self.state.tail.borrow();
        if tail
            .start_of(segment.base)
            .is_none_or(|start| start > located.position)
        {
            return Ok(Read::Lookup);
        }
        let mut start = located.position;
        let mut first = tail.header(segment.base, start);
        while first.last_offset() < want.offset {
            start += first.len;
            first = tail.header(segment.base, start);
        }
        let header_at = |at| Some(tail.header(segment.base, at));
        let end = end_of(segment, start, &first, want, segment.size, header_at);
        Ok(match end {
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
        self.undisturbed(async || self.look_up(&want).await).await
    }

    /// Does it again as long as retention or cleaning has moved batches meanwhile: positions found
    /// before are not theirs any more.
    pub(super) async fn undisturbed<T>(&self, read: impl AsyncFn() -> T) -> T {
        loop {
            let before = self.state.generation.get();
            let done = read().await;
            if self.state.generation.get() == before {
                return done;
            }
        }
    }

    async fn look_up(&self, want: &Want) -> Result<Read, ReadError> {
        let offset = want.offset;
        let read = self.read_now(want)?;
        if !matches!(read, Read::Lookup) {
            return Ok(read);
        }
        let Some(located) = self.state.log.borrow().locate(indexed(offset)) else {
            return Ok(Read::Empty);
        };
        if located.unindexed {
            self.load_index(located.segment).await?;
            let read = self.read_now(want)?;
            if !matches!(read, Read::Lookup) {
                return Ok(read);
            }
        }
        let located = self.state.log.borrow().locate(indexed(offset));
        let mut place = located.map(|located| (located.segment, located.position));
        while let Some((segment, position)) = place {
            let found = self.find(segment, position, |at| at.last_offset() >= offset);
            if let Some((start, first, window)) = found.await? {
                return self.range(segment, start, &first, &window, want).await;
            }
            // Cleaning has left nothing there up to the segment's end.
            let log = self.state.log.borrow();
            let next = log.segments().find(|next| next.base > segment);
            place = next.map(|next| (next.base, 0));
        }
        Ok(Read::Empty)
    }

    async fn range(
        &self,
        base: Offset,
        start: u32,
        first: &BatchHeader,
        window: &Window,
        want: &Want,
    ) -> Result<Read, ReadError> {
        let (end, in_memory) = {
            let log = self.state.log.borrow();
            let Some(segment) = log.segment(base) else {
                return Err(ReadError::OffsetOutOfRange);
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
        if first.end_offset() > want.max_offset || end == start {
            return Ok(Read::Empty);
        }
        if end > in_memory {
            // In memory, or the one batch of which the beginning is not: read that together.
            return Ok(Read::Memory(vec![
                self.fetch(base, start, end - start).await?,
            ]));
        }
        let file = self.page_file(base)?;
        Ok(Read::File {
            file,
            position: u64::from(start),
            len: (end - start) as usize,
            ahead: u64::from(in_memory - end),
        })
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
            let size = self
                .state
                .log
                .borrow()
                .segment(base)
                .map_or(0, |segment| segment.size);
            if at >= size {
                return Ok(None);
            }
            let header = match window.header(at) {
                Err(NoHeader::Short) => {
                    window = Window {
                        start: at,
                        bytes: self.fetch(base, at, WINDOW_BYTES).await?,
                    };
                    window.header(at)
                }
                header => header,
            };
            let header = header.map_err(|reason| self.damaged(base, at, reason))?;
            if wanted(&header) {
                return Ok(Some((at, header, window)));
            }
            at = at.saturating_add(header.len);
        }
    }

    fn damaged(&self, base: Offset, at: u32, reason: NoHeader) -> StorageError {
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
        let file = self.page_file(base)?;
        let mut parts = Vec::with_capacity(in_memory.len() + 1);
        let mut at = u64::from(from);
        let end = at + u64::from(from_file);
        while at < end {
            let read = file
                .read_at(&self.shared.reactor, at, (end - at) as usize)
                .await;
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

    /// The segment's file for reading.
    fn page_file(&self, base: Offset) -> Result<PageFile, StorageError> {
        page_file(&self.state, base)
    }
}

/// The offset that indexes are asked for.
fn indexed(offset: Offset) -> Offset {
    Offset(offset.0 + i64::from(crate::bugs::looks_one_off()))
}

fn page_file(state: &Rc<LogState>, base: Offset) -> Result<PageFile, StorageError> {
    if let Some((_, file)) = state
        .swapping
        .borrow()
        .as_ref()
        .filter(|(swapping, _)| *swapping == base)
    {
        return Ok(file.clone());
    }
    let mut pages = state.pages.borrow_mut();
    if let Some(file) = pages.get(&base) {
        return Ok(file.clone());
    }
    let path = state.segment_path(base, "log");
    let file = PageFile::open(&path).map_err(|source| StorageError::io("open", &path, source))?;
    if pages.len() >= PAGES_MAX {
        pages.pop_first();
    }
    pages.insert(base, file.clone());
    Ok(file)
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

    /// The batch at `at`, if the window holds it whole.
    pub fn batch(&self, at: u32, header: &BatchHeader) -> Option<Bytes> {
        let from = (at - self.start) as usize;
        let to = from + header.len as usize;
        (to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
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
