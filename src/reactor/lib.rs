//! One core's machinery: executor, ring, sockets, files, mailboxes, timers. The only crate that
//! names glommio or io_uring and the only one with unsafe code. Knows nothing of Kafka.
//!
//! | module | what it is |
//! |---|---|
//! | [`start`], [`Reactor`] | a thread with its executor; tasks, background tasks, [`LateTurns`] |
//! | [`timer`] | sleeping, and the clocks |
//! | [`mailbox`] | messages between threads, taken in batches |
//! | [`local`] | a value or a signal between tasks of one executor |
//! | [`buffer`] | aligned memory, and memory that grows while others read it |
//! | [`blocking`] | waiting for the disk on plain threads |
//! | [`compute`] | what takes a core for long, on plain threads |
//! | [`file`](mod@file) | direct files, page-cache files, names and directories |
//! | [`socket`] | listening, receiving, sending from memory and from files |
//! | [`probe`](mod@probe) | what this machine offers, and remedies |
//!
//! Dropping a future of this crate never frees what the kernel still reads or writes: an operation
//! owns its buffers and descriptors until it is complete, whether or not somebody waits. What is lost
//! is the outcome: bytes that a dropped receive takes out of the socket are gone, and a dropped write
//! may or may not reach the disk.
//!
//! glommio runs the tasks and the shares between task queues. Sockets, files, timers and sleeping are
//! on a ring of our own (`ring.rs`, `ring/park.rs`): its buffers can be shared between cores, a write
//! and its flush are one submission, and a wake-up is one system call.
#![deny(unsafe_op_in_unsafe_fn)]

mod close;
mod executor;
mod late;
mod ring;
mod slice;
mod tasks;

pub mod blocking;
pub mod buffer;
pub mod compute;
pub mod file;
pub mod local;
pub mod mailbox;
pub mod probe;
pub mod socket;
pub mod timer;

pub use executor::{Executor, Reactor, Settings, spawn, start, yield_now};
pub use late::LateTurns;
pub use slice::Slice;
