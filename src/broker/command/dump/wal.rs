//! Reads the extents of write-ahead logs commit by commit, and says which of them are missing that
//! had been durable. Knows segments only by the bytes that a commit holds for them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use logic::log::chain::{self, Found};

use super::coverage::Coverage;
use super::files;
use super::row::{Row, Rows, partition_name};
use crate::storage::checkpoint::Checkpoint;
use crate::storage::frame::{self, BLOCK, Broken, Commit, Frame, Kind, WalId};

/// What a write-ahead log's extents were found to hold.
#[derive(Default)]
pub struct Commits {
    found: Vec<Found>,
    broken: Vec<BrokenCommit>,
}

/// A commit that is there but wrong.
struct BrokenCommit {
    sequence: u64,
    extent: PathBuf,
    position: u64,
}

/// Dumps all extents of a write-ahead log's directory.
///
/// # Errors
/// Those of the files, and of standard output.
pub fn dump(
    directory: &Path,
    wal: WalId,
    coverage: &mut Coverage,
    rows: &mut Rows,
) -> io::Result<()> {
    let mut commits = Commits::default();
    for path in files::sorted(directory)? {
        if path.extension().is_some_and(|ending| ending == "extent") {
            rows.files += 1;
            commits.dump_extent(&path, wal, coverage, rows)?;
        }
    }
    commits.report(directory, rows)
}

/// What the extents of a directory hold, without a word.
///
/// # Errors
/// Those of the files.
pub fn cover(directory: &Path, wal: WalId, coverage: &mut Coverage) -> io::Result<()> {
    for path in files::sorted(directory)? {
        if path.extension().is_some_and(|ending| ending == "extent") {
            let extent = Bytes::from(fs::read(&path)?);
            each(&extent, wal, |at, read| {
                if let Ok(commit) = read {
                    add(coverage, &extent.slice(at..), commit);
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

impl Commits {
    /// Dumps one extent.
    ///
    /// # Errors
    /// Those of the file, and of standard output.
    pub fn dump_extent(
        &mut self,
        path: &Path,
        wal: WalId,
        coverage: &mut Coverage,
        rows: &mut Rows,
    ) -> io::Result<()> {
        let extent = Bytes::from(fs::read(path)?);
        let mut generation = None;
        let mut sequences: Option<(u64, u64)> = None;
        let mut count = 0;
        each(&extent, wal, |at, read| {
            let commit = match read {
                Ok(commit) => commit,
                Err(broken) => return self.add_broken(path, at, broken, rows),
            };
            let head = commit.head;
            let leftover = *generation.get_or_insert(head.generation) != head.generation;
            if !leftover {
                count += 1;
                let first = sequences.map_or(head.sequence, |it| it.0);
                sequences = Some((first, head.sequence));
            }
            self.found.push(Found {
                sequence: head.sequence,
                durable: head.durable,
                needed: head.needed,
                generation: head.generation,
            });
            let bytes = extent.slice(at..);
            add(coverage, &bytes, commit);
            push_commit(path, at, leftover, &bytes, commit, rows)
        })?;
        let extent = Row::Extent {
            bytes: extent.len() as u64,
            commits: count,
            first_sequence: sequences.map(|it| it.0),
            last_sequence: sequences.map(|it| it.1),
        };
        rows.push(path, &extent)
    }

    fn add_broken(
        &mut self,
        path: &Path,
        at: usize,
        broken: &Broken,
        rows: &mut Rows,
    ) -> io::Result<()> {
        let position = at as u64;
        let what = match broken.complete {
            true => "has a payload with a wrong checksum",
            false => "is torn",
        };
        let name = broken.sequence.map_or("?".into(), |it| it.to_string());
        let mut partitions = broken.partitions.clone();
        partitions.sort();
        partitions.dedup();
        let names: Vec<String> = partitions.into_iter().map(partition_name).collect();
        let whose = match names.is_empty() {
            true => String::new(),
            false => format!(" (partitions {})", names.join(", ")),
        };
        if let Some(sequence) = broken.sequence {
            self.broken.push(BrokenCommit {
                sequence,
                extent: path.to_owned(),
                position,
            });
        }
        rows.note(path, Some(position), format!("commit {name} {what}{whose}"))
    }

    /// Says what is missing of a whole log.
    ///
    /// # Errors
    /// Those of standard output.
    pub fn report(&self, directory: &Path, rows: &mut Rows) -> io::Result<()> {
        for lost in chain::order(&self.found).lost {
            let what = match lost.start() == lost.end() {
                true => format!("commit {} was durable and is missing", lost.start()),
                false => {
                    let (first, last) = (lost.start(), lost.end());
                    format!("commits {first}..={last} were durable and are missing")
                }
            };
            let mut there = self.broken.iter().filter(|it| lost.contains(&it.sequence));
            match there.next() {
                Some(it) => {
                    let what = format!("{what}: what is left of {} is here", it.sequence);
                    rows.fault(&it.extent, Some(it.position), what)?;
                }
                None => rows.fault(directory, None, what)?,
            }
        }
        Ok(())
    }

    /// Says what is missing of an extent by itself: which commits are needed is not known, only
    /// that broken ones had been durable.
    ///
    /// # Errors
    /// Those of standard output.
    pub fn report_extent(&self, rows: &mut Rows) -> io::Result<()> {
        let durable = self.found.iter().map(|it| it.durable).max().unwrap_or(0);
        for broken in self.broken.iter().filter(|it| it.sequence <= durable) {
            let what = format!("commit {} was durable and is broken", broken.sequence);
            rows.fault(&broken.extent, Some(broken.position), what)?;
        }
        Ok(())
    }
}

/// Calls `seen` with every commit of an extent, sound or broken, and where it begins.
fn each(
    extent: &Bytes,
    wal: WalId,
    mut seen: impl FnMut(usize, Result<&Commit, &Broken>) -> io::Result<()>,
) -> io::Result<()> {
    let mut at = 0;
    while at < extent.len() {
        match frame::read(&extent[at..], wal) {
            Ok(None) => at += BLOCK,
            Ok(Some(commit)) => {
                seen(at, Ok(&commit))?;
                at += commit.len;
            }
            Err(broken) => {
                seen(at, Err(&broken))?;
                at += BLOCK;
            }
        }
    }
    Ok(())
}

/// Notes for which bytes of segments a commit stands.
fn add(coverage: &mut Coverage, bytes: &Bytes, commit: &Commit) {
    for Frame { head, payload } in &commit.frames {
        match head.kind {
            Kind::Data => {
                let segment = (head.partition, head.segment);
                coverage.add(segment, head.position, payload.len() as u64);
            }
            Kind::Checkpoint => {
                if let Some(it) = Checkpoint::decode(&bytes.slice(payload.clone())) {
                    let segment = (head.partition, it.segment);
                    coverage.add(segment, it.tail_start, it.tail.len() as u64);
                }
            }
            Kind::Note => {}
        }
    }
}

fn push_commit(
    path: &Path,
    at: usize,
    leftover: bool,
    bytes: &Bytes,
    commit: &Commit,
    rows: &mut Rows,
) -> io::Result<()> {
    let head = commit.head;
    let row = Row::Commit {
        position: at as u64,
        bytes: commit.len as u64,
        sequence: head.sequence,
        generation: head.generation,
        durable: head.durable,
        needed: head.needed,
        leftover,
        frames: commit.frames.len() as u64,
    };
    rows.push(path, &row)?;
    commit.frames.iter().try_for_each(|frame| {
        let payload = bytes.slice(frame.payload.clone());
        push_frame(path, at, frame, &payload, rows)
    })
}

fn push_frame(
    path: &Path,
    commit_at: usize,
    frame: &Frame,
    payload: &Bytes,
    rows: &mut Rows,
) -> io::Result<()> {
    let head = &frame.head;
    let position = (commit_at + frame.payload.start) as u64;
    let row = Row::Frame {
        position,
        bytes: head.len,
        carries: match head.kind {
            Kind::Data => "data",
            Kind::Checkpoint => "checkpoint",
            Kind::Note => "note",
        },
        topic_id: head.partition.topic.to_string(),
        partition: head.partition.index,
        segment: head.segment.0,
        segment_position: head.position,
        base_offset: head.base_offset.0,
        end_offset: head.end_offset.0,
        leader_epoch: head.leader_epoch.0,
    };
    rows.push(path, &row)?;
    if head.kind == Kind::Checkpoint && Checkpoint::decode(payload).is_none() {
        return rows.fault(path, Some(position), "a checkpoint cannot be read");
    }
    Ok(())
}
