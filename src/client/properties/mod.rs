//! Kafka's client properties: names and text in, typed settings out. All that is wrong is told at once,
//! each with the nearest name that exists. Knows nothing of what settings do.

mod admin;
mod cluster;
mod consumer;
mod producer;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

pub use admin::AdminConfig;
pub use consumer::{AutoOffsetReset, ConsumerConfig, GroupProtocol, IsolationLevel};
pub use producer::{Acks, ProducerConfig};

use crate::Error;

/// Names of properties, and their values as text.
pub type Properties = BTreeMap<String, String>;

/// How far a name may be from one that exists to be taken for it (Jaro-Winkler).
const SIMILARITY_MIN: f64 = 0.8;

/// Takes settings out of properties and notes what is wrong.
struct Reader<'a> {
    given: &'a Properties,
    known: Vec<&'static str>,
    faults: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(given: &'a Properties) -> Self {
        Self {
            given,
            known: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn text(&mut self, name: &'static str) -> Option<&'a str> {
        self.known.push(name);
        self.given.get(name).map(|value| value.trim())
    }

    /// What `parse` makes of the value, or the default; `expected` says what it would have liked.
    fn parsed<T>(
        &mut self,
        name: &'static str,
        default: T,
        expected: impl Display,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> T {
        let Some(text) = self.text(name) else {
            return default;
        };
        parse(text).unwrap_or_else(|| {
            let fault = format!("{name}: expected {expected}, got \"{text}\"");
            self.faults.push(fault);
            default
        })
    }

    fn integer(&mut self, name: &'static str, default: i64, range: RangeInclusive<i64>) -> i64 {
        let expected = if *range.end() == i64::MAX {
            format!("a number from {} up", range.start())
        } else {
            format!("a number from {} to {}", range.start(), range.end())
        };
        let parse = |text: &str| text.parse().ok().filter(|it| range.contains(it));
        self.parsed(name, default, expected, parse)
    }

    /// A number of bytes or records.
    fn size(&mut self, name: &'static str, default: usize, range: RangeInclusive<i64>) -> usize {
        let value = self.integer(name, i64::try_from(default).unwrap_or(i64::MAX), range);
        usize::try_from(value).unwrap_or(usize::MAX)
    }

    fn millis(&mut self, name: &'static str, default: Duration, min: i64) -> Duration {
        let default = i64::try_from(default.as_millis()).unwrap_or(i64::MAX);
        let value = self.integer(name, default, min..=i64::from(i32::MAX));
        Duration::from_millis(value.unsigned_abs())
    }

    fn flag(&mut self, name: &'static str, default: bool) -> bool {
        self.choice(name, default, &[("true", true), ("false", false)])
    }

    fn choice<T: Clone>(&mut self, name: &'static str, default: T, choices: &[(&str, T)]) -> T {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let parse = |text: &str| {
            let found = choices.iter().find(|(it, _)| it.eq_ignore_ascii_case(text));
            found.map(|(_, value)| value.clone())
        };
        self.parsed(name, default, format!("one of {}", names.join(", ")), parse)
    }

    fn fault(&mut self, fault: impl Into<String>) {
        self.faults.push(fault.into());
    }

    fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// What was read, unless something is wrong or a name was never asked for.
    fn finish<T>(mut self, settings: T) -> Result<T, Error> {
        for name in self.given.keys() {
            if !self.known.contains(&&**name) {
                self.faults.push(self.unknown(name));
            }
        }
        if self.faults.is_empty() {
            Ok(settings)
        } else {
            Err(Error::Config(self.faults))
        }
    }

    fn unknown(&self, name: &str) -> String {
        let similar = self
            .known
            .iter()
            .map(|it| (strsim::jaro_winkler(it, name), *it));
        let nearest = similar.max_by(|a, b| a.0.total_cmp(&b.0));
        match nearest.filter(|(similarity, _)| *similarity >= SIMILARITY_MIN) {
            Some((_, nearest)) => format!("{name}: no such property; did you mean {nearest}?"),
            None => format!("{name}: no such property"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(given: &[(&str, &str)]) -> Properties {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        given.iter().map(pair).collect()
    }

    fn faults<T>(read: Result<T, Error>) -> Vec<String> {
        match read {
            Err(Error::Config(faults)) => faults,
            _ => Vec::new(),
        }
    }

    const BOOTSTRAP: (&str, &str) = ("bootstrap.servers", "a:1, b:2");

    #[test]
    fn nothing_but_servers_gives_the_defaults_of_kafka_4() {
        let given = properties(&[BOOTSTRAP]);
        let producer = ProducerConfig::from_properties(&given).expect("valid");
        assert_eq!(producer, ProducerConfig::to("a:1,b:2"));
        assert_eq!(producer.linger, Duration::from_millis(5));
        assert_eq!(
            (producer.acks, producer.enable_idempotence),
            (Acks::All, true)
        );
        let consumer = ConsumerConfig::from_properties(&given).expect("valid");
        assert_eq!(consumer, ConsumerConfig::to("a:1,b:2"));
        assert_eq!(consumer.auto_offset_reset, AutoOffsetReset::Latest);
        let admin = AdminConfig::from_properties(&given).expect("valid");
        assert_eq!(admin, AdminConfig::to("a:1,b:2"));
    }

    #[test]
    fn all_faults_are_told_at_once_with_the_nearest_name() {
        let given = properties(&[
            BOOTSTRAP,
            ("linger.sm", "5"),
            ("acks", "2"),
            ("batch.size", "-1"),
            ("zzz", "1"),
        ]);
        assert_eq!(
            faults(ProducerConfig::from_properties(&given)),
            [
                "acks: expected one of all, -1, 1, 0, got \"2\"",
                "batch.size: expected a number from 0 to 2147483647, got \"-1\"",
                "linger.sm: no such property; did you mean linger.ms?",
                "zzz: no such property",
            ]
        );
    }

    #[test]
    fn idempotence_gives_way_to_settings_that_rule_it_out_unless_it_was_asked_for() {
        let quiet = properties(&[BOOTSTRAP, ("acks", "1")]);
        let config = ProducerConfig::from_properties(&quiet).expect("valid");
        assert!(!config.enable_idempotence);
        let given = properties(&[
            BOOTSTRAP,
            ("acks", "1"),
            ("enable.idempotence", "true"),
            ("max.in.flight.requests.per.connection", "6"),
        ]);
        assert_eq!(
            faults(ProducerConfig::from_properties(&given)),
            [
                "acks: enable.idempotence needs all",
                "max.in.flight.requests.per.connection: enable.idempotence allows 5 at most",
            ]
        );
    }

    #[test]
    fn a_delivery_takes_no_less_than_waiting_and_one_request() {
        let given = properties(&[BOOTSTRAP, ("delivery.timeout.ms", "30004")]);
        assert_eq!(
            faults(ProducerConfig::from_properties(&given)),
            ["delivery.timeout.ms: must be at least linger.ms + request.timeout.ms (30005)"]
        );
    }

    #[test]
    fn without_a_server_there_is_nothing_to_talk_to() {
        let fault = "bootstrap.servers: expected host:port, comma separated; none is given";
        assert_eq!(
            faults(AdminConfig::from_properties(&Properties::new())),
            [fault]
        );
        let given = properties(&[("bootstrap.servers", "a:1,b")]);
        let fault = "bootstrap.servers: expected host:port, got \"b\"";
        assert_eq!(faults(AdminConfig::from_properties(&given)), [fault]);
    }
}
