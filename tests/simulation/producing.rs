//! Batches as producers send them: keyed for compacted logs, of several producers, in several codecs. Knows
//! nothing of logs but what they expect next.

use bytes::Bytes;
use logic::ids::{LeaderEpoch, Offset};
use reactor::world::World;
use wire::Compression;

use crate::ghost::{GhostBatch, GhostLog};
use crate::kept::records;

const RECORD_BYTES_MAX: u64 = 1_500;
/// As much as two blocks of zeros at least, wherever they begin: zeros are content like any other.
const ZEROS: usize = 12 << 10;
const PRODUCERS: u64 = 3;
const KEYS: u64 = 12;

/// The next batch of a log: its bytes as sent, and as it must be read back.
pub fn batch(world: &World, log: &GhostLog, epoch: LeaderEpoch) -> (Bytes, GhostBatch) {
    let producer = world.one_in(2).then(|| {
        let id = 42 + world.below(PRODUCERS) as i64;
        (id, log.next_sequence(id))
    });
    let codec = if world.one_in(4) {
        Compression::Lz4
    } else {
        Compression::None
    };
    let mut builder = wire::records::BatchBuilder::new(codec);
    if let Some((id, sequence)) = producer {
        builder = builder.producer(id, 0, sequence);
    }
    let compacts = log.policy.compacts();
    let count = 1 + world.below(8) as i32;
    for _ in 0..count {
        let key = format!("key-{}", world.below(KEYS)).into_bytes();
        let value = value(world);
        let value = (!compacts || !world.one_in(5)).then_some(&value[..]);
        let timestamp = log.policy.times.next(world);
        builder.push(timestamp, compacts.then_some(&key[..]), value, &[]);
    }
    let sent = builder.finish().expect("a batch");
    let base = log.end();
    let mut stamped = sent.to_vec();
    wire::batch::stamp(&mut stamped, base.0, epoch.0);
    let bytes = Bytes::from(stamped);
    let records = records(&bytes);
    let batch = GhostBatch {
        base,
        end: Offset(base.0 + i64::from(count)),
        producer,
        max_timestamp: records.iter().map(|it| it.timestamp).max().unwrap_or(-1),
        appended_ms: world.wall_ms(),
        records,
        bytes,
    };
    (sent, batch)
}

fn value(world: &World) -> Vec<u8> {
    if world.one_in(100) {
        return vec![0; ZEROS];
    }
    vec![world.below(256) as u8; world.below(RECORD_BYTES_MAX) as usize]
}
