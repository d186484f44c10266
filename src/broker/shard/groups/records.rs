//! Records of groups as a batch for their partition's leader, and back from a log's bytes. Knows
//! nothing of what they mean.

use bytes::Bytes;
use logic::ids::{Offset, PartitionId, Timestamp};
use logic::partition::leader::Batch;
use logic::partition::producers::BatchSummary;
use wire::Compression;
use wire::batch;
use wire::compression::Unfolding;
use wire::group_records::GroupRecord;
use wire::records::{BatchBuilder, Records};

use crate::shard::mail::ProduceItem;

/// The batch that holds these records; none when one of them is longer than its format can say.
pub(super) fn item(
    partition: PartitionId,
    wall: i64,
    records: &[GroupRecord],
) -> Option<ProduceItem> {
    let mut builder = BatchBuilder::new(Compression::None);
    for record in records {
        let (key, value) = (record.encode_key()?, record.encode_value()?);
        builder.push(wall, Some(&key), value.as_deref(), &[]);
    }
    let record_count = u32::try_from(builder.len()).ok()?;
    let bytes = builder.finish().ok()?;
    let batch = Batch {
        bytes: u32::try_from(bytes.len()).ok()?,
        summary: BatchSummary {
            producer_id: -1,
            epoch: -1,
            base_sequence: -1,
            record_count,
            timestamp: wall,
        },
        timestamp_min: Timestamp(wall),
        timestamp_max: Timestamp(wall),
        keyless: None,
    };
    Some(ProduceItem {
        partition,
        bytes,
        batch,
    })
}

/// The records of whole batches, and where the next batch begins; none when there is no batch. What
/// cannot be read is passed over and told, as a group is worth more than one of its records.
pub(super) fn decode(bytes: &Bytes) -> Option<(Vec<GroupRecord>, Offset)> {
    let mut next = None;
    let mut found = Vec::new();
    for view in batch::split(bytes) {
        next = Some(Offset(view.header.last_offset() + 1));
        if view.header.is_control() {
            continue;
        }
        let records = match Records::open(&bytes.slice_ref(view.bytes), &Unfolding::default()) {
            Ok(records) => records,
            Err(error) => {
                tell(view.header.base_offset(), &error);
                continue;
            }
        };
        for record in records {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    tell(view.header.base_offset(), &error);
                    break;
                }
            };
            let Some(key) = &record.key else {
                continue;
            };
            match GroupRecord::decode(key, record.value.as_ref()) {
                Ok(record) => found.extend(record),
                Err(error) => tell(view.header.base_offset(), &error),
            }
        }
    }
    Some((found, next?))
}

fn tell(offset: i64, error: &dyn std::error::Error) {
    eprintln!("warning: a record of __consumer_offsets in the batch at {offset} is lost: {error}");
}
