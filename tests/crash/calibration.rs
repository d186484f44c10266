//! What the disk that forgets keeps of plain files, without a broker: as measured of real ones. Knows
//! nothing of logs.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags, fallocate};

use crate::block::FileSystem;
use crate::disk::{self, Disk, Keep};

const BLOCK: usize = 4096;
const BLOCKS: usize = 256;
const SECTOR: usize = 512;
const SECTORS: usize = BLOCKS * BLOCK / SECTOR;
const WRITTEN: u8 = 0xA5;

/// Direct writes and a cut: all, none or half of them are there, as they were flushed or not.
pub fn the_disk_forgets_what_no_flush_has_covered() {
    if let Some(reason) = disk::missing(&[FileSystem::Ext4, FileSystem::Xfs]) {
        println!("SKIPPED, no power was cut: {reason}");
        return;
    }
    for file_system in [FileSystem::Ext4, FileSystem::Xfs] {
        let mut disk = Disk::new(file_system);
        for keep in [Keep::All, Keep::Half, Keep::None] {
            let survived = write_and_cut(&mut disk, keep);
            println!(
                "{}, kept {keep:?}: {survived:?} of {SECTORS}",
                file_system.name()
            );
            let overwritten = match keep {
                Keep::All => SECTORS..=SECTORS,
                Keep::Half => SECTORS / 4..=SECTORS * 3 / 4,
                Keep::None => 0..=0,
            };
            assert_eq!(survived.flushed, SECTORS, "what was flushed is there");
            assert!(
                overwritten.contains(&survived.overwritten),
                "{overwritten:?}"
            );
            assert_eq!(survived.appended, 0, "the file never grew");
            assert_eq!(survived.allocated, 0, "the extents were never written");
        }
    }
}

/// Sectors found again.
#[derive(Debug)]
struct Survived {
    /// Appended, and flushed.
    flushed: usize,
    /// Not flushed: over zeros that were.
    overwritten: usize,
    /// Not flushed: at the end of a file.
    appended: usize,
    /// Not flushed: into allocated space.
    allocated: usize,
}

fn write_and_cut(disk: &mut Disk, keep: Keep) -> Survived {
    let path = |name: &str| disk.path().join(format!("{name}-{keep:?}"));
    let [flushed, overwritten, appended, allocated] =
        ["flushed", "overwritten", "appended", "allocated"].map(path);
    {
        let [over, end, space, done] =
            [&overwritten, &appended, &allocated, &flushed].map(|path| create(path));
        write(&over, 0);
        let bytes = (BLOCKS * BLOCK) as u64;
        fallocate(&space, FallocateFlags::empty(), 0, bytes).expect("there is space");
        for file in [&over, &end, &space] {
            file.sync_all().expect("flushed");
        }
        write(&done, WRITTEN);
        done.sync_all().expect("flushed");
        for file in [&over, &end, &space] {
            write(file, WRITTEN);
        }
        println!("{}", disk.cut(keep, 1));
    }
    disk.power_on();
    Survived {
        flushed: count(&flushed),
        overwritten: count(&overwritten),
        appended: count(&appended),
        allocated: count(&allocated),
    }
}

fn create(path: &Path) -> File {
    let direct = i32::try_from(OFlags::DIRECT.bits()).expect("a flag");
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).custom_flags(direct);
    options.open(path).expect("a file")
}

/// Block by block, past the page cache.
fn write(file: &File, byte: u8) {
    let memory = vec![byte; 2 * BLOCK];
    let block = &memory[memory.as_ptr().align_offset(BLOCK)..][..BLOCK];
    for number in 0..BLOCKS {
        let at = (number * BLOCK) as u64;
        file.write_all_at(block, at).expect("written");
    }
}

fn count(path: &Path) -> usize {
    let read = std::fs::read(path).expect("the file is there");
    let sectors = read.as_chunks::<SECTOR>().0.iter();
    sectors
        .filter(|sector| **sector == [WRITTEN; SECTOR])
        .count()
}
