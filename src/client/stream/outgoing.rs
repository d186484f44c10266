//! Bytes to be sent, as the pieces they came in: a scatter write takes many at once. Knows nothing of
//! what they say.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// A queue of pieces.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// None of them is empty.
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl Outgoing {
    pub(crate) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.bytes += piece.len();
            self.pieces.push_back(piece);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Takes the first piece out.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.len();
        Some(piece)
    }
}

impl Buf for Outgoing {
    fn remaining(&self) -> usize {
        self.bytes
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map_or(&[], |piece| &piece[..])
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let pieces = self.pieces.iter().zip(slices.iter_mut());
        pieces
            .map(|(piece, slice)| *slice = IoSlice::new(piece))
            .count()
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.bytes, "no more is sent than there is");
        self.bytes -= count;
        while count > 0 {
            let Some(front) = self.pieces.front_mut() else {
                return;
            };
            if count < front.len() {
                front.advance(count);
                return;
            }
            count -= front.len();
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_write_leaves_the_rest_in_order() {
        let mut outgoing = Outgoing::default();
        for piece in ["abc", "", "de", "f"] {
            outgoing.push(Bytes::from_static(piece.as_bytes()));
        }
        let mut slices = [IoSlice::new(&[]); 8];
        assert_eq!(outgoing.chunks_vectored(&mut slices), 3);
        outgoing.advance(4);
        assert_eq!((outgoing.remaining(), outgoing.chunk()), (2, &b"e"[..]));
        outgoing.advance(2);
        assert!(outgoing.is_empty());
    }
}
