//! Sparse indexes read back or rebuilt when somebody looks for an old offset or a time. What is answered, and
//! what an index is made of, comes from checked batches. Knows nothing of records' content but their timestamps.

use bytes::Bytes;
use logic::ids::{LeaderEpoch, Offset, Timestamp};
use logic::log::index::{OffsetIndex, TimeEntry, TimeIndex};
use logic::log::segment::Segment;
use reactor::file::PageFile;
use wire::compression::Unfolding;
use wire::records::Records;

use super::StorageError;
use super::append::Log;
use super::read::WINDOW_BYTES;
use super::serve;
use super::source::{Batch, Source};
use super::state::concat;

/// Sealed segments of one log whose indexes stay in memory.
const LOADED_INDEXES_MAX: usize = 4;
/// How often a segment is walked at most because something in it seems damaged.
const INDEX_WALKS_MAX: u32 = 3;
/// How often a segment is walked batch by batch before one that is damaged is left out.
const CHECKED_WALKS: usize = 2;
/// What is read of an index file at once.
const INDEX_READ_BYTES: usize = 1 << 20;

/// A record found by its timestamp.
type Found = (Timestamp, Offset, LeaderEpoch);

impl Log {
    /// The first record at or after a time, below `max_offset` and not below the log's start.
    pub async fn offset_for_timestamp(
        &self,
        time: Timestamp,
        max_offset: Offset,
    ) -> Result<Option<Found>, StorageError> {
        self.undisturbed(async || self.look_for_timestamp(time, max_offset).await)
            .await
    }

    async fn look_for_timestamp(
        &self,
        time: Timestamp,
        max_offset: Offset,
    ) -> Result<Option<Found>, StorageError> {
        for base in self.bases() {
            if self.time_floor(base, time).is_none() {
                continue;
            }
            self.load_index(base).await?;
            let Some(from) = self.time_floor(base, time) else {
                continue;
            };
            self.see_time_entry(base, time).await?;
            let log_start = self.log_start();
            let mut source = Source::new(self, base, from, WINDOW_BYTES);
            while let Some(batch) = source.next().await? {
                let header = &batch.header;
                if header.max_timestamp < time || header.last_offset() < log_start {
                    continue;
                }
                if header.base_offset >= max_offset {
                    return Ok(None);
                }
                let fits = |record: Timestamp, offset| record >= time && offset >= log_start;
                if let Some((timestamp, offset)) = self.first(&batch, base, fits)? {
                    let found = (timestamp, offset, header.leader_epoch);
                    return Ok((offset < max_offset).then_some(found));
                }
            }
        }
        Ok(None)
    }

    /// The first of the records with the largest timestamp, below `max_offset`. Where none has a timestamp that is
    /// the first of all, as in Kafka.
    pub async fn max_timestamp(&self, max_offset: Offset) -> Result<Option<Found>, StorageError> {
        self.undisturbed(async || self.look_for_newest(max_offset).await)
            .await
    }

    async fn look_for_newest(&self, max_offset: Offset) -> Result<Option<Found>, StorageError> {
        let mut best: Option<(Offset, Batch)> = None;
        for base in self.bases() {
            if base >= max_offset {
                break;
            }
            self.load_index(base).await?;
            let Some(from) = self.max_floor(base, max_offset) else {
                continue;
            };
            // Batches only count below `max_offset` and at or above the log's start.
            let log_start = self.log_start();
            let mut source = Source::new(self, base, from, WINDOW_BYTES);
            while let Some(batch) = source.next().await? {
                let header = &batch.header;
                if header.base_offset >= max_offset {
                    break;
                }
                let counts = header.end_offset() <= max_offset && header.last_offset() >= log_start;
                let largest = best.as_ref().map(|(_, best)| best.header.max_timestamp);
                let newer = largest.is_none_or(|largest| header.max_timestamp > largest);
                if counts && newer {
                    best = Some((base, batch));
                }
            }
        }
        let Some((base, batch)) = best else {
            return Ok(None);
        };
        let wanted = |timestamp, _| timestamp == batch.header.max_timestamp;
        let found = self.first(&batch, base, wanted)?;
        Ok(found.map(|(timestamp, offset)| (timestamp, offset, batch.header.leader_epoch)))
    }

    /// The segments that may hold readable records, in order.
    fn bases(&self) -> Vec<Offset> {
        let log = self.state.log.borrow();
        let readable = |segment: &&Segment| segment.end > log.log_start();
        log.segments()
            .filter(readable)
            .map(|segment| segment.base)
            .collect()
    }

    /// From where to walk a segment for the first record at or after a time; `None` when all of it
    /// is older.
    fn time_floor(&self, base: Offset, time: Timestamp) -> Option<u32> {
        let log = self.state.log.borrow();
        let segment = log.segment(base)?;
        let newest = segment
            .max_timestamp
            .map_or(Timestamp(i64::MAX), |max| max.timestamp);
        (newest >= time).then(|| segment.offsets.floor(segment.times.floor(time)))
    }

    /// From where to walk a segment for its largest timestamp: the batch itself when all of the
    /// segment counts, else the beginning.
    fn max_floor(&self, base: Offset, max_offset: Offset) -> Option<u32> {
        let log = self.state.log.borrow();
        let segment = log.segment(base).filter(|segment| segment.size > 0)?;
        let whole = segment.end <= max_offset && base >= log.log_start();
        let max = segment.max_timestamp.filter(|_| whole);
        let from = max.and_then(|max| logic::log::index::relative(base, max.batch_end));
        Some(from.map_or(0, |relative| segment.offsets.floor(relative)))
    }

    /// Sees that the batch that a segment's time index sends a look-up to has the timestamp that it is said to
    /// have: otherwise records before it may not be older.
    async fn see_time_entry(&self, base: Offset, time: Timestamp) -> Result<(), StorageError> {
        let found = {
            let log = self.state.log.borrow();
            log.segment(base).and_then(|segment| {
                let entry = segment.times.before(time)?;
                Some((segment.offsets.floor(entry.relative), entry))
            })
        };
        match found {
            Some((from, entry)) if !self.is_true(base, from, entry).await? => {
                Err(StorageError::Damaged {
                    path: self.state.segment_path(base, "timeindex"),
                    what: format!(
                        "offset {} has another time",
                        base.0 + i64::from(entry.relative)
                    ),
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether the batch that a time entry names, from a position on, ends and is as old as it says.
    async fn is_true(
        &self,
        base: Offset,
        from: u32,
        entry: TimeEntry,
    ) -> Result<bool, StorageError> {
        let last = Offset(base.0 + i64::from(entry.relative));
        let mut source = Source::new(self, base, from, WINDOW_BYTES);
        while let Some(Batch { header, .. }) = source.next().await? {
            if header.last_offset() >= last {
                return Ok((header.last_offset(), header.max_timestamp) == (last, entry.timestamp));
            }
        }
        Ok(false)
    }

    /// The first record of a batch that is wanted: its timestamp and offset.
    fn first(
        &self,
        batch: &Batch,
        base: Offset,
        wanted: impl Fn(Timestamp, Offset) -> bool,
    ) -> Result<Option<(Timestamp, Offset)>, StorageError> {
        let first = batch.header.base_offset.0;
        let damaged = |error: wire::records::RecordsError| StorageError::Damaged {
            path: self.state.segment_path(base, "log"),
            what: format!("batch {first}: {error}"),
        };
        for record in Records::open(&batch.bytes, &Unfolding::default()).map_err(damaged)? {
            let record = record.map_err(damaged)?;
            let offset = Offset(first + i64::from(record.offset_delta));
            if wanted(Timestamp(record.timestamp), offset) {
                return Ok(Some((Timestamp(record.timestamp), offset)));
            }
        }
        Ok(None)
    }

    /// Makes a segment's indexes complete: from its files as far as they go, by walking the segment
    /// beyond. Indexes are caches: files that are missing or wrong only cost the walk.
    pub(super) async fn load_index(&self, base: Offset) -> Result<(), StorageError> {
        let Some(segment) = self.state.sealed_segment(base) else {
            return Ok(());
        };
        if segment.indexed_from == 0 {
            return Ok(());
        }
        let believed = !self.state.distrusted.borrow().contains_key(&base);
        let built = match believed {
            true => self.index_files(&segment).await,
            false => None,
        };
        let begun = built.unwrap_or_else(|| Segment::new(base, 0));
        let until = segment.indexed_from;
        let generation = self.state.generation.get();
        let built = self.walk(begun, until).await?;
        let mut log = self.state.log.borrow_mut();
        let same = self.state.generation.get() == generation;
        if let Some(segment) = log
            .segment_mut(base)
            .filter(|segment| same && segment.indexed_from > 0)
        {
            segment.install(built.offsets, built.times, built.max_timestamp);
            log.forget_indexes(LOADED_INDEXES_MAX, base);
        }
        Ok(())
    }

    /// Walks a segment on to a position, for its indexes. Once is not enough to call a batch damaged: without it
    /// the segment would seem older than it is, and retention would take it.
    async fn walk(&self, begun: Segment, until: u32) -> Result<Segment, StorageError> {
        for _ in 0..CHECKED_WALKS {
            match self.walk_checked(begun.clone(), until).await {
                Err(StorageError::Damaged { .. }) => {}
                walked => return walked,
            }
        }
        self.walk_past_damage(begun, until).await
    }

    async fn walk_checked(&self, mut built: Segment, until: u32) -> Result<Segment, StorageError> {
        let config = *self.state.log.borrow().config();
        let mut source = Source::new(self, built.base, built.size, WINDOW_BYTES);
        while built.size < until
            && let Some(batch) = source.next().await?
        {
            built.push(0, &batch.header, &config);
        }
        Ok(built)
    }

    /// The same by headers alone: what lies beyond what is damaged is found all the same.
    async fn walk_past_damage(
        &self,
        mut built: Segment,
        until: u32,
    ) -> Result<Segment, StorageError> {
        let config = *self.state.log.borrow().config();
        let (base, from) = (built.base, built.size);
        let mut order = serve::order(&self.state, base);
        self.find(base, from, |header| {
            let done = built.size >= until;
            if !done && serve::follow(&self.state, &mut order, header).is_ok() {
                built.push(0, header, &config);
            } else if !done {
                built.size = built.size.saturating_add(header.len);
            }
            done
        })
        .await?;
        Ok(built)
    }

    /// Forgets the indexes: what led to damage may be an index alone, from a file or from what was
    /// misread. It is made again by walking the segment, a few times at most.
    pub(super) fn distrust_indexes(&self) {
        let mut log = self.state.log.borrow_mut();
        let mut distrusted = self.state.distrusted.borrow_mut();
        distrusted.retain(|base, _| log.segment(*base).is_some());
        let loaded = log
            .segments()
            .filter(|at| at.size > 0 && at.indexed_from == 0);
        let bases: Vec<Offset> = loaded.map(|segment| segment.base).collect();
        for base in bases {
            let times = distrusted.entry(base).or_insert(0);
            if *times < INDEX_WALKS_MAX
                && let Some(segment) = log.segment_mut(base)
            {
                *times += 1;
                segment.forget_index();
            }
        }
    }

    async fn index_file(&self, base: Offset, ending: &str) -> Option<Bytes> {
        let path = self.state.segment_path(base, ending);
        let file = PageFile::open(&self.shared.reactor, &path).await.ok()?;
        let mut parts = Vec::new();
        let mut at = 0;
        loop {
            let read = file.read_at(&self.shared.reactor, at, INDEX_READ_BYTES);
            let read = read.await.ok()?;
            if read.is_empty() {
                return Some(concat(&parts));
            }
            at += read.len() as u64;
            parts.push(read);
        }
    }

    /// What the index files say, as a segment that ends where their last entry begins. `None` when
    /// they are missing or do not fit the segment. Of what is in memory they are not asked: there nobody
    /// checks what an index has led to.
    async fn index_files(&self, segment: &Segment) -> Option<Segment> {
        let offsets = self.index_file(segment.base, "index").await?;
        let in_memory = self.state.tail.borrow().start_of(segment.base);
        let limit = in_memory.unwrap_or(u32::MAX).min(segment.indexed_from);
        let offsets = OffsetIndex::decode(&offsets, limit)?;
        let times = self.index_file(segment.base, "timeindex").await?;
        let until = segment.indexed_from_offset.0 - segment.base.0;
        let times = TimeIndex::decode(&times, until)?;
        let last = *offsets.entries().last()?;
        let wanted = Offset(segment.base.0 + i64::from(last.relative));
        let mut source = Source::new(self, segment.base, last.position, WINDOW_BYTES);
        let Batch { header, .. } = source.next().await.ok()??;
        if header.last_offset() != wanted {
            return None;
        }
        if let Some(newest) = times.last() {
            let from = offsets.floor(newest.relative);
            let is_true = self.is_true(segment.base, from, newest).await.ok()?;
            is_true.then_some(())?;
        }
        let resumed = Segment::resumed(segment.base, last.position, offsets, times);
        Some(resumed)
    }
}
