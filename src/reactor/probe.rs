//! What this machine offers to the reactor, and what to do where it falls short. Knows nothing of
//! configuration.

use std::fs;
use std::io;

use io_uring::IoUring;

/// Why there is no io_uring here, with the remedy in its text.
pub fn uring_available() -> Result<(), String> {
    match IoUring::new(8) {
        Ok(_) => Ok(()),
        Err(error) => Err(explain(&error)),
    }
}

/// Makes and drops a ring as the reactor makes it, to learn the error if there is one.
pub(crate) fn try_ring(entries: u32) -> io::Result<()> {
    let ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)?;
    drop(ring);
    Ok(())
}

/// The cause and the remedy of a refused ring.
pub fn explain(error: &io::Error) -> String {
    let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    let disabled = disabled.trim();
    match error.raw_os_error() {
        Some(libc::EPERM) if disabled != "0" && !disabled.is_empty() => format!(
            "io_uring is switched off (kernel.io_uring_disabled = {disabled}); as root run: \
             sysctl -w kernel.io_uring_disabled=0"
        ),
        Some(libc::EPERM) => {
            "io_uring is blocked, most likely by the container's seccomp profile; \
             allow io_uring_setup, io_uring_enter and io_uring_register there"
                .to_owned()
        }
        Some(libc::ENOSYS) => {
            "this kernel has no io_uring; corelog needs Linux 6.1 or newer".to_owned()
        }
        Some(libc::ENOMEM) => "io_uring needs more locked memory than `ulimit -l` allows; raise \
             RLIMIT_MEMLOCK (LimitMEMLOCK=infinity in a systemd unit)"
            .to_owned(),
        _ => format!("io_uring could not be set up: {error}"),
    }
}
