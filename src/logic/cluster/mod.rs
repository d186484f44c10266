//! The cluster's metadata: records, the image they add up to, and the requests that make records.
//! Knows nothing of how records are made durable or agreed on.

mod record;

mod image;

pub mod change;
pub mod config;

pub use image::{Image, NO_LEADER, Partition, Topic};
pub use record::{Record, RecordError};
