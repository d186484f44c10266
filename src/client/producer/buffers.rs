//! Buffers of `batch.size` that are used again: what was just sent is still in the processor's cache, and
//! neither the allocator nor the kernel has to be asked for memory. Knows nothing of what is in them.

use bytes::{Bytes, BytesMut};

/// How many bytes of buffers are kept, beside `buffer.memory`: what is on its way at some hundred megabytes a
/// second.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Buffers of one size.
#[derive(Debug)]
pub(super) struct Buffers {
    size: usize,
    /// The one used last comes first.
    kept: Vec<BytesMut>,
}

impl Buffers {
    pub(super) fn of(size: usize) -> Self {
        Self {
            size,
            kept: Vec::new(),
        }
    }

    /// An empty buffer with room for so many bytes.
    pub(super) fn take(&mut self, bytes: usize) -> BytesMut {
        let kept = (bytes == self.size).then(|| self.kept.pop()).flatten();
        kept.unwrap_or_else(|| BytesMut::with_capacity(bytes))
    }

    /// Takes a buffer back that is no longer needed, unless somebody else still has a part of it.
    pub(super) fn give_back(&mut self, sent: Bytes) {
        if self.kept.len() * self.size < KEPT_BYTES_MAX
            && let Ok(mut buffer) = sent.try_into_mut()
        {
            buffer.clear();
            if buffer.capacity() == self.size {
                self.kept.push(buffer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_nobody_else_has_is_used_again_and_no_other() {
        let mut buffers = Buffers::of(1_000);
        let mut first = buffers.take(1_000);
        first.extend_from_slice(b"sent");
        let place = first.as_ptr();
        buffers.give_back(first.freeze());
        let again = buffers.take(1_000);
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        let sent = again.freeze();
        let elsewhere = sent.clone();
        buffers.give_back(sent);
        buffers.give_back(Bytes::from(vec![0; 10]));
        assert!(buffers.kept.is_empty());
        drop(elsewhere);
    }

    #[test]
    fn a_larger_record_gets_a_buffer_of_its_own_which_is_not_kept() {
        let mut buffers = Buffers::of(1_000);
        buffers.give_back(BytesMut::with_capacity(1_000).freeze());
        let larger = buffers.take(5_000);
        assert!(larger.capacity() >= 5_000);
        buffers.give_back(larger.freeze());
        assert_eq!(buffers.kept.len(), 1);
    }
}
