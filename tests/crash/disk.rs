//! A file system on a disk whose power can be cut: the device's process, a loop device over its file,
//! and the mount. Knows nothing of brokers.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::block::{self, FileSystem, LoopDevice, Mount};
use crate::device;

/// How this program is told to be the device's process.
pub const SERVE: &str = "--serve-device";
/// XFS wants 300 MiB at least.
const DISK_BYTES: usize = 512 << 20;

/// What survives of the sectors that no flush has covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    All,
    None,
    Half,
}

impl Keep {
    pub const EACH: [Self; 3] = [Self::None, Self::Half, Self::All];

    fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::None => "none",
            Self::Half => "half",
        }
    }
}

/// Why no such disk can be made here, if so.
pub fn missing(file_systems: &[FileSystem]) -> Option<String> {
    let fuse = fs::File::options().read(true).write(true).open("/dev/fuse");
    match fuse {
        Ok(_) => block::missing(file_systems),
        Err(error) => Some(format!("/dev/fuse: {error}")),
    }
}

/// A disk with its file system, mounted unless its power is cut. All of it goes with its owner.
pub struct Disk {
    pub file_system: FileSystem,
    // In the order in which they must go.
    mount: Option<Mount>,
    device: Device,
    directory: Directory,
}

impl Disk {
    /// A new one with an empty file system.
    pub fn new(file_system: FileSystem) -> Self {
        let directory = Directory::new();
        let mut disk = Self {
            file_system,
            mount: None,
            device: Device::start(&directory.device()),
            directory,
        };
        let made = disk.attach();
        made.format(file_system).expect("a file system");
        disk.mount(made);
        disk
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.directory.mounted()
    }

    /// From now on each flush takes so long.
    pub fn delay_flushes(&mut self, ms: u64) {
        self.device.tell(&format!("flush delay {ms}"));
    }

    /// Lets flushes fail from one on, for a while: from the next one if `number` is 1.
    pub fn fail_flush(&mut self, number: u64) {
        self.device.tell(&format!("flush fail {number}"));
    }

    /// Cuts the power; says what became of what was not flushed.
    pub fn cut(&mut self, keep: Keep, seed: u64) -> String {
        self.device.tell(&format!("cut {} {seed}", keep.name()))
    }

    /// Gives it power again and mounts it. Nobody may use what was mounted before.
    pub fn power_on(&mut self) {
        self.mount = None;
        self.device.tell("on");
        let device = self.attach();
        self.mount(device);
    }

    fn attach(&self) -> LoopDevice {
        let file = self.directory.device().join(device::FILE);
        LoopDevice::attach(&file).expect("a loop device")
    }

    fn mount(&mut self, device: LoopDevice) {
        let mount = Mount::new(device, self.file_system, &self.path());
        self.mount = Some(mount.expect("the file system is whole"));
    }
}

/// Where all of it is mounted. Removed with its owner, which unmounts first.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static DISKS: AtomicUsize = AtomicUsize::new(0);
        let number = DISKS.fetch_add(1, Ordering::Relaxed);
        let name = format!("corelog-{}-disk-{number}", std::process::id());
        let directory = Self(std::env::temp_dir().join(name));
        for part in [directory.device(), directory.mounted()] {
            fs::create_dir_all(part).expect("a directory of one's own");
        }
        directory
    }

    fn device(&self) -> PathBuf {
        self.0.join("device")
    }

    fn mounted(&self) -> PathBuf {
        self.0.join("mounted")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Only what is empty: nothing that is still mounted.
        for part in [self.device(), self.mounted(), self.0.clone()] {
            let _ = fs::remove_dir(part);
        }
    }
}

/// The process that is the device.
struct Device {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    mountpoint: PathBuf,
}

impl Device {
    fn start(mountpoint: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .arg(SERVE)
            .arg(mountpoint)
            .arg(DISK_BYTES.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut device = Self {
            input: process.stdin.take(),
            output: BufReader::new(process.stdout.take().expect("piped")),
            process,
            mountpoint: mountpoint.to_owned(),
        };
        assert_eq!(device.hear(), "ready");
        device
    }

    fn tell(&mut self, what: &str) -> String {
        let input = self.input.as_mut().expect("it runs");
        writeln!(input, "{what}").expect("it listens");
        self.hear()
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        line.trim_end().to_owned()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Without input it ends.
        self.input = None;
        let _ = self.process.wait();
        block::unmount(&self.mountpoint);
    }
}
