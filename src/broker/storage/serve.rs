//! Ranges of segment files on their way to a reader: brought into the page cache, with what is likely asked
//! for next, and checked before they are served from there for the first time. Knows neither which offsets
//! a reader wants nor how they are sent.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use logic::ids::Offset;
use logic::log::header::{BatchHeader, CHECKSUM_START, HEADER_BYTES};
use logic::log::order::Order;
use reactor::file::PageFile;

use super::StorageError;
use super::append::{Log, LogState};
use super::read::WINDOW_BYTES;
use super::state::Shared;

/// Open segment files kept per log.
const PAGES_MAX: usize = 8;
/// Checked ranges remembered per file.
const CHECKED_MAX: usize = 64;
/// What is served of a file has so many times its bytes read ahead, at most.
const PREFETCH_RATIO: u32 = 2;
const PREFETCH_BYTES_MAX: u32 = 4 << 20;

/// A segment's file, open for reading.
pub(super) struct Page {
    pub file: PageFile,
    checked: RefCell<Checked>,
}

impl Page {
    /// Opens a segment's file.
    pub async fn open(shared: &Shared, path: &Path) -> Result<Self, StorageError> {
        let opened = PageFile::open(&shared.reactor, path).await;
        let file = opened.map_err(|source| StorageError::io("open", path, source))?;
        Ok(Self {
            file,
            checked: RefCell::default(),
        })
    }
}

/// Ranges of a file that were found sound: ends by starts, neither overlapping nor touching.
#[derive(Default)]
struct Checked(BTreeMap<u32, u32>);

impl Checked {
    fn covers(&self, range: &Range<u32>) -> bool {
        let before = self.0.range(..=range.start).next_back();
        before.is_some_and(|(_, end)| *end >= range.end)
    }

    fn add(&mut self, range: Range<u32>) {
        let (mut start, mut end) = (range.start, range.end);
        let touches = |(_, last): &(&u32, &u32)| **last >= range.start;
        while let Some((first, last)) = self.0.range(..=end).next_back().filter(touches) {
            let first = *first;
            start = start.min(first);
            end = end.max(*last);
            self.0.remove(&first);
        }
        self.0.insert(start, end);
        if self.0.len() > CHECKED_MAX {
            // Who reads forward asks for the first one least.
            self.0.pop_first();
        }
    }
}

impl Log {
    /// The file of a segment, for reading.
    pub(super) async fn page(&self, base: Offset) -> Result<Rc<Page>, StorageError> {
        let state = &self.state;
        if let Some(page) = state.open_page(base) {
            return Ok(page);
        }
        let generation = state.generation.get();
        let path = state.segment_path(base, "log");
        let page = Rc::new(Page::open(&self.shared, &path).await?);
        // Under the name may be another file by now: then it serves this reader only, who asks again.
        if state.generation.get() == generation && !state.deleted.get() {
            let mut pages = state.pages.borrow_mut();
            if pages.len() >= PAGES_MAX {
                pages.pop_first();
            }
            pages.insert(base, page.clone());
        }
        Ok(page)
    }

    /// Brings a range of whole batches into the page cache and sees that they are sound, unless they have
    /// been there and sound before. `ahead` bytes of the log follow them in the file.
    pub(super) async fn serve(
        &self,
        base: Offset,
        range: Range<u32>,
        ahead: u32,
    ) -> Result<PageFile, StorageError> {
        let page = self.page(base).await?;
        let (position, len) = (u64::from(range.start), range.len());
        // Who catches up asks for what follows next: it is on its way while this is read and sent.
        let next = (range.end - range.start).saturating_mul(PREFETCH_RATIO);
        let next = next.min(PREFETCH_BYTES_MAX).min(ahead);
        page.file.prefetch(u64::from(range.end), next as usize);
        if page.checked.borrow().covers(&range) && page.file.resident(position, len) {
            return Ok(page.file.clone());
        }
        let mut checker = Checker::new(&self.state, base, range.start);
        let mut checked = Ok(());
        let each = |piece: &[u8]| {
            if checked.is_ok() {
                checked = checker.push(piece);
            }
        };
        let read = page.file.read_through(position, len, each).await;
        let path = || self.state.segment_path(base, "log");
        read.map_err(|source| StorageError::io("read", &path(), source))?;
        let checked = checked.and_then(|()| checker.finish());
        self.judge(base, range.clone(), checked).await?;
        page.checked.borrow_mut().add(range);
        Ok(page.file.clone())
    }

    /// Sees that whole batches, read from `position` of a segment on, are sound.
    pub(super) async fn check(
        &self,
        base: Offset,
        position: u32,
        bytes: &Bytes,
    ) -> Result<(), StorageError> {
        let mut checker = Checker::new(&self.state, base, position);
        let checked = checker.push(bytes).and_then(|()| checker.finish());
        let range = position..position.saturating_add(bytes.len() as u32);
        self.judge(base, range, checked).await
    }

    /// Reads whole batches, wherever they are, and sees that they are sound; says where their offsets end.
    pub(super) async fn check_range(
        &self,
        base: Offset,
        range: Range<u32>,
    ) -> Result<Offset, StorageError> {
        let mut checker = Checker::new(&self.state, base, range.start);
        let mut checked = Ok(());
        let mut at = range.start;
        while at < range.end && checked.is_ok() {
            let len = WINDOW_BYTES.min(range.end - at);
            let bytes = self.fetch(base, at, len).await?;
            if bytes.is_empty() {
                break;
            }
            at += bytes.len() as u32;
            checked = checker.push(&bytes);
        }
        let checked = checked.and_then(|()| checker.finish());
        self.judge(base, range, checked).await?;
        Ok(checker.order.end())
    }

    /// What was found of a range, as an error if it is one.
    async fn judge(
        &self,
        base: Offset,
        range: Range<u32>,
        checked: Result<(), String>,
    ) -> Result<(), StorageError> {
        let Err(what) = checked else {
            return Ok(());
        };
        // Whoever tries again is to ask the disk.
        let page = self.page(base).await?;
        page.file.forget(u64::from(range.start), range.len()).await;
        let path = self.state.segment_path(base, "log");
        Err(StorageError::Damaged { path, what })
    }
}

impl LogState {
    /// The file of a segment that is open already.
    fn open_page(&self, base: Offset) -> Option<Rc<Page>> {
        let swapping = self.swapping.borrow();
        let swapping = swapping.as_ref().filter(|(swapped, _)| *swapped == base);
        match swapping {
            Some((_, page)) => Some(page.clone()),
            None => self.pages.borrow().get(&base).cloned(),
        }
    }
}

/// What the batches of a segment must keep to.
pub(super) fn order(log: &LogState, base: Offset) -> Order {
    let end = log.log.borrow().segment(base).map(|segment| segment.end);
    Order::within(base, end)
}

/// Whether a batch that was read back is where it belongs, and what is wrong if not.
pub(super) fn follow(
    log: &LogState,
    order: &mut Order,
    header: &BatchHeader,
) -> Result<(), String> {
    let known = log.log.borrow().epochs().epoch_of(header.base_offset);
    if let Some(epoch) = known.filter(|epoch| *epoch != header.leader_epoch) {
        let (wrong, right) = (header.leader_epoch.0, epoch.0);
        return Err(format!("a batch of leader epoch {wrong} where {right} led"));
    }
    order.follow(header).map_err(|why| why.to_string())
}

/// Checks whole batches that come in pieces of any size.
struct Checker<'a> {
    log: &'a LogState,
    order: Order,
    /// Where the batch begins of which there is a part.
    position: u32,
    /// Its header, as long as that is not whole.
    head: Vec<u8>,
    /// The batch, once its header is whole.
    batch: Option<Part>,
}

/// A batch of which some is still to come.
struct Part {
    header: BatchHeader,
    left: usize,
    checksum: u32,
}

impl<'a> Checker<'a> {
    fn new(log: &'a LogState, base: Offset, position: u32) -> Self {
        Self {
            log,
            order: order(log, base),
            position,
            head: Vec::with_capacity(HEADER_BYTES),
            batch: None,
        }
    }

    fn push(&mut self, mut piece: &[u8]) -> Result<(), String> {
        while !piece.is_empty() {
            let mut batch = match self.batch.take() {
                Some(batch) => batch,
                None => {
                    let wanted = HEADER_BYTES - self.head.len();
                    let (head, rest) = piece.split_at(piece.len().min(wanted));
                    self.head.extend_from_slice(head);
                    piece = rest;
                    if head.len() < wanted {
                        return Ok(());
                    }
                    self.begin()?
                }
            };
            let (part, rest) = piece.split_at(piece.len().min(batch.left));
            batch.checksum = crc32c::crc32c_append(batch.checksum, part);
            batch.left -= part.len();
            piece = rest;
            match batch.left {
                0 => self.end(&batch)?,
                _ => self.batch = Some(batch),
            }
        }
        Ok(())
    }

    /// No more comes.
    fn finish(&self) -> Result<(), String> {
        match self.batch.is_none() && self.head.is_empty() {
            true => Ok(()),
            false => Err(self.wrong("a batch is cut off")),
        }
    }

    fn begin(&mut self) -> Result<Part, String> {
        let header = BatchHeader::read(&self.head);
        let header = header.map_err(|reason| self.wrong(&format!("no batch: {reason:?}")))?;
        let checksum = crc32c::crc32c(&self.head[CHECKSUM_START..]);
        self.head.clear();
        Ok(Part {
            header,
            left: header.len as usize - HEADER_BYTES,
            checksum,
        })
    }

    fn end(&mut self, batch: &Part) -> Result<(), String> {
        if batch.checksum != batch.header.checksum {
            return Err(self.wrong("a batch has a wrong checksum"));
        }
        let followed = follow(self.log, &mut self.order, &batch.header);
        followed.map_err(|what| self.wrong(&what))?;
        self.position = self.position.saturating_add(batch.header.len);
        Ok(())
    }

    fn wrong(&self, what: &str) -> String {
        format!("{what} at position {}", self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checked_ranges_join_and_stay_few() {
        let mut checked = Checked::default();
        for range in [10..20, 30..40, 20..25, 24..31] {
            checked.add(range);
        }
        assert_eq!(checked.0, BTreeMap::from([(10, 40)]));
        assert!(checked.covers(&(10..40)) && checked.covers(&(39..40)));
        assert!(!checked.covers(&(9..11)) && !checked.covers(&(39..41)));
        for number in 1..=CHECKED_MAX as u32 {
            checked.add(number * 100..number * 100 + 1);
        }
        assert_eq!(checked.0.len(), CHECKED_MAX);
        assert!(!checked.covers(&(10..11)), "the first has made room");
        assert!(checked.covers(&(6_400..6_401)));
    }
}
