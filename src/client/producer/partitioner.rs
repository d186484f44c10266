//! Which partition a record goes to. Pure.

use crate::cluster::Topic;

/// Chooses partitions in place of the default rule.
pub trait Partitioner: Send + Sync {
    /// A partition of the topic; `None` leaves the record to the default rule for records without key.
    fn partition(&self, topic: &Topic, key: Option<&[u8]>, value: Option<&[u8]>) -> Option<i32>;
}

impl<F> Partitioner for F
where
    F: Fn(&Topic, Option<&[u8]>, Option<&[u8]>) -> Option<i32> + Send + Sync,
{
    fn partition(&self, topic: &Topic, key: Option<&[u8]>, value: Option<&[u8]>) -> Option<i32> {
        self(topic, key, value)
    }
}

/// The partition that every Kafka client of the Java family gives to a key.
pub fn partition_for_key(key: &[u8], partitions: i32) -> i32 {
    (murmur2(key) & i32::MAX) % partitions.max(1)
}

/// The 32-bit hash MurmurHash2 with the seed of Kafka's clients.
pub fn murmur2(data: &[u8]) -> i32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    let mut hash = SEED ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let word = word
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        let word = word.wrapping_mul(M);
        let word = (word ^ (word >> R)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ word;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= rest
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    (hash ^ (hash >> 15)).cast_signed()
}

/// The partition that records without key stick to, until as many bytes as a batch holds went there
/// (KIP-480, KIP-794).
#[derive(Debug)]
pub(super) struct Sticky {
    partition: Option<i32>,
    bytes: usize,
    /// State of a xorshift generator: spreading needs no better randomness.
    random: u64,
}

impl Sticky {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            partition: None,
            bytes: 0,
            random: seed | 1,
        }
    }

    /// Where the next record without key goes. Partitions with a leader come first.
    pub(super) fn partition(&mut self, topic: &Topic) -> i32 {
        if let Some(partition) = self.partition {
            return partition;
        }
        let led = topic.partitions.iter().filter(|it| it.leader.is_some());
        let led: Vec<i32> = led.map(|it| it.index).collect();
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let choose = |count: usize| (self.random >> 16) as usize % count.max(1);
        let partition = match led.get(choose(led.len())) {
            Some(partition) => *partition,
            None => choose(topic.partitions.len()) as i32,
        };
        self.partition = Some(partition);
        partition
    }

    /// Notes bytes that went to the sticky partition; `closed` when they ended a batch. The partition
    /// changes only between batches, or every change would leave a batch behind that is not full.
    pub(super) fn wrote(&mut self, bytes: usize, batch_size: usize, closed: bool) {
        self.bytes += bytes;
        if self.bytes >= batch_size && closed || self.bytes >= batch_size.saturating_mul(2) {
            self.bytes = 0;
            self.partition = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Partition;

    /// What `org.apache.kafka.common.utils.Utils.murmur2` of kafka-clients 4.4.0 returns.
    const JAVA: [(&[u8], i32); 8] = [
        (b"", 275_646_681),
        (b"a", -1_563_381_124),
        (b"ab", 316_155_434),
        (b"abc", 479_470_107),
        (b"abcd", -1_323_649_548),
        (b"21", -973_932_308),
        (b"foobar", -790_332_482),
        (b"\xff\x80\x00\x7f\xfe", 768_357_719),
    ];

    #[test]
    fn keys_hash_as_in_java() {
        for (key, hash) in JAVA {
            assert_eq!(murmur2(key), hash, "{key:?}");
        }
    }

    #[test]
    fn ten_thousand_keys_go_where_java_sends_them() {
        let mut fold = 0_i64;
        for i in 0..10_000 {
            let partition = partition_for_key(format!("key-{i}").as_bytes(), 1 + i % 17);
            fold = fold.wrapping_mul(31).wrapping_add(i64::from(partition));
        }
        assert_eq!(
            fold, 7_685_625_412_072_520_670,
            "folded by the same rule in Java"
        );
    }

    fn topic(leaders: &[Option<i32>]) -> Topic {
        let partition = |(index, leader): (i32, &Option<i32>)| Partition {
            index,
            leader: *leader,
            leader_epoch: 0,
            replicas: Vec::new(),
            in_sync: Vec::new(),
            offline: Vec::new(),
        };
        Topic {
            name: "t".into(),
            id: None,
            is_internal: false,
            partitions: (0..).zip(leaders).map(partition).collect(),
            error: None,
        }
    }

    #[test]
    fn without_a_key_a_partition_is_kept_for_a_batch_and_all_get_their_share() {
        let topic = topic(&[Some(1), Some(1), Some(1), Some(1)]);
        let mut sticky = Sticky::new(7);
        let mut counts = [0; 4];
        for _ in 0..1_000 {
            let first = sticky.partition(&topic);
            sticky.wrote(500, 1_000, false);
            assert_eq!(sticky.partition(&topic), first, "half a batch");
            sticky.wrote(500, 1_000, true);
            counts[first as usize] += 1;
        }
        assert!(
            counts.iter().all(|count| (200..300).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_partition_without_leader_is_left_alone_while_others_have_one() {
        let partly = topic(&[None, Some(1), None]);
        let mut sticky = Sticky::new(3);
        for _ in 0..20 {
            assert_eq!(sticky.partition(&partly), 1);
            sticky.wrote(1_000, 1_000, true);
        }
        let none = topic(&[None, None, None]);
        assert!((0..3).contains(&sticky.partition(&none)));
    }
}
