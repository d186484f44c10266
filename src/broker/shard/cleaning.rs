//! The log cleaner of one shard: of the compacted logs that are due it cleans the one with the
//! largest share of dirty bytes, then looks again. Knows not how a log is cleaned.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use logic::ids::{Offset, PartitionId};
use logic::log::cleaning::Cleanable;

use super::Shard;
use super::hosted::Partition;
use crate::storage::{Budget, CleanReport, Cleaner, StorageError};

/// What an operator has set for the cleaner, per shard.
#[derive(Clone, Copy, Debug)]
pub struct CleanerLimits {
    /// Memory for the newest offsets of keys.
    pub dedupe_bytes: usize,
    /// Bytes read and written a second.
    pub bytes_per_second: u64,
    /// `log.cleaner.backoff.ms`: the pause when nothing is due.
    pub backoff: Duration,
}

/// A log that is due.
struct Due {
    id: PartitionId,
    partition: Rc<Partition>,
    part: Cleanable,
}

/// Begins the shard's cleaner, with the background's small share of the core.
pub fn start(shard: &Rc<Shard>) {
    shard.reactor.spawn_background(run(shard.clone()));
}

async fn run(shard: Rc<Shard>) {
    let limits = shard.limits.cleaner;
    let cleaner = Cleaner {
        dedupe_bytes: limits.dedupe_bytes,
        budget: Budget::new(limits.bytes_per_second),
    };
    while !shard.stopping() {
        let cleaned = match dirtiest(&shard).await {
            Some(due) if !shard.moves.is_moving(due.id) => {
                shard.moves.set_cleaning(Some(due.id));
                let cleaned = clean(&shard, &due, &cleaner).await;
                shard.moves.set_cleaning(None);
                cleaned
            }
            _ => false,
        };
        if !cleaned {
            reactor::timer::sleep(limits.backoff).await;
        }
    }
}

/// The log that is most worth cleaning: what has waited too long first.
async fn dirtiest(shard: &Rc<Shard>) -> Option<Due> {
    let mut best: Option<Due> = None;
    for (id, partition) in shard.hosted.all() {
        if shard.moves.is_moving(id) {
            continue;
        }
        let bound = bound(&partition);
        let part = match partition.log().cleanable(wall_ms(), bound).await {
            Ok(Some(part)) => part,
            Ok(None) => continue,
            Err(error) => {
                tell_failure(shard, id, &partition, &error);
                continue;
            }
        };
        let rank = |part: &Cleanable| (part.overdue, part.dirty_millionths());
        if partition.log().is_due(&part)
            && best
                .as_ref()
                .is_none_or(|best| rank(&part) > rank(&best.part))
        {
            best = Some(Due {
                id,
                partition,
                part,
            });
        }
    }
    best
}

/// Cleans a log; whether that got it on.
async fn clean(shard: &Rc<Shard>, due: &Due, cleaner: &Cleaner) -> bool {
    let begun = Instant::now();
    let last_of_producer: BTreeMap<i64, Offset> = {
        let leader = due.partition.leader.borrow();
        let producers = leader.producers().iter();
        producers
            .map(|producer| (producer.producer_id, producer.last_offset))
            .collect()
    };
    let log = due.partition.log();
    let cleaned = log
        .clean(&due.part, wall_ms(), &last_of_producer, cleaner)
        .await;
    match cleaned {
        Ok(Some(report)) => {
            tell(&name(shard, due.id), &due.part, &report, begun.elapsed());
            report.clean_below > due.part.first_dirty
        }
        Ok(None) => false,
        Err(error) => {
            tell_failure(shard, due.id, &due.partition, &error);
            false
        }
    }
}

fn name(shard: &Shard, id: PartitionId) -> String {
    let topic = shard.metadata.topic_name(id.topic).unwrap_or_default();
    format!("{topic}-{}", id.index)
}

fn tell_failure(shard: &Shard, id: PartitionId, partition: &Partition, error: &StorageError) {
    if shard.stopping() {
        return;
    }
    let advice = match error {
        StorageError::Damaged { .. } => "; `corelog check --data` names all that is damaged",
        _ => "",
    };
    eprintln!(
        "error: cleaner: {} is not cleaned: {error}; tried again in {} s{advice}",
        name(shard, id),
        partition.log().cleaning_pause_ms().div_ceil(1_000),
    );
}

fn tell(name: &str, part: &Cleanable, report: &CleanReport, took: Duration) {
    eprintln!(
        "cleaner: {name}: {} % dirty from {} on; clean below {} now; {} keys; {} segments of {} bytes \
         became {} of {}; {} ms",
        part.dirty_millionths() / 10_000,
        part.first_dirty.0,
        report.clean_below.0,
        report.keys,
        report.segments_before,
        report.bytes_before,
        report.segments_after,
        report.bytes_after,
        took.as_millis()
    );
}

/// The lower of high watermark and last stable offset: nothing from there on may be cleaned.
fn bound(partition: &Partition) -> Offset {
    let leader = partition.leader.borrow();
    leader.high_watermark().min(leader.last_stable_offset())
}

fn wall_ms() -> i64 {
    reactor::timer::wall_clock_ms()
}
