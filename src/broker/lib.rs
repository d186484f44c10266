//! The broker's shell: turns bytes and completions into events for `logic`, and its effects into
//! I/O. Decides nothing that a pure machine could decide.
#![forbid(unsafe_code)]

pub mod command;

pub mod config;

pub mod data_dir;

pub mod data_dirs;

pub mod start_error;

pub mod start;

pub mod moved;

pub mod recovered;

pub mod serve;

pub mod net;

pub mod api;

pub mod shard;

pub mod storage;

mod bugs;

pub mod consensus;
