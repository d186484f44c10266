//! Work that waits for the disk, on plain threads: before an executor runs, or beside one. Knows nothing
//! of what the work is. A door, like [`crate::file`]: a simulated disk stands behind another of the same
//! name.

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
