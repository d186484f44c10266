//! Why the broker does not start, each reason in one message with its remedy. Knows nothing of how
//! it would have started.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::config::Faults;
use crate::data_dir::DataDirError;

/// Why the broker does not start.
#[derive(Debug)]
pub enum StartError {
    /// Settings are unknown or wrong.
    Settings(Faults),
    /// The data directory cannot be used.
    DataDir(DataDirError),
    /// Nobody can listen on the address, or this user cannot.
    Listen {
        /// The address.
        address: SocketAddr,
        /// The machine's answer.
        error: io::Error,
    },
    /// There is no space for what must be written at a start.
    DiskFull {
        /// Where.
        path: PathBuf,
        /// Bytes that are free there, if known.
        free: Option<u64>,
        /// Bytes that are needed, if known.
        need: Option<u64>,
    },
    /// There is no io_uring; the text holds cause and remedy.
    Uring(String),
    /// The rings need more locked memory than this user may have.
    LockedMemory {
        /// Bytes that are needed.
        need: u64,
        /// Bytes that may be had.
        had: u64,
    },
    /// Too few files may be open at once.
    OpenFiles {
        /// How many are needed to start.
        need: u64,
        /// How many may be had.
        had: u64,
    },
    /// Reading or writing what is kept failed.
    Storage {
        /// Where.
        path: PathBuf,
        /// The machine's answer.
        error: io::Error,
    },
    /// A shard's executor did not start, or ended.
    Shard {
        /// Which.
        shard: usize,
        /// What it said.
        error: io::Error,
    },
    /// Anything else, in words.
    Other(String),
}

impl StartError {
    /// A failed read or write below `path`; a full disk is told as one.
    pub fn storage(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        if error.kind() == io::ErrorKind::StorageFull {
            let (free, need) = (None, None);
            return Self::DiskFull { path, free, need };
        }
        Self::Storage { path, error }
    }
}

impl From<Faults> for StartError {
    fn from(faults: Faults) -> Self {
        Self::Settings(faults)
    }
}

impl From<DataDirError> for StartError {
    fn from(error: DataDirError) -> Self {
        match error {
            DataDirError::Io { path, error, .. } if error.kind() == io::ErrorKind::StorageFull => {
                Self::storage(&path, error)
            }
            error => Self::DataDir(error),
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(faults) => write!(out, "{faults}"),
            Self::DataDir(error) => write!(out, "{error}"),
            Self::Listen { address, error } => listen_text(out, *address, error),
            Self::DiskFull { path, free, need } => {
                write!(out, "the disk of {} is full", path.display())?;
                if let (Some(free), Some(need)) = (free, need) {
                    let (free, need) = (Bytes(*free), Bytes(*need));
                    write!(out, ": {free} are free and a start writes {need}")?;
                }
                write!(
                    out,
                    "; free space there, or choose another disk with --data"
                )
            }
            Self::Uring(cause) => write!(out, "{cause}"),
            Self::LockedMemory { need, had } => write!(
                out,
                "io_uring needs {} of locked memory and this user may have {}; raise it \
                 (`ulimit -l`, or LimitMEMLOCK=infinity in a systemd unit), or run fewer shards \
                 with --shards",
                Bytes(*need),
                Bytes(*had)
            ),
            Self::OpenFiles { need, had } => write!(
                out,
                "a start needs {need} open files and this process may have {had}; raise it \
                 (`ulimit -n 65536`, or LimitNOFILE=65536 in a systemd unit), or run fewer shards \
                 with --shards"
            ),
            Self::Storage { path, error } => write!(
                out,
                "reading or writing below {} failed: {error}; see to the disk (`dmesg` may tell \
                 more), or choose another directory with --data",
                path.display()
            ),
            Self::Shard { shard, error } => write!(
                out,
                "shard {shard} cannot run: {error}; `corelog check` says what this machine lacks"
            ),
            Self::Other(text) => write!(out, "{text}"),
        }
    }
}

impl std::error::Error for StartError {}

fn listen_text(
    out: &mut fmt::Formatter<'_>,
    address: SocketAddr,
    error: &io::Error,
) -> fmt::Result {
    let port = address.port();
    match error.kind() {
        io::ErrorKind::AddrInUse => write!(
            out,
            "{address} is taken by another process (`ss -ltnp 'sport = :{port}'` says which); \
             stop it, or choose another address with --listen"
        ),
        io::ErrorKind::AddrNotAvailable => write!(
            out,
            "{} is not an address of this machine; choose one with --listen, or 0.0.0.0 for all, \
             and set with --advertise what clients are told",
            address.ip()
        ),
        io::ErrorKind::PermissionDenied => write!(
            out,
            "this user may not listen on port {port}; choose one above 1023 with --listen"
        ),
        _ => write!(
            out,
            "cannot listen on {address}: {error}; choose another address with --listen"
        ),
    }
}

/// A number of bytes, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            (1 << 40, "TiB"),
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1 << 10, "KiB"),
        ];
        match units.iter().find(|(size, _)| self.0 >= *size) {
            Some((size, unit)) => {
                let tenths = u128::from(self.0) * 10 / u128::from(*size);
                match (tenths / 10, tenths % 10) {
                    (whole, 0) => write!(out, "{whole} {unit}"),
                    (whole, tenth) => write!(out, "{whole}.{tenth} {unit}"),
                }
            }
            None => write!(out, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_told_with_its_remedy() {
        let first = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = first.local_addr().expect("bound");
        let error = std::net::TcpListener::bind(address).expect_err("taken");
        let text = StartError::Listen { address, error }.to_string();
        assert!(
            text.contains("is taken") && text.contains("--listen"),
            "{text}"
        );
    }

    #[test]
    fn every_refusal_is_one_line_with_what_to_do() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let denied = io::ErrorKind::PermissionDenied.into();
        let away = io::ErrorKind::AddrNotAvailable.into();
        let texts = [
            (StartError::storage(Path::new("d"), full()), "--data"),
            (
                DataDirError::Io {
                    doing: "write",
                    path: "d".into(),
                    error: full(),
                }
                .into(),
                "free space",
            ),
            (
                StartError::Listen {
                    address,
                    error: denied,
                },
                "above 1023",
            ),
            (
                StartError::Listen {
                    address,
                    error: away,
                },
                "0.0.0.0",
            ),
            (
                StartError::LockedMemory {
                    need: 400 << 10,
                    had: 64 << 10,
                },
                "ulimit -l",
            ),
            (StartError::OpenFiles { need: 160, had: 64 }, "ulimit -n"),
            (
                StartError::Shard {
                    shard: 1,
                    error: full(),
                },
                "corelog check",
            ),
        ];
        for (error, remedy) in texts {
            let text = error.to_string();
            assert!(text.contains(remedy) && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn bytes_are_rounded_down_for_people() {
        let texts = [0, 1023, 1024, 1536, (1 << 40) - 1, u64::MAX].map(|n| Bytes(n).to_string());
        let wanted = [
            "0 bytes",
            "1023 bytes",
            "1 KiB",
            "1.5 KiB",
            "1023.9 GiB",
            "16777215.9 TiB",
        ];
        assert_eq!(texts, wanted);
    }
}
