//! What the reactor promises, on real sockets, files and threads. Knows nothing of its insides.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reactor::buffer::AlignedBuf;
use reactor::file::{DirectFile, Mode, PageFile};
use reactor::mailbox::{Full, mailbox};
use reactor::socket::{Listener, Socket};
use reactor::{Reactor, Settings};

fn run<F, Fut>(work: F)
where
    F: FnOnce(Reactor) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let settings = Settings {
        name: "test".into(),
        core: None,
        ring_entries: 64,
        spin_before_park: None,
    };
    let executor = reactor::start(settings, work).expect("io_uring is available");
    executor.join().expect("the executor runs to completion");
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("corelog-reactor-{}-{name}", std::process::id()))
}

fn pattern(len: usize) -> AlignedBuf {
    let mut buffer = AlignedBuf::new(len);
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = (index * 31 % 251) as u8;
    }
    buffer
}

fn listening() -> (Listener, SocketAddr) {
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
    let address = listener.local_addr();
    (listener, address)
}

#[test]
fn an_echo_returns_every_byte_in_order() {
    let (listener, address) = listening();
    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("connects");
        let sent: Vec<u8> = pattern(3 << 20).to_vec();
        let mut writer = stream.try_clone().expect("a second handle");
        let out = sent.clone();
        let writing = std::thread::spawn(move || writer.write_all(&out).expect("sends"));
        let mut received = vec![0; sent.len()];
        stream.read_exact(&mut received).expect("receives");
        writing.join().expect("the writer ends");
        assert!(sent == received, "the echo differs");
    });
    run(move |reactor| async move {
        let accepted = listener.accept(&reactor).await.expect("accepts");
        let socket = Socket::new(&reactor, accepted.fd).expect("a socket");
        let mut received = BytesMut::new();
        while socket.recv(&mut received).await.expect("receives") > 0 {
            socket
                .send(vec![received.split().freeze()])
                .await
                .expect("sends");
        }
    });
    client.join().expect("the client got its bytes back");
}

#[test]
fn a_large_frame_is_received_whole_behind_what_was_there() {
    let (listener, address) = listening();
    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("connects");
        stream.write_all(&pattern(1 << 20)).expect("sends");
        let mut end = [0];
        stream.read_exact(&mut end).expect("is told");
    });
    run(move |reactor| async move {
        let accepted = listener.accept(&reactor).await.expect("accepts");
        let socket = Socket::new(&reactor, accepted.fd).expect("a socket");
        let mut start = BytesMut::new();
        socket.recv(&mut start).await.expect("receives");
        let more = (1 << 20) - start.len();
        let whole = socket
            .recv_exact(start, more)
            .await
            .expect("receives the rest");
        assert!(whole[..] == pattern(1 << 20)[..], "bytes differ");
        socket
            .send(vec![Bytes::from_static(b"!")])
            .await
            .expect("sends");
    });
    client.join().expect("the client was served");
}

#[test]
fn a_shutdown_wakes_a_waiting_receive() {
    let (listener, address) = listening();
    let client = TcpStream::connect(address).expect("connects");
    run(move |reactor| async move {
        let accepted = listener.accept(&reactor).await.expect("accepts");
        let socket = Socket::new(&reactor, accepted.fd).expect("a socket");
        let other = socket.clone();
        reactor::spawn(async move {
            reactor::timer::sleep(Duration::from_millis(20)).await;
            other.shutdown();
        });
        let received = socket
            .recv(&mut BytesMut::new())
            .await
            .expect("the end, not an error");
        assert_eq!(received, 0);
    });
    drop(client);
}

#[test]
fn a_dropped_receive_leaves_the_ring_usable() {
    let (listener, address) = listening();
    let mut client = TcpStream::connect(address).expect("connects");
    run(move |reactor| async move {
        let accepted = listener.accept(&reactor).await.expect("accepts");
        let socket = Socket::new(&reactor, accepted.fd).expect("a socket");
        for _ in 0..1000 {
            let mut into = BytesMut::new();
            let receive = socket.recv(&mut into);
            drop(receive);
        }
        client.write_all(b"hello").expect("sends");
        let mut into = BytesMut::new();
        socket.recv(&mut into).await.expect("receives");
        assert_eq!(&into[..], b"hello");
    });
}

#[test]
fn messages_between_executors_arrive_once_and_in_order() {
    const COUNT: u64 = 300_000;
    let (sender, receiver) = mailbox::<u64>(1024);
    let sending = std::thread::spawn(move || {
        run(move |_| async move {
            for mut message in 0..COUNT {
                while let Err(Full(back)) = sender.try_send(message) {
                    message = back;
                    reactor::timer::sleep(Duration::from_micros(50)).await;
                }
            }
        });
    });
    run(move |reactor| async move {
        let mut bound = receiver.bind(&reactor);
        let (mut messages, mut expected) = (Vec::new(), 0);
        while bound.recv_all(&mut messages).await {
            for message in messages.drain(..) {
                assert_eq!(message, expected);
                expected += 1;
            }
        }
        assert_eq!(expected, COUNT);
    });
    sending.join().expect("the sender ends");
}

#[test]
fn direct_writes_read_back_and_sendfile_sends_the_same_bytes() {
    const LEN: usize = 4 << 20;
    let path = scratch("direct");
    let (listener, address) = listening();
    let (done, finished) = mpsc::channel();
    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("connects");
        // Slow at first, so that the sender meets a full socket.
        std::thread::sleep(Duration::from_millis(50));
        let mut received = vec![0; LEN];
        stream.read_exact(&mut received).expect("receives");
        done.send(received).expect("the test waits");
    });
    let file_path = path.clone();
    run(move |reactor| async move {
        let file = DirectFile::open(&reactor, &file_path, Mode::Create)
            .await
            .expect("opens");
        file.allocate(0, LEN as u64).await.expect("room");
        let bytes = pattern(LEN).freeze();
        let (first, second) = (bytes.slice(..LEN / 2), bytes.slice(LEN / 2..));
        let half = LEN as u64 / 2;
        let (a, b) = (file.clone(), file.clone());
        reactor::spawn(async move { a.write_at(first, 0).await.expect("writes") });
        b.write_at_flushed(second, half)
            .await
            .expect("writes and flushes");
        file.fdatasync().await.expect("flushes");
        let back = file.read_at(0, LEN).await.expect("reads");
        assert!(back == bytes, "read bytes differ");
        let pages = PageFile::open(&file_path).expect("opens");
        pages.read_ahead(0, LEN).await.expect("reads ahead");
        assert!(pages.resident(0, LEN), "what was read ahead is resident");
        let accepted = listener.accept(&reactor).await.expect("accepts");
        let socket = Socket::new(&reactor, accepted.fd).expect("a socket");
        socket.send_file(&pages, 0, LEN).await.expect("sends");
    });
    client.join().expect("the client ends");
    let received = finished.recv().expect("the client received");
    assert!(received == pattern(LEN)[..], "sent bytes differ");
    std::fs::remove_file(path).expect("cleans up");
}

#[test]
fn a_file_system_without_direct_io_gets_a_buffered_file() {
    let path = PathBuf::from(format!("/dev/shm/corelog-reactor-{}", std::process::id()));
    let file_path = path.clone();
    run(move |reactor| async move {
        let file = DirectFile::open(&reactor, &file_path, Mode::Create)
            .await
            .expect("opens");
        file.write_at_flushed(pattern(8192).freeze(), 0)
            .await
            .expect("writes");
        let back = file.read_at(0, 8192).await.expect("reads");
        assert!(back[..] == pattern(8192)[..]);
    });
    std::fs::remove_file(path).expect("cleans up");
}
