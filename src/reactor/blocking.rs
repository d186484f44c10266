//! Work that waits for the disk, on plain threads: before an executor runs, or beside one. Knows nothing
//! of what the work is. A door, like [`crate::file`]: a simulated disk stands behind another of the same
//! name.

use std::io;
use std::path::Path;
use std::time::SystemTime;

pub use std::fs;
pub use std::os::unix::fs::FileExt;

/// Runs all of `works` at the same time, one thread each, and gives what they return, in their order;
/// an error where one panicked.
pub fn together<T: Send>(works: Vec<impl FnOnce() -> T + Send>) -> Vec<std::thread::Result<T>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = works.into_iter().map(|work| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    })
}

/// Runs `work` on a thread of its own, for which nobody waits.
pub fn detached(work: impl FnOnce() + Send + 'static) {
    std::thread::spawn(work);
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
