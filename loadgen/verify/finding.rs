//! What can be wrong with what a broker kept, each with its partition and offset. Words only.

use std::fmt;

use serde::Serialize;

use super::RecordId;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Acknowledged and not there.
    Lost,
    /// There more than once.
    Duplicated,
    /// Behind a record that its producer sent to the partition later.
    Reordered,
    /// Damaged.
    Corrupt,
    /// There and never sent, or sent elsewhere, or refused.
    Phantom,
    /// At another offset than was acknowledged, or at one acknowledged for another record.
    Misplaced,
    /// An offset was skipped or came twice.
    Offsets,
    /// A record that was read is another one, or gone, when it is read again.
    Changed,
    /// A high watermark went back, or ends before an acknowledged record.
    Watermark,
}

/// Every kind, in the order in which they are printed.
pub const KINDS: [Kind; 9] = [
    Kind::Lost,
    Kind::Duplicated,
    Kind::Reordered,
    Kind::Corrupt,
    Kind::Phantom,
    Kind::Misplaced,
    Kind::Offsets,
    Kind::Changed,
    Kind::Watermark,
];

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind.
    pub kind: Kind,
    /// In which partition.
    pub partition: i32,
    /// At which offset; -1 where there is none.
    pub offset: i64,
    /// Which record, as far as it is known.
    pub record: Option<RecordId>,
    /// More, in words.
    pub detail: String,
}

impl Kind {
    /// As it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Duplicated => "duplicated",
            Self::Reordered => "reordered",
            Self::Corrupt => "corrupt",
            Self::Phantom => "phantom",
            Self::Misplaced => "misplaced",
            Self::Offsets => "offsets",
            Self::Changed => "changed",
            Self::Watermark => "watermark",
        }
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "producer {} record {}", self.producer, self.sequence)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_str();
        write!(
            out,
            "{kind:<10} partition {} offset {}",
            self.partition, self.offset
        )?;
        if let Some(record) = self.record {
            write!(out, ", {record}")?;
        }
        if self.detail.is_empty() {
            Ok(())
        } else {
            write!(out, ": {}", self.detail)
        }
    }
}
