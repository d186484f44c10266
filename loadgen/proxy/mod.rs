//! A proxy before a broker that harms what producers send and lets it be acknowledged: the control that
//! verification finds what it is there to find. Each harm leaves the batch whole and its checksum right,
//! so that no broker notices.

mod harm;

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bytes::Bytes;
use wire::request::Request;
use wire::response::{self, Response};
use wire::{ApiKey, KafkaString, header};

pub use harm::{ALL, Harm};

use crate::null_broker::read_frame;

/// A proxy on threads of its own, for the rest of the process's life.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    harmed: Arc<AtomicU64>,
}

/// What all connections share.
struct Shared {
    address: SocketAddr,
    broker: SocketAddr,
    harm: Harm,
    /// Every how many-th batch that can be harmed is.
    every: u64,
    seen: AtomicU64,
    harmed: Arc<AtomicU64>,
}

/// Requests whose answers name brokers: those must name the proxy. By correlation id, their versions.
type Asked = Arc<Mutex<HashMap<i32, i16>>>;

impl Proxy {
    /// Starts a proxy to a broker that harms every `every`-th batch.
    ///
    /// # Errors
    /// When it cannot listen there.
    pub fn start(
        listen: SocketAddr,
        broker: SocketAddr,
        harm: Harm,
        every: u64,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let harmed = Arc::new(AtomicU64::new(0));
        let shared = Arc::new(Shared {
            address,
            broker,
            harm,
            every,
            seen: AtomicU64::new(0),
            harmed: harmed.clone(),
        });
        thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    // A connection that cannot be passed on is closed by being dropped.
                    let _ = connect(stream, &shared);
                }
            })?;
        Ok(Self { address, harmed })
    }

    /// How many batches were harmed.
    pub fn harmed(&self) -> u64 {
        self.harmed.load(Ordering::Relaxed)
    }
}

fn connect(client: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let broker = TcpStream::connect(shared.broker)?;
    client.set_nodelay(true)?;
    broker.set_nodelay(true)?;
    let asked = Asked::default();
    let (from, to) = (client.try_clone()?, broker.try_clone()?);
    let (of, also) = (shared.clone(), asked.clone());
    let requests = move || {
        let _ = pass(&from, &to, |frame| of.request(frame, &also));
    };
    let of = shared.clone();
    let answers = move || {
        let _ = pass(&broker, &client, |frame| Ok(of.answer(frame, &asked)));
    };
    thread::Builder::new()
        .name("proxy".to_owned())
        .spawn(requests)?;
    thread::Builder::new()
        .name("proxy".to_owned())
        .spawn(answers)?;
    Ok(())
}

/// Passes frames on until a side ends, then ends both.
fn pass(
    mut from: &TcpStream,
    mut to: &TcpStream,
    mut change: impl FnMut(Bytes) -> io::Result<Bytes>,
) -> io::Result<()> {
    let passed = loop {
        let passed = read_frame(&mut from).and_then(|frame| to.write_all(&change(frame)?));
        if passed.is_err() {
            break passed;
        }
    };
    let _ = from.shutdown(std::net::Shutdown::Both);
    let _ = to.shutdown(std::net::Shutdown::Both);
    passed
}

impl Shared {
    /// A request as it goes on, with its length.
    fn request(&self, frame: Bytes, asked: &Asked) -> io::Result<Bytes> {
        let peek = header::peek(&frame).ok_or(io::ErrorKind::InvalidData)?;
        if peek.api_key == ApiKey::Metadata as i16 {
            let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.insert(peek.correlation_id, peek.api_version);
        }
        if peek.api_key != ApiKey::Produce as i16 {
            return Ok(with_length(&frame));
        }
        let mut body = frame.clone();
        let header = header::decode(&mut body).map_err(io::Error::other)?;
        let request = Request::decode(&header, body).map_err(io::Error::other)?;
        let Request::Produce(mut produce) = request else {
            return Ok(with_length(&frame));
        };
        for topic in &mut produce.topic_data {
            for partition in &mut topic.partition_data {
                self.harm(&mut partition.records);
            }
        }
        let changed = Request::Produce(produce).encode(
            header.api_version,
            header.correlation_id,
            header.client_id,
        );
        Ok(changed.map_err(io::Error::other)?.freeze())
    }

    fn harm(&self, records: &mut Option<Bytes>) {
        let Some(batch) = records else {
            return;
        };
        let harmed = self.harm.apply(batch);
        *batch = harm::anonymous(batch);
        let Some(harmed) = harmed else {
            return;
        };
        let number = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        if number.is_multiple_of(self.every) {
            self.harmed.fetch_add(1, Ordering::Relaxed);
            *batch = harmed;
        }
    }

    /// An answer as it goes on, with its length.
    fn answer(&self, frame: Bytes, asked: &Asked) -> Bytes {
        let id = frame
            .first_chunk()
            .map_or(-1, |bytes| i32::from_be_bytes(*bytes));
        let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(version) = asked.remove(&id) else {
            return with_length(&frame);
        };
        self.renamed(&frame, version)
            .unwrap_or_else(|| with_length(&frame))
    }

    /// The metadata with the proxy in the place of each broker.
    fn renamed(&self, frame: &Bytes, version: i16) -> Option<Bytes> {
        let key = ApiKey::Metadata as i16;
        let (id, body) = response::decode_response(key, version, frame.clone()).ok()?;
        let Response::Metadata(mut metadata) = Response::decode(key, version, body).ok()? else {
            return None;
        };
        for broker in &mut metadata.brokers {
            broker.host = KafkaString::from(self.address.ip().to_string());
            broker.port = self.address.port().into();
        }
        response::encode(version, id, &Response::Metadata(metadata)).ok()
    }
}

fn with_length(frame: &Bytes) -> Bytes {
    let length = i32::try_from(frame.len()).expect("frames are read with a bound");
    [&length.to_be_bytes()[..], frame].concat().into()
}
