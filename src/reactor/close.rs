//! Closing files without waiting for it. The last close of a file whose name is gone frees its blocks, which
//! can take the file system hundreds of milliseconds: a thread of its own does it, not an executor.
//! Knows nothing of what files hold.

use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// A file's descriptor, closed elsewhere when it is dropped.
#[derive(Debug)]
pub(crate) struct Descriptor(ManuallyDrop<OwnedFd>);

impl From<OwnedFd> for Descriptor {
    fn from(fd: OwnedFd) -> Self {
        Self(ManuallyDrop::new(fd))
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: this is the only place that takes it, and it is not used again.
        let fd = unsafe { ManuallyDrop::take(&mut self.0) };
        match &*CLOSER {
            // As many can wait as files were open. When the thread is gone, it is closed by the failure.
            Some(closer) => drop(closer.send(fd)),
            None => drop(fd),
        }
    }
}

/// None where the system refuses a thread: then each closes its own.
static CLOSER: LazyLock<Option<Sender<OwnedFd>>> = LazyLock::new(|| {
    let (closer, closed) = channel();
    let thread = thread::Builder::new().name("closer".into());
    let started = thread.spawn(move || closed.into_iter().for_each(drop::<OwnedFd>));
    started.ok().map(|_| closer)
});
