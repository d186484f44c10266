//! A partition's newest bytes in memory: buffers that line up with the segment's blocks, so that they
//! are sent to readers and written to the segment without another copy. Knows neither offsets nor
//! files.

use std::collections::VecDeque;

use bytes::Bytes;
use logic::ids::Offset;
use logic::log::header::{BatchHeader, HEADER_BYTES};
use reactor::buffer::AppendBuf;

use super::frame::BLOCK;

/// The first buffer of a quiet partition, in bytes.
const CHUNK_BYTES_MIN: usize = 8 << 10;
/// The buffers of a busy one.
const CHUNK_BYTES_MAX: usize = 1 << 20;

struct Chunk {
    /// The base offset of its segment.
    segment: Offset,
    /// Its place in the segment: a multiple of 4 KiB.
    position: u32,
    buf: AppendBuf,
}

impl Chunk {
    fn end(&self) -> u32 {
        self.position + self.buf.len() as u32
    }
}

/// The buffers, oldest first. Within a segment they follow each other without a hole; only the last
/// is written to.
#[derive(Default)]
pub struct Tail {
    chunks: VecDeque<Chunk>,
    /// Bytes of all buffers, used or not.
    capacity: usize,
}

impl Tail {
    /// Memory held.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The first position of `segment` that is in memory, if any of it is.
    pub fn start_of(&self, segment: Offset) -> Option<u32> {
        self.chunks
            .iter()
            .find(|chunk| chunk.segment == segment)
            .map(|chunk| chunk.position)
    }

    /// The segment and end of the oldest buffer, unless it is still written to.
    pub fn oldest(&self) -> Option<(Offset, u32)> {
        let chunk = self.chunks.front()?;
        (self.chunks.len() > 1).then(|| (chunk.segment, chunk.end()))
    }

    /// Lets go of the oldest buffer.
    pub fn drop_oldest(&mut self) {
        if let Some(chunk) = self.chunks.pop_front() {
            self.capacity -= chunk.buf.capacity();
        }
    }

    /// Lets go of everything that belongs to segments below `segment`.
    pub fn drop_below(&mut self, segment: Offset) {
        while self
            .chunks
            .front()
            .is_some_and(|chunk| chunk.segment < segment)
        {
            self.drop_oldest();
        }
    }

    /// How many buffers there are.
    pub fn buffers(&self) -> usize {
        self.chunks.len()
    }

    /// Appends bytes at `position` of `segment`, which follows what was appended before or begins a
    /// segment or a block.
    pub fn append(&mut self, segment: Offset, position: u32, mut bytes: &[u8]) {
        let follows = self
            .chunks
            .back()
            .is_some_and(|chunk| chunk.segment == segment);
        if follows {
            let end = self.chunks.back().map_or(0, Chunk::end);
            assert!(end == position, "a hole in a segment's buffers");
        } else {
            assert!(
                (position as usize).is_multiple_of(BLOCK),
                "buffers line up with blocks"
            );
            self.add_chunk(segment, position, bytes.len());
        }
        while !bytes.is_empty() {
            if self
                .chunks
                .back()
                .is_none_or(|chunk| chunk.buf.remaining() == 0)
            {
                let end = self.chunks.back().map_or(position, Chunk::end);
                self.add_chunk(segment, end, bytes.len());
            }
            if let Some(chunk) = self.chunks.back_mut() {
                let (now, later) = bytes.split_at(bytes.len().min(chunk.buf.remaining()));
                chunk.buf.append(now);
                bytes = later;
            }
        }
    }

    fn add_chunk(&mut self, segment: Offset, position: u32, at_least: usize) {
        let last = self
            .chunks
            .back()
            .map_or(CHUNK_BYTES_MIN / 2, |chunk| chunk.buf.capacity());
        let bytes = at_least.max(last * 2).next_multiple_of(BLOCK);
        let buf = AppendBuf::with_capacity(bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX));
        self.capacity += buf.capacity();
        self.chunks.push_back(Chunk {
            segment,
            position,
            buf,
        });
    }

    /// Views of `from..to` of a segment, all of which must be in memory.
    pub fn slices(&self, segment: Offset, from: u32, to: u32) -> Vec<Bytes> {
        let mut slices = Vec::new();
        let mut at = from;
        for chunk in self.chunks.iter().filter(|chunk| chunk.segment == segment) {
            if at < to && chunk.position <= at && at < chunk.end() {
                let end = to.min(chunk.end());
                let start = (at - chunk.position) as usize;
                slices.push(chunk.buf.slice(start..(end - chunk.position) as usize));
                at = end;
            }
        }
        assert!(at >= to, "bytes asked for that are not in memory");
        slices
    }

    /// The header of the batch at `position`; `None` when no batch begins there or it is not in memory.
    pub fn header(&self, segment: Offset, position: u32) -> Option<BatchHeader> {
        let mut head = [0; HEADER_BYTES];
        let mut filled = 0;
        for chunk in self.chunks.iter().filter(|chunk| chunk.segment == segment) {
            let at = position + filled as u32;
            if filled < HEADER_BYTES && chunk.position <= at && at < chunk.end() {
                let there = &chunk.buf.written()[(at - chunk.position) as usize..];
                let len = there.len().min(HEADER_BYTES - filled);
                head[filled..filled + len].copy_from_slice(&there[..len]);
                filled += len;
            }
        }
        BatchHeader::read(&head[..filled]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_across_buffers_and_segments() {
        let mut tail = Tail::default();
        let mut all = Vec::new();
        for at in 0..100_u32 {
            let piece = vec![at as u8; 1_000];
            tail.append(Offset(0), at * 1_000, &piece);
            all.extend_from_slice(&piece);
        }
        tail.append(Offset(100), 0, &[7; 10]);
        for (from, to) in [(0, 100_000), (8_191, 8_193), (50_000, 50_001)] {
            let got: Vec<u8> = tail.slices(Offset(0), from, to).concat();
            assert_eq!(got, all[from as usize..to as usize]);
        }
        assert_eq!(tail.slices(Offset(100), 0, 10).concat(), [7; 10]);
        let before = tail.capacity();
        assert_eq!(tail.oldest(), Some((Offset(0), 8_192)));
        tail.drop_oldest();
        assert_eq!(tail.start_of(Offset(0)), Some(8_192));
        assert!(tail.capacity() < before);
        tail.drop_below(Offset(100));
        assert_eq!(tail.start_of(Offset(0)), None);
        assert_eq!(tail.oldest(), None, "the buffer written to stays");
    }
}
