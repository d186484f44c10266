//! The one table of settings: each one's key (in files as it stands, as a flag with two dashes before
//! it), its default, what it is for, and how its text is read. Knows nothing of files and flags.

use super::keys::{self, KeyChoice};
use super::payload::{self, SizeChoice};
use super::{Acks, Arrivals, Configs, GroupProtocol, Workload, quantity};

/// The compressions, by Kafka's names.
pub const COMPRESSIONS: &[&str] = &["none", "gzip", "snappy", "lz4", "zstd"];

/// One setting.
pub struct Setting {
    /// Its key.
    pub key: &'static str,
    /// Its value when nobody says otherwise.
    pub default: &'static str,
    /// What is written for its value in help.
    pub form: &'static str,
    /// What it is for.
    pub help: &'static str,
    read: Read,
}

enum Read {
    /// One value.
    One(fn(&mut Workload, &str) -> Result<(), String>),
    /// A table of Kafka configs.
    Configs(fn(&mut Workload) -> &mut Configs),
}

impl Setting {
    /// Whether the setting is a table of Kafka configs: `--key config=value`, as often as needed.
    pub fn is_table(&self) -> bool {
        matches!(self.read, Read::Configs(_))
    }

    /// Puts a value into the workload.
    ///
    /// # Errors
    /// What would be right instead.
    pub fn apply(&self, workload: &mut Workload, value: &str) -> Result<(), String> {
        match self.read {
            Read::One(read) => read(workload, value),
            Read::Configs(configs) => {
                let (config, value) = value
                    .split_once('=')
                    .ok_or_else(|| format!("must be CONFIG=VALUE, not {value:?}"))?;
                let (config, value) = (config.trim().to_owned(), value.trim().to_owned());
                configs(workload).insert(config, value);
                Ok(())
            }
        }
    }
}

/// The setting of this key.
pub fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

macro_rules! setting {
    ($key:literal, $default:expr, $form:expr, $help:literal, $read:expr) => {
        Setting {
            key: $key,
            default: $default,
            form: $form,
            help: $help,
            read: Read::One($read),
        }
    };
}

macro_rules! configs {
    ($key:literal, $help:literal, $field:ident) => {
        Setting {
            key: $key,
            default: "",
            form: "CONFIG=VALUE",
            help: $help,
            read: Read::Configs(|workload| &mut workload.$field),
        }
    };
}

/// Every setting, in the order in which people think of them.
pub const SETTINGS: &[Setting] = &[
    setting!("description", "", "TEXT", "One line for people", |w, v| {
        w.description = v.to_owned();
        Ok(())
    }),
    setting!(
        "rate",
        "max",
        "RATE|max",
        "Records per second of all producers together (open loop), or max: as fast as acknowledgements come (closed loop)",
        |w, v| {
            w.rate = if v == "max" {
                None
            } else {
                Some(quantity::rate(v)?)
            };
            Ok(())
        }
    ),
    setting!(
        "arrivals",
        "constant",
        ARRIVALS,
        "When records are due, in an open loop",
        |w, v| {
            w.arrivals = arrivals(v)?;
            Ok(())
        }
    ),
    setting!(
        "in-flight",
        "1000",
        "N",
        "In a closed loop: unacknowledged records per producer",
        |w, v| {
            w.in_flight = number(v, 1, 1_000_000)?;
            Ok(())
        }
    ),
    setting!("duration", "30s", "TIME", "How long is measured", |w, v| {
        w.duration = quantity::time(v)?;
        if w.duration.is_zero() {
            Err("must be above zero".to_owned())
        } else {
            Ok(())
        }
    }),
    setting!(
        "warm-up",
        "5s",
        "TIME",
        "How long before that the load runs unmeasured",
        |w, v| {
            w.warm_up = quantity::time(v)?;
            Ok(())
        }
    ),
    setting!(
        "drain",
        "10s",
        "TIME",
        "How long acknowledgements and consumers are waited for at the end",
        |w, v| {
            w.drain = quantity::time(v)?;
            Ok(())
        }
    ),
    setting!("topics", "1", "N", "How many topics", |w, v| {
        w.topics = number(v, 1, 100_000)?;
        Ok(())
    }),
    setting!(
        "partitions",
        "8",
        "N",
        "How many partitions each topic has",
        |w, v| {
            w.partitions = number(v, 1, 100_000)?.cast_signed();
            Ok(())
        }
    ),
    setting!(
        "replication-factor",
        "default",
        "N|default",
        "The topics' replication factor",
        |w, v| {
            w.replication_factor = match v {
            "default" => -1,
            number => number.parse().ok().filter(|factor| *factor > 0).ok_or_else(|| {
                format!("must be a number above 0, or default for the broker's own, not {number:?}")
            })?,
        };
            Ok(())
        }
    ),
    setting!(
        "topic-prefix",
        "loadgen",
        "NAME",
        "What the topics' names begin with",
        |w, v| {
            w.topic_prefix = v.to_owned();
            Ok(())
        }
    ),
    configs!(
        "topic-config",
        "A config of the topics, by Kafka's name",
        topic_config
    ),
    setting!(
        "keep-topics",
        "false",
        "true|false",
        "Leave the topics when the run is over",
        |w, v| {
            w.keep_topics = v
                .parse()
                .map_err(|_| format!("must be true or false, not {v:?}"))?;
            Ok(())
        }
    ),
    setting!("producers", "1", "N", "How many producers", |w, v| {
        w.producers = number(v, 1, 10_000)?;
        Ok(())
    }),
    setting!(
        "acks",
        "all",
        "all|1|0",
        "Whose acknowledgement is waited for",
        |w, v| {
            w.acks = match v {
                "all" | "-1" => Acks::All,
                "1" => Acks::Leader,
                "0" => Acks::None,
                _ => return Err(format!("must be all, 1 or 0, not {v:?}")),
            };
            Ok(())
        }
    ),
    setting!(
        "compression",
        "none",
        "none|gzip|snappy|lz4|zstd",
        "compression.type",
        |w, v| {
            if !COMPRESSIONS.contains(&v) {
                return Err(format!(
                    "must be one of {}, not {v:?}",
                    COMPRESSIONS.join(", ")
                ));
            }
            w.compression = v.to_owned();
            Ok(())
        }
    ),
    configs!(
        "producer-config",
        "A further config of the producers, by Kafka's name",
        producer_config
    ),
    setting!(
        "payload-size",
        "1KiB",
        payload::FORMS,
        "How large values are",
        |w, v| {
            w.payload_size = SizeChoice::parse(v)?;
            Ok(())
        }
    ),
    setting!(
        "compressibility",
        "0.3",
        "SHARE",
        "How much of a value a compressor can remove, between 0 and 1",
        |w, v| {
            w.compressibility = quantity::share(v)?;
            Ok(())
        }
    ),
    setting!(
        "keys",
        "none",
        keys::FORMS,
        "Which keys records have",
        |w, v| {
            w.keys = KeyChoice::parse(v)?;
            Ok(())
        }
    ),
    setting!(
        "groups",
        "1",
        "N",
        "How many groups of consumers read everything",
        |w, v| {
            w.groups = number(v, 0, 1_000)?;
            Ok(())
        }
    ),
    setting!(
        "consumers",
        "1",
        "N",
        "How many consumers each group has",
        |w, v| {
            w.consumers = number(v, 0, 10_000)?;
            Ok(())
        }
    ),
    setting!(
        "group-protocol",
        "none",
        "none|classic",
        "Who deals a group's partitions out: the generator, or the broker's coordinator",
        |w, v| {
            w.group_protocol = match v {
                "none" => GroupProtocol::None,
                "classic" => GroupProtocol::Classic,
                _ => return Err(format!("must be none or classic, not {v:?}")),
            };
            Ok(())
        }
    ),
    configs!(
        "consumer-config",
        "A further config of the consumers, by Kafka's name",
        consumer_config
    ),
    setting!(
        "backlog",
        "0",
        "SIZE",
        "How much is produced before consumers start",
        |w, v| {
            w.backlog_bytes = quantity::bytes(v)?;
            Ok(())
        }
    ),
    setting!(
        "threads",
        "0",
        "N",
        "How many threads; 0 for one per core",
        |w, v| {
            w.threads = number(v, 0, 1_024)?;
            Ok(())
        }
    ),
    setting!(
        "seed",
        "1",
        "N",
        "What keys, sizes and arrivals are drawn from",
        |w, v| {
            w.seed = v
                .parse()
                .map_err(|_| format!("must be a number, not {v:?}"))?;
            Ok(())
        }
    ),
];

/// What may be written for [`Arrivals`].
const ARRIVALS: &str = "constant, poisson, ramp(FROM RATE) or spike(RATE, EVERY, LENGTH)";

fn arrivals(text: &str) -> Result<Arrivals, String> {
    let (name, arguments) = quantity::call(text)?;
    match (name, &*arguments) {
        ("constant", []) => Ok(Arrivals::Constant),
        ("poisson", []) => Ok(Arrivals::Poisson),
        ("ramp", [from]) => Ok(Arrivals::Ramp {
            from: quantity::rate(from)?,
        }),
        ("spike", [rate, every, length]) => {
            let (every, length) = (quantity::time(every)?, quantity::time(length)?);
            if length.is_zero() || length >= every {
                return Err("a spike must be shorter than the time from one to the next".to_owned());
            }
            let rate = quantity::rate(rate)?;
            Ok(Arrivals::Spike {
                rate,
                every,
                length,
            })
        }
        _ => Err(format!("must be {ARRIVALS}, not {text:?}")),
    }
}

fn number(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let found = quantity::count(text)
        .ok()
        .and_then(|found| u32::try_from(found).ok());
    let found = found.filter(|found| (least..=most).contains(found));
    found.ok_or_else(|| format!("must be a number between {least} and {most}, not {text:?}"))
}
