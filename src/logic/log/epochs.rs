//! Where each leader epoch begins in a log (KIP-101): a fold over its batches and its elections
//! (invariant 8). Knows neither positions nor files.

use alloc::vec::Vec;

use crate::ids::{LeaderEpoch, Offset};

/// Epochs with their first offsets; both strictly increase but for epochs without records, which
/// share a start with their successor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    starts: Vec<(LeaderEpoch, Offset)>,
}

impl Epochs {
    /// Notes that `epoch` writes from `start` on. An epoch that is not newer changes nothing.
    pub fn begin(&mut self, epoch: LeaderEpoch, start: Offset) {
        if self.starts.last().is_none_or(|(last, _)| epoch > *last) && epoch.0 >= 0 {
            self.starts.push((epoch, start));
        }
    }

    /// The newest epoch.
    pub fn latest(&self) -> Option<LeaderEpoch> {
        self.starts.last().map(|(epoch, _)| *epoch)
    }

    /// The epochs in order, each with its first offset.
    pub fn starts(&self) -> &[(LeaderEpoch, Offset)] {
        &self.starts
    }

    /// The epoch that wrote `offset`.
    pub fn epoch_of(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.starts.partition_point(|(_, start)| *start <= offset);
        after.checked_sub(1).map(|at| self.starts[at].0)
    }

    /// The largest epoch not above `epoch`, and one past its last offset, as OffsetForLeaderEpoch
    /// answers; (-1, -1) when unknown. An epoch below every known one answers the first known
    /// epoch's start, as a log whose beginning was deleted must.
    pub fn end_offset(&self, epoch: LeaderEpoch, log_end: Offset) -> (LeaderEpoch, Offset) {
        const UNKNOWN: (LeaderEpoch, Offset) = (LeaderEpoch(-1), Offset(-1));
        let Some(latest) = self.latest() else { return UNKNOWN };
        if epoch.0 < 0 || epoch > latest {
            return UNKNOWN;
        }
        if epoch == latest {
            return (epoch, log_end);
        }
        let after = self.starts.partition_point(|(known, _)| *known <= epoch);
        let end = self.starts[after].1;
        after.checked_sub(1).map_or((epoch, end), |at| (self.starts[at].0, end))
    }

    /// Forgets what lies wholly below `log_start`; the epoch that covers it starts there.
    pub fn trim(&mut self, log_start: Offset) {
        let after = self.starts.partition_point(|(_, start)| *start <= log_start);
        if let Some(covering) = after.checked_sub(1) {
            self.starts.drain(..covering);
            self.starts[0].1 = self.starts[0].1.max(log_start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs() -> Epochs {
        let mut epochs = Epochs::default();
        epochs.begin(LeaderEpoch(2), Offset(0));
        epochs.begin(LeaderEpoch(2), Offset(7));
        epochs.begin(LeaderEpoch(4), Offset(10));
        epochs.begin(LeaderEpoch(6), Offset(25));
        epochs
    }

    #[test]
    fn an_epoch_ends_where_the_next_begins() {
        let epochs = epochs();
        let ask = |epoch| epochs.end_offset(LeaderEpoch(epoch), Offset(40));
        assert_eq!(ask(2), (LeaderEpoch(2), Offset(10)));
        assert_eq!(ask(3), (LeaderEpoch(2), Offset(10)));
        assert_eq!(ask(4), (LeaderEpoch(4), Offset(25)));
        assert_eq!(ask(6), (LeaderEpoch(6), Offset(40)));
        assert_eq!(ask(7), (LeaderEpoch(-1), Offset(-1)));
        assert_eq!(ask(0), (LeaderEpoch(0), Offset(0)));
        assert_eq!(epochs.epoch_of(Offset(24)), Some(LeaderEpoch(4)));
    }

    #[test]
    fn below_the_log_start_the_next_higher_epochs_start_is_answered() {
        let mut epochs = epochs();
        epochs.trim(Offset(12));
        assert_eq!(epochs.starts(), [(LeaderEpoch(4), Offset(12)), (LeaderEpoch(6), Offset(25))]);
        assert_eq!(epochs.end_offset(LeaderEpoch(2), Offset(40)), (LeaderEpoch(2), Offset(12)));
    }
}
