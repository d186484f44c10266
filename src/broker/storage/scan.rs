//! Reads whole segments at start-up to find out what the missing caches said. Slow, and only ever
//! needed when somebody deleted or broke them. Knows nothing of write-ahead logs.

use std::io;
use std::path::Path;

use bytes::Bytes;
use logic::ids::Offset;
use logic::log::header::{BatchHeader, CHECKSUM_START, HEADER_BYTES, NoHeader};
use reactor::blocking::FileExt;
use reactor::blocking::fs::File;

use super::LogConfig;
use super::append::segment_path;
use super::checkpoint::Checkpoint;
use super::recover::SegmentFile;

/// A log's state from its segments alone. Every byte of the files must be part of a batch whose
/// checksum is right, up to zeros at the end of the last one.
pub(super) fn rebuild(
    directory: &Path,
    files: &[SegmentFile],
    log_start: Offset,
) -> Result<Checkpoint, String> {
    let mut checkpoint = Checkpoint {
        segment: log_start,
        log_end: log_start,
        ..Checkpoint::default()
    };
    for file in files {
        let mut segment = logic::log::segment::Segment::new(file.base, file.changed_ms);
        let path = segment_path(directory, file.base, "log");
        let wrong = |what: String| format!("{}: {what}", path.display());
        let source = File::open(&path).map_err(|error| wrong(error.to_string()))?;
        let mut at = 0;
        while let Some((header, batch)) = batch_at(&source, at, file.len).map_err(wrong)? {
            if header.base_offset < segment.end {
                return Err(wrong(format!("offsets fall at position {at}")));
            }
            segment.push(file.changed_ms, &header, &LogConfig::default());
            checkpoint
                .epochs
                .begin(header.leader_epoch, header.base_offset);
            if let (true, Some(raw)) = (header.producer_id >= 0, batch.first_chunk()) {
                checkpoint.after.push(*raw);
            }
            at += u64::from(header.len);
        }
        let last = files.last().is_some_and(|last| last.base == file.base);
        if !last && at < file.len {
            return Err(wrong(format!("its end is missing from position {at} on")));
        }
        checkpoint.segment = segment.base;
        checkpoint.position = segment.size;
        checkpoint.log_end = segment.end;
        checkpoint.created_ms = segment.created_ms;
        checkpoint.first_timestamp = segment.first_timestamp;
        checkpoint.max_timestamp = segment.max_timestamp;
    }
    Ok(checkpoint)
}

/// The batch at a position, checked; `None` at the file's end or where only zeros follow.
fn batch_at(source: &File, at: u64, len: u64) -> Result<Option<(BatchHeader, Vec<u8>)>, String> {
    if at == len {
        return Ok(None);
    }
    let wrong = |what: &str| format!("{what} at position {at}");
    let mut head = [0; HEADER_BYTES];
    let rest = usize::try_from(len - at).unwrap_or(usize::MAX);
    let io = |error: io::Error| error.to_string();
    source
        .read_exact_at(&mut head[..HEADER_BYTES.min(rest)], at)
        .map_err(io)?;
    let header = match BatchHeader::read(&head) {
        Ok(header) => header,
        Err(NoHeader::Zeros) => return Ok(None),
        Err(_) => return Err(wrong("no batch")),
    };
    if header.len as usize > rest {
        return Err(wrong("a batch is cut off"));
    }
    let mut batch = vec![0; header.len as usize];
    source.read_exact_at(&mut batch, at).map_err(io)?;
    if crc32c::crc32c(&batch[CHECKSUM_START..]) != header.checksum {
        return Err(wrong("a batch has a wrong checksum"));
    }
    Ok(Some((header, batch)))
}

/// Bytes of a file; empty for an empty range, whether or not there is a file.
pub(super) fn read_range(path: &Path, from: u32, to: u32) -> io::Result<Bytes> {
    if from == to {
        return Ok(Bytes::new());
    }
    let mut bytes = vec![0; (to - from) as usize];
    File::open(path)?.read_exact_at(&mut bytes, u64::from(from))?;
    Ok(Bytes::from(bytes))
}
