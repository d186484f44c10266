//! One core's machinery: executor, ring, sockets, files, mailboxes, timers. The only crate that
//! names glommio or io_uring and the only one with unsafe code. Knows nothing of Kafka.
//!
//! glommio runs the tasks, the timers and the shares between task queues. Sockets and files are on a
//! second ring of the same thread (see [`ring`](self)), because their buffers must be shared between
//! cores, and so that a write and its flush are one submission.
#![deny(unsafe_op_in_unsafe_fn)]

mod executor;
mod ring;

pub mod buffer;
pub mod file;
pub mod local;
pub mod mailbox;
pub mod probe;
pub mod socket;
pub mod timer;

pub use executor::{Executor, Reactor, Settings, spawn, start, yield_now};
