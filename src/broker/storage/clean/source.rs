//! Reads a segment batch by batch for cleaning, each checked before it is looked into: what is copied
//! would otherwise hide that it is damaged. Knows nothing of records.

use bytes::Bytes;
use logic::ids::Offset;
use logic::log::header::{BatchHeader, CHECKSUM_START, NoHeader};
use logic::log::order::Order;

use super::super::StorageError;
use super::super::append::Log;
use super::super::serve;
use super::{Batch, Budget};

/// What is read at once; a larger batch is read whole.
const READ_BYTES: u32 = 1 << 20;

/// One segment being read.
pub(super) struct Source<'a> {
    log: &'a Log,
    base: Offset,
    /// The position of the window's first byte.
    at: u32,
    window: Bytes,
    order: Order,
}

impl<'a> Source<'a> {
    pub fn new(log: &'a Log, base: Offset) -> Self {
        Self {
            log,
            base,
            at: 0,
            window: Bytes::new(),
            order: serve::order(&log.state, base),
        }
    }

    /// The next batch; `None` at the segment's end.
    pub async fn next(&mut self, budget: &Budget) -> Result<Option<Batch>, StorageError> {
        // A cleaning that is in the middle of a segment stops with its storage.
        self.log.shared.check()?;
        loop {
            let wanted = match BatchHeader::read(&self.window) {
                Ok(header) if header.len as usize <= self.window.len() => {
                    return self.take(header).map(Some);
                }
                Ok(header) => header.len.max(READ_BYTES),
                Err(NoHeader::Short) => READ_BYTES,
                Err(reason) => return Err(self.damaged(&format!("no batch: {reason:?}"))),
            };
            let size = self
                .log
                .state
                .log
                .borrow()
                .segment(self.base)
                .map(|at| at.size);
            if self.at >= size.ok_or(StorageError::Closed)? {
                return Ok(None);
            }
            let more = self.log.fetch(self.base, self.at, wanted).await?;
            if more.len() <= self.window.len() {
                return Err(self.damaged("a batch is cut off"));
            }
            budget.spend(more.len() - self.window.len()).await;
            self.window = more;
        }
    }

    fn take(&mut self, header: BatchHeader) -> Result<Batch, StorageError> {
        let batch = self.window.split_to(header.len as usize);
        if crc32c::crc32c(&batch[CHECKSUM_START..]) != header.checksum {
            return Err(self.damaged("a batch has a wrong checksum"));
        }
        let followed = serve::follow(&self.log.state, &mut self.order, &header);
        followed.map_err(|what| self.damaged(&what))?;
        self.at = self.at.saturating_add(header.len);
        Ok((header, batch))
    }

    fn damaged(&self, what: &str) -> StorageError {
        StorageError::Damaged {
            path: self.log.state.segment_path(self.base, "log"),
            what: format!("{what} at position {}", self.at),
        }
    }
}
