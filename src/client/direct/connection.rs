//! One connection to one broker. Knows frames and correlation ids, and nothing of what is asked.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::request::Request;
use wire::response::{self, Response};
use wire::{KafkaString, WireError};

/// The largest response that is accepted, in bytes.
const RESPONSE_BYTES_MAX: usize = 100 << 20;
/// How long a response may take (`request.timeout.ms`).
const RESPONSE_WAIT: Duration = Duration::from_secs(30);

/// Why a call failed.
#[derive(Debug)]
pub enum Error {
    /// The connection broke, or the broker did not answer in time.
    Io(io::Error),
    /// What was sent or received is no message of the protocol.
    Wire(WireError),
    /// The broker answered with this error code.
    Broker(i16),
    /// The broker answered something else than was asked.
    Unexpected(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Wire(error) => write!(f, "{error}"),
            Self::Broker(code) => write!(f, "the broker answered error code {code}"),
            Self::Unexpected(what) => write!(f, "the broker's answer is not {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<WireError> for Error {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

/// A connection. Requests may be sent before earlier ones are answered; answers come in their order.
pub struct Connection {
    stream: TcpStream,
    next_correlation_id: i32,
    /// What is asked and not yet answered, in order.
    asked: VecDeque<Asked>,
}

struct Asked {
    correlation_id: i32,
    api_key: i16,
    version: i16,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens there.
    pub async fn connect(address: SocketAddr) -> Result<Self, Error> {
        let stream = crate::stream::connect(address).await?;
        Ok(Self {
            stream,
            next_correlation_id: 0,
            asked: VecDeque::new(),
        })
    }

    /// Sends a request and waits for its response. Nothing else may be unanswered.
    ///
    /// # Errors
    /// When the connection breaks, nothing comes within 30 s, or the answer cannot be read.
    pub async fn call(&mut self, version: i16, request: &Request) -> Result<Response, Error> {
        assert!(
            self.asked.is_empty(),
            "the next answer is that to an earlier request"
        );
        self.ask(version, request).await?;
        self.answer().await
    }

    /// Sends a request whose response [`Connection::answer`] takes later.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn ask(&mut self, version: i16, request: &Request) -> Result<(), Error> {
        let correlation_id = self.send(version, request).await?;
        self.asked.push_back(Asked {
            correlation_id,
            api_key: request.api() as i16,
            version,
        });
        Ok(())
    }

    /// Waits for the response to the oldest request that was asked and not yet answered.
    ///
    /// # Errors
    /// When nothing was asked, the connection breaks, nothing comes within 30 s, or the answer
    /// cannot be read.
    pub async fn answer(&mut self) -> Result<Response, Error> {
        let asked = self.asked.pop_front();
        let asked = asked.ok_or(Error::Unexpected("to be waited for: nothing was asked"))?;
        let frame = tokio::time::timeout(RESPONSE_WAIT, self.read_frame())
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let (api_key, version) = (asked.api_key, asked.version);
        let (answered, body) = response::decode_response(api_key, version, frame)?;
        if answered != asked.correlation_id {
            return Err(Error::Unexpected("for the request that was sent"));
        }
        Ok(Response::decode(api_key, version, body)?)
    }

    /// Sends a request that is not answered, such as a produce with acks=0; returns its
    /// correlation id.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn send(&mut self, version: i16, request: &Request) -> Result<i32, Error> {
        let id = self.next_correlation_id;
        self.next_correlation_id = self.next_correlation_id.wrapping_add(1);
        let name = KafkaString::from_static("corelog-client");
        let frame = request.encode(version, id, Some(name))?;
        self.stream.write_all(&frame).await?;
        Ok(id)
    }

    async fn read_frame(&mut self) -> Result<Bytes, Error> {
        let length = self.stream.read_i32().await?;
        let length = usize::try_from(length)
            .ok()
            .filter(|it| *it <= RESPONSE_BYTES_MAX);
        let length = length.ok_or(Error::Unexpected("a frame of an allowed length"))?;
        let mut frame = BytesMut::zeroed(length);
        self.stream.read_exact(&mut frame).await?;
        Ok(frame.freeze())
    }
}
