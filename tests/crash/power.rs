//! Power cuts under a broker that works. Knows the broker as a process and a client, and its disk as one
//! that forgets.

use client::direct::Acks;

use crate::block::FileSystem;
use crate::broker::Broker;
use crate::choices::Choices;
use crate::disk::{self, Disk, Keep};
use crate::load::{Load, Rules, loads, under_load, verify};

/// Power cuts that one disk goes through, so that what one has left behind is there at the next.
const CUTS_OF_A_DISK: u64 = 6;
/// A broker that fits on a small disk, rolls its segments, and comes round in its write-ahead log.
const SETTINGS: &[(&str, &str)] = &[
    ("CORELOG_WAL__EXTENT_BYTES", "2097152"),
    ("CORELOG_WAL__BYTES_MAX", "8388608"),
    ("CORELOG_STORAGE__TAIL_CACHE_BYTES", "16777216"),
    ("CORELOG_STORAGE__DISK_RESERVE_BYTES", "16777216"),
];
/// KAFKA_STORAGE_ERROR: a disk that fails is no reason to stop the proof.
const REFUSALS: &[i16] = &[56];
const FLUSH_MS_MAX: u64 = 20;
/// A flush that fails is one of so many: it comes soon.
const FAILING_MAX: u64 = 60;
/// Where acknowledgements wait for no flush, a loss is found within so many cuts.
const CUTS_TO_LOSE: u64 = 5;

const FLUSHED: Rules<'static> = Rules {
    configs: &[("segment.bytes", "1048576"), ("durability", "flush")],
    acks: |_| Acks::All,
    refusals: REFUSALS,
};
/// Flushed within 100 ms, but answered before: promises nothing when the power goes.
const WRITTEN: Rules<'static> = Rules {
    configs: &[("segment.bytes", "1048576"), ("durability", "replicated")],
    ..FLUSHED
};

/// What goes wrong in one round.
#[derive(Debug)]
enum Flushes {
    Work,
    Take(u64),
    /// The one of this number fails.
    Fail(u64),
}

impl Flushes {
    fn choose(choices: &mut Choices) -> Self {
        match choices.below(4) {
            0 => Self::Work,
            1 => Self::Fail(1 + choices.below(FAILING_MAX)),
            // With slow ones much is under way at any moment.
            _ => Self::Take(1 + choices.below(FLUSH_MS_MAX)),
        }
    }
}

/// Cuts the power so many times, on ext4 and on xfs.
pub fn a_power_cut_loses_nothing_acknowledged(cuts: u64) {
    if skipped() {
        return;
    }
    let seed = crate::seed();
    crate::runtime().block_on(async move {
        let mut choices = Choices(seed);
        let disks = cuts.div_ceil(CUTS_OF_A_DISK).max(2);
        for number in 0..disks {
            let mut here = cuts * (number + 1) / disks - cuts * number / disks;
            let file_system = file_system(number);
            let mut disk = Disk::new(file_system);
            let (mut broker, mut all) = begin(&disk, seed + number, &FLUSHED).await;
            while here > 0 {
                here -= 1;
                let keep = Keep::EACH[usize::try_from(choices.below(3)).expect("small")];
                let flushes = Flushes::choose(&mut choices);
                let said;
                (said, broker, all) =
                    round(&mut disk, (broker, all), keep, &flushes, &mut choices).await;
                let records = verify(broker.address, &all).await;
                let records = records.unwrap_or_else(|fault| panic!("{said}: {fault}"));
                println!("{said}: {records} records right");
            }
            broker.kill();
        }
    });
}

/// The control: a broker that answers before it flushes does lose records, and is found out.
pub fn without_flushes_a_power_cut_is_seen_to_lose_records() {
    if skipped() {
        return;
    }
    let seed = crate::seed();
    crate::runtime().block_on(async move {
        let mut choices = Choices(seed);
        let mut disk = Disk::new(FileSystem::Ext4);
        let (mut broker, mut all) = begin(&disk, seed, &WRITTEN).await;
        for _ in 0..CUTS_TO_LOSE {
            let said;
            (said, broker, all) = round(
                &mut disk,
                (broker, all),
                Keep::None,
                &Flushes::Work,
                &mut choices,
            )
            .await;
            if let Err(fault) = verify(broker.address, &all).await {
                println!("{said}: found, {fault}");
                broker.kill();
                return;
            }
        }
        panic!("{CUTS_TO_LOSE} cuts, and nothing is seen to be lost");
    });
}

fn skipped() -> bool {
    let missing = disk::missing(&[FileSystem::Ext4, FileSystem::Xfs]);
    if let Some(reason) = &missing {
        println!("SKIPPED, no power was cut: {reason}");
    }
    missing.is_some()
}

fn file_system(disk: u64) -> FileSystem {
    if disk.is_multiple_of(2) {
        FileSystem::Ext4
    } else {
        FileSystem::Xfs
    }
}

async fn begin(disk: &Disk, seed: u64, rules: &Rules<'_>) -> (Broker, Vec<Load>) {
    let broker = Broker::start_with(&disk.path().join("data"), 2, SETTINGS).await;
    let all = loads(broker.address, seed, rules).await;
    (broker, all)
}

/// Load, a power cut, and a start; says what was done.
async fn round(
    disk: &mut Disk,
    (broker, all): (Broker, Vec<Load>),
    keep: Keep,
    flushes: &Flushes,
    choices: &mut Choices,
) -> (String, Broker, Vec<Load>) {
    match flushes {
        Flushes::Work => {}
        Flushes::Take(ms) => disk.delay_flushes(*ms),
        Flushes::Fail(number) => disk.fail_flush(*number),
    }
    let for_ms = 50 + choices.below(400);
    let seed = choices.below(1 << 30);
    let (survived, all) = under_load(broker, all, for_ms, |broker| {
        let survived = disk.cut(keep, seed);
        broker.kill();
        survived
    })
    .await;
    disk.power_on();
    let shards = 1 + usize::try_from(choices.below(2)).expect("small");
    let broker = Broker::start_with(&disk.path().join("data"), shards, SETTINGS).await;
    let name = disk.file_system.name();
    let said =
        format!("{name}, flushes {flushes:?}, cut after {for_ms} ms, kept {keep:?}: {survived}");
    (said, broker, all)
}
