//! Fuzzes record batches, as a Produce request has them and as a log has them. Knows no records.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(init: seeds::plant(seeds::batches()), |bytes: &[u8]| wire::fuzz::batch(bytes));
