//! When records are due in an open loop: fixed before the first is sent, so that a slow broker delays
//! records and never thins them out. Pure: times are nanoseconds since the start, seeds are given.

use fastrand::Rng;

use crate::workload::{Arrivals, Workload};

/// The due times of one producer's records. Together the producers keep the workload's rate.
#[derive(Clone, Debug)]
pub struct Schedule {
    shape: Shape,
    /// How many records all producers have sent when this one's next is due.
    position: f64,
    /// How far this producer's records lie apart, in records of all producers.
    stride: f64,
    random: Option<Rng>,
}

/// How many records are due until a time, solved for the time.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Constant {
        rate: f64,
    },
    /// `from` until `begin`, then growing evenly to `rate`, which is reached after `length`.
    Ramp {
        from: f64,
        rate: f64,
        begin: f64,
        length: f64,
    },
    /// `rate`, and for the last `length` of every `every` seconds, `spike`.
    Spike {
        rate: f64,
        spike: f64,
        every: f64,
        length: f64,
    },
}

impl Schedule {
    /// The schedule of this producer; `None` for a closed loop, which has none.
    pub fn new(workload: &Workload, producer: u32) -> Option<Self> {
        let rate = workload.rate?;
        let shape = match workload.arrivals {
            Arrivals::Constant | Arrivals::Poisson => Shape::Constant { rate },
            Arrivals::Ramp { from } => Shape::Ramp {
                from,
                rate,
                begin: workload.warm_up.as_secs_f64(),
                length: workload.duration.as_secs_f64(),
            },
            Arrivals::Spike {
                rate: spike,
                every,
                length,
            } => Shape::Spike {
                rate,
                spike,
                every: every.as_secs_f64(),
                length: length.as_secs_f64(),
            },
        };
        let stride = f64::from(workload.producers);
        let seed = workload
            .seed
            .wrapping_mul(0x9e37_79b9)
            .wrapping_add(u64::from(producer));
        let mut schedule = Self {
            shape,
            position: f64::from(producer),
            stride,
            random: None,
        };
        if workload.arrivals == Arrivals::Poisson {
            schedule.random = Some(Rng::with_seed(seed));
            schedule.position = 0.0;
            schedule.advance();
        }
        Some(schedule)
    }

    /// When the next record is due.
    pub fn next_due_ns(&mut self) -> u64 {
        let due = self.shape.time_of(self.position);
        self.advance();
        (due * 1e9) as u64
    }

    fn advance(&mut self) {
        self.position += match &mut self.random {
            None => self.stride,
            Some(random) => -(1.0 - random.f64()).ln() * self.stride,
        };
    }
}

/// How many records have become due, of all producers, counted as time goes on.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// Each producer's schedule and when its next record is due.
    producers: Vec<(Schedule, u64)>,
    /// When the measured time begins.
    begin_ns: u64,
    /// Of what was due so far: what was due in the measured time.
    pub measured: u64,
}

impl Arrived {
    /// Nothing yet; `None` in a closed loop, where nothing is due by itself.
    pub fn new(workload: &Workload, begin_ns: u64) -> Option<Self> {
        let next = |producer| {
            let mut schedule = Schedule::new(workload, producer)?;
            let due = schedule.next_due_ns();
            Some((schedule, due))
        };
        let producers: Option<Vec<_>> = (0..workload.producers).map(next).collect();
        Some(Self {
            producers: producers?,
            begin_ns,
            measured: 0,
        })
    }

    /// How many have become due since the last time, before `now_ns`.
    pub fn until(&mut self, now_ns: u64) -> u64 {
        let mut count = 0;
        for (schedule, due_ns) in &mut self.producers {
            while *due_ns < now_ns {
                count += 1;
                self.measured += u64::from(*due_ns >= self.begin_ns);
                *due_ns = schedule.next_due_ns();
            }
        }
        count
    }
}

impl Shape {
    /// When, in seconds, `records` have become due.
    fn time_of(self, records: f64) -> f64 {
        match self {
            Self::Constant { rate } => records / rate,
            Self::Ramp {
                from,
                rate,
                begin,
                length,
            } => {
                let before = from * begin;
                let during = (from + rate) / 2.0 * length;
                if records <= before {
                    records / from
                } else if records >= before + during {
                    begin + length + (records - before - during) / rate
                } else {
                    begin + ramp_time(from, (rate - from) / length, records - before)
                }
            }
            Self::Spike {
                rate,
                spike,
                every,
                length,
            } => {
                let calm = rate * (every - length);
                let period = calm + spike * length;
                let periods = (records / period).floor();
                let rest = records - periods * period;
                let within = if rest <= calm {
                    rest / rate
                } else {
                    every - length + (rest - calm) / spike
                };
                periods * every + within
            }
        }
    }
}

/// When `records` are due at a rate of `from + growth * t`.
fn ramp_time(from: f64, growth: f64, records: f64) -> f64 {
    // This form of the quadratic's root stays exact when the rate hardly grows.
    let root = (from * from + 2.0 * growth * records).max(0.0).sqrt();
    2.0 * records / (from + root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::layers;

    const SEED: u64 = 5;

    /// The due times, in seconds, of all producers together, in order, up to `until`.
    fn due(flags: &[(&str, &str)], until: f64) -> Vec<f64> {
        let flags: Vec<_> = flags
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let loaded = layers::load("steady", &flags).unwrap_or_else(|faults| panic!("{faults}"));
        let mut workload = loaded.workload;
        workload.seed = SEED;
        let mut times = Vec::new();
        for producer in 0..workload.producers {
            let mut schedule = Schedule::new(&workload, producer).expect("open loop");
            let next = || Some(schedule.next_due_ns() as f64 / 1e9);
            times.extend(std::iter::from_fn(next).take_while(|time| *time < until));
        }
        times.sort_by(f64::total_cmp);
        times
    }

    fn between(times: &[f64], from: f64, to: f64) -> usize {
        times
            .iter()
            .filter(|time| (from..to).contains(*time))
            .count()
    }

    #[test]
    fn constant_arrivals_of_many_producers_interleave_at_equal_distances() {
        let times = due(&[("rate", "1000"), ("producers", "3")], 2.0);
        assert_eq!(times.len(), 2_000);
        for (number, time) in times.iter().enumerate() {
            assert!(
                (time - number as f64 / 1000.0).abs() < 2e-9,
                "{number}: {time}"
            );
        }
    }

    #[test]
    fn poisson_arrivals_keep_the_rate_and_are_spread_as_their_law_says() {
        let flags = [
            ("rate", "1000"),
            ("producers", "3"),
            ("arrivals", "poisson"),
        ];
        let times = due(&flags, 100.0);
        let found = times.len() as f64;
        assert!(
            (found / 100_000.0 - 1.0).abs() < 0.02,
            "seed {SEED}: {found}"
        );
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        let long = gaps.filter(|gap| *gap > 1e-3).count() as f64 / found;
        let expected = (-1.0_f64).exp();
        assert!((long - expected).abs() < 0.01, "seed {SEED}: {long}");
    }

    #[test]
    fn a_ramp_grows_evenly_from_its_start_through_the_measured_time() {
        let flags = [
            ("rate", "1000"),
            ("arrivals", "ramp(200)"),
            ("warm-up", "5s"),
            ("duration", "10s"),
        ];
        let times = due(&flags, 20.0);
        assert_eq!(between(&times, 0.0, 5.0), 1_000);
        assert!(between(&times, 5.0, 6.0).abs_diff(240) <= 1);
        assert!(between(&times, 9.5, 10.5).abs_diff(600) <= 1);
        assert!(between(&times, 14.0, 15.0).abs_diff(960) <= 1);
        assert!(between(&times, 16.0, 17.0).abs_diff(1_000) <= 1);
    }

    #[test]
    fn spikes_come_at_their_rate_for_their_length() {
        let times = due(
            &[("rate", "100"), ("arrivals", "spike(5000, 10s, 1s)")],
            20.0,
        );
        assert!(between(&times, 0.0, 9.0).abs_diff(900) <= 1);
        assert!(between(&times, 9.0, 10.0).abs_diff(5_000) <= 1);
        assert!(between(&times, 10.0, 19.0).abs_diff(900) <= 1);
        assert!(between(&times, 19.0, 20.0).abs_diff(5_000) <= 1);
    }

    #[test]
    fn what_has_arrived_is_counted_once_and_apart_from_the_warm_up() {
        let flags = [("rate", "1000"), ("producers", "3")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let loaded = layers::load("steady", &flags).unwrap_or_else(|faults| panic!("{faults}"));
        const SECOND: u64 = 1_000_000_000;
        let mut arrived = Arrived::new(&loaded.workload, 2 * SECOND).expect("open loop");
        assert_eq!((arrived.until(SECOND), arrived.measured), (1_000, 0));
        assert_eq!((arrived.until(SECOND), arrived.measured), (0, 0));
        assert_eq!(
            (arrived.until(5 * SECOND), arrived.measured),
            (4_000, 3_000)
        );
    }

    #[test]
    fn a_closed_loop_has_no_schedule() {
        let flags = [("rate".to_owned(), "max".to_owned())];
        let loaded = layers::load("steady", &flags).unwrap_or_else(|faults| panic!("{faults}"));
        assert!(Schedule::new(&loaded.workload, 0).is_none());
        assert!(Arrived::new(&loaded.workload, 0).is_none());
    }
}
