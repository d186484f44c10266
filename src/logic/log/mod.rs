//! One partition's log: which segment and position each batch has, when segments roll, where an
//! offset or a time is to be looked for. Touches no disk: the shell moves the bytes.

pub mod chain;
pub mod cleaning;
pub mod epochs;
pub mod header;
pub mod index;
pub mod order;
pub mod retention;
pub mod segment;

#[cfg(test)]
mod samples;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::ids::{Offset, PartitionId};
use epochs::Epochs;
use header::BatchHeader;
use segment::Segment;

/// The topic configs that shape a log, with Kafka's names and defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// `segment.bytes`.
    pub segment_bytes: u32,
    /// `segment.ms`.
    pub segment_ms: i64,
    /// `segment.jitter.ms`.
    pub segment_jitter_ms: i64,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u32,
    /// `segment.index.bytes`.
    pub segment_index_bytes: u32,
    /// `file.delete.delay.ms`.
    pub file_delete_delay_ms: u64,
    /// How much of it is kept.
    pub retention: retention::Rules,
    /// How it is compacted.
    pub cleaning: cleaning::Rules,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 3_600 * 1_000,
            segment_jitter_ms: 0,
            index_interval_bytes: 4_096,
            segment_index_bytes: 10 << 20,
            file_delete_delay_ms: 60_000,
            retention: retention::Rules::default(),
            cleaning: cleaning::Rules::default(),
        }
    }
}

/// Where an appended batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The base offset of the segment that this append sealed.
    pub sealed: Option<Offset>,
    /// The base offset of its segment.
    pub segment: Offset,
    /// Its byte position in the segment.
    pub position: u32,
}

/// Where to look for an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The base offset of the segment.
    pub segment: Offset,
    /// A batch start at or before the wanted batch.
    pub position: u32,
    /// The indexes do not cover this place: `position` is only a lower bound far away.
    pub unindexed: bool,
}

/// One partition's log.
#[derive(Clone, Debug)]
pub struct Log {
    id: PartitionId,
    config: Config,
    /// By base offset; never empty; each ends where the next begins or before.
    segments: BTreeMap<Offset, Segment>,
    /// `first segment's base <= log_start <= log_end` (invariant 15); it never falls.
    log_start: Offset,
    epochs: Epochs,
}

impl Log {
    /// An empty log.
    pub fn new(id: PartitionId, config: Config, now_ms: i64) -> Self {
        let first = Segment::new(Offset(0), now_ms);
        let segments = BTreeMap::from([(first.base, first)]);
        Self {
            id,
            config,
            segments,
            log_start: Offset(0),
            epochs: Epochs::default(),
        }
    }

    /// A log found on disk. `segments` are in order and not empty.
    pub fn recovered(
        id: PartitionId,
        config: Config,
        segments: Vec<Segment>,
        log_start: Offset,
        epochs: Epochs,
    ) -> Self {
        assert!(!segments.is_empty(), "a log has at least one segment");
        let segments: BTreeMap<_, _> = segments.into_iter().map(|at| (at.base, at)).collect();
        let mut log = Self {
            id,
            config,
            segments,
            log_start,
            epochs,
        };
        let first = log
            .segments
            .first_key_value()
            .map_or(log_start, |(base, _)| *base);
        log.log_start = log_start.max(first).min(log.log_end());
        log
    }

    /// Whose log this is.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// The configs in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// New configs, for what is appended from now on.
    pub fn configure(&mut self, config: Config) {
        self.config = config;
    }

    /// The first offset that may be read.
    pub fn log_start(&self) -> Offset {
        self.log_start
    }

    /// One past the last record.
    pub fn log_end(&self) -> Offset {
        self.active().end
    }

    /// Leader epochs and where they begin.
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Notes that `epoch` leads from the log's end on, even before it writes.
    pub fn start_epoch(&mut self, epoch: crate::ids::LeaderEpoch) {
        let end = self.log_end();
        self.epochs.begin(epoch, end);
    }

    /// The segment that appends go to.
    pub fn active(&self) -> &Segment {
        match self.segments.last_key_value() {
            Some((_, segment)) => segment,
            None => unreachable!("a log has at least one segment"),
        }
    }

    /// Every segment in order.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.values()
    }

    /// The segment with this base offset.
    pub fn segment(&self, base: Offset) -> Option<&Segment> {
        self.segments.get(&base)
    }

    /// The segment with this base offset, to install or forget its indexes.
    pub fn segment_mut(&mut self, base: Offset) -> Option<&mut Segment> {
        self.segments.get_mut(&base)
    }

    /// Bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        self.segments
            .values()
            .map(|segment| u64::from(segment.size))
            .sum()
    }

    /// Places a batch at the end, rolling to a new segment first when the active one is full.
    pub fn append(&mut self, now_ms: i64, batch: &BatchHeader) -> Placed {
        assert!(
            batch.base_offset >= self.log_end(),
            "an append below the log's end"
        );
        self.epochs.begin(batch.leader_epoch, batch.base_offset);
        let config = self.config;
        let jitter_ms = self.jitter_ms();
        let mut sealed = None;
        if self.active().must_roll(now_ms, batch, jitter_ms, &config) {
            sealed = self.roll(now_ms, batch.base_offset);
        }
        let active = self.active_mut();
        let position = active.push(now_ms, batch, &config);
        Placed {
            sealed,
            segment: active.base,
            position,
        }
    }

    /// Adds a batch where an earlier [`Log::append`] had placed it, as recovery does. `false` when it
    /// does not follow what is there.
    pub fn replay(
        &mut self,
        now_ms: i64,
        batch: &BatchHeader,
        segment: Offset,
        position: u32,
    ) -> bool {
        let active = self.active();
        let rolls = segment != active.base;
        let follows = batch.base_offset >= active.end
            && if rolls {
                position == 0 && segment == batch.base_offset && segment >= active.end
            } else {
                position == active.size
            }
            && position.checked_add(batch.len).is_some()
            && index::relative(segment, batch.last_offset()).is_some();
        if !follows {
            return false;
        }
        self.epochs.begin(batch.leader_epoch, batch.base_offset);
        if rolls {
            self.roll(now_ms, segment);
        }
        let config = self.config;
        self.active_mut().push(now_ms, batch, &config);
        true
    }

    /// Seals the active segment and begins another at the log's end, so that all that is in the log can
    /// go. Returns the sealed segment's base offset; `None` when there was nothing to seal.
    pub fn seal_active(&mut self, now_ms: i64) -> Option<Offset> {
        let end = self.log_end();
        if self.active().size == 0 {
            return None;
        }
        self.roll(now_ms, end)
    }

    /// Seals the active segment and begins one at `base`. An empty segment is only moved up.
    fn roll(&mut self, now_ms: i64, base: Offset) -> Option<Offset> {
        let active = self.active_mut();
        let old = active.base;
        let empty = active.size == 0;
        if empty {
            self.segments.remove(&old);
        } else {
            active.seal();
        }
        self.segments.insert(base, Segment::new(base, now_ms));
        (!empty).then_some(old)
    }

    /// Where to look for `offset`; `None` when it is not in `log_start..log_end`.
    pub fn locate(&self, offset: Offset) -> Option<Located> {
        if offset < self.log_start || offset >= self.log_end() {
            return None;
        }
        let (base, segment) = self.segments.range(..=offset).next_back()?;
        if offset >= segment.end {
            // A gap left by deletion or compaction: the next segment's first batch follows.
            let (next, _) = self.segments.range(offset..).next()?;
            return Some(Located {
                segment: *next,
                position: 0,
                unindexed: false,
            });
        }
        let relative = index::relative(*base, offset)?;
        let floor = segment.offsets.floor(relative);
        let known = offset >= segment.indexed_from_offset;
        Some(Located {
            segment: *base,
            position: if known {
                floor.max(segment.indexed_from)
            } else {
                floor
            },
            unindexed: segment.indexed_from > 0 && !known,
        })
    }

    /// Keeps the indexes of at most `count` sealed segments in memory: that of `of` and the newest.
    pub fn forget_indexes(&mut self, count: usize, of: Offset) {
        let active = self.active().base;
        let loaded = |segment: &&mut Segment| {
            segment.base != active && segment.base != of && segment.indexed_from == 0
        };
        let others = self.segments.values_mut().filter(loaded).count();
        let too_many = (others + 1).saturating_sub(count);
        self.segments
            .values_mut()
            .filter(loaded)
            .take(too_many)
            .for_each(Segment::forget_index);
    }

    /// Moves the log's start up. Returns the segments that now lie wholly below it and are gone from
    /// this log; the active one stays. A lower start changes nothing.
    pub fn set_log_start(&mut self, offset: Offset) -> Vec<Segment> {
        assert!(offset <= self.log_end(), "a log start beyond the log's end");
        self.log_start = self.log_start.max(offset);
        self.epochs.trim(self.log_start);
        let active = self.active().base;
        let below = |segment: &Segment| segment.base < active && segment.end <= self.log_start;
        let bases: Vec<Offset> = self
            .segments
            .values()
            .take_while(|at| below(at))
            .map(|at| at.base)
            .collect();
        bases
            .into_iter()
            .filter_map(|base| self.segments.remove(&base))
            .collect()
    }

    /// Puts one segment in the place of neighbours, the first of which has its base offset. `false`,
    /// and nothing changes, when one of them is gone or active.
    pub fn replace(&mut self, replaced: &[Offset], mut by: Segment) -> bool {
        let active = self.active().base;
        let sealed = |base: &Offset| *base < active && self.segments.contains_key(base);
        if replaced.first() != Some(&by.base) || !replaced.iter().all(sealed) {
            return false;
        }
        for base in replaced {
            if let Some(old) = self.segments.remove(base) {
                // Offsets of which nothing is left at its end still belong to it.
                by.end = by.end.max(old.end);
            }
        }
        self.segments.insert(by.base, by);
        true
    }

    fn active_mut(&mut self) -> &mut Segment {
        match self.segments.last_entry() {
            Some(entry) => entry.into_mut(),
            None => unreachable!("a log has at least one segment"),
        }
    }

    /// This segment's share of `segment.jitter.ms`: spread over partitions and segments, and the
    /// same in every run.
    fn jitter_ms(&self) -> i64 {
        if self.config.segment_jitter_ms <= 0 {
            return 0;
        }
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let words = [i64::from(self.id.index), self.active().base.0];
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        for byte in self.id.topic.0.into_iter().chain(bytes) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        (hash % self.config.segment_jitter_ms as u64) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{LeaderEpoch, TopicId};
    use crate::log::samples::header;

    fn log() -> Log {
        let config = Config {
            segment_bytes: 1_000,
            index_interval_bytes: 150,
            ..Config::default()
        };
        let id = PartitionId {
            topic: TopicId([7; 16]),
            index: 3,
        };
        let mut log = Log::new(id, config, 0);
        for at in 0..25 {
            log.append(0, &header(at * 10, 10, at, 100));
        }
        log
    }

    #[test]
    fn segments_follow_each_other_without_holes() {
        let log = log();
        let shape: Vec<_> = log
            .segments()
            .map(|at| (at.base.0, at.end.0, at.size))
            .collect();
        assert_eq!(shape, [(0, 100, 1_000), (100, 200, 1_000), (200, 250, 500)]);
        assert_eq!(log.log_end(), Offset(250));
    }

    #[test]
    fn an_offset_is_looked_for_at_or_before_its_batch() {
        let log = log();
        for offset in 0..250 {
            let located = log.locate(Offset(offset)).expect("inside");
            assert!(!located.unindexed);
            let batch_start = (offset % 100 / 10 * 100) as u32;
            assert!(located.position <= batch_start && batch_start - located.position <= 200);
            assert_eq!(located.segment.0, offset / 100 * 100);
        }
        assert_eq!(log.locate(Offset(250)), None);
        assert_eq!(log.locate(Offset(-1)), None);
    }

    #[test]
    fn the_log_start_never_falls_and_takes_whole_segments_along() {
        let mut log = log();
        assert!(log.set_log_start(Offset(99)).is_empty());
        let gone: Vec<_> = log
            .set_log_start(Offset(205))
            .iter()
            .map(|at| at.base.0)
            .collect();
        assert_eq!(gone, [0, 100]);
        log.set_log_start(Offset(3));
        assert_eq!(log.log_start(), Offset(205));
        assert_eq!(log.locate(Offset(204)), None);
        assert!(
            log.set_log_start(Offset(250)).is_empty(),
            "the active segment stays"
        );
        assert_eq!(log.log_end(), Offset(250));
    }

    #[test]
    fn a_sealed_active_segment_goes_and_the_end_stays() {
        let mut log = log();
        assert_eq!(log.seal_active(5), Some(Offset(200)));
        assert_eq!(log.seal_active(5), None, "nothing to seal");
        let gone = log.set_log_start(Offset(250));
        assert_eq!(gone.len(), 3);
        assert_eq!((log.log_start(), log.log_end()), (Offset(250), Offset(250)));
        log.append(9, &header(250, 10, 9, 100));
        assert_eq!(log.log_end(), Offset(260));
    }

    #[test]
    fn few_indexes_stay_in_memory_the_one_in_use_among_them() {
        let indexed = |log: &Log| -> Vec<i64> {
            let known = |base: &i64| log.locate(Offset(*base)).is_some_and(|at| !at.unindexed);
            [0, 100, 200].into_iter().filter(known).collect()
        };
        let mut log = log();
        log.forget_indexes(2, Offset(100));
        assert_eq!(indexed(&log), [0, 100, 200]);
        log.forget_indexes(1, Offset(0));
        assert_eq!(indexed(&log), [0, 200], "the active segment's is no cache");
    }

    #[test]
    fn a_leader_epoch_begins_at_the_end_even_without_records() {
        let mut log = log();
        log.start_epoch(LeaderEpoch(3));
        assert_eq!(
            log.epochs().starts().last(),
            Some(&(LeaderEpoch(3), Offset(250)))
        );
    }

    #[test]
    fn jitter_is_within_its_bound_and_repeats() {
        let mut log = log();
        log.configure(Config {
            segment_jitter_ms: 50,
            ..*log.config()
        });
        assert!((0..50).contains(&log.jitter_ms()));
        assert_eq!(log.jitter_ms(), log.jitter_ms());
    }
}
