//! TCP sockets on the ring. Knows nothing of what is sent.

use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use io_uring::{opcode, squeue, types};

use crate::executor::Reactor;
use crate::file::PageFile;
use crate::ring::Ring;

/// Bytes asked for when the shared receive buffers are exhausted.
const OWN_RECEIVE_BYTES: usize = 16 << 10;
/// Buffers that one send may carry.
const VECTORS_MAX: usize = 1024;
/// Bytes that one sendfile(2) may move: it runs on this thread.
const SEND_FILE_STEP: usize = 256 << 10;

/// Connections that may wait for an accept.
const BACKLOG: i32 = 1024;

/// A listening socket.
pub struct Listener {
    listener: Arc<OwnedFd>,
    local: SocketAddr,
}

/// A connection that nobody serves yet.
pub struct Accepted {
    /// The socket.
    pub fd: OwnedFd,
    /// The client's address.
    pub peer: SocketAddr,
    /// The local address that it connected to.
    pub local: SocketAddr,
}

impl Listener {
    /// Binds (with SO_REUSEADDR) and listens.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::from_std(TcpListener::bind(address)?)
    }

    /// Takes over a socket that is bound already.
    pub fn from_std(listener: TcpListener) -> io::Result<Self> {
        let local = listener.local_addr()?;
        // SAFETY: takes no pointer. On a socket that listens it only changes the backlog.
        if unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            listener: Arc::new(listener.into()),
            local,
        })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Waits for a connection.
    pub async fn accept(&self, reactor: &Reactor) -> io::Result<Accepted> {
        let accept = reactor.ring().open(self.listener.clone(), |listener| {
            let (no_address, no_length) = (std::ptr::null_mut(), std::ptr::null_mut());
            opcode::Accept::new(types::Fd(listener.as_raw_fd()), no_address, no_length)
                .flags(libc::SOCK_CLOEXEC)
                .build()
        });
        let fd = accept.await?;
        let stream = TcpStream::from(fd);
        let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
        Ok(Accepted {
            fd: stream.into(),
            peer,
            local,
        })
    }

    /// Makes a waiting accept fail.
    pub fn shutdown(&self) {
        shut_down(self.listener.as_raw_fd());
    }
}

fn shut_down(fd: RawFd) {
    // SAFETY: takes no pointer; on a socket that the peer has closed it fails, which is fine.
    unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
}

/// A connected socket. Clones are the same socket; it is closed when the last one is dropped.
#[derive(Clone)]
pub struct Socket {
    ring: Rc<Ring>,
    fd: Rc<OwnedFd>,
    /// Operations in flight keep the descriptor open, abandoned ones too: when the last clone goes,
    /// this makes them end.
    _ending: Rc<Ending>,
}

struct Ending(Rc<OwnedFd>);

impl Drop for Ending {
    fn drop(&mut self) {
        shut_down(self.0.as_raw_fd());
    }
}

impl Socket {
    /// Serves an accepted connection on this reactor.
    pub fn new(reactor: &Reactor, fd: OwnedFd) -> io::Result<Self> {
        let stream = TcpStream::from(fd);
        stream.set_nodelay(true)?;
        let fd = Rc::new(OwnedFd::from(stream));
        Ok(Self {
            ring: reactor.ring().clone(),
            _ending: Rc::new(Ending(fd.clone())),
            fd,
        })
    }

    /// Waits for bytes and appends them; 0 is the end. Holds no buffer while it waits.
    pub async fn recv(&self, into: &mut BytesMut) -> io::Result<usize> {
        let group = self.ring.buffer_group();
        let operation = self.ring.submit(self.fd.clone(), |fd| {
            opcode::Recv::new(types::Fd(fd.as_raw_fd()), std::ptr::null_mut(), 0)
                .buf_group(group)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT)
        });
        let completed = operation.await;
        if completed.result == -libc::ENOBUFS {
            return self.recv_into_own(into).await;
        }
        let flags = completed.flags;
        let received = completed.into_result().map(|(received, _)| received);
        let filled = received.as_ref().map_or(0, |received| *received);
        self.ring.take_buffer(flags, filled, into);
        received
    }

    async fn recv_into_own(&self, into: &mut BytesMut) -> io::Result<usize> {
        let buffer = BytesMut::with_capacity(OWN_RECEIVE_BYTES);
        let (received, buffer) = self.recv_raw(buffer, OWN_RECEIVE_BYTES, 0).await?;
        into.extend_from_slice(&buffer);
        Ok(received)
    }

    /// Receives exactly `more` bytes behind what `buffer` holds, straight into it.
    pub async fn recv_exact(&self, buffer: BytesMut, more: usize) -> io::Result<BytesMut> {
        let mut buffer = buffer;
        buffer.reserve(more);
        let mut left = more;
        while left > 0 {
            let (received, filled) = self.recv_raw(buffer, left, libc::MSG_WAITALL).await?;
            if received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= received;
            buffer = filled;
        }
        Ok(buffer)
    }

    async fn recv_raw(
        &self,
        buffer: BytesMut,
        len: usize,
        flags: i32,
    ) -> io::Result<(usize, BytesMut)> {
        let operation = self.ring.submit((self.fd.clone(), buffer), |(fd, buffer)| {
            let room = buffer.spare_capacity_mut();
            let len = u32::try_from(len.min(room.len())).expect("a receive is shorter than 4 GiB");
            opcode::Recv::new(types::Fd(fd.as_raw_fd()), room.as_mut_ptr().cast(), len)
                .flags(flags)
                .build()
        });
        let (received, kept) = operation.await.into_result()?;
        let (_, mut buffer) = *kept;
        // SAFETY: the kernel has written this many bytes into the spare capacity.
        unsafe { buffer.advance_mut(received) };
        Ok((received, buffer))
    }

    /// Sends all of the buffers in order, without copying them in user space.
    pub async fn send(&self, buffers: Vec<Bytes>) -> io::Result<()> {
        let mut left = buffers;
        left.retain(|buffer| !buffer.is_empty());
        while !left.is_empty() {
            let operation = self
                .ring
                .submit(Send::new(self.fd.clone(), left), Send::entry);
            let (sent, kept) = operation.await.into_result()?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            left = kept.rest(sent);
        }
        Ok(())
    }

    /// Sends a file's bytes from the page cache; what is not there is read ahead first, so that this
    /// thread does not wait for the disk.
    pub async fn send_file(&self, file: &PageFile, position: u64, len: usize) -> io::Result<()> {
        let source = file.shared();
        let end = position + len as u64;
        let mut at = position;
        let mut resident = at;
        while at < end {
            if at >= resident {
                let step = usize::try_from(end - at).unwrap_or(usize::MAX);
                let step = step.min(SEND_FILE_STEP);
                if !file.resident(at, step) {
                    file.read_ahead(at, step).await?;
                }
                resident = at + step as u64;
            }
            let step = usize::try_from(resident - at).unwrap_or(usize::MAX);
            match self.send_file_now(source.as_raw_fd(), at, step) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(sent) => at += sent as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if at >= resident {
                crate::yield_now().await;
            }
        }
        Ok(())
    }

    /// One sendfile(2) that does not wait for the socket. The socket is non-blocking for this call
    /// only, since the ring's operations would fail on one that is so for good; both happen on this
    /// thread, so none of them sees it.
    fn send_file_now(&self, source: RawFd, position: u64, len: usize) -> io::Result<usize> {
        let fd = self.fd.as_raw_fd();
        let mut position = i64::try_from(position).unwrap_or(i64::MAX);
        // SAFETY: fcntl takes no pointer here; `position` is a valid offset for the call's duration.
        let (sent, error) = unsafe {
            libc::fcntl(fd, libc::F_SETFL, libc::O_RDWR | libc::O_NONBLOCK);
            let sent = libc::sendfile(fd, source, &mut position, len);
            let error = io::Error::last_os_error();
            libc::fcntl(fd, libc::F_SETFL, libc::O_RDWR);
            (sent, error)
        };
        usize::try_from(sent).map_err(|_| error)
    }

    async fn writable(&self) -> io::Result<()> {
        let operation = self.ring.submit(self.fd.clone(), |fd| {
            opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), libc::POLLOUT as u32).build()
        });
        operation.await.into_result().map(drop)
    }

    /// The other side's address.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        TcpStream::from(self.fd.try_clone()?).peer_addr()
    }

    /// Ends both directions: operations that wait on it complete, whichever task they belong to.
    pub fn shutdown(&self) {
        shut_down(self.fd.as_raw_fd());
    }
}

/// What a send keeps until it is complete.
struct Send {
    fd: Rc<OwnedFd>,
    buffers: Vec<Bytes>,
    vectors: Vec<libc::iovec>,
    header: MaybeUninit<libc::msghdr>,
}

impl Send {
    fn new(fd: Rc<OwnedFd>, buffers: Vec<Bytes>) -> Self {
        let vector = |buffer: &Bytes| libc::iovec {
            iov_base: buffer.as_ptr().cast_mut().cast(),
            iov_len: buffer.len(),
        };
        let vectors = buffers.iter().take(VECTORS_MAX).map(vector).collect();
        Self {
            fd,
            buffers,
            vectors,
            header: MaybeUninit::zeroed(),
        }
    }

    fn entry(&mut self) -> squeue::Entry {
        // SAFETY: all zeros are a valid msghdr.
        let header = unsafe { self.header.assume_init_mut() };
        header.msg_iov = self.vectors.as_mut_ptr();
        header.msg_iovlen = self.vectors.len();
        opcode::SendMsg::new(types::Fd(self.fd.as_raw_fd()), header)
            .flags((libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32)
            .build()
    }

    /// What is left to send after `sent` bytes.
    fn rest(self, sent: usize) -> Vec<Bytes> {
        let mut rest = self.buffers;
        let mut left = sent;
        let mut whole = 0;
        while whole < rest.len() && rest[whole].len() <= left {
            left -= rest[whole].len();
            whole += 1;
        }
        rest.drain(..whole);
        if let Some(first) = rest.first_mut() {
            first.advance(left);
        }
        rest
    }
}
