//! What a shard does for its logs when nobody asks: lets old segments and idle producers go. Knows neither
//! which segments are old nor how a file goes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use logic::ids::PartitionId;
use logic::log::retention::Clock;
use logic::partition::leader::Event;

use super::Shard;
use super::directories::DirId;
use super::hosted::{Partition, now};
use crate::storage::{Storage, StorageError};

/// The first look after the start, as in Kafka, unless looks are more frequent.
const FIRST_LOOK: Duration = Duration::from_secs(30);
/// How long a disk that is short of space is left alone after a look at everything.
const SHORT_PAUSE: Duration = Duration::from_secs(5);

/// `producer.id.expiration.ms`, with Kafka's default.
const PRODUCER_EXPIRATION_MS: u64 = 86_400_000;

/// The upkeep of one shard.
struct Upkeep {
    shard: Rc<Shard>,
    clock: RefCell<Clock>,
    /// One look at a time.
    looking: Cell<bool>,
}

/// Begins a shard's upkeep, with the background's small share of the core.
pub fn start(shard: &Rc<Shard>) {
    let clock = Clock::new(now(), reactor::timer::wall_clock_ms());
    let upkeep = Rc::new(Upkeep {
        shard: shard.clone(),
        clock: RefCell::new(clock),
        looking: Cell::new(false),
    });
    shard.reactor.spawn_background(upkeep.clone().regularly());
    for (dir, storage) in shard.storages() {
        let short = upkeep.clone().when_short_of_space(dir, storage.clone());
        shard.reactor.spawn_background(short);
    }
}

impl Upkeep {
    async fn regularly(self: Rc<Self>) {
        let interval = self.shard.limits.retention_check_interval;
        reactor::timer::sleep(FIRST_LOOK.min(interval)).await;
        while !self.shard.stopping() {
            self.look(None).await;
            reactor::timer::sleep(interval).await;
        }
    }

    /// Does not wait for the next look when a directory is short of space.
    async fn when_short_of_space(self: Rc<Self>, dir: DirId, storage: Storage) {
        while !self.shard.stopping() {
            storage.until_short_of_space().await;
            self.look(Some(dir)).await;
            reactor::timer::sleep(SHORT_PAUSE).await;
        }
    }

    /// Lets old segments go of every log, or of those in one directory that is short of space: where there is
    /// most to gain first.
    async fn look(&self, only: Option<DirId>) {
        if self.looking.replace(true) {
            return;
        }
        let shard = &self.shard;
        let settle_ms = shard.limits.retention_check_interval.as_millis();
        let settle_ms = u64::try_from(settle_ms).unwrap_or(u64::MAX);
        let wall_ms = reactor::timer::wall_clock_ms();
        let wall_ms = self.clock.borrow_mut().look(now(), wall_ms, settle_ms);
        let mut partitions = shard.hosted.all();
        if only.is_some() {
            partitions.retain(|(_, partition)| Some(partition.dir()) == only);
            partitions.sort_by_cached_key(|(_, partition)| {
                let high_watermark = partition.leader.borrow().high_watermark();
                let bytes = partition.log().reclaimable_bytes(wall_ms, high_watermark);
                std::cmp::Reverse(bytes)
            });
        }
        for (id, partition) in partitions {
            if shard.stopping() {
                break;
            }
            let expire = Event::ExpireProducers(PRODUCER_EXPIRATION_MS);
            let hosted = &shard.hosted;
            hosted.step(&partition, now(), expire, None, &mut Vec::new());
            self.retain(id, &partition, wall_ms).await;
            reactor::yield_now().await;
        }
        self.looking.set(false);
    }

    async fn retain(&self, id: PartitionId, partition: &Partition, wall_ms: Option<i64>) {
        if partition.is_paused() {
            return;
        }
        let high_watermark = partition.leader.borrow().high_watermark();
        let retained = partition.log().retain(wall_ms, high_watermark).await;
        // Some may have gone before something failed.
        let hosted = &self.shard.hosted;
        let event = Event::LogStart(partition.log().log_start());
        hosted.step(partition, now(), event, None, &mut Vec::new());
        let name = || self.shard.metadata.topic_name(id.topic).unwrap_or_default();
        match retained {
            Ok(None) => {}
            Ok(Some(gone)) => {
                eprintln!(
                    "retention: {}-{}: {} segments of {} bytes deleted, starts at {}",
                    name(),
                    id.index,
                    gone.segments,
                    gone.bytes,
                    gone.log_start.0
                );
            }
            // A log that is about to be another one: the next look finds that.
            Err(StorageError::Closed) => {}
            // A topic that is being deleted, or a broker that stops.
            Err(_) if self.shard.stopping() || self.shard.hosted.get(id).is_none() => {}
            Err(error) => eprintln!("error: retention of {}-{}: {error}", name(), id.index),
        }
    }
}
