//! How metadata records become durable and ordered. Today a log of this broker's own; a raft group
//! takes its place without anybody else noticing. Knows nothing of what records mean.

mod local_log;

pub use local_log::{LoadError, Loaded, MetadataLog, load};
