//! Reads the small checksummed files of a data directory: a partition's metadata and checkpoint,
//! and how often the broker has started. Knows nothing of segments.

use std::io;
use std::path::Path;

use bytes::Bytes;
use logic::ids::Instant;
use logic::partition::producers::Producers;

use super::row::{Row, Rows};
use crate::storage::checkpoint::Checkpoint;
use crate::storage::place::{self, Metadata};

const UNREADABLE: &str = "torn, damaged, or of another version: its checksum does not match";

/// Dumps a partition's metadata; returns it if it is sound.
///
/// # Errors
/// When the file cannot be read, and those of standard output.
pub fn dump_metadata(path: &Path, rows: &mut Rows) -> io::Result<Option<Metadata>> {
    let metadata = place::read_small(path)?.and_then(|body| Metadata::decode(&body));
    let Some(metadata) = metadata else {
        rows.fault(path, None, UNREADABLE)?;
        return Ok(None);
    };
    let row = Row::PartitionMetadata {
        topic: metadata.topic_name.clone(),
        topic_id: metadata.id.topic.to_string(),
        partition: metadata.id.index,
        log_start: metadata.log_start.0,
    };
    rows.push(path, &row)?;
    Ok(Some(metadata))
}

/// Dumps a partition's checkpoint; returns it if it is sound.
///
/// # Errors
/// When the file cannot be read, and those of standard output.
pub fn dump_checkpoint(path: &Path, rows: &mut Rows) -> io::Result<Option<Checkpoint>> {
    let checkpoint = place::read_small(path)?.and_then(|body| Checkpoint::decode(&body));
    let Some(checkpoint) = checkpoint else {
        rows.fault(path, None, UNREADABLE)?;
        return Ok(None);
    };
    rows.push(path, &row(&checkpoint))?;
    if producers(&checkpoint.producers).is_none() {
        rows.fault(path, None, "its producer snapshot cannot be read")?;
    }
    Ok(Some(checkpoint))
}

fn row(checkpoint: &Checkpoint) -> Row {
    let epochs = checkpoint.epochs.starts().iter();
    Row::Checkpoint {
        segment: checkpoint.segment.0,
        bytes: checkpoint.position,
        log_end: checkpoint.log_end.0,
        created_ms: checkpoint.created_ms,
        max_timestamp: checkpoint.max_timestamp.map(|it| it.timestamp.0),
        leader_epochs: epochs.map(|(epoch, start)| (epoch.0, start.0)).collect(),
        producers: producers(&checkpoint.producers),
        batches_after: checkpoint.after.len() as u64,
        tail_start: checkpoint.tail_start,
        tail_bytes: checkpoint.tail.len() as u64,
    }
}

/// How many producers a snapshot holds; an empty one is of a partition that had none.
fn producers(snapshot: &Bytes) -> Option<u64> {
    if snapshot.is_empty() {
        return Some(0);
    }
    let producers = Producers::decode_snapshot(Instant(0), snapshot, crc32c::crc32c);
    producers.ok().map(|producers| producers.len() as u64)
}

/// Dumps how often the broker has started.
///
/// # Errors
/// When the file cannot be read, and those of standard output.
pub fn dump_boot(path: &Path, rows: &mut Rows) -> io::Result<()> {
    let body = place::read_small(path)?;
    match body.as_deref().and_then(<[u8]>::first_chunk) {
        Some(starts) => {
            let starts = u64::from_le_bytes(*starts);
            rows.push(path, &Row::Boot { starts })
        }
        None => rows.fault(path, None, UNREADABLE),
    }
}
