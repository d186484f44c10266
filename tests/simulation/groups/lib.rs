//! The group coordinator, as it is, but that bugs can be put into it. Changes nothing else of it.
#![forbid(unsafe_code)]
// Its unit tests run with `logic`'s.
#![cfg(not(test))]

extern crate alloc;

pub mod bugs;

#[path = "../../../src/logic/ids.rs"]
pub mod ids;

#[path = "../../../src/logic/group/mod.rs"]
pub mod group;
