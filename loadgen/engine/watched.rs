//! What can be seen of the broker's CPU time and memory. Knows nothing of runs.

use crate::machine::process::{self, Used};
use crate::null_broker::NullBroker;

/// The broker, as far as it can be watched.
#[derive(Clone, Debug, Default)]
pub enum Watched {
    /// Not at all.
    #[default]
    Nothing,
    /// A process of this machine.
    Process(u32),
    /// A null broker among this process's threads.
    Null(NullBroker),
}

impl Watched {
    /// The process, if it is one of its own.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Process(pid) => Some(*pid),
            Self::Nothing | Self::Null(_) => None,
        }
    }

    /// What it has used so far.
    pub fn used(&self) -> Option<Used> {
        match self {
            Self::Nothing => None,
            Self::Process(pid) => process::used(*pid),
            Self::Null(broker) => Some(Used {
                cpu: broker.cpu(),
                rss_bytes: None,
            }),
        }
    }

    /// CPU time of this process so far, without the broker's part.
    pub fn cpu_beside(&self) -> std::time::Duration {
        let all = process::own_cpu();
        match self {
            Self::Nothing | Self::Process(_) => all,
            Self::Null(broker) => all.saturating_sub(broker.cpu()),
        }
    }
}
