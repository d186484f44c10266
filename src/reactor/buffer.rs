//! Memory that direct I/O accepts and other cores may read. Knows nothing of files.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::Bytes;

/// What direct I/O asks of addresses, lengths and positions, in bytes.
pub const ALIGNMENT: usize = 4096;

/// A zeroed allocation at a multiple of [`ALIGNMENT`].
struct Memory {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: the memory is owned, and every access goes through the rules of AlignedBuf and AppendBuf.
unsafe impl Send for Memory {}
// SAFETY: shared references never write; see AppendBuf for who may write where.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "an empty buffer cannot be aligned");
        let layout = Self::layout(capacity);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        Self { start, capacity }
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, ALIGNMENT)
            .expect("a buffer's size fits the address space")
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout, freed once.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
    }
}

/// A zeroed buffer with one owner.
pub struct AlignedBuf {
    memory: Memory,
}

impl AlignedBuf {
    /// `len` zero bytes.
    pub fn new(len: usize) -> Self {
        Self {
            memory: Memory::new(len),
        }
    }

    /// Makes it immutable and shareable; the address stays.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: initialised for its whole capacity, and borrowed from its only owner.
        unsafe { std::slice::from_raw_parts(self.memory.start.as_ptr(), self.memory.capacity) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed mutably from its only owner.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start.as_ptr(), self.memory.capacity) }
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// A buffer that grows at its end while what was written before is shared and read, on any core.
///
/// Sound because the one writer (`&mut self`) only touches bytes at or beyond `len`, and a view only
/// covers bytes below the `len` of the moment it was made, which are never written again.
pub struct AppendBuf {
    memory: Arc<Memory>,
    len: usize,
}

/// Bytes of an [`AppendBuf`] that will not change.
struct View {
    memory: Arc<Memory>,
    range: Range<usize>,
}

impl AppendBuf {
    /// An empty buffer with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            memory: Arc::new(Memory::new(capacity)),
            len: 0,
        }
    }

    /// Bytes written.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What was written.
    pub fn written(&self) -> &[u8] {
        // SAFETY: initialised, and not written again: the writer only touches bytes beyond.
        unsafe { std::slice::from_raw_parts(self.memory.start.as_ptr(), self.len) }
    }

    /// Bytes that fit in all.
    pub fn capacity(&self) -> usize {
        self.memory.capacity
    }

    /// Bytes that still fit.
    pub fn remaining(&self) -> usize {
        self.memory.capacity - self.len
    }

    /// Appends `bytes`, which must fit.
    pub fn append(&mut self, bytes: &[u8]) {
        self.append_with(bytes.len(), |room| room.copy_from_slice(bytes));
    }

    /// Appends `len` bytes, which must fit, written by `fill` over zeros.
    pub fn append_with(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) {
        assert!(len <= self.remaining(), "an append past a buffer's end");
        // SAFETY: in bounds by the assertion; no view covers bytes at or beyond `self.len`, and
        // `&mut self` makes this the only writer.
        let room = unsafe {
            std::slice::from_raw_parts_mut(self.memory.start.as_ptr().add(self.len), len)
        };
        fill(room);
        self.len += len;
    }

    /// A view of written bytes, which keeps the memory alive.
    pub fn slice(&self, range: Range<usize>) -> Bytes {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "a view past what was written"
        );
        Bytes::from_owner(View {
            memory: self.memory.clone(),
            range,
        })
    }
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: in bounds and initialised since below the writer's `len` when made; the writer
        // never touches these bytes again.
        unsafe {
            let start = self.memory.start.as_ptr().add(self.range.start);
            std::slice::from_raw_parts(start, self.range.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_keep_their_bytes_while_the_writer_goes_on_and_after_it_is_gone() {
        let mut buf = AppendBuf::with_capacity(8192);
        buf.append(&[1; 4096]);
        let first = buf.slice(0..4096);
        assert_eq!(first.as_ptr() as usize % ALIGNMENT, 0);
        let reader = std::thread::spawn({
            let first = first.clone();
            move || first.iter().all(|byte| *byte == 1)
        });
        buf.append(&[2; 4096]);
        let second = buf.slice(4096..8192);
        assert_eq!(second.as_ptr() as usize % ALIGNMENT, 0);
        drop(buf);
        assert!(reader.join().expect("the reader runs"));
        assert!(first.iter().all(|byte| *byte == 1) && second.iter().all(|byte| *byte == 2));
    }

    #[test]
    #[should_panic(expected = "past a buffer's end")]
    fn an_append_that_does_not_fit_is_refused() {
        AppendBuf::with_capacity(4096).append(&[0; 4097]);
    }
}
