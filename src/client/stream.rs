//! Opens a TCP stream to a broker. Knows nothing of the protocol.

use std::io;

use tokio::net::{TcpStream, ToSocketAddrs};

/// A stream on which requests go out at once (TCP_NODELAY).
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
