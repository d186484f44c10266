//! Lays a workload's file and flags over the defaults, keeps where each value was written, and collects
//! all that is wrong on the way. Knows the shape of settings, not what they are for.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::fault::{Fault, Faults, Origin, nearest};
use super::table::{self, SETTINGS};
use super::{Arrivals, Workload, named, openmessaging};

/// A value as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The setting's key.
    pub key: String,
    /// Its text. Tables of configs have an entry for each config, as `config=value`.
    pub value: String,
    /// Where it was written.
    pub origin: Origin,
}

/// A workload with all that is in force, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// What the workload is called: its name among the compiled-in ones, or its file's.
    pub name: String,
    /// Its typed form.
    pub workload: Workload,
    /// What is in force, in the table's order.
    pub entries: Vec<Entry>,
}

/// Loads the workload of this name, or from this file, with flags over it.
///
/// # Errors
/// All that is wrong, at once.
pub fn load(source: &str, flags: &[(String, String)]) -> Result<Loaded, Faults> {
    let mut faults = Vec::new();
    let (name, written) = if let Some((name, text)) = named::find(source) {
        let origin = |line| Origin::Named(name, line);
        (name.to_owned(), items(text, &origin, &mut faults))
    } else {
        read_file(source, &mut faults)?
    };
    let flags = flags.iter().map(|(key, value)| Entry {
        key: key.clone(),
        value: value.clone(),
        origin: Origin::Flag(key.clone()),
    });
    let written: Vec<Entry> = written.into_iter().chain(flags).collect();
    lay(name, &written, faults)
}

fn read_file(source: &str, faults: &mut Vec<Fault>) -> Result<(String, Vec<Entry>), Faults> {
    let path = PathBuf::from(source);
    let is_file = path.extension().is_some() || source.contains('/');
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let names = || named::ALL.iter().map(|(name, _)| *name);
        let message = if is_file {
            format!("{source} cannot be read: {error}")
        } else {
            let names: Vec<&str> = names().collect();
            let names = names.join(", ");
            format!("there is no workload `{source}`, nor a file of that name; there are {names}")
        };
        Faults(vec![Fault {
            origin: Origin::Flag("workload".to_owned()),
            message,
            nearest: nearest(source, names()).map(str::to_owned),
        }])
    })?;
    let origin = |line| Origin::File(path.clone(), line);
    let yaml = path
        .extension()
        .is_some_and(|it| it == "yaml" || it == "yml");
    let items = if yaml {
        openmessaging::items(&text, &origin, faults)
    } else {
        items(&text, &origin, faults)
    };
    let stem = Path::new(source).file_stem().unwrap_or_default();
    Ok((stem.to_string_lossy().into_owned(), items))
}

/// Lays what was written over the defaults.
fn lay(name: String, written: &[Entry], mut faults: Vec<Fault>) -> Result<Loaded, Faults> {
    let mut workload = defaults();
    for entry in written {
        if let Err(fault) = apply(&mut workload, entry) {
            faults.push(fault);
        }
    }
    if faults.is_empty() {
        faults.extend(check_together(&workload, written));
    }
    if !faults.is_empty() {
        return Err(Faults(faults));
    }
    let mut entries = Vec::new();
    for setting in SETTINGS {
        let mut of_key = written.iter().filter(|entry| entry.key == setting.key);
        if setting.is_table() {
            entries.extend(of_key.cloned());
            continue;
        }
        entries.push(of_key.next_back().cloned().unwrap_or_else(|| Entry {
            key: setting.key.to_owned(),
            value: setting.default.to_owned(),
            origin: Origin::Default,
        }));
    }
    Ok(Loaded {
        name,
        workload,
        entries,
    })
}

/// The workload of which nothing was written.
pub fn defaults() -> Workload {
    let mut workload = Workload {
        description: String::new(),
        seed: 1,
        topic_prefix: String::new(),
        topics: 1,
        partitions: 1,
        replication_factor: -1,
        topic_config: Default::default(),
        keep_topics: false,
        producers: 1,
        acks: super::Acks::All,
        compression: String::new(),
        producer_config: Default::default(),
        payload_size: super::payload::SizeChoice::Fixed(1024),
        compressibility: 0.0,
        keys: super::keys::KeyChoice::None,
        rate: None,
        arrivals: Arrivals::Constant,
        in_flight: 1,
        groups: 0,
        consumers: 0,
        group_protocol: super::GroupProtocol::None,
        consumer_config: Default::default(),
        backlog_bytes: 0,
        warm_up: Default::default(),
        duration: Default::default(),
        drain: Default::default(),
        threads: 0,
    };
    for setting in SETTINGS.iter().filter(|setting| !setting.is_table()) {
        let applied = setting.apply(&mut workload, setting.default);
        assert_eq!(applied, Ok(()), "the default of {}", setting.key);
    }
    workload
}

fn apply(workload: &mut Workload, entry: &Entry) -> Result<(), Fault> {
    let Some(setting) = table::find(&entry.key) else {
        let keys = SETTINGS.iter().map(|setting| setting.key);
        return Err(Fault {
            origin: entry.origin.clone(),
            message: format!("unknown setting `{}`", entry.key),
            nearest: nearest(&entry.key, keys).map(|near| format!("`{near}`")),
        });
    };
    setting
        .apply(workload, &entry.value)
        .map_err(|problem| Fault {
            origin: entry.origin.clone(),
            message: format!("{}: {problem}", entry.key),
            nearest: None,
        })
}

/// What contradicts each other in a workload whose values are each right by themselves.
fn check_together(workload: &Workload, written: &[Entry]) -> Vec<Fault> {
    let fault = |key: &str, message: &str| Fault {
        origin: written
            .iter()
            .rfind(|entry| entry.key == key)
            .map_or(Origin::Default, |entry| entry.origin.clone()),
        message: format!("{key}: {message}"),
        nearest: None,
    };
    let mut faults = Vec::new();
    if workload.is_closed_loop() && workload.arrivals != Arrivals::Constant {
        let message = "a closed loop (rate = max) has no arrivals; give a rate";
        faults.push(fault("arrivals", message));
    }
    if workload.backlog_bytes > 0 && (workload.groups == 0 || workload.consumers == 0) {
        let message = "there are no consumers to catch up with it";
        faults.push(fault("backlog", message));
    }
    for (config, setting) in [("acks", "acks"), ("compression.type", "compression")] {
        if workload.producer_config.contains_key(config) {
            let message = format!("`{config}` is a setting of its own: `{setting}`");
            faults.push(fault("producer-config", &message));
        }
    }
    faults
}

/// The values of a TOML document in its order; what is none becomes a fault.
fn items(text: &str, origin: &dyn Fn(usize) -> Origin, faults: &mut Vec<Fault>) -> Vec<Entry> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        faults.push(Fault {
            origin: origin(line(at)),
            message: error.message().to_owned(),
            nearest: None,
        });
    }
    let mut found = Vec::new();
    for (key, value) in document.get_ref() {
        let at = line(key.span().start);
        let key = key.get_ref().to_string();
        match value.get_ref() {
            DeValue::Table(configs) if table::find(&key).is_none_or(table::Setting::is_table) => {
                flatten(&key, "", configs, &line, &mut found, faults, origin);
            }
            value => match scalar(value) {
                Some(value) => found.push((at, key, value)),
                None => faults.push(Fault {
                    origin: origin(at),
                    message: format!("{key}: must be a single value"),
                    nearest: None,
                }),
            },
        }
    }
    found.sort_by_key(|(line, ..)| *line);
    let entry = |(line, key, value)| Entry {
        key,
        value,
        origin: origin(line),
    };
    found.into_iter().map(entry).collect()
}

/// A table's configs, with the keys of tables inside it joined by dots: an unquoted `linger.ms` is
/// such a table to TOML.
fn flatten(
    key: &str,
    path: &str,
    configs: &DeTable<'_>,
    line: &impl Fn(usize) -> usize,
    found: &mut Vec<(usize, String, String)>,
    faults: &mut Vec<Fault>,
    origin: &dyn Fn(usize) -> Origin,
) {
    for (config, value) in configs {
        let dot = if path.is_empty() { "" } else { "." };
        let name = format!("{path}{dot}{}", config.get_ref());
        let at = line(config.span().start);
        match value.get_ref() {
            DeValue::Table(inner) => flatten(key, &name, inner, line, found, faults, origin),
            value => match scalar(value) {
                Some(value) => found.push((at, key.to_owned(), format!("{name}={value}"))),
                None => faults.push(Fault {
                    origin: origin(at),
                    message: format!("{key}: {name} must be a single value"),
                    nearest: None,
                }),
            },
        }
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().replace('_', "")),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::workload::keys::KeyChoice;

    fn read(text: &str, flags: &[(&str, &str)]) -> Result<Loaded, Faults> {
        let mut faults = Vec::new();
        let origin = |line| Origin::File(PathBuf::from("w.toml"), line);
        let mut written = items(text, &origin, &mut faults);
        written.extend(flags.iter().map(|(key, value)| Entry {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
            origin: Origin::Flag((*key).to_owned()),
        }));
        lay("w".to_owned(), &written, faults)
    }

    #[test]
    fn every_named_workload_loads_and_says_what_it_is() {
        for (name, _) in named::ALL {
            let loaded = load(name, &[]).unwrap_or_else(|faults| panic!("{faults}"));
            assert_eq!(loaded.name, *name);
            assert!(!loaded.workload.description.is_empty(), "{name}");
        }
    }

    #[test]
    fn flags_lie_over_the_file_and_the_file_over_the_defaults() {
        let file = "rate = \"5k/s\"\npartitions = 3\n[producer-config]\nlinger.ms = 7\n";
        let flags = [("rate", "9k/s"), ("producer-config", "batch.size=100")];
        let loaded = read(file, &flags).expect("right");
        assert_eq!(loaded.workload.rate, Some(9_000.0));
        assert_eq!(loaded.workload.partitions, 3);
        assert_eq!(loaded.workload.duration, Duration::from_secs(30));
        assert_eq!(loaded.workload.producer_config["linger.ms"], "7");
        assert_eq!(loaded.workload.producer_config["batch.size"], "100");
        let partitions = loaded
            .entries
            .iter()
            .find(|entry| entry.key == "partitions");
        let origin = partitions.map(|entry| entry.origin.to_string());
        assert_eq!(origin.as_deref(), Some("w.toml:2"));
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once_with_its_line_and_the_nearest_name() {
        let file = "partitons = 3\nrate = \"fast\"\nkeys = [1]\n";
        let faults = read(file, &[("warmup", "5s")]).expect_err("wrong");
        let said = faults.to_string();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            lines[..2],
            [
                "w.toml:3: keys: must be a single value",
                "w.toml:1: unknown setting `partitons`; did you mean `partitions`?",
            ]
        );
        assert!(
            lines[2].starts_with("w.toml:2: rate: must be records per second"),
            "{said}"
        );
        assert_eq!(
            lines[3],
            "flag --warmup: unknown setting `warmup`; did you mean `warm-up`?"
        );
    }

    #[test]
    fn an_unknown_workload_is_answered_with_the_nearest_and_all_names() {
        let said = load("stedy", &[])
            .expect_err("no such workload")
            .to_string();
        assert!(said.contains("bulk-64k"), "{said}");
        assert!(said.ends_with("did you mean steady?"), "{said}");
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let said = read("arrivals = \"poisson\"", &[])
            .expect_err("closed")
            .to_string();
        assert!(said.contains("give a rate"), "{said}");
        let said = read("backlog = \"1GiB\"\ngroups = 0", &[]).expect_err("no consumers");
        assert!(said.to_string().contains("no consumers"), "{said}");
        let said = read("[producer-config]\nacks = 1", &[]).expect_err("twice");
        assert!(said.to_string().contains("setting of its own"), "{said}");
    }

    #[test]
    fn an_openmessaging_file_is_read() {
        let text = "name: 1 topic, 16 partitions\ntopics: 1\npartitionsPerTopic: 16\n\
                    keyDistributor: \"KEY_ROUND_ROBIN\"\nmessageSize: 1024\nproducerRate: 50000\n\
                    subscriptionsPerTopic: 2\nconsumerPerSubscription: 4\nproducersPerTopic: 3\n\
                    testDurationMinutes: 15\nwarmupDurationMinutes: 1\nconsumerBacklogSizeGB: 0\n";
        let mut faults = Vec::new();
        let origin = |line| Origin::File(PathBuf::from("w.yaml"), line);
        let written = openmessaging::items(text, &origin, &mut faults);
        let loaded = lay("w".to_owned(), &written, faults).expect("right");
        let workload = loaded.workload;
        assert_eq!(workload.description, "1 topic, 16 partitions");
        assert_eq!((workload.partitions, workload.producers), (16, 3));
        assert_eq!((workload.groups, workload.consumers), (2, 4));
        assert_eq!(workload.rate, Some(50_000.0));
        assert_eq!(workload.duration, Duration::from_secs(900));
        assert!(matches!(workload.keys, KeyChoice::Uniform { .. }));
    }
}
