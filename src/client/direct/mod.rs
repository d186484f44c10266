//! One connection to one broker, every byte under the caller's control: what tests of a broker need.
//! Knows nothing of metadata, retries or negotiation.

mod connection;

mod calls;

pub use calls::{Acks, FetchedBatch, Producer};
pub use connection::{Connection, Error};
