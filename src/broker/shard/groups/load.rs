//! Loading a partition's groups: reads its log from start to end by the way of any fetch. Knows nothing
//! of what records mean.

use std::fmt;
use std::io;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use logic::group::Event;
use logic::ids::{Offset, PartitionId};

use super::{records, step};
use crate::shard::Shard;
use crate::shard::mail::{Chunk, ReadItem, ReadLimits, Refused};
use crate::shard::reads;

/// Bytes read at once; between two reads others have their turn.
const READ_BYTES: usize = 256 * 1024;

/// Why a partition's groups cannot be had.
enum LoadError {
    Refused(Refused),
    File(io::Error),
    /// There is no whole batch where one begins.
    NoBatch(Offset),
}

impl fmt::Display for LoadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => write!(out, "its log cannot be read: {refused:?}"),
            Self::File(error) => write!(out, "a segment cannot be read: {error}"),
            Self::NoBatch(Offset(offset)) => write!(out, "there is no batch at offset {offset}"),
        }
    }
}

/// Begins to load. An empty log is loaded when this returns.
pub(super) fn begin(shard: &Rc<Shard>, id: PartitionId) {
    step(shard, Event::Load(id.index));
    let ends = shard.hosted.get(id).map(|partition| {
        let leader = partition.leader.borrow();
        (leader.log_start(), leader.high_watermark())
    });
    let Some((start, end)) = ends else {
        return step(shard, Event::Unload(id.index));
    };
    if start == end {
        return step(shard, Event::Loaded(id.index));
    }
    let shard = shard.clone();
    reactor::spawn(async move {
        match load(&shard, id, start, end).await {
            Ok(()) => {
                step(&shard, Event::Loaded(id.index));
                super::forget_deleted(&shard, id.index);
            }
            Err(error) => {
                eprintln!(
                    "error: groups of __consumer_offsets-{} cannot be loaded: {error}",
                    id.index
                );
                step(&shard, Event::Unload(id.index));
            }
        }
    });
}

async fn load(
    shard: &Rc<Shard>,
    id: PartitionId,
    start: Offset,
    end: Offset,
) -> Result<(), LoadError> {
    let limits = ReadLimits {
        bytes_max: READ_BYTES,
        first_batch_whole: true,
    };
    let mut offset = start;
    while offset < end {
        let item = ReadItem {
            partition: id,
            offset,
            bytes_max: READ_BYTES,
            current_epoch: None,
        };
        let results = reads::read_slowly(&shard.hosted, limits, &[item]).await;
        let result = results.into_iter().next();
        let chunks = result.map_or(Ok(Vec::new()), |it| it.result);
        let bytes = bytes(shard, chunks.map_err(LoadError::Refused)?).await?;
        let (records, next) = records::decode(&bytes).ok_or(LoadError::NoBatch(offset))?;
        step(shard, Event::Replay(id.index, records));
        offset = next;
    }
    Ok(())
}

/// What was read, in one piece.
async fn bytes(shard: &Shard, chunks: Vec<Chunk>) -> Result<Bytes, LoadError> {
    let mut out = BytesMut::new();
    for chunk in chunks {
        match chunk {
            Chunk::Memory(bytes) => out.extend_from_slice(&bytes),
            Chunk::File {
                file,
                position,
                len,
            } => {
                let mut done = 0;
                while done < len {
                    let at = position + done as u64;
                    let read = file.read_at(&shard.reactor, at, len - done).await;
                    let read = read.map_err(LoadError::File)?;
                    if read.is_empty() {
                        break;
                    }
                    done += read.len();
                    out.extend_from_slice(&read);
                }
            }
        }
    }
    Ok(out.freeze())
}
