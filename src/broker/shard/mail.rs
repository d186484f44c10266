//! What shards say to each other. Knows nothing of how it travels or who waits for the answer.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use logic::cluster::Record;
use logic::group::request::{ListedGroup, Reply, Request};
use logic::ids::{LeaderEpoch, Offset, PartitionId, Timestamp};
use logic::partition::leader::{Acks, Batch, Outcome};
use reactor::file::PageFile;

use super::controller::{Change, Changed};
use super::directories::DirId;
use super::gate::Admitted;

/// A shard's number, from 0. Shard 0 also accepts connections and holds the metadata log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub usize);

impl ShardId {
    /// The shard of the controller.
    pub const CONTROLLER: Self = Self(0);
}

/// One message in a shard's mailbox.
pub enum Mail {
    /// A connection placed on this shard.
    Connection(Placed),
    /// Work for a partition that this shard owns, or for the controller.
    Ask {
        /// Who asks.
        from: ShardId,
        /// The asker's name for it.
        id: u64,
        /// What.
        ask: Ask,
    },
    /// The answer to an earlier [`Mail::Ask`].
    Answer {
        /// The name given when asking.
        id: u64,
        /// The answer.
        answer: Answer,
    },
    /// Nobody waits for the answer to an earlier [`Ask::Watch`] any more.
    Unwatch {
        /// Who asked.
        from: ShardId,
        /// The name given when asking.
        id: u64,
    },
    /// A data directory has failed in another shard, and why.
    DirectoryFailed(DirId, Arc<str>),
    /// The broker stops: finish what was acknowledged and close.
    Stop,
}

/// An accepted connection on its way to the shard that will serve it.
pub struct Placed {
    /// The socket.
    pub fd: OwnedFd,
    /// The client's address.
    pub peer: SocketAddr,
    /// The local address that it connected to.
    pub local: SocketAddr,
    /// Its place among the counted connections.
    pub admitted: Admitted,
}

/// Work for the owner of some partitions.
pub enum Ask {
    /// Append batches, each to its partition.
    Produce(Acks, Vec<ProduceItem>),
    /// Read what is there now.
    Read(ReadLimits, Vec<ReadItem>),
    /// Answer when the high watermark of any of these passes the offset beside it, or at the
    /// deadline, in nanoseconds of the monotonic clock.
    Watch(Vec<(PartitionId, Offset)>, u64),
    /// Look offsets up.
    Offsets(Vec<OffsetItem>),
    /// Where epochs end (KIP-101): the partition, the epoch that the client knows to be current if
    /// it said one, and the epoch asked about.
    EpochEnds(Vec<(PartitionId, Option<LeaderEpoch>, LeaderEpoch)>),
    /// Move log starts up (DeleteRecords); -1 means the high watermark.
    DeleteRecords(Vec<(PartitionId, Offset)>),
    /// The size of every log that the shard owns.
    DescribeLogs,
    /// Move logs to other data directories.
    Move(Vec<(PartitionId, DirId)>),
    /// The producers of these partitions.
    DescribeProducers(Vec<PartitionId>),
    /// A question about a group, for the shard of the partition that holds it, by its index.
    Group(i32, Box<Request>),
    /// The groups coordinated here.
    ListGroups,
    /// A metadata change, for the controller.
    Change(Box<Change>),
    /// Metadata that the controller has made durable: apply it.
    Apply(Arc<Applied>),
}

/// A set of metadata records and where their new partitions go.
pub struct Applied {
    /// The records, in order.
    pub records: Vec<Record>,
    /// The owner of each new partition, and the directory that it goes to.
    pub placement: Vec<(PartitionId, ShardId, DirId)>,
}

/// One partition's part of a produce.
pub struct ProduceItem {
    /// Where.
    pub partition: PartitionId,
    /// The batch, checked, in the codec that the topic has.
    pub bytes: Bytes,
    /// What the leader needs to know of it.
    pub batch: Batch,
}

/// How much a read may return, in bytes over all its partitions.
#[derive(Clone, Copy)]
pub struct ReadLimits {
    /// Over all partitions; the first batch found is returned whole even above it.
    pub bytes_max: usize,
    /// No batch was returned before this read: the first one may exceed the limits.
    pub first_batch_whole: bool,
}

/// One partition's part of a fetch.
#[derive(Clone)]
pub struct ReadItem {
    /// Where.
    pub partition: PartitionId,
    /// From which offset.
    pub offset: Offset,
    /// At most this many bytes.
    pub bytes_max: usize,
    /// The leader epoch that the client knows, if it said one (KIP-320).
    pub current_epoch: Option<LeaderEpoch>,
}

/// Why a partition's request was refused. Each is one Kafka error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// UNKNOWN_TOPIC_OR_PARTITION, or the partition has just left this shard.
    UnknownPartition,
    /// OFFSET_OUT_OF_RANGE.
    OffsetOutOfRange,
    /// FENCED_LEADER_EPOCH: the client's epoch is older.
    FencedEpoch,
    /// UNKNOWN_LEADER_EPOCH: the client's epoch is newer.
    UnknownEpoch,
    /// KAFKA_STORAGE_ERROR.
    Storage,
    /// CORRUPT_MESSAGE: what is on the disk is not what was written.
    Damaged,
    /// REQUEST_TIMED_OUT or a broker that is stopping.
    Stopping,
}

/// What a read returned for one partition.
pub struct ReadResult {
    /// Records or why there are none.
    pub result: Result<Vec<Chunk>, Refused>,
    /// The high watermark when read; -1 with an error.
    pub high_watermark: Offset,
    /// The log start when read; -1 with an error.
    pub log_start: Offset,
    /// The last stable offset when read; -1 with an error.
    pub last_stable: Offset,
}

impl ReadResult {
    /// A partition that could not be read, and why.
    pub fn refused(why: Refused) -> Self {
        let unknown = Offset(-1);
        Self {
            result: Err(why),
            high_watermark: unknown,
            log_start: unknown,
            last_stable: unknown,
        }
    }

    /// How many record bytes it carries.
    pub fn bytes(&self) -> usize {
        self.result.iter().flatten().map(Chunk::len).sum()
    }
}

/// Bytes on their way to a socket.
#[derive(Clone)]
pub enum Chunk {
    /// In memory.
    Memory(Bytes),
    /// In a segment file, to be sent without passing through user space.
    File {
        /// The segment.
        file: PageFile,
        /// Where in it.
        position: u64,
        /// How many bytes.
        len: usize,
    },
}

impl Chunk {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::File { len, .. } => *len,
        }
    }

    /// Bytes of memory that it keeps alive. A range of a file keeps none.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::File { .. } => 0,
        }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One partition's offset look-up.
pub struct OffsetItem {
    /// Where.
    pub partition: PartitionId,
    /// What.
    pub query: OffsetQuery,
    /// The leader epoch that the client knows, if it said one.
    pub current_epoch: Option<LeaderEpoch>,
}

/// What ListOffsets can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetQuery {
    /// The log start (-2), and the local log start (-4): one and the same without tiers.
    Earliest,
    /// The high watermark (-1).
    Latest,
    /// The last stable offset (-1 under read_committed).
    LatestStable,
    /// The record with the largest timestamp (-3).
    MaxTimestamp,
    /// The first record at or after this time.
    At(Timestamp),
    /// What only exists with remote storage: the end of what is there (-5), the first that waits to go there (-6).
    Tiered,
}

/// An offset look-up's answer: nothing found is `None`.
pub type OffsetResult = Result<Option<FoundOffset>, Refused>;

/// A found offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOffset {
    /// The record's timestamp, or -1 where the query was for an end of the log.
    pub timestamp: Timestamp,
    /// The offset.
    pub offset: Offset,
    /// The epoch that wrote it, or that leads now.
    pub epoch: LeaderEpoch,
}

/// The answer to an [`Ask`], variant by variant and item by item in the order asked.
pub enum Answer {
    /// To [`Ask::Produce`].
    Produced(Vec<Result<Outcome, Refused>>),
    /// To [`Ask::Read`].
    Read(Vec<ReadResult>),
    /// To [`Ask::Watch`]: look again.
    Wake,
    /// To [`Ask::Offsets`].
    Offsets(Vec<OffsetResult>),
    /// To [`Ask::EpochEnds`]: the epoch and where it ends.
    EpochEnds(Vec<Result<(LeaderEpoch, Offset), Refused>>),
    /// To [`Ask::DeleteRecords`]: the new log start.
    Deleted(Vec<Result<Offset, Refused>>),
    /// To [`Ask::DescribeLogs`].
    Logs(Vec<LogRow>),
    /// To [`Ask::Move`]: whether each move has begun.
    Moving(Vec<Result<(), Refused>>),
    /// To [`Ask::DescribeProducers`].
    Producers(Vec<Result<Vec<ProducerRow>, Refused>>),
    /// To [`Ask::Group`].
    Group(Reply),
    /// To [`Ask::ListGroups`]: the groups, and whether others still load.
    Groups(Vec<ListedGroup>, bool),
    /// To [`Ask::Change`].
    Changed(Box<Changed>),
    /// To [`Ask::Apply`]: whether every new partition could be opened here.
    Applied(Result<(), String>),
}

/// One log, as DescribeLogDirs shows it.
pub struct LogRow {
    /// Whose.
    pub partition: PartitionId,
    /// Where it lies.
    pub dir: DirId,
    /// Bytes on disk.
    pub bytes: u64,
    /// For a copy that is on its way to take the log's place: by how many records it is behind.
    pub future_lag: Option<i64>,
}

/// One producer, as DescribeProducers shows it.
pub struct ProducerRow {
    /// The producer id.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// The last sequence appended, or -1.
    pub last_sequence: i32,
    /// The largest timestamp of its last batch, or -1.
    pub last_timestamp: i64,
}
