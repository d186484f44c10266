//! Carries a verification out: producers, a reader that follows them, and, when all is answered, a reading
//! from the beginning to the end. Goes on through broken connections and restarts of brokers. What is
//! right and wrong is the checker's.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::producer::timestamp_now;
use client::{Cluster, Error};
use tokio::task::JoinHandle;

use super::reader::{self, Fetched, Item, Position, Reader};
use super::sender::{Delivered, Record, Sender, Topic};
use super::{Plan, admin, clock::Clock, prepare};
use crate::envelope::{Check, Envelope};
use crate::results::Broker;
use crate::schedule::Schedule;
use crate::verify::checker::{Checker, Report};
use crate::verify::history::History;
use crate::verify::{Event, Reading, RecordId};
use crate::workload::payload::Pool;

/// How long after the last record its answer is waited for, beyond `delivery.timeout.ms`.
const ANSWERS_WAIT: Duration = Duration::from_secs(5);
/// How long brokers may be away when everything is read in the end. While they are, nothing is lost: the
/// verification fails when they stay away.
const FINAL_WAIT: Duration = Duration::from_secs(120);
/// How long brokers that answer may leave out records that the log's end promises.
const STALL_WAIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// Where a verification stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Records handed over.
    pub sent: u64,
    /// Records acknowledged.
    pub acked: u64,
    /// Records refused or without an answer.
    pub failed: u64,
    /// Records read while they were produced.
    pub read: u64,
}

/// What came of a verification.
#[derive(Debug)]
pub struct Verified {
    /// What the checker says.
    pub report: Report,
    /// The broker.
    pub broker: Broker,
    /// What went wrong on the way and was gone through, and how often.
    pub troubles: BTreeMap<String, u64>,
}

/// Everything that happens goes through here.
struct Log {
    checker: Checker,
    history: Option<History>,
    failed: Option<std::io::Error>,
    standing: Standing,
    troubles: BTreeMap<String, u64>,
}

type Shared = Rc<RefCell<Log>>;

impl Log {
    /// Counts an error by its kind: words with addresses and offsets would never repeat.
    fn trouble(&mut self, error: &Error) {
        *self.troubles.entry(error.name()).or_default() += 1;
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Sent { .. } => self.standing.sent += 1,
            Event::Acked { .. } => self.standing.acked += 1,
            Event::Refused { .. } | Event::Ambiguous { .. } => self.standing.failed += 1,
            Event::Read {
                reading: Reading::Live,
                ..
            } => self.standing.read += 1,
            Event::Read { .. } | Event::Watermark { .. } => {}
        }
        if let Some(Err(error)) = self.history.as_mut().map(|history| history.add(&event)) {
            self.failed = Some(error);
        }
        self.checker.take(event);
    }
}

/// Carries out a verification. `interrupted` ends the producing early; the check is made all the same.
///
/// # Errors
/// When it cannot begin, when brokers stay away in the end, or when the history cannot be written.
pub fn verify(
    plan: Plan,
    history: Option<History>,
    interrupted: &AtomicBool,
    observe: &mut dyn FnMut(Standing),
) -> Result<Verified, Error> {
    let runtime = super::runtime()?;
    let local = tokio::task::LocalSet::new();
    let plan = Arc::new(plan);
    local.block_on(&runtime, async {
        let cluster = Cluster::new(plan.clients.consumer.cluster.clone());
        let broker = prepare::prepare(&cluster, &plan).await?;
        let log: Shared = Rc::new(RefCell::new(Log {
            checker: Checker::default(),
            history,
            failed: None,
            standing: Standing::default(),
            troubles: BTreeMap::new(),
        }));
        produce(&plan, &cluster, &log, interrupted, observe).await;
        read_all(&plan, &cluster, &log).await?;
        if !plan.workload.keep_topics {
            // What matters is known; a topic that stays is a trouble at most.
            let deleted = admin::delete_topics(&cluster, &plan.topics).await;
            if let Err(error) = deleted {
                log.borrow_mut().trouble(&error);
            }
        }
        drop(cluster);
        let log = Rc::try_unwrap(log)
            .ok()
            .expect("all tasks are over")
            .into_inner();
        let finished = log.history.map_or(Ok(()), History::finish);
        if let Err(error) = log.failed.map_or(finished, Err) {
            let reason = format!("the history cannot be written: {error}");
            return Err(Error::Invalid { reason });
        }
        Ok(Verified {
            report: log.checker.finish(),
            broker,
            troubles: log.troubles,
        })
    })
}

/// Produces and follows until the time is over and everything is answered.
async fn produce(
    plan: &Arc<Plan>,
    cluster: &Cluster,
    log: &Shared,
    interrupted: &AtomicBool,
    observe: &mut dyn FnMut(Standing),
) {
    let stop = Rc::new(Cell::new(false));
    let clock = Clock::new(Instant::now());
    let producers: Vec<JoinHandle<()>> = (0..plan.workload.producers)
        .map(|index| {
            let run = producer(plan.clone(), log.clone(), clock, index, stop.clone());
            tokio::task::spawn_local(run)
        })
        .collect();
    let following = tokio::task::spawn_local(follow(plan.clone(), cluster.clone(), log.clone()));
    let mut told = Instant::now();
    while producers.iter().any(|producer| !producer.is_finished()) {
        tokio::time::sleep(LOOK).await;
        if interrupted.load(Ordering::Relaxed) {
            stop.set(true);
        }
        if told.elapsed() >= Duration::from_secs(1) {
            told = Instant::now();
            observe(log.borrow().standing);
        }
    }
    following.abort();
    // Aborted tasks let go of the log when they are next looked at.
    let _ = following.await;
}

/// One producer, until its records are answered or can no longer be.
async fn producer(plan: Arc<Plan>, log: Shared, clock: Clock, index: u32, stop: Rc<Cell<bool>>) {
    let workload = &plan.workload;
    let waiting = Rc::new(Cell::new(0_u64));
    let topic = Topic {
        name: Arc::from(plan.topics[0].as_str()),
        partitions: workload.partitions,
    };
    let seed = workload.seed.wrapping_add(u64::from(index) << 32);
    let settings = plan.clients.producer.clone();
    let delivered = answered(log.clone(), waiting.clone());
    let sender = Sender::new(settings, vec![topic], seed, delivered).await;
    let mut sender = match sender {
        Ok(sender) => sender,
        Err(error) => return log.borrow_mut().trouble(&error),
    };
    let mut pool = Pool::new(
        workload.payload_size.largest(),
        workload.compressibility,
        workload.is_compressed(),
        seed,
    );
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut schedule = Schedule::new(workload, index).expect("verify has a rate");
    let end = workload.duration.as_nanos() as u64;
    for sequence in 0.. {
        let due_ns = schedule.next_due_ns();
        if due_ns >= end || stop.get() {
            break;
        }
        tokio::time::sleep_until(clock.moment(due_ns).into()).await;
        let record = RecordId {
            producer: index,
            sequence,
        };
        let turn = (sequence + u64::from(index)) % u64::from(workload.partitions.unsigned_abs());
        let partition = turn as i32;
        let value = pool.cut(workload.payload_size.draw(&mut rng));
        let envelope = Envelope {
            run: plan.run,
            producer: index,
            sequence,
            due_ns,
        };
        envelope.seal(value, Check::Value);
        log.borrow_mut().take(Event::Sent { record, partition });
        waiting.set(waiting.get() + 1);
        let sent = Record {
            topic: 0,
            partition: Some(partition),
            key: None,
            value,
            now: (Instant::now(), timestamp_now()),
        };
        sender.send(sent, record).await;
    }
    sender.flush().await;
    let deadline = Instant::now() + plan.clients.producer.delivery_timeout + ANSWERS_WAIT;
    while waiting.get() > 0 && Instant::now() < deadline {
        tokio::time::sleep(LOOK).await;
    }
}

/// What is done when a batch's fate is known.
fn answered(log: Shared, waiting: Rc<Cell<u64>>) -> Box<dyn Fn(Delivered<RecordId>)> {
    Box::new(move |delivered| {
        let mut log = log.borrow_mut();
        waiting.set(waiting.get().saturating_sub(delivered.tags.len() as u64));
        if let Err(failure) = &delivered.outcome {
            log.trouble(&failure.error);
        }
        for (number, record) in (0..).zip(delivered.tags) {
            log.take(match &delivered.outcome {
                Ok(base) if *base < 0 => Event::Acked { record, offset: -1 },
                Ok(base) => Event::Acked {
                    record,
                    offset: base + number,
                },
                Err(failure) if failure.refused => Event::Refused { record },
                Err(_) => Event::Ambiguous { record },
            });
        }
    })
}

fn positions(plan: &Plan, offsets: &[i64]) -> Vec<Position> {
    let topic: Arc<str> = Arc::from(plan.topics[0].as_str());
    let position = |(partition, offset): (i32, &i64)| Position {
        topic: topic.clone(),
        partition,
        offset: *offset,
    };
    (0..).zip(offsets).map(position).collect()
}

/// Reads what is produced, as it comes.
async fn follow(plan: Arc<Plan>, cluster: Cluster, log: Shared) {
    let begin = vec![0; plan.workload.partitions.unsigned_abs() as usize];
    let mut reader = Reader::new(
        cluster,
        plan.clients.consumer.clone(),
        positions(&plan, &begin),
    );
    loop {
        match reader.poll().await {
            Err(error) => log.borrow_mut().trouble(&error),
            Ok(fetched) => {
                for fetched in fetched {
                    let at = &reader.positions()[fetched.position];
                    let partition = at.partition;
                    let next = take(&plan, &log, Reading::Live, &fetched, at);
                    reader.advance(fetched.position, next);
                    log.borrow_mut().take(Event::Watermark {
                        partition,
                        start: None,
                        end: fetched.high_watermark,
                    });
                }
            }
        }
    }
}

/// Turns what was fetched into events; returns the offset behind it.
fn take(plan: &Plan, log: &Shared, reading: Reading, fetched: &Fetched, at: &Position) -> i64 {
    let mut log = log.borrow_mut();
    let partition = at.partition;
    reader::records(&fetched.records, at.offset, |item| match item {
        Item::Record(offset, record) => {
            let value = record.value.unwrap_or_default();
            log.take(Event::read(plan.run, reading, partition, offset, &value));
        }
        Item::Damaged(from, to) => {
            for offset in from..to {
                log.take(Event::Read {
                    reading,
                    partition,
                    offset,
                    record: None,
                });
            }
        }
    })
}

/// Reads everything from the beginning to the end.
async fn read_all(plan: &Plan, cluster: &Cluster, log: &Shared) -> Result<(), Error> {
    let starts = persistently(plan, cluster, log, admin::EARLIEST).await?;
    let ends = persistently(plan, cluster, log, admin::LATEST).await?;
    for (partition, (start, end)) in (0..).zip(starts.iter().zip(&ends)) {
        log.borrow_mut().take(Event::Watermark {
            partition,
            start: Some(*start),
            end: *end,
        });
    }
    let positions = positions(plan, &starts);
    let mut reader = Reader::new(cluster.clone(), plan.clients.consumer.clone(), positions);
    let mut patience = Patience::new(Instant::now());
    loop {
        let behind = reader
            .positions()
            .iter()
            .zip(&ends)
            .any(|(at, end)| at.offset < *end);
        if !behind {
            return Ok(());
        }
        let asked = Instant::now();
        let fetched = match reader.poll().await {
            Ok(fetched) => fetched,
            Err(error) if patience.is_over(Instant::now()) => return Err(error),
            Err(error) => {
                log.borrow_mut().trouble(&error);
                continue;
            }
        };
        let mut is_further = false;
        for fetched in fetched {
            let at = &reader.positions()[fetched.position];
            let next = take(plan, log, Reading::Final, &fetched, at);
            is_further |= next > at.offset;
            reader.advance(fetched.position, next);
        }
        if is_further {
            patience = Patience::new(Instant::now());
        } else if patience.is_stalled(asked) {
            // What the log's end promised and nobody brought, the checker misses.
            return Ok(());
        }
    }
}

/// How long the final reading goes on without getting further.
#[derive(Debug)]
struct Patience {
    /// When it last got further.
    further: Instant,
    /// Since when every poll is answered, and none brings anything. Not before `further`.
    answered: Instant,
}

impl Patience {
    /// Of a reading that just got further.
    fn new(now: Instant) -> Self {
        Self {
            further: now,
            answered: now,
        }
    }

    /// A poll failed: it says nothing of what brokers have. Whether they have been away for too long.
    fn is_over(&mut self, now: Instant) -> bool {
        self.answered = now;
        now.saturating_duration_since(self.further) > FINAL_WAIT
    }

    /// A poll was answered and brought nothing. Whether brokers have had their time: by when they were
    /// asked, for an answer may be late because they were away.
    fn is_stalled(&self, asked: Instant) -> bool {
        asked.saturating_duration_since(self.answered) > STALL_WAIT
    }
}

/// The partitions' first or last offsets, from brokers that may be away for a while.
async fn persistently(
    plan: &Plan,
    cluster: &Cluster,
    log: &Shared,
    which: i64,
) -> Result<Vec<i64>, Error> {
    let deadline = Instant::now() + FINAL_WAIT;
    loop {
        let asked = admin::offsets(cluster, &plan.topics[0], plan.workload.partitions, which).await;
        match asked {
            Ok(offsets) => return Ok(offsets),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(error) => {
                log.borrow_mut().trouble(&error);
                cluster.request_refresh();
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn brokers_that_are_away_have_lost_nothing_until_they_have_answered_for_long() {
        let begin = Instant::now();
        let mut patience = Patience::new(begin);
        let back = begin + 3 * STALL_WAIT;
        for away in 1..=30 {
            assert!(!patience.is_over(begin + away * SECOND), "{away} s");
        }
        assert!(!patience.is_stalled(back));
        assert!(!patience.is_stalled(back + STALL_WAIT));
        assert!(patience.is_stalled(back + STALL_WAIT + SECOND));
    }

    #[test]
    fn brokers_that_stay_away_end_the_reading_with_their_error() {
        let begin = Instant::now();
        let mut patience = Patience::new(begin);
        assert!(!patience.is_over(begin + FINAL_WAIT));
        assert!(patience.is_over(begin + FINAL_WAIT + SECOND));
    }
}
