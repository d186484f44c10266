//! What an operator can set about groups of consumers, by Kafka's names. Knows nothing of what it does.

use alloc::string::String;
use alloc::vec::Vec;

/// Bounds that an operator can set.
#[derive(Clone, Debug)]
pub struct ConsumerSettings {
    /// `group.consumer.session.timeout.ms`.
    pub session_timeout_ms: u64,
    /// `group.consumer.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: i32,
    /// `group.consumer.max.size`.
    pub size_max: usize,
    /// `group.consumer.assignors`: those that members may ask for; the first is for those who do not ask.
    pub assignors: Vec<Assignor>,
}

/// A way to share out partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assignor {
    /// Everybody gets as much, and keeps what it has as far as that goes.
    Uniform,
    /// Of each topic everybody gets neighbouring partitions, of topics alike the same ones.
    Range,
}

impl Assignor {
    /// All that there are.
    pub const ALL: [Self; 2] = [Self::Uniform, Self::Range];

    /// Kafka's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

impl ConsumerSettings {
    /// The assignor of this name, if members may ask for it.
    pub(super) fn assignor(&self, name: &str) -> Option<Assignor> {
        Assignor::named(name).filter(|it| self.assignors.contains(it))
    }

    /// The assignor for those who do not ask.
    pub(super) fn default_assignor(&self) -> Assignor {
        self.assignors.first().copied().unwrap_or(Assignor::Uniform)
    }

    /// The names of those that members may ask for.
    pub(super) fn assignor_names(&self) -> String {
        let names: Vec<&str> = self.assignors.iter().map(|it| it.name()).collect();
        names.join(", ")
    }
}
