//! What executors promise each other and their tasks: messages, turns, endings. Knows nothing of
//! sockets' and files' contents.

mod support;

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use reactor::buffer::AppendBuf;
use reactor::mailbox::{Full, mailbox};
use reactor::socket::Socket;
use reactor::{Settings, local};
use support::{begin, listening, run, settings};

fn exchange(settings: &Settings, count: u64) {
    let (sender, receiver) = mailbox::<u64>(1024);
    let sending = begin(settings.clone(), move |_| async move {
        for mut message in 0..count {
            while let Err(Full(back)) = sender.try_send(message) {
                message = back;
                reactor::yield_now().await;
            }
        }
    });
    let receiving = begin(settings.clone(), move |reactor| async move {
        let mut bound = receiver.bind(&reactor);
        let (mut messages, mut expected) = (Vec::new(), 0);
        while bound.recv_all(&mut messages).await {
            for message in messages.drain(..) {
                assert_eq!(message, expected);
                expected += 1;
            }
        }
        assert_eq!(expected, count);
    });
    sending.join().expect("the sender ends");
    receiving.join().expect("everything was received");
}

#[test]
fn a_million_messages_between_executors_arrive_once_and_in_order() {
    exchange(&settings(), 1_000_000);
}

#[test]
fn messages_arrive_also_when_the_executors_spin() {
    let spin_before_park = Some(Duration::from_micros(100));
    let spinning = Settings {
        spin_before_park,
        ..settings()
    };
    exchange(&spinning, 100_000);
}

#[test]
fn a_message_from_any_thread_wakes_a_sleeping_receiver() {
    let (sender, receiver) = mailbox::<Instant>(16);
    let sending = std::thread::spawn(move || {
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(3));
            let mut messages = vec![Instant::now()];
            assert_eq!(sender.send_all(&mut messages), 1);
        }
    });
    run(move |reactor| async move {
        let mut bound = receiver.bind(&reactor);
        let mut messages = Vec::new();
        let mut waits = Vec::new();
        while bound.recv_all(&mut messages).await {
            waits.extend(messages.drain(..).map(|sent: Instant| sent.elapsed()));
        }
        waits.sort_unstable();
        assert_eq!(waits.len(), 20);
        // A lost wake-up would wait until the receiver's sleep ends by itself, after a second.
        assert!(waits[10] < Duration::from_millis(200), "{waits:?}");
    });
    sending.join().expect("the sender ends");
}

#[test]
fn a_mailbox_is_bounded_and_says_when_its_receiver_is_gone() {
    let (sender, receiver) = mailbox::<u8>(2);
    let mut messages = vec![1, 2, 3];
    assert_eq!(sender.send_all(&mut messages), 2);
    assert_eq!(messages, [3]);
    assert!(sender.try_send(4).is_err() && !sender.is_closed());
    drop(receiver);
    assert!(sender.is_closed() && sender.try_send(5).is_err());
}

#[test]
fn a_panic_in_any_task_is_reported_by_join() {
    let executor = begin(settings(), |reactor| async move {
        reactor.spawn(async { panic!("on purpose") });
        reactor::timer::sleep(Duration::from_secs(5)).await;
    });
    assert!(executor.join().is_err());
}

#[test]
fn a_ring_that_cannot_be_made_is_reported_by_start() {
    let impossible = Settings {
        ring_entries: 1 << 20,
        ..settings()
    };
    let started = reactor::start(impossible, |_| async {});
    assert!(started.is_err());
}

#[test]
fn timers_and_messages_are_not_starved_by_a_busy_socket_or_a_yielding_loop() {
    let (listener, address) = listening();
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = mailbox::<Instant>(1024);
    let telling = std::thread::spawn({
        let stop = stop.clone();
        move || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(7));
                assert!(sender.try_send(Instant::now()).is_ok());
            }
        }
    });
    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("connects");
        let mut out = stream.try_clone().expect("a second handle");
        std::thread::spawn(move || while out.write_all(&[7; 4096]).is_ok() {});
        let mut buffer = vec![0; 64 << 10];
        while stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
    });
    let finished = stop.clone();
    run(move |reactor| async move {
        let accepted = listener.accept(&reactor).await.expect("accepts");
        let socket = Socket::new(&reactor, accepted.fd).expect("a socket");
        let echo = socket.clone();
        reactor.spawn(async move {
            let mut received = BytesMut::new();
            while echo.recv(&mut received).await.is_ok_and(|bytes| bytes > 0) {
                if echo.send(vec![received.split().freeze()]).await.is_err() {
                    return;
                }
            }
        });
        let busy = Rc::new(Cell::new(true));
        let looping = busy.clone();
        reactor.spawn_background(async move {
            while looping.get() {
                reactor::yield_now().await;
            }
        });
        let mut bound = receiver.bind(&reactor);
        let message_waits = Rc::new(Cell::new(Vec::new()));
        let waits = message_waits.clone();
        reactor.spawn(async move {
            let mut messages = Vec::new();
            while bound.recv_all(&mut messages).await {
                let mut all = waits.take();
                all.extend(messages.drain(..).map(|sent: Instant| sent.elapsed()));
                waits.set(all);
            }
        });
        let mut timer_waits = Vec::new();
        for _ in 0..200 {
            let asked = Instant::now();
            reactor::timer::sleep(Duration::from_millis(2)).await;
            timer_waits.push(asked.elapsed());
        }
        busy.set(false);
        finished.store(true, Ordering::Relaxed);
        socket.shutdown();
        let mut message_waits = message_waits.take();
        for waits in [&mut timer_waits, &mut message_waits] {
            waits.sort_unstable();
            // A loop that never lets the parker in would keep them waiting for its end.
            let middle = waits[waits.len() / 2];
            assert!(middle < Duration::from_millis(20), "{waits:?}");
        }
    });
    telling.join().expect("the teller ends");
    client.join().expect("the client ends");
}

#[test]
fn views_are_read_on_another_thread_while_the_writer_appends() {
    const STEPS: usize = 2000;
    const STEP: usize = 777;
    let (sender, views) = std::sync::mpsc::channel::<(usize, Bytes)>();
    let reader = std::thread::spawn(move || {
        let mut kept = Vec::new();
        for (step, view) in views {
            assert!(view.iter().all(|byte| *byte == step as u8));
            kept.push((step, view));
        }
        for (step, view) in kept {
            assert!(view.iter().all(|byte| *byte == step as u8));
        }
    });
    let mut buf = AppendBuf::with_capacity(STEPS * STEP);
    for step in 0..STEPS {
        let start = buf.len();
        buf.append_with(STEP, |room| room.fill(step as u8));
        sender
            .send((step, buf.slice(start..start + STEP)))
            .expect("the reader lives");
    }
    drop((sender, buf));
    reader.join().expect("every view held its bytes");
}

#[test]
fn waiting_tasks_hear_a_signal_and_an_ended_executor_leaves_nothing_undone() {
    run(|reactor| async move {
        let signal = local::Signal::new();
        let heard = Rc::new(Cell::new(0));
        for _ in 0..10 {
            let (wait, heard) = (signal.wait(), heard.clone());
            reactor.spawn(async move {
                wait.await;
                heard.set(heard.get() + 1);
            });
        }
        reactor::yield_now().await;
        signal.set();
        let deadline = Instant::now() + Duration::from_millis(10);
        reactor::timer::sleep_until(deadline).await;
        assert!(Instant::now() >= deadline);
        assert_eq!(heard.get(), 10);
    });
}

/// Nanoseconds that this thread has had a core.
fn on_core_ns() -> u64 {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").expect("statistics");
    let first = said.split(' ').next().expect("a field");
    first.parse().expect("a number")
}

#[test]
fn a_background_task_has_the_core_to_itself_while_nothing_else_wants_it() {
    const TURNS: usize = 200;
    let work = || {
        let bytes = std::hint::black_box([7_u8; 1 << 16]);
        let mut sum = 0_u64;
        for _ in 0..20 {
            for byte in &bytes {
                sum = sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
            }
        }
        std::hint::black_box(sum);
    };
    let alone = std::thread::spawn(move || {
        (0..TURNS).for_each(|_| work());
        on_core_ns()
    });
    let alone = alone.join().expect("works");
    run(move |reactor| async move {
        let done = local::Signal::new();
        let (waits, before) = (done.wait(), on_core_ns());
        reactor.spawn_background(async move {
            for _ in 0..TURNS {
                work();
                reactor::yield_now().await;
            }
            done.set();
        });
        waits.await;
        let used = on_core_ns() - before;
        assert!(used < 3 * alone, "{used} ns for {alone} ns of work");
    });
}
