//! What the tests share: an executor for one future, loopback sockets, a pattern. Knows no promise.
#![allow(dead_code)]

use std::net::SocketAddr;
use std::path::PathBuf;

use reactor::buffer::AlignedBuf;
use reactor::socket::Listener;
use reactor::{Executor, Reactor, Settings};

pub fn settings() -> Settings {
    Settings {
        name: "test".into(),
        core: None,
        ring_entries: 64,
        spin_before_park: None,
    }
}

pub fn begin<F, Fut>(settings: Settings, work: F) -> Executor
where
    F: FnOnce(Reactor) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    reactor::start(settings, work).expect("io_uring is available")
}

pub fn run<F, Fut>(work: F)
where
    F: FnOnce(Reactor) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let executor = begin(settings(), work);
    executor.join().expect("the executor runs to completion");
}

pub fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("corelog-reactor-{}-{name}", std::process::id()))
}

pub fn pattern(len: usize) -> AlignedBuf {
    let mut buffer = AlignedBuf::new(len);
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = (index * 31 % 251) as u8;
    }
    buffer
}

pub fn listening() -> (Listener, SocketAddr) {
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
    let address = listener.local_addr();
    (listener, address)
}
