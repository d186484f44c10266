//! The stage of a produce that brings batches into the codecs of their topics (`compression.type`), before they
//! are enqueued. Knows nothing of who sent them or who leads their partitions.

use std::rc::Rc;

use bytes::Bytes;
use reactor::compute;
use wire::batch::CheckedBatch;
use wire::compression::{Compression, Unfolding};
use wire::records::refold::{self, RefoldError, refold};

use crate::shard::Shard;
use crate::shard::budget::Reserved;
use crate::shard::metadata::Codec;

/// What takes longer, about, is done on another thread: others have their turn meanwhile. To hand it over and be
/// woken costs a twentieth of it.
const AT_ONCE_NANOS_MAX: u64 = 1_000_000;
/// What unfolding takes at most, about, in nanoseconds for each byte that comes of it.
const UNFOLD_NANOS_PER_BYTE: u64 = 2;

/// A checked batch on its way into its topic's codec.
pub(super) struct Incoming {
    pub batch: CheckedBatch,
    /// What is held against `max.message.bytes`: its length as sent or in the topic's codec, whichever is larger.
    pub judged_bytes: u32,
    /// The codec that it is to get.
    codec: Option<Codec>,
}

impl Incoming {
    /// A batch for a topic. One that is too large as it was sent is left to be refused so.
    pub fn new(batch: CheckedBatch, codec: Option<Codec>) -> Self {
        let is_other = |codec: &Codec| {
            codec.folding.compression != batch.compression
                && batch.bytes.len() <= codec.message_bytes_max
        };
        Self {
            judged_bytes: length(&batch.bytes),
            codec: codec.filter(is_other),
            batch,
        }
    }

    /// Memory that it takes in the new codec, at most.
    fn bytes_max(&self) -> usize {
        self.codec.map_or(0, |codec| {
            refold::bytes_max(&self.batch, codec.folding).min(codec.message_bytes_max)
        })
    }

    fn nanos(&self, codec: &Codec) -> u64 {
        let bytes = self.batch.unfolded_bytes;
        let unfolding = match self.batch.compression {
            Compression::None => 0,
            _ => (bytes as u64).saturating_mul(UNFOLD_NANOS_PER_BYTE),
        };
        codec.folding.nanos(bytes).saturating_add(unfolding)
    }

    async fn fold(&mut self, shard: &Shard, codec: Codec, unfolding: Unfolding) {
        let at_once = self.nanos(&codec) <= AT_ONCE_NANOS_MAX;
        let batch = self.batch.clone();
        let work = move || refold(&batch, codec.folding, &unfolding, codec.message_bytes_max);
        let folded = if at_once {
            let folded = work();
            reactor::yield_now().await;
            folded
        } else {
            compute::elsewhere(&shard.reactor, work).await
        };
        match folded {
            Ok(bytes) => {
                self.judged_bytes = self.judged_bytes.max(length(&bytes));
                self.batch.bytes = bytes;
            }
            // Its leader refuses it: larger than anything that is allowed.
            Err(RefoldError::TooLarge) => self.judged_bytes = u32::MAX,
            Err(error @ RefoldError::Records(_)) => {
                let compression = codec.folding.compression;
                eprintln!(
                    "warning: a batch stays as it was sent, {compression:?} cannot be written: {error}"
                );
            }
        }
    }
}

/// Brings each batch into its topic's codec, one after the other, and gives the memory that they take then. Waits
/// until there is enough for all: no request that has some waits for more.
pub(super) async fn fold_all<'a>(
    shard: &Rc<Shard>,
    incoming: impl Iterator<Item = &'a mut Incoming>,
    unfolding: Unfolding,
) -> Option<Reserved> {
    let others: Vec<(&mut Incoming, Codec)> = incoming
        .filter_map(|it| it.codec.map(|codec| (it, codec)))
        .collect();
    if others.is_empty() {
        return None;
    }
    let bytes_max = others.iter().map(|(it, _)| it.bytes_max()).sum();
    let mut reserved = shard.budget_folded.reserve(bytes_max).await;
    let mut held = 0;
    for (it, codec) in others {
        it.fold(shard, codec, unfolding).await;
        held += it.batch.bytes.len();
    }
    reserved.shrink_to(held);
    Some(reserved)
}

fn length(bytes: &Bytes) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}
