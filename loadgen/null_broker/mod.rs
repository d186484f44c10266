//! A broker that answers at once and keeps what it can in memory: what a generator is measured against,
//! and what tests run on. One thread per connection; nothing is written to disk.

mod answer;
mod state;

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use wire::request::Request;
use wire::{header, response};

use state::State;

/// The largest request that is taken.
const REQUEST_BYTES_MAX: usize = 128 << 20;
/// How much is read from a connection at a time.
const READ_BYTES: usize = 1 << 20;

/// A broker on a thread of its own, for the rest of the process's life.
#[derive(Clone, Debug)]
pub struct NullBroker {
    /// Where it listens.
    pub address: SocketAddr,
}

impl NullBroker {
    /// Starts one that keeps the last `retain_bytes` of each partition.
    ///
    /// # Errors
    /// When it cannot listen there.
    pub fn start(listen: SocketAddr, retain_bytes: usize) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let state = Arc::new(State::new(address, retain_bytes));
        let name = || "null-broker".to_owned();
        thread::Builder::new().name(name()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = state.clone();
                // A connection that ends in any way ends its thread.
                let serve = move || drop(serve(stream, &state));
                if thread::Builder::new().name(name()).spawn(serve).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { address })
    }
}

/// Answers one connection's requests in their order, until it ends.
fn serve(stream: TcpStream, state: &State) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::with_capacity(READ_BYTES, stream);
    loop {
        let mut frame = read_frame(&mut reader)?;
        let header = header::decode(&mut frame).map_err(io::Error::other)?;
        let request = Request::decode(&header, frame).map_err(io::Error::other)?;
        let Some(answer) = answer::answer(state, header.api_version, request) else {
            continue;
        };
        let answer = response::encode(header.api_version, header.correlation_id, &answer);
        writer.write_all(&answer.map_err(io::Error::other)?)?;
    }
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
