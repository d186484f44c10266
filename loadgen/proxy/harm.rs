//! What can be done to a batch so that no broker notices. Pure.

use bytes::Bytes;
use wire::batch::BatchHeader;
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

impl Harm {
    /// The harm of this name.
    pub fn named(name: &str) -> Option<Self> {
        let found = ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, harm)| *harm)
    }

    /// The batch, harmed; `None` when it cannot be: it has one record only, or is of an idempotent
    /// producer, whose broker would notice.
    pub fn apply(self, batch: &Bytes) -> Option<Bytes> {
        let header = BatchHeader::parse(batch)?;
        if header.producer_id() >= 0 && matches!(self, Self::Drop | Self::Duplicate) {
            return None;
        }
        let (id, epoch) = (header.producer_id(), header.producer_epoch());
        let compression = header.compression()?;
        let mut changed =
            BatchBuilder::new(compression).producer(id, epoch, header.base_sequence());
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
