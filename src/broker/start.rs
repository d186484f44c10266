//! From settings to a running broker: takes the data directory, the machine and the address, says the
//! banner. Knows nothing of what runs then.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use logic::cluster::change;
use logic::group;

use crate::command::banner::Banner;
use crate::command::machine::Machine;
use crate::config::{Settings, rules};
use crate::data_dirs::DataDirs;
use crate::serve::{self, Opened, Plan, Threads};
use crate::shard::Limits;
use crate::shard::cleaning::CleanerLimits;
use crate::shard::groups::GroupLimits;
use crate::shard::metadata::Identity;
use crate::start_error::StartError;
use crate::storage;

/// How long an address may be taken, and how often it is tried: the kernel keeps a killed broker's listener
/// until it has taken its io_uring apart, which is after the process is gone.
const TAKEN_MAX: Duration = Duration::from_secs(2);
const TAKEN_PAUSE: Duration = Duration::from_millis(10);

/// Runs a broker until a signal stops it.
///
/// # Errors
/// Why it did not start.
pub fn start(settings: Settings) -> Result<(), StartError> {
    let mut data_dirs = DataDirs::open(&settings.data.dirs, settings.broker.node_id)?;
    let machine = Machine::prepare(&settings, &mut data_dirs)?;
    let identity = data_dirs.identity().clone();
    let address = settings.listener.listen;
    let listener = bind(address).map_err(|error| StartError::Listen { address, error })?;
    let listen = listener.local_addr().unwrap_or(address);
    let connections_max = machine.connections_max(settings.shard_count());
    let plan = plan(&settings, data_dirs, listener, connections_max);
    serve::run(plan, |opened| {
        let banner = Banner::new(&settings, &identity, machine, listen, recovery(opened));
        eprintln!("{banner}");
    })
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let begun = Instant::now();
    loop {
        match TcpListener::bind(address) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && begun.elapsed() < TAKEN_MAX =>
            {
                std::thread::sleep(TAKEN_PAUSE);
            }
            bound => return bound,
        }
    }
}

fn recovery(opened: &Opened) -> String {
    let Opened {
        topics,
        partitions,
        recovery,
        recovered_bytes,
    } = opened;
    let mebibytes = recovered_bytes >> 20;
    format!(
        "{topics} topics, {partitions} partitions; {mebibytes} MiB of write-ahead log read, {} ms",
        recovery.as_millis()
    )
}

fn group_limits(settings: &Settings) -> GroupLimits {
    let (groups, offsets) = (&settings.groups, &settings.offsets);
    GroupLimits {
        settings: group::Settings {
            initial_rebalance_delay_ms: groups.initial_rebalance_delay_ms,
            session_timeout_ms_min: groups.min_session_timeout_ms,
            session_timeout_ms_max: groups.max_session_timeout_ms,
            size_max: groups.max_size,
            metadata_bytes_max: offsets.metadata_max_bytes,
            retention_ms: i64::from(offsets.retention_minutes) * 60_000,
            retention_check_interval_ms: offsets.retention_check_interval_ms,
            memory_bytes_max: groups.memory_bytes,
            consumer: group::ConsumerSettings {
                times: group::Times {
                    session_timeout_ms: groups.consumer_session_timeout_ms.unsigned_abs().into(),
                    heartbeat_interval_ms: groups.consumer_heartbeat_interval_ms,
                    assignment_interval_ms: groups
                        .consumer_assignment_interval_ms
                        .unsigned_abs()
                        .into(),
                },
                size_max: groups.consumer_max_size,
                // Both were checked with the settings.
                assignors: rules::assignors(&groups.consumer_assignors).unwrap_or_default(),
                migration: group::MigrationPolicy::named(&groups.consumer_migration_policy)
                    .unwrap_or(group::MigrationPolicy::Disabled),
            },
        },
        topic_partitions: offsets.topic_num_partitions,
        topic_segment_bytes: offsets.topic_segment_bytes,
    }
}

fn plan(
    settings: &Settings,
    data_dirs: DataDirs,
    listener: TcpListener,
    connections_max: usize,
) -> Plan {
    let (network, topics) = (&settings.network, &settings.topics);
    let shards = settings.shard_count();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let node = settings.broker.node_id;
    let rack = &settings.broker.rack;
    let cluster = data_dirs.identity().cluster_id.clone();
    Plan {
        data_dirs,
        listener,
        shards,
        threads: Threads {
            pin: shards <= cores,
            ring_entries: settings.shards.ring_entries,
            spin_before_park: settings.spin_before_park(),
        },
        limits: Limits {
            frame_bytes_max: network.socket_request_max_bytes,
            request_memory_bytes: network.request_memory_bytes,
            reply_memory_bytes: network.reply_memory_bytes,
            first_frame_wait: Duration::from_millis(network.first_frame_wait_ms),
            frame_wait: Duration::from_millis(network.frame_wait_ms),
            idle_wait: Duration::from_millis(network.connections_max_idle_ms),
            fetch_bytes_max: settings.fetch.max_bytes,
            fetch_sessions_max: settings.fetch.sessions_max,
            groups: group_limits(settings),
            drain_wait: Duration::from_millis(network.drain_wait_ms),
            retention_check_interval: Duration::from_millis(settings.retention.check_interval_ms),
            cleaner: CleanerLimits {
                dedupe_bytes: settings.cleaner.dedupe_buffer_bytes / shards,
                bytes_per_second: settings.cleaner.io_bytes_per_second_max / shards as u64,
                backoff: Duration::from_millis(settings.cleaner.backoff_ms),
            },
        },
        connections_max: network.max_connections.min(connections_max),
        connections_per_address_max: network.max_connections_per_ip,
        storage: storage_settings(settings),
        identity: Identity {
            node,
            cluster,
            rack: (!rack.is_empty()).then(|| rack.clone()),
            advertised: settings
                .listener
                .advertise
                .as_ref()
                .map(|it| (it.host.clone(), it.port)),
            statics: settings.statics(),
            limits: change::Limits {
                broker: node,
                partitions_default: topics.num_partitions,
                partitions_max: topics.partitions_max,
                delete_enabled: topics.delete_topic_enable,
            },
            auto_create: topics.auto_create_topics_enable,
        },
    }
}

fn storage_settings(settings: &Settings) -> storage::Settings {
    storage::Settings {
        wal_extent_bytes: settings.wal.extent_bytes,
        wal_bytes_max: settings.wal.bytes_max,
        commit_bytes_max: settings.wal.commit_bytes_max,
        bypass_bytes_min: settings.wal.bypass_bytes_min,
        unflushed_bytes_max: storage::Settings::default().unflushed_bytes_max,
        backlog_bytes_max: settings.wal.backlog_bytes_max,
        tail_cache_bytes: settings.storage.tail_cache_bytes,
        disk_reserve_bytes: settings.storage.disk_reserve_bytes,
    }
}
