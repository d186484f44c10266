//! A file as a block device with a file system on it: loop device, mkfs, mount, and the way back. Needs
//! root, and says what is missing where it cannot work. Knows nothing of what is written there.
#![allow(dead_code, reason = "each test needs some of it")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// CAP_SYS_ADMIN, a bit of the capabilities in /proc.
const ADMIN: u64 = 1 << 21;
/// How long a dead process may hold on to its files.
const LET_GO_MAX: Duration = Duration::from_secs(10);

/// What a disk is formatted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    Ext4,
    Xfs,
}

impl FileSystem {
    fn mkfs(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Ext4 => ("mkfs.ext4", &["-q", "-F", "-E", "nodiscard"]),
            Self::Xfs => ("mkfs.xfs", &["-q", "-f", "-K"]),
        }
    }

    /// As mount(8) calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }
}

/// Why no disk can be made here, if so: to be printed by a test that then proves nothing.
pub fn missing(file_systems: &[FileSystem]) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rights = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|rights| u64::from_str_radix(rights.trim(), 16).ok());
    if rights.unwrap_or(0) & ADMIN == 0 {
        return Some("this needs root: it mounts file systems".to_owned());
    }
    let control = fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/loop-control");
    if let Err(error) = control {
        return Some(format!("/dev/loop-control: {error}"));
    }
    file_systems.iter().find_map(|file_system| {
        let (program, _) = file_system.mkfs();
        let asked = Command::new(program).arg("-V").output();
        let error = asked.err()?;
        Some(format!(
            "{program}: {error} (apt-get install e2fsprogs xfsprogs)"
        ))
    })
}

/// A loop device over a file; detached with its owner.
pub struct LoopDevice(PathBuf);

impl LoopDevice {
    /// Attaches a free one.
    pub fn attach(file: &Path) -> io::Result<Self> {
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(file)
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other("losetup found no device"));
        }
        let name = String::from_utf8_lossy(&output.stdout);
        Ok(Self(PathBuf::from(name.trim())))
    }

    /// Makes a file system on all of it.
    pub fn format(&self, file_system: FileSystem) -> io::Result<()> {
        let (program, arguments) = file_system.mkfs();
        run(Command::new(program).args(arguments).arg(&self.0))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = run(Command::new("losetup").arg("-d").arg(&self.0));
    }
}

/// A mounted file system; unmounted with its owner.
pub struct Mount {
    at: PathBuf,
    /// Detached after the unmounting.
    _device: LoopDevice,
}

impl Mount {
    /// Mounts what is on a device, at a directory that exists.
    pub fn new(device: LoopDevice, file_system: FileSystem, at: &Path) -> io::Result<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", file_system.name()]).arg(&device.0);
        run(mount.arg(at))?;
        Ok(Self {
            at: at.to_owned(),
            _device: device,
        })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        unmount(&self.at);
    }
}

/// Unmounts, and if something goes on using it, takes at least its name away. A process that was killed
/// may have let go of its files a little later than it has ended: its ring is taken down behind it.
pub fn unmount(at: &Path) {
    let begun = Instant::now();
    let umount = || run(Command::new("umount").arg(at).stderr(Stdio::null()));
    while umount().is_err() {
        if begun.elapsed() > LET_GO_MAX {
            let _ = run(Command::new("umount").arg("-l").arg(at));
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let status = command.stdin(Stdio::null()).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("{command:?}: {status}")))
    }
}
