//! A question to another executor and its answer. Knows nothing of shards.

use std::time::{Duration, Instant};

use criterion::Criterion;
use reactor::mailbox::mailbox;

use crate::lane::{Lane, executor};

const CAPACITY: usize = 1024;
/// How long executors look for work before they sleep, where they do.
const SPIN: Duration = Duration::from_micros(100);

/// One message there and one back, nothing else under way: each side sleeps before each message.
pub fn round_trip(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mailbox round trip");
    for (name, spin) in [("asleep", None), ("spinning 100 us", Some(SPIN))] {
        let (there, arriving) = mailbox::<u64>(CAPACITY);
        let (back, returning) = mailbox::<u64>(CAPACITY);
        let answering = executor(spin, async move |reactor| {
            let mut arriving = arriving.bind(&reactor);
            let mut messages = Vec::new();
            while arriving.recv_all(&mut messages).await {
                back.send_all(&mut messages);
            }
        });
        let asking = Lane::start(spin, async move |reactor| {
            let mut returning = returning.bind(&reactor);
            let mut messages = Vec::new();
            async move |count| {
                let begun = Instant::now();
                for trip in 0..count {
                    assert!(there.try_send(trip).is_ok(), "one message at a time");
                    assert!(returning.recv_all(&mut messages).await);
                    messages.clear();
                }
                begun.elapsed()
            }
        });
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|count| asking.time(count));
        });
        drop(asking);
        answering.join().expect("the other side ends");
    }
    group.finish();
}
