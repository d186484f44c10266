//! The data directories as all shards see them: which are online, how many partitions each has, which
//! partitions cannot be served. What every shard does when one fails: its own partitions there go offline, and
//! nothing else. Knows neither files nor what else is in a directory.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use logic::ids::PartitionId;

use super::mail::{Mail, ShardId};
use super::{Shard, groups};
use crate::storage::Storage;

/// A data directory's number, in the order of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirId(pub usize);

impl DirId {
    /// The directory with the metadata.
    pub const METADATA: Self = Self(0);
}

/// All data directories, shared by the shards.
pub struct Directories {
    all: Vec<Directory>,
    /// Partitions that are not served: what holds them is offline, or they are damaged.
    offline: RwLock<HashSet<PartitionId>>,
}

struct Directory {
    /// As DescribeLogDirs names it.
    path: PathBuf,
    /// Never set again once it is not.
    online: AtomicBool,
    /// Partitions that are served from it.
    partitions: AtomicUsize,
}

impl Directories {
    /// Directories by their absolute paths, each online or not, and the partitions that are offline.
    pub fn new(all: Vec<(PathBuf, bool)>, offline: HashSet<PartitionId>) -> Arc<Self> {
        let all = all.into_iter().map(|(path, online)| Directory {
            path,
            online: AtomicBool::new(online),
            partitions: AtomicUsize::new(0),
        });
        Arc::new(Self {
            all: all.collect(),
            offline: RwLock::new(offline),
        })
    }

    /// Every directory's number.
    pub fn ids(&self) -> impl Iterator<Item = DirId> + use<> {
        (0..self.all.len()).map(DirId)
    }

    /// The directory of this path, as DescribeLogDirs names it or by another name for the same.
    pub fn find(&self, path: &str) -> Option<DirId> {
        let wanted = Path::new(path);
        let is_it = |known: &Path| known.components().eq(wanted.components());
        self.ids().find(|id| is_it(self.path(*id)))
    }

    /// A directory's path.
    pub fn path(&self, id: DirId) -> &Path {
        &self.all[id.0].path
    }

    /// Whether a directory is used.
    pub fn is_online(&self, id: DirId) -> bool {
        self.all[id.0].online.load(Ordering::Acquire)
    }

    /// Takes a directory offline for good; whether it was online until now.
    pub fn set_offline(&self, id: DirId) -> bool {
        self.all[id.0].online.swap(false, Ordering::AcqRel)
    }

    /// Whether a partition is there and cannot be served.
    pub fn is_partition_offline(&self, id: PartitionId) -> bool {
        let offline = self.offline.read().unwrap_or_else(PoisonError::into_inner);
        offline.contains(&id)
    }

    /// A partition cannot be served any more.
    pub fn take_partition_offline(&self, id: PartitionId) {
        let mut offline = self.offline.write().unwrap_or_else(PoisonError::into_inner);
        offline.insert(id);
    }

    /// A partition is no more.
    pub fn forget_partition(&self, id: PartitionId) {
        let mut offline = self.offline.write().unwrap_or_else(PoisonError::into_inner);
        offline.remove(&id);
    }

    /// A partition is served from a directory now.
    pub fn add(&self, id: DirId) {
        self.all[id.0].partitions.fetch_add(1, Ordering::AcqRel);
    }

    /// It no longer is.
    pub fn subtract(&self, id: DirId) {
        self.all[id.0].partitions.fetch_sub(1, Ordering::AcqRel);
    }

    /// Says where new partitions go.
    pub fn spread(&self) -> Spread {
        let counted = |id: DirId| {
            let count = self.all[id.0].partitions.load(Ordering::Acquire);
            self.is_online(id).then_some(count)
        };
        Spread(self.ids().map(counted).collect())
    }
}

/// How many partitions each directory has that is online.
pub struct Spread(Vec<Option<usize>>);

impl Spread {
    /// Directories with so many partitions each; none for one that is offline.
    pub fn of(counts: Vec<Option<usize>>) -> Self {
        Self(counts)
    }

    /// The directory for one more partition: as in Kafka that with the fewest. None when none is online.
    pub fn place(&mut self) -> Option<DirId> {
        let online = (0..).zip(&mut self.0);
        let online = online.filter_map(|(number, count)| Some((number, count.as_mut()?)));
        let (number, count) = online.min_by_key(|(number, count)| (**count, *number))?;
        *count += 1;
        Some(DirId(number))
    }
}

/// Begins to follow the shard's disks.
pub(super) fn start(shard: &Rc<Shard>) {
    for (dir, storage) in shard.storages() {
        let (at, storage) = (shard.clone(), storage.clone());
        let to_fail = (shard.clone(), storage.clone());
        reactor::spawn(async move { follow(&at, dir, &storage).await });
        reactor::spawn(async move {
            let (shard, storage) = to_fail;
            let why = storage.until_failed().await;
            failed(&shard, dir, &why);
        });
    }
    // What could not be opened here, or in another shard before this one could hear of it.
    for dir in shard.directories.ids() {
        if !shard.directories.is_online(dir) {
            let why = "it could not be opened";
            tell_others(shard, dir, why);
            failed(shard, dir, why);
        }
    }
}

async fn follow(shard: &Rc<Shard>, dir: DirId, storage: &Storage) {
    loop {
        let moved = storage.progressed().await;
        let failed = storage.failed().is_some();
        let mut owed = Vec::new();
        // One may have left meanwhile, and be better off where it is.
        let is_here = |id: &PartitionId| shard.hosted.get(*id).is_some_and(|it| it.dir() == dir);
        for id in moved.into_iter().filter(is_here) {
            shard.hosted.progressed(id, failed, &mut owed);
        }
        shard.deliver(owed);
    }
}

/// A directory has failed, here or in another shard: nothing in it is acknowledged or served before a restart
/// (invariant 29), and all that is in other directories goes on.
pub(super) fn failed(shard: &Rc<Shard>, dir: DirId, why: &str) {
    let directories = &shard.directories;
    if directories.set_offline(dir) {
        let path = directories.path(dir).display();
        eprintln!(
            "error: data directory {path} has failed, what is in it is offline until a restart: {why}"
        );
        tell_others(shard, dir, why);
    }
    if let Some(storage) = shard.storage(dir) {
        storage.stop(why);
    }
    let mut owed = Vec::new();
    for (id, partition) in shard.hosted.all() {
        if partition.dir() == dir {
            directories.take_partition_offline(id);
            shard.hosted.remove(id, &mut owed);
            groups::leave(shard, id);
        }
    }
    shard.deliver(owed);
}

fn tell_others(shard: &Rc<Shard>, dir: DirId, why: &str) {
    for other in (0..shard.shards())
        .map(ShardId)
        .filter(|it| *it != shard.id)
    {
        shard.mail(other, Mail::DirectoryFailed(dir, why.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_partitions_go_to_the_online_directory_with_the_fewest() {
        let mut spread = Spread::of(vec![Some(2), None, Some(0)]);
        let placed: Vec<_> = (0..5).map(|_| spread.place().map(|it| it.0)).collect();
        assert_eq!(placed, [2, 2, 0, 2, 0].map(Some));
        assert_eq!(Spread::of(vec![None, None]).place(), None);
    }

    #[test]
    fn a_directory_fails_once_and_counts_no_more() {
        let directories = Directories::new(
            vec![("/a".into(), true), ("/b".into(), true)],
            HashSet::new(),
        );
        directories.add(DirId(1));
        assert!(directories.set_offline(DirId(0)), "the first to say so");
        assert!(!directories.set_offline(DirId(0)), "others need not");
        assert_eq!(directories.spread().place(), Some(DirId(1)));
    }
}
