//! Fuzzes a frame without its length: header, then body. Knows nothing of what is in it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(init: seeds::plant(seeds::frames()), |bytes: &[u8]| wire::fuzz::frame(bytes));
