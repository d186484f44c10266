//! `loadgen null-broker` and `loadgen proxy`: what the generator is itself measured and checked against.

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

use clap::ArgMatches;

use super::exit::Failure;
use super::{terminal, text};
use crate::null_broker::NullBroker;
use crate::proxy::{ALL, Harm, Proxy};

/// What the null broker keeps of each partition.
pub const RETAIN_BYTES: usize = 64 << 20;

pub fn null_broker(given: &ArgMatches) -> Result<ExitCode, Failure> {
    let listen = address(text(given, "listen"))?;
    let broker =
        NullBroker::start(listen, RETAIN_BYTES).map_err(|error| cannot_listen(listen, &error))?;
    wait(&format!("null broker on {}\n", broker.address))
}

pub fn proxy(given: &ArgMatches) -> Result<ExitCode, Failure> {
    let (listen, broker) = (
        address(text(given, "listen"))?,
        address(text(given, "brokers"))?,
    );
    let name = text(given, "harm");
    let harm = Harm::named(name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
        Failure::usage(format!(
            "--harm must be one of {}, not {name:?}",
            names.join(", ")
        ))
    })?;
    let every = given.get_one("every").copied().unwrap_or(100);
    let proxy =
        Proxy::start(listen, broker, harm, every).map_err(|error| cannot_listen(listen, &error))?;
    let words = format!(
        "proxy on {} before {broker}; {name} in every {every}th batch\n",
        proxy.address
    );
    wait(&words)
}

/// Serves until it is interrupted.
fn wait(words: &str) -> Result<ExitCode, Failure> {
    terminal::print(words);
    let interrupted = terminal::interruption();
    while !interrupted.load(std::sync::atomic::Ordering::Relaxed) {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Ok(ExitCode::SUCCESS)
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    let found = text
        .to_socket_addrs()
        .ok()
        .and_then(|mut found| found.next());
    found.ok_or_else(|| Failure::usage(format!("{text:?} is no HOST:PORT of this network")))
}

fn cannot_listen(listen: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::failed(format!(
        "cannot listen on {listen}: {error}; choose another with --listen"
    ))
}
