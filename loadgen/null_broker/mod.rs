//! A broker that answers at once and keeps what it can in memory: what a generator is measured against,
//! and what tests run on. One thread per connection; nothing is written to disk.

mod answer;
mod cost;
mod state;

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use client::{Transport, memory};
use wire::request::Request;
use wire::{ErrorCode, header, response, version};

use answer::Answer;
use cost::Cost;
use state::State;

/// The largest request that is taken.
const REQUEST_BYTES_MAX: usize = 128 << 20;
/// How much is read from a connection at a time.
const READ_BYTES: usize = 1 << 20;

/// How long nothing is accepted after a failure: file descriptors may have run out.
const ACCEPT_FAILED_WAIT: Duration = Duration::from_millis(10);
/// What one in memory is called. Nothing listens there.
const ADDRESS_IN_MEMORY: (&str, u16) = ("null", 9092);

/// A broker on threads of its own: one by TCP for the rest of the process's life, one in memory until nobody
/// is left who could connect.
#[derive(Clone, Debug)]
pub struct NullBroker {
    /// Where it says that it is, as `host:port`.
    pub address: String,
    /// How it is reached.
    pub transport: Transport,
    cost: Arc<Cost>,
}

impl NullBroker {
    /// Starts one that listens by TCP and keeps the last `retain_bytes` of each partition.
    ///
    /// # Errors
    /// When it cannot listen there.
    pub fn start(listen: SocketAddr, retain_bytes: usize) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let state = State::new(address.ip().to_string(), address.port(), retain_bytes);
        let broker = Self {
            address: address.to_string(),
            transport: Transport::Tcp,
            cost: Arc::default(),
        };
        broker.serve(state, move || Some(accept(&listener)))?;
        Ok(broker)
    }

    /// Starts one that only clients of this process reach, without sockets.
    ///
    /// # Errors
    /// When it cannot have a thread.
    pub fn in_memory(retain_bytes: usize) -> io::Result<Self> {
        let (port, listener) = memory::listen();
        let (host, number) = ADDRESS_IN_MEMORY;
        let broker = Self {
            address: format!("{host}:{number}"),
            transport: Transport::Memory(port),
            cost: Arc::default(),
        };
        let state = State::new(host.to_owned(), number, retain_bytes);
        broker.serve(state, move || listener.accept())?;
        Ok(broker)
    }

    /// CPU time of its threads so far.
    pub fn cpu(&self) -> Duration {
        self.cost.cpu()
    }

    /// A thread that accepts, and one for each connection.
    fn serve<R, W>(
        &self,
        state: State,
        accept: impl Fn() -> Option<(R, W)> + Send + 'static,
    ) -> io::Result<()>
    where
        R: Read + Send + 'static,
        W: Write + Send + 'static,
    {
        let (state, cost) = (Arc::new(state), self.cost.clone());
        spawn(&self.cost, move || {
            while let Some((reader, writer)) = accept() {
                let state = state.clone();
                // A connection that ends in any way ends its thread.
                let serve = move || drop(serve(reader, writer, &state));
                if spawn(&cost, serve).is_err() {
                    return;
                }
            }
        })
    }
}

/// The next connection by TCP. One that is gone before it is accepted is nobody's loss.
fn accept(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let try_accept = || {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        Ok::<_, io::Error>((stream.try_clone()?, stream))
    };
    loop {
        match try_accept() {
            Ok(connection) => return connection,
            Err(_) => thread::sleep(ACCEPT_FAILED_WAIT),
        }
    }
}

/// A thread whose CPU time is the broker's.
fn spawn(cost: &Arc<Cost>, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let cost = cost.clone();
    let counted = move || {
        let _counted = cost.enter();
        run();
    };
    let named = thread::Builder::new().name("null-broker".to_owned());
    named.spawn(counted).map(drop)
}

/// Answers one connection's requests in their order, until it ends.
fn serve(reader: impl Read, mut writer: impl Write, state: &State) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(READ_BYTES, reader);
    loop {
        let mut frame = read_frame(&mut reader)?;
        if let Some(newer) = newer_api_versions(&frame) {
            writer.write_all(&response::unsupported_api_versions(newer.correlation_id))?;
            continue;
        }
        let header = header::decode(&mut frame).map_err(io::Error::other)?;
        let request = Request::decode(&header, frame).map_err(io::Error::other)?;
        let answer = match answer::answer(state, header.api_version, request) {
            Answer::None => continue,
            Answer::Some(answer) => {
                response::encode(header.api_version, header.correlation_id, &answer)
                    .map_err(io::Error::other)?
            }
            Answer::Unknown => response::error_response(&header, ErrorCode::UnsupportedVersion)
                .ok_or_else(|| io::Error::other("an API that is not answered here"))?,
        };
        writer.write_all(&answer)?;
    }
}

/// A client that is newer than this asks for API versions in a version that it must be told is not known.
fn newer_api_versions(frame: &[u8]) -> Option<header::Peek> {
    header::peek(frame).filter(|peek| {
        peek.api_key == version::API_VERSIONS && !version::is_served(peek.api_key, peek.api_version)
    })
}

/// The next frame, without its length.
///
/// # Errors
/// When the connection ends, or the frame is longer than is taken.
pub fn read_frame(reader: &mut impl Read) -> io::Result<Bytes> {
    let mut length = [0; 4];
    reader.read_exact(&mut length)?;
    let length = usize::try_from(i32::from_be_bytes(length)).ok();
    let length = length.filter(|length| *length <= REQUEST_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    let mut frame = vec![0; length];
    reader.read_exact(&mut frame)?;
    Ok(frame.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is answered to a request without a body: the correlation id's part, and all behind it.
    fn ask(api_key: i16, api_version: i16) -> (i32, Vec<u8>) {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let broker = NullBroker::start(listen, 1).expect("listens");
        let mut stream = TcpStream::connect(broker.address).expect("connects");
        let mut frame = 10_i32.to_be_bytes().to_vec();
        frame.extend(api_key.to_be_bytes());
        frame.extend(api_version.to_be_bytes());
        frame.extend(7_i32.to_be_bytes());
        frame.extend((-1_i16).to_be_bytes());
        stream.write_all(&frame).expect("sends");
        let answer = read_frame(&mut stream).expect("is answered");
        let (correlation, rest) = answer.split_first_chunk().expect("has a header");
        (i32::from_be_bytes(*correlation), rest.to_vec())
    }

    #[test]
    fn a_newer_client_is_told_which_versions_are_served_and_an_unknown_api_is_refused() {
        let unsupported = ErrorCode::UnsupportedVersion.code().to_be_bytes();
        let (correlation, answer) = ask(version::API_VERSIONS, 99);
        assert_eq!((correlation, &answer[..2]), (7, &unsupported[..]));
        assert!(answer.len() > 100, "the table of versions follows");

        const LIST_GROUPS: i16 = 16;
        let (correlation, answer) = ask(LIST_GROUPS, 0);
        assert_eq!((correlation, &answer[..2]), (7, &unsupported[..]));
    }
}
