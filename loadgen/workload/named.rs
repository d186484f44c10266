//! The workloads that are compiled in. Knows their texts only.

macro_rules! named {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../workloads/", $name, ".toml")))),*]
    };
}

/// Each workload's name and text.
pub const ALL: &[(&str, &str)] = named![
    "steady",
    "small-keyed",
    "bulk-64k",
    "many-partitions",
    "hot-partition",
    "fifty-producers",
    "fan-out",
    "catch-up",
    "mixed",
    "verify",
];

/// The workload of this name.
pub fn find(name: &str) -> Option<(&'static str, &'static str)> {
    ALL.iter().find(|(known, _)| *known == name).copied()
}
