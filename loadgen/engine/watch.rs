//! The watcher of a run: starts the clock, takes a sample each second, and decides when it is over. Knows
//! nothing of clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use client::Error;

use super::station::{Control, Station};
use super::{Outcome, Plan, Progress, READY_WAIT, START_WAIT, nanoseconds};
use crate::machine::process::{self, Used};
use crate::measure::{Counts, Sample};
use crate::results::{Broker, Second};
use crate::schedule::Arrived;

/// How long one sample is.
const SAMPLE: Duration = Duration::from_secs(1);
/// How often the watcher looks whether it is interrupted.
const LOOK: Duration = Duration::from_millis(20);

/// A run as it is watched.
struct Watch<'a> {
    plan: &'a Plan,
    control: &'a Control,
    stations: &'a [Arc<Station>],
    interrupted: &'a AtomicBool,
    /// Everything since the beginning.
    counts: Counts,
    samples: Vec<Sample>,
    seconds: Vec<Second>,
    broker_before: Option<(Instant, Used)>,
    /// What belongs to the next sample.
    carried: Sample,
    /// In an open loop.
    arrived: Option<Arrived>,
}

/// Watches a run to its end.
///
/// # Errors
/// When the threads do not get ready, or a client cannot start.
pub(super) fn watch(
    plan: &Plan,
    control: &Control,
    stations: &[Arc<Station>],
    broker: Broker,
    interrupted: &AtomicBool,
    observe: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Error> {
    let mut watch = Watch {
        plan,
        control,
        stations,
        interrupted,
        counts: Counts::default(),
        samples: Vec::new(),
        seconds: Vec::new(),
        broker_before: None,
        carried: Sample::default(),
        arrived: Arrived::new(&plan.workload, control.window().0),
    };
    watch.wait_until_ready(observe)?;
    let (started, start) = (SystemTime::now() + START_WAIT, Instant::now() + START_WAIT);
    control.start(start);
    let begin = start + plan.workload.warm_up;
    watch.sleep_through(start, begin, &mut |second| {
        observe(&Progress::WarmUp(second))
    });
    let cpu_before = watch.thread_cpu();
    let beside_before = plan.watched.cpu_beside();
    let broker_before = plan.watched.used();
    let end = begin + plan.workload.duration;
    watch.end_warm_up();
    watch.sleep_through(begin, end, &mut |second| {
        observe(&Progress::Measuring(second))
    });
    control.check_started()?;
    let measured = Instant::now().min(end).saturating_duration_since(begin);
    control.cut(nanoseconds(plan.workload.warm_up + measured));
    let thread_cpu = cpu_before
        .iter()
        .zip(watch.thread_cpu())
        .map(|(before, after)| {
            after.saturating_sub(*before).as_secs_f64() / measured.as_secs_f64().max(1e-9)
        });
    let thread_cpu = thread_cpu.collect();
    let cpu = plan.watched.cpu_beside().saturating_sub(beside_before);
    let broker_after = plan.watched.used();
    watch.drain(observe);
    // Behind a backlog, consumers start late.
    control.check_started()?;
    let broker_cpu = broker_before
        .zip(broker_after)
        .map(|(before, after)| after.cpu.saturating_sub(before.cpu));
    Ok(Outcome {
        started,
        measured,
        due: watch.due(),
        errors: watch.errors(),
        broker: Broker {
            cpu_seconds: broker_cpu.map(|cpu| cpu.as_secs_f64()),
            rss_bytes_max: watch.rss_bytes_max(),
            ..broker
        },
        samples: watch.samples,
        seconds: watch.seconds,
        thread_cpu,
        cpu,
        interrupted: interrupted.load(Ordering::Relaxed),
    })
}

impl Watch<'_> {
    /// Whether what comes would be no use: nobody waits for it, or a client is missing from the load.
    fn is_cut_short(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.control.check_started().is_err()
    }

    /// Waits for all clients to be connected, and for the backlog to be there.
    fn wait_until_ready(&mut self, observe: &mut dyn FnMut(&Progress)) -> Result<(), Error> {
        let deadline = Instant::now() + READY_WAIT;
        while self.control.ready() < self.stations.len() as u64 {
            self.control.check_started()?;
            if Instant::now() > deadline {
                return Err(Error::Timeout {
                    what: "connections of all producers and consumers".into(),
                    waited: READY_WAIT,
                    setting: "the generator's limit for connecting",
                });
            }
            thread::sleep(LOOK);
        }
        let wanted = self.plan.workload.backlog_bytes;
        let mut told = Instant::now();
        while self.control.filled() < wanted && !self.is_cut_short() {
            thread::sleep(LOOK);
            if told.elapsed() >= SAMPLE {
                told = Instant::now();
                observe(&Progress::Filling(self.control.filled(), wanted));
            }
        }
        self.control.check_started()
    }

    /// Takes a sample at the end of each second until `end`, or until it is interrupted.
    fn sleep_through(&mut self, begin: Instant, end: Instant, observe: &mut dyn FnMut(Second)) {
        let mut next = begin;
        while next < end && !self.is_cut_short() {
            next = (next + SAMPLE).min(end);
            while Instant::now() < next && !self.is_cut_short() {
                thread::sleep(LOOK.min(next.saturating_duration_since(Instant::now())));
            }
            let second = self.sample(begin);
            observe(second);
        }
    }

    /// Leaves the warm-up behind. Records of the measured time that were answered before the watcher
    /// woke are carried over; nothing else is in the histograms.
    fn end_warm_up(&mut self) {
        for mut sample in self.samples.drain(..) {
            sample.counts = Counts::default();
            self.carried.merge(&sample);
        }
        self.seconds.clear();
    }

    /// Waits for what is on its way, as long as is allowed.
    fn drain(&mut self, observe: &mut dyn FnMut(&Progress)) {
        self.arrive();
        let begin = Instant::now();
        let deadline = begin + self.plan.workload.drain;
        let measured = Duration::from_secs(self.seconds.len() as u64);
        let mut next = begin;
        while Instant::now() < deadline {
            next += SAMPLE;
            while Instant::now() < next && !self.is_drained() {
                thread::sleep(LOOK);
            }
            let second = self.sample(begin.checked_sub(measured).unwrap_or(begin));
            if second.backlog == 0 {
                return;
            }
            observe(&Progress::Draining(second));
        }
    }

    /// Whether nothing is on its way, by what is not sampled yet.
    fn is_drained(&self) -> bool {
        let mut counts = self.counts;
        counts.add(&self.carried.counts);
        for station in self.stations {
            counts.add(&station.lock().counts);
        }
        backlog(&counts, self.plan) == 0
    }

    /// Counts what has become due since the last time, whether or not a producer has come to it.
    fn arrive(&mut self) {
        if let (Some(arrived), Some(clock)) = (&mut self.arrived, self.control.clock()) {
            let now = clock.now_ns().min(self.control.window().1);
            self.carried.counts.due += arrived.until(now);
        }
    }

    fn sample(&mut self, begin: Instant) -> Second {
        self.arrive();
        let mut sample = std::mem::take(&mut self.carried);
        for station in self.stations {
            sample.merge(&station.take());
        }
        self.counts.add(&sample.counts);
        let (broker_cpu, broker_rss_bytes) = self.broker();
        let second = Second {
            at: Instant::now()
                .saturating_duration_since(begin)
                .as_secs_f64(),
            due: sample.counts.due,
            acked: sample.counts.acked,
            acked_bytes: sample.counts.acked_bytes,
            consumed: sample.counts.consumed,
            failed: sample.counts.failed,
            backlog: backlog(&self.counts, self.plan),
            produce: figures(&sample.produce),
            end_to_end: figures(&sample.end_to_end),
            broker_cpu,
            broker_rss_bytes,
        };
        self.samples.push(sample);
        self.seconds.push(second.clone());
        second
    }

    fn broker(&mut self) -> (Option<f64>, Option<u64>) {
        let Some(used) = self.plan.watched.used() else {
            return (None, None);
        };
        let now = Instant::now();
        let before = self.broker_before.replace((now, used));
        let cpu = before.map(|(at, before)| {
            let cpu = used.cpu.saturating_sub(before.cpu).as_secs_f64();
            cpu / now.duration_since(at).as_secs_f64().max(1e-9)
        });
        (cpu, used.rss_bytes)
    }

    fn rss_bytes_max(&self) -> Option<u64> {
        let seconds = self.seconds.iter();
        seconds.filter_map(|second| second.broker_rss_bytes).max()
    }

    fn thread_cpu(&self) -> Vec<Duration> {
        let of = |station: &Arc<Station>| process::thread_cpu(station.thread()).unwrap_or_default();
        self.stations.iter().map(of).collect()
    }

    fn errors(&self) -> Vec<(String, u64)> {
        let mut errors: BTreeMap<String, u64> = BTreeMap::new();
        for station in self.stations {
            for (message, count) in station.errors() {
                *errors.entry(message).or_default() += count;
            }
        }
        errors.into_iter().collect()
    }

    /// How many records were due in the measured time, also those that a producer never came to.
    fn due(&self) -> u64 {
        match &self.arrived {
            Some(arrived) => arrived.measured,
            None => self.counts.due_measured,
        }
    }
}

/// What is on its way: due and not answered, or acknowledged and not read by every group.
fn backlog(counts: &Counts, plan: &Plan) -> u64 {
    let unanswered = counts.due.saturating_sub(counts.acked + counts.failed);
    let groups = plan.workload.reading_groups();
    let unread = (counts.acked * groups).saturating_sub(counts.consumed);
    unanswered + unread.div_ceil(groups.max(1))
}

fn figures(histogram: &hdrhistogram::Histogram<u64>) -> [u64; 4] {
    let at = |quantile| histogram.value_at_quantile(quantile);
    [at(0.5), at(0.99), at(0.999), histogram.max()]
}
