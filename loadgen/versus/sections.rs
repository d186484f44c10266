//! Which runs of a comparison its report draws: of each pair of contenders, at each load, the run that
//! stands in the middle of the repeats. Pure.

use super::trial::{Contender, Load, Trial};
use crate::report::Section;
use crate::results::RunResult;

/// A section for each workload, guarantee and load.
pub fn sections(trials: &[Trial]) -> Vec<Section> {
    let mut keys: Vec<_> = trials
        .iter()
        .map(|trial| (&trial.workload, trial.tier, trial.load))
        .collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .map(|(workload, tier, load)| {
            let of = |contender| {
                let trials = trials.iter().filter(|trial| {
                    (&trial.workload, trial.tier, trial.load) == (workload, tier, load)
                        && trial.contender == contender
                });
                middle(trials.map(|trial| &trial.result).collect(), load)
            };
            let runs = [Contender::Corelog, Contender::Kafka].into_iter();
            Section {
                title: format!("{workload}, {}, {}", tier.name(), load.name()),
                runs: runs.filter_map(of).collect(),
            }
        })
        .collect()
}

/// The run in the middle: by its rate in a closed loop, by its 99th percentile in an open one.
fn middle(mut runs: Vec<&RunResult>, load: Load) -> Option<RunResult> {
    let by = |run: &RunResult| match load {
        Load::Closed => run.counts.acked_per_second,
        // What is not known is longer than all that is.
        Load::Open(_) => run
            .latency
            .produce
            .p99
            .map_or(f64::INFINITY, |ns| ns as f64),
    };
    runs.sort_by(|one, other| by(one).total_cmp(&by(other)));
    runs.get(runs.len() / 2).map(|run| (*run).clone())
}

#[cfg(test)]
mod tests {
    use super::super::trial::tests::closed;
    use super::*;

    #[test]
    fn the_run_in_the_middle_is_drawn_for_each_contender() {
        let mut trials = Vec::new();
        for (repeat, rate) in [(1, 30.0), (2, 10.0), (3, 20.0)] {
            trials.push(closed(Contender::Corelog, repeat, rate));
            trials.push(closed(Contender::Kafka, repeat, rate / 2.0));
        }
        let sections = sections(&trials);
        let rates = |section: &Section| {
            let runs = section.runs.iter();
            runs.map(|run| run.counts.acked_per_second)
                .collect::<Vec<_>>()
        };
        assert_eq!(sections.len(), 1);
        assert_eq!(sections[0].title, "steady, flushed, closed");
        assert_eq!(rates(&sections[0]), [20.0, 10.0]);
    }
}
