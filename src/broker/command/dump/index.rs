//! Reads the two index files of a segment entry by entry, and checks each against the segment's
//! batches. Indexes are caches: the broker does without a wrong one, only slower.

use std::fs;
use std::io;
use std::path::Path;

use logic::ids::Offset;
use logic::log::index::{OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES};

use super::row::{Row, Rows};
use super::segment::Walked;

/// Dumps an offset index. Without the segment only its order is checked.
///
/// # Errors
/// Those of the file, and of standard output.
pub fn dump_offsets(
    path: &Path,
    base: Offset,
    segment: Option<&Walked>,
    rows: &mut Rows,
) -> io::Result<()> {
    let bytes = fs::read(path)?;
    let (entries, rest) = bytes.as_chunks::<OFFSET_ENTRY_BYTES>();
    let mut last: Option<(u32, u32)> = None;
    for (number, [a, b, c, d, e, f, g, h]) in (0..).zip(entries) {
        let relative = u32::from_be_bytes([*a, *b, *c, *d]);
        let position = u32::from_be_bytes([*e, *f, *g, *h]);
        let offset = base.0.saturating_add(i64::from(relative));
        rows.push(path, &Row::OffsetEntry { offset, position })?;
        let at = Some(number * OFFSET_ENTRY_BYTES as u64);
        if last.is_some_and(|last| relative <= last.0 || position <= last.1) {
            rows.fault(path, at, "the entry does not increase")?;
        }
        if let Some(segment) = segment {
            check_offset(path, at, (offset, position), segment, rows)?;
        }
        last = Some((relative, position));
    }
    finish(path, entries.len(), rest, rows)
}

fn check_offset(
    path: &Path,
    at: Option<u64>,
    (offset, position): (i64, u32),
    segment: &Walked,
    rows: &mut Rows,
) -> io::Result<()> {
    let position = u64::from(position);
    if position >= segment.sound_end {
        let what = format!("byte {position} is beyond the segment's last sound batch");
        return rows.note(path, at, what);
    }
    match segment.batches.get(&position) {
        None => rows.fault(
            path,
            at,
            format!("no sound batch begins at byte {position}"),
        ),
        Some((last, _)) if *last != offset => {
            let what =
                format!("the batch at byte {position} ends with offset {last}, not {offset}");
            rows.fault(path, at, what)
        }
        Some(_) => Ok(()),
    }
}

/// Dumps a time index. Without the segment only its order is checked.
///
/// # Errors
/// Those of the file, and of standard output.
pub fn dump_times(
    path: &Path,
    base: Offset,
    segment: Option<&Walked>,
    rows: &mut Rows,
) -> io::Result<()> {
    let bytes = fs::read(path)?;
    let (entries, rest) = bytes.as_chunks::<TIME_ENTRY_BYTES>();
    let mut last: Option<(i64, u32)> = None;
    for (number, [a, b, c, d, e, f, g, h, i, j, k, l]) in (0..).zip(entries) {
        let timestamp = i64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
        let relative = u32::from_be_bytes([*i, *j, *k, *l]);
        let offset = base.0.saturating_add(i64::from(relative));
        rows.push(path, &Row::TimeEntry { timestamp, offset })?;
        let at = Some(number * TIME_ENTRY_BYTES as u64);
        if last.is_some_and(|last| timestamp <= last.0 || relative < last.1) {
            rows.fault(path, at, "the entry does not increase")?;
        }
        if let Some(segment) = segment {
            check_time(path, at, (timestamp, offset), segment, rows)?;
        }
        last = Some((timestamp, relative));
    }
    finish(path, entries.len(), rest, rows)
}

/// A look-up trusts that no record before the entry's offset is newer than the entry.
fn check_time(
    path: &Path,
    at: Option<u64>,
    (timestamp, offset): (i64, i64),
    segment: &Walked,
    rows: &mut Rows,
) -> io::Result<()> {
    if offset >= segment.end_offset {
        let what = format!("offset {offset} is beyond the segment's last sound batch");
        return rows.note(path, at, what);
    }
    let before = segment
        .batches
        .values()
        .take_while(|(last, _)| *last <= offset);
    match before.map(|(_, newest)| *newest).max() {
        Some(newest) if newest > timestamp => {
            let what =
                format!("a record up to offset {offset} has time {newest}, later than {timestamp}");
            rows.fault(path, at, what)
        }
        _ => Ok(()),
    }
}

fn finish(path: &Path, entries: usize, rest: &[u8], rows: &mut Rows) -> io::Result<()> {
    if !rest.is_empty() {
        let what = format!("{} bytes behind the last whole entry", rest.len());
        rows.fault(path, None, what)?;
    }
    let entries = entries as u64;
    rows.push(path, &Row::Index { entries })
}
