//! What is known of this machine and of processes on it, from /proc. Knows nothing of brokers.

pub mod date;
pub mod disk;
pub mod environment;
pub mod process;
