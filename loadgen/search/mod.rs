//! The search for the highest rate that holds a bound: doubling until one does not, bisection, and the
//! found rate confirmed by three more runs. What else the machine does makes a run worse and never better, so a
//! rate that does not hold is run again at once, and counts as not holding when it does not a second time. A pure
//! machine: it asks for a rate, is told whether that held, and asks for the next.

pub mod bound;

/// How near the highest rate that held and the lowest that did not must come: their ratio.
const PRECISION: f64 = 1.05;
/// How often the found rate must hold again.
const CONFIRMATIONS: u32 = 3;
/// How many rates may hold at first and fail their confirmation before the search gives up.
const REFUTED_MAX: u32 = 3;
/// How many runs a search may take: from 1/s to 10M/s by doubling takes 24.
const TRIALS_MAX: usize = 60;
/// Below this rate nothing is measured.
const RATE_MIN: f64 = 1.0;

/// What the search wants next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ask {
    /// A run at this rate.
    Run {
        /// Records per second.
        rate: f64,
        /// What the run is for.
        purpose: Purpose,
    },
    /// Nothing: it is over.
    Done(Outcome),
}

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To find rates that hold and rates that do not.
    Step,
    /// To come nearer to where the one becomes the other.
    Bisect,
    /// To hold the found rate once more; counted from 1.
    Confirm(u32),
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// This rate held, and held again each time.
    Found {
        /// Records per second.
        rate: f64,
    },
    /// Not even the lowest rate held.
    Nothing,
    /// It took too many runs; this is the highest rate that held, if any did.
    GaveUp {
        /// Records per second.
        best: Option<f64>,
    },
    /// The generator itself could send no more; the broker held what was sent.
    GeneratorLimit {
        /// The highest rate that held, if any did.
        best: Option<f64>,
    },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The bound was held.
    Yes,
    /// It was not.
    No,
    /// The run is invalid: the generator was the limit.
    Invalid,
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    /// The rates that held, rising. All are below `high`.
    held: Vec<f64>,
    /// The lowest that did not.
    high: Option<f64>,
    /// Whether `high` did not because of the generator.
    high_is_ours: bool,
    /// Whether the run that is asked for did not hold once already.
    retried: bool,
    /// How many rates failed their confirmation.
    refuted: u32,
    next: f64,
    purpose: Purpose,
    trials: usize,
    outcome: Option<Outcome>,
}

impl Search {
    /// A search whose first run is at `start` records per second.
    pub fn new(start: f64) -> Self {
        Self {
            held: Vec::new(),
            high: None,
            high_is_ours: false,
            retried: false,
            refuted: 0,
            next: start.max(RATE_MIN),
            purpose: Purpose::Step,
            trials: 0,
            outcome: None,
        }
    }

    /// What is wanted next.
    pub fn ask(&self) -> Ask {
        match self.outcome {
            Some(outcome) => Ask::Done(outcome),
            None => Ask::Run {
                rate: self.next,
                purpose: self.purpose,
            },
        }
    }

    /// How the run that was asked for ended.
    pub fn answer(&mut self, held: Held) {
        assert!(
            self.outcome.is_none(),
            "a search that is over asks for nothing"
        );
        self.trials += 1;
        if held != Held::Yes && !self.retried && self.trials < TRIALS_MAX {
            self.retried = true;
            return;
        }
        self.retried = false;
        match (held, self.purpose) {
            (Held::Yes, Purpose::Confirm(CONFIRMATIONS)) => {
                // Right above it the generator was the limit, so this need not be the broker's.
                self.outcome = Some(if self.high_is_ours {
                    Outcome::GeneratorLimit {
                        best: Some(self.next),
                    }
                } else {
                    Outcome::Found { rate: self.next }
                });
                return;
            }
            (Held::Yes, Purpose::Confirm(times)) => self.purpose = Purpose::Confirm(times + 1),
            (Held::Yes, _) => self.held.push(self.next),
            (Held::No | Held::Invalid, purpose) => {
                let is_refuted = matches!(purpose, Purpose::Confirm(_));
                self.refuted += u32::from(is_refuted);
                // Where a rate held once and not again, those right below it would do the same.
                let high = match is_refuted {
                    true => self.next / PRECISION,
                    false => self.next,
                };
                self.high = Some(high);
                self.high_is_ours = held == Held::Invalid;
                self.held.retain(|rate| *rate < high);
            }
        }
        if self.trials >= TRIALS_MAX || self.refuted > REFUTED_MAX {
            let best = self.held.last().copied();
            self.outcome = Some(Outcome::GaveUp { best });
            return;
        }
        let confirming = matches!(self.purpose, Purpose::Confirm(_)) && held == Held::Yes;
        if !confirming {
            self.choose();
        }
    }

    /// How many runs there were so far.
    pub fn trials(&self) -> usize {
        self.trials
    }

    fn choose(&mut self) {
        let (next, purpose) = match (self.held.last().copied(), self.high) {
            (Some(low), None) => (low * 2.0, Purpose::Step),
            (None, Some(high)) => (high / 2.0, Purpose::Step),
            (Some(low), Some(high)) if high / low <= PRECISION => (low, Purpose::Confirm(1)),
            // The middle of a ratio is its geometric mean.
            (Some(low), Some(high)) => ((low * high).sqrt(), Purpose::Bisect),
            (None, None) => unreachable!("an answer sets one of them"),
        };
        if next < RATE_MIN {
            self.outcome = Some(Outcome::Nothing);
            return;
        }
        (self.next, self.purpose) = (next, purpose);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search against a broker that answers by `held`; returns its end and every rate asked for.
    fn search(start: f64, mut held: impl FnMut(f64, Purpose) -> Held) -> (Outcome, Vec<f64>) {
        let mut search = Search::new(start);
        let mut rates = Vec::new();
        loop {
            match search.ask() {
                Ask::Done(outcome) => return (outcome, rates),
                Ask::Run { rate, purpose } => {
                    rates.push(rate);
                    search.answer(held(rate, purpose));
                }
            }
        }
    }

    fn up_to(limit: f64) -> impl FnMut(f64, Purpose) -> Held {
        move |rate, _| if rate <= limit { Held::Yes } else { Held::No }
    }

    #[test]
    fn a_sharp_limit_is_found_from_below_and_from_above() {
        for limit in [3.0, 777.0, 50_000.0, 1_234_567.0] {
            for start in [1_000.0, 1_000_000.0] {
                let (outcome, rates) = search(start, up_to(limit));
                let Outcome::Found { rate } = outcome else {
                    panic!("{limit} from {start}: {outcome:?}");
                };
                assert!(rate <= limit && rate > limit / 1.06, "{limit}: {rate}");
                let last: Vec<f64> = rates.iter().rev().take(3).copied().collect();
                assert_eq!(last, [rate; 3], "confirmed three times");
            }
        }
    }

    #[test]
    fn a_rate_that_does_not_hold_again_is_not_the_answer() {
        // Between 40k and 50k a rate holds while it is searched and not when it is confirmed.
        let (outcome, _) = search(1_000.0, |rate, purpose| match purpose {
            Purpose::Confirm(_) if rate > 40_000.0 => Held::No,
            _ if rate > 50_000.0 => Held::No,
            _ => Held::Yes,
        });
        let Outcome::Found { rate } = outcome else {
            panic!("{outcome:?}");
        };
        assert!(rate <= 40_000.0 && rate > 36_000.0, "{rate}");
    }

    #[test]
    fn a_broker_that_holds_nothing_is_said_to_hold_nothing() {
        assert_eq!(search(1_000.0, |_, _| Held::No).0, Outcome::Nothing);
    }

    #[test]
    fn the_generators_own_limit_is_not_called_the_brokers() {
        let (outcome, _) = search(1_000.0, |rate, _| {
            if rate > 60_000.0 {
                Held::Invalid
            } else {
                Held::Yes
            }
        });
        let Outcome::GeneratorLimit { best: Some(rate) } = outcome else {
            panic!("{outcome:?}");
        };
        assert!(rate <= 60_000.0 && rate > 56_000.0, "{rate}");
    }

    #[test]
    fn a_run_that_did_not_hold_by_bad_luck_is_run_again() {
        // One run in four is disturbed, and never two in a row.
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut disturbed = false;
            let (outcome, rates) = search(1_000.0, |rate, _| {
                disturbed = !disturbed && random.f64() < 0.25;
                match rate <= 20_000.0 && !disturbed {
                    true => Held::Yes,
                    false => Held::No,
                }
            });
            let Outcome::Found { rate } = outcome else {
                panic!("seed {seed}: {outcome:?}");
            };
            assert!(rate > 19_000.0, "seed {seed}: {rate}");
            assert!(rates.len() < 35, "seed {seed}: {}", rates.len());
        }
    }

    #[test]
    fn rates_that_fail_their_confirmation_again_and_again_end_the_search() {
        let (outcome, rates) = search(1_000.0, |rate, purpose| match purpose {
            Purpose::Confirm(_) => Held::No,
            _ if rate > 50_000.0 => Held::No,
            _ => Held::Yes,
        });
        let Outcome::GaveUp { best: Some(rate) } = outcome else {
            panic!("{outcome:?}");
        };
        assert!(rate > 30_000.0 && rates.len() < 40, "{rate}: {rates:?}");
    }

    #[test]
    fn a_run_that_was_invalid_by_bad_luck_is_run_again() {
        let mut runs = 0;
        let (outcome, _) = search(1_000.0, |rate, _| {
            runs += 1;
            match () {
                () if runs % 5 == 0 => Held::Invalid,
                () if rate <= 20_000.0 => Held::Yes,
                () => Held::No,
            }
        });
        assert!(
            matches!(outcome, Outcome::Found { rate } if rate > 18_800.0),
            "{outcome:?}"
        );
    }

    #[test]
    fn a_broker_that_answers_at_random_does_not_hold_the_search_for_ever() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (_, rates) = search(
                1_000.0,
                |_, _| {
                    if random.bool() { Held::Yes } else { Held::No }
                },
            );
            assert!(rates.len() <= TRIALS_MAX, "seed {seed}: {}", rates.len());
        }
    }
}
