//! Bugs that can be put in, to see that each is found. Knows where the first seven are, which are in how the
//! disk is used; the others are asked for by storage itself, through the module `bugs` of its crate, which in
//! the broker says no to each.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A write counts as flushed once it is complete. The disk's cache holds it, and forgets it.
    AcknowledgeBeforeFlush,
    /// Directories are never flushed: files that were made, renamed or removed come and go.
    ForgetDirectoryFlush,
    /// A failed write or flush is taken for a success.
    AcknowledgeAfterError,
    /// Small files are written in place instead of being renamed, so that a crash leaves half of one.
    NoRename,
    /// A file whose room was allocated ahead is not cut to its content, and its length is believed.
    TrustFileLength,
    /// A file that is read whole ends where a block of zeros begins, though records may hold zeros.
    TruncateAtFirstZero,
    /// A write takes the block before it along, as it must when that block was not filled up: what is
    /// acknowledged is at stake once more.
    PartialBlockRewrite,
    /// An extent that is used again has the generation that it had: old commits pass for new ones.
    ReuseWithoutGeneration,
    /// A tombstone goes with the next cleaning instead of staying for `delete.retention.ms`.
    TombstoneTooEarly,
    /// Cleaning goes on past the last stable offset.
    CompactionPastStable,
    /// The index is asked for the offset after the wanted one.
    IndexOffByOne,
    /// Recovery gives a write-ahead log up once it is read: a crash before all of it is in segments loses it.
    RecoveryNotIdempotent,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::AcknowledgeBeforeFlush,
        Self::ForgetDirectoryFlush,
        Self::TrustFileLength,
        Self::ReuseWithoutGeneration,
        Self::TruncateAtFirstZero,
        Self::TombstoneTooEarly,
        Self::CompactionPastStable,
        Self::IndexOffByOne,
        Self::NoRename,
        Self::AcknowledgeAfterError,
        Self::PartialBlockRewrite,
        Self::RecoveryNotIdempotent,
    ];
}

/// Whether the machine on this thread has this bug.
pub fn is_in(bug: Bug) -> bool {
    crate::world::current().bug(bug)
}
