//! The `corelog` command. Knows only how to hand its arguments to the library.
#![forbid(unsafe_code)]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use corelog::serve::{Plan, run};
use corelog::shard::Limits;
use corelog::shard::metadata::Identity;
use logic::cluster::change;

/// A log broker that speaks Kafka's protocol.
#[derive(Parser)]
enum Command {
    /// Runs the broker.
    Serve {
        /// Where the logs live.
        #[arg(long, default_value = "./corelog-data")]
        data: PathBuf,
        /// Where to listen.
        #[arg(long, default_value = "127.0.0.1:9092")]
        listen: String,
        /// How many shards.
        #[arg(long)]
        shards: Option<usize>,
    },
}

fn main() -> ExitCode {
    let Command::Serve {
        data,
        listen,
        shards,
    } = Command::parse();
    match serve(data, &listen, shards) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn serve(data: PathBuf, listen: &str, shards: Option<usize>) -> Result<(), String> {
    std::fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
    let listener = TcpListener::bind(listen).map_err(|error| format!("{listen}: {error}"))?;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let limits = Limits {
        frame_bytes_max: 100 << 20,
        request_memory_bytes: 256 << 20,
        first_frame_wait: Duration::from_secs(30),
        frame_wait: Duration::from_secs(30),
        idle_wait: Duration::from_secs(600),
        fetch_bytes_max: 55 << 20,
        fetch_sessions_max: 1000,
        drain_wait: Duration::from_secs(2),
    };
    let change_limits = change::Limits {
        broker: 1,
        partitions_default: 1,
        partitions_max: 100_000,
        delete_enabled: true,
    };
    let identity = Identity {
        node: 1,
        cluster: "corelog-cluster-000000".into(),
        rack: None,
        advertised: None,
        data_dir: data.display().to_string(),
        statics: Default::default(),
        limits: change_limits,
        auto_create: true,
    };
    let plan = Plan {
        data_dir: data,
        listener,
        shards: shards.unwrap_or(cores),
        pin: true,
        spin_before_park: None,
        limits,
        connections_max: 20_000,
        connections_per_address_max: 20_000,
        storage: Default::default(),
        identity,
    };
    run(plan, |opened| eprintln!("serving: {opened:?}"))
}
