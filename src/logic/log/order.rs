//! Whether batches that are read back follow one another. Kafka's checksum leaves a batch's base offset and
//! leader epoch out, so a flipped bit in them shows only beside the neighbours. Knows no files.

use core::fmt;

use super::header::BatchHeader;
use super::index::relative;
use crate::ids::{LeaderEpoch, Offset};

/// What the batches read so far allow for the next one. Cleaning leaves gaps between offsets, so a gap is
/// no fault.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    base: Offset,
    end: Offset,
    limit: Option<Offset>,
    epoch: LeaderEpoch,
}

/// Why a batch does not follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfOrder {
    /// It begins below the end of the batch before it, or below its segment.
    OffsetsFall,
    /// It ends above what its segment can hold.
    OffsetsLeap,
    /// Its leader epoch is older than that of a batch before it.
    EpochsFall,
}

impl Order {
    /// At the start of a segment, whose batches end at or below `limit` if that is known.
    pub fn within(base: Offset, limit: Option<Offset>) -> Self {
        Self {
            base,
            end: base,
            limit,
            epoch: LeaderEpoch(-1),
        }
    }

    /// At the start of the same log's next segment.
    #[must_use]
    pub fn next_segment(self, base: Offset, limit: Option<Offset>) -> Self {
        Self {
            epoch: self.epoch,
            ..Self::within(base, limit)
        }
    }

    /// One past the last offset so far; the segment's base before the first batch.
    pub fn end(&self) -> Offset {
        self.end
    }

    /// Goes on behind a batch, if it is in order.
    ///
    /// # Errors
    /// When it contradicts its neighbours or its segment.
    pub fn follow(&mut self, header: &BatchHeader) -> Result<(), OutOfOrder> {
        if header.base_offset < self.end {
            return Err(OutOfOrder::OffsetsFall);
        }
        let above = self.limit.is_some_and(|limit| header.end_offset() > limit);
        if above || relative(self.base, header.last_offset()).is_none() {
            return Err(OutOfOrder::OffsetsLeap);
        }
        if header.leader_epoch < self.epoch {
            return Err(OutOfOrder::EpochsFall);
        }
        self.end = header.end_offset();
        self.epoch = header.leader_epoch;
        Ok(())
    }
}

impl fmt::Display for OutOfOrder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::OffsetsFall => "offsets fall",
            Self::OffsetsLeap => "offsets leap",
            Self::EpochsFall => "leader epochs fall",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn batch(base: i64, end: i64, epoch: i32) -> BatchHeader {
        let records = (end - base) as i32;
        BatchHeader {
            leader_epoch: LeaderEpoch(epoch),
            ..samples::header(base, records, 0, 100)
        }
    }

    #[test]
    fn batches_with_gaps_and_rising_epochs_follow_one_another() {
        let mut order = Order::within(Offset(10), Some(Offset(40)));
        for header in [batch(10, 12, 0), batch(20, 21, 0), batch(21, 40, 3)] {
            assert_eq!(order.follow(&header), Ok(()));
        }
        let mut next = order.next_segment(Offset(40), None);
        assert_eq!(next.follow(&batch(40, 41, 3)), Ok(()));
    }

    #[test]
    fn a_flipped_base_offset_is_seen_from_its_neighbours_or_its_segment() {
        let mut order = Order::within(Offset(10), Some(Offset(40)));
        assert_eq!(order.follow(&batch(8, 12, 0)), Err(OutOfOrder::OffsetsFall));
        assert_eq!(order.follow(&batch(10, 20, 0)), Ok(()));
        let low = batch(18, 28, 0);
        assert_eq!(order.follow(&low), Err(OutOfOrder::OffsetsFall));
        let high = batch(36, 46, 0);
        assert_eq!(order.follow(&high), Err(OutOfOrder::OffsetsLeap));
        let mut open = Order::within(Offset(10), None);
        let far = batch(1 << 40, (1 << 40) + 10, 0);
        assert_eq!(open.follow(&far), Err(OutOfOrder::OffsetsLeap));
    }

    #[test]
    fn an_epoch_that_falls_is_seen_across_segments() {
        let mut order = Order::within(Offset(0), Some(Offset(10)));
        assert_eq!(order.follow(&batch(0, 10, 5)), Ok(()));
        let mut order = order.next_segment(Offset(10), None);
        let older = batch(10, 20, 4);
        assert_eq!(order.follow(&older), Err(OutOfOrder::EpochsFall));
        assert_eq!(order.follow(&batch(10, 20, 5)), Ok(()));
    }
}
