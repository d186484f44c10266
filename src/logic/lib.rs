//! Pure state machines of the broker: events in, effects out, the clock passed in. Knows no I/O.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod ids;

mod bugs;

pub mod log;

pub mod cluster;

pub mod group;

pub mod partition;
