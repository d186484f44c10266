//! Recovery for a fuzzer: bytes in, nothing out, no panic. Knows nothing of any fuzzer.
//!
//! A fuzzer guesses neither checksums nor where a block begins. So bytes are taken twice: as an extent
//! as it lies on the disk, and as a recipe of frames that are written with everything right but what
//! the recipe says.

use super::*;
use logic::ids::{Instant as Moment, LeaderEpoch, TopicId};
use logic::partition::producers::Producers;

use crate::storage::checkpoint::Cursor;
use crate::storage::frame::Place;

/// The log whose extents the bytes pass for.
const WAL: WalId = WalId([0; 16]);
/// A recipe's frames at most: more say nothing new.
const FRAMES_MAX: usize = 64;
/// In a step's first byte: the frame is its commit's last.
const LAST: u8 = 0x10;
/// In a step's first byte: a bit of the commit is wrong.
const GARBLED: u8 = 0x20;

/// Recovers from `bytes` as an extent, then from the extent that they are a recipe of.
pub fn recover_any(bytes: &[u8]) {
    recover_extents(&[Bytes::copy_from_slice(bytes)]);
    let steps = Step::read_all(&Bytes::copy_from_slice(bytes));
    recover_extents(&[extent(&steps).into()]);
}

/// Recipes of sound extents, to start from.
pub fn samples(batch: &[u8], idempotent_batch: &[u8]) -> Vec<Vec<u8>> {
    let mut checkpoint = Checkpoint {
        segment: Offset(7),
        position: 4_096 + 100,
        log_end: Offset(40),
        tail_start: 4_096,
        tail: vec![1; 100].into(),
        ..Checkpoint::default()
    };
    checkpoint.epochs.begin(LeaderEpoch(2), Offset(7));
    let mut fold = Producers::new();
    fold.replay(
        Moment(0),
        &BatchSummary {
            producer_id: 9,
            epoch: 0,
            base_sequence: 0,
            record_count: 3,
            timestamp: 1,
        },
        Offset(7),
    );
    checkpoint.producers = fold.encode_snapshot(unchecked).into();
    checkpoint.after.extend(idempotent_batch.first_chunk());
    let fresh = Checkpoint::default();
    let both = [fresh, checkpoint].map(|checkpoint| {
        let (segment, position) = (checkpoint.segment, checkpoint.position);
        let mut steps = vec![Step::new(1, Kind::Checkpoint, checkpoint.encode())];
        let mut end = checkpoint.log_end;
        let mut at = position;
        for (number, batch) in (2..).zip([batch, idempotent_batch, batch]) {
            let mut batch = batch.to_vec();
            batch[..8].copy_from_slice(&end.0.to_be_bytes());
            end = BatchHeader::read(&batch).map_or(end, |header| header.end_offset());
            let mut step = Step::new(number, Kind::Data, batch);
            (step.head.segment, step.head.position) = (segment, at);
            at += step.head.len;
            steps.push(step);
        }
        steps.push(Step::new(5, Kind::Note, Vec::new()));
        steps.iter().flat_map(Step::write).collect()
    });
    both.into()
}

/// What start-up does with extents, but for the directories and files of the partitions.
fn recover_extents(extents: &[Bytes]) {
    let content = replayable(extents, WAL);
    let old = Arc::new(OldWal {
        directory: PathBuf::new(),
        users: AtomicUsize::new(0),
    });
    let mut folded = Folded::default();
    folded.add(&old, Path::new(""), content);
    for (id, part) in folded.partitions {
        let active = part.checkpoint.as_ref();
        let active = active.map(|it| (it.segment, u64::from(it.tail_start)));
        // The files that a sound log would have: the active segment and a sealed one below it.
        let below = active.is_some_and(|(base, _)| base > Offset(0));
        let files: Vec<_> = below
            .then_some((Offset(0), 4_096))
            .into_iter()
            .chain(active)
            .map(|(base, len)| SegmentFile {
                base,
                len,
                changed_ms: 0,
            })
            .collect();
        let metadata = Metadata {
            id,
            topic_name: String::new(),
            log_start: Offset(0),
        };
        if let Ok(log) = from_wal(&metadata, Path::new("/nonexistent"), part, &files) {
            check(&log);
        }
    }
}

/// What the partition's owner relies on.
fn check(log: &RecoveredLog) {
    assert!(log.log_start() <= log.log_end(), "a log ends at its start");
    let snapshot = &log.producer_snapshot;
    let producers = Producers::decode_snapshot(Moment(0), snapshot, unchecked);
    let mut producers = producers.unwrap_or_else(|_| Producers::new());
    for (summary, base_offset) in log.batches_after_snapshot() {
        producers.replay(Moment(0), &summary, base_offset);
    }
}

/// The checksum of snapshots here: see the file's head.
fn unchecked(_: &[u8]) -> u32 {
    0
}

/// One frame of a recipe.
struct Step {
    flags: u8,
    commit: CommitHead,
    head: FrameHead,
    payload: Bytes,
}

impl Step {
    /// A frame that is the whole of a commit.
    fn new(sequence: u64, kind: Kind, payload: Vec<u8>) -> Self {
        let kind_flag = match kind {
            Kind::Data => 0,
            Kind::Checkpoint => 1,
            Kind::Note => 2,
        };
        Self {
            flags: kind_flag | LAST,
            commit: CommitHead {
                generation: 1,
                sequence,
                durable: sequence - 1,
                needed: 1,
            },
            head: FrameHead {
                kind,
                partition: partition(0),
                segment: Offset(0),
                position: 0,
                base_offset: Offset(0),
                end_offset: Offset(0),
                leader_epoch: LeaderEpoch(0),
                len: u32::try_from(payload.len()).expect("samples are small"),
            },
            payload: payload.into(),
        }
    }

    fn write(&self) -> Vec<u8> {
        let index = self.head.partition.index.to_le_bytes()[0];
        let mut out = vec![self.flags, index, 0, 0];
        let commit = &self.commit;
        for field in [
            commit.generation,
            commit.sequence,
            commit.durable,
            commit.needed,
            self.head.segment.0.cast_unsigned(),
        ] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&self.head.position.to_le_bytes());
        out.extend_from_slice(&self.head.len.to_le_bytes());
        out.extend_from_slice(&self.payload);
        out
    }

    fn read_all(recipe: &Bytes) -> Vec<Self> {
        let mut cursor = Cursor::new(recipe);
        let mut left = recipe.len();
        let steps = std::iter::from_fn(|| Self::read(&mut cursor, &mut left));
        steps.take(FRAMES_MAX).collect()
    }

    fn read(cursor: &mut Cursor<'_>, left: &mut usize) -> Option<Self> {
        const HEAD_BYTES: usize = 52;
        let first = cursor.take(4)?;
        let mut number = || cursor.i64().map(i64::cast_unsigned);
        let commit = CommitHead {
            generation: number()?,
            sequence: number()?,
            durable: number()?,
            needed: number()?,
        };
        let segment = Offset(cursor.i64()?);
        let position = cursor.u32()?;
        let wanted = cursor.u32()? as usize;
        *left -= HEAD_BYTES;
        let len = wanted.min(*left);
        *left -= len;
        let payload = cursor.take(len)?;
        Some(Self {
            flags: first[0],
            commit,
            head: FrameHead {
                kind: [Kind::Data, Kind::Checkpoint, Kind::Note][usize::from(first[0] & 3) % 3],
                partition: partition(first[1] % 4),
                segment,
                position,
                base_offset: Offset(0),
                end_offset: Offset(0),
                leader_epoch: LeaderEpoch(0),
                len: u32::try_from(len).ok()?,
            },
            payload,
        })
    }
}

fn partition(index: u8) -> PartitionId {
    PartitionId {
        topic: TopicId([9; 16]),
        index: i32::from(index),
    }
}

/// The extent that a recipe describes.
fn extent(steps: &[Step]) -> Vec<u8> {
    let mut out = Vec::new();
    for commit in steps.split_inclusive(|step| step.flags & LAST != 0) {
        let sizes = commit.iter().map(|it| frame::frame_bytes(it.payload.len()));
        let start = out.len();
        out.resize(start + sizes.sum::<usize>().next_multiple_of(BLOCK), 0);
        let mut at = 0;
        for (number, step) in (0..).zip(commit) {
            let place = Place {
                number,
                last: step.flags & LAST != 0,
            };
            let (head, payload) = (&step.head, &step.payload);
            let room = &mut out[start..];
            at = frame::write(room, at, WAL, &step.commit, place, head, &[payload]);
        }
        if commit.iter().any(|step| step.flags & GARBLED != 0) {
            // In the last payload, or in the header if that is empty.
            out[start + at - 1 - at % 7] ^= 1;
        }
    }
    out
}
