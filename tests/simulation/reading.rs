//! Reads a log as a consumer does, from memory and from files, and compares all of it with what must be there.
//! Knows nothing of what a life does besides.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use logic::ids::{Offset, Timestamp};
use logic::log::header::BatchHeader;
use reactor::Reactor;
use simulated::storage::{Log, Read, ReadError, StorageError};

use crate::ghost::{Cleaning, Ghost};

/// What is read at once.
pub const READ_BYTES: usize = 20_000;

/// Reads from `from` to the end and compares.
pub async fn check_read(
    ghost: &Rc<RefCell<Ghost>>,
    log: &Log,
    from: Offset,
) -> Result<(), StorageError> {
    let end = log.log_end();
    // What is done when the reading begins: a later cleaning comes before some of it only.
    let before = ghost.borrow().logs[&log.id()].cleanings.clone();
    let mut batches: Vec<Bytes> = Vec::new();
    let mut offset = from;
    while offset < end {
        let bytes = match read_once(log, offset, end).await? {
            Chunk::Bytes(bytes) => bytes,
            // Cleaning has left nothing more.
            Chunk::Nothing => break,
            // Retention was faster: what was read before it counts.
            Chunk::BelowStart => return compare(ghost, log, (from, offset), &before, &batches),
        };
        split(&bytes, &mut batches);
        let last = batches.last().expect("a read gives a batch");
        let header = BatchHeader::read(last).expect("a batch");
        assert!(header.end_offset() > offset, "reading goes on");
        offset = header.end_offset();
    }
    compare(ghost, log, (from, end), &before, &batches)
}

fn compare(
    ghost: &Rc<RefCell<Ghost>>,
    log: &Log,
    range: (Offset, Offset),
    before: &[Cleaning],
    batches: &[Bytes],
) -> Result<(), StorageError> {
    let id = log.id();
    let ghost = ghost.borrow();
    let known = &ghost.logs[&id];
    known.compare(range, before, batches);
    for batch in batches {
        let header = BatchHeader::read(batch).expect("a batch");
        let (epoch, epoch_end) = log.epoch_end_offset(header.leader_epoch);
        // What was read may have gone meanwhile, and its epoch with it (invariant 8).
        let gone = header.base_offset < log.log_start();
        let right = epoch == header.leader_epoch && epoch_end >= header.end_offset();
        assert!(
            gone || right,
            "{id:?}: the epoch of {:?}",
            header.base_offset
        );
    }
    Ok(())
}

enum Chunk {
    Bytes(Bytes),
    Nothing,
    BelowStart,
}

async fn read_once(log: &Log, offset: Offset, end: Offset) -> Result<Chunk, StorageError> {
    let read = match log.read(offset, end, READ_BYTES, true) {
        Ok(Read::Lookup) => log.read_slow(offset, end, READ_BYTES, true).await,
        read => read,
    };
    match read {
        Ok(read) => Ok(content(read).await?.map_or(Chunk::Nothing, Chunk::Bytes)),
        Err(ReadError::OffsetOutOfRange) if offset < log.log_start() => Ok(Chunk::BelowStart),
        Err(ReadError::OffsetOutOfRange) => panic!("{offset:?} is in range"),
        Err(ReadError::Storage(error)) => Err(error),
    }
}

/// The bytes that a read has found, as they are sent.
pub async fn content(read: Read) -> Result<Option<Bytes>, StorageError> {
    match read {
        Read::Memory(parts) => Ok(Some(parts.concat().into())),
        Read::File {
            file,
            position,
            len,
        } => {
            let read = file.read_at(&Reactor, position, len).await;
            let path = Path::new("a segment");
            let bytes = read.map_err(|error| StorageError::io("read", path, error))?;
            assert_eq!(bytes.len(), len, "a segment is as long as it must be");
            Ok(Some(bytes))
        }
        Read::Empty => Ok(None),
        Read::Lookup => panic!("a look-up that asks for a look-up"),
    }
}

/// Takes bytes apart, which must be whole batches.
fn split(bytes: &Bytes, batches: &mut Vec<Bytes>) {
    let mut at = 0;
    while at < bytes.len() {
        let header = BatchHeader::read(&bytes[at..]).expect("whole batches are read");
        let end = at + header.len as usize;
        assert!(end <= bytes.len(), "whole batches are read");
        batches.push(bytes.slice(at..end));
        at = end;
    }
}

/// Looks a time up and compares with the first record that is not older (invariant 17).
pub async fn check_time(
    ghost: &Rc<RefCell<Ghost>>,
    log: &Log,
    time: i64,
) -> Result<(), StorageError> {
    let (start, end) = (log.log_start(), log.log_end());
    let found = log.offset_for_timestamp(Timestamp(time), end).await?;
    let ghost = ghost.borrow();
    let known = &ghost.logs[&log.id()];
    // Retention or cleaning may have changed what is first meanwhile.
    if start != log.log_start() || known.policy.compacts() {
        return Ok(());
    }
    let records = known.batches.iter().flat_map(|batch| &batch.records);
    let mut records = records.filter(|record| record.offset >= start && record.offset < end);
    let wanted = records.find(|record| record.timestamp >= time);
    assert_eq!(
        found.map(|(timestamp, offset, _)| (timestamp.0, offset)),
        wanted.map(|record| (record.timestamp, record.offset)),
        "{:?}: the first record from {time} on",
        log.id()
    );
    Ok(())
}
