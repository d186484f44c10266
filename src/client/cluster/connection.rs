//! One connection to one broker: many requests in flight, answers in their order. Knows nothing of
//! what is asked.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;
use wire::{ApiKey, KafkaString};

use super::api::{Frame, RequestMessage};
use super::versions::Versions;
use crate::Error;
use crate::stream::{Outgoing, Reader, Writer};

/// The largest answer that is accepted, in bytes.
pub(super) const RESPONSE_BYTES_MAX: usize = 256 << 20;
/// Requests that wait for their turn to be written.
const QUEUED_MAX: usize = 256;
/// Bytes asked of the stream at a time; of a longer answer no more than this is moved once.
const READ_BYTES: usize = 16 << 10;
/// Bytes that may wait for the stream before further requests are taken from the queue.
const OUTGOING_BYTES_MAX: usize = 1 << 20;

/// A connection, usable from many tasks. It ends when the last handle is dropped.
#[derive(Clone, Debug)]
pub struct Connection {
    shared: Arc<Shared>,
    requests: mpsc::Sender<Request>,
}

#[derive(Debug)]
struct Shared {
    address: Arc<str>,
    client_id: KafkaString,
    versions: Versions,
    next_correlation_id: AtomicI32,
    /// Requests that are queued or on their way.
    in_flight: AtomicUsize,
}

struct Request {
    frame: Frame,
    correlation_id: i32,
    timeout: Duration,
    deadline: Instant,
    answered: bool,
    reply: oneshot::Sender<Result<Bytes, Error>>,
}

/// The answer to a request that was sent: a future.
#[derive(Debug)]
#[must_use = "a request without its answer may or may not have been carried out"]
pub struct Answer<R> {
    reply: oneshot::Receiver<Result<Bytes, Error>>,
    decode: Decode<R>,
    in_flight: InFlight,
}

#[derive(Debug)]
struct Decode<R> {
    api: ApiKey,
    version: i16,
    read: fn(i16, Bytes) -> Result<R, wire::WireError>,
    unanswered: Option<R>,
}

#[derive(Debug)]
struct InFlight(Arc<Shared>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection {
    /// Takes over a stream on which versions were negotiated.
    pub(super) fn start(
        stream: (Reader, Writer),
        address: Arc<str>,
        client_id: KafkaString,
        versions: Versions,
        idle_max: Duration,
    ) -> Self {
        let (requests, queue) = mpsc::channel(QUEUED_MAX);
        let (reader, writer) = stream;
        let worker = Worker {
            address: address.clone(),
            reader,
            writer,
            queue,
            waiting: VecDeque::new(),
            outgoing: Outgoing::default(),
            input: BytesMut::new(),
            idle_max,
            used: Instant::now(),
        };
        tokio::spawn(worker.run());
        let shared = Shared {
            address,
            client_id,
            versions,
            next_correlation_id: AtomicI32::new(0),
            in_flight: AtomicUsize::new(0),
        };
        Self {
            shared: Arc::new(shared),
            requests,
        }
    }

    /// `host:port` of the broker.
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// Whether requests can still be sent.
    pub fn is_open(&self) -> bool {
        !self.requests.is_closed()
    }

    /// Requests that were sent and are not answered.
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::Relaxed)
    }

    /// The version in which `M` is spoken here: the highest that both sides have.
    ///
    /// # Errors
    /// When there is none.
    pub fn version<M: RequestMessage>(&self) -> Result<i16, Error> {
        self.shared.versions.highest::<M>(&self.shared.address)
    }

    /// Sends a request in the highest common version and waits for its answer.
    ///
    /// # Errors
    /// When there is no such version, the connection breaks, or no answer comes in time.
    pub async fn send<M: RequestMessage>(
        &self,
        request: &M,
        timeout: Duration,
    ) -> Result<M::Response, Error> {
        let version = self.version::<M>()?;
        let permit = self.requests.reserve().await.map_err(|_| self.gone())?;
        let (request, answer) = self.prepare(version, request, timeout)?;
        permit.send(request);
        answer.await
    }

    /// Sends a request in a version of the caller's choice (see [`Connection::version`]) without
    /// waiting: requests are written in the order of these calls.
    ///
    /// # Errors
    /// When the connection is gone, its queue is full (256 requests), or the request does not fit
    /// into the version.
    pub fn enqueue<M: RequestMessage>(
        &self,
        version: i16,
        request: &M,
        timeout: Duration,
    ) -> Result<Answer<M::Response>, Error> {
        let permit = self.requests.try_reserve().map_err(|_| self.gone())?;
        let (request, answer) = self.prepare(version, request, timeout)?;
        permit.send(request);
        Ok(answer)
    }

    fn prepare<M: RequestMessage>(
        &self,
        version: i16,
        request: &M,
        timeout: Duration,
    ) -> Result<(Request, Answer<M::Response>), Error> {
        let shared = &self.shared;
        let correlation_id = shared.next_correlation_id.fetch_add(1, Ordering::Relaxed);
        let frame = request.frame(version, correlation_id, shared.client_id.clone())?;
        let unanswered = request.unanswered();
        let (reply, receiver) = oneshot::channel();
        shared.in_flight.fetch_add(1, Ordering::Relaxed);
        let answer = Answer {
            reply: receiver,
            in_flight: InFlight(shared.clone()),
            decode: Decode {
                api: M::API,
                version,
                read: M::decode,
                unanswered,
            },
        };
        let request = Request {
            frame,
            correlation_id,
            timeout,
            deadline: Instant::now() + timeout,
            answered: answer.decode.unanswered.is_none(),
            reply,
        };
        Ok((request, answer))
    }

    fn gone(&self) -> Error {
        let reason = if self.requests.is_closed() {
            "it was closed"
        } else {
            "too many requests wait for it"
        };
        Error::Disconnected {
            address: self.shared.address.to_string(),
            reason: reason.to_owned(),
        }
    }
}

/// Nothing in it is pinned.
impl<R> Unpin for Answer<R> {}

impl<R> Future for Answer<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(reply) = Pin::new(&mut self.reply).poll(context) else {
            return Poll::Pending;
        };
        let Ok(reply) = reply else {
            let address = self.in_flight.0.address.to_string();
            let reason = "its task ended".to_owned();
            return Poll::Ready(Err(Error::Disconnected { address, reason }));
        };
        Poll::Ready(reply.and_then(|frame| self.decode.answer(frame)))
    }
}

impl<R> Decode<R> {
    fn answer(&mut self, frame: Bytes) -> Result<R, Error> {
        if let Some(unanswered) = self.unanswered.take() {
            return Ok(unanswered);
        }
        let (_, body) = wire::response::decode_response(self.api as i16, self.version, frame)?;
        Ok((self.read)(self.version, body)?)
    }
}

/// The task that owns the stream.
struct Worker {
    address: Arc<str>,
    reader: Reader,
    writer: Writer,
    queue: mpsc::Receiver<Request>,
    /// Written (or being written) and not answered, in the order of writing.
    waiting: VecDeque<Waiting>,
    outgoing: Outgoing,
    /// What was read and is no whole frame yet.
    input: BytesMut,
    idle_max: Duration,
    used: Instant,
}

struct Waiting {
    correlation_id: i32,
    timeout: Duration,
    deadline: Instant,
    reply: oneshot::Sender<Result<Bytes, Error>>,
}

impl Worker {
    async fn run(mut self) {
        let error = self.serve().await;
        self.queue.close();
        for waiting in self.waiting.drain(..) {
            let _ = waiting.reply.send(Err(error.clone()));
        }
        while let Some(request) = self.queue.recv().await {
            let _ = request.reply.send(Err(error.clone()));
        }
    }

    /// Reads and writes until something ends the connection; says what.
    async fn serve(&mut self) -> Error {
        let mut handles_gone = false;
        let mut alarm = pin!(sleep_until(self.deadline().into()));
        loop {
            if handles_gone && self.waiting.is_empty() && self.outgoing.is_empty() {
                return Error::Closed;
            }
            self.reserve_input();
            let take = !handles_gone && self.outgoing.remaining() < OUTGOING_BYTES_MAX;
            // Most deadlines only move on: an alarm that rings early costs less than one set each time.
            let until = self.deadline().into();
            if until < alarm.deadline() {
                alarm.as_mut().reset(until);
            }
            tokio::select! {
                read = self.reader.read(&mut self.input) => {
                    match read {
                        Ok(0) => return self.broke("the broker closed it"),
                        Ok(_) => {}
                        Err(error) => return self.broke(&error.to_string()),
                    }
                    if let Err(error) = self.deliver() {
                        return error;
                    }
                }
                written = self.writer.write(&mut self.outgoing), if !self.outgoing.is_empty() => {
                    if let Err(error) = written {
                        return self.broke(&error.to_string());
                    }
                }
                request = self.queue.recv(), if take => match request {
                    Some(request) => self.accept(request),
                    None => handles_gone = true,
                },
                () = &mut alarm => {
                    if let Some(error) = self.late(Instant::now()) {
                        return error;
                    }
                    alarm.as_mut().reset(self.deadline().into());
                }
            }
        }
    }

    fn accept(&mut self, request: Request) {
        self.used = Instant::now();
        request
            .frame
            .into_iter()
            .for_each(|piece| self.outgoing.push(piece));
        if request.answered {
            self.waiting.push_back(Waiting {
                correlation_id: request.correlation_id,
                timeout: request.timeout,
                deadline: request.deadline,
                reply: request.reply,
            });
        } else {
            // Nobody will say whether it arrived; a connection that breaks loses it, as promised.
            let _ = request.reply.send(Ok(Bytes::new()));
        }
    }

    /// Room for the rest of a frame whose length is known, else for a few small ones.
    fn reserve_input(&mut self) {
        let expected = frame_bytes(&self.input).unwrap_or(0);
        let missing = expected.saturating_sub(self.input.len());
        let room = self.input.capacity() - self.input.len();
        if missing > 0 && expected <= RESPONSE_BYTES_MAX {
            self.input.reserve(missing);
        } else if room < READ_BYTES / 4 {
            self.input.reserve(READ_BYTES);
        }
    }

    /// Gives whole frames to those who wait for them.
    fn deliver(&mut self) -> Result<(), Error> {
        while let Some(total) = frame_bytes(&self.input) {
            if !(8..=RESPONSE_BYTES_MAX).contains(&total) {
                return Err(Error::Protocol {
                    reason: format!("{} announces an answer of {total} bytes", self.address),
                });
            }
            if self.input.len() < total {
                break;
            }
            let mut frame = self.input.split_to(total).freeze();
            frame.advance(4);
            let correlation_id = frame.first_chunk().map(|id| i32::from_be_bytes(*id));
            let waiting = self.waiting.pop_front();
            let waiting = waiting.filter(|it| Some(it.correlation_id) == correlation_id);
            let Some(waiting) = waiting else {
                return Err(Error::Protocol {
                    reason: format!("{} answers what was not asked", self.address),
                });
            };
            self.used = Instant::now();
            let _ = waiting.reply.send(Ok(frame));
        }
        Ok(())
    }

    /// When to look for what is late.
    fn deadline(&self) -> Instant {
        let requests = self.waiting.iter().map(|waiting| waiting.deadline);
        requests.min().unwrap_or(self.used + self.idle_max)
    }

    /// A late answer ends the connection: the answers behind it would come later still.
    fn late(&self, now: Instant) -> Option<Error> {
        let late = self.waiting.iter().find(|it| it.deadline <= now);
        if let Some(late) = late {
            return Some(Error::RequestTimeout {
                address: self.address.to_string(),
                waited: late.timeout,
            });
        }
        let idle = self.waiting.is_empty() && self.used + self.idle_max <= now;
        idle.then(|| self.broke("it was idle (connections.max.idle.ms)"))
    }

    fn broke(&self, reason: &str) -> Error {
        Error::Disconnected {
            address: self.address.to_string(),
            reason: reason.to_owned(),
        }
    }
}

/// Bytes of the frame that begins here, its length included. Negative lengths are huge ones.
pub(super) fn frame_bytes(input: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(*input.first_chunk()?);
    Some(
        usize::try_from(length)
            .unwrap_or(usize::MAX)
            .saturating_add(4),
    )
}
