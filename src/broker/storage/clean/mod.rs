//! Compaction of one log: notes the newest offset of each key in its dirty part, copies its segments
//! without what is superseded, and swaps them. What stays is decided by `logic::log::cleaning`; knows
//! not when or how often.

mod budget;
mod output;
pub(super) mod swap;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use logic::ids::{Instant, Offset};
use logic::log::cleaning::filter::{self, Cleaned, Pass, Rewrite};
use logic::log::cleaning::key_map::KeyMap;
use logic::log::cleaning::swap::steps;
use logic::log::cleaning::{self, Cleanable, Verdict};
use logic::log::header::BatchHeader;
use logic::log::segment::Segment;
use reactor::{Slice, compute};
use wire::records::RecordsError;

pub use budget::Budget;

use super::append::{Backing, Log};
use super::source::{Batch, Source};
use super::{StorageError, place, trim};
use output::Output;

/// What is read at once.
const READ_BYTES: u32 = 1 << 20;
/// What takes longer, about, is not done on the shard's own core: by a codec's higher levels a batch takes up to
/// a second.
const AT_ONCE_NANOS_MAX: u64 = 10_000_000;

/// What a cleaning may use.
pub struct Cleaner {
    /// Bytes of memory for the newest offsets of keys (`log.cleaner.dedupe.buffer.size`).
    pub dedupe_bytes: usize,
    /// Its share of the disk.
    pub budget: Budget,
}

/// What a cleaning has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanReport {
    /// The log is clean below this offset.
    pub clean_below: Offset,
    /// Different keys in the part that was dirty.
    pub keys: usize,
    /// Segments read, and their bytes.
    pub segments_before: usize,
    /// See above.
    pub bytes_before: u64,
    /// Segments that they became, and their bytes.
    pub segments_after: usize,
    /// See above.
    pub bytes_after: u64,
}

/// What one group of segments became.
struct Group {
    /// The base offsets of its segments.
    replaced: Vec<Offset>,
    bytes_before: u64,
}

impl Log {
    /// What could be cleaned now; `None` when that is nothing. `bound` is the lower of high watermark
    /// and last stable offset. After a failure, here or in [`Log::clean`], that is nothing for a while.
    pub async fn cleanable(
        &self,
        wall_ms: i64,
        bound: Offset,
    ) -> Result<Option<Cleanable>, StorageError> {
        let mut looked = None;
        let bound = if crate::bugs::cleans_past_stable() {
            self.log_end()
        } else {
            bound
        };
        if !self.state.cleaning_retry.get().is_due(now()) {
            return Ok(None);
        }
        loop {
            let clean_below = self.state.clean_below.get();
            let verdict = cleaning::decide(&self.state.log.borrow(), wall_ms, bound, clean_below);
            match verdict {
                Verdict::Leave => return Ok(None),
                Verdict::Clean(part) => return Ok(Some(part)),
                Verdict::Look(base) if looked == Some(base) => return Ok(None),
                Verdict::Look(base) => {
                    looked = Some(base);
                    let loaded = self.unless_disturbed(async || self.load_index(base).await);
                    let loaded = loaded.await.map_err(|error| self.cleaning_failed(error))?;
                    if loaded.is_none() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// For how many milliseconds the log is not cleaned, since that has failed.
    pub fn cleaning_pause_ms(&self) -> u64 {
        self.state.cleaning_retry.get().pause_ms(now())
    }

    fn cleaning_failed(&self, error: StorageError) -> StorageError {
        let retry = &self.state.cleaning_retry;
        retry.set(retry.get().failed(now()));
        error
    }

    /// Whether what could be cleaned should be.
    pub fn is_due(&self, part: &Cleanable) -> bool {
        part.is_due(&self.state.log.borrow().config().cleaning)
    }

    /// Cleans a part of the log, or as much of it as fits into the memory for keys. `None` when the
    /// log changed meanwhile, by deletion, and nothing came of it.
    pub async fn clean(
        &self,
        part: &Cleanable,
        wall_ms: i64,
        last_of_producer: &BTreeMap<i64, Offset>,
        cleaner: &Cleaner,
    ) -> Result<Option<CleanReport>, StorageError> {
        let cleaned = self
            .clean_part(part, wall_ms, last_of_producer, cleaner)
            .await;
        match cleaned {
            Err(StorageError::Closed) => Ok(None),
            Err(_) if self.state.deleted.get() => Ok(None),
            Ok(Some(report)) => {
                self.state.cleaning_retry.take();
                Ok(Some(report))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(self.cleaning_failed(error)),
        }
    }

    /// Reads for a cleaning: once more when something seems damaged, since the disk may have misread it.
    /// `None` when the log changed meanwhile, by deletion, so that an error may come from that.
    async fn unless_disturbed<T>(
        &self,
        read: impl AsyncFn() -> Result<T, StorageError>,
    ) -> Result<Option<T>, StorageError> {
        let before = self.state.generation.get();
        let mut doubted = false;
        loop {
            match read().await {
                Err(StorageError::Closed) => return Ok(None),
                Err(_) if self.state.deleted.get() || self.state.generation.get() != before => {
                    return Ok(None);
                }
                Err(StorageError::Damaged { .. }) if !doubted => doubted = true,
                done => return done.map(Some),
            }
        }
    }

    async fn clean_part(
        &self,
        part: &Cleanable,
        wall_ms: i64,
        last_of_producer: &BTreeMap<i64, Offset>,
        cleaner: &Cleaner,
    ) -> Result<Option<CleanReport>, StorageError> {
        self.settle().await?;
        let noted = self.unless_disturbed(async || self.note_keys(part, cleaner).await);
        let Some((newest, end)) = noted.await? else {
            return Ok(None);
        };
        let (groups, rules) = {
            let log = self.state.log.borrow();
            (cleaning::groups(&log, end), log.config().cleaning)
        };
        let pass = Pass {
            newest: &newest,
            end,
            now_ms: wall_ms,
            delete_retention_ms: if crate::bugs::forgets_tombstones() {
                0
            } else {
                rules.delete_retention_ms
            },
            folding: rules.folding,
            last_of_producer,
        };
        let mut report = CleanReport {
            clean_below: end,
            keys: newest.len(),
            ..CleanReport::default()
        };
        for replaced in groups {
            let Some(group) = self.group(replaced) else {
                return Ok(None);
            };
            let Some(bytes_after) = self.clean_group(&group, &pass, cleaner).await? else {
                return Ok(None);
            };
            report.segments_before += group.replaced.len();
            report.segments_after += 1;
            report.bytes_before += group.bytes_before;
            report.bytes_after += bytes_after;
        }
        let path = self.state.directory.join(place::CLEAN_BELOW);
        place::write_small(&self.shared.reactor, &path, &end.0.to_le_bytes())
            .await
            .map_err(|source| StorageError::io("write", &path, source))?;
        self.state.clean_below.set(end);
        Ok(Some(report))
    }

    /// Makes sure that recovery finds all but the active segment in files: what a write-ahead log
    /// says of older ones would not fit them once they are cleaned.
    async fn settle(&self) -> Result<(), StorageError> {
        self.shared.check()?;
        if matches!(*self.state.backing.borrow(), Backing::Files) {
            return Ok(());
        }
        let settled = trim::checkpoint(&self.shared, &self.state).await;
        if let Err(error @ StorageError::Io { .. }) = &settled {
            // What a failed flush has lost a later one does not bring back.
            self.shared.fail(error);
        }
        settled
    }

    /// Notes the keys of the dirty part as far as there is memory for them; says where that ends.
    async fn note_keys(
        &self,
        part: &Cleanable,
        cleaner: &Cleaner,
    ) -> Result<(KeyMap, Offset), StorageError> {
        let bases = self.bases_within(part.first_dirty, part.end);
        let slice = Slice::new();
        // The first batch is noted as a whole, though the dirty part may begin within it.
        let first = bases.first().map_or(part.first_dirty, |base| *base);
        let keys_max = (part.end.0 - first.0).unsigned_abs();
        let mut newest = KeyMap::new(cleaner.dedupe_bytes, keys_max, hash());
        for base in bases {
            let mut source = Source::new(self, base, 0, READ_BYTES);
            while let Some(Batch { header, bytes, .. }) = self.next(&mut source, cleaner).await? {
                slice.pass().await;
                if header.last_offset() < part.first_dirty {
                    continue;
                }
                let noted = filter::note_keys(&mut newest, &bytes);
                if noted.map_err(|error| self.damaged_batch(base, &header, error))? {
                    continue;
                }
                if header.base_offset <= part.first_dirty {
                    return Err(StorageError::Damaged {
                        path: self.state.segment_path(base, "log"),
                        what: "the memory for keys is too small for one batch".into(),
                    });
                }
                return Ok((newest, header.base_offset));
            }
        }
        Ok((newest, part.end))
    }

    fn bases_within(&self, from: Offset, end: Offset) -> Vec<Offset> {
        let log = self.state.log.borrow();
        let within = log.segments().filter(|at| at.end > from && at.base < end);
        within.map(|segment| segment.base).collect()
    }

    fn group(&self, replaced: Vec<Offset>) -> Option<Group> {
        let log = self.state.log.borrow();
        let sizes: Option<Vec<u64>> = replaced
            .iter()
            .map(|base| log.segment(*base).map(|segment| u64::from(segment.size)))
            .collect();
        Some(Group {
            bytes_before: sizes?.iter().sum(),
            replaced,
        })
    }

    /// Puts a copy without what is superseded in a group's place; says how many bytes are left.
    /// `None` when the group is no longer there.
    async fn clean_group(
        &self,
        group: &Group,
        pass: &Pass<'_>,
        cleaner: &Cleaner,
    ) -> Result<Option<u64>, StorageError> {
        let copy = async || self.copy(&group.replaced, pass, cleaner).await;
        let segment = match self.unless_disturbed(copy).await? {
            None => return Ok(None),
            Some(None) => return Ok(Some(group.bytes_before)),
            Some(Some(segment)) => segment,
        };
        let bytes = u64::from(segment.size);
        let steps = steps(&group.replaced);
        let (shared, state) = (&self.shared, &self.state);
        let swapped = swap::carry_out(shared, state, &group.replaced, segment, &steps).await?;
        Ok(swapped.then_some(bytes))
    }

    /// Copies segments into one without what is superseded; `None` when there is one and all of it
    /// stays.
    async fn copy(
        &self,
        replaced: &[Offset],
        pass: &Pass<'_>,
        cleaner: &Cleaner,
    ) -> Result<Option<Segment>, StorageError> {
        let mut output = Output::create(self, replaced).await?;
        let copied = match self.copy_into(&mut output, replaced, pass, cleaner).await {
            Ok(true) => output.finish().await.map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        if !matches!(copied, Ok(Some(_))) {
            // After an error, too: what it takes may be what the disk has no room for.
            output.discard().await?;
        }
        copied
    }

    /// Whether the copy is not the same as what it was made of.
    async fn copy_into(
        &self,
        output: &mut Output<'_>,
        replaced: &[Offset],
        pass: &Pass<'_>,
        cleaner: &Cleaner,
    ) -> Result<bool, StorageError> {
        let mut same = replaced.len() == 1;
        let slice = Slice::new();
        for base in replaced {
            let mut source = Source::new(self, *base, 0, READ_BYTES);
            while let Some(Batch { header, bytes, .. }) = self.next(&mut source, cleaner).await? {
                let cleaned = pass.clean(&bytes);
                match cleaned.map_err(|error| self.damaged_batch(*base, &header, error))? {
                    Cleaned::Kept => output.push(bytes, &cleaner.budget).await?,
                    Cleaned::Rewrite(rewrite) => {
                        same = false;
                        let batch = self.write_again(rewrite).await;
                        let batch =
                            batch.map_err(|error| self.damaged_batch(*base, &header, error))?;
                        output.push(batch, &cleaner.budget).await?;
                    }
                    Cleaned::Dropped => same = false,
                }
                slice.pass().await;
            }
        }
        Ok(!same)
    }

    /// Writes what is left of a batch, elsewhere if that takes long.
    async fn write_again(&self, rewrite: Rewrite) -> Result<Bytes, RecordsError> {
        if rewrite.nanos() <= AT_ONCE_NANOS_MAX {
            return rewrite.write();
        }
        compute::elsewhere(&self.shared.reactor, move || rewrite.write()).await
    }

    /// The next batch to clean, within the budget.
    async fn next(
        &self,
        source: &mut Source<'_>,
        cleaner: &Cleaner,
    ) -> Result<Option<Batch>, StorageError> {
        // A cleaning that is in the middle of a segment stops with its storage.
        self.shared.check()?;
        let batch = source.next().await?;
        let read_bytes = batch.as_ref().map_or(0, |batch| batch.read_bytes);
        if read_bytes > 0 {
            cleaner.budget.spend(read_bytes).await;
        }
        Ok(batch)
    }

    fn damaged_batch(
        &self,
        base: Offset,
        header: &BatchHeader,
        error: impl std::fmt::Display,
    ) -> StorageError {
        StorageError::Damaged {
            path: self.state.segment_path(base, "log"),
            what: format!("batch {}: {error}", header.base_offset.0),
        }
    }
}

fn now() -> Instant {
    Instant(reactor::timer::monotonic_nanos())
}

/// A hash that nobody outside can aim at: two keyed ones side by side, with keys of their own for
/// each cleaning.
fn hash() -> cleaning::key_map::Hash {
    let (first, second) = (RandomState::new(), RandomState::new());
    Box::new(move |key| [first.hash_one(key), second.hash_one(key)])
}
