//! Which part of a compacted log is worth cleaning, and which of its segments become one. What
//! becomes of a batch is in `filter`, the steps on disk in `swap`. Knows no bytes of records.

pub mod filter;
pub mod key_map;
pub mod retry;
pub mod swap;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use wire::folding::Folding;

use super::index::{OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, relative};
use super::segment::Segment;
use super::{Config, Log, retention};
use crate::ids::Offset;

/// The topic configs that say how a log is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `cleanup.policy` holds `compact`.
    pub compacts: bool,
    /// `min.cleanable.dirty.ratio`, in millionths.
    pub dirty_millionths_min: u32,
    /// `min.compaction.lag.ms`.
    pub lag_ms_min: i64,
    /// `max.compaction.lag.ms`.
    pub lag_ms_max: i64,
    /// `delete.retention.ms`.
    pub delete_retention_ms: i64,
    /// `compression.type` and its level; none for `producer`.
    pub folding: Option<Folding>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            compacts: false,
            dirty_millionths_min: 500_000,
            lag_ms_min: 0,
            lag_ms_max: i64::MAX,
            delete_retention_ms: 86_400_000,
            folding: None,
        }
    }
}

/// What could be cleaned of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleanable {
    /// Below it the log is clean: no key occurs twice.
    pub first_dirty: Offset,
    /// The part that may be cleaned ends here, where a segment begins.
    pub end: Offset,
    /// Bytes below `first_dirty`, and from there to `end`.
    pub clean_bytes: u64,
    /// See above; not 0.
    pub dirty_bytes: u64,
    /// Some record has waited longer than `max.compaction.lag.ms`.
    pub overdue: bool,
}

impl Cleanable {
    /// The share of dirty bytes, in millionths: the more, the more cleaning it gains.
    pub fn dirty_millionths(&self) -> u32 {
        let all = u128::from(self.clean_bytes) + u128::from(self.dirty_bytes);
        u32::try_from(u128::from(self.dirty_bytes) * 1_000_000 / all.max(1)).unwrap_or(1_000_000)
    }

    /// Whether it should be cleaned now.
    pub fn is_due(&self, rules: &Rules) -> bool {
        self.overdue || self.dirty_millionths() > rules.dirty_millionths_min
    }
}

/// What is to be done about a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Leave,
    /// The largest timestamp of the segment with this base offset must be known first.
    Look(Offset),
    /// This part can be cleaned.
    Clean(Cleanable),
}

/// Judges a log. Nothing from `bound` on, the lower of high watermark and last stable offset, is ever
/// cleaned, nor the active segment; `clean_below` is where an earlier cleaning ended.
pub fn decide(log: &Log, wall_ms: i64, bound: Offset, clean_below: Offset) -> Verdict {
    let config = log.config();
    let rules = &config.cleaning;
    if !rules.compacts {
        return Verdict::Leave;
    }
    let first_dirty = if clean_below > log.log_end() {
        log.log_start() // of another log with this name
    } else {
        clean_below.max(log.log_start())
    };
    let active = log.active().base;
    let mut cleanable = Cleanable {
        first_dirty,
        end: first_dirty,
        clean_bytes: 0,
        dirty_bytes: 0,
        overdue: false,
    };
    let mut segments = log
        .segments()
        .filter(|segment| segment.base < active)
        .peekable();
    while let Some(segment) = segments.next() {
        let end = segments.peek().map_or(active, |next| next.base);
        if end <= first_dirty {
            cleanable.clean_bytes += u64::from(segment.size);
            continue;
        }
        if end > bound {
            break;
        }
        match is_too_young(segment, config, wall_ms) {
            None => return Verdict::Look(segment.base),
            Some(true) => break,
            Some(false) => {}
        }
        cleanable.dirty_bytes += u64::from(segment.size);
        cleanable.end = end;
        cleanable.overdue |= is_overdue(segment, rules, wall_ms);
    }
    if cleanable.dirty_bytes == 0 {
        return Verdict::Leave;
    }
    Verdict::Clean(cleanable)
}

/// Whether a segment holds a record younger than `min.compaction.lag.ms`, if that is known.
fn is_too_young(segment: &Segment, config: &Config, wall_ms: i64) -> Option<bool> {
    let least = config.cleaning.lag_ms_min;
    if least <= 0 {
        return Some(false);
    }
    let newest = retention::newest_ms(segment, &config.retention, wall_ms)?;
    Some(newest > wall_ms.saturating_sub(least))
}

fn is_overdue(segment: &Segment, rules: &Rules, wall_ms: i64) -> bool {
    let oldest = segment
        .first_timestamp
        .map_or(segment.created_ms, |first| first.0);
    rules.lag_ms_max < i64::MAX && oldest < wall_ms.saturating_sub(rules.lag_ms_max)
}

/// The segments that begin below `end`, in groups that each become one segment: as many as fit into
/// `segment.bytes` and the index format together.
pub fn groups(log: &Log, end: Offset) -> Vec<Vec<Offset>> {
    let config = log.config();
    let mut groups: Vec<Vec<Offset>> = Vec::new();
    let (mut bytes, mut entries) = (0_u64, 0_u64);
    for segment in log.segments().take_while(|segment| segment.base < end) {
        let size = u64::from(segment.size);
        // Indexes of old segments are not in memory; they have an entry in so many bytes at most.
        let size_entries = size / u64::from(config.index_interval_bytes.max(1)) + 1;
        let joins = groups
            .last()
            .and_then(|group| group.first())
            .is_some_and(|first| {
                let entry_bytes = OFFSET_ENTRY_BYTES.max(TIME_ENTRY_BYTES) as u64;
                bytes + size <= u64::from(config.segment_bytes)
                    && (entries + size_entries) * entry_bytes
                        <= u64::from(config.segment_index_bytes)
                    && relative(*first, segment.end).is_some()
            });
        if joins && let Some(group) = groups.last_mut() {
            group.push(segment.base);
            bytes += size;
            entries += size_entries;
        } else {
            groups.push(Vec::from([segment.base]));
            (bytes, entries) = (size, size_entries);
        }
    }
    groups
}
