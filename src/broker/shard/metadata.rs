//! What a shard knows of topics, and how it follows the controller's changes. Knows nothing of how
//! changes are decided.

use std::cell::{Ref, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use logic::cluster::change;
use logic::cluster::config::{Configs, Resolved};
use logic::cluster::{Image, Record, Topic};
use logic::ids::{LeaderEpoch, PartitionId, TopicId};
use logic::partition::leader::Leader;
use logic::partition::producers::Producers;
use wire::folding::Folding;

use super::Shard;
use super::controller::partition_id;
use super::directories::DirId;
use super::groups;
use super::hosted::Partition;
use super::mail::{Applied, ShardId};
use crate::storage::{CleaningRules, Log, LogConfig, RecoveredLog, RetentionRules, StorageError};

/// What this broker is, the same on every shard and for as long as it runs.
pub struct Identity {
    /// Its node id.
    pub node: i32,
    /// Its cluster's id.
    pub cluster: String,
    /// Its rack, if it has one.
    pub rack: Option<String>,
    /// Where clients are told to connect; without it, where each one has connected to.
    pub advertised: Option<(String, u16)>,
    /// Settings from the configuration file by Kafka's names.
    pub statics: Configs,
    /// Bounds and defaults of metadata changes.
    pub limits: change::Limits,
    /// `auto.create.topics.enable`.
    pub auto_create: bool,
}

/// One shard's copy of the metadata.
pub struct Metadata {
    /// What this broker is.
    pub identity: Arc<Identity>,
    image: RefCell<Image>,
    placement: RefCell<HashMap<PartitionId, ShardId>>,
    /// Of the topics that have a codec of their own: asked for each batch, so worked out beforehand.
    codecs: RefCell<HashMap<TopicId, Codec>>,
}

/// In what batches are kept by a topic that does not leave it to its producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    /// `compression.type` with its level.
    pub folding: Folding,
    /// `max.message.bytes`: what is larger is refused, so it need not be made.
    pub message_bytes_max: usize,
}

impl Metadata {
    /// Metadata as the broker starts with it.
    pub fn new(
        identity: Arc<Identity>,
        image: Image,
        placement: HashMap<PartitionId, ShardId>,
    ) -> Self {
        let metadata = Self {
            identity,
            image: RefCell::new(image),
            placement: RefCell::new(placement),
            codecs: RefCell::default(),
        };
        metadata.note_codecs(None);
        metadata
    }

    /// In what a topic keeps its batches; none where that is its producers' choice.
    pub fn codec(&self, topic: TopicId) -> Option<Codec> {
        self.codecs.borrow().get(&topic).copied()
    }

    /// Works out again in what one topic keeps its batches, or each.
    fn note_codecs(&self, only: Option<TopicId>) {
        let image = self.image();
        let mut codecs = self.codecs.borrow_mut();
        let topics: Vec<&Topic> = match only {
            Some(id) => {
                codecs.remove(&id);
                image.topic(id).into_iter().collect()
            }
            None => {
                codecs.clear();
                image.topics().collect()
            }
        };
        let Identity { statics, node, .. } = &*self.identity;
        codecs.extend(topics.into_iter().filter_map(|topic| {
            let resolved = Resolved::new(&image, statics, *node, Some(topic));
            let bytes_max = resolved.number("max.message.bytes");
            let codec = Codec {
                folding: resolved.folding()?,
                message_bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            };
            Some((topic.id, codec))
        }));
    }

    /// The image now. Not to be held across an await.
    pub fn image(&self) -> Ref<'_, Image> {
        self.image.borrow()
    }

    /// Which shard owns a partition.
    pub fn owner(&self, partition: PartitionId) -> Option<ShardId> {
        self.placement.borrow().get(&partition).copied()
    }

    /// A topic's id.
    pub fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.image().topic_by_name(name).map(|topic| topic.id)
    }

    /// A topic's name.
    pub fn topic_name(&self, id: TopicId) -> Option<String> {
        self.image().topic(id).map(|topic| topic.name.clone())
    }
}

/// What a start has for the partitions of one shard.
#[derive(Default)]
pub struct Opening {
    /// Logs that were found, and where.
    pub recovered: HashMap<PartitionId, (DirId, RecoveredLog)>,
    /// Where those are made that have never been made.
    pub fresh: HashMap<PartitionId, DirId>,
}

/// Opens the partitions that this shard owns when the broker starts.
///
/// # Errors
/// When one in the directory of the metadata cannot be opened; in another one it stays offline.
pub async fn open(shard: &Shard, mut opening: Opening) -> Result<(), StorageError> {
    let topics: Vec<Topic> = shard.metadata.image().topics().cloned().collect();
    for topic in &topics {
        for index in 0..topic.partitions.len() {
            let id = partition_id(topic.id, index);
            if shard.metadata.owner(id) != Some(shard.id) || shard.hosted.is_offline(id) {
                continue;
            }
            let (dir, recovered) = match opening.recovered.remove(&id) {
                Some((dir, recovered)) => (dir, Some(recovered)),
                None => (
                    opening.fresh.get(&id).copied().unwrap_or(DirId::METADATA),
                    None,
                ),
            };
            match host(shard, topic, id, dir, recovered).await {
                Ok(()) => {}
                Err(error) if dir == DirId::METADATA => return Err(error),
                Err(error) => cannot_open(shard, topic, id, &error),
            }
        }
    }
    Ok(())
}

fn cannot_open(shard: &Shard, topic: &Topic, id: PartitionId, error: &StorageError) {
    let name = &topic.name;
    eprintln!(
        "error: partition {name}-{} cannot be opened: {error}",
        id.index
    );
    shard.directories.take_partition_offline(id);
}

/// Follows one set of records: new partitions are opened before they are named, deleted ones are
/// forgotten before their files go.
pub async fn apply(shard: &Rc<Shard>, applied: &Applied) -> Result<(), String> {
    let mut image = shard.metadata.image().clone();
    applied
        .records
        .iter()
        .for_each(|record| image.replay(record));
    let mut outcome = Ok(());
    for (id, owner, dir) in &applied.placement {
        let Some(topic) = image.topic(id.topic) else {
            continue;
        };
        if *owner == shard.id
            && let Err(error) = host(shard, topic, *id, *dir, None).await
        {
            cannot_open(shard, topic, *id, &error);
            outcome = Err(error.to_string());
        }
    }
    shard
        .metadata
        .placement
        .borrow_mut()
        .extend(applied.placement.iter().map(|(id, owner, _)| (*id, *owner)));
    let before = shard.metadata.image.replace(image);
    let mut gone = Vec::new();
    for record in &applied.records {
        match record {
            Record::TopicDeleted { id } => {
                shard.metadata.note_codecs(Some(*id));
                if let Some(topic) = before.topic(*id) {
                    forget(shard, topic).await;
                    gone.push(topic.clone());
                }
            }
            Record::TopicConfigSet { id, .. } => reconfigure(shard, Some(*id)),
            Record::BrokerConfigSet { .. } => reconfigure(shard, None),
            Record::TopicCreated { id, .. } => shard.metadata.note_codecs(Some(*id)),
            Record::PartitionsAdded { .. }
            | Record::GroupConfigSet { .. }
            | Record::ProducerIdsAllocated { .. } => {}
        }
    }
    groups::follow(shard, applied, &gone);
    outcome
}

async fn host(
    shard: &Shard,
    topic: &Topic,
    id: PartitionId,
    dir: DirId,
    recovered: Option<RecoveredLog>,
) -> Result<(), StorageError> {
    let (rules, config) = {
        let image = shard.metadata.image();
        let identity = &shard.metadata.identity;
        let resolved = Resolved::new(&image, &identity.statics, identity.node, Some(topic));
        (resolved.rules(), log_config(&resolved))
    };
    let storage = shard.storage(dir).ok_or(StorageError::Closed)?;
    let (log, producers) = match recovered {
        Some(recovered) => {
            let producers = producers(&recovered);
            (storage.attach(recovered, config).await?, producers)
        }
        None => {
            let wall = reactor::timer::wall_clock_ms();
            (
                storage.create(id, &topic.name, config, wall).await?,
                Producers::new(),
            )
        }
    };
    let place = usize::try_from(id.index).ok();
    let partition = place.and_then(|index| topic.partitions.get(index));
    let epoch = partition.map_or(LeaderEpoch(0), |partition| partition.leader_epoch);
    log.start_epoch(epoch);
    let leader = Leader::new(epoch, rules, log.log_start(), log.log_end(), producers);
    let partition = shard.hosted.insert(id, Partition::new(leader, log, dir));
    know_producers(&partition);
    Ok(())
}

/// Gives a partition's log its topic's rules again.
pub fn configure(shard: &Shard, id: PartitionId, partition: &Partition) {
    let image = shard.metadata.image();
    let identity = &shard.metadata.identity;
    if let Some(topic) = image.topic(id.topic) {
        let resolved = Resolved::new(&image, &identity.statics, identity.node, Some(topic));
        partition.log().configure(log_config(&resolved));
    }
}

/// Has the partition's log ask its leader for the state of the producers.
fn know_producers(partition: &Rc<Partition>) {
    let leader = Rc::downgrade(partition);
    partition
        .log()
        .set_producer_snapshot_source(Rc::new(move || {
            let snapshot = leader.upgrade().map(|partition| {
                partition
                    .leader
                    .borrow()
                    .producers()
                    .encode_snapshot(crc32c::crc32c)
            });
            snapshot.unwrap_or_default().into()
        }));
}

fn producers(recovered: &RecoveredLog) -> Producers {
    let now = super::hosted::now();
    let snapshot = &recovered.producer_snapshot;
    let decoded = match &snapshot[..] {
        [] => Ok(Producers::new()),
        bytes => Producers::decode_snapshot(now, bytes, crc32c::crc32c),
    };
    let mut producers = match decoded {
        Ok(producers) => producers,
        Err(error) => {
            eprintln!("warning: a producer snapshot is unreadable and was dropped: {error:?}");
            Producers::new()
        }
    };
    for (summary, base_offset) in recovered.batches_after_snapshot() {
        producers.replay(now, &summary, base_offset);
    }
    producers
}

fn log_config(resolved: &Resolved<'_>) -> LogConfig {
    let clamp = |name| u32::try_from(resolved.number(name)).unwrap_or(u32::MAX);
    LogConfig {
        segment_bytes: clamp("segment.bytes"),
        // A record in the active segment is not compacted, however long it has waited.
        segment_ms: if resolved.has_policy("compact") {
            resolved
                .number("segment.ms")
                .min(resolved.number("max.compaction.lag.ms"))
        } else {
            resolved.number("segment.ms")
        },
        segment_jitter_ms: resolved.number("segment.jitter.ms"),
        index_interval_bytes: clamp("index.interval.bytes"),
        segment_index_bytes: clamp("segment.index.bytes"),
        file_delete_delay_ms: u64::try_from(resolved.number("file.delete.delay.ms")).unwrap_or(0),
        retention: RetentionRules {
            deletes: resolved.has_policy("delete"),
            retention_ms: resolved.number("retention.ms"),
            retention_bytes: resolved.number("retention.bytes"),
            timestamp_after_ms_max: resolved.number("message.timestamp.after.max.ms"),
        },
        cleaning: cleaning_rules(resolved),
    }
}

fn cleaning_rules(resolved: &Resolved<'_>) -> CleaningRules {
    let share: f64 = resolved
        .get("min.cleanable.dirty.ratio")
        .parse()
        .unwrap_or(0.5);
    CleaningRules {
        compacts: resolved.has_policy("compact"),
        dirty_millionths_min: (share * 1e6) as u32,
        lag_ms_min: resolved.number("min.compaction.lag.ms"),
        lag_ms_max: resolved.number("max.compaction.lag.ms"),
        delete_retention_ms: resolved.number("delete.retention.ms"),
        folding: resolved.folding(),
    }
}

async fn forget(shard: &Rc<Shard>, topic: &Topic) {
    for index in 0..topic.partitions.len() {
        let id = partition_id(topic.id, index);
        shard.metadata.placement.borrow_mut().remove(&id);
        let mut owed = Vec::new();
        let partition = shard.hosted.remove(id, &mut owed);
        shard.directories.forget_partition(id);
        shard.moves.cancel(id);
        shard.deliver(owed);
        if let Some(partition) = partition {
            // While it is about to be another one, the wrong one would go.
            let before = partition.log();
            partition.has_left(&before).await;
            let log: Log = partition.log();
            if let Err(error) = log.delete().await {
                eprintln!(
                    "error: files of {}-{index} cannot be deleted: {error}",
                    topic.name
                );
            }
        }
    }
}

/// Gives partitions their topic's rules again: of one topic, or of all.
fn reconfigure(shard: &Shard, only: Option<TopicId>) {
    shard.metadata.note_codecs(only);
    let image = shard.metadata.image();
    let identity = &shard.metadata.identity;
    for (id, partition) in shard.hosted.all() {
        if only.is_some_and(|only| only != id.topic) {
            continue;
        }
        let Some(topic) = image.topic(id.topic) else {
            continue;
        };
        let resolved = Resolved::new(&image, &identity.statics, identity.node, Some(topic));
        partition.log().configure(log_config(&resolved));
        shard.hosted.rules(id, resolved.rules());
    }
}
