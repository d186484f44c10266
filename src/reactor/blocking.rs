//! Work that waits for the disk, on plain threads: before an executor runs, or beside one. Knows nothing
//! of what the work is. A door, like [`crate::file`]: a simulated disk stands behind another of the same
//! name.

use std::io::{self, Read};
use std::path::Path;
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::SystemTime;

use rustix::fs::Advice;

pub use std::fs;
pub use std::os::unix::fs::FileExt;

/// Runs all of `works` at the same time, one thread each, and gives what they return, in their order;
/// an error where one panicked.
pub fn together<T: Send>(works: Vec<impl FnOnce() -> T + Send>) -> Vec<thread::Result<T>> {
    thread::scope(|scope| {
        let threads: Vec<_> = works.into_iter().map(|work| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    })
}

/// Work that a thread does for itself.
type Work = Box<dyn FnOnce() + Send>;

/// None where the system refuses a thread.
static WORKER: LazyLock<Option<Sender<Work>>> = LazyLock::new(|| {
    let (worker, works) = channel::<Work>();
    let thread = thread::Builder::new().name("detached".into());
    let started = thread.spawn(move || works.into_iter().for_each(|work| work()));
    started.ok().map(|_| worker)
});

/// Has `work` done on a thread that does such work only, one after the other. Nobody waits for it; where the
/// system refuses a thread it is not done.
pub fn detached(work: impl FnOnce() + Send + 'static) {
    match &*WORKER {
        Some(worker) => drop(worker.send(Box::new(work))),
        None => eprintln!("warning: no thread for work in the background; the next start does it"),
    }
}

/// The first bytes of a file, `bytes_max` at most, from the disk itself, also where they were read before. What was
/// not flushed comes from memory.
pub fn read_anew(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    let mut content = Vec::new();
    file.take(bytes_max).read_to_end(&mut content)?;
    Ok(content)
}

/// Sets when a file was last changed.
pub fn set_modified(path: &Path, time: SystemTime) -> io::Result<()> {
    let file = fs::File::options().write(true).open(path)?;
    file.set_modified(time)
}

/// Bytes that may still be written to the file system on which a path lies.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
