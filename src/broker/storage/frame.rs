//! The write-ahead log's frames: a commit is a run of frames that begins at a multiple of 4 KiB and
//! is padded to one. Knows neither files nor what a payload means.

use logic::ids::{LeaderEpoch, Offset, PartitionId, TopicId};
use std::ops::Range;

/// What a commit is padded to, in bytes: an acknowledged block is never written again.
pub const BLOCK: usize = 4096;
/// Bytes of a frame's header.
pub const HEAD_BYTES: usize = 112;
const MAGIC: u32 = 0x4657_4c43;
/// Frames begin at multiples of this.
const FRAME_ALIGN: usize = 8;

/// The secret and unique name of one write-ahead log. It is part of every checksum, so that neither a
/// record's content nor another log's leftovers can pass for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalId(pub [u8; 16]);

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole record batches as they are in the segment.
    Data,
    /// A partition's state; earlier frames of the partition no longer count.
    Checkpoint,
    /// Nothing: the commit exists for its header's sake.
    Note,
}

/// Where a commit stands in its log; the same in each of its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitHead {
    /// The extent's generation, which grows with each reuse.
    pub generation: u64,
    /// The commit's number; numbers have no holes.
    pub sequence: u64,
    /// The last commit known to be durable when this one was written.
    pub durable: u64,
    /// The first commit that recovery still needs.
    pub needed: u64,
}

/// One frame's own header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// What it carries.
    pub kind: Kind,
    /// Whose it is.
    pub partition: PartitionId,
    /// The base offset of the segment that holds the payload.
    pub segment: Offset,
    /// The payload's position in that segment.
    pub position: u32,
    /// The first record's offset.
    pub base_offset: Offset,
    /// One past the last record's offset.
    pub end_offset: Offset,
    /// The epoch that wrote it.
    pub leader_epoch: LeaderEpoch,
    /// The payload's length in bytes.
    pub len: u32,
}

/// A frame found in a commit.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its header.
    pub head: FrameHead,
    /// Where its payload lies, from the commit's start.
    pub payload: Range<usize>,
}

/// A whole commit whose checksums are right.
#[derive(Debug)]
pub struct Commit {
    /// Where it stands.
    pub head: CommitHead,
    /// Its frames in order; at least one.
    pub frames: Vec<Frame>,
    /// Its length in bytes, padding included.
    pub len: usize,
}

/// Bytes at a block's start that are no valid commit.
#[derive(Debug, Default)]
pub struct Broken {
    /// The commit's number, if a frame header says so.
    pub sequence: Option<u64>,
    /// The partitions whose frames were named by valid headers.
    pub partitions: Vec<PartitionId>,
    /// Every header of the commit was valid: only payloads are wrong and `partitions` is complete.
    pub complete: bool,
}

/// Bytes that a frame with a payload of `len` bytes takes.
pub fn frame_bytes(len: usize) -> usize {
    (HEAD_BYTES + len).next_multiple_of(FRAME_ALIGN)
}

/// Writes one frame at `at` into a zeroed commit buffer; returns where the next begins.
pub fn write(
    out: &mut [u8],
    at: usize,
    wal: WalId,
    commit: &CommitHead,
    place: Place,
    frame: &FrameHead,
    payload: &[impl AsRef<[u8]>],
) -> usize {
    let mut end = at + HEAD_BYTES;
    let mut checksum = seed(wal);
    for part in payload {
        let part = part.as_ref();
        out[end..end + part.len()].copy_from_slice(part);
        checksum = crc32c::crc32c_append(checksum, part);
        end += part.len();
    }
    assert!(
        end - at - HEAD_BYTES == frame.len as usize,
        "a frame's payload is as long as it says"
    );
    let head = &mut out[at..at + HEAD_BYTES];
    head[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    head[8..12].copy_from_slice(&checksum.to_le_bytes());
    head[12] = match frame.kind {
        Kind::Data => 1,
        Kind::Checkpoint => 2,
        Kind::Note => 3,
    };
    head[13] = u8::from(place.last);
    head[16..24].copy_from_slice(&commit.generation.to_le_bytes());
    head[24..32].copy_from_slice(&commit.sequence.to_le_bytes());
    head[32..40].copy_from_slice(&commit.durable.to_le_bytes());
    head[40..48].copy_from_slice(&commit.needed.to_le_bytes());
    head[48..64].copy_from_slice(&frame.partition.topic.0);
    head[64..68].copy_from_slice(&frame.partition.index.to_le_bytes());
    head[68..72].copy_from_slice(&place.number.to_le_bytes());
    head[72..80].copy_from_slice(&frame.segment.0.to_le_bytes());
    head[80..84].copy_from_slice(&frame.position.to_le_bytes());
    head[84..88].copy_from_slice(&frame.len.to_le_bytes());
    head[88..96].copy_from_slice(&frame.base_offset.0.to_le_bytes());
    head[96..104].copy_from_slice(&frame.end_offset.0.to_le_bytes());
    head[104..108].copy_from_slice(&frame.leader_epoch.0.to_le_bytes());
    let checksum = crc32c::crc32c_append(seed(wal), &head[8..]);
    head[4..8].copy_from_slice(&checksum.to_le_bytes());
    end.next_multiple_of(FRAME_ALIGN)
}

/// A frame's place among its commit's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// From 0.
    pub number: u32,
    /// No frame of the commit follows.
    pub last: bool,
}

fn seed(wal: WalId) -> u32 {
    crc32c::crc32c(&wal.0)
}

/// Reads the commit at the start of `bytes`. `Ok(None)` when no frame of this log is there at all.
pub fn read(bytes: &[u8], wal: WalId) -> Result<Option<Commit>, Broken> {
    let Some((commit, place, first, checksum)) = read_head(bytes, wal) else {
        return Ok(None);
    };
    let mut broken = Broken {
        sequence: Some(commit.sequence),
        ..Broken::default()
    };
    let mut frames = Vec::new();
    let mut next = Some((commit, place, first, checksum));
    let mut at = 0;
    let mut sound = true;
    loop {
        let Some((head, place, frame, checksum)) = next else {
            return Err(broken);
        };
        if head != commit || place.number as usize != frames.len() {
            return Err(broken);
        }
        if frame.kind != Kind::Note {
            broken.partitions.push(frame.partition);
        }
        let payload = at + HEAD_BYTES..at + HEAD_BYTES + frame.len as usize;
        let Some(content) = bytes.get(payload.clone()) else {
            return Err(broken);
        };
        sound &= crc32c::crc32c_append(seed(wal), content) == checksum;
        at = payload.end.next_multiple_of(FRAME_ALIGN);
        frames.push(Frame {
            head: frame,
            payload,
        });
        if place.last {
            break;
        }
        next = bytes.get(at..).and_then(|rest| read_head(rest, wal));
    }
    if !sound {
        broken.complete = true;
        return Err(broken);
    }
    Ok(Some(Commit {
        head: commit,
        frames,
        len: at.next_multiple_of(BLOCK),
    }))
}

/// The commit that begins here, going by its first frame header alone.
pub fn peek(bytes: &[u8], wal: WalId) -> Option<CommitHead> {
    read_head(bytes, wal).map(|(commit, ..)| commit)
}

/// A frame header whose checksum is right, with the payload's checksum.
fn read_head(bytes: &[u8], wal: WalId) -> Option<(CommitHead, Place, FrameHead, u32)> {
    let head = bytes.first_chunk::<HEAD_BYTES>()?;
    if u32_at(head, 0) != MAGIC || crc32c::crc32c_append(seed(wal), &head[8..]) != u32_at(head, 4) {
        return None;
    }
    let kind = match head[12] {
        1 => Kind::Data,
        2 => Kind::Checkpoint,
        3 => Kind::Note,
        _ => return None,
    };
    let mut topic = [0; 16];
    topic.copy_from_slice(&head[48..64]);
    let commit = CommitHead {
        generation: u64_at(head, 16),
        sequence: u64_at(head, 24),
        durable: u64_at(head, 32),
        needed: u64_at(head, 40),
    };
    let frame = FrameHead {
        kind,
        partition: PartitionId {
            topic: TopicId(topic),
            index: u32_at(head, 64).cast_signed(),
        },
        segment: Offset(u64_at(head, 72).cast_signed()),
        position: u32_at(head, 80),
        base_offset: Offset(u64_at(head, 88).cast_signed()),
        end_offset: Offset(u64_at(head, 96).cast_signed()),
        leader_epoch: LeaderEpoch(u32_at(head, 104).cast_signed()),
        len: u32_at(head, 84),
    };
    let place = Place {
        number: u32_at(head, 68),
        last: head[13] == 1,
    };
    Some((commit, place, frame, u32_at(head, 8)))
}

fn u32_at(head: &[u8; HEAD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

fn u64_at(head: &[u8; HEAD_BYTES], at: usize) -> u64 {
    u64::from(u32_at(head, at)) | u64::from(u32_at(head, at + 4)) << 32
}
