//! Groups by the classic protocol: members join, one of them shares out, all get theirs and begin a
//! generation together. Knows nothing of how members divide partitions among themselves: that is bytes
//! that one of them sends to the others.

pub(super) mod members;

mod join;
pub(super) use join::{fresh_id, once_each};
mod rebalance;
mod sync;

mod heartbeat;
mod leave;
