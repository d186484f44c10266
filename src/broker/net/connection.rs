//! One client's connection: reads frames, hands them on, sends the replies in request order. Knows
//! the length prefix of a frame and nothing of what is inside.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use reactor::socket::Socket;

use crate::api::{self, Client, Handled, Pending, Started};
use crate::shard::budget::{Budget, Reserved};
use crate::shard::gate::Admitted;
use crate::shard::mail::{Chunk, Placed};
use crate::shard::{Limits, Shard};

/// Requests of one connection that may be in the broker at once; the next one is not read before the
/// oldest is answered.
const IN_FLIGHT_MAX: usize = 64;
/// Frames up to this size share a receive buffer; a larger one is received into a buffer of its own,
/// without a copy.
const SHARED_FRAME_BYTES_MAX: usize = 16 * 1024;
/// The largest request that carries no records: decoded it takes many times its size.
const OTHER_FRAME_BYTES_MAX: usize = 8 << 20;
/// Bytes of records in replies of one connection; the next request is not read before some are sent.
const REPLY_BYTES_MAX: usize = 8 << 20;
/// Chunks that one send gathers at most.
const GATHER_CHUNKS_MAX: usize = 256;

/// The connection as its own tasks and the deadline sweeper see it.
pub struct Connection {
    socket: Socket,
    shard: Rc<Shard>,
    client: Rc<Client>,
    replies: RefCell<VecDeque<Slot>>,
    /// The name of the reply slot at the front, so that a handler finds its own.
    front: Cell<u64>,
    /// Requests in the broker, by reply slot: woken when nobody waits for their replies any more.
    pending: RefCell<HashMap<u64, Waker>>,
    /// Bytes of records in replies that are not sent.
    reply_bytes: Cell<usize>,
    reader: RefCell<Option<Waker>>,
    writer: RefCell<Option<Waker>>,
    closing: Cell<bool>,
    /// Requests in the broker.
    open: Cell<usize>,
    /// One of them is in the broker alone.
    alone: Cell<bool>,
    /// Replies are being sent that are in no slot any more.
    sending: Cell<bool>,
    /// Its place among the connections that may be; free for another with its end.
    _admitted: Admitted,
    /// No whole frame has come yet.
    expects_first: Cell<bool>,
    /// When the client is given up, in nanoseconds of the monotonic clock; see [`Connection::wait_for`].
    deadline: Cell<u64>,
}

enum Slot {
    Open,
    Done(Handled, Reserved),
}

/// Replies on their way out.
struct Outgoing {
    chunks: Vec<Chunk>,
    /// The memory that they hold until they are sent.
    reserved: Vec<Reserved>,
}

/// What the client is expected to do next, each with its own deadline.
enum Expect {
    First,
    Rest,
    Next,
}

impl Connection {
    /// Takes over an accepted socket.
    pub fn new(shard: Rc<Shard>, placed: Placed) -> io::Result<Rc<Self>> {
        let client = Rc::new(Client::new(placed.peer, placed.local));
        let socket = Socket::new(&shard.reactor, placed.fd)?;
        let connection = Rc::new(Self {
            socket,
            shard,
            client,
            replies: RefCell::default(),
            front: Cell::new(0),
            pending: RefCell::default(),
            reply_bytes: Cell::new(0),
            reader: RefCell::default(),
            writer: RefCell::default(),
            closing: Cell::new(false),
            open: Cell::new(0),
            alone: Cell::new(false),
            sending: Cell::new(false),
            _admitted: placed.admitted,
            expects_first: Cell::new(true),
            deadline: Cell::new(u64::MAX),
        });
        connection.expect(&Expect::First);
        Ok(connection)
    }

    /// Serves the client until it leaves, breaks the protocol or is given up.
    pub async fn run(self: Rc<Self>) {
        let writer = self.clone();
        reactor::spawn(async move {
            if let Err(error) = writer.write_replies().await {
                writer.note(&error);
            }
            writer.close();
        });
        if let Err(error) = self.read_requests().await {
            self.note(&error);
        }
        self.close();
    }

    /// Ends the connection if its deadline has passed.
    pub fn sweep(&self, now: u64) {
        if self.deadline.get() <= now {
            self.close();
        }
    }

    /// Ends the connection: pending reads and writes on it fail, queued replies are dropped.
    pub fn close(&self) {
        self.closing.set(true);
        self.socket.shutdown();
        wake(&self.reader);
        wake(&self.writer);
        let pending = self.pending.take();
        pending.into_values().for_each(Waker::wake);
    }

    /// No reply is owed.
    pub fn drained(&self) -> bool {
        self.replies.borrow().is_empty() && !self.sending.get()
    }

    fn note(&self, error: &io::Error) {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, UnexpectedEof};
        let left = matches!(
            error.kind(),
            ConnectionReset | BrokenPipe | NotConnected | UnexpectedEof
        );
        if !left && !self.closing.get() {
            eprintln!(
                "warning: connection from {} closed: {error}",
                self.client.peer
            );
        }
    }

    fn limits(&self) -> &Limits {
        &self.shard.limits
    }

    fn expect(&self, what: &Expect) {
        let wait: Duration = match what {
            Expect::First => self.limits().first_frame_wait,
            Expect::Rest => self.limits().frame_wait,
            Expect::Next => self.limits().idle_wait,
        };
        let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        self.deadline
            .set(reactor::timer::monotonic_nanos().saturating_add(nanos));
    }

    /// A frame has begun. The first one on a connection has its own deadline, from the start.
    fn expect_rest(&self) {
        if !self.expects_first.get() {
            self.expect(&Expect::Rest);
        }
    }

    /// A whole frame has come.
    fn expect_next(&self) {
        self.expects_first.set(false);
        self.expect(&Expect::Next);
    }

    async fn read_requests(self: &Rc<Self>) -> io::Result<()> {
        let mut received = BytesMut::new();
        while let Some((frame, reserved)) = self.read_frame(&mut received).await? {
            let pipelined = api::is_pipelined(&frame);
            self.room(pipelined).await;
            if self.closing.get() {
                break;
            }
            self.alone.set(!pipelined);
            let slot = self.open_slot();
            match api::start(&self.shard, &self.client, frame).await {
                Started::Done(handled) => self.fill(slot, handled, reserved),
                Started::Pending(future) => self.finish_later(slot, future, reserved),
            }
        }
        Ok(())
    }

    fn finish_later(self: &Rc<Self>, slot: u64, future: Pending, reserved: Reserved) {
        let connection = self.clone();
        reactor::spawn(async move {
            let mut future = future;
            let handled = poll_fn(|context| {
                if connection.closing.get() {
                    return Poll::Ready(None);
                }
                let handled = future.as_mut().poll(context);
                if handled.is_pending() {
                    let mut pending = connection.pending.borrow_mut();
                    pending.insert(slot, context.waker().clone());
                }
                handled.map(Some)
            });
            if let Some(handled) = handled.await {
                connection.pending.borrow_mut().remove(&slot);
                connection.fill(slot, handled, reserved);
            }
        });
    }

    /// The next frame without its length prefix, or `None` when the client has left between frames.
    async fn read_frame(&self, received: &mut BytesMut) -> io::Result<Option<(Bytes, Reserved)>> {
        while received.len() < 4 {
            if self.socket.recv(received).await? == 0 {
                return if received.is_empty() {
                    Ok(None)
                } else {
                    Err(torn())
                };
            }
            if received.len() < 4 {
                self.expect_rest();
            }
        }
        let length = received.get_i32();
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= self.limits().frame_bytes_max)
            .ok_or_else(|| {
                let limit = self.limits().frame_bytes_max;
                let problem = format!("frame length {length} is not between 0 and {limit}");
                io::Error::new(io::ErrorKind::InvalidData, problem)
            })?;
        if received.len() < length {
            self.expect_rest();
        }
        if length <= SHARED_FRAME_BYTES_MAX {
            while received.len() < length {
                if self.socket.recv(received).await? == 0 {
                    return Err(torn());
                }
            }
            // Only now: what is announced and never comes holds nothing that others wait for.
            let reserved = self.reserve(&self.shard.budget_small, length).await;
            let frame = received.split_to(length).freeze();
            self.expect_next();
            return Ok(Some((frame, reserved)));
        }
        while received.len() < SHARED_FRAME_BYTES_MAX {
            if self.socket.recv(received).await? == 0 {
                return Err(torn());
            }
        }
        if length > OTHER_FRAME_BYTES_MAX && !api::is_pipelined(received) {
            let problem = format!("a request of {length} bytes that is no produce");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        let reserved = self.reserve(&self.shard.budget, length).await;
        let mut frame = BytesMut::with_capacity(length);
        let have = received.len().min(length);
        frame.extend_from_slice(&received.split_to(have));
        let frame = self.socket.recv_exact(frame, length - have).await?;
        self.expect_next();
        Ok(Some((frame.freeze(), reserved)))
    }

    /// Waits for memory. That the client is not read meanwhile is not its doing: its time stands still.
    async fn reserve(&self, budget: &Rc<Budget>, bytes: usize) -> Reserved {
        let left = self
            .deadline
            .replace(u64::MAX)
            .saturating_sub(reactor::timer::monotonic_nanos());
        let reserved = budget.reserve(bytes).await;
        let now = reactor::timer::monotonic_nanos();
        self.deadline.set(now.saturating_add(left));
        reserved
    }

    /// Waits until one more request may be in the broker: `pipelined`, beside others of its kind, or alone.
    async fn room(&self, pipelined: bool) {
        poll_fn(|context| {
            let beside = self.open.get() == 0 || (pipelined && !self.alone.get());
            let room = beside
                && self.replies.borrow().len() < IN_FLIGHT_MAX
                && self.reply_bytes.get() < REPLY_BYTES_MAX;
            if self.closing.get() || room {
                return Poll::Ready(());
            }
            *self.reader.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn open_slot(&self) -> u64 {
        self.open.set(self.open.get() + 1);
        let mut replies = self.replies.borrow_mut();
        replies.push_back(Slot::Open);
        self.front.get() + replies.len() as u64 - 1
    }

    fn fill(&self, slot: u64, handled: Handled, reserved: Reserved) {
        let front = self.front.get();
        let index = usize::try_from(slot - front).expect("a reply slot is filled once");
        let held = match &handled {
            Handled::Reply(chunks) => chunks.iter().map(Chunk::memory_bytes).sum(),
            Handled::Nothing | Handled::Close => 0,
        };
        // The request is no longer needed, its reply is now what holds memory.
        drop(reserved);
        self.open.set(self.open.get() - 1);
        wake(&self.reader);
        self.reply_bytes.set(self.reply_bytes.get() + held);
        let reserved = self.shard.budget_replies.take(held);
        let mut replies = self.replies.borrow_mut();
        replies[index] = Slot::Done(handled, reserved);
        if index == 0 {
            wake(&self.writer);
        }
    }

    async fn write_replies(&self) -> io::Result<()> {
        while let Some(outgoing) = self.ready_replies().await {
            self.sending.set(true);
            let mut gathered: Vec<Bytes> = Vec::with_capacity(outgoing.chunks.len());
            for chunk in outgoing.chunks {
                match chunk {
                    Chunk::Memory(bytes) => gathered.push(bytes),
                    Chunk::File {
                        file,
                        position,
                        len,
                    } => {
                        self.send(&mut gathered).await?;
                        self.socket.send_file(&file, position, len).await?;
                    }
                }
            }
            self.send(&mut gathered).await?;
            self.sending.set(false);
            let sent: usize = outgoing.reserved.iter().map(Reserved::bytes).sum();
            self.reply_bytes.set(self.reply_bytes.get() - sent);
            wake(&self.reader);
        }
        Ok(())
    }

    async fn send(&self, gathered: &mut Vec<Bytes>) -> io::Result<()> {
        if gathered.is_empty() {
            return Ok(());
        }
        self.socket.send(std::mem::take(gathered)).await
    }

    /// The replies that are ready at the front, gathered; `None` when the connection ends.
    async fn ready_replies(&self) -> Option<Outgoing> {
        poll_fn(|context| {
            if self.closing.get() {
                return Poll::Ready(None);
            }
            let (mut chunks, mut reserved) = (Vec::new(), Vec::new());
            let mut replies = self.replies.borrow_mut();
            while chunks.len() < GATHER_CHUNKS_MAX {
                match replies.front() {
                    Some(Slot::Done(Handled::Close, _)) if chunks.is_empty() => {
                        return Poll::Ready(None);
                    }
                    None | Some(Slot::Open | Slot::Done(Handled::Close, _)) => break,
                    Some(Slot::Done(..)) => {}
                }
                if let Some(Slot::Done(handled, held)) = replies.pop_front() {
                    self.front.set(self.front.get() + 1);
                    reserved.push(held);
                    if let Handled::Reply(reply) = handled {
                        chunks.extend(reply);
                    }
                }
            }
            wake(&self.reader);
            if chunks.is_empty() {
                *self.writer.borrow_mut() = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(Some(Outgoing { chunks, reserved }))
        })
        .await
    }
}

fn wake(waker: &RefCell<Option<Waker>>) {
    if let Some(waker) = waker.borrow_mut().take() {
        waker.wake();
    }
}

fn torn() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the client left in the middle of a frame",
    )
}
