//! Which connection a request takes: one per broker and lane, opened when needed, with backoff.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::backoff::{Attempts, random};
use super::config::ClusterConfig;
use super::connection::Connection;
use super::metadata::Metadata;
use super::open::open;
use crate::Error;

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// The broker with the fewest requests in flight.
    Any,
    /// The broker that takes requests for the controller.
    Controller,
    /// The broker with this node id.
    Node(i32),
    /// The same, on a connection of its own: what a coordinator answers must not wait behind a long
    /// poll of a fetch.
    Coordinator(i32),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Bootstrap(usize),
    Node(i32),
    Coordinator(i32),
}

/// A place for one connection. The lock is held while it is opened: who comes second waits for it.
type Link = Arc<tokio::sync::Mutex<LinkState>>;

#[derive(Debug, Default)]
struct LinkState {
    connection: Option<Connection>,
    /// The address that the connection leads to: a broker may move.
    address: String,
    attempts: Attempts,
}

#[derive(Debug, Default)]
pub(super) struct Links {
    links: Mutex<HashMap<Key, Link>>,
}

impl Links {
    /// An open connection for the route.
    pub(super) async fn connection(
        &self,
        route: Route,
        metadata: &Metadata,
        config: &ClusterConfig,
    ) -> Result<Connection, Error> {
        let (key, node) = match route {
            Route::Any => return self.any(metadata, config).await,
            Route::Controller => match metadata.controller {
                Some(node) => (Key::Node(node), node),
                None => return self.any(metadata, config).await,
            },
            Route::Node(node) => (Key::Node(node), node),
            Route::Coordinator(node) => (Key::Coordinator(node), node),
        };
        match metadata.brokers.get(&node) {
            Some(broker) => self.open(key, &broker.address, config).await,
            None => Err(self.without_address(key, node, config).await),
        }
    }

    /// A broker without an address is one that does not answer: who asks for it again and again waits
    /// longer each time.
    async fn without_address(&self, key: Key, node: i32, config: &ClusterConfig) -> Error {
        let link = self.link(key);
        let mut state = link.lock().await;
        tokio::time::sleep(state.attempts.wait(Instant::now())).await;
        state
            .attempts
            .failed(Instant::now(), config.reconnect_backoff, random());
        Error::Connect {
            addresses: format!("broker {node}"),
            kind: std::io::ErrorKind::NotFound,
            reason: "the cluster does not name its address".to_owned(),
        }
    }

    fn link(&self, key: Key) -> Link {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.entry(key).or_default().clone()
    }

    /// An open connection if there is one, else one to a known broker, else one to a bootstrap server.
    async fn any(&self, metadata: &Metadata, config: &ClusterConfig) -> Result<Connection, Error> {
        if let Some(connection) = self.least_loaded() {
            return Ok(connection);
        }
        let nodes = metadata.brokers.values();
        let nodes = nodes.map(|broker| (Key::Node(broker.id), &*broker.address));
        let servers = config.bootstrap_servers.iter().enumerate();
        let servers = servers.map(|(index, address)| (Key::Bootstrap(index), &**address));
        let mut candidates: Vec<_> = nodes.chain(servers).collect();
        let turn = (random() * candidates.len() as f64) as usize;
        let turn = turn.min(candidates.len().saturating_sub(1));
        candidates.rotate_left(turn);
        let mut failures = Vec::new();
        for (key, address) in candidates {
            match self.open(key, address, config).await {
                Ok(connection) => return Ok(connection),
                Err(error) => failures.push((address, error)),
            }
        }
        Err(nobody_answered(failures))
    }

    fn least_loaded(&self) -> Option<Connection> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = links
            .iter()
            .filter(|(key, _)| !matches!(key, Key::Coordinator(_)));
        let open = shared.filter_map(|(_, link)| link.try_lock().ok()?.connection.clone());
        open.filter(Connection::is_open)
            .min_by_key(Connection::in_flight)
    }

    async fn open(
        &self,
        key: Key,
        address: &str,
        config: &ClusterConfig,
    ) -> Result<Connection, Error> {
        let link = self.link(key);
        let mut state = link.lock().await;
        if let Some(connection) = &state.connection {
            if connection.is_open() && state.address == address {
                return Ok(connection.clone());
            }
            // It was there and broke: that counts as a failure, or a broker that accepts and closes
            // would be asked without a pause.
            state.connection = None;
            state
                .attempts
                .failed(Instant::now(), config.reconnect_backoff, random());
        }
        tokio::time::sleep(state.attempts.wait(Instant::now())).await;
        match open(address, config).await {
            Ok(connection) => {
                state.attempts.succeeded();
                state.connection = Some(connection.clone());
                address.clone_into(&mut state.address);
                Ok(connection)
            }
            Err(error) => {
                state
                    .attempts
                    .failed(Instant::now(), config.reconnect_backoff, random());
                Err(error)
            }
        }
    }
}

/// One error for all addresses that were tried; one that is not about connecting says more.
fn nobody_answered(failures: Vec<(&str, Error)>) -> Error {
    let mut addresses: Vec<&str> = Vec::new();
    let mut last = None;
    for (address, error) in failures {
        match error {
            Error::Connect { kind, reason, .. } => {
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
                last = Some((kind, reason));
            }
            error => return error,
        }
    }
    let none = (
        std::io::ErrorKind::NotFound,
        "no address is given".to_owned(),
    );
    let (kind, reason) = last.unwrap_or(none);
    Error::Connect {
        addresses: addresses.join(", "),
        kind,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cluster::Backoff;

    #[tokio::test]
    async fn a_broker_without_an_address_is_not_asked_for_again_before_the_backoff_is_over() {
        let links = Links::default();
        let metadata = Metadata::default();
        let config = ClusterConfig {
            reconnect_backoff: Backoff {
                initial: Duration::from_secs(3_600),
                max: Duration::from_secs(3_600),
            },
            ..ClusterConfig::default()
        };
        let first = links.connection(Route::Node(9), &metadata, &config).await;
        assert!(matches!(first, Err(Error::Connect { .. })));
        let second = links.connection(Route::Node(9), &metadata, &config);
        let paused = tokio::time::timeout(Duration::from_millis(50), second).await;
        assert!(paused.is_err(), "without a pause");
    }
}
