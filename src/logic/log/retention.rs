//! Which segments `retention.bytes` and `retention.ms` let go, by Kafka's rules, and when the wall
//! clock may be believed for it. Knows neither files nor who asks.

use super::Log;
use super::segment::Segment;
use crate::ids::{Instant, Offset};

/// How far the wall clock may run ahead of the monotonic one between two looks without counting as a
/// jump: time servers correct by less.
const JUMP_MS: i64 = 60_000;

/// The topic configs that limit how much of a log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `cleanup.policy` holds `delete`.
    pub deletes: bool,
    /// `retention.ms`; negative for ever.
    pub retention_ms: i64,
    /// `retention.bytes`; negative without limit.
    pub retention_bytes: i64,
    /// `message.timestamp.after.max.ms`: a timestamp further ahead of the clock than this could not be
    /// appended now, so it says nothing of a segment's age.
    pub timestamp_after_ms_max: i64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            deletes: true,
            retention_ms: 7 * 24 * 3_600 * 1_000,
            retention_bytes: -1,
            timestamp_after_ms_max: 3_600_000,
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Keep,
    /// The largest timestamp of the segment with this base offset must be known first.
    Look(Offset),
    /// Every segment below this offset goes, and the log starts there. At the log's end that includes
    /// the active segment, which is sealed first.
    DeleteBelow(Offset),
}

/// Judges a log. `wall_ms` is the wall clock, if it may be believed: without it nothing goes by age.
/// Nothing at or above the high watermark ever goes.
///
/// As in Kafka, the oldest segments go while what is left holds at least `retention.bytes`, then
/// while their largest timestamp is older than `retention.ms`; an empty active segment stays.
pub fn decide(log: &Log, rules: &Rules, wall_ms: Option<i64>, high_watermark: Offset) -> Verdict {
    let mut excess = match u64::try_from(rules.retention_bytes) {
        Ok(most) => log.size_bytes().saturating_sub(most),
        Err(_) => 0,
    };
    let mut below = None;
    if !rules.deletes {
        return Verdict::Keep;
    }
    let mut segments = log.segments().peekable();
    while let Some(segment) = segments.next() {
        let next = segments.peek().map(|next| next.base);
        let end = next.unwrap_or(log.log_end());
        let empty = next.is_none() && segment.size == 0;
        if end > high_watermark || empty {
            break;
        }
        let size = u64::from(segment.size);
        if excess > 0 && excess >= size {
            excess -= size;
        } else {
            excess = 0;
            match is_expired(segment, rules, wall_ms) {
                // What is known to go goes first: the look-up comes with the next question.
                None if below.is_none() => return Verdict::Look(segment.base),
                Some(true) => {}
                _ => break,
            }
        }
        below = Some(end);
    }
    below.map_or(Verdict::Keep, Verdict::DeleteBelow)
}

/// Whether all of a segment is older than `retention.ms`, if that is known.
fn is_expired(segment: &Segment, rules: &Rules, wall_ms: Option<i64>) -> Option<bool> {
    let Some(wall_ms) = wall_ms.filter(|_| rules.retention_ms >= 0) else {
        return Some(false);
    };
    let newest = newest_ms(segment, rules, wall_ms)?;
    Some(wall_ms.saturating_sub(newest) > rules.retention_ms)
}

/// The time of a segment's newest record; `None` when its largest timestamp is not known. Without a
/// timestamp that can be believed, the time of its last append counts.
pub(super) fn newest_ms(segment: &Segment, rules: &Rules, wall_ms: i64) -> Option<i64> {
    let largest = segment.max_timestamp?.timestamp.0;
    let newest_possible = wall_ms.saturating_add(rules.timestamp_after_ms_max);
    let believed = (0..=newest_possible).contains(&largest);
    Some(if believed {
        largest
    } else {
        segment.appended_ms
    })
}

/// Says when the wall clock may be believed. A clock that was set forward makes every record look
/// old at once; so after each jump, and after the start, which may be one, it must keep step with the
/// monotonic clock for a while first. A clock that was set back only makes records younger.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    last: (Instant, i64),
    /// Since when it has kept step.
    steady: Instant,
}

impl Clock {
    /// At the start.
    pub fn new(now: Instant, wall_ms: i64) -> Self {
        Self {
            last: (now, wall_ms),
            steady: now,
        }
    }

    /// A look at both clocks: the wall clock, if it has kept step for at least `settle_ms`.
    pub fn look(&mut self, now: Instant, wall_ms: i64, settle_ms: u64) -> Option<i64> {
        let (before, wall_before) = self.last;
        let elapsed_ms = now.0.saturating_sub(before.0) / 1_000_000;
        let elapsed_ms = i64::try_from(elapsed_ms).unwrap_or(i64::MAX);
        let expected = wall_before.saturating_add(elapsed_ms);
        if wall_ms.saturating_sub(expected) > JUMP_MS {
            self.steady = now;
        }
        self.last = (now, wall_ms);
        (self.steady.plus_ms(settle_ms) <= now).then_some(wall_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{PartitionId, TopicId};
    use crate::log::Config;
    use crate::log::samples::header;

    /// Three segments of 1,000 bytes and an active one of 500; the timestamps in each are those of
    /// its appends: 1,000, 2,000, 3,000 and 4,000.
    fn log(timestamps: [i64; 4]) -> Log {
        let config = Config {
            segment_bytes: 1_000,
            ..Config::default()
        };
        let id = PartitionId {
            topic: TopicId([7; 16]),
            index: 0,
        };
        let mut log = Log::new(id, config, 0);
        for at in 0..7 {
            let (segment, appended) = ((at / 2) as usize, (at / 2 + 1) * 1_000);
            log.append(appended, &header(at * 10, 10, timestamps[segment], 500));
        }
        log
    }

    fn by_time(timestamps: [i64; 4], wall_ms: i64, high_watermark: i64) -> Verdict {
        let rules = Rules {
            retention_ms: 100,
            timestamp_after_ms_max: 1_000,
            ..Rules::default()
        };
        let log = log(timestamps);
        decide(&log, &rules, Some(wall_ms), Offset(high_watermark))
    }

    const BELOW: fn(i64) -> Verdict = |offset| Verdict::DeleteBelow(Offset(offset));
    const TIMES: [i64; 4] = [1_000, 2_000, 3_000, 4_000];

    #[test]
    fn segments_go_once_their_largest_timestamp_is_older_than_the_retention() {
        for (wall_ms, verdict) in [
            (1_100, Verdict::Keep),
            (1_101, BELOW(20)),
            (2_101, BELOW(40)),
            (4_100, BELOW(60)),
            (4_101, BELOW(70)),
        ] {
            assert_eq!(by_time(TIMES, wall_ms, 70), verdict, "at {wall_ms}");
        }
    }

    #[test]
    fn a_younger_segment_protects_those_behind_it() {
        assert_eq!(
            by_time([5_000, 2_000, 3_000, 4_000], 4_500, 70),
            Verdict::Keep
        );
        assert_eq!(by_time([1_000, 5_000, 3_000, 4_000], 4_500, 70), BELOW(20));
    }

    #[test]
    fn nothing_at_or_above_the_high_watermark_goes() {
        assert_eq!(by_time(TIMES, 9_000, 39), BELOW(20));
        assert_eq!(by_time(TIMES, 9_000, 19), Verdict::Keep);
        assert_eq!(by_time(TIMES, 9_000, 69), BELOW(60));
    }

    #[test]
    fn without_a_believable_timestamp_the_last_append_counts() {
        let missing = [-1, -1, -1, -1];
        assert_eq!(by_time(missing, 1_100, 70), Verdict::Keep);
        assert_eq!(by_time(missing, 2_101, 70), BELOW(40));
        let future = [i64::MAX, 2_000, 3_000, 4_000];
        assert_eq!(by_time(future, 1_100, 70), Verdict::Keep);
        assert_eq!(
            by_time(future, 2_101, 70),
            BELOW(40),
            "no record pins a log for ever"
        );
        let soon = [2_500, 2_000, 3_000, 4_000];
        assert_eq!(
            by_time(soon, 2_101, 70),
            Verdict::Keep,
            "as it does in Kafka"
        );
    }

    #[test]
    fn by_size_the_oldest_go_while_enough_is_left() {
        let log = log(TIMES);
        for (retention_bytes, verdict) in [
            (-1, Verdict::Keep),
            (4_000, Verdict::Keep),
            (2_501, Verdict::Keep),
            (2_500, BELOW(20)),
            (1_500, BELOW(40)),
            (500, BELOW(60)),
            (1, BELOW(60)),
            (0, BELOW(70)),
        ] {
            let rules = Rules {
                retention_bytes,
                ..Rules::default()
            };
            let decided = decide(&log, &rules, Some(5_000), Offset(70));
            assert_eq!(decided, verdict, "{retention_bytes} bytes");
        }
    }

    #[test]
    fn size_and_age_add_up() {
        let rules = Rules {
            retention_bytes: 2_500,
            retention_ms: 100,
            ..Rules::default()
        };
        assert_eq!(
            decide(&log(TIMES), &rules, Some(2_200), Offset(70)),
            BELOW(40)
        );
        assert_eq!(decide(&log(TIMES), &rules, None, Offset(70)), BELOW(20));
    }

    #[test]
    fn without_delete_in_the_policy_nothing_goes() {
        let rules = Rules {
            deletes: false,
            retention_bytes: 0,
            retention_ms: 0,
            ..Rules::default()
        };
        let kept = decide(&log(TIMES), &rules, Some(i64::MAX), Offset(70));
        assert_eq!(kept, Verdict::Keep);
    }

    #[test]
    fn an_unknown_largest_timestamp_is_asked_for() {
        let mut log = log(TIMES);
        let unknown = |log: &mut Log, base| {
            let segment = log.segment_mut(Offset(base)).expect("there");
            segment.max_timestamp = None;
        };
        let rules = Rules {
            retention_ms: 100,
            ..Rules::default()
        };
        unknown(&mut log, 20);
        let decided = |log: &Log| decide(log, &rules, Some(9_000), Offset(70));
        assert_eq!(decided(&log), BELOW(20));
        unknown(&mut log, 0);
        assert_eq!(decided(&log), Verdict::Look(Offset(0)));
    }

    #[test]
    fn an_empty_log_is_left_alone() {
        let id = PartitionId {
            topic: TopicId([7; 16]),
            index: 0,
        };
        let log = Log::new(id, Config::default(), 0);
        let rules = Rules {
            retention_bytes: 0,
            retention_ms: 0,
            ..Rules::default()
        };
        assert_eq!(decide(&log, &rules, Some(9_000), Offset(0)), Verdict::Keep);
    }

    #[test]
    fn a_clock_set_forward_is_believed_only_after_it_kept_step_for_a_while() {
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        let mut clock = Clock::new(at(0), 1_000_000);
        assert_eq!(clock.look(at(30), 1_030_000, 300_000), None);
        assert_eq!(clock.look(at(300), 1_300_000, 300_000), Some(1_300_000));
        let year = 31_536_000_000;
        assert_eq!(clock.look(at(600), 1_600_000 + year, 300_000), None);
        assert_eq!(clock.look(at(899), 1_899_000 + year, 300_000), None);
        let believed = 1_900_000 + year;
        assert_eq!(clock.look(at(900), believed, 300_000), Some(believed));
        assert_eq!(clock.look(at(901), 5, 300_000), Some(5), "set back");
        assert_eq!(clock.look(at(902), 1_902_000, 300_000), None, "and forward");
    }
}
