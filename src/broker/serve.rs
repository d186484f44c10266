//! Puts the broker together: data directory, recovery, one executor per shard, listener, signals.
//! Knows the rooms, and nothing of what happens in them.

use std::collections::{BTreeMap, HashMap};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use logic::cluster::Image;
use logic::ids::PartitionId;
use reactor::mailbox::{Bound, Receiver, Sender, mailbox};
use reactor::socket::Listener;
use reactor::{Executor, LateTurns, Reactor};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::consensus::{self, Loaded, MetadataLog};
use crate::data_dirs::DataDirs;
use crate::moved;
use crate::net::listener;
use crate::net::sweeper::Connections;
use crate::recovered;
use crate::shard::controller::{Controller, partition_id};
use crate::shard::directories::{DirId, Directories};
use crate::shard::gate::Gate;
use crate::shard::groups;
use crate::shard::mail::{Mail, ShardId};
use crate::shard::metadata::{self, Identity, Metadata, Opening};
use crate::shard::{Limits, MAILBOX_CAPACITY, Parts, Shard};
use crate::start_error::StartError;
use crate::storage::{self, Storage};

/// The metadata, in the first data directory.
const METADATA_LOG: &str = "metadata.log";
/// How often a stopping shard looks whether its connections are drained.
const DRAIN_POLL: Duration = Duration::from_millis(10);
/// A stop that takes longer than this is given up.
const STOP_MAX: Duration = Duration::from_secs(5);

/// All that a broker is started with.
pub struct Plan {
    /// The data directories, locked.
    pub data_dirs: DataDirs,
    /// The bound listener.
    pub listener: TcpListener,
    /// How many shards.
    pub shards: usize,
    /// How the shards' threads run.
    pub threads: Threads,
    /// Bounds of each shard.
    pub limits: Limits,
    /// `max.connections`.
    pub connections_max: usize,
    /// `max.connections.per.ip`.
    pub connections_per_address_max: usize,
    /// What the storage may use.
    pub storage: storage::Settings,
    /// What this broker is.
    pub identity: Identity,
}

/// How the shards' threads run.
#[derive(Clone, Debug)]
pub struct Threads {
    /// Whether each shard has a core of its own.
    pub pin: bool,
    /// Submissions that one shard's ring holds at once.
    pub ring_entries: u32,
    /// How long to look for work before sleeping.
    pub spin_before_park: Option<Duration>,
}

/// What recovery found, for the banner.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Topics.
    pub topics: usize,
    /// Partitions.
    pub partitions: usize,
    /// How long recovery took.
    pub recovery: Duration,
    /// Bytes that recovery has read from write-ahead logs.
    pub recovered_bytes: u64,
}

/// A shard that is about to start: its share and its mailbox.
type Started = (Share, Receiver<Mail>);

/// One shard's share of what was recovered.
struct Share {
    shard: ShardId,
    image: Image,
    placement: HashMap<PartitionId, ShardId>,
    opening: Opening,
    /// For shard 0: the metadata log and the partitions on each shard.
    controller: Option<(Loaded, Vec<usize>)>,
    senders: Vec<Sender<Mail>>,
}

/// The shards' threads, and what each counts of its late turns.
struct Running {
    executors: Vec<Executor>,
    late: Vec<Arc<LateTurns>>,
}

/// What a shard says once it can serve: where it counts its late turns, or what went wrong.
type Outcome = Result<Arc<LateTurns>, String>;

/// What every shard is started with.
#[derive(Clone)]
struct Common {
    directories: Arc<Directories>,
    limits: Limits,
    storage: storage::Settings,
    identity: Arc<Identity>,
    gate: Arc<Gate>,
}

/// Recovers, starts the shards, calls `opened` once clients are served, and returns when the broker
/// has stopped on a signal. An error says why it could not start.
pub fn run(mut plan: Plan, opened: impl FnOnce(&Opened)) -> Result<(), StartError> {
    let signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|error| StartError::Other(error.to_string()))?;
    let begun = Instant::now();
    let loaded = consensus::load(&plan.data_dirs.first().join(METADATA_LOG))
        .map_err(|error| StartError::Other(error.to_string()))?;
    moved::settle(&mut plan.data_dirs);
    let found = recovered::recover(&mut plan.data_dirs, &loaded.image, &plan.storage)?;
    let report = Opened {
        topics: loaded.image.topic_count(),
        partitions: loaded.image.partition_count(),
        recovery: begun.elapsed(),
        recovered_bytes: found.bytes,
    };
    let (shares, senders) = share(plan.shards, loaded, found.opening);
    let threads = plan.threads.clone();
    let common = Common {
        directories: Directories::new(described(&plan.data_dirs), found.offline),
        limits: plan.limits.clone(),
        storage: plan.storage.clone(),
        identity: Arc::new(plan.identity),
        gate: Gate::new(
            plan.shards,
            plan.connections_max,
            plan.connections_per_address_max,
        ),
    };
    let Running { executors, late } = start_shards(&threads, common, shares, plan.listener)?;
    opened(&report);
    stop_on_signal(signals, &senders);
    for executor in executors {
        executor
            .join()
            .map_err(|error| StartError::Other(error.to_string()))?;
    }
    let own: u64 = late.iter().map(|turns| turns.own()).sum();
    let starved: u64 = late.iter().map(|turns| turns.starved()).sum();
    eprintln!("stopped; turns later than 100 ms: {own}, and {starved} for want of a core");
    Ok(())
}

/// Each directory's path as clients see it, and whether it is online.
fn described(data_dirs: &DataDirs) -> Vec<(PathBuf, bool)> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let all = data_dirs.all();
    all.map(|(path, opened)| (absolute(path), opened.is_ok()))
        .collect()
}

/// Starts an executor per shard and waits until each can serve.
fn start_shards(
    threads: &Threads,
    common: Common,
    shares: Vec<Started>,
    listener: TcpListener,
) -> Result<Running, StartError> {
    let (started, outcomes) = mpsc::channel();
    let mut executors = Vec::with_capacity(shares.len());
    let mut listener = Some(listener);
    for (share, receiver) in shares {
        let settings = reactor::Settings {
            name: format!("shard-{}", share.shard.0),
            core: threads.pin.then_some(share.shard.0),
            ring_entries: threads.ring_entries,
            spin_before_park: threads.spin_before_park,
        };
        let (common, started) = (common.clone(), started.clone());
        let listener = if share.shard == ShardId::CONTROLLER {
            listener.take()
        } else {
            None
        };
        let executor = reactor::start(settings, move |reactor| async move {
            let mailbox = receiver.bind(&reactor);
            shard_main(reactor, common, share, mailbox, listener, started).await;
        });
        let shard = executors.len();
        executors.push(executor.map_err(|error| StartError::Shard { shard, error })?);
    }
    drop(started);
    let mut late = Vec::with_capacity(executors.len());
    for _ in &executors {
        let ended = |_| "a shard ended while it was starting".to_owned();
        let outcome = outcomes.recv().map_err(ended);
        late.push(
            outcome
                .and_then(|started| started)
                .map_err(StartError::Other)?,
        );
    }
    Ok(Running { executors, late })
}

/// Waits for a signal and tells the shards to stop; a second signal, or too long a stop, ends the
/// process where it is.
fn stop_on_signal(mut signals: Signals, senders: &[Sender<Mail>]) {
    signals.forever().next();
    eprintln!("stopping; a second signal stops at once");
    std::thread::spawn(move || {
        signals.forever().next();
        std::process::exit(130);
    });
    std::thread::spawn(|| {
        std::thread::sleep(STOP_MAX);
        eprintln!(
            "error: not stopped after {STOP_MAX:?}; what was acknowledged is safe, ending now"
        );
        std::process::exit(1);
    });
    for sender in senders {
        // A mailbox that is full is read soon: its shard runs.
        while sender.try_send(Mail::Stop).is_err() && !sender.is_closed() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Gives every partition to a shard: in the order of their ids, in turn, so that counts differ by at
/// most one.
fn share(shards: usize, loaded: Loaded, opening: Opening) -> (Vec<Started>, Vec<Sender<Mail>>) {
    let mut placement = HashMap::new();
    let mut loads = vec![0; shards];
    for topic in loaded.image.topics() {
        for index in 0..topic.partitions.len() {
            let shard = placement.len() % shards;
            loads[shard] += 1;
            placement.insert(partition_id(topic.id, index), ShardId(shard));
        }
    }
    let mut by_shard: BTreeMap<ShardId, Opening> = BTreeMap::new();
    for (id, log) in opening.recovered {
        let opening = by_shard.entry(placement[&id]).or_default();
        opening.recovered.insert(id, log);
    }
    for (id, dir) in opening.fresh {
        let opening = by_shard.entry(placement[&id]).or_default();
        opening.fresh.insert(id, dir);
    }
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..shards).map(|_| mailbox(MAILBOX_CAPACITY)).unzip();
    let image = loaded.image.clone();
    let mut controller = Some((loaded, loads));
    let shares = receivers.into_iter().enumerate().map(|(index, receiver)| {
        let share = Share {
            shard: ShardId(index),
            image: image.clone(),
            placement: placement.clone(),
            opening: by_shard.remove(&ShardId(index)).unwrap_or_default(),
            controller: controller.take(),
            senders: senders.clone(),
        };
        (share, receiver)
    });
    (shares.collect(), senders)
}

async fn shard_main(
    reactor: Reactor,
    common: Common,
    share: Share,
    mailbox: Bound<Mail>,
    listener: Option<TcpListener>,
    started: mpsc::Sender<Outcome>,
) {
    let late_turns = reactor.late_turns();
    let shard = match prepare(reactor, &common, share).await {
        Ok(shard) => shard,
        Err(problem) => {
            let _ = started.send(Err(problem));
            return;
        }
    };
    let connections = Rc::new(Connections::default());
    reactor::spawn(connections.clone().sweep(shard.clone()));
    if let Some(listener) = listener {
        match Listener::from_std(listener) {
            Ok(listener) => reactor::spawn(listener::accept(shard.clone(), listener, common.gate)),
            Err(error) => {
                let _ = started.send(Err(format!("the listener failed: {error}")));
                return;
            }
        }
    }
    let _ = started.send(Ok(late_turns));
    drop(started);
    let (serving, at) = (connections.clone(), shard.clone());
    let mailbox = shard
        .clone()
        .run(mailbox, move |placed| serving.serve(&at, placed))
        .await;
    reactor::spawn(shard.clone().run_stopping(mailbox));
    let drain_until = Instant::now() + shard.limits.drain_wait;
    while connections.close_drained() > 0 && Instant::now() < drain_until {
        reactor::timer::sleep(DRAIN_POLL).await;
    }
    shard.close().await;
}

/// Opens a shard's part of each disk and the partitions that it owns.
async fn prepare(reactor: Reactor, common: &Common, share: Share) -> Result<Rc<Shard>, String> {
    let Share {
        shard: id,
        image,
        placement,
        opening,
        controller,
        senders,
    } = share;
    let directories = &common.directories;
    let mut storages = Vec::new();
    for dir in directories.ids() {
        storages.push(open(&reactor, common, id, dir).await?);
    }
    let controller = match controller {
        Some((loaded, loads)) => {
            let path = directories.path(DirId::METADATA).join(METADATA_LOG);
            let log = MetadataLog::open(&reactor, &path, &loaded)
                .await
                .map_err(|error| format!("{} cannot be opened: {error}", path.display()))?;
            Some(Controller::new(log, loads))
        }
        None => None,
    };
    let shard = Shard::new(Parts {
        id,
        reactor,
        limits: common.limits.clone(),
        metadata: Metadata::new(common.identity.clone(), image, placement),
        directories: directories.clone(),
        storages,
        senders,
        controller,
    });
    metadata::open(&shard, opening)
        .await
        .map_err(|error| format!("shard {} cannot open its partitions: {error}", id.0))?;
    groups::start(&shard);
    Ok(shard)
}

/// Opens a shard's part of a directory; none of one that is offline. The first must be there.
async fn open(
    reactor: &Reactor,
    common: &Common,
    shard: ShardId,
    dir: DirId,
) -> Result<Option<Storage>, String> {
    let directories = &common.directories;
    if !directories.is_online(dir) {
        return Ok(None);
    }
    let path = directories.path(dir);
    let opened = Storage::open(reactor, path, shard.0, common.storage.clone()).await;
    match opened {
        Ok(storage) => Ok(Some(storage)),
        Err(error) if dir == DirId::METADATA => Err(format!(
            "shard {} cannot open its write-ahead log: {error}",
            shard.0
        )),
        Err(error) => {
            if directories.set_offline(dir) {
                let path = path.display();
                eprintln!(
                    "error: data directory {path} is offline, with all partitions in it: {error}"
                );
            }
            Ok(None)
        }
    }
}
