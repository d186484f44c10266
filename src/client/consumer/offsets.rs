//! Offsets as applications name them. Knows nothing of who keeps them.

/// An offset to be committed, or one that was: the next record to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetAndMetadata {
    /// Offset of the next record.
    pub offset: i64,
    /// Leader epoch of the record before it, by which a truncation is noticed.
    pub leader_epoch: Option<i32>,
    /// The application's own words.
    pub metadata: String,
}

impl OffsetAndMetadata {
    /// An offset without words.
    pub fn new(offset: i64) -> Self {
        Self {
            offset,
            ..Self::default()
        }
    }
}

/// The first record that is no older than a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetAndTimestamp {
    /// Its offset.
    pub offset: i64,
    /// Its own time, in milliseconds since 1970.
    pub timestamp: i64,
    /// Epoch of the leader that appended it.
    pub leader_epoch: Option<i32>,
}
