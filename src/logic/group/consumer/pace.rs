//! How often a group's partitions are shared out, and how soon its members are to be heard again because of
//! it. Partitions wait for who gives them back, and nobody is told anything but in the answer to its own
//! heartbeat: so members whose share is not settled are asked back soon. Knows nothing of who has what.

use wire::group_records::MemberState;

use crate::group::turn::Turn;
use crate::ids::Instant;

/// For so long after partitions were shared out others are expected to follow those who have just joined:
/// who was told of its share meanwhile is asked back at the end.
const SETTLING_MS: u64 = 1_000;
/// Who waits for partitions that others are to give back is asked back after so long, at the soonest.
const WAITING_MS_MIN: u64 = 250;

/// One group's pace.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When partitions were shared out last, since the group was loaded or had no members.
    shared_out_at: Option<Instant>,
    /// They are to be shared out again, not before this moment.
    put_off_until: Option<Instant>,
}

impl Pace {
    /// Whether partitions that are to be shared out may be so now. If not, they are at a later moment.
    pub(super) fn allows(&mut self, urgent: bool, turn: &Turn<'_>) -> bool {
        let now = turn.now.instant;
        let interval_ms = turn.times.assignment_interval_ms;
        let earliest = self.shared_out_at.map(|at| at.plus_ms(interval_ms));
        self.put_off_until = earliest.filter(|at| *at > now && !urgent);
        if self.put_off_until.is_some() {
            return false;
        }
        self.shared_out_at = Some(now);
        true
    }

    /// The moment to which sharing out was put off.
    pub(super) fn put_off_until(&self) -> Option<Instant> {
        self.put_off_until
    }

    /// After how many milliseconds a member is to be heard again. Who waits for others is asked back less
    /// and less often, as they may have as long as they like to give back.
    pub(super) fn next_heartbeat_ms(&self, state: MemberState, turn: &Turn<'_>) -> i32 {
        let regular = turn.times.heartbeat_interval_ms;
        let Some(shared_out_at) = self.shared_out_at else {
            return regular;
        };
        let now = turn.now.instant;
        let age_ms = now.ms_since(shared_out_at);
        let wanted_ms = if state == MemberState::UnreleasedPartitions {
            WAITING_MS_MIN.max(age_ms / 2)
        } else if let Some(until) = self.put_off_until {
            until.ms_since(now)
        } else if age_ms < SETTLING_MS {
            SETTLING_MS - age_ms
        } else {
            return regular;
        };
        i32::try_from(wanted_ms).map_or(regular, |wanted_ms| wanted_ms.clamp(1, regular))
    }
}
