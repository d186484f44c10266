//! The task that sends: asks the accumulator what is to be done, does it, and brings the answers back.
//! Decides nothing itself.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{InitProducerIdRequestData, ProduceRequestData, ProduceResponseData};
use wire::{KafkaString, KafkaUuid};

use super::Shared;
use super::accumulator::{Fate, Lane, Outgoing};
use super::answers::Sent;
use super::batch::Identity;
use crate::cluster::backoff::random;
use crate::cluster::{Connection, Route};
use crate::{Error, ProducerConfig};

/// From this version on topics are named by id alone.
const FIRST_VERSION_WITH_TOPIC_IDS: i16 = wire::produce::FIRST_VERSION_WITH_TOPIC_IDS;

/// When to look again if nothing happens and nothing waits for a time.
const NOTHING_WAITS: Duration = Duration::from_secs(3_600);

/// What happened outside.
enum Event {
    Answered(i32, Vec<Sent>, Result<ProduceResponseData, Error>),
    Connected(i32, Result<Connection, Error>),
    ProducerId(Result<Identity, Error>),
}

#[derive(Default)]
struct Node {
    connection: Option<Connection>,
    connecting: bool,
    in_flight: usize,
    /// The broker asked for a pause until then (KIP-219).
    muted_until: Option<Instant>,
}

pub(super) struct Sender {
    shared: Arc<Shared>,
    nodes: BTreeMap<i32, Node>,
    events: JoinSet<Event>,
}

impl Sender {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            nodes: BTreeMap::new(),
            events: JoinSet::new(),
        }
    }

    /// Runs until the task is aborted, which closing the producer does.
    pub(super) async fn run(mut self) {
        let mut views = self.shared.cluster.views();
        let mut alarm = pin!(sleep(NOTHING_WAITS));
        loop {
            // An alarm that rings too early costs less than one set each time.
            if let Some(wake) = self.turn().map(tokio::time::Instant::from_std)
                && wake < alarm.deadline()
            {
                alarm.as_mut().reset(wake);
            }
            tokio::select! {
                () = self.shared.bell.notified() => {}
                Some(event) = self.events.join_next() => {
                    // A task of ours that was not aborted and did not panic has its event.
                    if let Ok(event) = event {
                        self.handle(event);
                    }
                }
                () = &mut alarm => {
                    alarm.as_mut().reset(tokio::time::Instant::now() + NOTHING_WAITS);
                }
                changed = views.changed() => if changed.is_ok() {
                    let metadata = views.borrow_and_update().metadata.clone();
                    self.shared.accumulator().learn_all(&metadata);
                }
            }
        }
    }

    /// One look at what is to be done; returns when to look again.
    fn turn(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let metadata = self.shared.cluster.metadata();
        let (nodes, in_flight_max) = (&mut self.nodes, self.shared.config.max_in_flight);
        let lane = |node: i32| nodes.entry(node).or_default().lane(now, in_flight_max);
        let plan = self.shared.accumulator().plan(now, &metadata, lane);
        self.shared.tell(plan.fates);
        if plan.refresh_metadata {
            self.shared.cluster.request_refresh();
        }
        if plan.ask_producer_id {
            let (shared, again) = (
                self.shared.clone(),
                self.shared.config.cluster.retry_backoff,
            );
            self.events.spawn(async move {
                let asked = ask_producer_id(&shared).await;
                if asked.is_err() {
                    sleep(again.after(1, random())).await;
                }
                Event::ProducerId(asked)
            });
        }
        for node in plan.connect {
            self.connect(node);
        }
        for (node, batches) in plan.requests {
            if !batches.is_empty() {
                self.send(node, batches);
            }
        }
        let muted = self.nodes.values().filter_map(|node| node.muted_until);
        plan.wake
            .into_iter()
            .chain(muted.filter(|at| *at > now))
            .min()
    }

    fn connect(&mut self, node: i32) {
        let state = self.nodes.entry(node).or_default();
        if state.connecting {
            return;
        }
        state.connecting = true;
        let cluster = self.shared.cluster.clone();
        self.events.spawn(async move {
            Event::Connected(node, cluster.connection(Route::Node(node)).await)
        });
    }

    fn send(&mut self, node: i32, batches: Vec<Outgoing>) {
        let mut sent = Vec::with_capacity(batches.len());
        for batch in batches {
            // What was built here always closes: sizes are checked when records come.
            let Ok(bytes) = batch.content.close(batch.stamp) else {
                continue;
            };
            sent.push(Sent {
                place: batch.place,
                batch: batch.batch,
                bytes,
                stamp: batch.stamp,
            });
        }
        let bytes: usize = sent.iter().map(|batch| batch.bytes.len()).sum();
        self.shared.accumulator().metrics.batch_bytes += bytes as u64;
        self.shared.counts.requests.fetch_add(1, Ordering::Relaxed);
        let state = self.nodes.entry(node).or_default();
        let timeout = self.shared.config.cluster.request_timeout;
        let enqueued = match &state.connection {
            Some(connection) => enqueue(connection, &self.shared.config, &sent, timeout),
            None => Err(Error::Closed),
        };
        state.in_flight += 1;
        self.shared.counts.in_flight.fetch_add(1, Ordering::Relaxed);
        self.events.spawn(async move {
            let answer = match enqueued {
                Ok(answer) => answer.await,
                Err(error) => Err(error),
            };
            Event::Answered(node, sent, answer)
        });
    }

    fn handle(&mut self, event: Event) {
        let now = Instant::now();
        match event {
            Event::Connected(node, connected) => {
                let state = self.nodes.entry(node).or_default();
                state.connecting = false;
                // A failure is not told to anybody: batches wait until their time runs out, and
                // the cluster looks for the leader's address meanwhile.
                state.connection = connected.ok();
            }
            Event::ProducerId(asked) => self.shared.accumulator().producer_id(asked.ok()),
            Event::Answered(node, sent, answer) => {
                self.shared.counts.in_flight.fetch_sub(1, Ordering::Relaxed);
                let state = self.nodes.entry(node).or_default();
                state.in_flight -= 1;
                let throttle = answer.as_ref().map_or(0, |answer| answer.throttle_time_ms);
                if let Ok(throttle @ 1..) = u64::try_from(throttle) {
                    state.muted_until = Some(now + Duration::from_millis(throttle));
                }
                let mut accumulator = self.shared.accumulator();
                let verdict = accumulator.answered(now, sent, answer.as_ref(), random());
                drop(accumulator);
                self.shared.tell(verdict.fates);
                if verdict.refresh_metadata {
                    self.shared.cluster.request_refresh();
                }
            }
        }
    }
}

impl Node {
    fn lane(&self, now: Instant, in_flight_max: usize) -> Lane {
        let open = self.connection.as_ref().is_some_and(Connection::is_open);
        let muted = self.muted_until.is_some_and(|until| until > now);
        if self.connecting || self.in_flight >= in_flight_max || muted {
            Lane::Busy
        } else if open {
            Lane::Free
        } else {
            Lane::Closed
        }
    }
}

async fn ask_producer_id(shared: &Shared) -> Result<Identity, Error> {
    let request = InitProducerIdRequestData::default()
        .with_transaction_timeout_ms(i32::MAX)
        .with_producer_id(-1)
        .with_producer_epoch(-1);
    let answer = shared.cluster.send(Route::Any, request).await?;
    Error::check(answer.error_code, None, "producer id")?;
    Ok(Identity {
        id: answer.producer_id,
        epoch: answer.producer_epoch,
    })
}

fn enqueue(
    connection: &Connection,
    config: &ProducerConfig,
    sent: &[Sent],
    timeout: Duration,
) -> Result<crate::cluster::Answer<ProduceResponseData>, Error> {
    let mut version = connection.version::<ProduceRequestData>()?;
    if sent.iter().any(|batch| batch.place.topic_id.is_none()) {
        version = version.min(FIRST_VERSION_WITH_TOPIC_IDS - 1);
    }
    connection.enqueue(version, &request(version, config, sent), timeout)
}

fn request(version: i16, config: &ProducerConfig, sent: &[Sent]) -> ProduceRequestData {
    let mut topics: Vec<TopicProduceData> = Vec::new();
    let mut places: HashMap<usize, usize> = HashMap::new();
    for batch in sent {
        let place = *places.entry(batch.place.topic_index).or_insert_with(|| {
            topics.push(if version >= FIRST_VERSION_WITH_TOPIC_IDS {
                let id = batch.place.topic_id.unwrap_or(KafkaUuid::ZERO);
                TopicProduceData::default().with_topic_id(id)
            } else {
                let name = KafkaString::from(batch.place.topic.to_string());
                TopicProduceData::default().with_name(name)
            });
            topics.len() - 1
        });
        let partition = PartitionProduceData::default()
            .with_index(batch.place.partition)
            .with_records(Some(batch.bytes.clone()));
        topics[place].partition_data.push(partition);
    }
    let timeout = config.cluster.request_timeout.as_millis();
    ProduceRequestData::default()
        .with_acks(config.acks.code())
        .with_timeout_ms(i32::try_from(timeout).unwrap_or(i32::MAX))
        .with_topic_data(topics)
}

impl Shared {
    /// Tells those who wait for batches, and the interceptors, and those who wait for memory.
    pub(super) fn tell(&self, fates: Vec<Fate>) {
        if fates.is_empty() {
            return;
        }
        for fate in fates {
            fate.completion.complete(fate.outcome);
            for (index, timestamp) in (0..).zip(fate.timestamps.into_iter().flatten()) {
                let Some(known) = fate.completion.metadata(index, timestamp) else {
                    continue;
                };
                for interceptor in &self.interceptors {
                    interceptor.on_acknowledgement(known.as_ref());
                }
            }
        }
        self.memory_freed.notify_waiters();
    }
}
