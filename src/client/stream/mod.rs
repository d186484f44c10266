//! A stream to a broker: TCP, or memory if the broker is in this process. Knows nothing of the protocol.

pub mod memory;
mod outgoing;

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpStream, ToSocketAddrs};

pub(crate) use outgoing::Outgoing;

/// How a cluster's brokers are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// By TCP, at their addresses.
    #[default]
    Tcp,
    /// In this process, whatever their addresses: one broker that listens there.
    Memory(memory::Port),
}

/// The end of a stream that is read.
pub(crate) enum Reader {
    Tcp(OwnedReadHalf),
    Memory(memory::Reader),
}

/// The end of a stream that is written.
pub(crate) enum Writer {
    Tcp(OwnedWriteHalf),
    Memory(memory::Writer),
}

impl Transport {
    /// A stream to the broker at `host:port`.
    pub(crate) async fn connect(&self, address: &str) -> io::Result<(Reader, Writer)> {
        match self {
            Self::Tcp => {
                let (reader, writer) = connect(address).await?.into_split();
                Ok((Reader::Tcp(reader), Writer::Tcp(writer)))
            }
            Self::Memory(port) => {
                let (reader, writer) = port.connect()?;
                Ok((Reader::Memory(reader), Writer::Memory(writer)))
            }
        }
    }
}

impl Reader {
    /// Reads some bytes into the room that there is; 0 at the stream's end. Nothing is lost when it is
    /// given up half way.
    pub(crate) async fn read(&mut self, into: &mut BytesMut) -> io::Result<usize> {
        assert!(into.capacity() > into.len(), "there is room to read into");
        match self {
            Self::Tcp(reader) => reader.read_buf(into).await,
            Self::Memory(reader) => reader.receive(into).await,
        }
    }
}

impl Writer {
    /// Writes some of what is to go out, and takes it away there. Nothing is lost when it is given up half
    /// way.
    pub(crate) async fn write(&mut self, outgoing: &mut Outgoing) -> io::Result<usize> {
        match self {
            Self::Tcp(writer) => writer.write_buf(outgoing).await,
            Self::Memory(writer) => writer.send(outgoing).await,
        }
    }
}

/// A TCP stream on which requests go out at once (TCP_NODELAY).
pub(crate) async fn connect(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    refuse_itself(&stream)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Whoever tries a local port again and again while nobody listens there gets it as a port of his own
/// in the end, and is connected with himself. The broker could not start then: its port is taken.
fn refuse_itself(stream: &TcpStream) -> io::Result<()> {
    if stream.local_addr()? == stream.peer_addr()? {
        let kind = io::ErrorKind::ConnectionRefused;
        return Err(io::Error::new(kind, "nobody listens there"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpSocket;

    use super::*;

    #[tokio::test]
    async fn a_stream_that_leads_to_itself_is_no_connection() {
        let socket = TcpSocket::new_v4().expect("a socket");
        let any = "127.0.0.1:0".parse().expect("an address");
        socket.bind(any).expect("bound");
        let own = socket.local_addr().expect("bound");
        let stream = socket.connect(own).await.expect("the kernel allows it");
        let error = refuse_itself(&stream).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
