//! One segment of a log: which offsets and bytes it holds, what its sparse indexes know, and when it
//! is full. Knows no file: a position is a number of bytes from the segment's start.

use super::Config;
use super::header::BatchHeader;
use super::index::{OffsetIndex, TimeIndex, relative};
use crate::ids::{Offset, Timestamp};

/// The largest timestamp of a segment and the last offset of the batch that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxTimestamp {
    /// The timestamp; -1 when no record has one.
    pub timestamp: Timestamp,
    /// The last offset of its batch; the segment's base when no record has a timestamp.
    pub batch_end: Offset,
}

/// One segment.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The offset that names it; no record in it is below.
    pub base: Offset,
    /// One past the last record's offset. `base <= end`.
    pub end: Offset,
    /// Bytes of whole batches in it.
    pub size: u32,
    /// The wall clock at its first append, in ms.
    pub created_ms: i64,
    /// The wall clock at its last append, in ms; for one found on disk, when its file was last changed.
    pub appended_ms: i64,
    /// The first batch's largest timestamp, never later than the wall clock at its append.
    pub first_timestamp: Option<Timestamp>,
    /// The largest timestamp; `None` when it has not been looked up since start-up.
    pub max_timestamp: Option<MaxTimestamp>,
    /// Entries for batches at or beyond `indexed_from`, and perhaps earlier ones.
    pub offsets: OffsetIndex,
    /// Likewise by time.
    pub times: TimeIndex,
    /// From which position on the indexes are complete; 0 when they cover the segment, `size` when
    /// they know nothing.
    pub indexed_from: u32,
    /// The offset from which `indexed_from` is the place to start walking.
    pub indexed_from_offset: Offset,
    /// Bytes since the last index entry.
    since_entry: u32,
}

impl Segment {
    /// An empty segment whose first record will have `base` or a later offset.
    pub fn new(base: Offset, created_ms: i64) -> Self {
        Self {
            base,
            end: base,
            size: 0,
            created_ms,
            appended_ms: created_ms,
            first_timestamp: None,
            max_timestamp: Some(MaxTimestamp {
                timestamp: Timestamp(-1),
                batch_end: base,
            }),
            offsets: OffsetIndex::default(),
            times: TimeIndex::default(),
            indexed_from: 0,
            indexed_from_offset: base,
            since_entry: 0,
        }
    }

    /// A segment found on disk, of which only the extent is known.
    pub fn found(base: Offset, end: Offset, size: u32, created_ms: i64) -> Self {
        let known = size == 0;
        let mut segment = Self::new(base, created_ms);
        segment.end = end;
        segment.size = size;
        segment.indexed_from = size;
        segment.indexed_from_offset = end;
        if !known {
            segment.max_timestamp = None;
        }
        segment
    }

    /// A segment whose indexes are known up to a batch start, to be walked on from there.
    pub fn resumed(base: Offset, position: u32, offsets: OffsetIndex, times: TimeIndex) -> Self {
        let mut segment = Self::new(base, 0);
        segment.size = position;
        if let Some(last) = times.last() {
            segment.max_timestamp = Some(MaxTimestamp {
                timestamp: last.timestamp,
                batch_end: Offset(base.0 + i64::from(last.relative)),
            });
        }
        segment.offsets = offsets;
        segment.times = times;
        segment
    }

    /// Whether the next batch belongs into a new segment: full by bytes, age or index, or too far
    /// from the base for Kafka's index format. Timestamps later than the clock count as the clock's,
    /// so that a record from the future neither pins a segment nor rolls each batch.
    pub fn must_roll(
        &self,
        now_ms: i64,
        batch: &BatchHeader,
        jitter_ms: i64,
        config: &Config,
    ) -> bool {
        if self.size == 0 {
            return relative(self.base, batch.last_offset()).is_none();
        }
        let by_bytes =
            u64::from(self.size) + u64::from(batch.len) > u64::from(config.segment_bytes);
        let by_record = self.first_timestamp.map_or(0, |first| {
            batch.max_timestamp.0.min(now_ms).saturating_sub(first.0)
        });
        let age_ms = now_ms.saturating_sub(self.created_ms).max(by_record);
        let index_max = config.segment_index_bytes as usize;
        by_bytes
            || age_ms > config.segment_ms.saturating_sub(jitter_ms)
            || self.offsets.len_bytes() + super::index::OFFSET_ENTRY_BYTES > index_max
            || self.times.len_bytes() + super::index::TIME_ENTRY_BYTES > index_max
            || relative(self.base, batch.last_offset()).is_none()
    }

    /// Adds a batch at the end; returns its position.
    pub fn push(&mut self, now_ms: i64, batch: &BatchHeader, config: &Config) -> u32 {
        assert!(batch.base_offset >= self.end, "a batch below the log's end");
        let position = self.size;
        let Some(last) = relative(self.base, batch.last_offset()) else {
            unreachable!("a batch too far from its segment's base must have rolled")
        };
        self.appended_ms = now_ms;
        if self.size == 0 {
            self.created_ms = now_ms;
            let timestamp = batch.max_timestamp.0.min(now_ms);
            self.first_timestamp = (timestamp >= 0).then_some(Timestamp(timestamp));
        }
        if let Some(max) = &mut self.max_timestamp
            && batch.max_timestamp > max.timestamp
        {
            *max = MaxTimestamp {
                timestamp: batch.max_timestamp,
                batch_end: batch.last_offset(),
            };
        }
        if self.since_entry > config.index_interval_bytes {
            self.offsets.push(last, position);
            self.index_time();
            self.since_entry = 0;
        }
        self.since_entry = self.since_entry.saturating_add(batch.len);
        self.size += batch.len;
        self.end = batch.end_offset();
        position
    }

    /// Records the largest timestamp as the last time entry, as sealing does.
    pub fn seal(&mut self) {
        self.index_time();
    }

    fn index_time(&mut self) {
        if let Some(max) = self.max_timestamp
            && let Some(at) = relative(self.base, max.batch_end)
        {
            self.times.push(max.timestamp, at);
        }
    }

    /// Takes indexes read from files or rebuilt; they cover the segment up to where this one's own
    /// begin, which are added to them.
    pub fn install(
        &mut self,
        mut offsets: OffsetIndex,
        mut times: TimeIndex,
        max: Option<MaxTimestamp>,
    ) {
        for entry in self.offsets.entries() {
            offsets.push(entry.relative, entry.position);
        }
        for entry in self.times.entries() {
            times.push(entry.timestamp, entry.relative);
        }
        self.offsets = offsets;
        self.times = times;
        self.indexed_from = 0;
        self.indexed_from_offset = self.base;
        self.max_timestamp = match (self.max_timestamp, max) {
            (Some(mine), Some(older)) if mine.timestamp > older.timestamp => Some(mine),
            (mine, older) => older.or(mine),
        };
    }

    /// Forgets the indexes of a sealed segment; its files still have them.
    pub fn forget_index(&mut self) {
        self.offsets = OffsetIndex::default();
        self.times = TimeIndex::default();
        self.indexed_from = self.size;
        self.indexed_from_offset = self.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::samples::header;
    use alloc::vec::Vec;

    fn config() -> Config {
        Config {
            segment_bytes: 1_000,
            segment_ms: 500,
            index_interval_bytes: 150,
            ..Config::default()
        }
    }

    #[test]
    fn a_segment_rolls_by_bytes_but_takes_one_batch_of_any_size() {
        let mut segment = Segment::new(Offset(0), 0);
        let large = header(0, 1, 0, 5_000);
        assert!(!segment.must_roll(0, &large, 0, &config()));
        segment.push(0, &large, &config());
        assert!(segment.must_roll(0, &header(1, 1, 0, 61), 0, &config()));
    }

    #[test]
    fn a_segment_rolls_by_age_less_its_jitter() {
        let mut segment = Segment::new(Offset(0), 0);
        segment.push(100, &header(0, 1, 90, 100), &config());
        assert!(!segment.must_roll(600, &header(1, 1, 100, 100), 0, &config()));
        assert!(segment.must_roll(601, &header(1, 1, 100, 100), 0, &config()));
        assert!(segment.must_roll(600, &header(1, 1, 100, 100), 10, &config()));
    }

    #[test]
    fn a_record_from_the_future_neither_pins_nor_rolls() {
        let mut segment = Segment::new(Offset(0), 0);
        segment.push(100, &header(0, 1, i64::MAX, 100), &config());
        assert!(!segment.must_roll(200, &header(1, 1, i64::MAX, 100), 0, &config()));
        assert!(segment.must_roll(700, &header(1, 1, 100, 100), 0, &config()));
    }

    #[test]
    fn an_offset_too_far_for_the_index_format_rolls() {
        let segment = Segment::new(Offset(0), 0);
        let limit = i64::from(i32::MAX);
        assert!(!segment.must_roll(0, &header(limit, 1, 0, 100), 0, &config()));
        assert!(segment.must_roll(0, &header(limit + 1, 1, 0, 100), 0, &config()));
    }

    #[test]
    fn entries_name_a_batchs_last_offset_and_where_it_starts() {
        let mut segment = Segment::new(Offset(50), 0);
        for at in 0..6 {
            segment.push(0, &header(50 + at * 10, 10, 1_000 + at, 100), &config());
        }
        let entries: Vec<_> = segment
            .offsets
            .entries()
            .iter()
            .map(|e| (e.relative, e.position))
            .collect();
        assert_eq!(entries, [(29, 200), (49, 400)]);
        segment.seal();
        assert_eq!(
            segment.times.last().map(|e| (e.timestamp.0, e.relative)),
            Some((1_005, 59))
        );
    }
}
