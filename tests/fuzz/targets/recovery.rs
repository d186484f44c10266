//! Fuzzes what start-up reads of a write-ahead log. Knows nothing of its layout.
#![no_main]

use corelog::storage::fuzz;
use libfuzzer_sys::fuzz_target;
use wire::Compression;

fn samples() -> Vec<Vec<u8>> {
    let batch = |idempotent| seeds::batch(Compression::None, idempotent);
    fuzz::samples(&batch(false), &batch(true))
}

fuzz_target!(init: seeds::plant(samples()), |bytes: &[u8]| fuzz::recover_any(bytes));
