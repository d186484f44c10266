//! Streams inside one process: for a broker that runs beside its clients, embedded or as a stand-in, and for
//! measuring what a client costs without what the kernel's sockets cost. What is written is handed over, not
//! copied. The client's end is asynchronous, the broker's blocks. Knows nothing of the protocol.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::outgoing::Outgoing;

/// Bytes that may wait in one direction of a stream before its writer waits. One piece may go beyond it.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// Streams that may wait to be accepted.
const BACKLOG_MAX: usize = 1024;

/// Where clients of this process connect to.
#[derive(Clone, Debug)]
pub struct Port(Arc<SyncSender<(Reader, Writer)>>);

/// The broker's side of a [`Port`].
#[derive(Debug)]
pub struct Listener(mpsc::Receiver<(Reader, Writer)>);

/// The end of a stream that is read.
#[derive(Debug)]
pub struct Reader {
    pipe: Arc<Pipe>,
    /// Taken out of the pipe and not read yet. None is empty.
    taken: VecDeque<Bytes>,
}

/// The end of a stream that is written.
#[derive(Debug)]
pub struct Writer {
    pipe: Arc<Pipe>,
}

/// One direction of a stream.
#[derive(Debug, Default)]
struct Pipe {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// None is empty.
    pieces: VecDeque<Bytes>,
    /// How many bytes they are.
    bytes: usize,
    has_reader_gone: bool,
    has_writer_gone: bool,
    /// Who waits for bytes, and who for room.
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// A port, and the listener that accepts what is connected to it.
pub fn listen() -> (Port, Listener) {
    let (port, listener) = mpsc::sync_channel(BACKLOG_MAX);
    (Port(Arc::new(port)), Listener(listener))
}

impl PartialEq for Port {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Port {}

impl Port {
    /// The client's ends of a new stream.
    pub(crate) fn connect(&self) -> io::Result<(Reader, Writer)> {
        let (requests, answers) = (Arc::<Pipe>::default(), Arc::<Pipe>::default());
        let accepted = (Reader::of(&requests), Writer::of(&answers));
        let refused = |_| io::Error::new(io::ErrorKind::ConnectionRefused, "nobody listens there");
        self.0.try_send(accepted).map_err(refused)?;
        Ok((Reader::of(&answers), Writer::of(&requests)))
    }
}

impl Listener {
    /// Waits for the next stream; `None` once nobody is left who could connect.
    pub fn accept(&self) -> Option<(Reader, Writer)> {
        self.0.recv().ok()
    }
}

impl Pipe {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for another piece. Whoever finds none is woken when there is.
    fn room(&self, context: &Context<'_>) -> Poll<io::Result<MutexGuard<'_, State>>> {
        let mut state = self.state();
        if state.has_reader_gone {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if state.bytes >= WAITING_BYTES_MAX {
            state.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(state))
    }
}

impl Reader {
    fn of(pipe: &Arc<Pipe>) -> Self {
        Self {
            pipe: pipe.clone(),
            taken: VecDeque::new(),
        }
    }

    /// Reads some bytes, at most as many as there is room for; none at the end.
    pub(crate) async fn receive(&mut self, into: &mut BytesMut) -> io::Result<usize> {
        poll_fn(|context| self.poll_taken(context)).await;
        let room = into.capacity() - into.len();
        Ok(self.read_taken(room, |piece| into.put_slice(piece)))
    }

    /// Ready when something is taken out of the pipe, or nothing will come any more.
    fn poll_taken(&mut self, context: &Context<'_>) -> Poll<()> {
        if !self.taken.is_empty() {
            return Poll::Ready(());
        }
        let mut state = self.pipe.state();
        if state.pieces.is_empty() {
            if state.has_writer_gone {
                return Poll::Ready(());
            }
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        std::mem::swap(&mut state.pieces, &mut self.taken);
        state.bytes = 0;
        let writer = state.writer.take();
        drop(state);
        writer.into_iter().for_each(Waker::wake);
        Poll::Ready(())
    }

    fn read_taken(&mut self, room: usize, mut put: impl FnMut(&[u8])) -> usize {
        let mut left = room;
        while let Some(piece) = self.taken.front_mut().filter(|_| left > 0) {
            let count = left.min(piece.len());
            put(&piece[..count]);
            left -= count;
            piece.advance(count);
            if piece.is_empty() {
                // Who wrote it may have its buffer back.
                self.taken.pop_front();
            }
        }
        room - left
    }
}

impl Writer {
    fn of(pipe: &Arc<Pipe>) -> Self {
        Self { pipe: pipe.clone() }
    }

    /// Hands over pieces, at least one; says how many bytes they are.
    pub(crate) async fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<usize> {
        poll_fn(|context| self.poll_write(context, || outgoing.pop())).await
    }

    fn poll_write(
        &mut self,
        context: &Context<'_>,
        mut next: impl FnMut() -> Option<Bytes>,
    ) -> Poll<io::Result<usize>> {
        let mut state = std::task::ready!(self.pipe.room(context))?;
        let before = state.bytes;
        while state.bytes < WAITING_BYTES_MAX
            && let Some(piece) = next()
        {
            state.bytes += piece.len();
            state.pieces.push_back(piece);
        }
        let written = state.bytes - before;
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(written))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.pipe.state();
        state.has_reader_gone = true;
        let unread = std::mem::take(&mut state.pieces);
        let writer = state.writer.take();
        drop(state);
        drop(unread);
        writer.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.pipe.state();
        state.has_writer_gone = true;
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }
}

impl io::Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        block_on(|context| self.poll_taken(context));
        let (room, mut at) = (into.len(), 0);
        Ok(self.read_taken(room, |piece| {
            into[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }))
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut piece = (!bytes.is_empty()).then(|| Bytes::copy_from_slice(bytes));
        block_on(|context| self.poll_write(context, || piece.take()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on the current thread.
fn block_on<T>(mut poll: impl FnMut(&Context<'_>) -> Poll<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let context = Context::from_waker(&waker);
    loop {
        match poll(&context) {
            Poll::Ready(ready) => return ready,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn pending<T>(poll: &Poll<T>) -> bool {
        poll.is_pending()
    }

    fn context() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    #[tokio::test]
    async fn what_a_client_writes_is_handed_over_and_answered_by_a_thread() {
        let (port, listener) = listen();
        let broker = thread::spawn(move || {
            let (mut reader, mut writer) = listener.accept().expect("a client connects");
            let mut request = [0; 5];
            reader.read_exact(&mut request).expect("the request");
            writer.write_all(&request[1..]).expect("is read");
            assert_eq!(
                reader.read(&mut request).ok(),
                Some(0),
                "the client is gone"
            );
            assert!(listener.accept().is_none(), "nobody can connect any more");
        });
        let (mut reader, mut writer) = port.connect().expect("somebody listens");
        let mut outgoing = Outgoing::default();
        outgoing.push(Bytes::from_static(b"ab"));
        outgoing.push(Bytes::from_static(b"cde"));
        assert_eq!(writer.send(&mut outgoing).await.ok(), Some(5));
        let mut answer = BytesMut::with_capacity(64);
        while answer.len() < 4 {
            reader.receive(&mut answer).await.expect("the answer");
        }
        assert_eq!(answer, &b"bcde"[..]);
        drop((reader, writer, port));
        broker.join().expect("what it asserted");
    }

    #[test]
    fn a_writer_waits_while_too_much_is_unread_and_its_pieces_are_not_copied() {
        let pipe = Arc::<Pipe>::default();
        let (mut reader, mut writer) = (Reader::of(&pipe), Writer::of(&pipe));
        let piece = Bytes::from(vec![7; WAITING_BYTES_MAX - 1]);
        let mut pieces = vec![piece.clone(); 3];
        let written = writer.poll_write(&context(), || pieces.pop());
        assert!(matches!(written, Poll::Ready(Ok(bytes)) if bytes == 2 * piece.len()));
        assert!(pending(&writer.poll_write(&context(), || pieces.pop())));
        assert_eq!(reader.poll_taken(&context()), Poll::Ready(()));
        assert_eq!(reader.taken[1].as_ptr(), piece.as_ptr());
        assert!(!pending(&writer.poll_write(&context(), || pieces.pop())));
    }

    #[test]
    fn who_writes_to_nobody_is_told_and_who_reads_from_nobody_comes_to_the_end() {
        let pipe = Arc::<Pipe>::default();
        let (mut reader, mut writer) = (Reader::of(&pipe), Writer::of(&pipe));
        writer.write_all(b"last").expect("there is room");
        drop(writer);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).expect("the rest");
        assert_eq!(read, b"last");
        let mut writer = Writer::of(&reader.pipe);
        drop(reader);
        let refused = writer.write(b"x").expect_err("nobody reads");
        assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
        let (port, listener) = listen();
        drop(listener);
        let refused = port.connect().expect_err("nobody listens");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
