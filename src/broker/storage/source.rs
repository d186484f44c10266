//! Reads a segment batch by batch, each checked before anybody looks into it: what is copied from it, what an
//! index is made of, what a look-up answers. Knows nothing of records.

use bytes::Bytes;
use logic::ids::Offset;
use logic::log::header::{BatchHeader, CHECKSUM_START, NoHeader};
use logic::log::order::Order;

use super::StorageError;
use super::append::Log;
use super::serve;

/// One segment being read.
pub(super) struct Source<'a> {
    log: &'a Log,
    base: Offset,
    /// Where it began.
    from: u32,
    /// The position of the window's first byte.
    at: u32,
    /// What is read at once; a larger batch is read whole.
    window_bytes: u32,
    window: Bytes,
    order: Order,
}

/// A batch that was read.
pub(super) struct Batch {
    pub header: BatchHeader,
    pub bytes: Bytes,
    /// What had to be read from the segment to have it, beyond what was read for others.
    pub read_bytes: usize,
}

impl<'a> Source<'a> {
    /// From a batch's position in the segment on.
    pub fn new(log: &'a Log, base: Offset, position: u32, window_bytes: u32) -> Self {
        Self {
            log,
            base,
            from: position,
            at: position,
            window_bytes,
            window: Bytes::new(),
            order: serve::order(&log.state, base),
        }
    }

    /// The next batch; `None` at the segment's end.
    pub async fn next(&mut self) -> Result<Option<Batch>, StorageError> {
        let mut read_bytes = 0;
        loop {
            let wanted = match BatchHeader::read(&self.window) {
                Ok(header) if header.len as usize <= self.window.len() => {
                    return self.take(header, read_bytes).await.map(Some);
                }
                Ok(header) => header.len.max(self.window_bytes),
                Err(NoHeader::Short) => self.window_bytes,
                Err(reason) => return self.damaged(&format!("no batch: {reason:?}")).await,
            };
            let log = &self.log.state.log;
            let size = log.borrow().segment(self.base).map(|at| at.size);
            if self.at >= size.ok_or(StorageError::Closed)? {
                return Ok(None);
            }
            // What is in memory comes without waiting.
            reactor::yield_now().await;
            let more = self.log.fetch(self.base, self.at, wanted).await?;
            if more.len() <= self.window.len() {
                return self.damaged("a batch is cut off").await;
            }
            read_bytes += more.len() - self.window.len();
            self.window = more;
        }
    }

    async fn take(
        &mut self,
        header: BatchHeader,
        read_bytes: usize,
    ) -> Result<Batch, StorageError> {
        let bytes = self.window.split_to(header.len as usize);
        if crc32c::crc32c(&bytes[CHECKSUM_START..]) != header.checksum {
            return self.damaged("a batch has a wrong checksum").await;
        }
        if let Err(what) = serve::follow(&self.log.state, &mut self.order, &header) {
            return self.damaged(&what).await;
        }
        self.at = self.at.saturating_add(header.len);
        Ok(Batch {
            header,
            bytes,
            read_bytes,
        })
    }

    async fn damaged<T>(&self, what: &str) -> Result<T, StorageError> {
        let what = format!("{what} at position {}", self.at);
        let seen = self.window_bytes.max(self.window.len() as u32);
        // All of it: that this batch does not follow may be the fault of one before it.
        let range = self.from..self.at.saturating_add(seen);
        self.log.judge(self.base, range, Err(what)).await
    }
}
