//! Which bytes of which segments a write-ahead log holds: what is torn in a segment is whole there
//! until it was flushed. Knows neither files nor frames.

use std::collections::BTreeMap;
use std::ops::Range;

use logic::ids::{Offset, PartitionId};

/// One segment of one partition.
pub type SegmentId = (PartitionId, Offset);

/// The bytes, by segment.
#[derive(Debug, Default)]
pub struct Coverage {
    ranges: BTreeMap<SegmentId, Vec<Range<u64>>>,
}

impl Coverage {
    /// Adds bytes of a segment.
    pub fn add(&mut self, segment: SegmentId, from: u32, len: u64) {
        let from = u64::from(from);
        let range = from..from.saturating_add(len);
        self.ranges.entry(segment).or_default().push(range);
    }

    /// The segments of a partition of which there is anything, in order.
    pub fn segments(&self, partition: PartitionId) -> impl Iterator<Item = Offset> {
        let from = (partition, Offset(i64::MIN));
        let to = (partition, Offset(i64::MAX));
        self.ranges.range(from..=to).map(|((_, base), _)| *base)
    }

    /// Where what is covered ends.
    pub fn end(&self, segment: SegmentId) -> Option<u64> {
        let ranges = self.ranges.get(&segment)?;
        ranges.iter().map(|range| range.end).max()
    }

    /// Whether every byte of a range is covered.
    pub fn holds(&self, segment: SegmentId, wanted: &Range<u64>) -> bool {
        let ranges = self.ranges.get(&segment);
        let mut ranges: Vec<_> = ranges.into_iter().flatten().cloned().collect();
        ranges.sort_by_key(|range| range.start);
        let reached = ranges.iter().fold(wanted.start, |reached, range| {
            match range.start <= reached {
                true => reached.max(range.end),
                false => reached,
            }
        });
        reached >= wanted.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logic::ids::TopicId;

    #[test]
    fn a_range_is_held_only_without_a_hole() {
        let segment = (
            PartitionId {
                topic: TopicId([1; 16]),
                index: 0,
            },
            Offset(0),
        );
        let mut coverage = Coverage::default();
        coverage.add(segment, 300, 100);
        coverage.add(segment, 100, 100);
        assert!(coverage.holds(segment, &(120..200)));
        assert!(!coverage.holds(segment, &(120..201)), "200..300 is missing");
        coverage.add(segment, 200, 100);
        assert!(coverage.holds(segment, &(100..400)));
        assert!(!coverage.holds(segment, &(99..400)));
        assert!(!coverage.holds((segment.0, Offset(7)), &(120..121)));
        assert_eq!(coverage.end(segment), Some(400));
    }
}
