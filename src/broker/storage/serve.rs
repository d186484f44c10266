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
/// Their ends remembered per file: of a segment of 1 GiB all that readers of 1 MiB at a time ask for.
const EDGES_MAX: usize = 1_024;
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

/// The offsets of whole batches that were found sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sound {
    /// The first batch's first and last one.
    pub first: (Offset, Offset),
    /// One past the last batch's last one.
    pub end: Offset,
}

/// Ranges of a file that were found sound.
#[derive(Default)]
struct Checked {
    /// Ends by starts, neither overlapping nor touching.
    ranges: BTreeMap<u32, u32>,
    /// Where a range began or ended when it was checked, and so a batch: what a reader asks for was chosen by
    /// headers that nobody had checked, and may begin or end anywhere.
    starts: BTreeMap<u32, (Offset, Offset)>,
    ends: BTreeMap<u32, Offset>,
}

impl Checked {
    /// What a range was found to be; `None` unless all of it was checked, and it is whole batches.
    fn find(&self, range: &Range<u32>) -> Option<Sound> {
        let (_, end) = self.ranges.range(..=range.start).next_back()?;
        let (first, last) = (self.starts.get(&range.start)?, self.ends.get(&range.end)?);
        let sound = || Sound {
            first: *first,
            end: *last,
        };
        (*end >= range.end).then(sound)
    }

    fn add(&mut self, range: Range<u32>, sound: Sound) {
        let (mut start, mut end) = (range.start, range.end);
        let touches = |(_, last): &(&u32, &u32)| **last >= range.start;
        while let Some((first, last)) = self.ranges.range(..=end).next_back().filter(touches) {
            let first = *first;
            start = start.min(first);
            end = end.max(*last);
            self.ranges.remove(&first);
        }
        self.ranges.insert(start, end);
        self.starts.insert(range.start, sound.first);
        self.ends.insert(range.end, sound.end);
        // Who reads forward asks for the first ones least.
        if self.ranges.len() > CHECKED_MAX {
            self.ranges.pop_first();
        }
        if self.starts.len() > EDGES_MAX {
            self.starts.pop_first();
        }
        if self.ends.len() > EDGES_MAX {
            self.ends.pop_first();
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
    /// been there and sound before; says which they are. `ahead` bytes of the log follow them in the file.
    pub(super) async fn serve(
        &self,
        base: Offset,
        range: Range<u32>,
        ahead: u32,
    ) -> Result<(PageFile, Sound), StorageError> {
        let page = self.page(base).await?;
        let (position, len) = (u64::from(range.start), range.len());
        // Who catches up asks for what follows next: it is on its way while this is read and sent.
        let next = (range.end - range.start).saturating_mul(PREFETCH_RATIO);
        let next = next.min(PREFETCH_BYTES_MAX).min(ahead);
        page.file.prefetch(u64::from(range.end), next as usize);
        let known = page.checked.borrow().find(&range);
        if let Some(sound) = known.filter(|_| page.file.resident(position, len)) {
            return Ok((page.file.clone(), sound));
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
        let sound = self.judge(base, range.clone(), checked).await?;
        page.checked.borrow_mut().add(range, sound);
        Ok((page.file.clone(), sound))
    }

    /// Sees that whole batches, read from `position` of a segment on, are sound; says which they are.
    pub(super) async fn check(
        &self,
        base: Offset,
        position: u32,
        bytes: &Bytes,
    ) -> Result<Sound, StorageError> {
        let mut checker = Checker::new(&self.state, base, position);
        let checked = checker.push(bytes).and_then(|()| checker.finish());
        let range = position..position.saturating_add(bytes.len() as u32);
        self.judge(base, range, checked).await
    }

    /// Reads whole batches, wherever they are, and sees that they are sound; says which they are.
    pub(super) async fn check_range(
        &self,
        base: Offset,
        range: Range<u32>,
    ) -> Result<Sound, StorageError> {
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
        self.judge(base, range, checked).await
    }

    /// What was found of a range, as an error of storage if it is one.
    pub(super) async fn judge<T>(
        &self,
        base: Offset,
        range: Range<u32>,
        checked: Result<T, String>,
    ) -> Result<T, StorageError> {
        let what = match checked {
            Ok(sound) => return Ok(sound),
            Err(what) => what,
        };
        // Whoever tries again is to ask the disk.
        if let Ok(page) = self.page(base).await {
            page.file.forget(u64::from(range.start), range.len()).await;
        }
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
    /// The first batch's first and last offset.
    first: Option<(Offset, Offset)>,
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
            first: None,
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
    fn finish(&self) -> Result<Sound, String> {
        let whole = self.batch.is_none() && self.head.is_empty();
        let first = self.first.filter(|_| whole);
        let first = first.ok_or_else(|| self.wrong("a batch is cut off"))?;
        let end = self.order.end();
        Ok(Sound { first, end })
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
        let offsets = (batch.header.base_offset, batch.header.last_offset());
        self.first.get_or_insert(offsets);
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

    const SOUND: Sound = Sound {
        first: (Offset(7), Offset(9)),
        end: Offset(12),
    };

    #[test]
    fn checked_ranges_join_and_stay_few() {
        let mut checked = Checked::default();
        for range in [10..20, 30..40, 20..25, 24..31] {
            checked.add(range, SOUND);
        }
        assert_eq!(checked.ranges, BTreeMap::from([(10, 40)]));
        assert_eq!(checked.find(&(10..40)), Some(SOUND));
        for number in 1..=CHECKED_MAX as u32 {
            checked.add(number * 100..number * 100 + 1, SOUND);
        }
        assert_eq!(checked.ranges.len(), CHECKED_MAX);
        assert_eq!(checked.find(&(10..20)), None, "the first has made room");
        assert_eq!(checked.find(&(6_400..6_401)), Some(SOUND));
        for number in 0..2 * EDGES_MAX as u32 {
            checked.add(number..number + 1, SOUND);
        }
        let edges = (checked.starts.len(), checked.ends.len());
        assert_eq!(edges, (EDGES_MAX, EDGES_MAX));
    }

    #[test]
    fn a_part_of_a_checked_range_is_known_only_if_it_is_whole_batches() {
        let mut checked = Checked::default();
        let (earlier, later) = (
            SOUND,
            Sound {
                end: Offset(30),
                ..SOUND
            },
        );
        checked.add(10..20, earlier);
        checked.add(20..40, later);
        assert_eq!(checked.find(&(10..20)), Some(earlier));
        assert_eq!(checked.find(&(20..40)), Some(later));
        assert_eq!(checked.find(&(10..40)), Some(later));
        for elsewhere in [10..19, 11..20, 20..39, 19..40, 20..41] {
            assert_eq!(checked.find(&elsewhere), None, "{elsewhere:?}");
        }
    }
}
