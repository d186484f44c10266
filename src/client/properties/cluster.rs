//! The properties that all clients have.

use super::Reader;
use crate::cluster::{Backoff, ClusterConfig};

/// Reads them.
pub(super) fn read(reader: &mut Reader<'_>) -> ClusterConfig {
    let default = ClusterConfig::default();
    let bootstrap_servers = bootstrap_servers(reader);
    let plain = [("PLAINTEXT", ())];
    reader.choice("security.protocol", (), &plain);
    ClusterConfig {
        bootstrap_servers,
        client_id: reader
            .text("client.id")
            .map_or(default.client_id, str::to_owned),
        request_timeout: reader.millis("request.timeout.ms", default.request_timeout, 0),
        metadata_max_age: reader.millis("metadata.max.age.ms", default.metadata_max_age, 0),
        reconnect_backoff: backoff(
            reader,
            ["reconnect.backoff.ms", "reconnect.backoff.max.ms"],
            default.reconnect_backoff,
        ),
        retry_backoff: backoff(
            reader,
            ["retry.backoff.ms", "retry.backoff.max.ms"],
            default.retry_backoff,
        ),
        connection_setup_timeout: reader.millis(
            "socket.connection.setup.timeout.ms",
            default.connection_setup_timeout,
            1,
        ),
        connections_max_idle: reader.millis(
            "connections.max.idle.ms",
            default.connections_max_idle,
            1,
        ),
        allow_auto_create_topics: reader
            .flag("allow.auto.create.topics", default.allow_auto_create_topics),
        transport: default.transport,
    }
}

fn backoff(reader: &mut Reader<'_>, names: [&'static str; 2], default: Backoff) -> Backoff {
    Backoff {
        initial: reader.millis(names[0], default.initial, 0),
        max: reader.millis(names[1], default.max, 0),
    }
}

fn bootstrap_servers(reader: &mut Reader<'_>) -> Vec<String> {
    let text = reader.text("bootstrap.servers").unwrap_or_default();
    let servers = ClusterConfig::to(text).bootstrap_servers;
    if servers.is_empty() {
        reader.fault("bootstrap.servers: expected host:port, comma separated; none is given");
    }
    for server in &servers {
        let port = server.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(_))) {
            reader.fault(format!(
                "bootstrap.servers: expected host:port, got \"{server}\""
            ));
        }
    }
    servers
}
