//! Walks a segment file batch by batch and checks each: header, checksum, order, records. Knows
//! write-ahead logs only as bytes that may stand in for torn ones.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;
use logic::ids::Offset;
use logic::log::header::{BatchHeader, CHECKSUM_START, HEADER_BYTES, NoHeader};
use wire::compression::Unfolding;
use wire::records::Records;

use super::coverage::{Coverage, SegmentId};
use super::row::{Row, Rows};

/// Bytes read at a time where only zeros should be.
const ZEROS_STEP: usize = 64 << 10;

/// What a segment file was found to hold.
#[derive(Debug, Default)]
pub struct Walked {
    /// The last offset and the largest timestamp of each sound batch, by its position.
    pub batches: BTreeMap<u64, (i64, i64)>,
    /// Where the sound batches end.
    pub sound_end: u64,
    /// One past the last record.
    pub end_offset: i64,
    records: u64,
    problems: Vec<Problem>,
    /// Offsets that no batch has, between batches.
    gaps: Vec<(u64, Range<i64>)>,
    /// The batch before is damaged: that its offsets are missing goes without saying.
    after_damage: bool,
}

/// Bytes that are not what they should be.
#[derive(Debug)]
struct Problem {
    bytes: Range<u64>,
    what: String,
}

/// What stands at a position.
enum Found {
    /// A batch: its header, its bytes, and what is wrong with it, if anything.
    Batch(BatchHeader, Bytes, Option<String>),
    /// Nothing further can be read from here to the end of the range.
    Unreadable(Range<u64>, String),
    End,
}

/// Walks a file; each batch goes to `seen` with whether it is sound.
///
/// # Errors
/// Those of the file, and of `seen`.
pub fn walk(
    path: &Path,
    base: Offset,
    mut seen: impl FnMut(u64, &BatchHeader, &Bytes, bool) -> io::Result<()>,
) -> io::Result<(Walked, u64)> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut walked = Walked {
        end_offset: base.0,
        ..Walked::default()
    };
    let mut at = 0;
    loop {
        match batch_at(&file, at, len)? {
            Found::End => break,
            Found::Unreadable(bytes, what) => {
                walked.problems.push(Problem { bytes, what });
                break;
            }
            Found::Batch(header, batch, wrong) => {
                let end = at + u64::from(header.len);
                let wrong = wrong.or_else(|| walked.misplaced(&header));
                seen(at, &header, &batch, wrong.is_none())?;
                match wrong {
                    None => walked.accept(at, &header),
                    Some(what) => {
                        let bytes = at..end;
                        walked.problems.push(Problem { bytes, what });
                        walked.after_damage = true;
                    }
                }
                at = end;
            }
        }
    }
    Ok((walked, len))
}

impl Walked {
    fn misplaced(&self, header: &BatchHeader) -> Option<String> {
        (header.base_offset.0 < self.end_offset).then(|| {
            let base = header.base_offset.0;
            format!("offset {base} follows offset {}", self.end_offset - 1)
        })
    }

    fn accept(&mut self, at: u64, header: &BatchHeader) {
        let damaged = std::mem::take(&mut self.after_damage);
        if header.base_offset.0 > self.end_offset && !damaged {
            let missing = self.end_offset..header.base_offset.0;
            self.gaps.push((at, missing));
        }
        let last = (header.last_offset().0, header.max_timestamp.0);
        self.batches.insert(at, last);
        self.sound_end = at + u64::from(header.len);
        self.end_offset = header.end_offset().0;
        self.records += u64::from(header.record_count.max(0).unsigned_abs());
    }
}

/// Dumps a segment file.
///
/// # Errors
/// Those of the file, and of standard output.
pub fn dump(
    path: &Path,
    base: Offset,
    whose: Option<SegmentId>,
    coverage: &Coverage,
    rows: &mut Rows,
) -> io::Result<Walked> {
    let (walked, len) = walk(path, base, |at, header, batch, sound| {
        rows.push(path, &Row::batch(at, header, sound))?;
        match rows.with_records() && sound {
            true => push_records(path, header, batch, rows),
            false => Ok(()),
        }
    })?;
    for (at, missing) in &walked.gaps {
        let (first, last) = (missing.start, missing.end - 1);
        let what = format!("no records with offsets {first}..={last}: compacted away, or lost");
        rows.note(path, Some(*at), what)?;
    }
    for problem in &walked.problems {
        let at = Some(problem.bytes.start);
        let held = whose.is_some_and(|whose| coverage.holds(whose, &problem.bytes));
        match held {
            true => {
                let what = format!("{}; whole in the write-ahead log", problem.what);
                rows.note(path, at, what)?;
            }
            false => rows.fault(path, at, problem.what.clone())?,
        }
    }
    report_unwritten(path, whose, coverage, &walked, rows)?;
    let segment = Row::Segment {
        bytes: len,
        sound_bytes: walked.sound_end,
        batches: walked.batches.len() as u64,
        records: walked.records,
        base_offset: base.0,
        end_offset: walked.end_offset,
    };
    rows.push(path, &segment)?;
    Ok(walked)
}

/// What the write-ahead log holds beyond the file's end, and whether bytes between are in neither.
fn report_unwritten(
    path: &Path,
    whose: Option<SegmentId>,
    coverage: &Coverage,
    walked: &Walked,
    rows: &mut Rows,
) -> io::Result<()> {
    let Some((whose, end)) = whose.and_then(|whose| Some((whose, coverage.end(whose)?))) else {
        return Ok(());
    };
    let beyond = walked.sound_end..end;
    if beyond.is_empty() || !walked.problems.is_empty() {
        return Ok(());
    }
    let at = Some(beyond.start);
    match coverage.holds(whose, &beyond) {
        true => {
            let bytes = beyond.end - beyond.start;
            let what = format!("{bytes} more bytes are in the write-ahead log only");
            rows.note(path, at, what)
        }
        false => rows.fault(
            path,
            at,
            format!("bytes between here and {end} are neither here nor in the write-ahead log"),
        ),
    }
}

fn push_records(
    path: &Path,
    header: &BatchHeader,
    batch: &Bytes,
    rows: &mut Rows,
) -> io::Result<()> {
    // Checked before: an error here would have made the batch unsound.
    let records = Records::open(batch, &Unfolding::default());
    for record in records.into_iter().flatten().flatten() {
        let delta = i64::from(record.offset_delta);
        let offset = header.base_offset.0.saturating_add(delta);
        rows.push(path, &Row::record(offset, &record))?;
    }
    Ok(())
}

fn batch_at(file: &File, at: u64, len: u64) -> io::Result<Found> {
    let rest = len - at;
    let mut head = [0; HEADER_BYTES];
    let have = usize::try_from(rest).map_or(HEADER_BYTES, |rest| rest.min(HEADER_BYTES));
    file.read_exact_at(&mut head[..have], at)?;
    let header = match BatchHeader::read(&head[..have]) {
        Ok(header) => header,
        Err(NoHeader::Zeros) => return after_zeros(file, at, len),
        Err(NoHeader::Short) => {
            return match head[..have].iter().all(|byte| *byte == 0) {
                true => Ok(Found::End),
                false => Ok(Found::Unreadable(
                    at..len,
                    format!("{have} bytes are too few for a batch"),
                )),
            };
        }
        Err(NoHeader::Invalid) => {
            let what = format!("no record batch begins here; {rest} bytes cannot be read");
            return Ok(Found::Unreadable(at..len, what));
        }
    };
    if u64::from(header.len) > rest {
        let what = format!("a batch of {} bytes is cut off after {rest}", header.len);
        return Ok(Found::Unreadable(at..at + u64::from(header.len), what));
    }
    let mut batch = vec![0; header.len as usize];
    file.read_exact_at(&mut batch, at)?;
    let batch = Bytes::from(batch);
    let wrong = fault_in(&header, &batch);
    Ok(Found::Batch(header, batch, wrong))
}

/// Zeros are the end of a preallocated file, unless something follows them.
fn after_zeros(file: &File, from: u64, len: u64) -> io::Result<Found> {
    let mut buffer = vec![0; ZEROS_STEP];
    let mut at = from;
    while at < len {
        let step = usize::try_from(len - at).map_or(ZEROS_STEP, |rest| rest.min(ZEROS_STEP));
        file.read_exact_at(&mut buffer[..step], at)?;
        if let Some(offset) = buffer[..step].iter().position(|byte| *byte != 0) {
            let data = at + offset as u64;
            let what = format!("zeros where a batch should begin, and data again at byte {data}");
            return Ok(Found::Unreadable(from..len, what));
        }
        at += step as u64;
    }
    Ok(Found::End)
}

/// What is wrong with a batch by itself.
fn fault_in(header: &BatchHeader, batch: &Bytes) -> Option<String> {
    let base = header.base_offset.0;
    let computed = crc32c::crc32c(&batch[CHECKSUM_START..]);
    if computed != header.checksum {
        return Some(format!(
            "the batch with base offset {base} has checksum {computed:08x} and says {:08x}",
            header.checksum
        ));
    }
    let wrong = |error| format!("the batch with base offset {base}: {error}");
    let records = match Records::open(batch, &Unfolding::default()) {
        Ok(records) => records,
        Err(error) => return Some(wrong(error)),
    };
    records
        .into_iter()
        .find_map(|record| record.err().map(wrong))
}
