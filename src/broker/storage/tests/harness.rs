//! What the tests share: a temporary directory, an executor, batches. Knows nothing of what is
//! tested.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use logic::ids::{LeaderEpoch, Offset, PartitionId, TopicId};
use reactor::Reactor;

use crate::storage::{
    AppendBatch, Log, LogConfig, Read, RecoveredLog, Recovery, Settings, Storage, recover,
};

/// A directory that vanishes with its owner.
pub struct TempDir(pub PathBuf);

impl TempDir {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("corelog-storage-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Self(path)
    }

    /// What a crash at this moment would leave: a copy, taken while the owner may go on.
    pub fn snapshot(&self) -> Self {
        let copy = Self::new();
        copy_dir(&self.0, &copy.0);
        copy
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

pub fn copy_dir(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            std::fs::create_dir_all(&target).expect("a directory");
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).expect("a copy");
        }
    }
}

/// Runs a task on an executor of its own and returns what it returns.
pub fn run<T, F, Fut>(work: F) -> T
where
    T: Send + 'static,
    F: FnOnce(Reactor) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
{
    let settings = reactor::Settings {
        name: "storage-test".into(),
        core: None,
        ring_entries: 256,
        spin_before_park: None,
    };
    let (send, receive) = mpsc::channel();
    let executor = reactor::start(settings, move |reactor| async move {
        drop(send.send(work(reactor).await));
    });
    let result = receive.recv();
    executor
        .expect("io_uring is available")
        .join()
        .expect("the executor runs");
    result.expect("the task ends")
}

pub fn small() -> Settings {
    Settings {
        wal_extent_bytes: 1 << 20,
        wal_bytes_max: 4 << 20,
        commit_bytes_max: 256 << 10,
        bypass_bytes_min: 64 << 10,
        unflushed_bytes_max: 256 << 10,
        backlog_bytes_max: 1 << 20,
        tail_cache_bytes: 4 << 20,
        disk_reserve_bytes: 0,
    }
}

pub fn config(segment_bytes: u32) -> LogConfig {
    LogConfig {
        segment_bytes,
        ..LogConfig::default()
    }
}

pub fn id(index: i32) -> PartitionId {
    PartitionId {
        topic: TopicId([9; 16]),
        index,
    }
}

/// A batch of `records` empty-keyed records as a producer would send it.
pub fn batch(records: usize, timestamp: i64, value: &[u8]) -> Vec<u8> {
    let mut builder = wire::records::BatchBuilder::new(wire::compression::Compression::None);
    for at in 0..records {
        builder.push(timestamp + at as i64, None, Some(value), &[]);
    }
    builder.finish().expect("a batch").to_vec()
}

pub fn append(log: &Log, records: usize, timestamp: i64, value: &[u8], flush: bool) -> Vec<u8> {
    let mut bytes = batch(records, timestamp, value);
    let base_offset = log.log_end();
    let leader_epoch = LeaderEpoch(0);
    let append = AppendBatch {
        bytes: &bytes,
        base_offset,
        leader_epoch,
        append_time: None,
        flush,
    };
    log.append(timestamp, &append).expect("an append");
    wire::batch::stamp(&mut bytes, base_offset.0, 0);
    bytes
}

/// Waits until everything appended is durable.
pub async fn durable(storage: &Storage, logs: &[Log]) {
    while logs.iter().any(|log| log.durable() < log.log_end()) {
        storage.progressed().await;
        assert!(
            storage.failed().is_none(),
            "the storage failed: {:?}",
            storage.failed()
        );
    }
}

/// Reads a log from its start, wherever the bytes are.
pub async fn read_all(reactor: &Reactor, log: &Log) -> Vec<u8> {
    read_from(reactor, log, log.log_start(), 100_000).await
}

pub async fn read_from(reactor: &Reactor, log: &Log, from: Offset, step: usize) -> Vec<u8> {
    let (mut all, mut offset) = (Vec::new(), from);
    while offset < log.log_end() {
        let bytes = read_step(reactor, log, offset, step).await;
        assert!(
            !bytes.is_empty(),
            "nothing at {offset:?} below {:?}",
            log.log_end()
        );
        offset = end_of(&bytes);
        all.extend_from_slice(&bytes);
    }
    all
}

pub async fn read_step(reactor: &Reactor, log: &Log, offset: Offset, step: usize) -> Vec<u8> {
    let end = log.log_end();
    let read = match log.read(offset, end, step, true).expect("in range") {
        Read::Lookup => log
            .read_slow(offset, end, step, true)
            .await
            .expect("readable"),
        read => read,
    };
    match read {
        Read::Memory(parts) => parts.concat(),
        Read::File {
            file,
            position,
            len,
            ..
        } => {
            let bytes = file.read_at(reactor, position, len).await.expect("a read");
            assert_eq!(bytes.len(), len);
            bytes.to_vec()
        }
        Read::Empty => Vec::new(),
        Read::Lookup => unreachable!("looked up"),
    }
}

/// One past the last offset; asserts that the bytes are whole batches with right checksums.
pub fn end_of(bytes: &[u8]) -> Offset {
    use logic::log::header::BatchHeader;
    let (mut at, mut end) = (0, Offset(0));
    while at < bytes.len() {
        let header = BatchHeader::read(&bytes[at..]).expect("a whole batch");
        let batch = &bytes[at..at + header.len as usize];
        assert!(wire::batch::crc_matches(batch));
        end = header.end_offset();
        at += header.len as usize;
    }
    end
}

/// A storage with small bounds in this directory.
pub async fn opened(reactor: &Reactor, dir: &Path) -> Storage {
    let opened = Storage::open(reactor, dir, 0, small()).await;
    opened.expect("opened")
}

pub fn recovered(dir: &Path) -> Recovery {
    recover(dir, &small()).expect("recovery")
}

pub async fn attach_all(storage: &Storage, logs: Vec<RecoveredLog>, config: LogConfig) -> Vec<Log> {
    let mut attached = Vec::new();
    for log in logs {
        attached.push(storage.attach(log, config).await.expect("attached"));
    }
    attached
}

/// Recovers a directory, checks each partition's content in order of index, and says what is there.
pub fn check_recovers(dir: &Path, expected: Vec<Vec<u8>>) {
    let recovery = recovered(dir);
    assert!(recovery.damaged.is_empty(), "{:?}", recovery.damaged);
    let dir = dir.to_owned();
    run(move |reactor| async move {
        let storage = opened(&reactor, &dir).await;
        let logs = attach_all(&storage, recovery.logs, config(100_000)).await;
        assert_eq!(logs.len(), expected.len());
        for (log, expected) in logs.iter().zip(&expected) {
            let got = read_all(&reactor, log).await;
            assert_eq!(got.len(), expected.len(), "partition {:?}", log.id());
            assert!(got == *expected, "partition {:?} has other bytes", log.id());
            assert_eq!(log.durable(), log.log_end());
        }
    });
}
