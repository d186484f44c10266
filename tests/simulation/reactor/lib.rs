//! The doors of the reactor that storage uses, with the same names and a simulated machine behind them:
//! tasks, clock and disk all move by one seed. Knows nothing of what storage does with them.
//!
//! | module | what it is |
//! |---|---|
//! | [`world`] | who runs next: tasks, disk operations, timers |
//! | [`disk`] | what is on the disk, what only in its cache, what a power cut leaves |
//! | [`names`] | directories, and which of their entries survive |
//! | [`bug`] | what can be put in to see that it is found |
//! | [`file`](mod@file), [`blocking`], [`compute`], [`timer`] | the doors |
//!
//! The faults, and why a broker must survive each of them:
//!
//! - A write that no flush has covered is lost, kept, or kept in some of its 512-byte sectors only: a disk's
//!   cache is emptied in any order.
//! - A write in flight leaves old, new, torn or garbled sectors: the power went while the head was there.
//! - A file's length and its newly allocated blocks are lost until a flush, even where its data was written:
//!   they are the file system's own data, in its journal.
//! - A directory's changes are lost from some change on until the directory is flushed.
//! - Any operation may fail with EIO or ENOSPC. A failed write may have written any of its sectors; after a
//!   failed flush what it should have covered stays readable and never reaches the disk.
//! - A read gives a flipped bit, or a sector of zeros or of another place, once: cables and controllers do
//!   that. Not of what a write-ahead log's last flush covered: it is there once only, and nothing tells a
//!   commit that was damaged from one that was torn by the power cut.
//! - Operations in flight complete in any order, and tasks that are ready run in any order.

#[path = "../../../src/reactor/buffer.rs"]
pub mod buffer;
#[path = "../../../src/reactor/local.rs"]
pub mod local;

pub mod blocking;
pub mod bug;
pub mod compute;
pub mod disk;
pub mod file;
pub mod names;
pub mod random;
mod slice;
pub mod timer;
pub mod world;

pub use slice::Slice;
pub use world::{Reactor, spawn, yield_now};
