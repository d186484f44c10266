//! Measures the reactor against what it replaces: `measure idle|echo|mailbox|write [seconds]`.
//! Knows nothing of Kafka; its figures are for deciding, not for advertising.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use reactor::buffer::AlignedBuf;
use reactor::file::{DirectFile, Mode};
use reactor::mailbox::mailbox;
use reactor::socket::{Listener, Socket};
use reactor::{Executor, Reactor, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ECHO_BYTES: usize = 1024;
const WRITE_BYTES: usize = 64 << 10;
const WRITES_IN_FLIGHT: u64 = 8;
const FILE_BYTES: u64 = 1 << 30;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = arguments
        .get(1)
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or(3);
    let duration = Duration::from_secs(seconds);
    match arguments.first().map(String::as_str) {
        Some("idle") => idle(duration),
        Some("echo") => {
            for connections in [1, 32] {
                echo_ours(connections, duration);
                echo_tokio(connections, duration);
            }
        }
        Some("mailbox") => {
            round_trips(None, duration);
            round_trips(Some(Duration::from_micros(100)), duration);
        }
        Some("write") => {
            write_ours(duration);
            write_glommio(duration);
        }
        _ => eprintln!("usage: measure idle|echo|mailbox|write [seconds]"),
    }
}

fn executor<F, Fut>(spin: Option<Duration>, work: F) -> Executor
where
    F: FnOnce(Reactor) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let settings = Settings {
        name: "measure".into(),
        core: None,
        ring_entries: 1024,
        spin_before_park: spin,
    };
    reactor::start(settings, work).expect("an executor")
}

/// User and system time of the process so far.
fn cpu_time() -> Duration {
    let mut total = 0;
    for task in std::fs::read_dir("/proc/self/task")
        .expect("procfs")
        .flatten()
    {
        let path = task.path().join("schedstat");
        let line = std::fs::read_to_string(path).unwrap_or_default();
        let nanos = line.split(' ').next().and_then(|nanos| nanos.parse().ok());
        total += nanos.unwrap_or(0_u64);
    }
    Duration::from_nanos(total)
}

fn idle(duration: Duration) {
    let executors: Vec<Executor> = (0..2)
        .map(|_| {
            executor(None, move |_| async move {
                reactor::timer::sleep(duration + Duration::from_secs(2)).await;
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let before = cpu_time();
    std::thread::sleep(duration);
    let used = cpu_time() - before;
    let share = used.as_secs_f64() / duration.as_secs_f64() * 100.0;
    println!("idle, 2 executors: {share:.3} % of a core");
    for executor in executors {
        executor.join().expect("ends");
    }
}

fn drive(address: SocketAddr, connections: usize, duration: Duration) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let begun = Instant::now();
        let mut clients = Vec::new();
        for _ in 0..connections {
            clients.push(tokio::task::spawn_local(async move {
                let mut stream = tokio::net::TcpStream::connect(address)
                    .await
                    .expect("connects");
                stream.set_nodelay(true).expect("nodelay");
                let mut buffer = [7; ECHO_BYTES];
                let mut echoes = 0_u64;
                while begun.elapsed() < duration {
                    stream.write_all(&buffer).await.expect("sends");
                    stream.read_exact(&mut buffer).await.expect("receives");
                    echoes += 1;
                }
                echoes
            }));
        }
        let mut echoes = 0;
        for client in clients {
            echoes += client.await.expect("a client ends");
        }
        echoes as f64 / begun.elapsed().as_secs_f64() / 1000.0
    })
}

fn echo_ours(connections: usize, duration: Duration) {
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let address = listener.local_addr();
    let server = executor(None, move |reactor| async move {
        let (done, mut left) = (reactor::local::Signal::new(), connections);
        let ended = std::rc::Rc::new(std::cell::Cell::new(0));
        while left > 0 {
            let accepted = listener.accept(&reactor).await.expect("accepts");
            let socket = Socket::new(&reactor, accepted.fd).expect("a socket");
            let (done, ended) = (done.clone(), ended.clone());
            reactor.spawn(async move {
                let mut received = BytesMut::new();
                while socket
                    .recv(&mut received)
                    .await
                    .is_ok_and(|bytes| bytes > 0)
                {
                    let reply = received.split().freeze();
                    if socket.send(vec![reply]).await.is_err() {
                        break;
                    }
                }
                ended.set(ended.get() + 1);
                done.set();
            });
            left -= 1;
        }
        while ended.get() < connections {
            done.wait().await;
        }
    });
    let rate = drive(address, connections, duration);
    server.join().expect("the server ends");
    println!("echo of 1 KiB, {connections} connections, reactor: {rate:.1} k/s");
}

fn echo_tokio(connections: usize, duration: Duration) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    listener.set_nonblocking(true).expect("non-blocking");
    let server = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let mut tasks = Vec::new();
            for _ in 0..connections {
                let (mut stream, _) = listener.accept().await.expect("accepts");
                stream.set_nodelay(true).expect("nodelay");
                tasks.push(tokio::task::spawn_local(async move {
                    let mut received = BytesMut::with_capacity(16 << 10);
                    while stream
                        .read_buf(&mut received)
                        .await
                        .is_ok_and(|bytes| bytes > 0)
                    {
                        let reply = received.split().freeze();
                        if stream.write_all(&reply).await.is_err() {
                            break;
                        }
                    }
                }));
            }
            for task in tasks {
                task.await.expect("a connection ends");
            }
        });
    });
    let rate = drive(address, connections, duration);
    server.join().expect("the server ends");
    println!("echo of 1 KiB, {connections} connections, tokio:   {rate:.1} k/s");
}

fn round_trips(spin: Option<Duration>, duration: Duration) {
    let (there, arriving) = mailbox::<u64>(1024);
    let (back, returning) = mailbox::<u64>(1024);
    let answering = executor(spin, move |reactor| async move {
        let mut arriving = arriving.bind(&reactor);
        let mut messages = Vec::new();
        while arriving.recv_all(&mut messages).await {
            back.send_all(&mut messages);
        }
    });
    let asking = executor(spin, move |reactor| async move {
        let mut returning = returning.bind(&reactor);
        let (begun, mut messages, mut trips) = (Instant::now(), Vec::new(), 0_u64);
        while begun.elapsed() < duration {
            assert!(there.try_send(trips).is_ok());
            assert!(returning.recv_all(&mut messages).await);
            messages.clear();
            trips += 1;
        }
        let micros = begun.elapsed().as_secs_f64() * 1e6 / trips as f64;
        println!("mailbox round trip, spin {spin:?}: {micros:.1} us");
    });
    asking.join().expect("ends");
    answering.join().expect("ends");
}

fn scratch() -> PathBuf {
    let directory = std::env::var_os("MEASURE_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    directory.join(format!("corelog-measure-{}", std::process::id()))
}

fn report_writes(who: &str, writes: u64, begun: Instant, path: &Path) {
    let bytes = (writes * WRITE_BYTES as u64) as f64;
    let rate = bytes / begun.elapsed().as_secs_f64() / f64::from(1 << 20);
    println!("writes of 64 KiB, {WRITES_IN_FLIGHT} in flight, {who}: {rate:.0} MiB/s");
    std::fs::remove_file(path).expect("cleans up");
}

fn write_ours(duration: Duration) {
    let writer = executor(None, move |reactor| async move {
        let path = scratch();
        let file = DirectFile::open(&reactor, &path, Mode::Create)
            .await
            .expect("opens");
        file.allocate(0, FILE_BYTES).await.expect("room");
        let bytes = AlignedBuf::new(WRITE_BYTES).freeze();
        let (stop, writes) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let begun = Instant::now();
        let mut waits = Vec::new();
        for lane in 0..WRITES_IN_FLIGHT {
            let (done, wait) = reactor::local::oneshot();
            waits.push(wait);
            let (file, bytes) = (file.clone(), bytes.clone());
            let (stop, writes) = (stop.clone(), writes.clone());
            reactor.spawn(async move {
                let mut at = lane * WRITE_BYTES as u64;
                while !stop.load(Ordering::Relaxed) {
                    file.write_at(bytes.clone(), at).await.expect("writes");
                    writes.fetch_add(1, Ordering::Relaxed);
                    at = (at + WRITES_IN_FLIGHT * WRITE_BYTES as u64) % FILE_BYTES;
                }
                let _ = done.send(());
            });
        }
        reactor::timer::sleep(duration).await;
        stop.store(true, Ordering::Relaxed);
        for wait in waits {
            wait.await;
        }
        report_writes("reactor", writes.load(Ordering::Relaxed), begun, &path);
    });
    writer.join().expect("ends");
}

fn write_glommio(duration: Duration) {
    let writer = glommio::LocalExecutorBuilder::default()
        .spawn(move || async move {
            let path = scratch();
            let file = glommio::io::DmaFile::create(&path).await.expect("opens");
            file.pre_allocate(FILE_BYTES, false).await.expect("room");
            let file = std::rc::Rc::new(file);
            let begun = Instant::now();
            let tasks: Vec<_> = (0..WRITES_IN_FLIGHT)
                .map(|lane| {
                    let file = file.clone();
                    glommio::spawn_local(async move {
                        let (mut at, mut writes) = (lane * WRITE_BYTES as u64, 0);
                        while begun.elapsed() < duration {
                            let buffer = file.alloc_dma_buffer(WRITE_BYTES);
                            file.write_at(buffer, at).await.expect("writes");
                            writes += 1;
                            at = (at + WRITES_IN_FLIGHT * WRITE_BYTES as u64) % FILE_BYTES;
                        }
                        writes
                    })
                })
                .collect();
            let mut writes = 0_u64;
            for task in tasks {
                writes += task.await;
            }
            report_writes("glommio", writes, begun, &path);
        })
        .expect("an executor");
    writer.join().expect("ends");
}
