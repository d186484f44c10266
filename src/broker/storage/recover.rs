//! Start-up: reads every write-ahead log of earlier starts and says what each partition's log is.
//! Blocking, on plain threads, before any reactor runs. Changes nothing on disk that a second run
//! would need, so a crash in the middle costs nothing (invariant 27). Knows nothing of shards:
//! however many wrote, each partition is found once.

pub mod fuzz;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use logic::ids::{Offset, PartitionId};
use logic::log::chain::{self, Found};
use logic::log::epochs::Epochs;
use logic::log::header::BatchHeader;
use logic::log::segment::Segment;
use logic::partition::producers::BatchSummary;
use reactor::blocking::{self, fs};

use super::checkpoint::{Checkpoint, RawHeader};
use super::frame::{self, BLOCK, Commit, CommitHead, FrameHead, Kind, WalId};
use super::place::{self, CHECKPOINT, DELETED, FUTURE, METADATA, Metadata, OLD};
use super::scan;
use super::{LogConfig, Settings, StorageError};

/// What start-up found.
pub struct Recovery {
    /// Every partition's log, in order of id.
    pub logs: Vec<RecoveredLog>,
    /// Partitions of which something acknowledged is missing or unreadable. They must not be served
    /// as if they were whole (invariant 28); their files and write-ahead logs stay.
    pub damaged: Vec<Damaged>,
    /// Bytes of write-ahead logs read.
    pub bytes: u64,
    /// Milliseconds it took.
    pub took_ms: u64,
}

/// A partition that cannot be trusted.
#[derive(Clone, Debug)]
pub struct Damaged {
    /// Whose log it is, when its metadata could be read.
    pub id: Option<PartitionId>,
    /// Its directory.
    pub directory: PathBuf,
    /// What is wrong.
    pub what: String,
}

/// One partition's log as found, to be attached on the shard that will own it.
pub struct RecoveredLog {
    pub(super) metadata: Metadata,
    pub(super) directory: PathBuf,
    pub(super) log: logic::log::Log,
    /// What the files are not known to hold, oldest first.
    pub(super) tail: Vec<Piece>,
    /// The partition's producer state when the last checkpoint was made; empty when there was none.
    pub producer_snapshot: Bytes,
    /// Headers of the idempotent batches appended since.
    pub(super) raw_after: Vec<RawHeader>,
    /// The write-ahead logs that hold it; none when its files do.
    pub(super) from: Vec<Arc<OldWal>>,
    /// Below it an earlier cleaning has left no key twice.
    pub(super) clean_below: Offset,
}

impl RecoveredLog {
    /// Whose log it is.
    pub fn id(&self) -> PartitionId {
        self.metadata.id
    }

    /// The topic's name when the log was made.
    pub fn topic_name(&self) -> &str {
        &self.metadata.topic_name
    }

    /// The first offset that may be read.
    pub fn log_start(&self) -> Offset {
        self.log.log_start()
    }

    /// One past the last record.
    pub fn log_end(&self) -> Offset {
        self.log.log_end()
    }

    /// The idempotent batches appended after the snapshot, in order and each with its base offset, to
    /// be folded into it.
    pub fn batches_after_snapshot(&self) -> Vec<(BatchSummary, Offset)> {
        let headers = self
            .raw_after
            .iter()
            .filter_map(|raw| BatchHeader::read(raw).ok());
        let summary = |header: BatchHeader| BatchSummary {
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            record_count: header.last_offset_delta.cast_unsigned() + 1,
            timestamp: header.max_timestamp.0,
        };
        headers
            .map(|header| (summary(header), header.base_offset))
            .collect()
    }

    /// Leader epochs and where they begin.
    pub fn epochs(&self) -> &Epochs {
        self.log.epochs()
    }
}

/// Bytes of a segment that are in memory first.
pub(super) struct Piece {
    pub segment: Offset,
    pub position: u32,
    pub bytes: Bytes,
}

/// A write-ahead log of an earlier start.
#[derive(Debug)]
pub(super) struct OldWal {
    directory: PathBuf,
    /// Partitions that still need it.
    users: AtomicUsize,
}

impl OldWal {
    /// One partition no longer needs it; the last one removes it, on a thread of its own.
    pub fn settle(self: Arc<Self>) {
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            blocking::detached(move || place::remove_wal(&self.directory));
        }
    }
}

/// Which start of the broker this is.
pub(super) fn read_boot(data_dir: &Path) -> io::Result<Option<u64>> {
    let body = place::read_small(&place::wal_root(data_dir).join("boot"))?;
    let number = |body: Bytes| body.first_chunk().copied().map(u64::from_le_bytes);
    Ok(body.and_then(number))
}

/// Whether a write-ahead log of an earlier start is, or may be, still there.
pub(super) fn has_older_wal(data_dir: &Path, boot: u64) -> bool {
    let Ok(entries) = fs::read_dir(place::wal_root(data_dir)) else {
        return true;
    };
    entries.into_iter().any(|entry| {
        let Ok(entry) = entry else { return true };
        let name = entry.file_name();
        let parsed = name.to_str().and_then(place::parse_wal_name);
        parsed.is_some_and(|(older, _)| older < boot)
    })
}

/// Reads what is in `data_dir`: every write-ahead log, whoever wrote it, and the directory of every
/// partition. Makes durable what it read. Does not read segments, unless caches are missing.
pub fn recover(data_dir: &Path, _settings: &Settings) -> Result<Recovery, StorageError> {
    let started = Instant::now();
    let root = place::wal_root(data_dir);
    let io = |source| StorageError::io("recover", &root, source);
    fs::create_dir_all(&root).map_err(io)?;
    fs::create_dir_all(place::logs_root(data_dir)).map_err(io)?;
    let directories = wal_directories(&root).map_err(io)?;
    next_boot(data_dir, &directories).map_err(io)?;
    let read = read_all(&directories)?;
    let bytes = read.iter().map(|wal| wal.bytes).sum();
    let mut folded = Folded::default();
    let old: Vec<Arc<OldWal>> = read
        .into_iter()
        .map(|wal| {
            let old = OldWal {
                directory: wal.directory.clone(),
                users: AtomicUsize::new(0),
            };
            let old = Arc::new(old);
            folded.add(&old, &wal.directory, wal.content);
            old
        })
        .collect();
    let mut recovery = Recovery {
        logs: Vec::new(),
        damaged: Vec::new(),
        bytes,
        took_ms: 0,
    };
    collect(data_dir, folded, &mut recovery)?;
    for wal in old {
        let unused = wal.users.load(Ordering::Acquire) == 0;
        if unused || crate::bugs::recovers_once() {
            place::remove_wal(&wal.directory);
        }
    }
    recovery.took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(recovery)
}

/// The write-ahead logs that are there, oldest first. Removes those that were given up.
fn wal_directories(root: &Path) -> io::Result<Vec<(u64, WalId, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == OLD) {
            fs::remove_dir_all(&path)?;
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some((boot, wal)) = name.and_then(place::parse_wal_name) {
            found.push((boot, wal, path));
        }
    }
    found.sort_by(|a, b| (a.0, &a.2).cmp(&(b.0, &b.2)));
    Ok(found)
}

fn next_boot(data_dir: &Path, directories: &[(u64, WalId, PathBuf)]) -> io::Result<()> {
    let newest = directories
        .iter()
        .map(|(boot, ..)| *boot)
        .max()
        .unwrap_or(0);
    let boot = read_boot(data_dir)?.unwrap_or(0).max(newest) + 1;
    place::write_small_blocking(&place::wal_root(data_dir).join("boot"), &boot.to_le_bytes())
}

/// One write-ahead log's replayable frames.
struct ReadWal {
    directory: PathBuf,
    bytes: u64,
    content: Content,
}

/// What counts in a write-ahead log.
#[derive(Default)]
struct Content {
    /// In order, each with its commit's number.
    frames: Vec<(u64, FrameHead, Bytes)>,
    /// The generation of the extent that holds the last of them.
    end: Option<u64>,
    lost: Vec<Lost>,
}

impl Content {
    /// Whether an extent is to be read once more. A commit that is misread looks like one that was never flushed,
    /// and nothing later needs to say that it was: where a log seems to end, or something to be lost, the disk is
    /// asked twice.
    fn is_in_doubt(&self, generation: Option<u64>) -> bool {
        let known = generation.zip(self.end).filter(|_| self.lost.is_empty());
        known.is_none_or(|(generation, end)| generation >= end)
    }
}

/// Commits that were durable and are not there.
struct Lost {
    /// The last of them.
    sequence: u64,
    /// Whose frames they held; `None` when that is not known.
    partitions: Option<BTreeSet<PartitionId>>,
}

fn read_all(directories: &[(u64, WalId, PathBuf)]) -> Result<Vec<ReadWal>, StorageError> {
    // One thread each: the disk has more to give than one reader takes.
    let reads = directories.iter();
    let reads = reads.map(|(_, wal, path)| move || read_wal(path, *wal));
    let mut read = Vec::new();
    for (result, (.., path)) in blocking::together(reads.collect())
        .into_iter()
        .zip(directories)
    {
        let result = result.unwrap_or_else(|_| Err(io::Error::other("a recovery thread panicked")));
        read.push(result.map_err(|source| StorageError::io("read", path, source))?);
    }
    Ok(read)
}

fn read_wal(directory: &Path, wal: WalId) -> io::Result<ReadWal> {
    let extents = needed_extents(directory, wal)?;
    let mut contents = Vec::new();
    for (_, path) in &extents {
        let content = Bytes::from(fs::read(path)?);
        // What is read may only be in a cache yet; it is about to be served as durable.
        fs::File::open(path)?.sync_data()?;
        contents.push(content);
    }
    let bytes = contents.iter().map(|content| content.len() as u64).sum();
    let mut content = replayable(&contents, wal);
    let mut again = Vec::new();
    for ((generation, path), first) in extents.iter().zip(&contents) {
        if content.is_in_doubt(*generation) {
            let second = Bytes::from(blocking::read_anew(path, u64::MAX)?);
            again.extend((second != *first).then_some(second));
        }
    }
    if !again.is_empty() {
        contents.extend(again);
        content = replayable(&contents, wal);
    }
    Ok(ReadWal {
        directory: directory.to_owned(),
        bytes,
        content,
    })
}

/// The extents that may hold a needed commit, with their generations where they say so. Left out are emptied
/// ones that wait for reuse: those whose successor begins at or below the first commit that the newest extent
/// says is needed.
fn needed_extents(directory: &Path, wal: WalId) -> io::Result<Vec<(Option<u64>, PathBuf)>> {
    let mut needed = Vec::new();
    let mut used: Vec<(CommitHead, PathBuf)> = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_none_or(|ending| ending != "extent") {
            continue;
        }
        let mut start = Vec::with_capacity(BLOCK);
        fs::File::open(&path)?
            .take(BLOCK as u64)
            .read_to_end(&mut start)?;
        match frame::peek(&start, wal) {
            Some(head) => used.push((head, path)),
            // Never used, or its first commit is torn: only all of it can tell.
            None => needed.push((None, path)),
        }
    }
    used.sort_by_key(|(head, _)| head.generation);
    let Some((_, newest)) = used.last() else {
        return Ok(needed);
    };
    let content = Bytes::from(fs::read(newest)?);
    let commits = commits_in(&content, wal, &mut BTreeMap::new());
    let first = commits
        .iter()
        .map(|(found, ..)| found.needed)
        .max()
        .unwrap_or(0);
    let successors: Vec<u64> = used.iter().skip(1).map(|(head, _)| head.sequence).collect();
    for (number, (head, path)) in used.into_iter().enumerate() {
        let successor = successors.get(number);
        if successor.is_none_or(|successor| *successor > first) {
            needed.push((Some(head.generation), path));
        } else if frame::peek(&blocking::read_anew(&path, BLOCK as u64)?, wal) != Some(head) {
            // It was misread: any of it may count.
            needed.push((None, path));
        }
    }
    Ok(needed)
}

/// The frames of a write-ahead log that count, in order, and what is missing.
fn replayable(extents: &[Bytes], wal: WalId) -> Content {
    let mut broken = BTreeMap::new();
    let commits: Vec<_> = extents
        .iter()
        .flat_map(|extent| commits_in(extent, wal, &mut broken))
        .collect();
    let chain = chain::order(&commits.iter().map(|(found, ..)| *found).collect::<Vec<_>>());
    let mut content = Content::default();
    for at in chain.replay {
        let (found, bytes, commit) = &commits[at];
        content.end = Some(found.generation);
        for frame in &commit.frames {
            let payload = bytes.slice(frame.payload.clone());
            content.frames.push((found.sequence, frame.head, payload));
        }
    }
    for range in chain.lost {
        let (first, last) = (*range.start(), *range.end());
        let known: Vec<_> = broken
            .range(range)
            .filter_map(|(_, whose)| whose.as_ref())
            .collect();
        let all_known = known.len() as u64 == (last - first).saturating_add(1);
        let partitions = all_known.then(|| known.into_iter().flatten().copied().collect());
        content.lost.push(Lost {
            sequence: last,
            partitions,
        });
    }
    content
}

/// Commits that are there but wrong, by number, with whose frames they held if that is known.
type BrokenCommits = BTreeMap<u64, Option<BTreeSet<PartitionId>>>;

/// The sound commits of an extent, in the order they lie, each with the bytes from its start on.
fn commits_in(
    extent: &Bytes,
    wal: WalId,
    broken: &mut BrokenCommits,
) -> Vec<(Found, Bytes, Commit)> {
    let mut commits = Vec::new();
    let mut at = 0;
    while at < extent.len() {
        match frame::read(&extent[at..], wal) {
            Ok(Some(commit)) => {
                let bytes = extent.slice(at..);
                at += commit.len;
                commits.push((found(&commit), bytes, commit));
            }
            Ok(None) => at += BLOCK,
            Err(wrong) => {
                if let Some(sequence) = wrong.sequence {
                    let partitions = wrong.partitions.into_iter().collect();
                    broken.insert(sequence, wrong.complete.then_some(partitions));
                }
                at += BLOCK;
            }
        }
    }
    commits
}

fn found(commit: &Commit) -> Found {
    Found {
        sequence: commit.head.sequence,
        durable: commit.head.durable,
        needed: commit.head.needed,
        generation: commit.head.generation,
    }
}

/// What the write-ahead logs say of each partition.
#[derive(Default)]
struct Folded {
    partitions: BTreeMap<PartitionId, Part>,
    /// Write-ahead logs that have lost a commit of nobody knows whom, and what is said of it.
    doubts: Vec<(Arc<OldWal>, String)>,
}

/// One partition's frames since its last checkpoint.
#[derive(Default)]
struct Part {
    checkpoint: Option<Checkpoint>,
    data: Vec<(FrameHead, Bytes)>,
    /// Where its frames lie, oldest first.
    from: Vec<Arc<OldWal>>,
    damage: Option<String>,
}

impl Folded {
    /// Adds what counts in a write-ahead log that is newer than all added before.
    fn add(&mut self, old: &Arc<OldWal>, directory: &Path, content: Content) {
        // The commit of each partition's last checkpoint here; 0 when there is none.
        let mut touched: BTreeMap<PartitionId, u64> = BTreeMap::new();
        for (sequence, head, payload) in content.frames {
            if head.kind == Kind::Note {
                continue;
            }
            let part = self.partitions.entry(head.partition).or_default();
            touched.entry(head.partition).or_insert_with(|| {
                part.from.push(old.clone());
                0
            });
            if head.kind == Kind::Data {
                part.data.push((head, payload));
                continue;
            }
            match Checkpoint::decode(&payload) {
                Some(checkpoint) => {
                    part.checkpoint = Some(checkpoint);
                    part.data.clear();
                    part.damage = None;
                    touched.insert(head.partition, sequence);
                }
                None => part.damage = Some("a checkpoint cannot be read".into()),
            }
        }
        for lost in content.lost {
            let what = format!("{} has lost commit {}", directory.display(), lost.sequence);
            let whose = lost.partitions.unwrap_or_else(|| {
                // Anybody's: also of those that are known by their files alone.
                self.doubts.push((old.clone(), what.clone()));
                self.partitions.keys().copied().collect()
            });
            for id in whose {
                // A later checkpoint holds all that an earlier commit did.
                if touched
                    .get(&id)
                    .is_some_and(|checkpoint| *checkpoint > lost.sequence)
                {
                    continue;
                }
                let part = self.partitions.entry(id).or_default();
                if touched.insert(id, 0).is_none() {
                    part.from.push(old.clone());
                }
                part.damage = Some(what.clone());
            }
        }
    }
}

/// Pairs the partitions' directories with what the write-ahead logs say.
fn collect(
    data_dir: &Path,
    mut folded: Folded,
    recovery: &mut Recovery,
) -> Result<(), StorageError> {
    let root = place::logs_root(data_dir);
    let io = |source| StorageError::io("read", &root, source);
    for entry in fs::read_dir(&root).map_err(io)? {
        let entry = entry.map_err(io)?;
        let directory = entry.path();
        if directory
            .as_os_str()
            .as_encoded_bytes()
            .ends_with(DELETED.as_bytes())
        {
            fs::remove_dir_all(&directory).map_err(io)?;
            continue;
        }
        if is_copy(&directory) || !entry.file_type().map_err(io)?.is_dir() {
            continue;
        }
        let metadata = match read_metadata(&directory) {
            Ok(Some(metadata)) => metadata,
            Ok(None) => continue,
            Err(what) => {
                let id = None;
                recovery.damaged.push(Damaged {
                    id,
                    directory,
                    what,
                });
                continue;
            }
        };
        let part = folded.partitions.remove(&metadata.id);
        let id = Some(metadata.id);
        if let (None, Some((wal, what))) = (&part, folded.doubts.first()) {
            wal.users.fetch_add(1, Ordering::AcqRel);
            recovery.damaged.push(Damaged {
                id,
                directory,
                what: what.clone(),
            });
            continue;
        }
        let from = part
            .as_ref()
            .map(|part| part.from.clone())
            .unwrap_or_default();
        for wal in &from {
            wal.users.fetch_add(1, Ordering::AcqRel);
        }
        match one(metadata, &directory, part) {
            Ok(log) => recovery.logs.push(log),
            Err(what) => recovery.damaged.push(Damaged {
                id,
                directory,
                what,
            }),
        }
    }
    recovery.logs.sort_by_key(RecoveredLog::id);
    if recovery.damaged.iter().any(|damaged| damaged.id.is_none()) {
        // One of those that have no directory is the one whose directory does not say so.
        for wal in folded.partitions.values().flat_map(|part| &part.from) {
            wal.users.fetch_add(1, Ordering::AcqRel);
        }
    }
    Ok(())
}

/// Whether it is a copy of a log: which of both counts is decided over all data directories, before or never.
fn is_copy(directory: &Path) -> bool {
    let name = directory.as_os_str().as_encoded_bytes();
    name.ends_with(FUTURE.as_bytes())
}

/// Whose log lies in a directory; `None` when it was never finished, and is gone now.
fn read_metadata(directory: &Path) -> Result<Option<Metadata>, String> {
    let path = directory.join(METADATA);
    let body = place::read_small(&path).map_err(|error| format!("{METADATA}: {error}"))?;
    let metadata = body.and_then(|body| Metadata::decode(&body));
    // A crash in the middle of making a log leaves an empty directory.
    let unfinished = || {
        // Under its name it is whole, so one that is there was finished.
        !fs::exists(&path).unwrap_or(true)
            && fs::remove_file(directory.join("partition.new")).is_ok()
                | fs::remove_dir(directory).is_ok()
    };
    if metadata.is_none() && !unfinished() {
        return Err(format!("{METADATA} is missing or torn"));
    }
    // A read may go to another place on the disk, and what lies there may be sound.
    let named = |it: &Metadata| place::log_name(&it.topic_name, it.id);
    let other = |it: &Metadata| directory.file_name() != Some(named(it).as_ref());
    if metadata.as_ref().is_some_and(other) {
        return Err(format!("{METADATA} is another log's"));
    }
    Ok(metadata)
}

fn one(metadata: Metadata, directory: &Path, part: Option<Part>) -> Result<RecoveredLog, String> {
    let swapped = super::clean::swap::recover(directory);
    swapped.map_err(|error| error.to_string())?;
    let files = segment_files(directory).map_err(|error| error.to_string())?;
    match part {
        Some(part) => from_wal(&metadata, directory, part, &files),
        None => from_files(&metadata, directory, &files),
    }
}

/// A segment file: base offset, length, and when it was last changed, wall clock in ms.
pub(super) struct SegmentFile {
    pub base: Offset,
    pub len: u64,
    pub changed_ms: i64,
}

fn segment_files(directory: &Path) -> io::Result<Vec<SegmentFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "deleted") {
            // What cannot be removed is tried again at the next start.
            drop(fs::remove_file(&path));
            continue;
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let log = path.extension().is_some_and(|ending| ending == "log");
        let base = stem
            .filter(|stem| log && stem.len() == 20)
            .and_then(|stem| stem.parse().ok());
        if let Some(base) = base {
            let metadata = fs::metadata(&path)?;
            let changed = metadata.modified()?.duration_since(std::time::UNIX_EPOCH);
            let changed_ms = changed.map_or(0, |at| i64::try_from(at.as_millis()).unwrap_or(0));
            files.push(SegmentFile {
                base: Offset(base),
                len: metadata.len(),
                changed_ms,
            });
        }
    }
    files.sort_by_key(|file| file.base);
    Ok(files)
}

/// Segments that are complete in their files, below `active`.
fn sealed(files: &[SegmentFile], active: Offset) -> Result<Vec<Segment>, String> {
    let mut segments = Vec::new();
    let below: Vec<_> = files.iter().filter(|file| file.base < active).collect();
    let ends = below.iter().skip(1).map(|next| next.base).chain([active]);
    for (file, end) in below.iter().zip(ends) {
        let size = u32::try_from(file.len).map_err(|_| "a segment is above 4 GiB".to_string())?;
        segments.push(Segment::found(file.base, end, size, file.changed_ms));
    }
    Ok(segments)
}

fn from_wal(
    metadata: &Metadata,
    directory: &Path,
    part: Part,
    files: &[SegmentFile],
) -> Result<RecoveredLog, String> {
    if let Some(what) = part.damage {
        return Err(what);
    }
    let checkpoint = part
        .checkpoint
        .ok_or("its write-ahead log begins without a checkpoint")?;
    if !checkpoint.is_coherent() {
        return Err("a checkpoint contradicts itself".into());
    }
    let base = checkpoint.segment;
    let mut segments = sealed(files, base)?;
    segments.push(checkpoint.active());
    let config = LogConfig::default();
    let mut log = logic::log::Log::recovered(
        metadata.id,
        config,
        segments,
        metadata.log_start,
        checkpoint.epochs.clone(),
    );
    let mut tail = Vec::new();
    if checkpoint.position > 0 {
        let bytes = checkpoint.tail.clone();
        tail.push(Piece {
            segment: base,
            position: checkpoint.tail_start,
            bytes,
        });
    }
    let mut after = checkpoint.after.clone();
    for (head, payload) in part.data {
        replay(&mut log, &head, &payload, &mut after)?;
        tail.push(Piece {
            segment: head.segment,
            position: head.position,
            bytes: payload,
        });
    }
    start_at(&mut log, metadata.log_start);
    let kept: BTreeSet<Offset> = log.segments().map(|segment| segment.base).collect();
    tail.retain(|piece| kept.contains(&piece.segment));
    let on_disk = files
        .iter()
        .find(|file| file.base == base)
        .map_or(0, |file| file.len);
    if kept.contains(&base) && on_disk < u64::from(checkpoint.tail_start) {
        return Err(format!(
            "segment {} is shorter than what was flushed of it",
            base.0
        ));
    }
    remove_strays(directory, files, &kept);
    Ok(RecoveredLog {
        metadata: metadata.clone(),
        directory: directory.to_owned(),
        log,
        tail,
        producer_snapshot: checkpoint.producers,
        raw_after: after,
        from: part.from,
        clean_below: clean_below(directory),
    })
}

/// Moves the log's start up. One that came with the deletion of segments may lie in what was only
/// replayed, and take the active segment along.
fn start_at(log: &mut logic::log::Log, log_start: Offset) {
    if log_start >= log.log_end() {
        log.seal_active(reactor::timer::wall_clock_ms());
    }
    log.set_log_start(log_start.min(log.log_end()));
}

/// Adds a frame's batches to the log.
fn replay(
    log: &mut logic::log::Log,
    head: &FrameHead,
    payload: &Bytes,
    after: &mut Vec<RawHeader>,
) -> Result<(), String> {
    let mut at = 0;
    while at < payload.len() {
        let rest = &payload[at..];
        let header = BatchHeader::read(rest).map_err(|_| "a frame holds no batch".to_string())?;
        let position = head
            .position
            .checked_add(at as u32)
            .ok_or("a position overflows")?;
        // When it was appended is not known: not later than now.
        let now_ms = reactor::timer::wall_clock_ms();
        let whole = header.len as usize <= rest.len();
        if !whole || !log.replay(now_ms, &header, head.segment, position) {
            return Err(format!(
                "frames leave a hole before offset {}",
                header.base_offset.0
            ));
        }
        if let (true, Some(raw)) = (header.producer_id >= 0, rest.first_chunk()) {
            after.push(*raw);
        }
        at += header.len as usize;
    }
    Ok(())
}

/// Up to where the log is compacted, as far as that is known.
fn clean_below(directory: &Path) -> Offset {
    let body = place::read_small(&directory.join(place::CLEAN_BELOW));
    // What cannot be read is cleaned again.
    let bytes = body.ok().flatten();
    let bytes = bytes.and_then(|body| body.first_chunk().copied());
    Offset(bytes.map_or(0, i64::from_le_bytes))
}

/// Removes segment files that the log does not have: whole segments below its start, and what was
/// written for appends that were never committed.
fn remove_strays(directory: &Path, files: &[SegmentFile], kept: &BTreeSet<Offset>) {
    for file in files.iter().filter(|file| !kept.contains(&file.base)) {
        for ending in super::removal::ENDINGS {
            // What cannot be removed is tried again at the next start.
            drop(fs::remove_file(super::append::segment_path(
                directory, file.base, ending,
            )));
        }
    }
}

fn from_files(
    metadata: &Metadata,
    directory: &Path,
    files: &[SegmentFile],
) -> Result<RecoveredLog, String> {
    let checkpoint = place::read_small(&directory.join(CHECKPOINT))
        .map_err(|error| format!("{CHECKPOINT}: {error}"))?
        .and_then(|body| Checkpoint::decode(&body))
        .filter(|checkpoint| fits(checkpoint, files) && checkpoint.is_coherent());
    let checkpoint = match checkpoint {
        Some(checkpoint) => checkpoint,
        None => scan::rebuild(directory, files, metadata.log_start)?,
    };
    let mut segments = sealed(files, checkpoint.segment)?;
    segments.push(checkpoint.active());
    let mut log = logic::log::Log::recovered(
        metadata.id,
        LogConfig::default(),
        segments,
        metadata.log_start,
        checkpoint.epochs.clone(),
    );
    let gone = log.set_log_start(metadata.log_start.min(log.log_end()));
    let kept: BTreeSet<Offset> = log.segments().map(|segment| segment.base).collect();
    if !gone.is_empty() {
        remove_strays(directory, files, &kept);
    }
    let tail = match checkpoint.tail {
        bytes if bytes.is_empty() && checkpoint.tail_start == 0 => Vec::new(),
        bytes => vec![Piece {
            segment: checkpoint.segment,
            position: checkpoint.tail_start,
            bytes,
        }],
    };
    Ok(RecoveredLog {
        metadata: metadata.clone(),
        directory: directory.to_owned(),
        log,
        tail,
        producer_snapshot: checkpoint.producers,
        raw_after: checkpoint.after,
        from: Vec::new(),
        clean_below: clean_below(directory),
    })
}

/// Whether a clean stop's checkpoint is of these files.
fn fits(checkpoint: &Checkpoint, files: &[SegmentFile]) -> bool {
    match files.last() {
        Some(last) => {
            last.base == checkpoint.segment && last.len == u64::from(checkpoint.position)
                || last.base < checkpoint.segment && checkpoint.position == 0
        }
        None => checkpoint.position == 0,
    }
}

impl Checkpoint {
    /// Whether the tail is what its positions say.
    fn is_coherent(&self) -> bool {
        let whole = self.tail_start as usize + self.tail.len();
        whole == self.position as usize && (self.tail_start as usize).is_multiple_of(BLOCK)
    }

    /// The active segment as it was.
    fn active(&self) -> Segment {
        let mut segment =
            Segment::found(self.segment, self.log_end, self.position, self.created_ms);
        segment.first_timestamp = self.first_timestamp;
        segment.max_timestamp = self.max_timestamp.or(segment.max_timestamp);
        // Its file would say something earlier, as it is written behind: retention must not.
        let now_ms = reactor::timer::wall_clock_ms;
        segment.appended_ms = self.appended_ms.unwrap_or_else(now_ms);
        segment
    }
}
