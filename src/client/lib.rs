//! A Kafka client on tokio. Judges the broker as a stranger: knows nothing of its insides.
//!
//! Decisions are pure (events in, effects out, the moment passed in); what stands around them only
//! moves bytes and keeps time.
#![forbid(unsafe_code)]

mod error;
mod stream;

pub mod admin;
pub mod cluster;
pub mod consumer;
pub mod direct;
pub mod producer;
pub mod properties;

pub use cluster::{Cluster, ClusterConfig, Route};
pub use error::{BrokerError, Error, code_name};
pub use properties::{AdminConfig, ConsumerConfig, ProducerConfig, Properties};
pub use stream::{Transport, memory};
