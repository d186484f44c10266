//! Opens a connection: a stream, then ApiVersions (KIP-35, KIP-511). Knows nothing of which broker is wanted.

use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use wire::messages::ApiVersionsRequestData;
use wire::messages::api_versions_response::ApiVersionsResponseData;
use wire::{ErrorCode, KafkaString};

use super::api::RequestMessage;
use super::config::ClusterConfig;
use super::connection::{Connection, RESPONSE_BYTES_MAX, frame_bytes};
use super::versions::Versions;
use crate::Error;
use crate::stream::{Outgoing, Reader, Writer};

/// Room for an answer; a longer one gets more.
const READ_BYTES: usize = 4 << 10;

/// Connects to `host:port` and asks the broker what it speaks.
///
/// # Errors
/// When nobody listens there, or it is no Kafka broker, or all this takes longer than
/// `socket.connection.setup.timeout.ms`.
pub(super) async fn open(address: &str, config: &ClusterConfig) -> Result<Connection, Error> {
    let opening = tokio::time::timeout(config.connection_setup_timeout, dial(address, config));
    let opened = opening.await.unwrap_or_else(|_| {
        let kind = io::ErrorKind::TimedOut;
        Err(io::Error::new(kind, "no answer (socket.connection.setup.timeout.ms)").into())
    });
    opened.map_err(|fault| match fault {
        Fault::Io(error) => Error::Connect {
            addresses: address.to_owned(),
            kind: error.kind(),
            reason: error.to_string(),
        },
        Fault::Other(error) => error,
    })
}

enum Fault {
    Io(io::Error),
    Other(Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

async fn dial(address: &str, config: &ClusterConfig) -> Result<Connection, Fault> {
    let mut stream = config.transport.connect(address).await?;
    let client_id = KafkaString::from(config.client_id.clone());
    let versions = negotiate(&mut stream, &client_id).await?;
    let address = Arc::from(address);
    let idle_max = config.connections_max_idle;
    Ok(Connection::start(
        stream, address, client_id, versions, idle_max,
    ))
}

/// Asks in the highest version; a broker that does not know it answers in version 0 with what it knows.
async fn negotiate(
    stream: &mut (Reader, Writer),
    client_id: &KafkaString,
) -> Result<Versions, Fault> {
    let highest = ApiVersionsRequestData::VERSION_MAX;
    let mut answer = ask(stream, client_id, highest).await?;
    if ErrorCode::from(answer.error_code) == ErrorCode::UnsupportedVersion {
        let api = ApiVersionsRequestData::API as i16;
        let known = answer.api_keys.iter().find(|it| it.api_key == api);
        let version = known.map_or(0, |it| it.max_version.min(highest));
        answer = ask(stream, client_id, version).await?;
    }
    Error::check(answer.error_code, None, "ApiVersions")?;
    Ok(Versions::new(&answer.api_keys))
}

async fn ask(
    stream: &mut (Reader, Writer),
    client_id: &KafkaString,
    version: i16,
) -> Result<ApiVersionsResponseData, Fault> {
    let mut request = ApiVersionsRequestData::default();
    if version >= 3 {
        request.client_software_name = KafkaString::from_static("corelog-client");
        request.client_software_version = KafkaString::from_static(env!("CARGO_PKG_VERSION"));
    }
    let frame = request.frame(version, 0, client_id.clone());
    let mut outgoing = Outgoing::default();
    let pieces = frame.map_err(Error::from)?.into_iter();
    pieces.for_each(|piece| outgoing.push(piece));
    while !outgoing.is_empty() {
        stream.1.write(&mut outgoing).await?;
    }
    let frame = read_frame(&mut stream.0).await?;
    let (_, body) = wire::response::decode_response(18, version, frame).map_err(Error::from)?;
    let answer = ApiVersionsRequestData::decode(version, body.clone());
    // KIP-511: the refusal of an unknown version is a body of version 0.
    let answer = answer.or_else(|error| ApiVersionsRequestData::decode(0, body).map_err(|_| error));
    Ok(answer.map_err(Error::from)?)
}

/// Reads the one frame that is to come, without its length.
async fn read_frame(reader: &mut Reader) -> io::Result<Bytes> {
    let mut input = BytesMut::with_capacity(READ_BYTES);
    loop {
        let total = frame_bytes(&input);
        match total {
            Some(total) if total > RESPONSE_BYTES_MAX => {
                return Err(no_broker("its answer has an impossible length"));
            }
            Some(total) if input.len() > total => {
                return Err(no_broker("it says more than it was asked"));
            }
            Some(total) if input.len() == total => {
                let mut frame = input.freeze();
                frame.advance(4);
                return Ok(frame);
            }
            _ => {}
        }
        if input.len() == input.capacity() {
            input.reserve(READ_BYTES);
        }
        if reader.read(&mut input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn no_broker(why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("it is no Kafka broker: {why}"),
    )
}
