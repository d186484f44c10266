//! Reads assigned partitions from given offsets, without a group. Knows nothing of what records say.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Cluster, ConsumerConfig, Error, Route};
use wire::batch::{self, BatchView};
use wire::compression::Unfolding;
use wire::messages::fetch_request::{FetchPartition, FetchRequestData, FetchTopic};
use wire::messages::fetch_response::FetchResponseData;
use wire::records::{Record, Records};
use wire::{KafkaString, KafkaUuid};

/// From this version on Fetch names topics by id.
const FETCH_WITH_TOPIC_IDS: i16 = 13;
/// How long a partition that failed is left alone.
const FAILED_WAIT: Duration = Duration::from_millis(100);
/// What one batch may unfold to.
const UNFOLDED_BYTES_MAX: usize = 1 << 30;

/// A partition that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its number.
    pub partition: i32,
    /// The offset of the next record.
    pub offset: i64,
}

/// What a poll brought of one partition.
#[derive(Debug)]
pub struct Fetched {
    /// Which of the reader's positions.
    pub position: usize,
    /// The partition's high watermark.
    pub high_watermark: i64,
    /// Whole batches, from the position on.
    pub records: Bytes,
}

/// A reader.
#[derive(Debug)]
pub struct Reader {
    cluster: Cluster,
    settings: ConsumerConfig,
    positions: Vec<Position>,
    /// The partition that is asked for first, so that each gets its turn when answers are full.
    turn: usize,
}

impl Reader {
    /// A reader of these positions.
    pub fn new(cluster: Cluster, settings: ConsumerConfig, positions: Vec<Position>) -> Self {
        cluster.track(positions.iter().map(|position| &*position.topic));
        Self {
            cluster,
            settings,
            positions,
            turn: 0,
        }
    }

    /// Where it reads next.
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// Goes on at this offset.
    pub fn advance(&mut self, position: usize, offset: i64) {
        self.positions[position].offset = offset;
    }

    /// Asks each leader for what is there and waits for all answers. The positions stay until
    /// [`Reader::advance`].
    ///
    /// # Errors
    /// The first that any of them had; what others brought is brought again by the next poll.
    pub async fn poll(&mut self) -> Result<Vec<Fetched>, Error> {
        let polled = self.try_poll().await;
        if polled.is_err() {
            self.cluster.request_refresh();
            tokio::time::sleep(FAILED_WAIT).await;
        }
        polled
    }

    async fn try_poll(&mut self) -> Result<Vec<Fetched>, Error> {
        self.turn = (self.turn + 1) % self.positions.len().max(1);
        let mut answers = Vec::new();
        for leader in self.leaders()? {
            let connection = self.cluster.connection(Route::Node(leader)).await?;
            let version = connection.version::<FetchRequestData>()?;
            let request = self.request(leader, version);
            let timeout = self.settings.cluster.request_timeout + self.settings.fetch_max_wait;
            answers.push(connection.enqueue(version, &request, timeout)?);
        }
        let mut fetched = Vec::new();
        for answer in answers {
            self.take(answer.await?, &mut fetched)?;
        }
        Ok(fetched)
    }

    fn leader(&self, position: &Position) -> Option<i32> {
        let metadata = self.cluster.metadata();
        metadata
            .partition(&position.topic, position.partition)?
            .leader
    }

    fn leaders(&self) -> Result<Vec<i32>, Error> {
        let mut leaders = Vec::new();
        for position in &self.positions {
            let leader = self.leader(position).ok_or_else(|| Error::Timeout {
                what: format!("a leader of {}-{}", position.topic, position.partition).into(),
                waited: FAILED_WAIT,
                setting: "how often the reader asks again",
            })?;
            leaders.push(leader);
        }
        leaders.sort_unstable();
        leaders.dedup();
        Ok(leaders)
    }

    fn request(&self, leader: i32, version: i16) -> FetchRequestData {
        let mut topics: Vec<FetchTopic> = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        let (before, after) = self.positions.split_at(self.turn);
        for position in after.iter().chain(before) {
            if self.leader(position) != Some(leader) {
                continue;
            }
            let partition = FetchPartition::default()
                .with_partition(position.partition)
                .with_current_leader_epoch(-1)
                .with_fetch_offset(position.offset)
                .with_log_start_offset(-1)
                .with_partition_max_bytes(limit(self.settings.max_partition_fetch_bytes));
            match names.iter().position(|name| *name == &*position.topic) {
                Some(at) => topics[at].partitions.push(partition),
                None => {
                    names.push(&position.topic);
                    topics.push(self.topic(&position.topic, version, partition));
                }
            }
        }
        let max_wait_ms =
            i32::try_from(self.settings.fetch_max_wait.as_millis()).unwrap_or(i32::MAX);
        FetchRequestData::default()
            .with_replica_id(-1)
            .with_max_wait_ms(max_wait_ms)
            .with_min_bytes(limit(self.settings.fetch_min_bytes))
            .with_max_bytes(limit(self.settings.fetch_max_bytes))
            .with_session_epoch(-1)
            .with_topics(topics)
    }

    fn topic(&self, name: &str, version: i16, partition: FetchPartition) -> FetchTopic {
        let topic = FetchTopic::default().with_partitions(vec![partition]);
        if version < FETCH_WITH_TOPIC_IDS {
            return topic.with_topic(KafkaString::from(name.to_owned()));
        }
        let metadata = self.cluster.metadata();
        let id = metadata.topics.get(name).and_then(|topic| topic.id);
        topic.with_topic_id(id.unwrap_or(KafkaUuid::ZERO))
    }

    fn take(&self, answer: FetchResponseData, fetched: &mut Vec<Fetched>) -> Result<(), Error> {
        Error::check(answer.error_code, None, "a fetch")?;
        let metadata = self.cluster.metadata();
        for topic in answer.responses {
            let name = match metadata.topic_by_id(topic.topic_id) {
                Some(known) => known.name.clone(),
                None => Arc::from(topic.topic.as_str()),
            };
            for partition in topic.partitions {
                let number = partition.partition_index;
                Error::check(partition.error_code, None, format!("{name}-{number}"))?;
                let is_it = |it: &Position| it.topic == name && it.partition == number;
                if let Some(position) = self.positions.iter().position(is_it) {
                    fetched.push(Fetched {
                        position,
                        high_watermark: partition.high_watermark,
                        records: partition.records.unwrap_or_default(),
                    });
                }
            }
        }
        Ok(())
    }
}

fn limit(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

/// A record with its offset, or that the batch at this offset is damaged, and where the next begins.
#[derive(Debug)]
pub enum Item {
    /// A record.
    Record(i64, Record),
    /// Damage from the first offset up to, not with, the second.
    Damaged(i64, i64),
}

/// The records from `from` on, in order; control records are left out. Returns the offset behind them.
pub fn records(fetched: &Bytes, from: i64, mut each: impl FnMut(Item)) -> i64 {
    let mut next = from;
    let unfolding = Unfolding {
        output_bytes_max: UNFOLDED_BYTES_MAX,
        ratio_max: usize::MAX,
        ..Unfolding::default()
    };
    let mut batches = batch::split(fetched).peekable();
    while let Some(view) = batches.next() {
        let is_intact = batch::crc_matches(view.bytes);
        let end = if is_intact {
            view.header.last_offset().saturating_add(1)
        } else {
            damaged_end(&view, batches.peek(), next)
        };
        if end <= next {
            continue;
        }
        if !is_intact {
            each(Item::Damaged(next.max(view.header.base_offset()), end));
        } else if !view.header.is_control() {
            unfold(fetched, &view, next, end, &unfolding, &mut each);
        }
        next = end;
    }
    next
}

/// Where a batch ends whose checksum is wrong: what it says of itself may be the damage. The batch behind
/// it says where that one begins, for the checksum leaves the base offset out. Without one, the smaller of
/// its counts is believed, and at least one record, so that the reader gets past it. Either way there are
/// no more records than bytes.
fn damaged_end(view: &BatchView<'_>, following: Option<&BatchView<'_>>, next: i64) -> i64 {
    let base = view.header.base_offset();
    let behind = |records: i64| base.saturating_add(records);
    let end_max = behind(i64::try_from(view.bytes.len()).unwrap_or(i64::MAX));
    match following.map(|following| following.header.base_offset()) {
        Some(end) if end > base => end.min(end_max),
        _ => {
            let last = i64::from(view.header.last_offset_delta());
            let count = i64::from(view.header.record_count());
            behind(count.min(last + 1))
                .min(end_max)
                .max(next.saturating_add(1))
        }
    }
}

fn unfold(
    fetched: &Bytes,
    view: &BatchView<'_>,
    next: i64,
    end: i64,
    unfolding: &Unfolding,
    each: &mut impl FnMut(Item),
) {
    let base = view.header.base_offset();
    let bytes = fetched.slice_ref(view.bytes);
    let Ok(records) = Records::open(&bytes, unfolding) else {
        return each(Item::Damaged(next.max(base), end));
    };
    let mut at = base;
    for record in records {
        match record {
            Err(_) => return each(Item::Damaged(at.max(next), end)),
            Ok(record) => {
                at = base + i64::from(record.offset_delta);
                if at >= next {
                    each(Item::Record(at, record));
                }
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::Compression;
    use wire::batch::HEADER_BYTES;
    use wire::records::BatchBuilder;

    use super::*;

    /// Where `last_offset_delta` and the record count stand in a batch, 4 bytes each.
    const LAST_OFFSET_DELTA_AT: usize = 23;
    const RECORD_COUNT_AT: usize = HEADER_BYTES - 4;
    /// The highest bit of such a number but for its sign.
    const HIGH_BIT: u8 = 0x40;

    /// A batch of three records.
    fn three_records(base: i64) -> Vec<u8> {
        let mut batch = BatchBuilder::new(Compression::None);
        for value in [b"a", b"b", b"c"] {
            batch.push(0, None, Some(value), &[]);
        }
        let mut batch = batch.finish().expect("a batch").to_vec();
        batch::stamp(&mut batch, base, 0);
        batch
    }

    /// What is read from an offset on: the records' offsets, the damaged ranges, and where to go on.
    fn read(fetched: Vec<u8>, from: i64) -> (Vec<i64>, Vec<(i64, i64)>, i64) {
        let (mut offsets, mut damaged) = (Vec::new(), Vec::new());
        let next = records(&fetched.into(), from, |item| match item {
            Item::Record(offset, _) => offsets.push(offset),
            Item::Damaged(from, to) => damaged.push((from, to)),
        });
        (offsets, damaged, next)
    }

    #[test]
    fn a_flipped_bit_in_a_count_damages_no_more_than_the_batch() {
        for at in [LAST_OFFSET_DELTA_AT, RECORD_COUNT_AT] {
            let mut fetched = three_records(10);
            fetched[at] ^= HIGH_BIT;
            assert_eq!(read(fetched.clone(), 10), (vec![], vec![(10, 13)], 13));
            fetched.extend(three_records(13));
            let behind = (vec![13, 14, 15], vec![(10, 13)], 16);
            assert_eq!(read(fetched, 10), behind);
        }
    }

    #[test]
    fn two_flipped_bits_damage_no_more_records_than_the_batch_has_bytes() {
        let mut fetched = three_records(10);
        let bytes = fetched.len() as i64;
        fetched[LAST_OFFSET_DELTA_AT] ^= HIGH_BIT;
        fetched[RECORD_COUNT_AT] ^= HIGH_BIT;
        let end = 10 + bytes;
        assert_eq!(read(fetched, 10), (vec![], vec![(10, end)], end));
    }

    #[test]
    fn a_damaged_batch_that_says_it_is_short_is_got_past() {
        let mut fetched = three_records(10);
        fetched[LAST_OFFSET_DELTA_AT + 3] ^= 2;
        assert_eq!(read(fetched.clone(), 10), (vec![], vec![(10, 11)], 11));
        assert_eq!(read(fetched.clone(), 11), (vec![], vec![(11, 12)], 12));
        // What is behind it is not taken for damaged.
        fetched.extend(three_records(13));
        assert_eq!(read(fetched, 13), (vec![13, 14, 15], vec![], 16));
    }
}
