//! Sparse indexes read back or rebuilt when somebody looks for an old offset or a time. Knows nothing
//! of records' content but their timestamps.

use logic::ids::Offset;
use logic::log::index::{OffsetIndex, TimeIndex};
use logic::log::segment::Segment;

use super::StorageError;
use super::append::Log;

impl Log {
    /// Makes a segment's indexes complete: from its files as far as they go, by walking the segment
    /// beyond. Indexes are caches: files that are missing or wrong only cost the walk.
    pub(super) async fn load_index(&self, base: Offset) -> Result<(), StorageError> {
        let Some(segment) = self.state.sealed_segment(base) else { return Ok(()) };
        if segment.indexed_from == 0 {
            return Ok(());
        }
        let mut built = match self.index_files(&segment).await {
            Some(built) => built,
            None => Segment::new(base, 0),
        };
        let config = *self.state.log.borrow().config();
        let until = segment.indexed_from;
        let from = built.size;
        self.find(base, from, |header| {
            let done = built.size >= until;
            if !done {
                built.push(0, header, &config);
            }
            done
        })
        .await?;
        let mut log = self.state.log.borrow_mut();
        if let Some(segment) = log.segment_mut(base).filter(|segment| segment.indexed_from > 0) {
            segment.install(built.offsets, built.times, built.max_timestamp);
        }
        Ok(())
    }

    /// What the index files say, as a segment that ends where their last entry begins. `None` when
    /// they are missing or do not fit the segment.
    async fn index_files(&self, segment: &Segment) -> Option<Segment> {
        let read = |ending| std::fs::read(self.state.segment_path(segment.base, ending)).ok();
        let offsets = OffsetIndex::decode(&read("index")?, segment.indexed_from)?;
        let times = TimeIndex::decode(&read("timeindex")?, segment.end.0 - segment.base.0)?;
        let last = *offsets.entries().last()?;
        let wanted = Offset(segment.base.0 + i64::from(last.relative));
        let (_, header, _) = self.find(segment.base, last.position, |_| true).await.ok()??;
        (header.last_offset() == wanted).then(|| Segment::resumed(segment.base, last.position, offsets, times))
    }
}
