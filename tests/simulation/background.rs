//! What a shard does beside its requests: takes note of progress, lets old segments go, cleans compacted logs.
//! It makes the calls of `shard/upkeep` and `shard/cleaning` in the broker, and judges what comes of them.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use logic::ids::{Instant, Offset};
use logic::log::retention::Clock;
use reactor::world::Misread;
use simulated::storage::{Budget, Cleaner, Log, Read, ReadError, StorageError};

use crate::ghost::{Cleaning, Retaining};
use crate::reading::{READ_BYTES, check_read, check_time, content};
use crate::shard::Shard;
use crate::story::End;

/// How long the wall clock must keep step before it is believed.
const SETTLE_MS: u64 = 150;
const FREE_BYTES: u64 = 4_096;
/// How often each log is read with something misread.
const MISREADINGS: usize = 4;
/// Memory for any number of keys, and for no more than one batch has for sure.
const DEDUPE_BYTES: [usize; 2] = [64 << 10, 264];
const BYTES_PER_SECOND: [u64; 2] = [u64::MAX, 4 << 20];

/// Begins it all.
pub fn start(shard: &Rc<Shard>) {
    reactor::spawn(observe(shard.clone()));
    shard.tasks.set(2);
    reactor::spawn(upkeep(shard.clone()));
    reactor::spawn(clean(shard.clone()));
}

/// Takes note of what is said to be durable, as soon as it is said.
async fn observe(shard: Rc<Shard>) {
    while shard.storage.failed().is_none() {
        shard.storage.progressed().await;
        shard.note_durable();
    }
}

async fn upkeep(shard: Rc<Shard>) {
    let mut clock = Clock::new(now(&shard), shard.world.wall_ms());
    while going(&shard) {
        pause(&shard, 400).await;
        let wall_ms = clock.look(now(&shard), shard.world.wall_ms(), SETTLE_MS);
        let set_at = shard.clock_set_at.get();
        let settled = set_at.is_none_or(|at| Instant(at).plus_ms(SETTLE_MS) <= now(&shard));
        assert!(wall_ms.is_none() || settled, "a clock just set is believed");
        let logs = shard.logs.borrow().clone();
        for log in logs.iter().filter(|_| going(&shard)) {
            retain(&shard, log, wall_ms).await;
        }
    }
    shard.tasks.set(shard.tasks.get() - 1);
}

/// Lets old segments go, and sees that they may and, where that is certain, that they do.
async fn retain(shard: &Shard, log: &Log, wall_ms: Option<i64>) {
    let durable = log.durable().0.unsigned_abs();
    let high_watermark = if shard.world.one_in(4) {
        Offset(shard.world.below(durable + 1).cast_signed())
    } else {
        log.durable()
    };
    let asked = Retaining {
        wall_ms,
        high_watermark,
    };
    let end = log.log_end();
    shard.with(log, |known| known.retaining.push(asked));
    let retained = match log.retain(wall_ms, high_watermark).await {
        Ok(retained) => retained,
        Err(error) => return tolerate(shard, log, &error),
    };
    shard.with(log, |known| {
        let highest = known.may_go(&asked).max(known.start_asked);
        if let Some(gone) = retained {
            assert!(gone.log_start <= high_watermark, "past the high watermark");
            assert!(
                gone.log_start <= highest,
                "{:?}: retention takes all below {:?}, and only below {highest:?} it may: {asked:?}, {:?}, {:?}",
                log.id(),
                gone.log_start,
                known.policy,
                known.batches.iter().find(|it| it.end > highest).map(|it| (it.appended_ms, it.max_timestamp)),
            );
            known.start = known.start.max(gone.log_start);
            known.start_asked = known.start_asked.max(gone.log_start);
            shard.outcome.borrow_mut().retained += gone.segments as u64;
        }
        let undisturbed = shard.life.end != End::Failure && log.log_end() == end;
        let must = undisturbed && known.must_go(&asked) && shard.serves(log);
        assert!(
            !must || log.log_start() == end,
            "retention leaves what is too old"
        );
    });
}

async fn clean(shard: Rc<Shard>) {
    let cleaner = cleaner(&shard);
    while going(&shard) {
        pause(&shard, 300).await;
        let logs = shard.logs.borrow().clone();
        for log in logs.iter().filter(|_| going(&shard)) {
            clean_log(&shard, log, &cleaner, None).await;
        }
    }
    shard.tasks.set(shard.tasks.get() - 1);
}

fn cleaner(shard: &Shard) -> Cleaner {
    Cleaner {
        dedupe_bytes: DEDUPE_BYTES[shard.world.below(2) as usize],
        budget: Budget::new(BYTES_PER_SECOND[shard.world.below(2) as usize]),
    }
}

/// Cleans once more while nothing else reads, and a read goes wrong: what is copied wrongly would have a
/// right checksum.
pub async fn clean_misreading(shard: &Shard) {
    shard.resting.set(true);
    while shard.tasks.get() > 0 {
        reactor::timer::sleep(Duration::from_millis(20)).await;
    }
    let cleaner = cleaner(shard);
    let logs = shard.logs.borrow().clone();
    for log in &logs {
        clean_log(shard, log, &cleaner, Some(how(shard))).await;
    }
}

fn how(shard: &Shard) -> Misread {
    let how = [Misread::Flipped, Misread::Elsewhere, Misread::Zeros];
    how[shard.world.below(3) as usize]
}

/// Reads while nothing else does, and a read goes wrong: what is handed out, or found by a time, is what is there
/// all the same.
pub async fn read_misreading(shard: &Shard) {
    let logs = shard.logs.borrow().clone();
    for log in logs.iter().filter(|log| shard.serves(log)) {
        for _ in 0..MISREADINGS {
            let time = shard.world.wall_ms() - shard.world.below(4_000).cast_signed();
            shard.world.misread_next(how(shard));
            let found = check_time(&shard.ghost, log, time).await;
            shard.world.end_misread();
            found.expect("one misread is no damage");
            let (start, end) = (log.log_start(), log.log_end());
            if start == end {
                break;
            }
            let span = (end.0 - start.0).unsigned_abs();
            let from = Offset(start.0 + shard.world.below(span).cast_signed());
            shard.world.misread_next(how(shard));
            let misread = log.read_slow(from, end, READ_BYTES, true).await;
            shard.world.end_misread();
            let misread = handed_out(misread).await;
            let right = handed_out(log.read_slow(from, end, READ_BYTES, true).await).await;
            let both = misread.len().min(right.len());
            assert!(
                misread[..both] == right[..both] && misread.is_empty() == right.is_empty(),
                "{:?}: what is read from {from:?} on: {} bytes, and {} are there",
                log.id(),
                misread.len(),
                right.len(),
            );
        }
    }
}

async fn handed_out(read: Result<Read, ReadError>) -> Bytes {
    let read = read.expect("one misread is no damage");
    let content = content(read).await.expect("nothing fails");
    content.unwrap_or_default()
}

/// Cleans a log if it is due, and reads all of it afterwards.
async fn clean_log(shard: &Shard, log: &Log, cleaner: &Cleaner, misread: Option<Misread>) {
    let wall_ms = shard.world.wall_ms();
    let bound = shard.with(log, |known| {
        known.durable_is(log.durable());
        known.cleaning_bound()
    });
    let part = match log.cleanable(wall_ms, bound).await {
        Ok(Some(part)) if log.is_due(&part) => part,
        Ok(_) => return,
        Err(error) => return tolerate(shard, log, &error),
    };
    let (last_of_producer, number) = shard.with(log, |known| {
        // Of what cannot be lost any more: a later batch may be, and what came before it is the last then.
        let producers = known.producers_below(bound);
        let last = producers.iter().map(|it| (it.producer_id, it.last_offset));
        let clean_below = None;
        known.cleanings.push(Cleaning {
            bound,
            wall_ms,
            clean_below,
        });
        (last.collect::<BTreeMap<_, _>>(), known.cleanings.len() - 1)
    });
    if let Some(how) = misread {
        shard.world.misread_next(how);
    }
    let cleaned = log.clean(&part, wall_ms, &last_of_producer, cleaner).await;
    shard.world.end_misread();
    match cleaned {
        Ok(Some(report)) => {
            shard.with(log, |known| {
                known.cleanings[number].clean_below = Some(report.clean_below);
            });
            let mut outcome = shard.outcome.borrow_mut();
            outcome.cleanings += 1;
            outcome.cleaned_bytes += report.bytes_before.saturating_sub(report.bytes_after);
        }
        Ok(None) => {}
        Err(error @ StorageError::Damaged { .. }) if misread.is_some() => {
            panic!("one misread is no damage: {error}");
        }
        Err(error) => return tolerate(shard, log, &error),
    }
    if let Err(error) = check_read(&shard.ghost, log, log.log_start()).await {
        tolerate(shard, log, &error);
    }
}

/// The disk runs short of space, so retention hurries and removed files go at once; then there is room again.
pub async fn run_short_of_space(shard: &Shard) {
    shard.world.set_free_bytes(FREE_BYTES);
    shard.storage.until_short_of_space().await;
    let mut logs = shard.logs.borrow().clone();
    logs.sort_by_cached_key(|log| std::cmp::Reverse(log.reclaimable_bytes(None, log.durable())));
    for log in &logs {
        retain(shard, log, None).await;
    }
    shard.world.set_free_bytes(u64::MAX);
    while shard.storage.is_short_of_space() && shard.storage.failed().is_none() {
        reactor::timer::sleep(Duration::from_millis(20)).await;
    }
}

/// What fails in the background is tried again, unless nothing should have failed.
fn tolerate(shard: &Shard, log: &Log, error: &StorageError) {
    let expected = shard.life.end == End::Failure || !shard.serves(log);
    assert!(expected, "{:?}: fails by itself: {error}", log.id());
}

fn going(shard: &Shard) -> bool {
    !shard.stopping.get() && !shard.resting.get() && shard.storage.failed().is_none()
}

async fn pause(shard: &Shard, ms: u64) {
    reactor::timer::sleep(Duration::from_millis(shard.world.below(ms))).await;
}

fn now(shard: &Shard) -> Instant {
    Instant(shard.world.now())
}
