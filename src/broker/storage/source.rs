//! Reads a segment batch by batch, each checked before anybody looks into it: what is copied from it, what an
//! index is made of, what a look-up answers. Knows nothing of records.

use std::collections::VecDeque;
use std::mem;

use bytes::Bytes;
use logic::ids::Offset;
use logic::log::header::{BatchHeader, CHECKSUM_START, NoHeader};
use logic::log::order::Order;
use reactor::Slice;

use super::StorageError;
use super::append::Log;
use super::serve;

/// One segment being read.
pub(super) struct Source<'a> {
    log: &'a Log,
    base: Offset,
    /// Where it began.
    from: u32,
    /// The position of the next batch.
    at: u32,
    /// What is read at once; a larger batch is read whole.
    window_bytes: u32,
    /// Batches that were read and checked together.
    ready: VecDeque<Batch>,
    /// What was read behind them: a part of a batch.
    rest: Bytes,
    /// What is wrong behind them.
    fault: Option<String>,
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
            ready: VecDeque::new(),
            rest: Bytes::new(),
            fault: None,
            order: serve::order(&log.state, base),
        }
    }

    /// The next batch; `None` at the segment's end.
    pub async fn next(&mut self) -> Result<Option<Batch>, StorageError> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                self.at = self.at.saturating_add(batch.header.len);
                return Ok(Some(batch));
            }
            if let Some(what) = self.fault.take() {
                return self.damaged(what).await;
            }
            if self.at >= self.size()? {
                return Ok(None);
            }
            self.fill().await?;
        }
    }

    fn size(&self) -> Result<u32, StorageError> {
        let log = self.log.state.log.borrow();
        let segment = log.segment(self.base).ok_or(StorageError::Closed)?;
        Ok(segment.size)
    }

    /// Reads on, and checks all whole batches of what it read. Batches are handed out up to what is wrong, unless
    /// offsets are missing between them: then they may be another log's, read in place of this one's.
    async fn fill(&mut self) -> Result<(), StorageError> {
        let wanted = match BatchHeader::read(&self.rest) {
            Ok(header) => header.len.max(self.window_bytes),
            Err(_) => self.window_bytes,
        };
        // What is in memory comes without waiting.
        reactor::yield_now().await;
        let had = self.rest.len();
        self.rest = self.log.fetch(self.base, self.at, wanted).await?;
        let mut read_bytes = self.rest.len().saturating_sub(had);
        let mut position = self.at;
        let mut gap = false;
        let slice = Slice::new();
        let wrong = loop {
            let end = self.order.end();
            match self.check() {
                Ok(Some(mut batch)) => {
                    gap |= batch.header.base_offset != end;
                    batch.read_bytes = mem::take(&mut read_bytes);
                    position = position.saturating_add(batch.header.len);
                    self.ready.push_back(batch);
                }
                Ok(None) if self.rest.is_empty() && !self.ready.is_empty() => return Ok(()),
                Ok(None) => {
                    let read = position.saturating_add(self.rest.len() as u32);
                    let more = self.rest.len() > had || !self.ready.is_empty();
                    if more && read < self.size()? {
                        return Ok(());
                    }
                    break "a batch is cut off".to_string();
                }
                Err(what) => break what,
            }
            slice.pass().await;
        };
        self.fault = Some(format!("{wrong} at position {position}"));
        if gap {
            self.ready.clear();
        }
        Ok(())
    }

    /// The first batch of what was read, if it is whole.
    fn check(&mut self) -> Result<Option<Batch>, String> {
        let header = match BatchHeader::read(&self.rest) {
            Ok(header) if header.len as usize <= self.rest.len() => header,
            Ok(_) | Err(NoHeader::Short) => return Ok(None),
            Err(reason) => return Err(format!("no batch: {reason:?}")),
        };
        let bytes = self.rest.split_to(header.len as usize);
        if crc32c::crc32c(&bytes[CHECKSUM_START..]) != header.checksum {
            return Err("a batch has a wrong checksum".into());
        }
        serve::follow(&self.log.state, &mut self.order, &header)?;
        Ok(Some(Batch {
            header,
            bytes,
            read_bytes: 0,
        }))
    }

    async fn damaged<T>(&self, what: String) -> Result<T, StorageError> {
        let seen = self.window_bytes.max(self.rest.len() as u32);
        // All of it: that this batch does not follow may be the fault of one before it.
        let range = self.from..self.at.saturating_add(seen);
        self.log.judge(self.base, range, Err(what)).await
    }
}
