//! Kafka's older names for some defaults of topic configs, in coarser units: `log.retention.hours`
//! beside `log.retention.ms`. Only a broker's file may hold them; the finest that is set wins.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};

use super::value::Kind;

/// One such name.
#[derive(Clone, Copy, Debug)]
pub struct Coarser {
    /// The name.
    pub name: &'static str,
    /// The broker's name for the same in milliseconds.
    pub of: &'static str,
    /// Milliseconds of one unit.
    pub unit_ms: i64,
    /// What it may hold.
    pub kind: Kind,
}

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// Every such name; of two for one config the finer is first.
pub const COARSER: &[Coarser] = &[
    Coarser {
        name: "log.retention.minutes",
        of: "log.retention.ms",
        unit_ms: MINUTE_MS,
        kind: Kind::Int(-1, i32::MAX),
    },
    Coarser {
        name: "log.retention.hours",
        of: "log.retention.ms",
        unit_ms: HOUR_MS,
        kind: Kind::Int(-1, i32::MAX),
    },
    Coarser {
        name: "log.roll.hours",
        of: "log.roll.ms",
        unit_ms: HOUR_MS,
        kind: Kind::Int(1, i32::MAX),
    },
    Coarser {
        name: "log.roll.jitter.hours",
        of: "log.roll.jitter.ms",
        unit_ms: HOUR_MS,
        kind: Kind::Int(0, i32::MAX),
    },
];

/// The setting of this name.
pub fn find(name: &str) -> Option<&'static Coarser> {
    COARSER.iter().find(|coarser| coarser.name == name)
}

impl Coarser {
    /// The value as it is kept, or what is wrong with it.
    pub fn check(&self, value: &str) -> Result<String, String> {
        let checked = self.kind.check(value.trim());
        checked.map_err(|problem| format!("`{value}` will not do: {problem}"))
    }

    /// A value of this setting in milliseconds; below zero means the same in every unit.
    pub(super) fn in_ms(&self, value: &str) -> Option<Cow<'static, str>> {
        let units: i64 = self.kind.check(value).ok()?.parse().ok()?;
        let ms = if units < 0 {
            units
        } else {
            units.saturating_mul(self.unit_ms)
        };
        Some(Cow::Owned(ms.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_hours_and_forever_is_forever() {
        let hours = find("log.retention.hours").expect("known");
        assert_eq!(hours.in_ms("168").as_deref(), Some("604800000"));
        assert_eq!(hours.in_ms("-1").as_deref(), Some("-1"));
        assert_eq!(hours.in_ms("-2"), None);
    }

    #[test]
    fn each_is_of_a_config_with_that_name() {
        for coarser in COARSER {
            assert!(super::super::find_by_broker_name(coarser.of).is_some());
        }
    }
}
