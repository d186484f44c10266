//! What an operator can set about groups of consumers, by Kafka's names. Knows nothing of what it does.

use alloc::string::String;
use alloc::vec::Vec;

/// Bounds that an operator can set.
#[derive(Clone, Debug)]
pub struct ConsumerSettings {
    /// What holds for groups without configs of their own.
    pub times: Times,
    /// `group.consumer.max.size`.
    pub size_max: usize,
    /// `group.consumer.assignors`: those that members may ask for; the first is for those who do not ask.
    pub assignors: Vec<Assignor>,
    /// `group.consumer.migration.policy`.
    pub migration: MigrationPolicy,
}

/// The durations that hold for a group; a group may have its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// `group.consumer.session.timeout.ms`: a member that is silent for so long is out.
    pub session_timeout_ms: u64,
    /// `group.consumer.heartbeat.interval.ms`: how soon a member is to be heard again.
    pub heartbeat_interval_ms: i32,
    /// `group.consumer.assignment.interval.ms`: partitions are not shared out again before so long (KIP-1263).
    pub assignment_interval_ms: u64,
}

/// Which way a group that has members may change its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationPolicy {
    /// No way.
    Disabled,
    /// From the classic protocol to the new one.
    Upgrade,
    /// From the new protocol to the classic one.
    Downgrade,
    /// Both ways.
    Bidirectional,
}

impl MigrationPolicy {
    /// All that there are.
    pub const ALL: [Self; 4] = [
        Self::Disabled,
        Self::Upgrade,
        Self::Downgrade,
        Self::Bidirectional,
    ];

    /// Kafka's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Upgrade => "upgrade",
            Self::Downgrade => "downgrade",
            Self::Bidirectional => "bidirectional",
        }
    }

    /// The one of this name, however it is written.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|it| it.name().eq_ignore_ascii_case(name))
    }

    pub(in crate::group) fn allows_upgrade(self) -> bool {
        matches!(self, Self::Upgrade | Self::Bidirectional)
    }

    pub(in crate::group) fn allows_downgrade(self) -> bool {
        matches!(self, Self::Downgrade | Self::Bidirectional)
    }
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
