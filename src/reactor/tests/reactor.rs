//! What the reactor promises, on real sockets, files and threads. Knows nothing of its insides.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reactor::Settings;
use reactor::file::{self, DirectFile, Mode, PageFile};
use reactor::local;
use reactor::socket::Socket;
use support::{begin, listening, pattern, run, scratch, settings};

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
fn dropped_receives_lose_their_own_bytes_and_nothing_else() {
    let (listener, address) = listening();
    run(move |reactor| async move {
        let mut forgotten = TcpStream::connect(address).expect("connects");
        let accepted = listener.accept(&reactor).await.expect("accepts");
        let abandoned = Socket::new(&reactor, accepted.fd).expect("a socket");
        let mut client = TcpStream::connect(address).expect("connects");
        let accepted = listener.accept(&reactor).await.expect("accepts");
        let socket = Socket::new(&reactor, accepted.fd).expect("a socket");
        for round in 0..300 {
            let mut into = BytesMut::new();
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            if round % 2 == 0 {
                let mut receive = std::pin::pin!(abandoned.recv(&mut into));
                assert!(receive.as_mut().poll(&mut context).is_pending());
            } else {
                let mut receive = std::pin::pin!(abandoned.recv_exact(into, 4096));
                assert!(receive.as_mut().poll(&mut context).is_pending());
            }
        }
        // The kernel now writes into what the dropped futures asked for.
        reactor::timer::sleep(Duration::from_millis(5)).await;
        forgotten.write_all(&pattern(1 << 20)).expect("sends");
        reactor::timer::sleep(Duration::from_millis(20)).await;
        client.write_all(b"hello").expect("sends");
        let mut into = BytesMut::new();
        socket.recv(&mut into).await.expect("receives");
        assert_eq!(&into[..], b"hello");
    });
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
        let pages = PageFile::open(&reactor, &file_path).await;
        let pages = pages.expect("opens");
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
fn what_is_forgotten_is_asked_of_the_disk_wherever_in_its_pages_it_lies() {
    const LEN: usize = 8 << 20;
    let path = scratch("forgotten");
    let file_path = path.clone();
    run(move |reactor| async move {
        let file = DirectFile::open(&reactor, &file_path, Mode::Create).await;
        let file = file.expect("opens");
        if !file.is_direct() {
            return; // there is no disk below it
        }
        let written = file.write_at_flushed(pattern(LEN).freeze(), 0).await;
        written.expect("writes");
        let pages = PageFile::open(&reactor, &file_path).await.expect("opens");
        for (position, len) in [(0, 1), (5_000, 100), (8_191, 2), ((1 << 20) + 1, 1 << 20)] {
            pages.read_ahead(0, LEN).await.expect("reads ahead");
            assert!(pages.resident(position, len));
            pages.forget(position, len).await;
            for at in [position, position + len as u64 - 1] {
                assert!(!pages.resident(at, 1), "{at} of {len} at {position}");
            }
        }
    });
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

#[test]
fn an_abandoned_accept_closes_the_connection_that_nobody_took() {
    let (listener, address) = listening();
    run(move |reactor| async move {
        {
            let mut accept = std::pin::pin!(listener.accept(&reactor));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(accept.as_mut().poll(&mut context).is_pending());
        }
        reactor::timer::sleep(Duration::from_millis(5)).await;
        let mut client = TcpStream::connect(address).expect("connects");
        reactor::timer::sleep(Duration::from_millis(20)).await;
        client
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("a deadline");
        let end = client.read(&mut [0]).expect("the end, not a deadline");
        assert_eq!(end, 0);
    });
}

#[test]
fn a_dropped_socket_is_closed_even_with_an_abandoned_receive() {
    let (listener, address) = listening();
    run(move |reactor| async move {
        let mut client = TcpStream::connect(address).expect("connects");
        let accepted = listener.accept(&reactor).await.expect("accepts");
        let socket = Socket::new(&reactor, accepted.fd).expect("a socket");
        {
            let mut into = BytesMut::new();
            let mut receive = std::pin::pin!(socket.recv(&mut into));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(receive.as_mut().poll(&mut context).is_pending());
        }
        reactor::timer::sleep(Duration::from_millis(5)).await;
        drop(socket);
        client
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("a deadline");
        let end = client.read(&mut [0]).expect("the end, not a deadline");
        assert_eq!(end, 0);
    });
}

#[test]
fn a_send_of_more_buffers_than_one_call_takes_arrives_whole() {
    const BUFFERS: usize = 3000;
    let (listener, address) = listening();
    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("connects");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("receives");
        received
    });
    run(move |reactor| async move {
        let accepted = listener.accept(&reactor).await.expect("accepts");
        let socket = Socket::new(&reactor, accepted.fd).expect("a socket");
        let whole = pattern(BUFFERS * 100).freeze();
        let buffers = (0..BUFFERS).map(|at| whole.slice(at * 100..at * 100 + 100));
        socket.send(buffers.collect()).await.expect("sends");
        assert!(socket.peer().is_ok());
    });
    let received = client.join().expect("the client ends");
    assert!(received == pattern(BUFFERS * 100)[..], "bytes differ");
}

#[test]
fn more_connections_than_shared_buffers_and_ring_entries_all_receive() {
    const CONNECTIONS: usize = 200;
    let (listener, address) = listening();
    let tiny = Settings {
        ring_entries: 4,
        ..settings()
    };
    let executor = begin(tiny, move |reactor| async move {
        let mut clients = Vec::new();
        let mut waits = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(TcpStream::connect(address).expect("connects"));
            let accepted = listener.accept(&reactor).await.expect("accepts");
            let socket = Socket::new(&reactor, accepted.fd).expect("a socket");
            let (done, wait) = local::oneshot();
            waits.push(wait);
            reactor.spawn(async move {
                let mut into = BytesMut::new();
                while into.len() < 1000 {
                    let received = socket.recv(&mut into).await.expect("receives");
                    assert!(received > 0, "the client has not left");
                }
                let _ = done.send(into);
            });
        }
        reactor::timer::sleep(Duration::from_millis(20)).await;
        // All at once, while this thread cannot take any of them out.
        for client in &mut clients {
            client.write_all(&pattern(1000)).expect("sends");
        }
        for wait in waits {
            let received = wait.await.expect("each connection is served");
            assert!(received[..] == pattern(1000)[..]);
        }
    });
    executor.join().expect("the executor runs to completion");
}

#[test]
fn dropped_writes_keep_their_buffers_until_the_disk_has_them() {
    let path = scratch("dropped");
    let file_path = path.clone();
    run(move |reactor| async move {
        let file = DirectFile::open(&reactor, &file_path, Mode::Create)
            .await
            .expect("opens");
        file.allocate(0, 64 << 16).await.expect("room");
        for at in 0..64_u64 {
            // The ring checks in debug builds that the buffer is unchanged at completion; freed
            // memory, reused below, would not be.
            let mut write =
                std::pin::pin!(file.write_at_flushed(pattern(1 << 16).freeze(), at << 16));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let _ = write.as_mut().poll(&mut context);
        }
        let noise: Vec<_> = (0..64).map(|_| vec![0xff_u8; 1 << 16]).collect();
        file.fdatasync().await.expect("flushes");
        reactor::timer::sleep(Duration::from_millis(200)).await;
        drop(noise);
        let back = file.read_at(0, 64 << 16).await.expect("reads");
        for block in back.chunks(1 << 16) {
            assert!(block == &pattern(1 << 16)[..], "a dropped write went wrong");
        }
    });
    std::fs::remove_file(path).expect("cleans up");
}

#[test]
fn directories_and_names_change_and_missing_ones_are_told_apart() {
    let root = scratch("names");
    run(move |reactor| async move {
        file::create_dir(&reactor, &root).await.expect("makes");
        file::create_dir(&reactor, &root).await.expect("exists");
        let (old, new) = (root.join("old"), root.join("new"));
        let missing = DirectFile::open(&reactor, &old, Mode::Existing).await;
        assert!(missing.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound));
        let made = DirectFile::open(&reactor, &old, Mode::Create).await;
        let made = made.expect("opens");
        made.allocate(0, 8192).await.expect("room");
        made.truncate(5000).await.expect("cuts");
        assert_eq!(made.len().expect("a length"), 5000);
        file::rename(&reactor, &old, &new).await.expect("renames");
        file::sync_dir(&reactor, &root).await.expect("flushes");
        assert!(new.exists() && !old.exists());
        file::remove(&reactor, &new).await.expect("removes");
        file::remove(&reactor, &new).await.expect("is gone already");
        file::remove_dir(&reactor, &root).await.expect("removes");
        assert!(!root.exists());
    });
}

#[test]
fn a_cold_file_is_read_ahead_and_then_sent() {
    const LEN: usize = 3 << 20;
    let path = scratch("cold");
    std::fs::write(&path, &pattern(LEN)[..]).expect("writes");
    let written = std::fs::File::open(&path).expect("opens");
    written.sync_all().expect("flushes");
    let (listener, address) = listening();
    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("connects");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("receives");
        received
    });
    let file_path = path.clone();
    run(move |reactor| async move {
        // The kernel drops a file's clean pages when dd asks it to.
        let evict = std::process::Command::new("dd")
            .arg(format!("of={}", file_path.display()))
            .args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0"])
            .stderr(std::process::Stdio::null())
            .status();
        drop(evict);
        let pages = PageFile::open(&reactor, &file_path).await;
        let pages = pages.expect("opens");
        let accepted = listener.accept(&reactor).await.expect("accepts");
        let socket = Socket::new(&reactor, accepted.fd).expect("a socket");
        socket.send_file(&pages, 0, LEN).await.expect("sends");
        let past = socket.send_file(&pages, LEN as u64, 1).await;
        assert!(past.is_err(), "nothing is sent from beyond the end");
    });
    let received = client.join().expect("the client ends");
    assert!(received == pattern(LEN)[..], "sent bytes differ");
    std::fs::remove_file(path).expect("cleans up");
}
