//! Buffers that the kernel picks from when data arrives, so that an idle connection holds none.
//! Knows nothing of connections.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

use crate::buffer::AlignedBuf;

/// The id of the one buffer group of a ring.
pub(super) const GROUP: u16 = 0;
/// Buffers in the group: a power of two.
const COUNT: u16 = 128;
/// Bytes in each.
const SIZE: usize = 16 << 10;

/// The group: a ring of descriptors that the kernel reads, and the memory they describe.
pub(super) struct Buffers {
    descriptors: AlignedBuf,
    memory: AlignedBuf,
    tail: u16,
}

impl Buffers {
    /// Registers the group. It must live as long as the ring.
    pub(super) fn register(uring: &IoUring) -> io::Result<Self> {
        let descriptors = AlignedBuf::new(usize::from(COUNT) * size_of::<BufRingEntry>());
        let memory = AlignedBuf::new(usize::from(COUNT) * SIZE);
        let mut buffers = Self {
            descriptors,
            memory,
            tail: 0,
        };
        for buffer in 0..COUNT {
            buffers.give_back(buffer);
        }
        let address = buffers.descriptors.as_ptr() as u64;
        // SAFETY: page-aligned, COUNT descriptors long, and owned by the Ring beside the IoUring,
        // which is dropped first.
        unsafe {
            uring
                .submitter()
                .register_buf_ring_with_flags(address, COUNT, GROUP, 0)?
        };
        Ok(buffers)
    }

    /// Gives the memory to the kernel for good.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::replace(&mut self.descriptors, AlignedBuf::new(1)));
        std::mem::forget(std::mem::replace(&mut self.memory, AlignedBuf::new(1)));
    }

    /// What the kernel has put into a buffer that it selected.
    pub(super) fn filled(&self, buffer: u16, len: usize) -> &[u8] {
        assert!(
            buffer < COUNT && len <= SIZE,
            "the kernel selects from the group"
        );
        let start = usize::from(buffer) * SIZE;
        &self.memory[start..start + len]
    }

    /// Offers a buffer to the kernel again.
    pub(super) fn give_back(&mut self, buffer: u16) {
        assert!(buffer < COUNT, "a buffer of this group");
        let address = self.memory[usize::from(buffer) * SIZE..].as_ptr() as u64;
        let first: *mut BufRingEntry = self.descriptors.as_mut_ptr().cast();
        let place = usize::from(self.tail & (COUNT - 1));
        // SAFETY: `place` is inside the COUNT descriptors; the kernel does not read this one before
        // the tail below passes it.
        unsafe {
            let descriptor = &mut *first.add(place);
            descriptor.set_addr(address);
            descriptor.set_len(SIZE as u32);
            descriptor.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is a 16-bit word inside the first descriptor, as io_uring defines it, and
        // aligned; the kernel reads it concurrently, hence atomically.
        unsafe {
            let tail = BufRingEntry::tail(first).cast_mut().cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}
