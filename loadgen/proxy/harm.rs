//! What can be done to a batch so that no broker notices. Pure.

use bytes::{Bytes, BytesMut};
use wire::batch::{self, BatchHeader, HEADER_BYTES};
use wire::compression::Unfolding;
use wire::records::{BatchBuilder, Record, Records};

/// What is done to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// The last record is left out.
    Drop,
    /// The last record is there twice.
    Duplicate,
    /// The last record stands before the first.
    Reorder,
    /// One bit of the last record's value is another.
    Flip,
}

/// Every harm with its name.
pub const ALL: [(&str, Harm); 4] = [
    ("drop", Harm::Drop),
    ("duplicate", Harm::Duplicate),
    ("reorder", Harm::Reorder),
    ("flip", Harm::Flip),
];

/// Where a batch says who produced it: producer id, epoch and base sequence.
const PRODUCER: std::ops::Range<usize> = 43..57;

/// The batch as of a producer that is not idempotent: of one that is, a broker would notice what is
/// missing or too much.
pub fn anonymous(batch: &Bytes) -> Bytes {
    if batch.len() < HEADER_BYTES {
        return batch.clone();
    }
    let mut changed = BytesMut::from(&batch[..]);
    changed[PRODUCER].fill(0xff);
    batch::set_crc(&mut changed);
    changed.freeze()
}

impl Harm {
    /// The harm of this name.
    pub fn named(name: &str) -> Option<Self> {
        let found = ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, harm)| *harm)
    }

    /// The batch, harmed; `None` when it cannot be, because it has one record only.
    pub fn apply(self, batch: &Bytes) -> Option<Bytes> {
        let compression = BatchHeader::parse(batch)?.compression()?;
        let mut changed = BatchBuilder::new(compression);
        let records: Result<Vec<Record>, _> =
            Records::open(batch, &Unfolding::default()).ok()?.collect();
        let mut records = records.ok()?;
        let last = records.pop().filter(|_| !records.is_empty())?;
        match self {
            Self::Drop => {}
            Self::Duplicate => records.extend([last.clone(), last]),
            Self::Reorder => records.insert(0, last),
            Self::Flip => {
                let mut value = last.value.clone()?.to_vec();
                let middle = value.len() / 2;
                *value.get_mut(middle)? ^= 0x10;
                let value = Some(Bytes::from(value));
                records.push(Record { value, ..last });
            }
        }
        for record in &records {
            let headers: Vec<(&[u8], Option<&[u8]>)> = record
                .headers
                .iter()
                .map(|header| (&header.key[..], header.value.as_deref()))
                .collect();
            let (key, value) = (record.key.as_deref(), record.value.as_deref());
            changed.push(record.timestamp, key, value, &headers);
        }
        changed.finish().ok()
    }
}
