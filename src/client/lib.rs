//! A Kafka client on tokio. Judges the broker as a stranger: knows nothing of its insides.
//!
//! Thin for now: connections whose requests may overtake their answers, and the calls that the
//! broker's own tests need.
#![forbid(unsafe_code)]

mod connection;

mod calls;

pub mod consumer;

pub use calls::{Acks, FetchedBatch, Producer};
pub use connection::{Connection, Error};
