//! The network's edge: accepting, reading frames, sending replies in order. Knows frames by their
//! length only.

pub mod listener;

pub mod connection;
pub mod sweeper;
