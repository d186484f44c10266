//! One producer: sends each record when it is due, or as soon as an earlier one is acknowledged, and times
//! what comes of it. Knows nothing of other producers.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::Error;
use client::producer::timestamp_now;
use fastrand::Rng;
use tokio::sync::Semaphore;

use super::Plan;
use super::clock::{Alarm, Clock};
use super::sender::{Delivered, Record, Sender, Topic};
use super::station::{Control, Station};
use crate::envelope::{Check, Envelope};
use crate::measure::record;
use crate::schedule::Schedule;
use crate::workload::keys::Keys;
use crate::workload::payload::{Pool, SizeChoice};

/// A due time that no measured time holds.
pub const UNMEASURED: u64 = u64::MAX;
/// Between two wakings lies at least this, so that thousands of producers do not wake for each record:
/// records that become due meanwhile go together, and count as late by that much.
const WAKE_NS_MIN: u64 = 250_000;
/// How often phases are looked at.
const PHASE_WAIT: Duration = Duration::from_millis(2);
/// How many records are sent in one go before others on the thread get their turn.
const BURST_MAX: u32 = 64;

/// What is remembered of a record on its way.
#[derive(Clone, Copy, Debug)]
pub struct Tag {
    due_ns: u64,
    bytes: u32,
}

/// When a record was due, and when it is handed over.
struct Moment {
    due_ns: u64,
    /// By the machine's clock and, in milliseconds, by the wall's.
    now: (Instant, i64),
    /// In an open loop.
    delay: Option<Delay>,
}

/// How long after it was due a record is handed over, and how much of that is the generator's own doing.
#[derive(Clone, Copy)]
struct Delay {
    send_ns: u64,
    late_ns: u64,
}

/// A producer.
pub struct Producing {
    plan: Arc<Plan>,
    control: Arc<Control>,
    station: Arc<Station>,
    index: u32,
    sequence: u64,
    sender: Sender<Tag>,
    /// In a closed loop: room for unacknowledged records.
    permits: Rc<Semaphore>,
    keys: Keys,
    sizes: SizeChoice,
    pool: Pool,
    rng: Rng,
}

impl Producing {
    /// The producer of this number. Its pool and its draws follow from the workload's seed.
    ///
    /// # Errors
    /// When its client cannot connect.
    pub async fn new(
        plan: &Arc<Plan>,
        control: &Arc<Control>,
        station: &Arc<Station>,
        index: u32,
    ) -> Result<Self, Error> {
        let workload = &plan.workload;
        let permits = Rc::new(Semaphore::new(workload.in_flight as usize));
        let seed = workload.seed.wrapping_add(u64::from(index) << 32);
        let topic = |name: &String| Topic {
            name: Arc::from(name.as_str()),
            partitions: workload.partitions,
        };
        let topics = plan.topics.iter().map(topic).collect();
        let delivered = delivery(control.clone(), station.clone(), permits.clone());
        let settings = plan.clients.producer.clone();
        Ok(Self {
            sender: Sender::new(settings, topics, seed, delivered).await?,
            keys: Keys::new(&workload.keys, seed ^ 1),
            pool: Pool::new(
                workload.payload_size.largest(),
                workload.compressibility,
                workload.is_compressed(),
                seed ^ 2,
            ),
            rng: Rng::with_seed(seed ^ 3),
            sizes: workload.payload_size.clone(),
            plan: plan.clone(),
            control: control.clone(),
            station: station.clone(),
            index,
            sequence: 0,
            permits,
        })
    }

    /// Produces until the measured time is over.
    pub async fn run(mut self) {
        self.fill().await;
        let clock = loop {
            match self.control.clock() {
                Some(clock) => break clock,
                None if self.control.is_stopped() => return,
                None => tokio::time::sleep(PHASE_WAIT).await,
            }
        };
        match Schedule::new(&self.plan.workload, self.index) {
            Some(schedule) => self.open_loop(clock, schedule).await,
            None => self.closed_loop(clock).await,
        }
        // What is still on its way ends with the sender: it stays until all is decided.
        self.sender.flush().await;
    }

    /// Produces what consumers will have to catch up with.
    async fn fill(&mut self) {
        let wanted = self.plan.workload.backlog_bytes;
        while self.control.filled() < wanted && !self.control.is_stopped() {
            self.permit().await;
            self.hand_over(Moment::unmeasured()).await;
        }
        if wanted > 0 {
            self.sender.flush().await;
        }
    }

    async fn permit(&self) {
        let permit = self.permits.acquire().await;
        permit.expect("the permits are never closed").forget();
    }

    async fn closed_loop(&mut self, clock: Clock) {
        let mut sent = 0;
        loop {
            self.permit().await;
            let now = clock.now_ns();
            if now >= self.control.window().1 || self.control.is_stopped() {
                return;
            }
            self.hand_over(Moment::at_once(clock, now)).await;
            sent += 1;
            if sent % BURST_MAX == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn open_loop(&mut self, clock: Clock, mut schedule: Schedule) {
        let alarm = match Alarm::new() {
            Ok(alarm) => alarm,
            Err(error) => {
                let reason = format!("a timer cannot be made: {error}");
                let producer = format!("producer {}", self.index);
                return self
                    .control
                    .cannot_start(producer, Error::Invalid { reason });
            }
        };
        let (mut free_ns, mut awake_ns, mut sent) = (0, 0, 0);
        loop {
            let due = schedule.next_due_ns();
            if due >= self.control.window().1 || self.control.is_stopped() {
                return;
            }
            let mut now = clock.now_ns();
            if now < due {
                let until = due.max(awake_ns + WAKE_NS_MIN);
                alarm.wait_until(clock.moment(until)).await;
                now = clock.now_ns();
                awake_ns = now;
                sent = 0;
            }
            let moment = Moment {
                due_ns: due,
                now: (clock.moment(now), clock.wall_ms(now)),
                delay: Some(Delay {
                    send_ns: now.saturating_sub(due),
                    // What was due while there was no room is not the generator's lateness.
                    late_ns: now.saturating_sub(due.max(free_ns)),
                }),
            };
            if self.hand_over(moment).await {
                free_ns = clock.now_ns();
            }
            sent += 1;
            if sent % BURST_MAX == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Makes the next record and hands it to the sender; says whether that had to wait for room.
    async fn hand_over(&mut self, moment: Moment) -> bool {
        let due_ns = moment.due_ns;
        let size = self.sizes.draw(&mut self.rng);
        let value = self.pool.cut(size);
        let envelope = Envelope {
            run: self.plan.run,
            producer: self.index,
            sequence: self.sequence,
            due_ns,
        };
        envelope.seal(value, Check::Envelope);
        self.sequence += 1;
        let topic = match self.plan.topics.len() {
            1 => 0,
            topics => self.rng.usize(0..topics),
        };
        let key = self.keys.next_key();
        let bytes = value.len() + key.map_or(0, <[u8]>::len);
        {
            let is_measured = self.control.measures(due_ns);
            let mut sample = self.station.lock();
            sample.counts.due += 1;
            sample.counts.due_measured += u64::from(is_measured);
            sample.counts.handed_over += 1;
            if let Some(delay) = moment.delay.filter(|_| is_measured) {
                record(&mut sample.send_delay, delay.send_ns);
                record(&mut sample.lateness, delay.late_ns);
            }
        }
        let record = Record {
            topic,
            partition: None,
            key,
            value,
            now: moment.now,
        };
        let tag = Tag {
            due_ns,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        };
        self.sender.send(record, tag).await
    }
}

impl Moment {
    /// Of what no measured time holds.
    fn unmeasured() -> Self {
        Self {
            due_ns: UNMEASURED,
            now: (Instant::now(), timestamp_now()),
            delay: None,
        }
    }

    /// Of what is due when there is room for it, which is now.
    fn at_once(clock: Clock, now_ns: u64) -> Self {
        Self {
            due_ns: now_ns,
            now: (clock.moment(now_ns), clock.wall_ms(now_ns)),
            delay: None,
        }
    }
}

/// What is done when a batch's fate is known.
fn delivery(
    control: Arc<Control>,
    station: Arc<Station>,
    permits: Rc<Semaphore>,
) -> Box<dyn Fn(Delivered<Tag>)> {
    Box::new(move |delivered| {
        let count = delivered.tags.len();
        permits.add_permits(count);
        if let Err(failure) = delivered.outcome {
            station.lock().counts.failed += count as u64;
            return station.error(failure.error.to_string(), count as u64);
        }
        let clock = control.clock();
        let now = clock.map_or(0, |clock| clock.now_ns());
        let bytes: u64 = delivered.tags.iter().map(|tag| u64::from(tag.bytes)).sum();
        if clock.is_none() {
            control.add_filled(bytes);
        }
        let mut sample = station.lock();
        sample.counts.acked += count as u64;
        sample.counts.acked_bytes += bytes;
        for tag in delivered.tags {
            if control.measures(tag.due_ns) {
                record(&mut sample.produce, now.saturating_sub(tag.due_ns));
            }
        }
    })
}
