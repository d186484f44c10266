//! A data directory with much in it, as a start finds it: filled through the broker, and not in the page
//! cache. Knows nothing of what the batches hold.

use std::fs::File;
use std::path::Path;

use bytes::Bytes;
use client::direct::{Acks, Connection};

/// Produces a batch of each number below `batches` to each partition, all acknowledged, with so many of one
/// partition unanswered at a time; `batch` gives the one of a number.
pub async fn fill(
    connection: &mut Connection,
    (topic, partitions): (&str, i32),
    (batches, in_flight): (u64, i32),
    batch: impl Fn(u64) -> Bytes,
) {
    let mut unanswered = 0;
    for number in 0..batches {
        let batch = batch(number);
        for partition in 0..partitions {
            if unanswered == in_flight * partitions {
                connection.answer_produce().await.expect("it is written");
                unanswered -= 1;
            }
            let asked = connection.ask_produce(topic, partition, Acks::All, batch.clone());
            asked.await.expect("it is sent");
            unanswered += 1;
        }
    }
    for _ in 0..unanswered {
        connection.answer_produce().await.expect("it is written");
    }
}

/// Calls `each` with every file below.
pub fn files_below(directory: &Path, each: &mut impl FnMut(&Path)) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files_below(&path, each);
        } else {
            each(&path);
        }
    }
}

/// Drops what the page cache holds of every file below, so that a start reads from the disk.
pub fn forget_cached(directory: &Path) {
    files_below(directory, &mut |path| {
        let file = File::open(path).expect("a file");
        file.sync_all().expect("it is flushed");
        let forgotten = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        forgotten.expect("the cache is told");
    });
}
