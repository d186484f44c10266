//! Looks for stalls: `soak [seconds]` runs two executors under messages, echoes, writes, timers and
//! yielding loops, with pauses, and fails when a turn is late by more than 100 ms. Knows nothing of
//! Kafka.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use reactor::buffer::AlignedBuf;
use reactor::file::{DirectFile, Mode};
use reactor::mailbox::{Receiver, Sender, mailbox};
use reactor::socket::{Listener, Socket};
use reactor::{Executor, LateTurns, Reactor, Settings};

const STALL: Duration = Duration::from_millis(100);

/// What the soak counts, over all executors.
#[derive(Default)]
struct Counts {
    messages: AtomicU64,
    echoes: AtomicU64,
    writes: AtomicU64,
    late_timers: AtomicU64,
    worst_timer_ms: AtomicU64,
}

fn main() {
    let seconds = std::env::args()
        .nth(1)
        .and_then(|seconds| seconds.parse().ok());
    let duration = Duration::from_secs(seconds.unwrap_or(30));
    let counts = Arc::new(Counts::default());
    let ((to_first, at_first), (to_second, at_second)) = (mailbox(1024), mailbox(1024));
    let first = executor(0, to_second, at_first, duration, counts.clone());
    let second = executor(1, to_first, at_second, duration, counts.clone());
    let late = [first, second].map(|(executor, late)| {
        executor.join().expect("an executor ends well");
        late.recv().expect("an executor counted").own()
    });
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{} messages, {} echoes, {} writes; late turns {late:?}, late timers {}, worst timer {} ms",
        count(&counts.messages),
        count(&counts.echoes),
        count(&counts.writes),
        count(&counts.late_timers),
        count(&counts.worst_timer_ms),
    );
    let stalled = count(&counts.late_timers) > 0 || late.iter().any(|late| *late > 0);
    std::process::exit(i32::from(stalled));
}

type Late = std::sync::mpsc::Receiver<Arc<LateTurns>>;

fn executor(
    index: usize,
    peer: Sender<Instant>,
    own: Receiver<Instant>,
    duration: Duration,
    counts: Arc<Counts>,
) -> (Executor, Late) {
    let settings = Settings {
        name: format!("soak-{index}"),
        core: None,
        ring_entries: 256,
        spin_before_park: None,
    };
    let (tell, late) = std::sync::mpsc::channel();
    let executor = reactor::start(settings, move |reactor| async move {
        tell.send(reactor.late_turns())
            .expect("the main thread listens");
        exchange(&reactor, peer, own, counts.clone());
        echo(&reactor, duration, counts.clone());
        write(&reactor, index, counts.clone());
        reactor.spawn_background(async move {
            loop {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_millis(50) {
                    reactor::yield_now().await;
                }
                reactor::timer::sleep(Duration::from_millis(200)).await;
            }
        });
        watch(duration, &counts).await;
    });
    (executor.expect("an executor"), late)
}

async fn watch(duration: Duration, counts: &Counts) {
    let begun = Instant::now();
    while begun.elapsed() < duration {
        let asked = Instant::now();
        reactor::timer::sleep(Duration::from_millis(5)).await;
        let late = asked.elapsed().saturating_sub(Duration::from_millis(5));
        let millis = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
        counts.worst_timer_ms.fetch_max(millis, Ordering::Relaxed);
        if late > STALL {
            counts.late_timers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Messages back and forth in bursts, with silences between them.
fn exchange(reactor: &Reactor, peer: Sender<Instant>, own: Receiver<Instant>, counts: Arc<Counts>) {
    let mut own = own.bind(reactor);
    reactor.spawn(async move {
        let mut messages = Vec::new();
        while own.recv_all(&mut messages).await {
            for sent in messages.drain(..) {
                counts.messages.fetch_add(1, Ordering::Relaxed);
                if sent.elapsed() > STALL {
                    counts.late_timers.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    reactor.spawn(async move {
        let mut round = 0_u64;
        loop {
            for _ in 0..round % 64 {
                // A full mailbox is not what is looked for here.
                drop(peer.try_send(Instant::now()));
            }
            round += 1;
            let pause = if round.is_multiple_of(500) {
                120_000
            } else {
                50 + round % 7 * 100
            };
            reactor::timer::sleep(Duration::from_micros(pause)).await;
        }
    });
}

/// A blocking client on a thread of its own, which pauses at times.
fn echo(reactor: &Reactor, duration: Duration, counts: Arc<Counts>) {
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let address = listener.local_addr();
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("connects");
        let (begun, mut buffer) = (Instant::now(), [7; 1024]);
        let mut round = 0_u64;
        while begun.elapsed() < duration {
            if stream.write_all(&buffer).is_err() || stream.read_exact(&mut buffer).is_err() {
                return;
            }
            counts.echoes.fetch_add(1, Ordering::Relaxed);
            round += 1;
            if round.is_multiple_of(1000) {
                std::thread::sleep(Duration::from_millis(round / 1000 % 30));
            }
        }
    });
    let serving = reactor.clone();
    reactor.spawn(async move {
        let accepted = listener.accept(&serving).await.expect("accepts");
        let socket = Socket::new(&serving, accepted.fd).expect("a socket");
        let mut received = BytesMut::new();
        while socket
            .recv(&mut received)
            .await
            .is_ok_and(|bytes| bytes > 0)
        {
            if socket.send(vec![received.split().freeze()]).await.is_err() {
                return;
            }
        }
    });
}

fn write(reactor: &Reactor, index: usize, counts: Arc<Counts>) {
    let directory = std::env::var_os("SOAK_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let path = directory.join(format!("corelog-soak-{}-{index}", std::process::id()));
    let reactor = reactor.clone();
    reactor.clone().spawn(async move {
        let opened = DirectFile::open(&reactor, &path, Mode::Create).await;
        let file = opened.expect("opens");
        // Open files stay usable without a name: nothing is left behind.
        std::fs::remove_file(&path).expect("unlinks");
        let bytes = AlignedBuf::new(16 << 10).freeze();
        loop {
            let position = counts.writes.fetch_add(1, Ordering::Relaxed) % 64 * (16 << 10);
            file.write_at_flushed(bytes.clone(), position)
                .await
                .expect("writes");
            reactor::timer::sleep(Duration::from_micros(300)).await;
        }
    });
}
