//! The broker's storage, as it is, on the simulated reactor instead of the real one. Changes nothing of it.
#![forbid(unsafe_code)]
// Its unit tests run with the broker's, on a real reactor.
#![cfg(not(test))]
#![allow(dead_code, reason = "the broker uses more of it")]

#[path = "../../src/broker/storage/mod.rs"]
pub mod storage;

mod bugs;
