//! What a comparison is made of: trials of two contenders, in pairs. Pure: knows no process and no file.

use serde::Serialize;

use crate::results::RunResult;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// corelog.
    Corelog,
    /// Apache Kafka.
    Kafka,
}

/// What an acknowledgement promises on both, with `acks=all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// The record is on the disk and flushed: no loss of power loses it.
    Flushed,
    /// No flush is waited for: the record survives the broker's end, and not the machine's.
    Written,
}

/// How much is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// As fast as acknowledgements come.
    Closed,
    /// At this percentage of the weaker contender's closed loop, on schedule.
    Open(u32),
}

/// One measured run.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The workload's name.
    pub workload: String,
    /// The guarantee.
    pub tier: Tier,
    /// The load.
    pub load: Load,
    /// Which repeat, from 1. The trials of both contenders in a repeat are a pair.
    pub repeat: u32,
    /// Who.
    pub contender: Contender,
    /// What came of it.
    pub result: RunResult,
}

impl Contender {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Corelog => "corelog",
            Self::Kafka => "kafka",
        }
    }

    /// Both, in the order of a repeat: who is first changes, so that a drift of the machine favours
    /// neither.
    pub fn order(repeat: u32) -> [Self; 2] {
        match repeat % 2 {
            1 => [Self::Corelog, Self::Kafka],
            _ => [Self::Kafka, Self::Corelog],
        }
    }
}

impl Tier {
    /// Both, the stronger first.
    pub const ALL: [Self; 2] = [Self::Flushed, Self::Written];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flushed => "flushed",
            Self::Written => "written",
        }
    }

    /// The tier of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == name)
    }
}

impl Load {
    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::Closed => "closed".to_owned(),
            Self::Open(percent) => format!("open-{percent}"),
        }
    }
}

/// What the weaker contender takes, in records per second: the smaller of both medians over the repeats
/// of the closed loop. `None` until both were measured.
pub fn weaker_rate(trials: &[Trial], workload: &str, tier: Tier) -> Option<f64> {
    let of = |contender| {
        let rates = trials
            .iter()
            .filter(|trial| {
                trial.workload == workload
                    && trial.tier == tier
                    && trial.load == Load::Closed
                    && trial.contender == contender
            })
            .map(|trial| trial.result.counts.acked_per_second);
        median(rates.collect())
    };
    let (corelog, kafka) = (of(Contender::Corelog)?, of(Contender::Kafka)?);
    Some(corelog.min(kafka))
}

/// The middle value, or the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[half]),
        _ => Some((values[half - 1] + values[half]) / 2.0),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A trial of a closed loop.
    pub fn closed(contender: Contender, repeat: u32, rate: f64) -> Trial {
        let mut result = RunResult {
            measured_seconds: 10.0,
            closed_loop: true,
            ..RunResult::default()
        };
        result.counts.acked_per_second = rate;
        Trial {
            workload: "steady".to_owned(),
            tier: Tier::Flushed,
            load: Load::Closed,
            repeat,
            contender,
            result,
        }
    }

    #[test]
    fn the_weaker_contender_sets_the_rate_by_its_median() {
        let mut trials = Vec::new();
        for (repeat, rate) in [(1, 50.0), (2, 70.0), (3, 10.0)] {
            assert_eq!(weaker_rate(&trials[..0], "steady", Tier::Flushed), None);
            trials.push(closed(Contender::Kafka, repeat, rate));
            trials.push(closed(Contender::Corelog, repeat, 90.0));
        }
        assert_eq!(weaker_rate(&trials, "steady", Tier::Flushed), Some(50.0));
        assert_eq!(weaker_rate(&trials, "steady", Tier::Written), None);
    }

    #[test]
    fn who_is_first_changes_with_each_repeat() {
        let first: Vec<Contender> = (1..=3).map(|repeat| Contender::order(repeat)[0]).collect();
        let (corelog, kafka) = (Contender::Corelog, Contender::Kafka);
        assert_eq!(first, [corelog, kafka, corelog]);
    }
}
