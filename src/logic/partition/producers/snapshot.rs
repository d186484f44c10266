//! The layout of Kafka's producer snapshot files, version 1. Knows nothing of what the entries mean.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use super::{Batch, Entry};
use crate::ids::Offset;

const VERSION: i16 = 1;
/// Version and checksum; the checksum covers all that follows.
const HEADER_BYTES: usize = 6;
const ENTRY_BYTES: usize = 46;
const NO_COORDINATOR: i32 = -1;
const NO_TRANSACTION: i64 = -1;

/// Why a snapshot file cannot be used. Rebuild from the log instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// It is shorter or longer than it says.
    Length,
    /// It has another version.
    Version(i16),
    /// Its checksum does not match.
    Checksum,
    /// A field holds what no writer writes.
    Value,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => write!(f, "the producer snapshot is shorter or longer than it says"),
            Self::Version(version) => {
                write!(
                    f,
                    "the producer snapshot has version {version}, not {VERSION}"
                )
            }
            Self::Checksum => write!(f, "the producer snapshot's checksum does not match"),
            Self::Value => write!(f, "the producer snapshot holds an impossible value"),
        }
    }
}

impl core::error::Error for SnapshotError {}

/// One entry of the file.
pub(super) struct FileEntry {
    pub(super) producer_id: i64,
    pub(super) epoch: i16,
    pub(super) batch: Batch,
}

pub(super) fn encode(entries: &BTreeMap<i64, Entry>, crc32c: fn(&[u8]) -> u32) -> Vec<u8> {
    let count: usize = entries.values().map(|entry| entry.window.len()).sum();
    let count_field = i32::try_from(count).expect("producers are bounded");
    let mut body = Vec::with_capacity(4 + count * ENTRY_BYTES);
    body.extend_from_slice(&count_field.to_be_bytes());
    for (producer_id, entry) in entries {
        for batch in &entry.window {
            body.extend_from_slice(&producer_id.to_be_bytes());
            body.extend_from_slice(&entry.epoch.to_be_bytes());
            body.extend_from_slice(&batch.last_sequence.to_be_bytes());
            body.extend_from_slice(&batch.last_offset.0.to_be_bytes());
            body.extend_from_slice(&batch.offset_delta.to_be_bytes());
            body.extend_from_slice(&batch.timestamp.to_be_bytes());
            body.extend_from_slice(&NO_COORDINATOR.to_be_bytes());
            body.extend_from_slice(&NO_TRANSACTION.to_be_bytes());
        }
    }
    let mut file = Vec::with_capacity(HEADER_BYTES + body.len());
    file.extend_from_slice(&VERSION.to_be_bytes());
    file.extend_from_slice(&crc32c(&body).to_be_bytes());
    file.extend_from_slice(&body);
    file
}

pub(super) fn decode(
    file: &[u8],
    crc32c: fn(&[u8]) -> u32,
) -> Result<Vec<FileEntry>, SnapshotError> {
    let mut rest = file;
    let version = i16::from_be_bytes(take(&mut rest)?);
    if version != VERSION {
        return Err(SnapshotError::Version(version));
    }
    let checksum = u32::from_be_bytes(take(&mut rest)?);
    if checksum != crc32c(rest) {
        return Err(SnapshotError::Checksum);
    }
    let count = i32::from_be_bytes(take(&mut rest)?);
    let count = usize::try_from(count).map_err(|_| SnapshotError::Value)?;
    if count.checked_mul(ENTRY_BYTES) != Some(rest.len()) {
        return Err(SnapshotError::Length);
    }
    let mut entries = Vec::with_capacity(count);
    while !rest.is_empty() {
        entries.extend(entry(&mut rest)?);
    }
    Ok(entries)
}

/// One entry; none where Kafka wrote a producer that has only a transaction marker and no batch.
fn entry(rest: &mut &[u8]) -> Result<Option<FileEntry>, SnapshotError> {
    let producer_id = i64::from_be_bytes(take(rest)?);
    let epoch = i16::from_be_bytes(take(rest)?);
    let last_sequence = i32::from_be_bytes(take(rest)?);
    let last_offset = i64::from_be_bytes(take(rest)?);
    let offset_delta = i32::from_be_bytes(take(rest)?);
    let timestamp = i64::from_be_bytes(take(rest)?);
    let _coordinator_epoch = i32::from_be_bytes(take(rest)?);
    let _transaction_first_offset = i64::from_be_bytes(take(rest)?);
    if last_offset < 0 {
        return Ok(None);
    }
    let sound = producer_id >= 0
        && epoch >= 0
        && last_sequence >= 0
        && offset_delta >= 0
        && i64::from(offset_delta) <= last_offset;
    if !sound {
        return Err(SnapshotError::Value);
    }
    let last_offset = Offset(last_offset);
    let batch = Batch {
        last_sequence,
        last_offset,
        offset_delta,
        timestamp,
    };
    Ok(Some(FileEntry {
        producer_id,
        epoch,
        batch,
    }))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], SnapshotError> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(SnapshotError::Length)?;
    *rest = tail;
    Ok(*head)
}
