//! Reading the partitions that this shard leads: fetches, offset look-ups, descriptions. Knows
//! nothing of sessions or of Kafka's frames.

use std::rc::Rc;

use logic::ids::{LeaderEpoch, Offset, PartitionId, Timestamp};
use logic::partition::leader::Event;

use super::hosted::{Hosted, Partition, now};
use super::mail::{
    Chunk, FoundOffset, LogRow, OffsetItem, OffsetQuery, OffsetResult, ProducerRow, ReadItem,
    ReadLimits, ReadResult, Refused,
};
use crate::storage::{Log, Read, ReadError, StorageError};

/// Reads what is in memory, or in a file's resident pages; `None` when some of it needs the disk.
pub fn read_now(
    hosted: &Hosted,
    limits: ReadLimits,
    items: &[ReadItem],
) -> Option<Vec<ReadResult>> {
    let mut room = Room::new(limits);
    items
        .iter()
        .map(|item| read_one(hosted, &mut room, item))
        .collect()
}

/// The same, waiting for the disk where it must.
pub async fn read_slowly(
    hosted: &Hosted,
    limits: ReadLimits,
    items: &[ReadItem],
) -> Vec<ReadResult> {
    let mut room = Room::new(limits);
    let mut results = Vec::with_capacity(items.len());
    for item in items {
        let result = match read_one(hosted, &mut room, item) {
            Some(result) => result,
            None => read_from_disk(hosted, &mut room, item).await,
        };
        results.push(result);
    }
    results
}

/// What is left of a read's limits.
struct Room {
    bytes: usize,
    first_whole: bool,
}

impl Room {
    fn new(limits: ReadLimits) -> Self {
        Self {
            bytes: limits.bytes_max,
            first_whole: limits.first_batch_whole,
        }
    }

    fn take(&mut self, chunks: &[Chunk]) {
        let bytes: usize = chunks.iter().map(Chunk::len).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        self.first_whole &= bytes == 0;
    }

    fn bytes_for(&self, item: &ReadItem) -> usize {
        self.bytes.min(item.bytes_max)
    }

    fn is_full(&self) -> bool {
        self.bytes == 0 && !self.first_whole
    }
}

/// A leader's offsets at one moment: a fetch reads them once.
struct Marks {
    high_watermark: Offset,
    log_start: Offset,
    last_stable: Offset,
}

impl Marks {
    fn of(partition: &Partition) -> Self {
        let leader = partition.leader.borrow();
        Self {
            high_watermark: leader.high_watermark(),
            log_start: leader.log_start(),
            last_stable: leader.last_stable_offset(),
        }
    }

    fn with(self, chunks: Vec<Chunk>) -> ReadResult {
        ReadResult {
            result: Ok(chunks),
            high_watermark: self.high_watermark,
            log_start: self.log_start,
            last_stable: self.last_stable,
        }
    }
}

/// The partition, if it is here and the client's epoch is the current one (KIP-320).
fn find(
    hosted: &Hosted,
    id: PartitionId,
    epoch: Option<LeaderEpoch>,
) -> Result<Rc<Partition>, Refused> {
    let partition = hosted.find(id)?;
    let current = partition.leader.borrow().epoch();
    match epoch {
        Some(epoch) if epoch < current => Err(Refused::FencedEpoch),
        Some(epoch) if epoch > current => Err(Refused::UnknownEpoch),
        _ => Ok(partition),
    }
}

fn read_one(hosted: &Hosted, room: &mut Room, item: &ReadItem) -> Option<ReadResult> {
    let partition = match find(hosted, item.partition, item.current_epoch) {
        Ok(partition) => partition,
        Err(why) => return Some(ReadResult::refused(why)),
    };
    let marks = Marks::of(&partition);
    if item.offset < marks.log_start || item.offset > marks.high_watermark {
        return Some(out_of_range(marks));
    }
    if partition.is_paused() {
        return None;
    }
    if room.is_full() || item.offset == marks.high_watermark {
        return Some(marks.with(Vec::new()));
    }
    let bytes_max = room.bytes_for(item);
    let read = partition.log().read(
        item.offset,
        marks.high_watermark,
        bytes_max,
        room.first_whole,
    );
    let chunks = match read {
        Ok(Read::Empty) => Vec::new(),
        Ok(Read::Memory(views)) => views.into_iter().map(Chunk::Memory).collect(),
        Ok(Read::File { .. } | Read::Lookup) => return None,
        Err(ReadError::OffsetOutOfRange) => return Some(out_of_range(marks)),
        Err(ReadError::Storage(error)) => {
            return Some(ReadResult::refused(refused("a read failed", &error)));
        }
    };
    room.take(&chunks);
    Some(marks.with(chunks))
}

fn out_of_range(marks: Marks) -> ReadResult {
    ReadResult {
        result: Err(Refused::OffsetOutOfRange),
        ..marks.with(Vec::new())
    }
}

async fn read_from_disk(hosted: &Hosted, room: &mut Room, item: &ReadItem) -> ReadResult {
    let partition = match find(hosted, item.partition, item.current_epoch) {
        Ok(partition) => partition,
        Err(why) => return ReadResult::refused(why),
    };
    let marks = Marks::of(&partition);
    let bytes_max = room.bytes_for(item);
    let read = on_its_log(&partition, async |log| {
        let (end, whole) = (marks.high_watermark, room.first_whole);
        log.read_slow(item.offset, end, bytes_max, whole).await
    });
    let read = read.await;
    let chunks = match read {
        Ok(Read::Empty) => Vec::new(),
        Ok(Read::Memory(views)) => views.into_iter().map(Chunk::Memory).collect(),
        Ok(Read::File {
            file,
            position,
            len,
        }) => vec![Chunk::File {
            file,
            position,
            len,
        }],
        Ok(Read::Lookup) => unreachable!("a slow read looks up"),
        Err(ReadError::OffsetOutOfRange) => return out_of_range(marks),
        Err(ReadError::Storage(error)) => {
            let why = refused("a segment cannot be read", &error);
            return ReadResult::refused(why);
        }
    };
    room.take(&chunks);
    marks.with(chunks)
}

/// Does something with a partition's log, and again if it has become another one meanwhile.
async fn on_its_log<T, E>(
    partition: &Partition,
    work: impl AsyncFn(Log) -> Result<T, E>,
) -> Result<T, E> {
    loop {
        let log = partition.log();
        if partition.is_paused() {
            partition.has_left(&log).await;
            continue;
        }
        match work(log.clone()).await {
            Err(_) if partition.has_left(&log).await => {}
            done => return done,
        }
    }
}

/// What a client is told when a log fails it. Said here too, unless the log is only being deleted.
fn refused(what: &str, error: &StorageError) -> Refused {
    if matches!(error, StorageError::Closed) {
        return Refused::UnknownPartition;
    }
    eprintln!("error: {what}: {error}");
    match error {
        StorageError::Damaged { .. } => Refused::Damaged,
        _ => Refused::Storage,
    }
}

/// Answers ListOffsets' questions, each in turn.
pub async fn offsets(hosted: &Hosted, items: Vec<OffsetItem>) -> Vec<OffsetResult> {
    let mut results = Vec::with_capacity(items.len());
    for item in items {
        results.push(offset(hosted, &item).await);
    }
    results
}

async fn offset(hosted: &Hosted, item: &OffsetItem) -> OffsetResult {
    let partition = find(hosted, item.partition, item.current_epoch)?;
    let marks = Marks::of(&partition);
    let epoch = partition.leader.borrow().epoch();
    let at = |offset| FoundOffset {
        timestamp: Timestamp(-1),
        offset,
        epoch,
    };
    let end = marks.high_watermark;
    let found = match item.query {
        OffsetQuery::Earliest => return Ok(Some(at(marks.log_start))),
        OffsetQuery::Latest => return Ok(Some(at(marks.high_watermark))),
        OffsetQuery::Tiered => return Ok(None),
        OffsetQuery::LatestStable => return Ok(Some(at(marks.last_stable))),
        OffsetQuery::MaxTimestamp => {
            on_its_log(&partition, async |log| log.max_timestamp(end).await).await
        }
        OffsetQuery::At(time) => {
            let find = async |log: Log| log.offset_for_timestamp(time, end).await;
            on_its_log(&partition, find).await
        }
    };
    match found {
        Ok(found) => Ok(found.map(|(timestamp, offset, epoch)| FoundOffset {
            timestamp,
            offset,
            epoch,
        })),
        Err(error) => Err(refused("a time look-up failed", &error)),
    }
}

/// Where each epoch ends.
pub fn epoch_ends(
    hosted: &Hosted,
    items: &[(PartitionId, Option<LeaderEpoch>, LeaderEpoch)],
) -> Vec<Result<(LeaderEpoch, Offset), Refused>> {
    let end = |(id, known, epoch): &(PartitionId, Option<LeaderEpoch>, LeaderEpoch)| {
        let partition = find(hosted, *id, *known)?;
        Ok(partition.log().epoch_end_offset(*epoch))
    };
    items.iter().map(end).collect()
}

/// Moves log starts up; answers the new ones.
pub async fn delete_records(
    hosted: &Hosted,
    items: &[(PartitionId, Offset)],
) -> Vec<Result<Offset, Refused>> {
    let mut results = Vec::with_capacity(items.len());
    for (id, before) in items {
        results.push(delete_before(hosted, *id, *before).await);
    }
    results
}

async fn delete_before(
    hosted: &Hosted,
    id: PartitionId,
    before: Offset,
) -> Result<Offset, Refused> {
    let partition = hosted.find(id)?;
    let marks = Marks::of(&partition);
    let before = if before == Offset(-1) {
        marks.high_watermark
    } else {
        before
    };
    if before < Offset(0) || before > marks.high_watermark {
        return Err(Refused::OffsetOutOfRange);
    }
    if before <= marks.log_start {
        return Ok(marks.log_start);
    }
    let moved = on_its_log(&partition, async |log| log.set_log_start(before).await).await;
    // It may have moved before something failed.
    let event = Event::LogStart(partition.log().log_start());
    hosted.step(&partition, now(), event, None, &mut Vec::new());
    match moved {
        Ok(()) => Ok(before),
        Err(error) => Err(refused("a log start could not be moved", &error)),
    }
}

/// Every log here.
pub fn describe_logs(hosted: &Hosted) -> Vec<LogRow> {
    let all = hosted.all().into_iter();
    all.map(|(id, partition)| LogRow {
        partition: id,
        dir: partition.dir(),
        bytes: partition.log().size_bytes(),
        future_lag: None,
    })
    .collect()
}

/// The producers of each partition.
pub fn describe_producers(
    hosted: &Hosted,
    items: &[PartitionId],
) -> Vec<Result<Vec<ProducerRow>, Refused>> {
    let rows = |id: &PartitionId| {
        let partition = hosted.find(*id)?;
        let leader = partition.leader.borrow();
        Ok(leader
            .producers()
            .iter()
            .map(|producer| ProducerRow {
                producer_id: producer.producer_id,
                epoch: producer.epoch,
                last_sequence: producer.last_sequence,
                last_timestamp: producer.last_timestamp,
            })
            .collect())
    };
    items.iter().map(rows).collect()
}
