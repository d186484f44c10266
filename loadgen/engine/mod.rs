//! Carries a workload out: threads with a runtime each, producers and consumers on them, one clock, and
//! a watcher that takes a sample each second. Knows nothing of terminals and files.

pub mod admin;
pub mod clock;
mod consuming;
pub mod durability;
mod prepare;
mod producing;
pub mod reader;
pub mod sender;
pub mod settings;
mod station;
pub mod verification;
mod watch;
pub mod watched;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, SystemTime};

use client::{Cluster, Error};
use tokio::task::JoinSet;

use crate::measure::Sample;
use crate::results::{Broker, Second};
use crate::workload::Workload;
use consuming::Consuming;
use producing::Producing;
use settings::ClientSettings;
use station::{Control, Station};
use watched::Watched;

/// How long clients may take to connect before the run begins.
const READY_WAIT: Duration = Duration::from_secs(30);
/// How long after all are ready the clock starts.
const START_WAIT: Duration = Duration::from_millis(100);

/// What is to be carried out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The workload.
    pub workload: Workload,
    /// Which run it is: records of others are told from its own.
    pub run: u64,
    /// The clients' settings.
    pub clients: ClientSettings,
    /// The topics' names.
    pub topics: Vec<String>,
    /// What of the broker is watched.
    pub watched: Watched,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When the clock started.
    pub started: SystemTime,
    /// How long was measured.
    pub measured: Duration,
    /// A sample for each second of the measured time and of the draining after it.
    pub samples: Vec<Sample>,
    /// The same, in figures.
    pub seconds: Vec<Second>,
    /// Records that were due in the measured time.
    pub due: u64,
    /// The share of its core that each thread used in the measured time.
    pub thread_cpu: Vec<f64>,
    /// CPU time of the whole process in the measured time, without a null broker's.
    pub cpu: Duration,
    /// What went wrong, and how often.
    pub errors: Vec<(String, u64)>,
    /// The broker.
    pub broker: Broker,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// Where a run stands, once a second.
#[derive(Clone, Debug)]
pub enum Progress {
    /// The backlog for consumers is being produced: so many bytes of so many.
    Filling(u64, u64),
    /// The load runs unmeasured.
    WarmUp(Second),
    /// It is measured.
    Measuring(Second),
    /// Acknowledgements and consumers are waited for.
    Draining(Second),
}

/// Carries out a plan. `interrupted` ends it early, with what was measured until then.
///
/// # Errors
/// When it cannot begin.
pub fn run(
    plan: Plan,
    interrupted: &AtomicBool,
    observe: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Error> {
    let runtime = runtime()?;
    let cluster_config = plan.clients.consumer.cluster.clone();
    let (cluster, broker) = runtime.block_on(async {
        let cluster = Cluster::new(cluster_config);
        let broker = prepare::prepare(&cluster, &plan).await?;
        Ok::<_, Error>((cluster, broker))
    })?;
    let plan = Arc::new(plan);
    let ran = run_prepared(&plan, broker, interrupted, observe);
    if !plan.workload.keep_topics {
        let deleted = runtime.block_on(admin::delete_topics(&cluster, &plan.topics));
        if let (Ok(mut outcome), Err(error)) = (ran.clone(), deleted) {
            let message = format!("the topics could not be deleted: {error}");
            outcome.errors.push((message, 1));
            return Ok(outcome);
        }
    }
    ran
}

fn run_prepared(
    plan: &Arc<Plan>,
    broker: Broker,
    interrupted: &AtomicBool,
    observe: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Error> {
    let workload = &plan.workload;
    let begin = nanoseconds(workload.warm_up);
    let end = begin + nanoseconds(workload.duration);
    let control = Arc::new(Control::new(begin, end));
    let stations: Vec<Arc<Station>> = (0..threads(workload)).map(|_| Arc::default()).collect();
    let mut workers = Vec::new();
    for number in 0..stations.len() {
        let (plan, control) = (plan.clone(), control.clone());
        let station = stations[number].clone();
        let of = stations.len() as u32;
        let name = format!("load-{number}");
        let worker = thread::Builder::new()
            .name(name)
            .spawn(move || work(&plan, &control, &station, number as u32, of));
        workers.push(worker.map_err(|error| cannot_start(&error))?);
    }
    let watched = watch::watch(plan, &control, &stations, broker, interrupted, observe);
    control.stop();
    for worker in workers {
        worker.join().expect("a thread of the generator panicked");
    }
    watched
}

/// How many threads carry a workload: never more than it has producers and consumers.
fn threads(workload: &Workload) -> u32 {
    let cores = thread::available_parallelism().map_or(1, usize::from) as u32;
    let wanted = match workload.threads {
        0 => cores,
        threads => threads,
    };
    wanted.clamp(1, workload.producers + workload.groups * workload.consumers)
}

/// One thread: its share of the producers and consumers, until everything ends.
fn work(plan: &Arc<Plan>, control: &Arc<Control>, station: &Arc<Station>, number: u32, of: u32) {
    station.enter(crate::machine::process::thread_id());
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return control.cannot_start(format!("thread {number}"), error),
    };
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        for index in (number..plan.workload.producers).step_by(of as usize) {
            match Producing::new(plan, control, station, index).await {
                Ok(producing) => drop(tokio::task::spawn_local(producing.run())),
                Err(error) => control.cannot_start(format!("producer {index}"), error),
            }
            if control.is_stopped() {
                return;
            }
        }
        let mut reading = consumers(plan, control, station, number, of).await;
        control.now_ready();
        while !control.is_stopped() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let leaving = async { while reading.join_next().await.is_some() {} };
        // Who does not come to an end in time is dropped with the thread.
        let _ = tokio::time::timeout(consuming::LEAVE_WAIT, leaving).await;
    });
}

/// The thread's share of the consumers, each reading as soon as it has its partitions: members of a group
/// wait for each other, so none of them may wait for the thread.
async fn consumers(
    plan: &Arc<Plan>,
    control: &Arc<Control>,
    station: &Arc<Station>,
    number: u32,
    of: u32,
) -> JoinSet<()> {
    let workload = &plan.workload;
    let (mut joining, mut reading) = (JoinSet::new(), JoinSet::new());
    // Counted on from the producers, so that threads get equal shares.
    let shift = workload.producers;
    let all = 0..workload.groups * workload.consumers;
    for index in all.filter(|index| (index + shift) % of == number) {
        let (group, consumer) = (index / workload.consumers, index % workload.consumers);
        let (plan, control, station) = (plan.clone(), control.clone(), station.clone());
        joining.spawn_local(Consuming::new(plan, control, station, group, consumer));
    }
    while let Some(joined) = joining.join_next().await {
        match joined.expect("a consumer panicked") {
            Ok(Some(consuming)) => drop(reading.spawn_local(consuming.run())),
            Ok(None) => {}
            Err(error) => control.cannot_start("a consumer".to_owned(), error),
        }
    }
    reading
}

fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(|error| cannot_start(&error))
}

fn cannot_start(error: &std::io::Error) -> Error {
    Error::Invalid {
        reason: format!("a thread of the generator cannot be started: {error}"),
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
