//! What all members together see: which groups are stable, what was asked and how long answers took. Knows
//! nothing of connections or protocols: a generation here is a generation or an epoch.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use wire::ErrorCode;

/// A member: the number of its group, and its own in there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub group: usize,
    pub member: usize,
}

/// What a member believes to have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    generation: i32,
    partitions: Vec<i32>,
}

/// One group as its members see it.
#[derive(Clone, Debug)]
struct Group {
    views: Vec<Option<View>>,
    stable: bool,
}

/// What has happened since it was last told.
#[derive(Debug, Default)]
struct Figures {
    /// How long answers to heartbeats took, refusals included.
    beats: Vec<Duration>,
    /// Answers that sent a member back, to any request, by error.
    refused: BTreeMap<String, u64>,
    joins: u64,
    /// How many times a group became stable.
    settled: u64,
    left: u64,
    broken: u64,
}

/// All groups.
#[derive(Debug)]
pub struct Board {
    groups: Vec<Group>,
    partitions: usize,
    stable: usize,
    figures: Figures,
}

impl Board {
    /// Groups whose members have nothing yet.
    pub fn new(groups: usize, members: usize, partitions: usize) -> Self {
        let group = Group {
            views: vec![None; members],
            stable: false,
        };
        Self {
            groups: vec![group; groups],
            partitions,
            stable: 0,
            figures: Figures::default(),
        }
    }

    /// Whether every group is stable.
    pub fn is_stable(&self) -> bool {
        self.stable == self.groups.len()
    }

    /// A member has an assignment of a generation; says whether every group is stable by that.
    pub fn has(&mut self, place: Place, generation: i32, partitions: &[i32]) -> bool {
        let group = &mut self.groups[place.group];
        let view = &mut group.views[place.member];
        let same = view
            .as_ref()
            .is_some_and(|it| it.generation == generation && it.partitions == partitions);
        if same {
            return false;
        }
        *view = Some(View {
            generation,
            partitions: partitions.to_vec(),
        });
        self.judge(place.group);
        self.is_stable()
    }

    /// A member has nothing any more.
    pub fn has_nothing(&mut self, place: Place) {
        self.groups[place.group].views[place.member] = None;
        self.judge(place.group);
    }

    fn judge(&mut self, number: usize) {
        let group = &mut self.groups[number];
        let stable = is_shared_out(&group.views, self.partitions);
        match (group.stable, stable) {
            (false, true) => {
                self.stable += 1;
                self.figures.settled += 1;
            }
            (true, false) => self.stable -= 1,
            _ => {}
        }
        group.stable = stable;
    }

    /// A member asks to be let in.
    pub fn joins(&mut self) {
        self.figures.joins += 1;
    }

    /// A member has left because it was told to.
    pub fn left(&mut self) {
        self.figures.left += 1;
    }

    /// A connection broke, or nothing came in time.
    pub fn broke(&mut self) {
        self.figures.broken += 1;
    }

    /// A heartbeat was answered.
    pub fn beat(&mut self, took: Duration) {
        self.figures.beats.push(took);
    }

    /// A request was refused.
    pub fn refused(&mut self, error: ErrorCode) {
        let name = client::code_name(error);
        *self.figures.refused.entry(name).or_default() += 1;
    }

    /// What has happened since this was last asked.
    pub fn take_figures(&mut self) -> Value {
        let Figures {
            mut beats,
            refused,
            joins,
            settled,
            left,
            broken,
        } = std::mem::take(&mut self.figures);
        beats.sort_unstable();
        let quantile = |per_mille: usize| {
            let place = (beats.len() * per_mille / 1_000).min(beats.len().saturating_sub(1));
            beats.get(place).map(|it| it.as_secs_f64() * 1e3)
        };
        json!({
            "stable_groups": self.stable,
            "heartbeats": beats.len(),
            "heartbeat_p50_ms": quantile(500),
            "heartbeat_p99_ms": quantile(990),
            "heartbeat_max_ms": quantile(1_000),
            "refused": refused,
            "joins": joins,
            "settled": settled,
            "left": left,
            "broken": broken,
        })
    }
}

/// Whether all members are in one generation, each partition has exactly one of them, and nobody has two more
/// than another: who has come to have all, or nothing, waits for a share still.
fn is_shared_out(views: &[Option<View>], partitions: usize) -> bool {
    let Some(Some(first)) = views.first() else {
        return false;
    };
    let mut owned = vec![false; partitions];
    let each = partitions / views.len();
    for view in views {
        let Some(view) = view else {
            return false;
        };
        if !(each..=each + 1).contains(&view.partitions.len()) {
            return false;
        }
        if view.generation != first.generation {
            return false;
        }
        for index in &view.partitions {
            let index = usize::try_from(*index).ok();
            let Some(owned) = index.and_then(|it| owned.get_mut(it)) else {
                return false;
            };
            if std::mem::replace(owned, true) {
                return false;
            }
        }
    }
    owned.iter().all(|it| *it)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Place = Place {
        group: 0,
        member: 0,
    };
    const SECOND: Place = Place {
        group: 0,
        member: 1,
    };

    #[test]
    fn a_group_is_stable_when_one_generation_of_it_has_each_partition_once() {
        let mut board = Board::new(1, 2, 3);
        assert!(!board.has(FIRST, 1, &[0, 1, 2]), "the other has not joined");
        assert!(!board.has(SECOND, 2, &[]), "of another generation");
        assert!(!board.has(FIRST, 2, &[0, 1]), "nobody has the last one");
        assert!(!board.has(SECOND, 2, &[1, 2]), "both have one");
        board.has(FIRST, 2, &[0, 1, 2]);
        assert!(!board.has(SECOND, 2, &[]), "one has all");
        board.has(FIRST, 2, &[0, 1]);
        assert!(!board.has(SECOND, 2, &[2, 3]), "there is no such partition");
        assert!(board.has(SECOND, 2, &[2]));
        assert!(!board.has(SECOND, 2, &[2]), "it was stable before");
        assert!(board.is_stable());
        board.has_nothing(FIRST);
        assert!(!board.is_stable());
    }

    #[test]
    fn figures_are_of_the_time_since_they_were_last_taken() {
        let mut board = Board::new(1, 1, 1);
        for ms in 1..=100 {
            board.beat(Duration::from_millis(ms));
        }
        board.refused(ErrorCode::RebalanceInProgress);
        let figures = board.take_figures();
        assert_eq!(figures["heartbeats"], 100);
        assert_eq!(figures["heartbeat_p99_ms"], 100.0);
        assert_eq!(figures["heartbeat_max_ms"], 100.0);
        assert_eq!(figures["refused"]["REBALANCE_IN_PROGRESS"], 1);
        assert_eq!(board.take_figures()["heartbeats"], 0);
    }
}
