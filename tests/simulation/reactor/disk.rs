//! What is on the disk, what is only in its cache, and what a power cut leaves. Knows files by number; their
//! names are `names`' affair.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::random::Random;

/// What a disk writes as a whole, if it is not interrupted.
pub const SECTOR: usize = 512;

/// A file's number.
pub type FileId = usize;

/// How much of what no flush has covered a power cut leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    Nothing,
    /// All that was complete: as when only the process dies.
    All,
    /// Each sector or change by a coin of its own.
    Some,
}

/// A change to a file that no flush has covered.
#[derive(Clone, Debug)]
enum Change {
    Write {
        position: usize,
        bytes: Bytes,
        /// It was reported as done. Otherwise any of it may be there.
        done: bool,
    },
    Length(usize),
}

#[derive(Debug, Default)]
struct File {
    /// What a reader sees.
    visible: Vec<u8>,
    /// What is there after a power cut that loses all it can.
    durable: Vec<u8>,
    /// Sectors whose place on the disk is known to the file system for good.
    placed: Vec<bool>,
    changes: VecDeque<(u64, Change)>,
    next_change: u64,
    /// By the wall clock, in nanoseconds.
    changed_at: u64,
    /// Room was allocated ahead of what is in it.
    extended: bool,
}

/// All files.
#[derive(Debug, Default)]
pub struct Disk {
    files: Vec<File>,
}

impl Disk {
    /// Makes an empty file.
    pub fn create(&mut self) -> FileId {
        self.files.push(File::default());
        self.files.len() - 1
    }

    /// Bytes in a file.
    pub fn len(&self, file: FileId) -> usize {
        self.files[file].visible.len()
    }

    /// When a file was last changed.
    pub fn changed_at(&self, file: FileId) -> u64 {
        self.files[file].changed_at
    }

    /// By whoever changes it without writing.
    pub fn set_changed_at(&mut self, file: FileId, at: u64) {
        self.files[file].changed_at = at;
    }

    /// Whether room was allocated ahead.
    pub fn is_extended(&self, file: FileId) -> bool {
        self.files[file].extended
    }

    /// Fills `sector` with bytes of some place in one of these files.
    pub fn read_elsewhere(&self, files: &[FileId], sector: &mut [u8], random: &mut Random) {
        let filled = files.iter().map(|file| &self.files[*file]);
        let filled: Vec<_> = filled.filter(|file| !file.visible.is_empty()).collect();
        let Some(file) = filled.get(random.below(filled.len().max(1) as u64) as usize) else {
            return;
        };
        let sectors = file.visible.len().div_ceil(SECTOR) as u64;
        let from = random.below(sectors) as usize * SECTOR;
        let there = &file.visible[from..];
        let len = there.len().min(sector.len());
        sector[..len].copy_from_slice(&there[..len]);
    }

    /// What a reader gets: fewer bytes at the file's end.
    pub fn read(&self, file: FileId, position: usize, len: usize) -> &[u8] {
        let visible = &self.files[file].visible;
        let from = position.min(visible.len());
        &visible[from..position.saturating_add(len).min(visible.len())]
    }

    /// A write is complete.
    pub fn write(&mut self, file: FileId, position: usize, bytes: Bytes, now: u64) {
        let file = &mut self.files[file];
        let end = position + bytes.len();
        if file.visible.len() < end {
            file.visible.resize(end, 0);
        }
        file.visible[position..end].copy_from_slice(&bytes);
        file.changed_at = now;
        let done = true;
        file.note(Change::Write {
            position,
            bytes,
            done,
        });
    }

    /// A write has failed or was never completed: any of its sectors may reach the disk.
    pub fn write_in_part(&mut self, file: FileId, position: usize, bytes: Bytes) {
        let done = false;
        self.files[file].note(Change::Write {
            position,
            bytes,
            done,
        });
    }

    /// The file's length is set.
    pub fn set_len(&mut self, file: FileId, len: usize, now: u64) {
        let file = &mut self.files[file];
        file.visible.resize(len, 0);
        file.changed_at = now;
        file.note(Change::Length(len));
    }

    /// Room is allocated ahead: the file is at least so long.
    pub fn extend(&mut self, file: FileId, len: usize, now: u64) {
        let longer = len.max(self.len(file));
        self.set_len(file, longer, now);
        self.files[file].extended = true;
    }

    /// What a flush that begins now will cover.
    pub fn flush_begins(&self, file: FileId) -> u64 {
        self.files[file].next_change
    }

    /// A flush that covers all changes before this one is complete.
    pub fn flushed(&mut self, file: FileId, before: u64) {
        let file = &mut self.files[file];
        while file.changes.front().is_some_and(|(at, _)| *at < before) {
            let Some((_, change)) = file.changes.pop_front() else {
                break;
            };
            match change {
                Change::Length(len) => file.set_durable_len(len),
                Change::Write {
                    position,
                    bytes,
                    done: true,
                } => {
                    let end = position + bytes.len();
                    file.set_durable_len(file.durable.len().max(end));
                    file.durable[position..end].copy_from_slice(&bytes);
                    let sectors = position / SECTOR..end.div_ceil(SECTOR);
                    file.placed[sectors].fill(true);
                }
                Change::Write { done: false, .. } => {}
            }
        }
    }

    /// A flush has failed: what it should have covered is in memory only, for good.
    pub fn flush_failed(&mut self, file: FileId, before: u64) {
        self.files[file].changes.retain(|(at, _)| *at >= before);
    }

    /// The power goes. What is left is what is durable from here on.
    pub fn power_cut(&mut self, survival: Survival, random: &mut Random) {
        for file in &mut self.files {
            file.power_cut(survival, random);
        }
    }
}

impl File {
    fn note(&mut self, change: Change) {
        self.changes.push_back((self.next_change, change));
        self.next_change += 1;
    }

    fn set_durable_len(&mut self, len: usize) {
        self.durable.resize(len, 0);
        self.placed.resize(len.div_ceil(SECTOR), false);
    }

    fn power_cut(&mut self, survival: Survival, random: &mut Random) {
        // The journal with the file's length and new blocks was written, or was not.
        let journal = match survival {
            Survival::Nothing => false,
            Survival::All => true,
            Survival::Some => random.one_in(2),
        };
        for (_, change) in std::mem::take(&mut self.changes) {
            match change {
                Change::Length(len) if journal => self.set_durable_len(len),
                Change::Length(_) => {}
                Change::Write {
                    position,
                    bytes,
                    done,
                } => {
                    if journal && done {
                        let end = position + bytes.len();
                        self.set_durable_len(self.durable.len().max(end));
                    }
                    self.write_sectors(position, &bytes, (done, journal, survival), random);
                }
            }
        }
        self.visible.clone_from(&self.durable);
    }

    fn write_sectors(
        &mut self,
        position: usize,
        bytes: &[u8],
        (done, journal, survival): (bool, bool, Survival),
        random: &mut Random,
    ) {
        let mut at = position;
        let end = position + bytes.len();
        while at < end {
            let next = ((at / SECTOR + 1) * SECTOR).min(end);
            let placed = self.placed.get(at / SECTOR).copied().unwrap_or(false);
            let arrives = match survival {
                Survival::Nothing => false,
                Survival::All => done || random.one_in(2),
                Survival::Some => random.one_in(2),
            };
            if arrives && (placed || journal) && next <= self.durable.len() {
                let new = &bytes[at - position..next - position];
                let sector = &mut self.durable[at..next];
                match if done { 2 } else { random.below(4) } {
                    // Torn: the beginning only.
                    0 => {
                        let torn = random.below(new.len() as u64) as usize;
                        sector[..torn].copy_from_slice(&new[..torn]);
                    }
                    // Garbled.
                    1 => sector.fill_with(|| random.number() as u8),
                    _ => sector.copy_from_slice(new),
                }
                if let Some(placed) = self.placed.get_mut(at / SECTOR) {
                    *placed = true;
                }
            }
            at = next;
        }
    }
}
