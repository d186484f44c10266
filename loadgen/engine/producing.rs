//! One producer: sends each record when it is due, or as soon as an earlier one is acknowledged, and times
//! what comes of it. Knows nothing of other producers.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::Error;
use client::producer::timestamp_now;
use fastrand::Rng;
use tokio::sync::Notify;

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
/// For how many records a time counts as the present one: handing them over takes some microseconds.
const PRESENT_MAX: u32 = 16;

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

/// The present time, by each clock that is asked for it.
#[derive(Clone, Copy)]
struct Present {
    ns: u64,
    now: (Instant, i64),
}

/// What was seen of records handed over, and not yet published: so that not each takes a lock.
#[derive(Default)]
struct Seen {
    /// Of records without a schedule: how many, and how many of them in the measured time.
    due: u64,
    due_measured: u64,
    delays: Vec<Delay>,
}

/// Room for unacknowledged records; one waits for it.
struct Room {
    free: Cell<usize>,
    freed: Notify,
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
    /// In a closed loop.
    room: Rc<Room>,
    seen: Seen,
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
        let room = Rc::new(Room {
            free: Cell::new(workload.in_flight as usize),
            freed: Notify::new(),
        });
        let seed = workload.seed.wrapping_add(u64::from(index) << 32);
        let topic = |name: &String| Topic {
            name: Arc::from(name.as_str()),
            partitions: workload.partitions,
        };
        let topics = plan.topics.iter().map(topic).collect();
        let delivered = delivery(control.clone(), station.clone(), room.clone());
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
            room,
            seen: Seen::default(),
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
        self.seen.publish(&self.station);
        // What is still on its way ends with the sender: it stays until all is decided.
        self.sender.flush().await;
    }

    /// Produces what consumers will have to catch up with.
    async fn fill(&mut self) {
        let wanted = self.plan.workload.backlog_bytes;
        while self.control.filled() < wanted && !self.control.is_stopped() {
            self.wait_for_room().await;
            self.hand_over(Moment::unmeasured()).await;
        }
        if wanted > 0 {
            self.sender.flush().await;
        }
    }

    async fn wait_for_room(&mut self) {
        if self.room.free.get() == 0 {
            self.seen.publish(&self.station);
        }
        self.room.take().await;
    }

    async fn closed_loop(&mut self, clock: Clock) {
        let mut sent = 0;
        loop {
            self.wait_for_room().await;
            let present = Present::of(clock);
            if present.ns >= self.control.window().1 || self.control.is_stopped() {
                return;
            }
            self.hand_over(present.closed()).await;
            sent += 1;
            if sent % BURST_MAX == 0 {
                self.seen.publish(&self.station);
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
        let mut present = Present::of(clock);
        loop {
            let due = schedule.next_due_ns();
            if due >= self.control.window().1 || self.control.is_stopped() {
                return;
            }
            if present.ns < due || sent % PRESENT_MAX == 0 {
                present = Present::of(clock);
            }
            if present.ns < due {
                self.seen.publish(&self.station);
                let until = due.max(awake_ns + WAKE_NS_MIN);
                alarm.wait_until(clock.moment(until)).await;
                present = Present::of(clock);
                awake_ns = present.ns;
                sent = 0;
            }
            let delay = Delay {
                send_ns: present.ns.saturating_sub(due),
                // What was due while there was no room is not the generator's lateness.
                late_ns: present.ns.saturating_sub(due.max(free_ns)),
            };
            if self.hand_over(present.open(due, delay)).await {
                present = Present::of(clock);
                free_ns = present.ns;
            }
            sent += 1;
            if sent % BURST_MAX == 0 {
                self.seen.publish(&self.station);
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
        let is_measured = self.control.measures(due_ns);
        match moment.delay {
            None => {
                self.seen.due += 1;
                self.seen.due_measured += u64::from(is_measured);
            }
            Some(delay) if is_measured => self.seen.delays.push(delay),
            Some(_) => {}
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
        match self.sender.offer(&record, tag) {
            Ok(()) => false,
            Err(held) => {
                // It may wait for long.
                self.seen.publish(&self.station);
                self.sender.send_held(&record, held).await;
                true
            }
        }
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
}

impl Present {
    fn of(clock: Clock) -> Self {
        let ns = clock.now_ns();
        Self {
            ns,
            now: (clock.moment(ns), clock.wall_ms(ns)),
        }
    }

    /// Of what was due then, and is handed over now.
    fn open(self, due_ns: u64, delay: Delay) -> Moment {
        Moment {
            due_ns,
            now: self.now,
            delay: Some(delay),
        }
    }

    /// Of what is due when there is room for it, which is now.
    fn closed(self) -> Moment {
        Moment {
            due_ns: self.ns,
            now: self.now,
            delay: None,
        }
    }
}

impl Seen {
    fn publish(&mut self, station: &Station) {
        if self.due == 0 && self.delays.is_empty() {
            return;
        }
        let mut sample = station.lock();
        sample.counts.due += std::mem::take(&mut self.due);
        sample.counts.due_measured += std::mem::take(&mut self.due_measured);
        for delay in self.delays.drain(..) {
            record(&mut sample.send_delay, delay.send_ns);
            record(&mut sample.lateness, delay.late_ns);
        }
    }
}

impl Room {
    async fn take(&self) {
        while self.free.get() == 0 {
            self.freed.notified().await;
        }
        self.free.set(self.free.get() - 1);
    }

    fn give_back(&self, count: usize) {
        self.free.set(self.free.get() + count);
        self.freed.notify_one();
    }
}

/// What is done when a batch's fate is known.
fn delivery(
    control: Arc<Control>,
    station: Arc<Station>,
    room: Rc<Room>,
) -> Box<dyn Fn(Delivered<Tag>)> {
    Box::new(move |delivered| {
        let count = delivered.tags.len();
        room.give_back(count);
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
        let (begin, end) = control.window();
        let mut sample = station.lock();
        sample.counts.acked += count as u64;
        sample.counts.acked_bytes += bytes;
        for tag in delivered.tags {
            if (begin..end).contains(&tag.due_ns) {
                record(&mut sample.produce, now.saturating_sub(tag.due_ns));
            }
        }
    })
}
