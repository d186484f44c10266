//! Reads whole segments at start-up to find out what the missing caches said. Slow, and only ever
//! needed when somebody deleted or broke them. Knows nothing of write-ahead logs.

use std::io;
use std::path::Path;

use logic::ids::Offset;
use logic::log::header::{BatchHeader, CHECKSUM_START, HEADER_BYTES, NoHeader};
use logic::log::order::Order;
use reactor::blocking::FileExt;
use reactor::blocking::fs::File;

use super::LogConfig;
use super::append::segment_path;
use super::checkpoint::Checkpoint;
use super::recover::SegmentFile;
use super::state::block_floor;

/// What is read at once to see whether only zeros follow.
const ZEROS_READ_BYTES: usize = 64 << 10;

/// A log's state from its segments alone. Every byte of the files must be part of a batch whose
/// checksum is right and that follows the one before it, up to zeros at the end of the last one.
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
    let mut order = Order::within(log_start, None);
    // What lies wholly below the start was on its way out, and nothing of it has to be right.
    let below = files.partition_point(|file| file.base <= log_start);
    let files = &files[below.saturating_sub(1)..];
    for (number, file) in files.iter().enumerate() {
        let next = files.get(number + 1).map(|next| next.base);
        order = order.next_segment(file.base, next);
        let mut segment = logic::log::segment::Segment::new(file.base, file.changed_ms);
        let path = segment_path(directory, file.base, "log");
        let wrong = |what: String| format!("{}: {what}", path.display());
        let source = File::open(&path).map_err(|error| wrong(error.to_string()))?;
        let (mut at, mut tail) = (0, Vec::new());
        while let Some((header, batch)) = batch_at(&source, at, file.len).map_err(wrong)? {
            let followed = order.follow(&header);
            followed.map_err(|why| wrong(format!("{why} at position {at}")))?;
            segment.push(file.changed_ms, &header, &LogConfig::default());
            checkpoint
                .epochs
                .begin(header.leader_epoch, header.base_offset);
            if let (true, Some(raw)) = (header.producer_id >= 0, batch.first_chunk()) {
                checkpoint.after.push(*raw);
            }
            at += u64::from(header.len);
            tail.extend_from_slice(&batch);
            let partial = segment.size - block_floor(segment.size);
            tail.drain(..tail.len() - partial as usize);
        }
        if next.is_some() && at < file.len {
            return Err(wrong(format!("its end is missing from position {at} on")));
        }
        checkpoint.segment = segment.base;
        checkpoint.position = segment.size;
        checkpoint.log_end = segment.end;
        checkpoint.created_ms = segment.created_ms;
        checkpoint.appended_ms = Some(segment.appended_ms);
        checkpoint.first_timestamp = segment.first_timestamp;
        checkpoint.max_timestamp = segment.max_timestamp;
        checkpoint.tail_start = block_floor(segment.size);
        checkpoint.tail = tail.into();
    }
    Ok(checkpoint)
}

/// The batch at a position, checked; `None` at the file's end or where only zeros follow.
fn batch_at(
    source: &impl FileExt,
    at: u64,
    len: u64,
) -> Result<Option<(BatchHeader, Vec<u8>)>, String> {
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
        Err(NoHeader::Zeros) if only_zeros(source, at, len).map_err(io)? => return Ok(None),
        Err(_) => return Err(wrong("no batch")),
    };
    if header.len as usize > rest {
        return Err(wrong("a batch is cut off"));
    }
    let mut batch = vec![0; header.len as usize];
    source.read_exact_at(&mut batch, at).map_err(io)?;
    // The checksum leaves out what comes before it.
    if !batch.starts_with(&head) {
        return Err(wrong("a batch is read differently each time"));
    }
    if crc32c::crc32c(&batch[CHECKSUM_START..]) != header.checksum {
        return Err(wrong("a batch has a wrong checksum"));
    }
    Ok(Some((header, batch)))
}

/// Whether a file holds nothing but zeros from a position on.
fn only_zeros(source: &impl FileExt, from: u64, len: u64) -> io::Result<bool> {
    let mut piece = vec![0; ZEROS_READ_BYTES];
    let mut at = from;
    while at < len {
        let rest = usize::try_from(len - at).unwrap_or(usize::MAX);
        let piece = &mut piece[..ZEROS_READ_BYTES.min(rest)];
        source.read_exact_at(piece, at)?;
        if piece.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += piece.len() as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A file that is right, but for its bytes of which the first read is wrong in this one.
    struct Misread {
        content: Vec<u8>,
        wrong_at: Option<usize>,
        reads: Cell<u32>,
    }

    impl FileExt for Misread {
        fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
            let from = &self.content[at as usize..];
            let len = into.len().min(from.len());
            into[..len].copy_from_slice(&from[..len]);
            self.reads.set(self.reads.get() + 1);
            if let (Some(wrong), 1) = (self.wrong_at, self.reads.get()) {
                into[wrong] ^= 1;
            }
            Ok(len)
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            unreachable!("nothing writes")
        }
    }

    fn read(wrong_at: Option<usize>) -> Result<Option<(BatchHeader, Vec<u8>)>, String> {
        let content = crate::storage::tests::harness::batch(3, 0, b"value");
        let len = content.len() as u64;
        let reads = Cell::new(0);
        let file = Misread {
            content,
            wrong_at,
            reads,
        };
        batch_at(&file, 0, len)
    }

    #[test]
    fn a_header_misread_once_where_no_checksum_covers_it_is_not_believed() {
        assert!(read(None).is_ok_and(|found| found.is_some()));
        // The base offset and the leader epoch.
        for wrong_at in [7, 15] {
            let why = read(Some(wrong_at)).expect_err("two reads that differ");
            assert_eq!(why, "a batch is read differently each time at position 0");
        }
    }
}
