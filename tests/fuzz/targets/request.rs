//! Fuzzes the body of any served request in any version. Knows nothing of what is in it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(init: seeds::plant(seeds::requests()), |bytes: &[u8]| wire::fuzz::request(bytes));
