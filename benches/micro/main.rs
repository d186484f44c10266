//! Micro-benchmarks of the steps of a request: `cargo bench --bench micro [-- NAME]`. Knows no whole
//! broker; what a whole request costs is measured by `benches/cost/run`.
#![forbid(unsafe_code)]

mod samples;

mod batch;
mod decode;
mod encode;

mod lane;

mod append;
mod mailbox;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    benches,
    decode::requests,
    batch::check,
    batch::refolding,
    encode::responses,
    append::leader,
    append::memory,
    append::durable,
    mailbox::round_trip,
);
criterion_main!(benches);
