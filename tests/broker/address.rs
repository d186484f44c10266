//! An address for a broker of a test's own. Knows nothing of brokers.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that the kernel gives to connections. With one of those, a client that asks again and
/// again for a broker that has not started yet gets it as its own port in the end: it is then connected
/// with itself, and the broker finds its address taken.
const PORTS: std::ops::Range<u16> = 12_000..30_000;

static TRIED: AtomicU16 = AtomicU16::new(0);

/// A loopback address that nobody listens on.
pub fn free_address() -> SocketAddr {
    // Processes begin far from each other.
    let first = std::process::id().wrapping_mul(37) % PORTS.len() as u32;
    for _ in PORTS {
        let tried = u32::from(TRIED.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + ((first + tried) % PORTS.len() as u32) as u16;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port of {PORTS:?} is free")
}
